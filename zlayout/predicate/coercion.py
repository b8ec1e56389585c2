"""Literals beside values of a column, in types that compare as Spark compares them."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from zlayout.predicate.literals import instant_or_none, utc
from zlayout.predicate.model import Value


def coerce(literal: Value, like: Any) -> Any:
    """The literal as Spark would compare it with a column whose values are like `like`; None when that is unknown."""
    match like:
        case bool():
            return literal if isinstance(literal, bool) else None
        case int() | float() | Decimal():
            return _as_number(literal, like)
        case str():
            return literal if isinstance(literal, str) else None
        case datetime():
            return literal if isinstance(literal, date) else _as_instant(literal)
        case date():
            if isinstance(literal, date):
                return literal
            found = _as_instant(literal)
            return found and found.date()
        case _:
            return None


def aligned(low: Any, high: Any, wanted: Any) -> tuple[Any, Any, Any]:
    """Bounds and literal in types that compare as Spark does: a date is its midnight, a float beats a decimal."""
    parts = (low, high, wanted)
    if any(isinstance(p, datetime) for p in parts):
        low, high, wanted = map(instant_of, parts)
    elif any(isinstance(p, float) for p in parts):
        low, high, wanted = (float(p) for p in parts)
    return low, high, wanted


def instant_of(value: date) -> datetime:
    """In UTC without a zone; a date is its midnight."""
    return utc(value) if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def of_unknown_day(literal: Value, wanted: date) -> bool:
    """Whether text, read as the instant `wanted`, means another one if the column turns out to hold dates.

    It is cut to the day then, and so matters where it has a time of day.
    """
    return isinstance(literal, str) and instant_of(wanted).time() != time()


def _as_number(literal: Value, like: Any) -> int | float | Decimal | None:
    if isinstance(like, float) and math.isnan(like):
        return None
    if isinstance(literal, bool):
        return None
    if isinstance(literal, int | float | Decimal):
        return literal
    if not isinstance(literal, str) or isinstance(like, float):
        return None
    try:
        found = int(literal) if isinstance(like, int) else Decimal(literal)
    except (ValueError, InvalidOperation):
        return None
    return found if isinstance(found, int) or found.is_finite() else None


def _as_instant(literal: Value) -> datetime | None:
    return instant_or_none(literal) if isinstance(literal, str) else None
