"""What belongs to the whole process: the signals that ask it to end, and settings that halve the time of planning.

The signals are SIGINT (Ctrl-C), SIGTERM (Kubernetes, Airflow, CI) and SIGHUP (a terminal). The settings are of numpy,
Arrow and the memory allocator. Only the command line applies them, because a library must not change the process of its
caller. They must be applied before numpy and Arrow are imported. Values in the user's environment have precedence.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
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


# The settings.


# Constants of <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8

MIB = 1 << 20
MMAP_THRESHOLDS = (1024 * MIB, 32 * MIB)  # bytes, the preferred first; glibc before 2.35 rejects more than 32 MiB
MAX_INT = (1 << 31) - 1  # of a C int

# The number of new objects after which Python searches for garbage. By default it searches some 50 times while modules
# are imported, in all of their objects.
NEW_OBJECTS = 100_000

CPU_INFO = Path("/proc/cpuinfo")
MAX_CPU_INFO = 4096  # characters; enough for the first CPU
ZEN_4_FAMILY = "25"  # the CPU family of Zen 4, and of Zen 3, which has no AVX-512


def tune_process() -> None:
    """Apply the settings. It must be called before numpy and Arrow are imported. Most have no effect outside Linux."""
    gc.set_threshold(NEW_OBJECTS)
    if not any(name.startswith("MALLOC_") for name in os.environ) and "malloc" not in os.getenv("GLIBC_TUNABLES", ""):
        keep_freed_memory(_c_library())
    if not os.getenv("NPY_ENABLE_CPU_FEATURES") and has_slow_compress(CPU_INFO):
        # numpy accepts only one of the two variables.
        # numpy versions before 2.4 have other names for AVX-512 and ignore these.
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR")


def keep_freed_memory(c_library: Any) -> None:
    """Let the allocator of this process reuse freed memory. A C library without `mallopt` is not changed.

    Planning a million files creates and frees hundreds of arrays of 8 MB. By default glibc maps new pages for each of
    them, and the system clears these pages: in a virtual machine that took as long as the arithmetic.
    """
    mallopt = getattr(c_library, "mallopt", None)
    # Setting only the trim threshold would fix the mmap threshold at its low default, and every array would be mapped.
    if mallopt is not None and any(mallopt(M_MMAP_THRESHOLD, size) for size in MMAP_THRESHOLDS):
        mallopt(M_TRIM_THRESHOLD, MAX_INT)
        # Memory of one arena is not reused in another one. With several arenas, planning takes a sixth longer.
        mallopt(M_ARENA_MAX, 1)
        # numpy cannot reuse the memory that Arrow's own allocator keeps.
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def give_back_freed_memory() -> None:
    """Return freed memory to the system. It is called before the JVM of Spark starts and needs the memory."""
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def has_slow_compress(cpu_info: Path) -> bool:
    """Whether the CPU implements AVX-512's compressing store in microcode, which is slow. Zen 4 does.

    numpy's AVX-512 sort uses this instruction. On Zen 4 it takes four times as long as numpy's AVX2 sort
    (numpy/x86-simd-sort issue 6). OpenJDK disables its own AVX-512 sort by the same rule (JDK-8317976).

    Args:
        cpu_info: A file in the form of /proc/cpuinfo.
    """
    try:
        with cpu_info.open(encoding="ascii", errors="replace") as lines:
            first = lines.read(MAX_CPU_INFO).split("\n\n")[0].splitlines()
    except OSError:
        return False
    known = {name.strip(): value.split() for name, _, value in (line.partition(":") for line in first)}
    return (
        known.get("vendor_id") == ["AuthenticAMD"]
        and known.get("cpu family") == [ZEN_4_FAMILY]
        and "avx512f" in known.get("flags", ())
    )


def _c_library() -> Any:
    if sys.platform == "linux":
        with suppress(ImportError, OSError):
            import ctypes

            return ctypes.CDLL(None)
    return None
