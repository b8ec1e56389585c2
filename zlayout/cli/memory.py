"""The process's allocator, told to keep memory that was freed instead of giving it back to the system.

Planning a million files makes and drops hundreds of arrays of 8 MB. glibc maps each anew, so that the system clears
its pages again and again: in a virtual machine that took as long as the arithmetic.
"""

from __future__ import annotations

import ctypes
import os
import sys

# <malloc.h>
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8

MIB = 1 << 20
MOST = (1 << 31) - 1  # an int


def keep_freed_memory() -> None:
    """Call it before Arrow is imported. A C library other than glibc is left as it is."""
    if sys.platform != "linux":
        return
    # Arrow's own allocator keeps memory of its own, which numpy then cannot use
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(M_MMAP_THRESHOLD, 1024 * MIB)
    mallopt(M_TRIM_THRESHOLD, MOST)
    # all threads share what is kept: arenas of their own hold nothing larger than 64 MiB
    mallopt(M_ARENA_MAX, 1)
