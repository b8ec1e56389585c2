"""What other writers did to a table: its external ordering, and their rewrites of files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from zlayout.errors import Diagnostic

MAX_HISTORY_TEXT = 100  # characters of an operation or an engine in the history of a table
# In milliseconds. The times of files and commits are from the clocks of several writers, which may differ by a day.
MAX_CLOCK_SKEW = 24 * 60 * 60 * 1000
MAX_MILLISECONDS = 253_402_300_799_000  # the end of the year 9999


@dataclass(frozen=True, slots=True)
class Ordering:
    """The external ordering of a table.

    Attributes:
        columns: The columns by which files are ordered.
        curve: The curve.
        source: Where the table records the ordering, for messages.
    """

    columns: tuple[str, ...]
    curve: str
    source: str


@dataclass(frozen=True, slots=True)
class ExternalRewrite:
    """Rewrites of files by one other writer since the last rewrite by zlayout.

    Attributes:
        operation: The operation, as the history of the table names it.
        version: The version of the newest commit.
        engine: The engine that made the commits; '' if unknown.
        time: The time of the newest commit (UTC, naive); None if it is not recorded.
        commits: The number of commits.
        maintenance: Whether the operation keeps all rows. Others change rows, or restore an earlier version.
    """

    operation: str
    version: int
    engine: str
    time: datetime | None
    commits: int = 1
    maintenance: bool = True


def external_rewrites(newest_first: Iterable[ExternalRewrite]) -> tuple[ExternalRewrite, ...]:
    """Merge the rewrites that have the same operation and engine. The result has the newest first, too."""
    found: dict[tuple[str, str], ExternalRewrite] = {}
    for one in newest_first:
        key = (one.operation[:MAX_HISTORY_TEXT], one.engine[:MAX_HISTORY_TEXT])
        known = found.get(key, replace(one, operation=key[0], engine=key[1], commits=0))
        found[key] = replace(known, commits=known.commits + one.commits)
    return tuple(found.values())


def maintained_by(service: str, switch_off: str) -> Diagnostic:
    """Return ZL433: a service rewrites files of the table by itself. switch_off: what disables it, imperative."""
    message = f"{service} rewrites files of the table too, and may undo its layout"
    return Diagnostic("ZL433", message, "warning", f"{switch_off}, or remove the layout of the table")


def instant_of_milliseconds(value: object) -> datetime | None:
    """The time (UTC, naive) that is `value` milliseconds after 1970; None for anything else than such a number."""
    if type(value) is not int or not 0 <= value < MAX_MILLISECONDS:
        return None
    return datetime(1970, 1, 1) + timedelta(milliseconds=value)
