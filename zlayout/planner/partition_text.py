"""Write a partition as text, for example `l_month=2026-01, region=EU`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from zlayout.table.state import Int64, Partition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def partition_text(partition: Partition) -> str:
    """Return `field=value` for each partition field, joined by commas; empty for an unpartitioned table."""
    named = ((f.source if f.transform == "identity" else str(f), f.transform) for f in partition.fields)
    pairs = zip(named, partition.values, strict=True)
    return ", ".join(f"{name}={_value(transform, value)}" for (name, transform), value in pairs)


def partition_names(partitions: Sequence[Partition]) -> tuple[list[str], Int64]:
    """Return the name of each of P partitions, which is its text, and its number: int64[P].

    The number is the position in the order of the names, from 1. Redacted reports show it instead of the name.
    """
    names = [partition_text(partition) for partition in partitions]
    number = np.empty(len(names), np.int64)
    number[sorted(range(len(names)), key=names.__getitem__)] = np.arange(1, len(names) + 1)
    return names, number


def _value(transform: str, value: Any) -> str:
    """Return the integer of an Iceberg time transform as a date or time, and any other value as `str` does."""
    if value is None:
        return "null"
    if not isinstance(value, int):
        return str(value)
    try:
        match transform:
            case "year":
                return str(1970 + value)
            case "month":
                return f"{1970 + value // 12:04}-{value % 12 + 1:02}"
            case "day":
                return (_EPOCH + timedelta(days=value)).strftime("%Y-%m-%d")
            case "hour":
                return (_EPOCH + timedelta(hours=value)).strftime("%Y-%m-%dT%H")
    except OverflowError:  # the year is outside of the range of datetime
        pass
    return str(value)
