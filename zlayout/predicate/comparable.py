"""Literals of queries beside columns of a table: both in types that compare as Spark compares them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from zlayout.predicate.coercion import coerce
from zlayout.predicate.model import Value

_INSTANT = pa.timestamp("us")


def comparable(lower: pa.Array, upper: pa.Array, value: Value) -> tuple[pa.Array, pa.Array, pa.Scalar] | None:
    """Both bounds and the literal in types that Arrow compares; None where Spark's answer is not known here."""
    kind = lower.type
    wanted = coerce(value, _like(kind))
    if wanted is None:
        return None
    try:
        if pt.is_timestamp(kind) or (pt.is_date(kind) and isinstance(wanted, datetime)):
            # a date is its midnight, and all instants are in UTC
            return lower.cast(_INSTANT), upper.cast(_INSTANT), pa.scalar(_instant(wanted), _INSTANT)
        if isinstance(wanted, float) and (pt.is_decimal(kind) or pt.is_integer(kind)):
            # Spark rounds a long beyond 2^53 too; a bound stays a bound, since rounding keeps the order
            lower, upper = (side.cast(pa.float64(), safe=False) for side in (lower, upper))
            return lower, upper, pa.scalar(wanted)
        if pt.is_floating(kind):
            return lower, upper, pa.scalar(float(wanted), pa.float64())
        if pt.is_integer(kind) and isinstance(wanted, Decimal):
            wide = pa.decimal256(76, 20)
            return lower.cast(wide), upper.cast(wide), pa.scalar(wanted, wide)
        if pt.is_decimal(kind):
            wide = pa.decimal256(76, max(kind.scale, 20))
            return lower.cast(wide), upper.cast(wide), pa.scalar(Decimal(wanted), wide)
        return lower, upper, pa.scalar(wanted) if pt.is_integer(kind) else pa.scalar(wanted, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return None


def _like(kind: pa.DataType) -> Any:
    """Some value of the type, None for a type whose literals are not followed."""
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
    if pt.is_timestamp(kind):
        return datetime(1970, 1, 1)
    return date(1970, 1, 1) if pt.is_date(kind) else None


def _instant(value: date) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return datetime(value.year, value.month, value.day)


def as_printed(value: Value, kind: pa.DataType) -> Value:
    """A literal that a plan prints in another form than SQL: days and microseconds since 1970, numbers as text.

    SQL compares a date with no number and a double with no text, so that nothing else can be meant.
    """
    try:
        if type(value) is int and pt.is_date(kind):
            return date(1970, 1, 1) + timedelta(days=value)
        if type(value) is int and pt.is_timestamp(kind):
            return datetime(1970, 1, 1) + timedelta(microseconds=value)
        if isinstance(value, str) and pt.is_floating(kind):
            return float(value)
    except (OverflowError, ValueError):
        return value
    if isinstance(value, str) and pt.is_boolean(kind) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value
