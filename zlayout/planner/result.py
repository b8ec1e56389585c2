"""The result of apply for one table, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zlayout.errors import Diagnostic
from zlayout.planner.fields import Count, Histogram
from zlayout.planner.picture import Boxes, Strip


class ResultStatus(StrEnum):
    """The state of a table after apply.

    Attributes:
        WITHIN_BUDGET: Everything that the budget allows is done.
        OUT_OF_TIME: The time limit left no time for some groups.
        HOT: Everything is done except for groups that wait because their partitions are hot.
        NOT_YET: Some groups conflicted with concurrent changes.
        UNKNOWN: A commit outcome is unknown, or the table could not be read again.
    """

    AS_DECLARED = "as_declared"
    WITHIN_BUDGET = "within_budget"
    OUT_OF_TIME = "out_of_time"
    HOT = "hot"
    NOT_YET = "not_yet"
    FAILED = "failed"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"

    @property
    def succeeded(self) -> bool:
        """Whether the table is as declared, or as near to it as the limits of the run allow."""
        limited = (ResultStatus.WITHIN_BUDGET, ResultStatus.OUT_OF_TIME, ResultStatus.HOT)
        return self is ResultStatus.AS_DECLARED or self in limited


@dataclass(frozen=True, slots=True)
class MeasuredColumn:
    """The metrics of one z-order column, measured after the run."""

    column: str
    """The column."""
    touched: float
    """The expected number of files that a query for one value opens."""
    depth: float
    """For each file, the largest number of files that share one value of its interval; mean over files."""
    overlaps: float
    """For each file, the number of other files whose interval intersects its own; mean over files."""
    depth_histogram: Histogram
    """Number of files per class of depth."""
    predicted: float | None = None
    """The forecast of `touched` from the sample of the run; null without a sample."""
    bytes_read: Count = 0
    """The expected size, in bytes, of the files that a query for one value opens."""


@dataclass(frozen=True, slots=True)
class TableResult:
    """What one run did to one table, and the metrics of the table afterwards."""

    run_id: str
    """The run id, which is stored with each commit."""
    outcome: ResultStatus
    """The state of the table after the run."""
    commits: Count
    """The number of commits."""
    files_removed: Count
    """The number of files that rewrites removed."""
    files_added: Count
    """The number of files that rewrites added."""
    bytes_added: Count
    """The size of the added files in bytes."""
    problems: tuple[Diagnostic, ...] = ()
    """Errors and refusals of the run; empty if the table is as declared."""
    columns: tuple[MeasuredColumn, ...] = ()
    """The metrics after the run; empty if the table was not measured again."""
    size_histogram: Histogram = ()
    """The number of files per class of size after the run; empty if the table was not measured again."""
    boxes: Boxes | None = None
    """The files after the run, for the HTML report; null if they were not drawn."""
    strip: Strip = ()
    """The partitions after the run, for the HTML report; empty if they were not drawn."""
    bytes_removed: Count = 0
    """The size, in bytes, of the files that rewrites removed. They stay on storage until old versions expire."""
    rollback: str = ""
    """The command that undoes the rewrites of the run; empty if there is none."""
    deferred_groups: Count = 0
    """The number of groups for which the time limit left no time."""
    deferred_bytes: Count = 0
    """The size of the files in these groups, in bytes."""

    @property
    def succeeded(self) -> bool:
        """Whether the table is as declared, or as near to it as the limits of the run allow."""
        return self.outcome.succeeded
