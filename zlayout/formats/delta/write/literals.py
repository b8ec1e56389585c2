"""Converts partition values to typed literals of Spark SQL, and partitions to predicates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from zlayout.sql_text import quote_identifier, string_literal
from zlayout.table.partition import FarTime
from zlayout.table.state import Partition


def literal(value: Any, kind: pa.DataType) -> str:
    """Return the typed literal of a value. kind: the Arrow type of its column."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case FarTime() if pa.types.is_date(kind):
            return f"DATE'{value}'"
        case FarTime():
            return f"{'TIMESTAMP' if kind.tz else 'TIMESTAMP_NTZ'}'{value}'"
        case str():
            return string_literal(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL({kind.precision}, {kind.scale}))"
        case datetime() if value.tzinfo is not None:
            utc = value.astimezone(UTC).replace(tzinfo=None)
            return f"TIMESTAMP'{utc.isoformat(sep=' ')}Z'"
        case datetime():
            return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case float():
            return f"CAST('{value!r}' AS {'FLOAT' if pa.types.is_float32(kind) else 'DOUBLE'})"
        case int():
            return f"CAST({value} AS BIGINT)" if pa.types.is_int64(kind) else str(value)
    raise TypeError(f"expected a partition value of a primitive type, found {type(value).__name__}")


def partitions_predicate(partitions: Sequence[Partition], types: Sequence[pa.DataType]) -> str:
    """Return a predicate that is true in exactly these partitions. types: the types of the partition columns.

    The OR is a balanced tree, because a long chain overflows the stack of Spark's parser.
    """
    return _balanced([_one(partition, types) for partition in partitions])


def _one(partition: Partition, types: Sequence[pa.DataType]) -> str:
    tests = [
        f"{quote_identifier(field.source)} IS NULL"
        if value is None
        else f"{quote_identifier(field.source)} = {literal(value, kind)}"
        for field, value, kind in zip(partition.fields, partition.values, types, strict=True)
    ]
    return "(" + " AND ".join(tests) + ")"


def _balanced(tests: list[str]) -> str:
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return f"({_balanced(tests[:half])} OR {_balanced(tests[half:])})"
