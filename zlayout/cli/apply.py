"""What the command `apply` prints: the plan, progress and results, as text or as JSON events.

A `View` shows the running apply as progress bars, lines or JSON events.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import zlayout
from zlayout import process
from zlayout.cli.changes import Asking
from zlayout.cli.console import Console
from zlayout.cli.terminal import Reports, describe, heading, stage_text, starting_text
from zlayout.errors import CommitUnknown, Diagnostic, SpecError, ZlayoutError
from zlayout.formats.base import Event, GroupFailed, Notice, Progress, Stage
from zlayout.planner import document
from zlayout.planner.model import FORMAT_VERSION, Plan, Status, TablePlan
from zlayout.planner.run_report import ResultStatus, RunReport, TableResult
from zlayout.report import text
from zlayout.report.text import TextOptions
from zlayout.report.words import last_line, printable, result_text, wrapped
from zlayout.session.apply import NOTHING_LEFT, left_of_window
from zlayout.session.plan import ProjectPlan
from zlayout.session.results import Applied, ApplyEvent, TableEvent, TableFinished, TableStarted, result_of
from zlayout.session.session import ApplyOptions, Interrupts, PlanRequest, Run, Session
from zlayout.spark.session import SparkRuntime, check_engine, check_pyspark
from zlayout.spec.model import Maintenance
from zlayout.text import json_text, plural, size

if TYPE_CHECKING:
    import rich.progress

# A running apply on stderr: progress bars on a terminal, else lines.


MAX_SECONDS_BETWEEN_LINES = 60.0


@dataclass(frozen=True, slots=True)
class Moment:
    """The progress of one table.

    Attributes:
        number, tables: The number of the table, from 1 in the order of starting, and the number of tables of the run.
        stage: The stage in words.
        done, total: The number of finished and of all Spark tasks; total is 0 if they are unknown.
        seconds: The time since the table started.
    """

    table: str
    number: int
    tables: int
    stage: str
    done: int = 0
    total: int = 0
    seconds: float = 0.0


class View:
    """Shows a running apply. `moved` is called from another thread, several times per second."""

    def open(self) -> None:
        """Called before the first table."""

    def started(self, moment: Moment, run_id: str) -> None:
        """Called when a table starts."""

    def waiting(self, moment: Moment) -> None:
        """Called while Spark starts, with what is waited for as the stage."""

    def moved(self, moment: Moment) -> None:
        """Called with the current progress."""

    def happened(self, table: str, event: Event) -> None:
        """Called for a commit, a failed group or a notice."""

    def finished(self, applied: Applied, seconds: float) -> None:
        """Called when a table is done, successfully or not."""

    def close(self) -> None:
        """Called at the end of the run, even if it was interrupted."""


class Lines(View):
    """Writes a line for each table when it starts, every minute, for each event, and when it ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._reported: dict[str, float] = {}  # by table: the time of the last line about its progress, in seconds

    def started(self, moment: Moment, run_id: str) -> None:
        self._reported[moment.table] = 0.0
        self._console.say(f"[{moment.number}/{moment.tables}] {printable(moment.table)}: {moment.stage}, run {run_id}")

    def waiting(self, moment: Moment) -> None:
        self._console.say(f"      {printable(moment.table)}: {moment.stage}")

    def moved(self, moment: Moment) -> None:
        if moment.seconds - self._reported[moment.table] < MAX_SECONDS_BETWEEN_LINES:
            return
        self._reported[moment.table] = moment.seconds
        tasks = f", {moment.done} of {plural(moment.total, 'task')}" if moment.total else ""
        self._console.say(f"      {printable(moment.table)}: {moment.stage}, {moment.seconds:.0f}s{tasks}")

    def happened(self, table: str, event: Event) -> None:
        if isinstance(event, Notice):
            self._console.diagnose(event.diagnostic)
        else:
            self._console.say(f"      {printable(table)}: {describe(event)}")

    def finished(self, applied: Applied, seconds: float) -> None:
        self._console.say(f"      {printable(applied.table)}: {_state(applied)} in {seconds:.0f}s")


class Bars(View):
    """Draws a progress bar for each table, which shows the number of finished Spark tasks."""

    def __init__(self) -> None:
        import rich.console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        # On a narrow terminal, the name is shortened instead of the bar.
        what = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1))
        columns = (what, BarColumn(bar_width=16), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=rich.console.Console(stderr=True), expand=True)
        self._bar: dict[str, rich.progress.TaskID] = {}

    def open(self) -> None:
        self._bars.start()

    def started(self, moment: Moment, run_id: str) -> None:  # noqa: ARG002 - the result names the run
        self._bar[moment.table] = self._bars.add_task(_described(moment), total=None)

    def moved(self, moment: Moment) -> None:
        if (bar := self._bar.get(moment.table)) is not None:
            self._bars.update(bar, description=_described(moment))
            if moment.total:
                self._bars.update(bar, completed=moment.done, total=moment.total)

    def happened(self, table: str, event: Event) -> None:
        line = f"      {printable(table)}: {describe(event)}"
        for piece in wrapped(line, self._bars.console.width, 8):
            self._bars.console.print(piece, markup=False, highlight=False)

    def finished(self, applied: Applied, seconds: float) -> None:  # noqa: ARG002 - the bar measures the time itself
        if (bar := self._bar.pop(applied.table, None)) is not None:
            self._bars.update(bar, description=f"{_state(applied)}: {printable(applied.table)}")
            if not (applied.interrupted or applied.error):
                total = self._bars.tasks[bar].total or 1
                self._bars.update(bar, completed=total, total=total)
            self._bars.stop_task(bar)

    def close(self) -> None:
        self._bars.stop()


def _described(moment: Moment) -> str:
    return f"[{moment.number}/{moment.tables}] {moment.stage}: {printable(moment.table)}"


def _state(applied: Applied) -> str:
    return "interrupted" if applied.interrupted else "failed" if applied.error else "done"


REFRESH_SECONDS = 0.5


class ApplyProgress:
    """A context manager that passes the events of one apply to a view, and reads the progress of Spark in a thread."""

    def __init__(self, view: View, runtime: SparkRuntime, tables: int) -> None:
        self._view = view
        self._runtime = runtime
        self._tables = tables
        self._numbers = count(1)  # in the order in which tables start, also of several threads
        self._running: dict[str, Moment] = {}
        self._began: dict[str, float] = {}  # by table: on the monotonic clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ApplyProgress:
        self._runtime.waiting = self._wait
        self._view.open()
        self._thread.start()
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.clear()
        self._stop.set()
        self._thread.join(timeout=2)
        self._view.close()

    def __call__(self, event: ApplyEvent) -> None:
        """Show an event."""
        match event:
            case TableStarted(table, run_id):
                stage = Stage.STARTING if self._runtime.started else Stage.STARTING_SPARK
                moment = Moment(table, next(self._numbers), self._tables, stage_text(Progress(table, stage)))
                self._began[table] = time.monotonic()
                self._view.started(moment, run_id)
                self._running[table] = moment
            case TableEvent(table, what):
                self._view.happened(table, what)
            case TableFinished(applied):
                ended = self._running.pop(applied.table, None)
                self._view.finished(applied, self._seconds(applied.table) if ended else 0.0)
            case Progress(table) if table in self._running:
                moment = replace(self._running[table], stage=stage_text(event), done=event.done, total=event.total)
                self._running[table] = moment

    def _wait(self, what: str) -> None:
        for table, moment in [*self._running.items()][:1]:  # the table of this thread: no other has begun
            self._running[table] = replace(moment, stage=starting_text(what))
            self._view.waiting(self._running[table])

    def _watch(self) -> None:
        while not self._stop.wait(REFRESH_SECONDS):
            running = list(self._running.values())
            done = total = 0
            if len(running) == 1:  # Spark does not report to which table a task belongs
                done, total = (running[0].done, running[0].total) if running[0].total else self._runtime.tasks()
            with suppress(ZlayoutError):  # the next event of the run raises it in the thread of the run
                for moment in running:
                    seconds = self._seconds(moment.table)
                    self._view.moved(replace(moment, done=done, total=total, seconds=seconds))

    def _seconds(self, table: str) -> float:
        return time.monotonic() - self._began[table]


# The events of `apply --output json`: one JSON object per line on stdout. docs/reports.md lists them.


class Events(View):
    """Writes events. The first event is always `version`, and the last is `change_summary`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._reported: dict[str, tuple[str, float]] = {}  # by table: the last written stage, and its time in seconds
        self._unfinished: set[str] = set()  # the tables that have started

    def emit(self, type: str, **fields: Any) -> None:
        """Write one event as a whole line. May be called from any thread. Raises SpecError ZL083."""
        line = json_text({"type": type, **fields}, None)
        with self._lock:
            try:
                self._console.result(f"{line}\n")
            except OSError as error:
                reason, hint = error.strerror or str(error), "keep stdout open until apply has ended"
                raise SpecError.of("ZL083", f"the events cannot be written: {reason}", hint=hint) from error

    def planned(self, plan: Plan) -> None:
        """Write `version`, then one `planned_change` for each table that is not as declared."""
        self.emit("version", zlayout=zlayout.__version__, format_version=FORMAT_VERSION)
        for table in plan.tables:
            if not table.as_declared:
                self.emit("planned_change", **_planned(table))

    def summary(self, report: RunReport, exit_code: int) -> None:
        """Write `change_summary`: the number of tables per result status, and the exit code of the command.

        Before it, each table that Ctrl-C interrupted between two steps gets its last event.
        """
        for table in sorted(self._unfinished & report.results.keys()):
            self._finished(table, report.results[table], self._reported[table][1])
        statuses = [result.outcome for result in report.results.values()]
        counts = {status: statuses.count(status) for status in sorted(set(statuses))}
        self.emit("change_summary", tables=len(report.plan.tables), outcomes=counts, exit_code=exit_code)

    def started(self, moment: Moment, run_id: str) -> None:
        self._reported[moment.table] = "", 0.0
        self._unfinished.add(moment.table)
        self.emit("apply_start", table=moment.table, run_id=run_id, number=moment.number, tables=moment.tables)

    def moved(self, moment: Moment) -> None:
        """Write `apply_progress` if the stage has changed or a minute has passed."""
        stage, seconds = self._reported.get(moment.table, ("", 0.0))
        if moment.stage == stage and moment.seconds - seconds < MAX_SECONDS_BETWEEN_LINES:
            return
        self._reported[moment.table] = moment.stage, moment.seconds
        self.emit(
            "apply_progress",
            table=moment.table,
            stage=moment.stage,
            tasks_done=moment.done,
            tasks_total=moment.total,
            seconds=round(moment.seconds, 1),
        )

    def happened(self, table: str, event: Event) -> None:
        if isinstance(event, Notice):
            self.emit("notice", table=table, diagnostic=dataclasses.asdict(event.diagnostic))
        elif isinstance(event, GroupFailed):
            problems = [dataclasses.asdict(d) for d in event.error.diagnostics]
            self.emit("group_dropped", table=table, groups=list(event.groups), problems=problems)
        else:
            self.emit("commit", table=table, **dataclasses.asdict(event))

    def finished(self, applied: Applied, seconds: float) -> None:
        self._finished(applied.table, result_of(applied), seconds)

    def _finished(self, table: str, result: TableResult, seconds: float) -> None:
        self._unfinished.discard(table)
        body = dataclasses.asdict(result)
        for measured in ("columns", "size_histogram", "boxes", "strip"):
            body.pop(measured)
        kind = "apply_complete" if result.succeeded else "apply_errored"
        self.emit(kind, table=table, seconds=round(seconds, 1), **body)


def _planned(table: TablePlan) -> dict[str, Any]:
    groups = table.groups
    return {
        "table": table.table,
        "status": table.status,
        "drift": [d.key for d in table.drift],
        "properties": [p.name for p in table.properties],
        "repartition": table.partitioning is not None,
        "reasons": sorted({g.reason for g in groups}),
        "groups": len(groups),
        "files": table.rewrite_files,
        "bytes": table.rewrite_bytes,
        "target_files": sum(g.target_files for g in groups),
        "diagnostics": [dataclasses.asdict(d) for d in table.diagnostics],
    }


# The command: text, or events for programs.


MAX_NAME_WIDTH = 40  # of the column with the names of tables in the results
_STOPPING = "Stopping: a running commit is completed, a running rewrite is abandoned. Another signal stops at once."


class ApplyTerminal(Asking):
    """Prints the plan, progress and results as text, and nothing on stdout if a report goes there."""

    command = "apply"

    def __init__(self, console: Console, auto_approve: bool, reports: Reports, options: ApplyOptions) -> None:
        super().__init__(console, auto_approve)
        self.needs_pictures = reports.need_pictures
        self._reports = reports
        self._options = options
        self._tables = 0
        self._progress: ApplyProgress | None = None

    def show(self, planned: ProjectPlan, done: Run | None = None) -> None:
        if done is not None:
            self._show_run(done)
            return
        self.show_plan(planned)
        self._tables = len(planned.document.with_status(Status.CHANGES))
        self._say_what_begins(planned.document)

    def show_plan(self, planned: ProjectPlan) -> None:
        """Print the plan."""
        if not self._reports.take_stdout:
            options = self.console.text_options()
            self.console.result(text.render(planned.document, options, heading=heading(planned)))

    def check(self) -> None:
        check_engine(self._options.remote)

    def approve(self, question: str, planned: ProjectPlan) -> None:
        """Ask, unless there is nothing to approve because no table may be changed at this time."""
        check_pyspark()
        maintenance = None if self._options.ignore_window else planned.project.maintenance
        if maintenance and left_of_window(maintenance) == NOTHING_LEFT:
            self.console.say(_outside(maintenance))
        else:
            super().approve(question, planned)

    def view(self) -> View:
        """Return the view that shows the progress."""
        return Bars() if self.console.live else Lines(self.console)

    def working(self, runtime: SparkRuntime) -> ApplyProgress:
        self._progress = ApplyProgress(self.view(), runtime, self._tables)
        return self._progress

    def event(self, event: ApplyEvent) -> None:
        assert self._progress is not None
        self._progress(event)

    def interrupted(self, interrupts: Interrupts, done: Sequence[Applied] | None = None) -> None:
        if done is not None:
            self.console.say(_interrupted(done, interrupts), "error")
            return
        with suppress(OSError, RuntimeError):  # the terminal is closed; or the signal has interrupted another write
            self.console.say(f"\n{_STOPPING}", "error")

    def end(self, report: RunReport, code: int, results: str = "", problems: Sequence[Diagnostic] = ()) -> None:
        """Print the results and below them the problems of the run, and write the reports."""
        if not self._reports.take_stdout:
            self.console.result(results)
        self._end(report, code, problems)

    def _end(self, report: RunReport, code: int, problems: Sequence[Diagnostic]) -> None:
        for diagnostic in problems:
            self.console.diagnose(diagnostic)
        self._reports.finish(report, self.console, code)

    def _say_what_begins(self, plan: Plan) -> None:
        if plan.withheld(all_or_nothing=self._options.all_or_nothing):
            text = "Refused: nothing was written. Fix the problems above, or leave these tables out with --exclude."
            self.console.say(text, "error")
        elif plan.only_waits:
            self.console.say("Nothing to apply now: all changes wait for a later run, see above.")
        elif plan.has_changes and (left_out := plan.with_status(Status.REFUSED, Status.ERROR)):
            self.console.say(f"{plural(len(left_out), 'table')} left unchanged because of the problems above.", "error")

    def _show_run(self, run: Run) -> None:
        report, outcomes = run.report, run.report.results.values()
        problems = [diagnostic for applied in run.done or () for diagnostic in result_of(applied).problems]
        results = "" if run.done is None else _results(report, run.done, self.console.text_options())
        self.end(report, run.exit_code, results, problems)
        self.name_log(run.log)
        left = (ResultStatus.NOT_YET, ResultStatus.AS_PLANNED)
        if not problems and any(result.outcome in left for result in outcomes):
            self.console.say("`zlayout plan` shows what is left, such as files that were added since the plan.")
        if undo := [result.rollback for result in outcomes if result.rollback]:
            command = undo[0] if len(undo) == 1 else "zlayout rollback TABLE --run RUN, for each table"
            self.console.say(f"To undo: {command}")


class EventsTerminal(ApplyTerminal):
    """Prints events for programs, and nothing else on stdout."""

    def __init__(self, console: Console, auto_approve: bool, reports: Reports, options: ApplyOptions) -> None:
        super().__init__(console, auto_approve, reports, options)
        self._events = Events(console)
        self._planned = False

    def show_plan(self, planned: ProjectPlan) -> None:
        self._events.planned(planned.document)
        self._planned = True

    def view(self) -> View:
        return self._events

    def end(
        self,
        report: RunReport,
        code: int,
        results: str = "",  # noqa: ARG002 - events contain the results
        problems: Sequence[Diagnostic] = (),
    ) -> None:
        if not self._planned:
            self._events.planned(report.plan)
        try:
            self._end(report, code, problems)
        except SpecError:
            self._events.summary(report, SpecError.exit_code)
            raise
        self._events.summary(report, code)


def apply_command(project: Path, request: PlanRequest, options: ApplyOptions, terminal: ApplyTerminal) -> int:
    """Plan or read a plan file, ask for approval, carry out the plan and print the results.

    Args:
        project: The folder of the project.
        request: The options of the plan. If SELECT is one file, this is the plan file.
        options: The other options.
        terminal: Where to write.

    Returns:
        The exit code: 0 if all tables are as declared, or as far as the budget and the time limit allow; 1 after a
        failure; 3 if the plan was refused before any write; 4 if some tables were refused and others written; 128 plus
        the number of the signal if one ended the run.

    Raises:
        NotApproved: Exit code 1.
    """
    (first, *others) = request.select or [""]
    if not others and Path(first).is_file():
        _refuse_options_of_plan(request, first)
        saved = document.read(Path(first))
        if not saved.plan.has_changes:
            terminal.end(saved, saved.plan.exit_code, f"{last_line(saved.plan)}\n")
            return saved.plan.exit_code
        request = replace(request, saved=saved.plan)
    return Session(project, terminal).apply(request, options).exit_code


def _refuse_options_of_plan(request: PlanRequest, planfile: str) -> None:
    for option, given in (
        ("--include-rarely-read", request.options.include_rarely_read),
        ("--only-decay", request.options.only_decay),
        ("--avoid-hot", request.avoid_hot is not None),
    ):
        if given:
            message = f"{option} cannot change the plan file {planfile}"
            hint = f"leave it out, or write a new plan file: zlayout plan {option} ... --out FILE"
            raise SpecError.of("ZL085", message, hint=hint)


def _interrupted(finished: Sequence[Applied], interrupts: Interrupts) -> str:
    commits = sum(len(applied.commits) for applied in finished)
    done = f"{plural(commits, 'commit')} made before {'remains' if commits == 1 else 'remain'}"
    if interrupts.at_once or any(isinstance(applied.error, CommitUnknown) for applied in finished):
        done = f"{plural(commits, 'commit')} known, and a commit that was running may be in its table"
    elif not commits:
        done = "nothing was committed"
    return f"Interrupted by {process.signal_name(interrupts.number)}: {done}. To continue, plan and apply again."


def _outside(maintenance: Maintenance) -> str:
    begins = f"{maintenance.next_start(datetime.now(UTC)):%Y-%m-%d %H:%M}"
    return f"Outside of the maintenance windows. The next one begins at {begins} ({maintenance.timezone})."


def _results(report: RunReport, done: Sequence[Applied], options: TextOptions) -> str:
    begun = sorted((applied for applied in done if applied.begun), key=lambda a: not result_of(a).succeeded)
    width = min(max((len(printable(applied.table)) for applied in begun), default=0), MAX_NAME_WIDTH)
    lines = [f"{printable(applied.table):<{width}}  {result_text(result_of(applied))}" for applied in begun]
    if deferred := [applied for applied in done if not applied.begun]:
        bytes_left = sum(group.bytes for applied in deferred for group in applied.deferred)
        lines.append(f"{plural(len(deferred), 'table')} ({size(bytes_left)}) left for a later run by the time limit")
    pieces = [piece for line in lines for piece in wrapped(line, options.width, 6)]
    last = [options.style("title", piece) for piece in wrapped(last_line(report), options.width, 0)]
    return "\n" + "".join(f"{line}\n" for line in (*pieces, "", *last))
