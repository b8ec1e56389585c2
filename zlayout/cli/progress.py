"""What apply shows while it works: moving bars on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from zlayout.applying import Applied
from zlayout.backends.base import Notice, Outcome, Progress
from zlayout.backends.spark import SparkRuntime
from zlayout.cli.console import Console

if TYPE_CHECKING:
    import rich.progress

HEARTBEAT = 60.0
REFRESH = 0.5


class ProgressView:
    """One bar a table where bars can move; else a line at the start, one each minute, one at the end."""

    def __init__(self, console: Console, runtime: SparkRuntime, tables: list[str]) -> None:
        self._console = console
        self._runtime = runtime
        self._tables = tables
        self._current = Progress("", "")
        self._started = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._bars: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def __enter__(self) -> ProgressView:
        if self._console.live:
            self._bars = _bars()
            self._bars.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=2)
        if self._bars is not None:
            self._bars.stop()

    def start(self, table: str) -> None:
        self._started = time.monotonic()
        self._current = Progress(table, "starting Spark" if not self._runtime.started else "starting")
        position = f"[{self._tables.index(table) + 1}/{len(self._tables)}]"
        if self._bars is not None:
            self._task = self._bars.add_task(f"{position} {table}: {self._current.stage}", total=None)
        else:
            self._console.say(f"{position} {table}: {self._current.stage}")

    def notify(self, progress: Progress) -> None:
        self._current = progress

    def announce(self, table: str, outcome: Outcome) -> None:
        from zlayout.cli.apply import describe

        if isinstance(outcome, Notice) and self._bars is None:
            self._console.diagnose(outcome.diagnostic)
            return
        line = f"      {table}: {describe(outcome)}"
        if self._bars is not None:
            self._bars.console.print(line, markup=False, highlight=False)
        else:
            self._console.say(line)

    def finish(self, applied: Applied) -> None:
        took = time.monotonic() - self._started
        state = "failed" if applied.error else "done"
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, total=1, completed=1, description=f"{applied.table}: {state} in {took:.0f}s")
        else:
            self._console.say(f"      {applied.table}: {state} in {took:.0f}s")

    def _watch(self) -> None:
        """Poll Spark for tasks done, and draw them; or say each minute that we are still there."""
        beat = time.monotonic()
        while not self._stop.wait(REFRESH):
            if self._bars is not None and self._task is not None:
                done, total = self._tasks()
                text = f"{self._current.table}: {self._current.stage}"
                self._bars.update(self._task, description=text, completed=done, total=total or None)
            elif self._bars is None and time.monotonic() - beat >= HEARTBEAT:
                beat = time.monotonic()
                done, total = self._tasks()
                tasks = f", {done} of {total} tasks" if total else ""
                took = time.monotonic() - self._started
                self._console.say(f"      {self._current.table}: {self._current.stage}, {took:.0f}s{tasks}")

    def _tasks(self) -> tuple[int, int]:
        """Tasks done and all tasks of the stages that run now; (0, 0) where Spark does not say."""
        if self._current.total or not self._runtime.started:
            return self._current.done, self._current.total
        done = total = 0
        # A session that is just stopping answers with an error of its own; the bar then simply does not move.
        with suppress(OSError, RuntimeError, AttributeError, TypeError):
            tracker = self._runtime.session.sparkContext.statusTracker()
            for stage in tracker.getActiveStageIds():
                if (info := tracker.getStageInfo(stage)) is not None:
                    done, total = done + info.numCompletedTasks, total + info.numTasks
        return done, total


def _bars() -> rich.progress.Progress:
    import rich.console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=rich.console.Console(stderr=True), transient=False)
