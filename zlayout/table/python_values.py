"""Convert Arrow values to Python values. Dates and times for which Python has no value become `FarTime`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from zlayout.table.partition import FarTime


def python_values(values: pa.Array) -> list[Any]:
    """Return the values as `to_pylist` does, but a `FarTime` for a date or time outside of the years 1 to 9999."""
    try:
        found: list[Any] = values.to_pylist()
    except (OverflowError, ValueError):
        found = [_value(value) for value in values]
    return found


def far_date(days: int) -> FarTime:
    """Return a date as `FarTime`. days: the number of days since 1970."""
    return FarTime(_iso(np.datetime64(days, "D")))


def far_time(microseconds: int, *, utc: bool) -> FarTime:
    """Return a time as `FarTime`. microseconds: their number since 1970. utc: whether the time is an instant in UTC."""
    return FarTime(_iso(np.datetime64(microseconds, "us")) + ("Z" if utc else ""))


def _value(value: pa.Scalar) -> Any:
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
