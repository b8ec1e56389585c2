"""Maintenance windows: `maintenance:` of `zlayout.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY = f"(?:{'|'.join(DAYS)})"
_WINDOW = re.compile(rf"(?:({_DAY}(?:-{_DAY})?(?:,{_DAY}(?:-{_DAY})?)*) )?(\d\d):([0-5]\d)-(\d\d):([0-5]\d)")
_DAY_MINUTES = 24 * 60
_DURATION = re.compile(r"(\d{1,5})([mhd])", re.ASCII)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


@dataclass(frozen=True, slots=True)
class Window:
    """A period that begins on some days of the week.

    Attributes:
        days: The days on which it begins; 0 is Monday.
        start, end: Its limits in minutes after midnight of its first day. An end above 1440 is on the next day.
    """

    days: frozenset[int]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Maintenance:
    """When `apply` may rewrite tables.

    Attributes:
        windows: The windows in which tables are rewritten; empty for any time.
        timezone: The IANA name of the time zone of the windows.
        avoid_hot: How long a partition is hot after another writer wrote a file in it; None if no partition is.
    """

    windows: tuple[Window, ...]
    timezone: str = "UTC"
    avoid_hot: timedelta | None = None

    def end(self, now: datetime) -> datetime | None:
        """Return when the window around `now` ends; None outside of all windows.

        Windows that overlap or follow each other without a gap count as one. If there is no gap at all, the result is
        more than a week after `now`.
        """
        found: datetime | None = None
        for start, end in self._periods(now):
            if start <= (found or now) < end:
                found = end
        return found

    def next_start(self, now: datetime) -> datetime:
        """Return when the next window begins, in the declared time zone."""
        return min(start for start, _ in self._periods(now) if start > now).astimezone(self._zone)

    @property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)

    def _periods(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield start and end (UTC) of each window around `now`, in order."""
        today = now.astimezone(self._zone).date()
        days = [today + timedelta(days) for days in range(-2, 10)]
        yield from sorted(
            (self._instant(day, window.start), self._instant(day, window.end))
            for day in days
            for window in self.windows
            if day.weekday() in window.days
        )

    def _instant(self, day: date, minutes: int) -> datetime:
        """Return the instant (UTC) of a time of a day; the first of the two if clocks show it twice."""
        later, minute = divmod(minutes, _DAY_MINUTES)  # minutes after midnight, possibly of a later day
        shown = datetime.combine(day + timedelta(later), time(*divmod(minute, 60)), self._zone)
        return shown.astimezone(UTC)


def maintenance_of(entry: Mapping[str, Any]) -> Maintenance:
    """Return the configuration that `maintenance:` declares.

    Args:
        entry: The value of `maintenance:`, which conforms to the schema.

    Raises:
        ValueError: A window, the time zone or `avoid_hot` is invalid. The arguments of the error are the key below
            `maintenance` and its value.
    """
    timezone = entry.get("timezone", "UTC")
    try:
        ZoneInfo(timezone)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError("timezone", timezone) from error
    windows = tuple(_window(number, text) for number, text in enumerate(entry.get("windows", ())))
    hot = entry.get("avoid_hot")
    return Maintenance(windows, timezone, duration_of(hot) if hot else None)


def duration_of(text: str) -> timedelta:
    """Parse a duration such as `90m`, `1h` or `2d`. Raises ValueError, as `maintenance_of`, for any other text."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("avoid_hot", text)
    return int(found[1]) * _UNITS[found[2]]


def hot_after(avoid_hot: timedelta | None, maintenance: Maintenance | None, now: datetime | None = None) -> int | None:
    """Return the time since which a write makes its partition hot.

    Args:
        avoid_hot: The duration that overrides the declared one; None for the declared one, 0 for no hot partitions.
        maintenance: The configuration of the project; None if it declares none.
        now: The present time; None for that of the clock.

    Returns:
        Milliseconds since 1970 (UTC); None if no partition is hot.
    """
    declared = maintenance.avoid_hot if maintenance else None
    duration = declared if avoid_hot is None else avoid_hot
    return max(int(((now or datetime.now(UTC)) - duration).timestamp() * 1000), 0) if duration else None


def _window(number: int, text: str) -> Window:
    if found := _WINDOW.fullmatch(text):
        start, end = (60 * int(found[at]) + int(found[at + 1]) for at in (2, 4))
        if start < _DAY_MINUTES and end <= _DAY_MINUTES and start != end:
            return Window(_days(found[1]), start, end if end > start else end + _DAY_MINUTES)
    raise ValueError(f"windows[{number}]", text)


def _days(text: str | None) -> frozenset[int]:
    """Parse days such as `Mon-Fri,Sun` or `Sat-Mon`, 0 for Monday; all days for None."""
    if text is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.split(","):
        first, last = (DAYS.index(name) for name in (part[:3], part[-3:]))
        days |= {day % 7 for day in range(first, last + (7 if last < first else 0) + 1)}
    return frozenset(days)
