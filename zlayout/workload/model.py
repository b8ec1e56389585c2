"""The data of a workload: the scans of its queries, with predicates and weights, and the unused conditions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from zlayout.predicate.model import Predicate

MAX_TEXT = 200  # characters of an unused condition


class UnreadableError(Exception):
    """A statement cannot be read, for the reason in the message."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One statement of a workload. Two queries are equal only if they are the same object.

    text: the statement as written, empty if only its scans are known. location: `file:line`, which is not unique.
    weight: how often it runs, relative to the other queries; above 0. time: when it ran (UTC, naive), which is what
    `current_date()` means in it; None if the workload has no time. days: the number of days in which it ran as often
    as its weight; None if it is unknown.
    """

    text: str
    location: str
    weight: float = 1.0
    time: datetime | None = None
    days: float | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """One query's read of one table. A query that names a table twice has two scans of it.

    table: the dotted name as written, in lower case. predicate: true for every row that the query needs from this
    table; None if the query needs all rows. Its literals have the type in which they are written: a string that is
    compared with a date column is a string.
    """

    query: Query
    table: str
    predicate: Predicate | None


@dataclass(frozen=True, slots=True)
class Unused:
    """A condition, or a whole statement, that cannot be used for pruning.

    text: SQL, at most MAX_TEXT characters. tables: the names of the tables whose rows it limits, as in `Scan`; None if
    they are unknown, so that it may limit each table of the query.
    """

    query: Query
    text: str
    reason: str
    tables: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Inverted:
    """A condition on a function of a column that is used as a condition on the column. text: SQL. as_text: its form."""

    query: Query
    text: str
    as_text: str
    table: str


@dataclass(frozen=True, slots=True)
class Workload:
    """The content of workload files.

    scans, unused, inverted: in the order of the queries. queries: the number of queries. unread: the statements that
    cannot be parsed, which have no scans. assumed_time: the time (UTC, naive) that `current_date()` means in queries
    without a time; None if no query refers to it.
    """

    scans: tuple[Scan, ...]
    unused: tuple[Unused, ...]
    queries: int
    inverted: tuple[Inverted, ...] = ()
    unread: tuple[Query, ...] = ()
    assumed_time: datetime | None = None

    def reasons(self) -> dict[str, int]:
        """The number of unused conditions and statements for each reason, the most frequent first."""
        return dict(Counter(u.reason for u in self.unused).most_common())
