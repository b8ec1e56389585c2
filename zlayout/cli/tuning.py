"""What numpy, Arrow and the allocator must be told before they are loaded, so that planning takes half the time.

Only the command does this: the process is its own. What the user's environment sets already stays.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# <malloc.h>
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8

MIB = 1 << 20
MOST = (1 << 31) - 1  # an int

CPU_INFO = Path("/proc/cpuinfo")
FIRST_CPU = 4096  # characters that surely hold it
ZEN_4 = "25"  # the family of Zen 3 too, which has no AVX-512


def tune_process() -> None:
    """Call it before numpy and Arrow are imported, while there is one thread. Nothing changes outside Linux."""
    if sys.platform == "linux":
        keep_freed_memory()
        if slow_compress(CPU_INFO):
            # numpy then sorts by AVX2; numpy before 2.4 knows these names under others and goes on
            os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR")


def keep_freed_memory() -> None:
    """Take memory that was freed again. A C library other than glibc is left as it is.

    Planning a million files makes and drops hundreds of arrays of 8 MB. glibc maps each anew, so that the system
    clears its pages again and again: in a virtual machine that took as long as the arithmetic.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    # Arrow's own allocator keeps memory of its own, which numpy then cannot use
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt(M_MMAP_THRESHOLD, 1024 * MIB)
    mallopt(M_TRIM_THRESHOLD, MOST)
    # all threads share what is kept: arenas of their own hold nothing larger than 64 MiB
    mallopt(M_ARENA_MAX, 1)


def give_back_freed_memory() -> None:
    """To the system: for when other processes need it and little more is to be planned here."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
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
