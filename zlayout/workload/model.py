"""The data of a workload: the scans of its queries, with predicates and weights, and the unused conditions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from zlayout.predicate.model import Predicate

MAX_TEXT = 200  # characters of an unused condition


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One statement of a workload. Two queries are equal only if they are the same object.

    text: the statement as written, empty if only its scans are known. location: `file:line`, which is not unique.
    weight: how often it runs, relative to the other queries; above 0.
    """

    text: str
    location: str
    weight: float = 1.0


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
    """A condition, or a whole statement, that cannot be used for pruning. text: SQL, at most MAX_TEXT characters."""

    query: Query
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Workload:
    """The content of workload files. scans, unused: in the order of the queries. queries: the number of queries."""

    scans: tuple[Scan, ...]
    unused: tuple[Unused, ...]
    queries: int

    def reasons(self) -> dict[str, int]:
        """The number of unused conditions and statements for each reason, the most frequent first."""
        return dict(Counter(u.reason for u in self.unused).most_common())
