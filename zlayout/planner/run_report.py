"""The input of every report: `RunReport`, which is a plan with its table results and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from zlayout.errors import Diagnostic, ZlayoutError
from zlayout.planner.model import Count, Histogram, Limited, Plan, TablePlan

# The picture of a table for the HTML report. It shows a sample of the files.
#
# A position is an integer from 0 to 1000: the share of rows below a bound, in thousandths. Positions show how files lie
# relative to each other, but no values of rows.


SCALE = 1000


@dataclass(frozen=True, slots=True)
class Boxes:
    """The files of one partition, as boxes over one or two z-order columns."""

    positions: Annotated[tuple[Count, ...], Limited(max_length=40_000)]
    """Four positions per box: left, right, bottom, top. With one column, boxes are stacked from bottom to top."""
    files: Count
    """The number of files of the partition."""
    coarse: bool = False
    """Whether each box represents several predicted files. If not, each box is one file of a sample."""

    @property
    def count(self) -> int:
        return len(self.positions) // 4


@dataclass(frozen=True, slots=True)
class StripBin:
    """Neighbouring partitions that are drawn as one rectangle."""

    label: str
    """The names of the first and the last of these partitions."""
    partitions: Count
    """The number of partitions."""
    files: Count
    """The number of files in these partitions."""
    rewritten: Count
    """The number of these files that the plan rewrites."""
    excess: float
    """The highest touched ratio of these partitions, by theory; 1 is best."""


Strip = Annotated[tuple[StripBin, ...], Limited(max_length=10_000)]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the layout of one table."""

    columns: Annotated[tuple[str, ...], Limited(min_length=1, max_length=2)]
    """The first two z-order columns."""
    partition: str
    """The partition whose files are drawn; empty for an unpartitioned table."""
    before: Boxes
    """The present files."""
    after: Boxes | None
    """The files after the rewrite, from sampled rows or from file bounds; null if they are not known."""
    strip: Strip
    """The partitions, sorted by name; empty for a table with one partition."""
    sizes_after: Histogram
    """The predicted number of files per class of size; empty if nothing is rewritten."""
    partition_number: Count = 0
    """The number of the partition, as in `RewriteGroup`; 0 for an unpartitioned table."""
    sampled: bool = False
    """Whether `after` was predicted from sampled rows. If not, it is an illustration from bounds alone."""


# The result of apply for one table.


class ResultStatus(StrEnum):
    """The state of a table after apply.

    Attributes:
        WITHIN_BUDGET: Everything that the budget allows is done.
        OUT_OF_TIME: The time limit left no time for some groups.
        AS_PLANNED: All of the plan is carried out. What is left to do comes with time: files that other writers have
            added, or rows that they have deleted.
        HOT: Everything is done except for groups that wait because their partitions are hot.
        NOT_YET: Some groups conflicted with concurrent changes.
        UNKNOWN: A commit outcome is unknown, or the table could not be read again.
    """

    AS_DECLARED = "as_declared"
    WITHIN_BUDGET = "within_budget"
    OUT_OF_TIME = "out_of_time"
    AS_PLANNED = "as_planned"
    HOT = "hot"
    NOT_YET = "not_yet"
    FAILED = "failed"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"

    @property
    def succeeded(self) -> bool:
        """Whether the table is as declared, or as near to it as the plan and the limits of the run allow."""
        limited = (ResultStatus.WITHIN_BUDGET, ResultStatus.OUT_OF_TIME, ResultStatus.HOT, ResultStatus.AS_PLANNED)
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
    rebased_rows: Count = 0
    """The number of rows that other writers deleted while they were rewritten, and that commits of the run deleted."""
    rebased_commits: Count = 0
    """The number of commits that deleted such rows."""
    rebased_share: float = 0.0
    """The share of the rows in the files of these commits, which readers skip until the next rewrite."""

    @property
    def succeeded(self) -> bool:
        """Whether the table is as declared, or as near to it as the limits of the run allow."""
        return self.outcome.succeeded


@dataclass(frozen=True, slots=True)
class RunReport:
    """A plan with its table results and pictures.

    Attributes:
        plan: The plan.
        results: What apply did to each table, by table name; empty if the plan was not applied.
        pictures: The pictures for the HTML report, by table name; only of tables that were drawn.
        trends: The trend of each table, by table name; only of tables with history records. Not in plan documents.
        drift: Whether this is a report of `drift`, which states how tables differ from their specs and not what apply
            would do. Not in plan documents.
        after: The plan that was made of each table after the run, by table name; only of tables for which the run got
            that far. Not in plan documents.
        errors: The exception that ended the work on a table, by table name. Not in plan documents.
    """

    plan: Plan
    results: Mapping[str, TableResult] = field(default_factory=dict)
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    trends: Mapping[str, Trend] = field(default_factory=dict)
    drift: bool = False
    after: Mapping[str, TablePlan] = field(default_factory=dict)
    errors: Mapping[str, ZlayoutError] = field(default_factory=dict)

    def __repr__(self) -> str:
        outcomes = Counter(result.outcome.value for result in self.results.values())
        ended = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
        return f"<{type(self).__name__}: {len(self.plan.tables):,} planned, {ended or 'none applied'}>"

    @classmethod
    def of(cls, shown: Plan | RunReport) -> RunReport:
        """Return `shown` if it is a run report. Return a run report without results and pictures if it is a plan."""
        return shown if isinstance(shown, RunReport) else cls(shown)

    def is_open(self, table: TablePlan) -> bool:
        """Return whether the table is not known to be as declared. Its result decides, or without one its plan."""
        if (result := self.results.get(table.table)) is not None:
            return not result.succeeded
        return not table.as_declared

    @property
    def failed(self) -> Mapping[str, tuple[Diagnostic, ...]]:
        """The problems of each table for which `is_open` is true: those of its result, or without one of its plan."""
        found = {}
        for table in filter(self.is_open, self.plan.tables):
            result = self.results.get(table.table)
            problems = table.diagnostics if result is None else result.problems
            found[table.table] = problems or (_changed(table.table),)
        return found


def _changed(table: str) -> Diagnostic:
    message = f"{table}: the table needs other changes than were planned, because it changed since the plan"
    return Diagnostic("ZL320", message, hint="plan and apply again; `RunReport.after` has the plan after the run")


@dataclass(frozen=True, slots=True)
class Trend:
    """Touched of the z-order columns of one table over its history records.

    Attributes:
        times: Seconds since 1970 in UTC, ascending.
        columns: Touched of each column at each of the times, by column name; None where it is unknown.
    """

    times: tuple[float, ...]
    columns: Mapping[str, tuple[float | None, ...]]
