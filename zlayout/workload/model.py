"""A workload: which tables its queries read, with which predicates, how often, and what could not be used."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from zlayout.predicate.model import Predicate

MAX_TEXT = 200  # characters of an unused condition


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One statement as written, or without text where only its scans are known.

    place: `file:line`, which may be that of other queries too; each is equal only to itself. weight: how often it runs,
    relative to the others, above 0.
    """

    text: str
    place: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Scan:
    """One query's reading of one table, once for each time that the table stands in the query.

    table: the name as written, dotted, in lower case. predicate: what every row that the query needs from this table
    fulfils, None if nothing is known and all files are read. Literals are typed as written: text compared with a date
    column stays text.
    """

    query: Query
    table: str
    predicate: Predicate | None


@dataclass(frozen=True, slots=True)
class Unused:
    """A condition, or a whole statement, that says nothing about files. text: the SQL, cut at 200 characters."""

    query: Query
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Workload:
    """scans and unused in the order of the queries. queries: how many statements were read."""

    scans: tuple[Scan, ...]
    unused: tuple[Unused, ...]
    queries: int

    def reasons(self) -> dict[str, int]:
        """How many conditions or statements were not used for each reason, the most frequent first."""
        return dict(Counter(u.reason for u in self.unused).most_common())
