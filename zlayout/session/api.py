"""The functions of the public Python API that plan and change tables: a few lines each over a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from zlayout.errors import Refused, TableError
from zlayout.formats.trial import Trial
from zlayout.formats.undo import Undo
from zlayout.planner import document
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import RunReport
from zlayout.planner.stale import Staleness
from zlayout.report import text
from zlayout.report.phrases import drift_line
from zlayout.session.apply import Verify
from zlayout.session.concurrent_reads import PARALLELISM, TIMEOUT, Reading
from zlayout.session.plan import ProjectPlan
from zlayout.session.project import (
    parse_budget,
    parse_duration,
    require,
    require_choice,
    require_count,
    require_number,
    require_project,
)
from zlayout.session.results import OnEvent
from zlayout.session.session import ApplyOptions, PlanRequest, RolledBack, Session, Ui
from zlayout.session.trial import TrialReport, plan_trial
from zlayout.signals import Interrupted
from zlayout.spec.model import Project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan(
    project: Project,
    select: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    *,
    allow_full_rewrite: bool = False,
    max_rewrite_bytes: int | str | None = None,
    sample: bool | None = None,
    branch: str | None = None,
    avoid_hot: timedelta | str | None = None,
    include_rarely_read: bool = False,
    parallelism: int = PARALLELISM,
    timeout: float = TIMEOUT,
    on_progress: Callable[[int, int], None] | None = None,
) -> ProjectPlan:
    """Plan the changes that lay out tables as declared.

    A table that cannot be read or must not be changed does not stop the others. Its `TablePlan` has the status ERROR or
    REFUSED, and diagnostics. The history of the project, if it has one, gets a record of each table.

    Args:
        project: The project, from `load_project`.
        select: The tables to plan: table names or globs, `path:GLOB` of layout files, or `tag:NAME`. Empty: all.
        exclude: The tables to leave out, in the same notation.
        allow_full_rewrite: Whether a partitioning change may rewrite every file of a Delta table.
        max_rewrite_bytes: The budget for all tables together, in bytes or as a string such as "100GiB". The groups with
            the largest gain per rewritten byte are chosen first. The gain is the number of bytes that the queries of
            the workload no longer read; for tables without a workload, the decrease of touched. Default: no limit.
        sample: Whether to read columns of randomly chosen row groups for forecasts: at most about 16 MiB of each table
            that is rewritten, and up to about 32 MiB more of each table with a workload. Default: `defaults.sample` of
            the project.
        branch: The branch of all tables. Default: `ref` of each layout. Tables of formats without branches are refused.
        avoid_hot: A partition waits if another writer wrote to it within this duration, a timedelta or a string such as
            "1h". Default: that of the project.
        include_rarely_read: Whether to rewrite also the decayed partitions that `tolerance.rarely_read` allows to wait.
        parallelism: The number of tables of one catalog to read at the same time.
        timeout: The limit on reading one table, in seconds. A table that exceeds it has the status ERROR (ZL105).
        on_progress: Called in this thread with the number of tables that were read, and the number of all tables.

    Returns:
        The plan, for `apply` or `write_plan`.

    Raises:
        SpecError: An argument, the selection or a workload file is invalid.
        TableError: A pattern matches no layout, and a catalog cannot list the tables of a rule.
    """
    require_project(project)
    budget, after = parse_budget(max_rewrite_bytes), parse_duration(avoid_hot)
    limits = (allow_full_rewrite, budget, sample, branch, after, include_rarely_read)
    request = PlanRequest(select, exclude, Reading(parallelism, timeout), *limits)
    return Session(project, Ui(on_progress=on_progress)).plan(request)


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The tables that are not as declared, and those whose layout no longer fits the workload.

    Attributes:
        plan: The plan of all selected tables as plain data, for reports. `apply` does not accept it.
    """

    plan: Plan

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {drift_line(self.plan)}>"

    def __str__(self) -> str:
        """The report as `zlayout drift` shows it."""
        return text.render(RunReport(self.plan, drift=True))

    @property
    def drifted(self) -> tuple[TablePlan, ...]:
        """Tables that are refused, have drift or decay above its tolerance, or whose `where` matches no partition."""
        return self.plan.not_as_declared

    @property
    def unfit(self) -> tuple[TablePlan, ...]:
        """Tables for which another layout beats the declared one by more than `tolerance.workload`."""
        return self.plan.unfit

    @property
    def failed(self) -> tuple[TablePlan, ...]:
        """Tables that could not be planned."""
        return self.plan.with_status(Status.ERROR)


def drift(
    project: Project,
    select: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    *,
    sample: bool | None = None,
    branch: str | None = None,
    parallelism: int = PARALLELISM,
    timeout: float = TIMEOUT,
) -> DriftReport:
    """Find tables that are not laid out as declared, or whose layout no longer fits the workload.

    Reads metadata, and with `sample` columns of some row groups.

    Args:
        project: The project, from `load_project`.
        select: Tables to check, as in `plan`. Empty: all.
        exclude: Tables to leave out.
        sample: Whether to read columns of some row groups, as in `plan`. Without a sample, layouts that no longer fit
            the workload are not found. Default: `defaults.sample` of the project.
        branch: The branch of all tables, as in `plan`.
        parallelism: The number of tables of one catalog to read at the same time.
        timeout: The limit on reading one table, in seconds, as in `plan`.

    Raises:
        SpecError: An argument, the selection or a workload file is invalid.
        TableError: A pattern matches no layout, and a catalog cannot list the tables of a rule.
    """
    require_project(project)
    request = PlanRequest(select, exclude, Reading(parallelism, timeout), sample=sample, branch=branch)
    return DriftReport(Session(project).drift(request).document)


def read_plan(
    project: Project,
    path: str | Path,
    *,
    exclude: str | Iterable[str] = (),
    stale: Staleness = "compatible",
    allow_full_rewrite: bool = False,
    branch: str | None = None,
    parallelism: int = PARALLELISM,
    timeout: float = TIMEOUT,
) -> ProjectPlan:
    """Read a plan file, and check for each of its tables whether the plan is stale.

    The files to rewrite are selected again from the observed tables, since a plan file contains no paths.

    Args:
        project: The project that the plan was made for.
        path: A file that `write_plan` or `zlayout plan --out` wrote.
        exclude: Tables to leave out, as in `plan`.
        stale: "compatible" accepts appends since the plan was made; "strict" requires the planned version.
        allow_full_rewrite: As in `plan`. It is not stored in the plan file.
        branch: As in `plan`. A plan for another branch is stale.
        parallelism: The number of tables of one catalog to read at the same time.
        timeout: The limit on reading one table, in seconds, as in `plan`.

    Returns:
        The plan. A table whose plan is stale has the status REFUSED and a diagnostic with the reason (ZL203). A table
        that cannot be read, or that its layout no longer fits, has the status ERROR.

    Raises:
        SpecError: An argument or the plan file is invalid, or the project has no layout for a table of the plan.
        Refused: ZL206, the plan file has another format version.
    """
    require_project(project)
    require_choice("stale", stale, get_args(Staleness))
    reading, saved = Reading(parallelism, timeout), document.read(Path(path)).plan
    request = PlanRequest((), exclude, reading, allow_full_rewrite, branch=branch, saved=saved, stale=stale)
    return Session(project).review(request)


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
    planned = plan.document
    if planned.withheld(all_or_nothing=all_or_nothing):
        broken = planned.with_status(Status.ERROR) if all_or_nothing else ()
        problems = (d for table in broken or planned.with_status(Status.REFUSED) for d in table.diagnostics)
        raise (TableError if broken else Refused)(*problems)
    options = ApplyOptions(verify, all_or_nothing, concurrent_tables, max_minutes, ignore_window)
    run = Session(plan.project, Ui(on_event), spark).apply(plan, options)
    if run.signal:
        raise Interrupted(run.signal)
    return run.report


def plan_rollback(project: Project, table: str, run: str | None = None, *, timeout: float = TIMEOUT) -> Undo:
    """Determine what a rollback undoes. Reads metadata, checks that the files exist, and starts no JVM.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; it needs no layout spec.
        run: The id of the run. Default: the newest run that rewrote files of the table and was not rolled back.
        timeout: The limit on reading the table, in seconds.

    Raises:
        SpecError: ZL020 (invalid table name), ZL021 (unknown catalog), ZL084.
        Refused: ZL230 to ZL236: there is no such run on main, or the rollback would lose or change rows.
        TableError: The table cannot be read.
    """
    require_project(project)
    return Session(project).plan_rollback(table, run, timeout)


def rollback(project: Project, undo: Undo, spark: SparkSession | None = None) -> RolledBack:
    """Undo a run: remove the files that it wrote, and add those that it replaced, in one commit.

    Later commits of other writers are kept. The files and the rows are checked again before the commit.

    Args:
        project: The project that was given to `plan_rollback`.
        undo: From `plan_rollback`.
        spark: A running session, as for `apply`. Default: a new session, stopped at the end.

    Raises:
        Refused: The rollback is no longer possible. Nothing was written.
        CommitConflict: Another writer changed one of the files, or the table. Nothing was written.
        CommitUnknown: ZL331.
        EngineError: Java or Spark failed.
    """
    return Session(project, spark=spark).rollback(undo)


def trial(
    project: Project,
    table: str,
    *,
    branch: str | None = None,
    workload: Sequence[str | Path] = (),
    spark: SparkSession | None = None,
    on_event: OnEvent | None = None,
    ignore_window: bool = False,
    timeout: float = TIMEOUT,
) -> TrialReport:
    """Apply the layout of a table to a branch, and replay the queries of its workload on the branch and on the table.

    The branch is made if it does not exist. The table itself is not changed.

    Args:
        project: The project, with a layout of the table.
        table: `catalog.namespace.table`.
        branch: The name of the branch.
        workload: Files with queries, as in `advise`. Default: the workload of the layout.
        spark: A running session, as for `apply`.
        on_event: As for `apply`.
        ignore_window: As for `apply`.
        timeout: The limit on each read of the table or the trial, in seconds.

    Raises:
        SpecError: An argument, the workload or the layout is invalid, or no query can skip files.
        TableError: The table cannot be read.
        Refused: The layout cannot be applied to the branch, or the branch cannot be used.
        CommitConflict: ZL320, the trial was replaced since it was planned.
        EngineError: Spark failed, or the rewrite is not complete. The trial remains, and `trial` can continue it.
    """
    planned = plan_trial(project, table, branch=branch, workload=workload, timeout=timeout)
    return Session(project, Ui(on_event), spark).trial(planned, ignore_window=ignore_window)


def publish(project: Project, trial: Trial, spark: SparkSession | None = None) -> None:
    """Fast-forward main to the branch, in one commit. Nothing is done if main has every commit of the branch.

    Args:
        project: The project that was given to `plan_publish`.
        trial: From `plan_publish`.
        spark: A running session, as for `apply`. Default: a new session, stopped at the end.

    Raises:
        Refused: ZL250, ZL251. Nothing was written.
        CommitConflict: ZL320, ZL321: main or the branch has changed since it was read. Nothing was written.
        CommitUnknown: ZL331.
        EngineError: Java or Spark failed.
    """
    Session(project, spark=spark).publish(trial)


def drop_trial(project: Project, trial: Trial, spark: SparkSession | None = None) -> None:
    """Remove the branch of a trial.

    Args:
        project: The project that was given to `plan_drop_trial`.
        trial: From `plan_drop_trial`.
        spark: A running session, as for `apply`. Default: a new session, stopped at the end.

    Raises:
        Refused: ZL252, ZL253. Nothing was removed.
        CommitConflict: ZL320, ZL321: the trial has changed since it was read. Nothing was removed.
        CommitUnknown: ZL331.
        EngineError: Java or Spark failed.
    """
    Session(project, spark=spark).drop_trial(trial)
