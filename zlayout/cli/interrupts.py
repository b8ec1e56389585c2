"""Ctrl-C during apply: once stops cleanly, twice stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

MESSAGE = "Stopping: a commit under way is finished, a rewrite is abandoned. Ctrl-C again stops at once."


class Interrupts:
    """Takes SIGINT while it is entered.

    The first one calls `stop` and sets `requested`; `check` then ends the work at the next place where nothing is
    half done, by KeyboardInterrupt. The second one raises KeyboardInterrupt wherever the program is.
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
        """Take SIGINT again: pyspark puts a handler of its own in place when a session starts."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._take)

    def check(self) -> None:
        """Raise KeyboardInterrupt when a stop was asked for."""
        if self.requested:
            raise KeyboardInterrupt

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._stop()
