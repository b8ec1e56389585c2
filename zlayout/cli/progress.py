"""Follow a running apply: read the progress of Spark several times per second and pass it to a view."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import TracebackType

from zlayout.app.interrupts import Interrupts
from zlayout.app.results import Applied
from zlayout.cli.views import Moment, View, stage_text
from zlayout.formats.base import Event, Progress, Stage
from zlayout.spark.session import SparkRuntime

REFRESH_SECONDS = 0.5


class ApplyProgress:
    """A context manager that follows one apply, and after Ctrl-C ends it at the next point where this is safe."""

    def __init__(self, view: View, runtime: SparkRuntime, tables: list[str], interrupts: Interrupts) -> None:
        self._view = view
        self._runtime = runtime
        self._tables = tables
        self._interrupts = interrupts
        self._current = Progress("", Stage.STARTING)
        self._started = time.monotonic()
        self._running = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ApplyProgress:
        self._view.open()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = False
        self._stop.set()
        self._thread.join(timeout=2)
        self._view.close()

    def start(self, table: str, run_id: str) -> None:
        """Handle the start of a table."""
        self._started = time.monotonic()
        self._current = Progress(table, Stage.STARTING if self._runtime.started else Stage.STARTING_SPARK)
        self._view.started(self._moment(), run_id)
        self._running = True

    def notify(self, progress: Progress) -> None:
        """Handle the start of a stage. Raises KeyboardInterrupt if a stop was requested, because it can end here."""
        self._interrupts.arm()
        self._interrupts.check()
        self._current = progress

    def announce(self, table: str, event: Event) -> None:
        """Handle an event. Raises KeyboardInterrupt if a stop was requested, since it is safe to end here."""
        self._view.happened(table, event)
        self._interrupts.check()

    def finish(self, applied: Applied) -> None:
        """Handle the end of a table."""
        self._running = False
        self._view.finished(applied, time.monotonic() - self._started)

    @property
    def abandonable(self) -> bool:
        """Whether the running stage can be cancelled. A rewrite can, a commit must not."""
        return self._running and self._current.stage is Stage.REWRITING

    def _watch(self) -> None:
        while not self._stop.wait(REFRESH_SECONDS):
            if self._running:
                self._view.moved(self._moment(*self._tasks()))

    def _moment(self, done: int = 0, total: int = 0) -> Moment:
        current = self._current
        number = self._tables.index(current.table) + 1 if current.table in self._tables else 0
        seconds = time.monotonic() - self._started
        return Moment(current.table, number, len(self._tables), stage_text(current), done, total, seconds)

    def _tasks(self) -> tuple[int, int]:
        """Return the number of finished tasks and of all tasks of the running Spark stages; (0, 0) if unknown."""
        if self._current.total or not self._runtime.started:
            return self._current.done, self._current.total
        from py4j.protocol import Py4JError

        done = total = 0
        # A session that stops, or whose JVM has died, raises one of these errors. The progress then does not change.
        with suppress(OSError, RuntimeError, AttributeError, TypeError, Py4JError):
            tracker = self._runtime.session.sparkContext.statusTracker()
            for stage in tracker.getActiveStageIds():
                if (info := tracker.getStageInfo(stage)) is not None:
                    done, total = done + info.numCompletedTasks, total + info.numTasks
        return done, total
