"""The records of query histories, and the problems of their lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from zlayout.errors import Location


@dataclass(frozen=True, slots=True)
class Executed:
    """One statement that an engine executed, or one scan that it reported.

    Attributes:
        text: The SQL text.
        dialect: The dialect of the text, as sqlglot names it.
        location: The file and the line of the record.
        count: The number of executions.
        catalog, schema: Where the session found tables without a catalog or a schema; may be empty.
    """

    text: str
    dialect: str
    location: Location
    count: float = 1.0
    catalog: str = ""
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that cannot be read, and the reason."""

    location: Location
    reason: str


@dataclass(slots=True)
class History:
    """The records of history files.

    Attributes:
        executed: The statements and scans.
        problems: The records that cannot be read.
        left_out: The number of records by the reason for which they are no part of a workload, such as failed queries.
    """

    executed: list[Executed] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
