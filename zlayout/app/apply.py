"""Apply a plan: carry out its actions table by table, and observe each table again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from random import uniform
from typing import TYPE_CHECKING, NamedTuple, get_args

from zlayout.app.arguments import require, require_choice, require_count, require_number
from zlayout.app.concurrent_reads import TIMEOUT
from zlayout.app.concurrent_tables import at_the_same_time, by_gain
from zlayout.app.history import append_and_log
from zlayout.app.interrupts import Interrupts, cancel_in_background, ending
from zlayout.app.plan import Planned, ProjectPlan, backends_of, plan_table_in_time
from zlayout.app.results import (
    Applied,
    ApplyEvent,
    OnEvent,
    TableEvent,
    TableFinished,
    TableStarted,
    new_run,
    recorded,
    reporting,
    result_of,
    with_results,
)
from zlayout.app.rewrites import Announce, Verify, execute, forgets, limit_of
from zlayout.app.sampling import begin_predictions
from zlayout.app.time_limit import TableLimit, TimeLimit, left_of_window
from zlayout.errors import Refused, TableError
from zlayout.formats.base import Backend, Commit, Event, Notify, Progress, Stage
from zlayout.planner.decision import PlanOptions
from zlayout.planner.model import Status
from zlayout.planner.run_report import RunReport
from zlayout.records.model import Command
from zlayout.signals import Interrupted
from zlayout.spark.live import runtime_for
from zlayout.spark.session import SparkRuntime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The number of times that one run tries a group that conflicts. The run plans again before each further attempt. It
# waits about RETRY_SECONDS before the second attempt, and twice as long before each later one.
MAX_ATTEMPTS = 3
RETRY_SECONDS = 1.0


class Run(NamedTuple):
    """What `carry_out` did: one entry for each table that it began or deferred, and whether it was interrupted."""

    done: tuple[Applied, ...]
    interrupted: bool = False


def apply(
    plan: ProjectPlan,
    spark: SparkSession | None = None,
    on_event: OnEvent | None = None,
    *,
    verify: Verify = "gate",
    all_or_nothing: bool = False,
    concurrent_tables: int = 1,
    max_minutes: float | None = None,
    ignore_window: bool = False,
) -> RunReport:
    """Carry out a plan on Spark and observe the tables again.

    Only the pinned files of the plan are rewritten, and every commit checks that they have not changed. A group that
    conflicts with a concurrent change is planned again, at most twice, unless the plan was read from a file. A table
    that is refused, cannot be planned or fails does not stop the others. Spark is started only if the plan has changes.

    Args:
        plan: From `plan`, or from `read_plan`.
        spark: A running session. Its catalogs, master and configuration are used. The time zone (UTC, or
            `spark.sql.session.timeZone` of the project) and the configuration that the rewrite needs are set in a clone
            of the session; the session itself is neither changed nor stopped. Default: a new session with the
            configuration of the project, stopped at the end; refused with ZL209 if a session is running already.
        on_event: Called in this thread with each `TableStarted`, `Progress` (a stage begins), `TableEvent` and
            `TableFinished`. If it raises an exception, the table fails with ZL307; KeyboardInterrupt ends the run.
            If `apply` is called in the main thread, it handles Ctrl-C: the first one lets a running commit finish and
            cancels a running rewrite; the second one stops the run immediately.
        verify: "gate" compares the number of rows and the content hash before each commit; "full" also reads the
            written files back.
        all_or_nothing: Whether to write nothing if a table of the plan is refused or cannot be planned.
        concurrent_tables: The number of tables that are rewritten at the same time. Each has a clone of the session and
            its own scheduler pool. Spark shares the executors among the pools if `spark.scheduler.mode` is FAIR.
        max_minutes: No rewrite is started that is expected to end later than this many minutes after the call.
            `TableResult.deferred_groups` is the number of groups that are left for a later run. A running rewrite is
            not stopped. Default: no limit.
        ignore_window: Whether to ignore the maintenance windows of the project. Otherwise the end of the present window
            limits the time as `max_minutes` does, and nothing is rewritten outside of all windows.

    Returns:
        The plan with a `TableResult` for each table that it changes, by table name. `TableResult.succeeded` states
        whether the table is as declared, or as far as the limits of the run allow. Tables that are refused or cannot be
        planned have no result; their status and diagnostics are in the plan.

    Raises:
        Refused: Tables of the plan are refused, and it has no other changes; or, with `all_or_nothing`, one table is
            refused; or zlayout does not support the session. Nothing was written.
        SpecError: ZL084, an argument is invalid. Nothing was written.
        TableError: With `all_or_nothing`, a table cannot be planned. Nothing was written.
        KeyboardInterrupt: The run was interrupted. Earlier commits remain.
    """
    require(plan, ProjectPlan, "use zlayout.plan(PROJECT), or zlayout.read_plan(PROJECT, PATH)")
    require_choice("verify", verify, get_args(Verify))
    require_count("concurrent_tables", concurrent_tables)
    if max_minutes is not None:
        require_number("max_minutes", max_minutes)
    window = None if ignore_window else left_of_window(plan.project.maintenance)
    limit = TimeLimit.of(max_minutes, time.monotonic(), window)
    document = plan.document
    if document.withheld(all_or_nothing=all_or_nothing):
        broken = document.with_status(Status.ERROR) if all_or_nothing else ()
        problems = (d for table in broken or document.with_status(Status.REFUSED) for d in table.diagnostics)
        raise (TableError if broken else Refused)(*problems)
    run = Run(())
    names = sorted({p.spec.table.catalog for p in plan.planned if p.decision.plan.status is Status.CHANGES})
    if names and not document.only_waits:
        runtime = runtime_for(plan.project, spark, [plan.project.catalogs[name] for name in names])
        with runtime, Interrupts(lambda: cancel_in_background(runtime)) as interrupts:
            follow = ending(interrupts, on_event or (lambda _event: None))
            run = carry_out(plan, runtime, follow, verify, lambda: interrupts.requested, concurrent_tables, limit)
        if not run.interrupted and all(result_of(applied).succeeded for applied in run.done):
            runtime.discard_log()
    report = with_results(document, run.done)
    append_and_log(plan.project, plan.planned, report, Command.APPLY)
    if run.interrupted:
        raise Interrupted(interrupts.number)
    return report


def carry_out(
    plan: ProjectPlan,
    runtime: SparkRuntime,
    on_event: OnEvent,
    verify: Verify = "gate",
    stop_requested: Callable[[], bool] = lambda: False,
    concurrent_tables: int = 1,
    limit: TimeLimit | None = None,
) -> Run:
    """Carry out the changes of a plan on a runtime that the caller stops. Tables with the largest gain come first.

    A KeyboardInterrupt ends the run and is not raised again. After each table, the run ends if `stop_requested` returns
    true. `on_event` is called in this thread, also for several concurrent tables. Tables for which `limit` leaves no
    time are deferred, without events.
    """
    changing = by_gain([p for p in plan.planned if p.decision.plan.status is Status.CHANGES])
    left, done = iter(changing), list[Applied]()  # threads take from one iterator, each table once

    def carry_out_next(runtime: SparkRuntime, on_event: OnEvent) -> None:
        """Carry out tables until none is left, on a runtime that no other thread uses."""
        backends = backends_of(plan.project, runtime, [p.spec for p in changing])
        while not stop_requested() and (planned := next(left, None)) is not None:
            applied = new_run(planned)
            done.append(applied)
            backend = backends[planned.spec.table.catalog]
            of_table = limit_of(planned, backend, applied, limit or TimeLimit(), plan.timeout)
            if not applied.begun:
                continue
            report = reporting(on_event, applied, planned)
            try:
                _carry_out_one(planned, plan, runtime, backend, report, applied, verify, of_table)
            except KeyboardInterrupt:
                applied.interrupted = applied.after is None
                raise
            applied.interrupted = stop_requested() and applied.exit_code != 0
            with recorded(applied, planned):
                report(TableFinished(applied))

    try:
        if concurrent_tables == 1 or len(changing) == 1:
            carry_out_next(runtime, on_event)
        else:
            at_the_same_time(carry_out_next, min(concurrent_tables, len(changing)), plan.project, runtime, on_event)
    except KeyboardInterrupt:
        return Run(tuple(done), interrupted=True)
    return Run(tuple(done), interrupted=stop_requested())


def _carry_out_one(
    planned: Planned,
    plan: ProjectPlan,
    runtime: SparkRuntime,
    backend: Backend,
    on_event: OnEvent,
    applied: Applied,
    verify: Verify,
    limit: TableLimit,
) -> None:
    def report(event: ApplyEvent) -> None:
        runtime.cancellable = isinstance(event, Progress) and event.stage is Stage.REWRITING
        if isinstance(event, Progress) and event.stage is Stage.STARTING and not runtime.started:
            event = replace(event, stage=Stage.STARTING_SPARK)
        on_event(event)
        runtime.resume()

    def announce(table: str, event: Event) -> None:
        if isinstance(event, Commit):
            runtime.committed(planned.spec.table)
        report(TableEvent(table, event))

    with recorded(applied, planned):
        report(TableStarted(applied.table, applied.run_id))
    if applied.error is None:
        attempts = 1 if plan.reviewed else MAX_ATTEMPTS
        try:
            apply_table(
                planned, backend, plan.options, applied, report, announce, verify, attempts, plan.timeout, limit
            )
        finally:
            runtime.cancellable = False


def apply_table(
    planned: Planned,
    backend: Backend,
    options: PlanOptions,
    applied: Applied,
    notify: Notify,
    announce: Announce,
    verify: Verify = "gate",
    attempts: int = MAX_ATTEMPTS,
    timeout: float = TIMEOUT,
    limit: TableLimit | None = None,
) -> None:
    """Carry out one decision and record what was done in `applied`. Plan again after a conflict.

    A conflict concerns the files of groups, or the table itself, such as its partitioning. An error ends the work on
    this table and is stored in `applied.error`; earlier commits remain in `applied.commits`.

    Args:
        attempts: How often a conflicting group is tried; 1 for a reviewed plan, because a new plan would not be
            reviewed.
        timeout: The limit on each read of the table, in seconds. Commits have none.
        limit: The time limit; the groups that it defers are stored in `applied.deferred`. Default: none.
    """
    current, limit = planned, limit or TimeLimit().of_table()
    # A partition that waited when the plan was made also waits in the plans of this run.
    options = replace(options, rarely_read=planned.decision.rarely_read)
    if hot := planned.decision.plan.hot:
        options = replace(options, hot_after=hot.after)
    with recorded(applied, planned):
        applied.predictions = begin_predictions(planned.spec, planned.state, planned.decision, backend, timeout)
        for attempt in range(attempts):
            is_last = attempt + 1 == attempts
            notify(Progress(applied.table, Stage.STARTING))
            failed, conflict = execute(current, backend, applied, notify, announce, verify, limit)
            if conflict and is_last:
                raise conflict
            if (failed or conflict) and not is_last:
                time.sleep(uniform(0.5, 1.5) * RETRY_SECONDS * 2**attempt)  # concurrent runs retry at different times
            notify(Progress(applied.table, Stage.OBSERVING))
            after = plan_table_in_time(planned.spec, backend, replace(options, max_rewrite_bytes=None), timeout)
            if conflict and after.identity != planned.identity:  # the name leads to another table now
                raise conflict
            applied.after, applied.again = after.decision.plan, after
            applied.forgotten |= forgets(current, failed, after)
            if not failed and not conflict:
                applied.within_budget = planned.decision.plan.left_over is not None
                break
            if is_last:
                break
            if options.max_rewrite_bytes is not None:
                size = sum(int(g.files.bytes.sum()) for g in current.decision.groups if g.id in failed)
                size = size or options.max_rewrite_bytes
                after = plan_table_in_time(planned.spec, backend, replace(options, max_rewrite_bytes=size), timeout)
            if after.decision.plan.status in (Status.REFUSED, Status.ERROR):
                break
            current = after
