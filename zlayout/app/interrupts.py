"""Handle Ctrl-C during apply: the first stops cleanly, the second stops immediately."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Protocol

from zlayout.spark.session import SparkRuntime


class Abandonable(Protocol):
    """Something that runs, and that knows whether it can be cancelled now."""

    @property
    def abandonable(self) -> bool: ...


def cancel_in_background(runtime: SparkRuntime, running: Abandonable) -> None:
    """Start `cancel_jobs` in a thread: this one may be waiting for an answer on its connection to the JVM."""
    threading.Thread(target=cancel_jobs, args=(runtime, running), daemon=True).start()


def cancel_jobs(runtime: SparkRuntime, running: Abandonable, pause: float = 0.5) -> None:
    """Cancel all Spark jobs, repeatedly, as long as the running stage can be cancelled.

    Args:
        runtime: The runtime of the jobs.
        running: The run.
        pause: Seconds between two calls.
    """
    while running.abandonable:
        with suppress(Exception):  # a session that is starting or stopping has no jobs to cancel
            if runtime.started:
                runtime.session.sparkContext.cancelAllJobs()
        time.sleep(pause)


class Interrupts:
    """A context manager that handles SIGINT.

    The first signal calls `stop` and sets `requested`; the next `check`, at a point where it is safe to end, raises
    KeyboardInterrupt. The second signal raises KeyboardInterrupt immediately.
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
        """Raise KeyboardInterrupt if a stop was requested."""
        if self.requested:
            raise KeyboardInterrupt

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._stop()
