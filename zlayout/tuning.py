"""What numpy, Arrow and the allocator must be told before they are loaded, so that planning takes half the time.

Only the command tells them: the process is its own. What the user's environment sets already stays.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

# <malloc.h>
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8

MIB = 1 << 20
LARGEST = (1024 * MIB, 32 * MIB)  # glibc before 2.35 refuses more than 32 MiB
MOST = (1 << 31) - 1  # an int

CPU_INFO = Path("/proc/cpuinfo")
FIRST_CPU = 4096  # characters that surely hold it
ZEN_4 = "25"  # the family of Zen 3 too, which has no AVX-512


def tune_process() -> None:
    """Call it before numpy and Arrow are imported. Nothing changes outside Linux."""
    if not any(name.startswith("MALLOC_") for name in os.environ) and "malloc" not in os.getenv("GLIBC_TUNABLES", ""):
        keep_freed_memory(_c_library())
    if not os.getenv("NPY_ENABLE_CPU_FEATURES") and slow_compress(CPU_INFO):  # numpy takes one of the two at most
        # numpy then does without AVX-512; before 2.4 it knows other names for it, passes over these and goes on
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR")


def keep_freed_memory(c_library: Any) -> None:
    """Take memory that was freed again, in this process. A C library without `mallopt` is left as it is.

    Planning a million files makes and drops hundreds of arrays of 8 MB. glibc maps each anew, so that the system
    clears its pages again and again: in a virtual machine that took as long as the arithmetic.
    """
    mallopt = getattr(c_library, "mallopt", None)
    # the trim threshold alone would end glibc's own growth of the other, and every array would be mapped
    if mallopt is not None and any(mallopt(M_MMAP_THRESHOLD, size) for size in LARGEST):
        mallopt(M_TRIM_THRESHOLD, MOST)
        mallopt(M_ARENA_MAX, 1)  # else one thread cannot take what another freed: a sixth more time for a plan
        # Arrow's own allocator keeps memory of its own, which numpy then cannot use
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def give_back_freed_memory() -> None:
    """To the system, before other processes need it (Spark's JVM)."""
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def slow_compress(cpu_info: Path) -> bool:
    """Whether the CPU does AVX-512's compressing store in microcode (Zen 4).

    numpy's AVX-512 sort is made of it, and is a quarter as fast there as its AVX2 sort (numpy/x86-simd-sort issue 6;
    OpenJDK leaves its own out on these CPUs by the same rule, JDK-8317976). cpu_info: as /proc/cpuinfo.
    """
    try:
        with cpu_info.open(encoding="ascii", errors="replace") as lines:
            first = lines.read(FIRST_CPU).split("\n\n")[0].splitlines()
    except OSError:
        return False
    known = {name.strip(): value.split() for name, _, value in (line.partition(":") for line in first)}
    return (
        known.get("vendor_id") == ["AuthenticAMD"]
        and known.get("cpu family") == [ZEN_4]
        and "avx512f" in known.get("flags", ())
    )


def _c_library() -> Any:
    """None outside Linux, and where Python has no way to call it."""
    if sys.platform == "linux":
        with suppress(ImportError, OSError):
            import ctypes

            return ctypes.CDLL(None)
    return None
