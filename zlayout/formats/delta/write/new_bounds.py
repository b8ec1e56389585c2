"""Reads the bounds of new files from the statistics that are about to be committed, for baselines and metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from zlayout.formats.delta.read.schema import Leaf
from zlayout.formats.delta.read.statistics import read_bounds
from zlayout.formats.kernel.commits import NewFiles, file_table
from zlayout.table.state import FileTable, Partition

# The names of statistics in the log, and those that deltalake gives them.
_STATISTICS = (("minValues", "min"), ("maxValues", "max"), ("nullCount", "null_count"))
_READ_AT_ONCE = 2000  # files whose values are Python objects


def written_files(
    files: NewFiles, stats: pa.Array, wanted: Sequence[Leaf], partition: Partition, prefix: int
) -> FileTable | None:
    """Return the new files of one group with the bounds of the z-order columns.

    Args:
        stats: string[files], the statistics as in the log.
        prefix: The length to which writers truncate string bounds.

    Returns:
        The files; None if the statistics cannot be read. A rewrite must not fail because of that.
    """
    try:
        parts = [_values(stats[start : start + _READ_AT_ONCE], wanted) for start in range(0, len(stats), _READ_AT_ONCE)]
        found = [pa.concat_tables(tables) for tables in zip(_values(stats[:0], wanted), *parts, strict=True)]
        bounds = {
            leaf.name: read_bounds(table, [leaf], (), prefix)[leaf.name]
            for leaf, table in zip(wanted, found, strict=True)
        }
    except (ValueError, TypeError, ArithmeticError, AttributeError, pa.ArrowException):
        return None
    return file_table(files, np.zeros(len(files), np.int64), (partition,), bounds)


def _values(stats: pa.Array, wanted: Sequence[Leaf]) -> list[pa.Table]:
    """Return the statistics of each column in some files in the form of `DeltaTable.get_add_actions`."""
    found: list[dict[str, list[Any]]] = [{name: [] for name, _ in _STATISTICS} for _ in wanted]
    for text in stats:
        document = json.loads(text.as_py(), parse_float=Decimal)  # one at a time: those of a wide table are large
        for leaf, values in zip(wanted, found, strict=True):
            for name, _ in _STATISTICS:
                values[name].append(_value(document.get(name), leaf.physical))
    return [_table(leaf, values) for leaf, values in zip(wanted, found, strict=True)]


def _table(leaf: Leaf, values: Mapping[str, Sequence[Any]]) -> pa.Table:
    columns = {}
    for name, short in _STATISTICS:
        column = _typed(values[name], pa.int64() if short == "null_count" else leaf.type)
        for part in reversed(leaf.physical):
            column = pa.StructArray.from_arrays([column], [part])
        columns[short] = column
    return pa.table(columns)


def _value(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _typed(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Convert the values of JSON: dates and times are strings there."""
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.string()).cast(kind)
    if pa.types.is_floating(kind):
        return pa.array([None if v is None else float(v) for v in values], kind)
    return pa.array([Decimal(v) if pa.types.is_decimal(kind) and v is not None else v for v in values], kind)
