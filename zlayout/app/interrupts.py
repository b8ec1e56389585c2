"""Handle Ctrl-C: the first one ends a command at a safe point, the second one immediately."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from zlayout.app.results import ApplyEvent, OnEvent, TableEvent
from zlayout.formats.base import Progress
from zlayout.spark.session import SparkRuntime


def cancel_in_background(runtime: SparkRuntime) -> None:
    """Start `cancel_jobs` in a thread, because the calling thread may wait on its connection to the JVM."""
    threading.Thread(target=cancel_jobs, args=(runtime,), daemon=True).start()


def cancel_jobs(runtime: SparkRuntime, pause: float = 0.5) -> None:
    """Cancel the Spark jobs of rewrites repeatedly, while a running stage can be cancelled. pause: In seconds."""
    while runtime.cancel():
        time.sleep(pause)


class Interrupts:
    """A context manager that handles SIGINT.

    The first signal calls `stop` and sets `requested`. The next `check`, which is called where it is safe to end, then
    raises KeyboardInterrupt. The second signal raises KeyboardInterrupt immediately.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before: Any = None
        self.requested = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            self.arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def arm(self) -> None:
        """Install the handler again: pyspark replaces it when a session starts."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._handle)

    def check(self) -> None:
        """Raise KeyboardInterrupt after a first signal."""
        if self.requested:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._stop()


def ending(interrupts: Interrupts, on_event: OnEvent) -> OnEvent:
    """Return a function that calls `on_event`, and raises KeyboardInterrupt after Ctrl-C at events where that is safe.

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
