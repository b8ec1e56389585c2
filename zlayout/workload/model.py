"""A workload: the tables that its queries read, with predicates and weights, and the unused conditions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from zlayout.predicate.model import Predicate

MAX_TEXT = 200  # characters of an unused condition


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One statement as written, or without text if only its scans are known. Each is equal only to itself.

    location: `file:line`, which several queries may share. weight: how often it runs, relative to others, above 0.
    """

    text: str
    location: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Scan:
    """One query's read of one table; a query has one for each occurrence of the table.

    table: the dotted name as written, in lower case. predicate: true for every row that the query needs from this
    table; None if nothing is known and all files are read. Literals have the type in which they are written: a string
    compared with a date column stays a string.
    """

    query: Query
    table: str
    predicate: Predicate | None


@dataclass(frozen=True, slots=True)
class Unused:
    """A condition, or a whole statement, that cannot be used for pruning. text: SQL, at most MAX_TEXT characters."""

    query: Query
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Workload:
    """scans, unused: in the order of the queries. queries: the number of statements that were read."""

    scans: tuple[Scan, ...]
    unused: tuple[Unused, ...]
    queries: int

    def reasons(self) -> dict[str, int]:
        """The number of unused conditions and statements for each reason, the most frequent first."""
        return dict(Counter(u.reason for u in self.unused).most_common())
