"""Process settings of numpy, Arrow and the memory allocator that halve the time of planning.

Only the command line applies them, because a library must not change the process of its caller. They must be applied
before numpy and Arrow are imported. Values in the user's environment have precedence.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

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
