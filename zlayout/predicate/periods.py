"""Compute calendar periods, such as the month that contains an instant, and dates plus intervals."""

from __future__ import annotations

import calendar
from datetime import date, datetime, timedelta

MONTHS_PER_UNIT = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
DAYS_PER_UNIT = {"DAY": 1, "WEEK": 7}
SECONDS_PER_UNIT = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
_NAMES = {
    "YYYY": "YEAR",
    "YY": "YEAR",
    "MON": "MONTH",
    "MM": "MONTH",
    "DD": "DAY",
}


def unit_named(text: str) -> str | None:
    """The unit that Spark's trunc, date_trunc and intervals mean by a name: "MONTH" for "mon"; None if unknown."""
    name = text.strip().upper()
    name = _NAMES.get(name, name.removesuffix("S"))
    return name if name in MONTHS_PER_UNIT or name in DAYS_PER_UNIT or name in SECONDS_PER_UNIT else None


def as_datetime(value: date) -> datetime:
    """The timestamp itself, or the midnight of a date."""
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def start_of(value: date, unit: str) -> date:
    """The start of the period of this unit that contains the value. A week starts on Monday, as in Spark."""
    if unit in SECONDS_PER_UNIT and isinstance(value, datetime):
        minute = 0 if unit == "HOUR" else value.minute
        return value.replace(minute=minute, second=value.second if unit == "SECOND" else 0, microsecond=0)
    if isinstance(value, datetime):
        value = value.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "WEEK":
        return value - timedelta(days=value.weekday())
    if unit in MONTHS_PER_UNIT:
        months = MONTHS_PER_UNIT[unit]
        return value.replace(day=1, month=(value.month - 1) // months * months + 1)
    return value


def end_of(value: date, unit: str) -> date:
    """The end of the period of this unit that contains the value, exclusive: the start of the next period."""
    return shift(start_of(value, unit), 1, unit)


def shift(value: date, amount: int, unit: str) -> date:
    """The value plus a number of units. As in Spark, a day that the month does not have becomes its last day.

    Raises:
        ValueError, OverflowError: if the result is outside the years 1 to 9999, or the unit is unknown.
    """
    if unit in MONTHS_PER_UNIT:
        months = value.year * 12 + value.month - 1 + amount * MONTHS_PER_UNIT[unit]
        year, month = divmod(months, 12)
        last = calendar.monthrange(year, month + 1)[1]
        return value.replace(year=year, month=month + 1, day=min(value.day, last))
    if unit in DAYS_PER_UNIT:
        return value + timedelta(days=amount * DAYS_PER_UNIT[unit])
    if unit not in SECONDS_PER_UNIT:
        raise ValueError(unit)
    return as_datetime(value) + timedelta(seconds=amount * SECONDS_PER_UNIT[unit])
