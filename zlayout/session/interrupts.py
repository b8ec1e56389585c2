"""Handle Ctrl-C and SIGTERM: the first signal ends a command at a safe point, the second one immediately."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from zlayout.formats.base import Progress
from zlayout.session.results import ApplyEvent, OnEvent, TableEvent
from zlayout.signals import Handler, Interrupted, handled_signals
from zlayout.spark.session import SparkRuntime


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
