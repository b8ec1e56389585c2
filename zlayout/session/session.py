"""The session of a project: plan, drift, apply, trial, publish, drop-trial and rollback, each orchestrated once.

A session asks and reports through a `Ui`. `Ui` itself is that of the Python API, whose functions are a few lines over a
session (`zlayout.session.api`). The command line has a ui that prints (`zlayout.cli.terminal`).
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
from typing import TYPE_CHECKING, Any

from zlayout import signals
from zlayout.errors import CommitConflict, Diagnostic, EngineError, NotApproved, Refused
from zlayout.formats.base import Commit, Progress, Stage
from zlayout.formats.registry import backend_for
from zlayout.formats.trial import Trial, require_droppable, require_publishable
from zlayout.formats.undo import Undo
from zlayout.planner.model import Plan, Status, summary
from zlayout.planner.run_report import RunReport
from zlayout.planner.stale import Staleness
from zlayout.planner.work import PlanOptions
from zlayout.records.history import Command
from zlayout.session.apply import TimeLimit, Verify, carry_out, left_of_window
from zlayout.session.concurrent_reads import TIMEOUT, Reading, read_table
from zlayout.session.history import append_to_history, follow_publish, with_trends
from zlayout.session.plan import ProjectPlan, plan_specs
from zlayout.session.plan_file import review
from zlayout.session.project import known_table, layout_of, load_project
from zlayout.session.results import (
    Applied,
    ApplyEvent,
    OnEvent,
    TableEvent,
    exit_code,
    result_of,
    with_pictures,
    with_results,
)
from zlayout.session.rules import on_branch, selected_layouts
from zlayout.session.sampling import SAMPLE_BYTES
from zlayout.session.trial import PlannedTrial, TrialReport, incomplete, measured, plan_of_branch, readable, trials_of
from zlayout.signals import Handler, Interrupted, handled_signals
from zlayout.spark.live import runtime_for
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import MAIN, Project, TableName, hot_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        saved: A saved plan, which is checked instead of making a new one. `select`, `sample`, `avoid_hot` and
            `include_rarely_read` then have no effect.
        stale: As in `zlayout.read_plan`.
    """

    select: str | Iterable[str] = ()
    exclude: str | Iterable[str] = ()
    reading: Reading = Reading()
    allow_full_rewrite: bool = False
    max_rewrite_bytes: int | None = None
    sample: bool | None = None
    branch: str | None = None
    avoid_hot: timedelta | None = None
    include_rarely_read: bool = False
    saved: Plan | None = None
    stale: Staleness = "compatible"


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How to carry out a plan; see the arguments of `zlayout.apply`."""

    verify: Verify = "gate"
    all_or_nothing: bool = False
    concurrent_tables: int = 1
    max_minutes: float | None = None
    ignore_window: bool = False


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
        planned = self._read(request)
        self.ui.show(planned, self._recorded(planned, self._report(planned), Command.PLAN))
        return planned

    def drift(self, request: PlanRequest) -> ProjectPlan:
        """Plan for a drift report. Do not apply the plan: it can contain full rewrites that were not allowed."""
        # A partitioning change is reported as drift, although apply refuses it unless full rewrites are allowed.
        planned = self._read(request, PlanOptions(allow_full_rewrite=True))
        report = replace(self._report(planned), drift=True)
        self.ui.show(planned, self._recorded(planned, report, Command.DRIFT))
        return planned

    def review(self, request: PlanRequest) -> ProjectPlan:
        """Check the saved plan of a request as `zlayout.read_plan` does."""
        assert request.saved is not None
        options = PlanOptions(request.allow_full_rewrite, request.max_rewrite_bytes)
        saved, reading = request.saved, request.reading
        return review(self.project, saved, request.exclude, request.stale, options, reading, request.branch)

    def apply(self, source: PlanRequest | ProjectPlan, options: ApplyOptions = ApplyOptions()) -> Run:
        """Plan if the source is no plan, carry out the changes, observe the tables again, and append to the history."""
        start, ui = time.monotonic(), self.ui
        if isinstance(source, ProjectPlan):
            plan = source
        else:
            plan = self._read(source) if source.saved is None else self.review(source)
        document, report = plan.document, self._report(plan)
        ui.show(plan)
        withheld = document.withheld(all_or_nothing=options.all_or_nothing)
        if withheld or document.only_waits or not document.has_changes:
            return self._ended(plan, Run(report, document.exit_code))
        try:
            ui.approve("Apply these changes?", plan)
        except NotApproved as answer:
            ui.show(plan, Run(report, answer.exit_code))
            raise
        window = None if options.ignore_window else left_of_window(self.project.maintenance)
        limit = TimeLimit.of(options.max_minutes, start, window)
        changed = [one.spec.table for one in plan.planned if one.decision.plan.status is Status.CHANGES]
        runtime = self._runtime(changed, brief=summary(document.tables).rewrite_bytes <= BRIEF_BYTES)

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
        code = signals.exit_code(interrupts.number) if stopped else exit_code(document, done)
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
        with self._committing(undo.table) as (runtime, interrupts):
            backend = backend_for(self.project.catalogs[undo.table.catalog], runtime)
            done = RolledBack(
                run_id, undo, backend.roll_back(undo, run_id, properties, ending(interrupts, self.ui.event))
            )
            runtime.committed(undo.table)
        self.ui.show(undo, done)
        return done

    def publish(self, trial: Trial) -> None:
        """Fast-forward main to the branch of a trial, in one commit, unless main has every commit of it."""
        if trial.published:
            self.ui.show(trial, "nothing_to_do")
            return
        require_publishable(trial)
        self.ui.show(trial)
        self.ui.approve("Publish this branch?", trial)
        self._publish(trial)
        self.ui.show(trial, "published")

    def _publish(self, trial: Trial) -> None:
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
            runtime.discard_log()
        return report

    def _read(self, request: PlanRequest, options: PlanOptions | None = None) -> ProjectPlan:
        with self.ui.reading() as on_progress:
            project, reading = self.project, replace(request.reading, on_progress=on_progress)
            options = options or _options(project, request)
            found = selected_layouts(project, request.select, request.exclude, reading)
            declared = on_branch(project, found, request.branch)
            if project.sample if request.sample is None else request.sample:
                options = replace(options, sample_bytes=SAMPLE_BYTES)
            return plan_specs(project, declared, options, reading)

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

    def _runtime(self, tables: Iterable[TableName], *, brief: bool = False) -> SparkRuntime:
        if self.ui.owns_process:
            return SparkRuntime(self.project, brief=brief)
        names = sorted({table.catalog for table in tables})
        return runtime_for(self.project, self._spark, [self.project.catalogs[name] for name in names])

    @contextmanager
    def _committing(self, table: TableName) -> Iterator[tuple[SparkRuntime, Interrupts]]:
        """Yield a runtime for one commit, which a first signal does not interrupt."""
        runtime, interrupts = self._runtime([table], brief=True), Interrupts(lambda: None)
        with runtime, interrupts, self.ui.working(runtime):
            yield runtime, interrupts
        runtime.discard_log()

    def _start(self, table: TableName, runtime: SparkRuntime, interrupts: Interrupts) -> None:
        self.ui.event(Progress(str(table), Stage.STARTING_SPARK))
        _ = runtime.session
        interrupts.arm()  # pyspark replaces the handler of Ctrl-C when a session starts
        interrupts.check()


def _options(project: Project, request: PlanRequest) -> PlanOptions:
    after = hot_after(request.avoid_hot, project.maintenance)
    return PlanOptions(
        request.allow_full_rewrite,
        request.max_rewrite_bytes,
        hot_after=after,
        include_rarely_read=request.include_rarely_read,
    )


# Ctrl-C and SIGTERM: the first signal ends a command at a safe point, the second one immediately.


def cancel_in_background(runtime: SparkRuntime) -> None:
    """Start `cancel_jobs` in a thread, because the calling thread may wait on its connection to the JVM."""
    threading.Thread(target=cancel_jobs, args=(runtime,), daemon=True).start()


def cancel_jobs(runtime: SparkRuntime, pause: float = 0.5) -> None:
    """Cancel the Spark jobs of rewrites repeatedly, while a running stage can be cancelled. pause: In seconds."""
    while runtime.cancel():
        time.sleep(pause)


class Interrupts:
    """A context manager that handles SIGINT, and on the command line SIGTERM and SIGHUP (`zlayout.signals`).

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
