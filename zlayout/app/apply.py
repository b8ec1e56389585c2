"""Apply a plan: carry out its actions table by table, and observe each table again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from zlayout.app.plan import Planned, ProjectPlan, backends_of, plan_table
from zlayout.app.results import Applied, new_run, result_of, with_results
from zlayout.errors import EngineError, Refused, ZlayoutError
from zlayout.formats.base import Backend, Commit, Event, Group, GroupFailed, Notice, Notify, Progress
from zlayout.planner.actions import Reason
from zlayout.planner.decision import PlanOptions
from zlayout.planner.model import Status
from zlayout.planner.result import TableResult
from zlayout.planner.run_report import RunReport
from zlayout.spark.live import runtime_for
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import TableName
from zlayout.tuning import give_back_freed_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The number of times that one run tries a group that conflicts. It plans again before each attempt.
MAX_ATTEMPTS = 3

Announce = Callable[[str, Event], None]
Verify = Literal["gate", "full"]


@dataclass(frozen=True, slots=True)
class TableStarted:
    """Apply starts with a table. The run id is stored with each commit."""

    table: str
    run_id: str


@dataclass(frozen=True, slots=True)
class TableEvent:
    """An event of a table: a commit, a failed group, or a notice."""

    table: str
    event: Event


@dataclass(frozen=True, slots=True)
class TableFinished:
    """Apply is done with a table, successfully or not."""

    applied: Applied

    @property
    def table(self) -> str:
        return self.applied.table

    @property
    def result(self) -> TableResult:
        """The table result, with the metrics after the run."""
        return result_of(self.applied)


ApplyEvent = TableStarted | Progress | TableEvent | TableFinished


@dataclass(frozen=True, slots=True)
class Run:
    """What `carry_out` did: one entry per table that it started with, and whether a person interrupted it."""

    done: tuple[Applied, ...]
    interrupted: bool = False


def apply(
    plan: ProjectPlan,
    spark: SparkSession | None = None,
    on_event: Callable[[ApplyEvent], None] | None = None,
    *,
    verify: Verify = "gate",
) -> RunReport:
    """Carry out a plan on Spark and observe the tables again.

    Only the pinned files of the plan are rewritten, and every commit checks that they have not changed. A group that
    conflicts with a concurrent change is planned again, up to three times, unless the plan was read from a file. A
    table that fails does not stop the others. Spark is started only if the plan has changes.

    Args:
        plan: From `plan`, or from `read_plan`.
        spark: A running session. Its catalogs, master and configuration are used. The time zone (UTC, or
            `spark.sql.session.timeZone` of the project) and the configuration that the rewrite needs are set in a clone
            of the session; the session itself is neither changed nor stopped. Default: a new session with the
            configuration of the project, stopped at the end.
        on_event: Called in this thread with each `TableStarted`, `Progress` (a stage begins), `TableEvent` and
            `TableFinished`. If it raises an exception, the table fails with ZL307; KeyboardInterrupt ends the run.
        verify: "gate" compares the number of rows and the content hash before each commit; "full" also reads the
            written files back.

    Returns:
        The plan with a `TableResult` for each table that it changes, by table name. `TableResult.succeeded` states
        whether the table is as declared.

    Raises:
        Refused: A table of the plan is refused, or zlayout does not support the session. Nothing was written.
        KeyboardInterrupt: The run was interrupted. Earlier commits remain.
    """
    if refused := plan.document.with_status(Status.REFUSED):
        raise Refused(*(diagnostic for table in refused for diagnostic in table.diagnostics))
    report = RunReport(plan.document)
    changing = [p.spec for p in plan.planned if p.decision.plan.status is Status.CHANGES]
    if not changing:
        return report
    names = sorted({spec.table.catalog for spec in changing})
    runtime = runtime_for(plan.project, spark, [plan.project.catalogs[name] for name in names])
    with runtime:
        run = carry_out(plan, runtime, on_event or (lambda _event: None), verify)
    if run.interrupted:
        raise KeyboardInterrupt
    if all(result_of(applied).succeeded for applied in run.done):
        runtime.discard_log()
    return with_results(report, run.done)


def carry_out(
    plan: ProjectPlan,
    runtime: SparkRuntime,
    on_event: Callable[[ApplyEvent], None],
    verify: Verify = "gate",
    stop_requested: Callable[[], bool] = lambda: False,
) -> Run:
    """Carry out the changes of a plan on a runtime that the caller stops.

    A KeyboardInterrupt ends the run and is not raised again. After each table, the run ends if `stop_requested` returns
    true.
    """
    changing = [p for p in plan.planned if p.decision.plan.status is Status.CHANGES]
    backends = backends_of(plan.project, runtime, [p.spec for p in changing])
    attempts = 1 if plan.reviewed else MAX_ATTEMPTS
    done: list[Applied] = []

    try:
        for planned in changing:
            applied = new_run(planned)
            done.append(applied)
            on_event(TableStarted(applied.table, applied.run_id))

            def announce(table: str, event: Event, name: TableName = planned.spec.table) -> None:
                if isinstance(event, Commit):
                    runtime.committed(name)
                on_event(TableEvent(table, event))

            backend = backends[planned.spec.table.catalog]
            apply_table(planned, backend, plan.options, applied, on_event, announce, verify, attempts)
            applied.interrupted = stop_requested() and applied.exit_code != 0
            on_event(TableFinished(applied))
            if stop_requested():
                return Run(tuple(done), interrupted=True)
    except KeyboardInterrupt:
        for applied in done[-1:]:
            applied.interrupted = applied.interrupted or applied.after is None
        return Run(tuple(done), interrupted=True)
    return Run(tuple(done))


def apply_table(
    planned: Planned,
    backend: Backend,
    options: PlanOptions,
    applied: Applied,
    notify: Notify,
    announce: Announce,
    verify: Verify = "gate",
    attempts: int = MAX_ATTEMPTS,
) -> None:
    """Carry out one decision and record what was done in `applied`. Plan again after a conflict.

    attempts: 1 for a plan that was reviewed, because a new plan would not be reviewed. An error ends the work on this
    table and is stored in `applied.error`; earlier commits remain in `applied.commits`.
    """
    current = planned
    try:
        for _ in range(attempts):
            failed = _execute(current, backend, applied, notify, announce, verify)
            after = plan_table(planned.spec, backend, replace(options, max_rewrite_bytes=None))
            applied.after, applied.again = after.decision.plan, after
            applied.forgotten |= _forgets(current, failed, after)
            if not failed:
                applied.within_budget = planned.decision.plan.left_over is not None
                break
            if options.max_rewrite_bytes is not None:
                size = sum(int(g.files.bytes.sum()) for g in current.decision.groups if g.id in failed)
                after = plan_table(planned.spec, backend, replace(options, max_rewrite_bytes=size))
            if after.decision.plan.status in (Status.REFUSED, Status.ERROR):
                break
            current = after
    except ZlayoutError as error:
        applied.error = error
    except Exception as error:
        # The commits of this and other tables must be reported whatever an engine raises.
        applied.error = EngineError.of(
            "ZL307",
            f"{applied.table}: unexpected {type(error).__name__}: {error}",
            hint=f"search the history of the table for run {applied.run_id}, and report this error",
            location=planned.spec.location,
        )


def _forgets(before: Planned, failed: frozenset[str], after: Planned) -> bool:
    """Return whether a failed group needs longer bounds, and a live file of it is in no group of the new plan."""
    indistinct = {g.id for g in before.decision.plan.groups if g.reason is Reason.BOUNDS_TRUNCATED} & failed
    if not indistinct or after.state is None:
        return False
    left = set(after.state.files.path.to_pylist()) - _paths(after.decision.groups)
    return not left.isdisjoint(_paths(group for group in before.decision.groups if group.id in indistinct))


def _paths(groups: Iterable[Group]) -> set[str]:
    return {path for group in groups for path in group.files.path.to_pylist()}


def _execute(
    planned: Planned,
    backend: Backend,
    applied: Applied,
    notify: Notify,
    announce: Announce,
    verify: Verify,
) -> frozenset[str]:
    """Carry out the decision and return the ids of the groups that failed."""
    whole = planned.decision.work(planned.spec, applied.run_id, verify)
    failed: frozenset[str] = frozenset()
    works = whole.in_parts(planned.spec.max_group_size)
    give_back_freed_memory()  # the JVM of Spark needs the memory
    for outcome in (outcome for work in works for outcome in backend.execute(work, notify)):
        if isinstance(outcome, Notice):
            if outcome in applied.notices:
                continue
            applied.notices.append(outcome)
        elif isinstance(outcome, GroupFailed):
            applied.failures.append(outcome)
            failed |= frozenset(outcome.groups)
        else:
            applied.commits.append(outcome)
        announce(applied.table, outcome)
    return failed
