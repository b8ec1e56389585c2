"""Partition values: of the values of a source column by its transform, as Python values, and in the conditions of SQL.

Dates and times for which Python has no value become `FarTime`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.table.partition import FarTime
from zlayout.text import string_literal

EPOCH_YEAR = 1970
_MAX_DIGITS = 76  # of Arrow's decimals
_WIDE = Context(prec=_MAX_DIGITS + 4)


def transformed(values: pa.Array, transform: str) -> pa.Array:
    """Return the partition value of each value, in the form of `Partition.values`.

    The hash for buckets is not Iceberg's. It distributes values as evenly, but assigns them to other buckets.

    Args:
        values: the values of the source column, which may be null.
        transform: as in `PartitionField`.

    Raises:
        ValueError: for an unknown transform.
    """
    name, _, argument = transform.partition("[")
    width = int(argument.rstrip("]")) if argument else 0
    match name:
        case "identity":
            return values
        case "void":
            return pa.nulls(len(values), pa.int32())
        case "year":
            return pc.subtract(pc.year(values), EPOCH_YEAR)
        case "month":
            years = pc.subtract(pc.year(values), EPOCH_YEAR)
            return pc.add(pc.multiply(years, 12), pc.subtract(pc.month(values), 1))
        case "day":
            return values.cast(pa.date32(), safe=False).cast(pa.int32())
        case "hour":
            return pc.hours_between(pa.scalar(0, values.type), values)
        case "truncate":
            return _truncated(values, width)
        case "bucket":
            return _buckets(values, width)
    raise ValueError(f"expected a partition transform, found {transform!r}")


def _truncated(values: pa.Array, width: int) -> pa.Array:
    if pa.types.is_integer(values.type):
        numbers = values.fill_null(0).to_numpy()
        nulls = np.asarray(values.is_null().to_numpy(zero_copy_only=False), bool)
        return pa.array(numbers - numbers % width, values.type, mask=nulls)
    if pa.types.is_binary(values.type):
        return pc.binary_slice(values, 0, width)
    if pa.types.is_decimal(values.type):
        scale, encoded = values.type.scale, values.dictionary_encode()
        unscaled = (int(value.scaleb(scale, _WIDE)) for value in encoded.dictionary.to_pylist())
        lower = [Decimal(number - number % width).scaleb(-scale, _WIDE) for number in unscaled]
        # A negative number may become one with more digits: width -100 is the lower end of -1.
        return pa.array(lower, pa.decimal256(_MAX_DIGITS, scale)).take(encoded.indices)
    return pc.utf8_slice_codeunits(values, 0, width)


def _buckets(values: pa.Array, count: int) -> pa.Array:
    encoded = values.dictionary_encode()
    digests = (hashlib.blake2b(repr(value).encode(), digest_size=6) for value in encoded.dictionary.to_pylist())
    of_value = [int.from_bytes(digest.digest(), "big") % count for digest in digests]
    return pa.array(of_value, pa.int32()).take(encoded.indices) if of_value else pa.nulls(len(values), pa.int32())


# Partition values as Python values.


def python_values(values: pa.Array) -> list[Any]:
    """Return the values as `to_pylist` does, but a `FarTime` for a date or time outside of the years 1 to 9999."""
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError):
        found = [_python_value(value) for value in values]
    return found


def far_date(days: int) -> FarTime:
    """Return a date as `FarTime`. days: the number of days since 1970."""
    return FarTime(_iso(np.datetime64(days, "D")))


def far_time(microseconds: int, *, utc: bool) -> FarTime:
    """Return a time as `FarTime`. microseconds: their number since 1970. utc: whether the time is an instant in UTC."""
    return FarTime(_iso(np.datetime64(microseconds, "us")) + ("Z" if utc else ""))


def _python_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        if pa.types.is_date32(value.type):
            return far_date(value.cast(pa.int32()).as_py())
        return far_time(value.cast(pa.timestamp("us", value.type.tz)).cast(pa.int64()).as_py(), utc=bool(value.type.tz))


def _iso(value: np.datetime64) -> str:
    text = str(value)
    sign = "-" if text.startswith("-") else "+"
    year, _, rest = text.removeprefix("-").partition("-")
    return f"{sign}{int(year):04}-{rest}"


# Conditions of SQL that select partitions.


def literal(value: Any, type_: pa.DataType) -> str:
    """Return the typed literal of a value. type_: the Arrow type of its column."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case FarTime() if pa.types.is_date(type_):
            return f"DATE'{value}'"
        case FarTime():
            return f"{'TIMESTAMP' if type_.tz else 'TIMESTAMP_NTZ'}'{value}'"
        case str():
            return string_literal(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL({type_.precision}, {type_.scale}))"
        case datetime() if value.tzinfo is not None:
            utc = value.astimezone(UTC).replace(tzinfo=None)
            return f"TIMESTAMP'{utc.isoformat(sep=' ')}Z'"
        case datetime():
            return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case float():
            return f"CAST('{value!r}' AS {'FLOAT' if pa.types.is_float32(type_) else 'DOUBLE'})"
        case int():
            return f"CAST({value} AS BIGINT)" if pa.types.is_int64(type_) else str(value)
    raise TypeError(f"expected a partition value of a primitive type, found {type(value).__name__}")


def any_of(conditions: Sequence[str]) -> str:
    """Return the OR of conditions, as a balanced tree: a long chain overflows the stack of Spark's parser."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return f"({any_of(conditions[:half])} OR {any_of(conditions[half:])})"
