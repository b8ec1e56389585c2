"""Convert literals and column values to types in which they compare as in Spark."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from zlayout.predicate.model import TextOnly, Value, as_datetime, instant_or_none, utc

_INSTANT = pa.timestamp("us")
_EPOCH = datetime(1970, 1, 1)


def coerce(literal: Value, like: Any) -> Any:
    """Convert a literal as Spark does to compare it with a column.

    Args:
        literal: the literal of the predicate.
        like: any value of the column, from which its Python type is known.

    Returns:
        The converted literal; None if it cannot be compared with the column, or the result would be uncertain.
    """
    if isinstance(literal, TextOnly) and not isinstance(like, str):
        return None
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
    """Convert bounds and a coerced literal to one type: timestamps if one is a timestamp, floats if one is a float."""
    parts = (low, high, literal)
    if any(isinstance(p, datetime) for p in parts):
        low, high, literal = map(instant_of, parts)
    elif any(isinstance(p, float) for p in parts):
        low, high, literal = (float(p) for p in parts)
    return low, high, literal


def arrow_aligned(lower: pa.Array, upper: pa.Array, value: Value) -> tuple[pa.Array, pa.Array, pa.Scalar] | None:
    """Convert arrays of bounds and a literal to types that Arrow compares as Spark does.

    Args:
        lower, upper: bounds of one column.
        value: the literal of the predicate.

    Returns:
        Lower bounds, upper bounds and literal; None if they cannot be compared, or the result would be uncertain.
    """
    type_ = lower.type
    literal = coerce(value, _example(type_))
    if literal is None:
        return None
    try:
        if pt.is_timestamp(type_) or (pt.is_date(type_) and isinstance(literal, datetime)):
            return lower.cast(_INSTANT), upper.cast(_INSTANT), pa.scalar(instant_of(literal), _INSTANT)
        if pt.is_floating(type_) or (isinstance(literal, float) and (pt.is_decimal(type_) or pt.is_integer(type_))):
            # Spark also rounds a long beyond 2^53. Rounding keeps the order, so that a bound remains a bound.
            doubles = (side.cast(pa.float64(), safe=False) for side in (lower, upper))
            return *doubles, pa.scalar(float(literal), pa.float64())
        if pt.is_decimal(type_) or (pt.is_integer(type_) and isinstance(literal, Decimal)):
            wide = pa.decimal256(76, max(type_.scale, 20) if pt.is_decimal(type_) else 20)
            return lower.cast(wide), upper.cast(wide), pa.scalar(Decimal(literal), wide)
        return lower, upper, pa.scalar(literal) if pt.is_integer(type_) else pa.scalar(literal, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None


def comparable(literal: Value, type_: pa.DataType) -> bool:
    """Return whether bounds of the Arrow type can be compared with the literal, as Spark compares values."""
    return coerced(literal, type_) is not None


def coerced(literal: Value, type_: pa.DataType) -> Any:
    """Convert a literal as Spark does to compare it with a column of the Arrow type; None if it cannot be compared."""
    return coerce(literal, _example(type_))


def from_printed(value: Value, type_: pa.DataType) -> Value:
    """Convert a literal that was parsed from a printed query plan to the type of its column.

    Plans show dates as days and timestamps as microseconds since 1970, and event logs show doubles and booleans as
    strings. `coerce` compares none of these with the column, so that the conversion is not ambiguous. A literal that
    cannot be converted is returned as it is.
    """
    try:
        if type(value) is int and pt.is_date(type_):
            return _EPOCH.date() + timedelta(days=value)
        if type(value) is int and pt.is_timestamp(type_):
            return _EPOCH + timedelta(microseconds=value)
        if isinstance(value, str) and pt.is_floating(type_):
            return float(value)
    except (OverflowError, ValueError):
        return value
    if isinstance(value, str) and pt.is_boolean(type_) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value


def instant_of(value: date) -> datetime:
    """Return a timestamp in UTC without a time zone, or the midnight of a date."""
    return utc(as_datetime(value))


def depends_on_type(literal: Value) -> bool:
    """Return whether the value of a literal depends on whether it is compared with a date or with a timestamp.

    It does if the literal is a string with a time of day, which is ignored in the comparison with a date.
    """
    found = instant_or_none(literal.strip()) if isinstance(literal, str) else None
    return found is not None and instant_of(found) != as_datetime(found.date())


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


def _example(type_: pa.DataType) -> Any:
    if pt.is_boolean(type_):
        return False
    if pt.is_integer(type_):
        return 0
    if pt.is_floating(type_):
        return 0.0
    if pt.is_decimal(type_):
        return Decimal(0)
    if pt.is_string(type_) or pt.is_large_string(type_):
        return ""
    return _EPOCH if pt.is_timestamp(type_) else _EPOCH.date() if pt.is_date(type_) else None
