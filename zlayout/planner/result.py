"""What apply did to one table, as plain data beside what was planned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zlayout.errors import Diagnostic
from zlayout.planner.fields import Count, Histogram
from zlayout.planner.picture import Boxes, Strip


class Outcome(StrEnum):
    """The state in which apply left a table.

    WITHIN_BUDGET: all that a byte budget allowed is done. NOT_YET: some groups met concurrent changes. UNKNOWN: a
    commit outcome is unknown, or the table could not be read again.
    """

    AS_DECLARED = "as_declared"
    WITHIN_BUDGET = "within_budget"
    NOT_YET = "not_yet"
    FAILED = "failed"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class MeasuredColumn:
    """The metrics of one z-order column, measured after the run."""

    column: str
    """The column."""
    touched: float
    """Files that a query for one value opens."""
    depth: float
    """Files that share one value."""
    overlaps: float
    """Files that overlap with a file."""
    depth_histogram: Histogram
    """Number of files per class of depth."""


@dataclass(frozen=True, slots=True)
class TableResult:
    """What an apply did to one table."""

    run_id: str
    """The id of the run, which the table records with each commit."""
    outcome: Outcome
    """How the run left the table."""
    commits: Count
    """The number of commits."""
    files_removed: Count
    """The number of files that rewrites removed."""
    files_added: Count
    """The number of files that rewrites added."""
    bytes_added: Count
    """The size of the added files on disk."""
    problems: tuple[Diagnostic, ...] = ()
    """What went wrong; empty where the table is as declared now."""
    columns: tuple[MeasuredColumn, ...] = ()
    """The metrics after the run; empty where the table was not measured again."""
    size_histogram: Histogram = ()
    """Number of files per class of size after the run; empty likewise."""
    boxes: Boxes | None = None
    """The files after the run, for the HTML report; null where they were not drawn."""
    strip: Strip = ()
    """The partitions after the run, for the HTML report; empty likewise."""

    @property
    def succeeded(self) -> bool:
        """Whether the table is as declared, or as far as a byte budget allows."""
        return self.outcome in (Outcome.AS_DECLARED, Outcome.WITHIN_BUDGET)
