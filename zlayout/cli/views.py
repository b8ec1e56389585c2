"""Follows a running apply and shows it on stderr, as progress bars on a terminal, else as lines."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING

from zlayout.app.results import Applied, ApplyEvent, TableEvent, TableFinished, TableStarted
from zlayout.cli.console import Console
from zlayout.errors import ZlayoutError
from zlayout.formats.base import Event, GroupFailed, Notice, Progress, Stage
from zlayout.message_text import plural
from zlayout.report.words import printable, size, wrapped
from zlayout.spark.session import SparkRuntime

if TYPE_CHECKING:
    import rich.progress


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


_STAGES = {
    Stage.STARTING_SPARK: "starting Spark",
    Stage.STARTING: "starting",
    Stage.CHANGING_SETTINGS: "changing settings",
    Stage.REWRITING: "rewriting",
    Stage.COMMITTING: "committing",
    Stage.RECORDING: "recording the layout",
    Stage.OBSERVING: "reading the table again",
    Stage.REPLAYING: "replaying queries",
}


def stage_text(progress: Progress) -> str:
    """Return the stage in words, with its detail."""
    return f"{_STAGES[progress.stage]} {progress.detail}".rstrip()


class View:
    """Shows a running apply. `moved` is called from another thread, several times per second."""

    def open(self) -> None:
        """Called before the first table."""

    def started(self, moment: Moment, run_id: str) -> None:
        """Called when a table starts."""

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


def describe(event: Event) -> str:
    """Write an event as a line of text."""
    if isinstance(event, Notice):
        return printable(f"{event.diagnostic.severity}: {event.diagnostic}")
    if isinstance(event, GroupFailed):
        return f"{plural(len(event.groups), 'group')} dropped: {printable(str(event.error))}"
    if event.kind in ("rewrite", "rollback"):
        return (
            f"commit {event.version}: {event.files_removed:,} -> {event.files_added:,} files, {size(event.bytes_added)}"
        )
    what = "settings changed" if event.kind == "settings" else "layout recorded"
    return f"commit {event.version}: {what}"


REFRESH_SECONDS = 0.5


@dataclass(slots=True)
class _Running:
    number: int
    started: float  # on the monotonic clock
    current: Progress


class ApplyProgress:
    """A context manager that passes the events of one apply to a view, and reads the progress of Spark in a thread."""

    def __init__(self, view: View, runtime: SparkRuntime, tables: int) -> None:
        self._view = view
        self._runtime = runtime
        self._tables = tables
        self._numbers = count(1)  # in the order in which tables start, also of several threads
        self._running: dict[str, _Running] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ApplyProgress:
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
                running = _Running(next(self._numbers), time.monotonic(), Progress(table, stage))
                self._view.started(self._moment(running), run_id)
                self._running[table] = running
            case TableEvent(table, what):
                self._view.happened(table, what)
            case TableFinished(applied):
                ended = self._running.pop(applied.table, None)
                self._view.finished(applied, time.monotonic() - ended.started if ended else 0.0)
            case Progress(table) if table in self._running:
                self._running[table].current = event

    def _watch(self) -> None:
        while not self._stop.wait(REFRESH_SECONDS):
            running = list(self._running.values())
            # Spark does not report to which table a task belongs.
            tasks = self._tasks(running[0].current) if len(running) == 1 else (0, 0)
            with suppress(ZlayoutError):  # the next event of the run raises it in the thread of the run
                for table in running:
                    self._view.moved(self._moment(table, *tasks))

    def _moment(self, running: _Running, done: int = 0, total: int = 0) -> Moment:
        current, seconds = running.current, time.monotonic() - running.started
        return Moment(current.table, running.number, self._tables, stage_text(current), done, total, seconds)

    def _tasks(self, current: Progress) -> tuple[int, int]:
        """Return the number of finished tasks and of all tasks of the running Spark stages; (0, 0) if unknown."""
        if current.total or not self._runtime.started:
            return current.done, current.total
        from py4j.protocol import Py4JError

        done = total = 0
        # A session that stops, or whose JVM has died, raises one of these errors. The progress then does not change.
        with suppress(OSError, RuntimeError, AttributeError, TypeError, Py4JError):
            tracker = self._runtime.session.sparkContext.statusTracker()
            for stage in tracker.getActiveStageIds():
                if (info := tracker.getStageInfo(stage)) is not None:
                    done, total = done + info.numCompletedTasks, total + info.numTasks
        return done, total
