"""Decide which rewrites a run may still start, and divide a work order into parts that fit the time that is left."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from zlayout.formats.base import Commit, Progress, Stage
from zlayout.planner.actions import Action, Reason
from zlayout.planner.work import Work
from zlayout.spec.maintenance import Maintenance

NOTHING_LEFT = timedelta(0)


@dataclass(slots=True)
class Rate:
    """The bytes and the seconds of rewrites. Several threads may add to it."""

    bytes: int = 0
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def per_second(self) -> float | None:
        """Bytes per second; None if nothing was measured."""
        return self.bytes / self.seconds if self.bytes and self.seconds else None

    def add(self, size: int, seconds: float) -> None:
        """Add a rewrite of `size` bytes."""
        with self._lock:
            self.bytes += size
            self.seconds += seconds


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """When a run ends, and how fast it rewrites. A rewrite is started only if it is expected to end in time.

    Attributes:
        ends: When the run must end, in the seconds of `clock`; infinity for no limit.
        clock: Returns the present time in seconds.
        rate: What this run has rewritten of all tables. The seconds of concurrent rewrites are added up, so it is the
            rate of one table.
    """

    ends: float = math.inf
    clock: Callable[[], float] = time.monotonic
    rate: Rate = field(default_factory=Rate)

    @classmethod
    def of(cls, max_minutes: float | None, start: float, window: timedelta | None = None) -> TimeLimit:
        """Return the limit of a run.

        Args:
            max_minutes: The limit in minutes, None for no limit.
            start: The value of `time.monotonic()` at the start of the run.
            window: What is left of the maintenance window, from `left_of_window`.
        """
        ends = math.inf if max_minutes is None else start + 60 * max_minutes
        return cls(ends if window is None else min(ends, time.monotonic() + window.total_seconds()))

    @property
    def is_set(self) -> bool:
        return self.ends < math.inf

    @property
    def left(self) -> float:
        """The seconds that are left, negative after the end."""
        return self.ends - self.clock()

    def of_table(self, stored: float | None = None) -> TableLimit:
        """Return the limit for one table. stored: The bytes per second of its last run; None if they are unknown."""
        return TableLimit(self, stored)


@dataclass(slots=True)
class TableLimit:
    """The time limit for one table, which measures how fast the table is rewritten.

    The time before the first rewrite, in which Spark starts, does not count.
    """

    run: TimeLimit
    stored: float | None
    _rate: Rate = field(default_factory=Rate)
    _since: float | None = None

    def progressed(self, progress: Progress) -> None:
        """Record the start of a stage. A rewrite is measured from the start of its stage to its commit."""
        if progress.stage is Stage.REWRITING and self._since is None:
            self._since = self.run.clock()

    def committed(self, commit: Commit) -> None:
        """Record a commit, which ends the time of a rewrite and begins that of the next one."""
        if commit.kind != "rewrite":
            return
        now = self.run.clock()
        seconds = 0.0 if self._since is None else now - self._since
        self._since = now
        for rate in (self.run.rate, self._rate):
            rate.add(commit.bytes_removed, seconds)

    @property
    def per_second(self) -> float | None:
        """The expected bytes per second; None if they are unknown.

        It is the rate of this run at this table. Before the first commit to the table, it is the lower one of the rate
        of its last run and the rate of this run at other tables.
        """
        if (now := self._rate.per_second) is not None:
            return now
        return min((rate for rate in (self.stored, self.run.rate.per_second) if rate is not None), default=None)

    def allows(self, size: int) -> bool:
        """Return whether a rewrite of `size` bytes may be started now."""
        rate = self.per_second
        return self.run.left > (size / rate if rate else 0)

    def next_part(self, work: Work, max_bytes: int | None, *, begun: bool) -> tuple[Work | None, Work | None]:
        """Divide a work order into the part to carry out now and the rest.

        Groups whose bounds must become longer are carried out together or not at all, because a later run would not
        select those that are deferred (docs/adr/0004-cut-bounds.md).

        Args:
            work: What is left of the work order of one table.
            max_bytes: The maximum size of a part, None for no limit.
            begun: Whether a part of the work order was carried out already.

        Returns:
            The part, None if no part may be started in the time that is left; and the rest, None if there is none.
        """
        if not self.run.is_set:
            first, *others = work.in_parts(max_bytes)
            return first, _joined(others)
        together = any(rewrite.reason is Reason.BOUNDS_TRUNCATED for rewrite in work.rewrites)
        first, *others = work.in_parts(max_bytes if together else _smaller(max_bytes, self._room()))
        if not (together and begun) and not self.allows(_bytes(work if together else first)):
            return None, work
        return first, _joined(others)

    def _room(self) -> int | None:
        """Return the bytes that can be rewritten in the time that is left; None if the rate is unknown."""
        rate = self.per_second
        return max(int(self.run.left * rate), 1) if rate else None


def left_of_window(maintenance: Maintenance | None) -> timedelta | None:
    """Return what is left of the maintenance window, NOTHING_LEFT outside of all windows; None if none is declared."""
    if maintenance is None or not maintenance.windows:
        return None
    now = datetime.now(UTC)
    return (maintenance.end(now) or now) - now


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((size for size in (one, other) if size is not None), default=None)


def _bytes(work: Work) -> int:
    return sum(rewrite.bytes for rewrite in work.rewrites)


def _joined(works: list[Work]) -> Work | None:
    """The acceptance is that of the last part."""
    actions: tuple[Action, ...] = tuple(action for work in works for action in work.actions)
    return replace(works[-1], actions=actions) if works else None
