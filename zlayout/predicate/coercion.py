"""Literals and values of a column converted to types that compare as Spark compares them."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from zlayout.predicate.literals import instant_or_none, utc
from zlayout.predicate.model import Value

_INSTANT = pa.timestamp("us")
_EPOCH = datetime(1970, 1, 1)


def coerce(literal: Value, like: Any) -> Any:
    """The literal as Spark compares it with a column whose values are like `like`; None if that is unknown."""
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


def aligned(low: Any, high: Any, literal: Any) -> tuple[Any, Any, Any]:
    """Bounds and a coerced literal in types that compare as in Spark: dates become midnights, decimals floats."""
    parts = (low, high, literal)
    if any(isinstance(p, datetime) for p in parts):
        low, high, literal = map(instant_of, parts)
    elif any(isinstance(p, float) for p in parts):
        low, high, literal = (float(p) for p in parts)
    return low, high, literal


def arrow_aligned(lower: pa.Array, upper: pa.Array, value: Value) -> tuple[pa.Array, pa.Array, pa.Scalar] | None:
    """The same for arrays of bounds, in types that Arrow compares; None if Spark's answer is unknown."""
    kind = lower.type
    literal = coerce(value, _example(kind))
    if literal is None:
        return None
    try:
        if pt.is_timestamp(kind) or (pt.is_date(kind) and isinstance(literal, datetime)):
            return lower.cast(_INSTANT), upper.cast(_INSTANT), pa.scalar(instant_of(literal), _INSTANT)
        if pt.is_floating(kind) or (isinstance(literal, float) and (pt.is_decimal(kind) or pt.is_integer(kind))):
            # Spark also rounds a long beyond 2^53; a bound stays a bound, since rounding keeps the order
            doubles = (side.cast(pa.float64(), safe=False) for side in (lower, upper))
            return *doubles, pa.scalar(float(literal), pa.float64())
        if pt.is_decimal(kind) or (pt.is_integer(kind) and isinstance(literal, Decimal)):
            wide = pa.decimal256(76, max(kind.scale, 20) if pt.is_decimal(kind) else 20)
            return lower.cast(wide), upper.cast(wide), pa.scalar(Decimal(literal), wide)
        return lower, upper, pa.scalar(literal) if pt.is_integer(kind) else pa.scalar(literal, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None


def from_printed(value: Value, kind: pa.DataType) -> Value:
    """A literal as a plan prints it: days and microseconds since 1970 become dates and timestamps, text numbers.

    SQL compares neither dates with numbers nor doubles with text, so that this is not ambiguous.
    """
    try:
        if type(value) is int and pt.is_date(kind):
            return _EPOCH.date() + timedelta(days=value)
        if type(value) is int and pt.is_timestamp(kind):
            return _EPOCH + timedelta(microseconds=value)
        if isinstance(value, str) and pt.is_floating(kind):
            return float(value)
    except (OverflowError, ValueError):
        return value
    if isinstance(value, str) and pt.is_boolean(kind) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value


def instant_of(value: date) -> datetime:
    """The timestamp in UTC without a zone; the midnight of a date."""
    return utc(value) if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def depends_on_type(literal: Value, instant: date) -> bool:
    """Whether text, read as `instant`, means another value if the column holds dates: its time of day would be cut."""
    return isinstance(literal, str) and instant_of(instant).time() != time()


def _as_number(literal: Value, like: Any) -> int | float | Decimal | None:
    if isinstance(literal, bool) or any(isinstance(v, float) and math.isnan(v) for v in (like, literal)):
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


def _example(kind: pa.DataType) -> Any:
    """Some value of the type; None for a type whose literals are not supported."""
    if pt.is_boolean(kind):
        return False
    if pt.is_integer(kind):
        return 0
    if pt.is_floating(kind):
        return 0.0
    if pt.is_decimal(kind):
        return Decimal(0)
    if pt.is_string(kind) or pt.is_large_string(kind):
        return ""
    return _EPOCH if pt.is_timestamp(kind) else _EPOCH.date() if pt.is_date(kind) else None
