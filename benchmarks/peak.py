"""The peak memory of a process."""

from __future__ import annotations

from pathlib import Path


def peak_mb(process: int | str = "self") -> int:
    """Return the peak of a running process. `ru_maxrss` would include memory of the parent at the time of the fork."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return round(int(status["VmHWM"].split()[0]) / 1024)
