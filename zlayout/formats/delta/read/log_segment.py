"""Selects the files in `_delta_log` that define a version: the newest complete checkpoint and the commits after it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from zlayout.errors import TableError

_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"(\d{20})\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)")


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files in `_delta_log` that define a version.

    Attributes:
        checkpoint: The names of the checkpoint's files: none, one, or several parts.
        commits: The names of the commits after the checkpoint, in order.
    """

    checkpoint: tuple[str, ...]
    commits: tuple[str, ...]


def commits_in(names: Iterable[str]) -> dict[int, str]:
    """Return the names of commits among the file names in `_delta_log`, by version."""
    return {int(found[1]): name for name in names if (found := _COMMIT.fullmatch(name))}


def log_segment(names: Iterable[str], version: int) -> LogSegment:
    """Return the log segment of a version, given the names of the files in `_delta_log`.

    Raises:
        TableError: ZL113, if a commit is missing.
    """
    commits = commits_in(names)
    checkpoints: dict[int, list[tuple[str, ...]]] = defaultdict(list)
    parts: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in names:
        if found := _CLASSIC.fullmatch(name) or _V2.fullmatch(name):
            checkpoints[int(found[1])].append((name,))
        elif found := _PART.fullmatch(name):
            parts[int(found[1]), int(found[3])].append(name)
    for (at, total), found_parts in parts.items():
        if len(found_parts) == total:
            checkpoints[at].append(tuple(sorted(found_parts)))
    base = max((at for at in checkpoints if at <= version), default=-1)
    wanted = range(base + 1, version + 1)
    missing = [at for at in wanted if at not in commits]
    if missing:
        raise TableError.of(
            "ZL113",
            f"version {version} requires commit {missing[0]}, which is not in _delta_log",
            hint="run again, because the log may have been cleaned up during the read; if it fails again, restore the "
            "commit",
        )
    chosen = sorted(checkpoints[base])[0] if base >= 0 else ()
    return LogSegment(chosen, tuple(commits[at] for at in wanted))
