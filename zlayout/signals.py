"""The signals that ask a process to end: SIGINT (Ctrl-C), SIGTERM (Kubernetes, Airflow, CI) and SIGHUP (a terminal)."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from zlayout.errors import CommitUnknown

BESIDE_SIGINT = [number for number in signal.Signals if number.name in ("SIGTERM", "SIGHUP")]
_REPEATED_SECONDS = 1.0


class Interrupted(KeyboardInterrupt):
    """A signal asks the process to end.

    Attributes:
        number: The number of the signal.
        at_once: Whether it is a second signal, which may have interrupted a commit.
    """

    def __init__(self, number: int, *, at_once: bool = False) -> None:
        super().__init__(number)
        self.number = number
        self.at_once = at_once

    def __str__(self) -> str:
        text = "interrupted" if self.number == signal.SIGINT else f"interrupted by {signal_name(self.number)}"
        return f"{text}; a commit that was running may be in its table" if self.at_once else text


class Handler:
    """A signal handler that calls a function with the number of the signal.

    A SIGTERM or SIGHUP within a second after another one is ignored, because both are one request to end: `timeout`
    sends SIGTERM to a process and to its group, and systemd sends SIGHUP directly after SIGTERM to a user's session.
    """

    def __init__(self, handle: Callable[[int], None]) -> None:
        self._handle = handle
        self._received = float("-inf")

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            now = time.monotonic()
            if now - self._received < _REPEATED_SECONDS:
                return
            self._received = now
        self._handle(number)


@contextmanager
def interrupting() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise Interrupted during the block, as SIGINT raises KeyboardInterrupt.

    Only the command line does this, because handlers belong to the whole process. A signal that has a handler or is
    ignored, as SIGHUP after `nohup`, is not changed.
    """
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [n for n in BESIDE_SIGINT if is_main and signal.getsignal(n) is signal.SIG_DFL]
    handler = Handler(_raise)
    try:
        for number in numbers:
            signal.signal(number, handler)
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int) -> None:
    raise Interrupted(number)


def handled_signals() -> list[int]:
    """Return the signals that a command may handle for a while: SIGINT, and those that the command line handles."""
    return [signal.SIGINT, *(n for n in BESIDE_SIGINT if isinstance(signal.getsignal(n), Handler))]


class Deferral:
    """A context manager that holds back the signals which the main thread handles; they are handled after the block.

    It is for a library in which an exception of a signal handler is lost.

    Attributes:
        received: Whether there was a signal.
    """

    def __init__(self) -> None:
        self.received = False
        self._before: dict[int, Any] = {}
        self._signal: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Deferral:
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.getsignal(number) for number in handled_signals()}
            self._before = {number: handler for number, handler in before.items() if callable(handler)}
            for number in self._before:
                signal.signal(number, self._hold)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self.check()

    def check(self) -> None:
        """Handle a signal that was held back. The handler may raise an exception."""
        if self._signal is not None:
            (number, frame), self._signal = self._signal, None
            self._before[number](number, frame)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self.received, self._signal = True, (number, frame)


def signal_of(error: BaseException | None) -> Interrupted | None:
    """Return the signal that led to an exception, None if there was none.

    If a signal interrupts a call of the JVM, pyspark may make another call while it handles the exception. This call
    may fail, because py4j closes the connection, and its exception replaces Interrupted. None also for CommitUnknown,
    which says more than that there was a signal.
    """
    while error is not None and not isinstance(error, CommitUnknown):
        if isinstance(error, KeyboardInterrupt):
            return error if isinstance(error, Interrupted) else Interrupted(signal.SIGINT)
        error = error.__context__
    return None


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGTERM."""
    return signal.Signals(number).name


def exit_code(number: int) -> int:
    """Return the exit code after a signal, which is that of shells: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number
