"""The session of a project: plan, drift, apply, trial, publish, drop-trial and rollback, each orchestrated once.

A session asks and reports through a `Ui`. `Ui` itself is that of the Python API, whose functions are a few lines over a
session. The command line has uis that print (`zlayout.cli.terminal`).
"""

from __future__ import annotations

import logging
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, get_args

from zlayout import process
from zlayout.errors import CommitConflict, Diagnostic, EngineError, NotApproved, Refused, TableError
from zlayout.formats.base import Commit, Progress, Stage
from zlayout.formats.registry import backend_for
from zlayout.formats.trial import Trial, require_droppable, require_publishable
from zlayout.formats.undo import Undo
from zlayout.history_records import Command
from zlayout.planner import document
from zlayout.planner.model import Plan, Status, TablePlan, summary
from zlayout.planner.run_report import RunReport
from zlayout.planner.work import SAMPLE_BYTES, PlanOptions
from zlayout.process import Handler, Interrupted, handled_signals
from zlayout.report import text
from zlayout.report.words import drift_line
from zlayout.session.concurrent_reads import PARALLELISM, TIMEOUT, Reading, read_table
from zlayout.session.history import append_to_history, follow_publish, with_trends
from zlayout.session.plan import ProjectPlan, plan_specs
from zlayout.session.plan_file import Staleness, review, with_reviewed
from zlayout.session.project import (
    known_table,
    layout_of,
    load_project,
    parse_budget,
    parse_duration,
    require,
    require_choice,
    require_count,
    require_number,
    require_project,
)
from zlayout.session.results import (
    Applied,
    ApplyEvent,
    OnEvent,
    TableEvent,
    Verify,
    exit_code,
    result_of,
    with_pictures,
    with_results,
)
from zlayout.session.rules import on_branch, selected_layouts
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import MAIN, Project, TableName, hot_after

if TYPE_CHECKING:  # `zlayout plan` does not load what only changes of tables need
    from pyspark.sql import SparkSession

    from zlayout.session.trial import PlannedTrial, TrialReport

OnProgress = Callable[[int, int], None]
BRIEF_BYTES = 64 * 2**20  # a rewrite of fewer bytes ends before Java's optimising compiler makes it faster


class Ui:
    """What a session asks and reports. This class is the ui of the Python API: it approves, and prints nothing.

    Attributes:
        owns_process: Whether the process ends after the command. Java may then start faster and run slower.
        needs_pictures: Whether reports with pictures and trends are made.
    """

    owns_process = False
    needs_pictures = False

    def __init__(self, on_event: OnEvent | None = None, on_progress: OnProgress | None = None) -> None:
        self._on_event = on_event
        self._on_progress = on_progress

    def approve(self, question: str, planned: Any) -> None:
        """Ask whether to do what `show` has shown. Raises NotApproved if it is not to be done."""

    def reading(self) -> AbstractContextManager[OnProgress | None]:
        """Return a context manager for the time in which the project and its tables are read."""
        return nullcontext(self._on_progress)

    def working(self, runtime: SparkRuntime) -> AbstractContextManager[object]:  # noqa: ARG002 - for other classes
        """Return a context manager for the time in which Spark works."""
        return nullcontext()

    def event(self, event: ApplyEvent) -> None:
        """Report an event."""
        if self._on_event is not None:
            self._on_event(event)

    def show(self, planned: Any, done: Any = None) -> None:
        """Show what is planned, before it is approved; or with `done`, what was done."""

    def diagnose(self, diagnostic: Diagnostic) -> None:
        """Report a problem that does not change what is done."""
        logging.getLogger("zlayout").warning("%s", diagnostic)

    def interrupted(self, interrupts: Interrupts, done: Sequence[Applied] | None = None) -> None:
        """Report the first signal; or with `done`, after which tables the run has ended."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan; see the arguments of `zlayout.plan`.

    Attributes:
        options: Options and limits. A session adds what the project determines: `sample_bytes` and `hot_after`.
        saved: A saved plan, which is checked instead of making a new one. `select`, `sample`, `avoid_hot` and
            `include_rarely_read` then have no effect.
        stale: As in `zlayout.read_plan`.
        reviewed: A reviewed plan file or a folder of them, with which a new plan is compared (`with_reviewed`).
    """

    select: str | Iterable[str] = ()
    exclude: str | Iterable[str] = ()
    reading: Reading = Reading()
    options: PlanOptions = PlanOptions()
    sample: bool | None = None
    branch: str | None = None
    avoid_hot: timedelta | None = None
    saved: Plan | None = None
    stale: Staleness = "compatible"
    reviewed: Path | None = None


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How to carry out a plan; see the arguments of `zlayout.apply`.

    Attributes:
        remote: The URL of the Spark Connect server that the user gave, '' for none. SPARK_REMOTE may name one, too.
    """

    verify: Verify = "gate"
    all_or_nothing: bool = False
    concurrent_tables: int = 1
    max_minutes: float | None = None
    ignore_window: bool = False
    remote: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """What `Session.apply` did.

    Attributes:
        report: The plan with the results.
        exit_code: The exit code of the command.
        done: One entry for each table that was begun or deferred. None if no table may be changed.
        signal: The number of the signal that ended the run, 0 without one.
        log: Spark's log, if it is kept because of a problem.
    """

    report: RunReport
    exit_code: int
    done: tuple[Applied, ...] | None = None
    signal: int = 0
    log: Path | None = None


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What `rollback` did.

    Attributes:
        run_id: The id of the rollback, which its commit stores.
        undo: The run that was undone, with the files.
    """

    run_id: str
    undo: Undo
    commit: Commit


class Session:
    """The commands on the tables of one project. What they raise is listed at the functions of the public API."""

    def __init__(self, project: Project | Path, ui: Ui | None = None, spark: SparkSession | None = None) -> None:
        """Store the arguments.

        Args:
            project: The project, or where to look for it when it is first needed.
            ui: Default: that of the Python API.
            spark: A running session, as for `zlayout.apply`.
        """
        self._given = project
        self.ui = ui or Ui()
        self._spark = spark

    @cached_property
    def project(self) -> Project:
        return load_project(self._given) if isinstance(self._given, Path) else self._given

    def plan(self, request: PlanRequest) -> ProjectPlan:
        """Plan, and append to the history."""
        planned = self._planned(request)
        if request.reviewed is not None:
            planned = with_reviewed(planned, request.reviewed)
        self.ui.show(planned, self._recorded(planned, self._report(planned), Command.PLAN))
        return planned

    def drift(self, request: PlanRequest) -> ProjectPlan:
        """Plan for a drift report. Do not apply the plan: it can contain full rewrites that were not allowed."""
        # A partitioning change is reported as drift, although apply refuses it unless full rewrites are allowed.
        options = PlanOptions(allow_full_rewrite=True)
        with self.ui.reading() as on_progress:
            planned = self._read(request, options, on_progress)
        report = replace(self._report(planned), drift=True)
        self.ui.show(planned, self._recorded(planned, report, Command.DRIFT))
        return planned

    def review(self, request: PlanRequest) -> ProjectPlan:
        """Check the saved plan of a request as `zlayout.read_plan` does."""
        saved, given, reading = request.saved, request.options, request.reading
        assert saved is not None
        options = PlanOptions(given.allow_full_rewrite, given.max_rewrite_bytes)
        return review(self.project, saved, request.exclude, request.stale, options, reading, request.branch)

    def apply(self, source: PlanRequest | ProjectPlan, options: ApplyOptions = ApplyOptions()) -> Run:
        """Plan if the source is no plan, carry out the changes, observe the tables again, and append to the history."""
        from zlayout.session.apply import NOTHING_LEFT, TimeLimit, carry_out, left_of_window

        start, ui = time.monotonic(), self.ui
        if isinstance(source, ProjectPlan):
            plan = source
        else:
            plan = self._planned(source) if source.saved is None else self.review(source)
        whole, report = plan.document, self._report(plan)
        ui.show(plan)
        withheld = whole.withheld(all_or_nothing=options.all_or_nothing)
        if withheld or whole.only_waits or not whole.has_changes:
            return self._ended(plan, Run(report, whole.exit_code))
        closed = not options.ignore_window and left_of_window(self.project.maintenance) == NOTHING_LEFT
        try:
            ui.approve("Apply these changes?", plan)
        except NotApproved as answer:
            ui.show(plan, Run(report, answer.exit_code))
            raise
        # a window that opens in between changes nothing, because nobody was asked
        window = None if options.ignore_window else NOTHING_LEFT if closed else left_of_window(self.project.maintenance)
        limit = TimeLimit.of(options.max_minutes, start, window)
        changed = [one.spec.table for one in plan.planned if one.plan.status is Status.CHANGES]
        brief = summary(whole.tables).rewrite_bytes <= BRIEF_BYTES
        runtime = self._runtime(changed, brief=brief, remote=options.remote)

        def stop() -> None:
            ui.interrupted(interrupts)
            cancel_in_background(runtime)

        interrupts = Interrupts(stop)
        with runtime, interrupts, ui.working(runtime):  # the ui reads from the runtime, so it must end first
            done, stopped = carry_out(
                plan,
                runtime,
                ending(interrupts, ui.event),
                options.verify,
                lambda: interrupts.requested,
                options.concurrent_tables,
                limit,
            )
        if stopped:
            ui.interrupted(interrupts, done)
        if not any(result_of(applied).problems for applied in done):
            runtime.discard_log()
        code = process.exit_code(interrupts.number) if stopped else exit_code(whole, done)
        number = interrupts.number if stopped else 0
        return self._ended(plan, Run(with_results(report, done), code, done, number, runtime.log_path))

    def _ended(self, plan: ProjectPlan, run: Run) -> Run:
        run = replace(run, report=self._recorded(plan, run.report, Command.APPLY))
        self.ui.show(plan, run)
        return run

    def plan_rollback(self, table: str, run: str | None = None, timeout: float = TIMEOUT) -> Undo:
        """Determine from metadata what a rollback undoes."""
        name = known_table(self.project, table)
        spec = layout_of(self.project, name)
        if run is None and spec is not None and spec.ref != MAIN:
            message = f"{name}: the layout is for branch {spec.ref}, and a rollback is possible on main only"
            raise Refused.of("ZL230", message, hint="use --run ID for a run on main", location=spec.location_of("ref"))
        backend = backend_for(self.project.catalogs[name.catalog], SparkRuntime(self.project))
        return read_table(lambda: backend.undo(name, run), name, timeout)

    def rollback(self, undo: Undo) -> RolledBack:
        """Undo a run in one commit."""
        spec, run_id = layout_of(self.project, undo.table), uuid.uuid4().hex
        properties = {} if spec is None else spec.commit_properties
        self.ui.show(undo)
        self.ui.approve("Roll back this run?", undo)
        with self._committing(undo.table, remote="") as (runtime, interrupts):
            backend = backend_for(self.project.catalogs[undo.table.catalog], runtime)
            done = RolledBack(
                run_id, undo, backend.roll_back(undo, run_id, properties, ending(interrupts, self.ui.event))
            )
            runtime.committed(undo.table)
        self.ui.show(undo, done)
        return done

    def publish(self, trial: Trial, *, allow_worse: bool = False) -> None:
        """Fast-forward main to the branch of a trial, in one commit, unless main has every commit of it."""
        if trial.published:
            self.ui.show(trial, "nothing_to_do")
            return
        require_publishable(trial, allow_worse=allow_worse)
        self.ui.show(trial)
        self.ui.approve("Publish this branch?", trial)
        self._publish(trial)
        self.ui.show(trial, "published")

    def _publish(self, trial: Trial) -> None:
        from zlayout.session.trial import trials_of

        main = trial.table.on("")
        with self._committing(main) as (runtime, interrupts):
            self._start(main, runtime, interrupts)
            trials_of(self.project, trial.table, runtime).publish(trial)
            runtime.committed(main)
        follow_publish(self.project, trial.table, {made.run_id for made in trial.commits})

    def drop_trial(self, trial: Trial) -> None:
        """Remove the branch of a trial."""
        require_droppable(trial)
        self.ui.show(trial)
        self.ui.approve("Remove this trial?", trial)
        self._drop(trial)
        self.ui.show(trial, "dropped")

    def _drop(self, trial: Trial) -> None:
        from zlayout.session.trial import trials_of

        with self._committing(trial.table) as (runtime, interrupts):
            self._start(trial.table.on(""), runtime, interrupts)
            trials_of(self.project, trial.table, runtime).drop(trial)

    def trial(self, planned: PlannedTrial, *, ignore_window: bool = False) -> TrialReport:
        """Apply a layout to a branch, and replay the queries of the workload on the branch and on the table."""
        self.ui.show(planned)
        self.ui.approve("Try this?", planned)
        report = self._try(planned, ApplyOptions(ignore_window=ignore_window))
        self.ui.show(planned, report)
        return report

    def _try(self, planned: PlannedTrial, options: ApplyOptions) -> TrialReport:
        from zlayout.session.trial import incomplete, measured, plan_of_branch, readable, trials_of

        name, result = planned.name, None
        runtime = self._runtime([name])
        with runtime, self.ui.working(runtime):
            if not runtime.started:
                self.ui.event(Progress(str(name), Stage.STARTING_SPARK))
            _ = runtime.session  # replaying needs a session even if nothing is rewritten
            if planned.trial is None:
                trials_of(self.project, name, runtime).begin(name, planned.state)
            plan = plan_of_branch(self.project, name, planned.plan.planned[0].spec, planned.timeout)
            (branch,) = plan.planned
            state = readable(branch)
            if planned.trial is not None and state.table_id != planned.trial.table_id:
                raise CommitConflict.of("ZL320", f"{name}: the table was replaced", hint="run trial again")
            if plan.has_changes:
                run = Session(self.project, Ui(self.ui.event), runtime.session).apply(plan, options)
                if run.signal:
                    raise Interrupted(run.signal)
                result = run.report.results[str(name)]
                if not result.succeeded or result.deferred_groups:
                    raise EngineError(*(result.problems or (incomplete(name),)))
            self.ui.event(Progress(str(name), Stage.REPLAYING))
            report = measured(planned, branch.spec, runtime, result)
            if report.reads is not None and report.reads != report.trial.reads:
                trials_of(self.project, name, runtime).record(report.trial, report.reads)
            runtime.discard_log()
        return report

    def _planned(self, request: PlanRequest) -> ProjectPlan:
        with self.ui.reading() as on_progress:
            after = hot_after(request.avoid_hot, self.project.maintenance)
            return self._read(request, replace(request.options, hot_after=after), on_progress)

    def _read(self, request: PlanRequest, options: PlanOptions, on_progress: OnProgress | None) -> ProjectPlan:
        project, reading = self.project, replace(request.reading, on_progress=on_progress)
        found = selected_layouts(project, request.select, request.exclude, reading)
        if project.sample if request.sample is None else request.sample:
            options = replace(options, sample_bytes=SAMPLE_BYTES)
        return plan_specs(project, on_branch(project, found, request.branch), options, reading)

    def _report(self, planned: ProjectPlan) -> RunReport:
        plan = planned.document
        return with_pictures(plan, planned.planned) if self.ui.needs_pictures else RunReport(plan)

    def _recorded(self, planned: ProjectPlan, report: RunReport, command: Command) -> RunReport:
        problems = append_to_history(self.project, planned.planned, report, command)
        if self.ui.needs_pictures and not problems:
            report, problems = with_trends(self.project, report)
        for diagnostic in problems:
            self.ui.diagnose(diagnostic)
        return report

    def _runtime(self, tables: Iterable[TableName], *, brief: bool = False, remote: str | None = None) -> SparkRuntime:
        from zlayout.spark.session import remote_runtime, runtime_for

        catalogs = [self.project.catalogs[name] for name in sorted({table.catalog for table in tables})]
        if self.ui.owns_process:
            found = None if remote is None else remote_runtime(self.project, catalogs, remote)
            return found or SparkRuntime(self.project, brief=brief)
        return runtime_for(self.project, self._spark, catalogs, remote)

    @contextmanager
    def _committing(self, table: TableName, remote: str | None = None) -> Iterator[tuple[SparkRuntime, Interrupts]]:
        """Yield a runtime for one commit, which a first signal does not interrupt. remote: see `runtime_for`."""
        runtime, interrupts = self._runtime([table], brief=True, remote=remote), Interrupts(lambda: None)
        with runtime, interrupts, self.ui.working(runtime):
            yield runtime, interrupts
        runtime.discard_log()

    def _start(self, table: TableName, runtime: SparkRuntime, interrupts: Interrupts) -> None:
        self.ui.event(Progress(str(table), Stage.STARTING_SPARK))
        _ = runtime.session
        interrupts.arm()  # pyspark replaces the handler of Ctrl-C when a session starts
        interrupts.check()


# The functions of the public API.


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
        select: The tables to plan: table names or globs, `path:GLOB` of layout files, `tag:NAME`, or `changed:REV` for
            the layouts that differ from those at the merge base with a revision of Git. Empty: all.
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
        TableError: The tables of a rule that is gone since the revision of `changed:REV` cannot be listed.
    """
    require_project(project)
    budget, after = parse_budget(max_rewrite_bytes), parse_duration(avoid_hot)
    options = PlanOptions(allow_full_rewrite, budget, include_rarely_read=include_rarely_read)
    request = PlanRequest(select, exclude, Reading(parallelism, timeout), options, sample, branch, after)
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
        TableError: The tables of a rule that is gone since the revision of `changed:REV` cannot be listed.
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
        stale: "compatible" accepts appends since the plan was made, and deletes of rows if the rewrite can be rebased;
            "strict" requires the planned version.
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
    options = PlanOptions(allow_full_rewrite)
    request = PlanRequest((), exclude, reading, options, branch=branch, saved=saved, stale=stale)
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
            of the session; the session itself is neither changed nor stopped. A session of Spark Connect can carry out
            engine native. Default: a new session with the configuration of the project, stopped at the end; refused
            with ZL209 if a session is running already. If the variable SPARK_REMOTE is set, it is a session on this
            Spark Connect server.
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
        spark: A running session, as for `apply`. Default: a new session, stopped at the end. With one of Spark Connect,
            tables of Iceberg in REST and SQL catalogs can be rolled back, if they have no later append.

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
    from zlayout.session.trial import plan_trial

    planned = plan_trial(project, table, branch=branch, workload=workload, timeout=timeout)
    return Session(project, Ui(on_event), spark).trial(planned, ignore_window=ignore_window)


def publish(project: Project, trial: Trial, spark: SparkSession | None = None, *, allow_worse: bool = False) -> None:
    """Fast-forward main to the branch, in one commit. Nothing is done if main has every commit of the branch.

    Args:
        project: The project that was given to `plan_publish`.
        trial: From `plan_publish`.
        spark: A running session, as for `apply`. Default: a new session, stopped at the end.
        allow_worse: As in `plan_publish`.

    Raises:
        Refused: ZL250, ZL251, ZL256. Nothing was written.
        CommitConflict: ZL320, ZL321: main or the branch has changed since it was read. Nothing was written.
        CommitUnknown: ZL331.
        EngineError: Java or Spark failed.
    """
    Session(project, spark=spark).publish(trial, allow_worse=allow_worse)


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


# Ctrl-C and SIGTERM: the first signal ends a command at a safe point, the second one immediately.


def cancel_in_background(runtime: SparkRuntime) -> None:
    """Start `cancel_jobs` in a thread, because the calling thread may wait on its connection to the JVM."""
    threading.Thread(target=cancel_jobs, args=(runtime,), daemon=True).start()


def cancel_jobs(runtime: SparkRuntime, pause: float = 0.5) -> None:
    """Cancel the Spark jobs of rewrites repeatedly, while a running stage can be cancelled. pause: In seconds."""
    while runtime.cancel():
        time.sleep(pause)


class Interrupts:
    """A context manager that handles SIGINT, and on the command line SIGTERM and SIGHUP (`zlayout.process`).

    A signal that is ignored before the block stays ignored.

    The first signal calls `stop` and sets `requested`. The next `check`, which is called where it is safe to end, then
    raises Interrupted. The second signal sets `at_once` and raises Interrupted immediately. `number` is the signal.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._handler = Handler(self._handle)
        self._before: dict[int, Any] = {}
        self.number: int = signal.SIGINT
        self.requested = self.at_once = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in handled_signals()}
            self.arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            if handler is not None:  # None: it was not installed by Python
                signal.signal(number, handler)
        self._before = {}

    def arm(self) -> None:
        """Install the handlers again: pyspark replaces that of SIGINT when a session starts."""
        if threading.current_thread() is threading.main_thread():
            for number, before in self._before.items():
                signal.signal(number, before if before is signal.SIG_IGN else self._handler)

    def check(self) -> None:
        """Raise Interrupted after a first signal."""
        if self.requested:
            raise Interrupted(self.number)

    def _handle(self, number: int) -> None:
        self.number = number
        if self.requested:
            self.at_once = True
            raise Interrupted(number, at_once=True)
        self.requested = True
        self._stop()


def ending(interrupts: Interrupts, on_event: OnEvent) -> OnEvent:
    """Return a function that calls `on_event`, and raises Interrupted after a signal at events where that is safe.

    It is not safe during a commit.
    """

    def follow(event: ApplyEvent) -> None:
        if isinstance(event, Progress):
            interrupts.arm()
            interrupts.check()
        on_event(event)
        if isinstance(event, TableEvent):
            interrupts.check()

    return follow
