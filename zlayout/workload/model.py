"""The data classes of a workload: its queries, their scans with predicates, and the unused conditions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from zlayout.predicate.model import Predicate

MAX_TEXT = 200  # characters of an unused condition


class Dialect(StrEnum):
    """The dialects of SQL that can be read, as sqlglot names them."""

    SPARK = "spark"
    DATABRICKS = "databricks"
    TRINO = "trino"
    ATHENA = "athena"
    SNOWFLAKE = "snowflake"
    BIGQUERY = "bigquery"
    DUCKDB = "duckdb"


class UnreadableError(Exception):
    """A statement or a filter cannot be read, for the reason in the message."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One statement of a workload. Two queries are equal only if they are the same object.

    Attributes:
        text: The statement as written; empty if only its scans are known.
        location: `file:line`, which several queries may share.
        weight: The number of its executions, relative to the other queries; above 0.
        time: When it was executed (UTC, naive), to which `current_date()` is set; None if it is unknown.
        days: The number of days in which the executions took place; None if it is unknown.
    """

    text: str
    location: str
    weight: float = 1.0
    time: datetime | None = None
    days: float | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """One query's read of one table. A query that names a table twice has two scans of it.

    Attributes:
        table: The dotted name as written, in lower case, or the storage location as written.
        predicate: A condition that is true for every row that the query needs from this table; None if the query has no
            such condition that can be used. Literals have the type in which they are written: a string that is compared
            with a date column is a string.
        through: Further such conditions, which contain `InKeys`: those on other tables, through joins.
        of_partitions: A further such condition, by which the engine skips only whole partitions; None for no such one.
    """

    query: Query
    table: str
    predicate: Predicate | None
    through: tuple[Predicate, ...] = ()
    of_partitions: Predicate | None = None


@dataclass(frozen=True, slots=True)
class Unused:
    """A condition, or a whole statement, that cannot be used for pruning.

    Attributes:
        text: The condition or the statement as SQL, at most MAX_TEXT characters.
        reason: Why it cannot be used.
        tables: The names of the tables whose rows it limits, as in `Scan`; None if they are unknown, so that it may
            limit the rows of each table of the query.
    """

    query: Query
    text: str
    reason: str
    tables: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Inverted:
    """A condition on a function of a column that is used as a condition on the column.

    Attributes:
        text: The condition of the query as SQL, at most MAX_TEXT characters.
        as_text: The condition on the column as SQL.
        table: The name of the table of the column, as in `Scan`.
    """

    query: Query
    text: str
    as_text: str
    table: str


@dataclass(frozen=True, slots=True)
class Workload:
    """The content of workload files.

    Attributes:
        scans, unused, inverted: Those of all queries, in the order of the queries.
        queries: The number of queries.
        unread: The statements that cannot be parsed, which have no scans.
        assumed_time: The time (UTC, naive) to which `current_date()` is set in queries without a time of their own;
            None if no query refers to it.
    """

    scans: tuple[Scan, ...]
    unused: tuple[Unused, ...]
    queries: int
    inverted: tuple[Inverted, ...] = ()
    unread: tuple[Query, ...] = ()
    assumed_time: datetime | None = None
