"""Follow a running apply: read the progress of Spark several times per second and pass it to a view."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from zlayout.app.interrupts import Interrupts
from zlayout.app.results import Applied
from zlayout.cli.views import Moment, View, stage_text
from zlayout.formats.base import Event, Progress, Stage
from zlayout.spark.session import SparkRuntime

REFRESH_SECONDS = 0.5


@dataclass(slots=True)
class _Running:
    """A table that apply works on: when it started (on the monotonic clock), and its stage."""

    started: float
    current: Progress


class ApplyProgress:
    """A context manager that follows one apply, and after Ctrl-C ends it at the next point where this is safe."""

    def __init__(self, view: View, runtime: SparkRuntime, tables: list[str], interrupts: Interrupts) -> None:
        self._view = view
        self._runtime = runtime
        self._numbers = {table: number for number, table in enumerate(tables, 1)}
        self._interrupts = interrupts
        self._running: dict[str, _Running] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ApplyProgress:
        self._view.open()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.clear()
        self._stop.set()
        self._thread.join(timeout=2)
        self._view.close()

    def start(self, table: str, run_id: str) -> None:
        """Handle the start of a table."""
        stage = Stage.STARTING if self._runtime.started else Stage.STARTING_SPARK
        running = _Running(time.monotonic(), Progress(table, stage))
        self._view.started(self._moment(running), run_id)
        self._running[table] = running

    def notify(self, progress: Progress) -> None:
        """Handle the start of a stage. Raises KeyboardInterrupt if a stop was requested, because it can end here."""
        self._interrupts.arm()
        self._interrupts.check()
        if progress.table in self._running:
            self._running[progress.table].current = progress

    def announce(self, table: str, event: Event) -> None:
        """Handle an event. Raises KeyboardInterrupt if a stop was requested, since it is safe to end here."""
        self._view.happened(table, event)
        self._interrupts.check()

    def finish(self, applied: Applied) -> None:
        """Handle the end of a table."""
        running, now = self._running.pop(applied.table, None), time.monotonic()
        self._view.finished(applied, now - running.started if running else 0.0)

    def _watch(self) -> None:
        while not self._stop.wait(REFRESH_SECONDS):
            running = list(self._running.values())
            # Spark does not say to which table a task belongs.
            tasks = self._tasks(running[0].current) if len(running) == 1 else (0, 0)
            for table in running:
                self._view.moved(self._moment(table, *tasks))

    def _moment(self, running: _Running, done: int = 0, total: int = 0) -> Moment:
        current, seconds = running.current, time.monotonic() - running.started
        number = self._numbers.get(current.table, 0)
        return Moment(current.table, number, len(self._numbers), stage_text(current), done, total, seconds)

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
