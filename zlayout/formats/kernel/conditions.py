"""Conditions in the SQL statements of engine native, which select partitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from zlayout.table.partition import FarTime
from zlayout.text import string_literal


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
