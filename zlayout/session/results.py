"""The results of `apply`: what it did to each table, report pictures, the exit code, and the events of a run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from zlayout.errors import CommitUnknown, Diagnostic, EngineError, Refused, ZlayoutError
from zlayout.formats.base import Commit, Event, GroupFailed, Notice, Progress
from zlayout.formats.undo import is_excluded
from zlayout.planner.clustering import undo_refusals
from zlayout.planner.model import DECAY_REASONS, Plan, RewriteGroup, Status, TablePlan
from zlayout.planner.run_report import Boxes, MeasuredColumn, Picture, ResultStatus, RunReport, StripBin, TableResult
from zlayout.planner.work import PlannedTable

# The pictures of a report, drawn from observed tables.


# A page with more pictures is slow to load.
MAX_PICTURES = 50
# Drawing a larger table takes about as long as planning it, so plan files have no pictures of larger tables.
MAX_FILES_DRAWN_IN_PLAN_FILE = 200_000


def with_pictures(plan: Plan, planned: Sequence[PlannedTable], max_files: int | None = None) -> RunReport:
    """Draw at most MAX_PICTURES tables: those with most bytes to rewrite, then those with most files.

    max_files: Tables with more files are not drawn; None for no limit.
    """
    drawn = [p for p in planned if p.spec.layout.orders]
    readable = {p.plan.table: p for p in drawn if p.state is not None and len(p.state.files)}
    if max_files is not None:
        readable = {name: p for name, p in readable.items() if p.plan.files <= max_files}
    tables = (t for t in plan.tables if t.table in readable and t.status is not Status.ERROR)
    order = sorted(tables, key=lambda t: (-t.rewrite_bytes, -t.files))
    return RunReport(plan, pictures={t.table: _picture_of(t, readable[t.table]) for t in order[:MAX_PICTURES]})


def _picture_of(table: TablePlan, planned: PlannedTable) -> Picture:
    from zlayout.planner.drawing import draw  # imported here because only reports have pictures

    assert planned.state is not None
    known = any(c.predicted is not None or c.high is not None for c in table.columns)
    predictable = known and table.partitioning is None
    return draw(planned.spec, planned.state, planned.groups, predictable=predictable, after=planned.after)


def drawn_again(before: Picture | None, again: PlannedTable) -> tuple[Boxes | None, tuple[StripBin, ...]]:
    """Draw the boxes and the strip of a table again after its run, for the same partition as before.

    Nothing is drawn if there was no picture before, or if the spec no longer fits the table.
    """
    if before is None or again.plan.status is Status.ERROR:
        return None, ()
    if again.state is None or not len(again.state.files):
        return None, ()
    from zlayout.planner.drawing import boxes_of, strip

    files = again.state.files
    nothing = files.bytes < 0
    return boxes_of(again.spec, files, before.partition), strip(again.spec, files, nothing)


# What `apply` did, and the results that are made from it.


# The exit code of a run that refused some tables and changed others.
PARTLY_REFUSED = 4
Verify = Literal["gate", "full"]


@dataclass(slots=True)
class Applied:
    """What apply did to one table so far. It is filled in during the run.

    Attributes:
        run_id: The run id, which is stored with each commit.
        branch: The branch of the table; empty for main.
        failures: The groups that failed so far.
        error: The error that ended the work on the table; None if there was none.
        after: The plan that was made after the run; None if the run did not get that far.
        again: The observed table and the decision of `after`.
        within_budget: Whether everything that the budget allows is done.
        complete: Whether all of the plan was carried out, perhaps after conflicts, and each group that is left to do
            has files or deleted rows that came after the plan.
        interrupted: Whether a signal ended the run at this table.
        forgotten: Whether a failed group needs longer bounds, and the planner can no longer detect this, because the
            property that makes bounds longer is already set (docs/adr/0004-cut-bounds.md).
        predictions: Waits for the forecast of touched by z-order column, from a sample for the plan that was carried
            out.
        deferred: The groups for which the time limit of the run left no time.
        begun: Whether the run started with the table; false if the time limit left no time for any part of it.
        undoable: Whether a rollback of the run will be possible, as far as the plan shows.
    """

    table: str
    run_id: str
    branch: str = ""
    commits: list[Commit] = field(default_factory=list)
    failures: list[GroupFailed] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    error: ZlayoutError | None = None
    after: TablePlan | None = None
    again: PlannedTable | None = None
    within_budget: bool = False
    complete: bool = False
    interrupted: bool = False
    forgotten: bool = False
    predictions: Callable[[], Mapping[str, float]] = dict
    deferred: tuple[RewriteGroup, ...] = ()
    begun: bool = True
    undoable: bool = True

    @property
    def exit_code(self) -> int:
        """The exit code of a run of this table alone."""
        if self.error is not None:
            return self.error.exit_code
        if self.after is not None and self.after.status is Status.REFUSED and not self.forgotten:
            return Refused.exit_code
        return 0 if _result_status(self).succeeded else 1

    @property
    def waits(self) -> bool:
        """Whether everything is done except for groups that wait, and not for a budget."""
        return self.after is not None and self.after.waits

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit of the run left no time for some groups."""
        return not self.begun or bool(self.deferred)


def with_results(shown: Plan | RunReport, done: Sequence[Applied]) -> RunReport:
    """Add the results of the tables that `apply` began or deferred. Tables with a picture are drawn again."""
    report = RunReport.of(shown)
    results = {applied.table: _drawn(report.pictures.get(applied.table), applied) for applied in done}
    after = {applied.table: applied.after for applied in done if applied.after is not None}
    errors = {applied.table: applied.error for applied in done if applied.error is not None}
    return replace(report, results=results, after=after, errors=errors)


def _drawn(before: Picture | None, applied: Applied) -> TableResult:
    result = result_of(applied)
    if applied.again is None:
        return result
    boxes, strip = drawn_again(before, applied.again)
    return replace(result, boxes=boxes, strip=strip)


def result_of(applied: Applied) -> TableResult:
    """Make the result of one table, with its metrics after the run."""
    rewrites = [c for c in applied.commits if c.kind == "rewrite"]
    rebased = [c for c in rewrites if c.rebased]
    rebased_rows = sum(c.rebased for c in rebased)
    after = applied.after
    predicted = applied.predictions() if after else {}
    return TableResult(
        run_id=applied.run_id,
        outcome=_result_status(applied),
        commits=len(applied.commits),
        files_removed=sum(c.files_removed for c in rewrites),
        files_added=sum(c.files_added for c in rewrites),
        bytes_added=sum(c.bytes_added for c in rewrites),
        bytes_removed=sum(c.bytes_removed for c in rewrites),
        problems=_problems(applied),
        columns=tuple(
            MeasuredColumn(
                c.column,
                c.touched,
                c.depth,
                c.overlaps,
                c.depth_histogram,
                predicted.get(c.column),
                c.bytes_read.now,
            )
            for c in (after.columns if after else ())
        ),
        size_histogram=after.size_histogram if after else (),
        rollback=_rollback(applied) if rewrites and not applied.branch else "",
        deferred_groups=len(applied.deferred),
        deferred_bytes=sum(group.bytes for group in applied.deferred),
        rebased_rows=rebased_rows,
        rebased_commits=len(rebased),
        rebased_share=rebased_rows / (rebased_rows + sum(c.rows for c in rebased)) if rebased else 0.0,
    )


def _rollback(applied: Applied) -> str:
    state = applied.again.state if applied.again else None
    if not applied.undoable or (state and undo_refusals(state)):
        return ""
    return f"zlayout rollback {applied.table} --run {applied.run_id}"


def _result_status(applied: Applied) -> ResultStatus:
    if isinstance(applied.error, CommitUnknown):
        return ResultStatus.UNKNOWN
    if applied.interrupted:
        return ResultStatus.INTERRUPTED
    if applied.error is not None:
        return ResultStatus.FAILED
    if not applied.begun:
        return ResultStatus.OUT_OF_TIME
    if applied.after is None or applied.after.status is Status.ERROR:
        return ResultStatus.UNKNOWN
    if applied.forgotten:
        return ResultStatus.NOT_YET
    if applied.after.status is Status.UNCHANGED:
        return ResultStatus.AS_DECLARED
    if applied.out_of_time:
        return ResultStatus.OUT_OF_TIME
    if applied.waits:
        return ResultStatus.HOT
    if applied.within_budget:
        return ResultStatus.WITHIN_BUDGET
    if applied.complete and _only_decay(applied.after):
        return ResultStatus.AS_PLANNED
    return ResultStatus.NOT_YET


def _only_decay(table: TablePlan) -> bool:
    """Return whether a table that is not as declared only lacks what other writers have added."""
    reasons = {group.reason for group in table.groups}
    return table.status is Status.CHANGES and not table.alters and reasons.issubset(DECAY_REASONS)


def _problems(applied: Applied) -> tuple[Diagnostic, ...]:
    if applied.interrupted and not isinstance(applied.error, CommitUnknown):
        # The error of a cancelled Spark job contains nothing new for the person who cancelled it.
        return ()
    problems = list(applied.error.diagnostics) if applied.error else []
    if not _result_status(applied).succeeded:
        problems += [d for failure in applied.failures for d in failure.error.diagnostics]
    if applied.after is not None and applied.after.status in (Status.ERROR, Status.REFUSED):
        # why the table could not be read again, or must not be changed further
        problems += [d for d in applied.after.diagnostics if d.severity not in ("warning", "note")]
    return tuple(dict.fromkeys(problems))  # each attempt may have failed for the same reason


def exit_code(plan: Plan, done: Sequence[Applied]) -> int:
    """Return the exit code of a run, from those of the plan and of the tables that apply began.

    It is 0 if all succeeded, and 1 if one failed. If tables were only refused, it is 3 if nothing was written, and
    PARTLY_REFUSED otherwise.
    """
    codes = {plan.exit_code, *(applied.exit_code for applied in done)} - {0}
    if codes == {Refused.exit_code}:
        return PARTLY_REFUSED if any(applied.commits for applied in done) else Refused.exit_code
    return 1 if codes else 0


def new_run(planned: PlannedTable) -> Applied:
    """Return the record of one table with a new run id."""
    state, groups = planned.state, planned.pinned.values()
    excluded = state is not None and any(is_excluded(state, group.files) for group in groups)
    undoable = planned.plan.partitioning is None and not excluded
    return Applied(str(planned.spec.table), uuid.uuid4().hex, planned.spec.table.branch, undoable=undoable)


@dataclass(frozen=True, slots=True)
class TableStarted:
    """Apply begins its work on a table. The run id is stored with each commit."""

    table: str
    run_id: str


@dataclass(frozen=True, slots=True)
class TableEvent:
    """An event of a table: a commit, a failed group, or a notice."""

    table: str
    event: Event


@dataclass(frozen=True, slots=True)
class TableFinished:
    """Apply has ended its work on a table, successfully or not."""

    applied: Applied

    @property
    def table(self) -> str:
        return self.applied.table

    @property
    def result(self) -> TableResult:
        """The table result, with the metrics after the run."""
        return result_of(self.applied)


ApplyEvent = TableStarted | Progress | TableEvent | TableFinished
OnEvent = Callable[[ApplyEvent], None]


@contextmanager
def recorded(applied: Applied, planned: PlannedTable) -> Iterator[None]:
    """Store an exception of the block in `applied`, so that the commits of all tables are reported in any case."""
    try:
        yield
    except ZlayoutError as error:
        applied.error = applied.error or error
    except Exception as error:
        applied.error = applied.error or _unexpected(error, applied, planned)


def reporting(on_event: OnEvent, applied: Applied, planned: PlannedTable) -> OnEvent:
    """Return a function that calls `on_event`, and converts its unexpected exceptions to EngineError ZL307.

    Without this, they would be treated as errors of Spark.
    """

    def report(event: ApplyEvent) -> None:
        try:
            on_event(event)
        except ZlayoutError:
            raise
        except Exception as error:
            raise _unexpected(error, applied, planned) from error

    return report


def _unexpected(error: Exception, applied: Applied, planned: PlannedTable) -> ZlayoutError:
    return EngineError.of(
        "ZL307",
        f"{applied.table}: unexpected {type(error).__name__}: {error}",
        hint=f"search the history of the table for run {applied.run_id}, and report this error",
        location=planned.spec.location,
    )
