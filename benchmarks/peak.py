"""The most memory that a process held."""

from __future__ import annotations

from pathlib import Path


def peak_mb(process: int | str = "self") -> int:
    """Of a running process, by its id. A child's `ru_maxrss` counts what its parent held when it was forked."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return round(int(status["VmHWM"].split()[0]) / 1024)
