"""Handle Ctrl-C and SIGTERM: the first one ends a command at a safe point, the second one immediately."""

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
    """A context manager that handles SIGINT, and SIGTERM on request.

    The first signal calls `stop` and sets `requested`. The next `check`, which is called where it is safe to end, then
    raises KeyboardInterrupt. The second signal raises KeyboardInterrupt immediately.

    Args:
        stop: Called at the first signal.
        signals: The signals to handle. SIGTERM belongs to the program that calls the Python API, and to zlayout only if
            it is the program.
    """

    def __init__(self, stop: Callable[[], None], signals: tuple[int, ...] = (signal.SIGINT,)) -> None:
        self._stop = stop
        self._signals = signals
        self._before: dict[int, Any] = {}
        self.requested = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in self._signals}
            self.arm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            if handler is not None:  # a handler that was not installed from Python cannot be restored
                signal.signal(number, handler)
        self._before = {}

    def arm(self) -> None:
        """Install the handler again: pyspark replaces it when a session starts."""
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                signal.signal(number, self._handle)

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
