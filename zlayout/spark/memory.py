"""Chooses the memory of a local Spark from that of the machine or container."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MIB = 2**20
LEAST = 1024 * MIB  # what Spark itself would take
MOST = 31 * 1024 * MIB  # above it, Java's references are twice as long
_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of version 2 and of version 1


def local_memory() -> str:
    """Return the heap of a local Spark as Spark writes it: half of what this machine or container has.

    The other half is for what Java keeps outside of its heap, for the Python of the driver, and for the file cache.
    """
    return f"{min(MOST, max(LEAST, available(_GROUPS) // 2)) // MIB}m"


def available(groups: Path) -> int:
    """Return the bytes of memory of this machine, or of its control group if that has less.

    Args:
        groups: The root of the control groups, as the process sees it.
    """
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _LIMITS:
        with suppress(OSError, ValueError):  # "max" is no limit
            found.append(int((groups / name).read_text()))
    return min(found)
