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

# The names of statistics in the log, and the names that deltalake gives them.
_STATISTICS = (("minValues", "min"), ("maxValues", "max"), ("nullCount", "null_count"))
_FILES_AT_ONCE = 2000  # the number of files whose values are Python objects at the same time


def written_files(
    files: NewFiles, stats: pa.Array, wanted: Sequence[Leaf], partition: Partition, prefix: int
) -> FileTable | None:
    """Return the new files of one group with the bounds of the z-order columns.

    Args:
        stats: string[files], the statistics as in the log.
        wanted: The leaf columns that are z-order columns.
        partition: The partition of the group.
        prefix: The length in UTF-16 units to which writers truncate string bounds.

    Returns:
        The files; None if the statistics cannot be read, because a rewrite must not fail for this reason.
    """
    try:
        starts = range(0, len(stats), _FILES_AT_ONCE)
        parts = [_values(stats[start : start + _FILES_AT_ONCE], wanted) for start in starts]
        found = [pa.concat_tables(tables) for tables in zip(_values(stats[:0], wanted), *parts, strict=True)]
        bounds = {
            leaf.name: read_bounds(table, [leaf], (), prefix)[leaf.name]
            for leaf, table in zip(wanted, found, strict=True)
        }
    except (ValueError, TypeError, ArithmeticError, AttributeError, pa.ArrowException):
        return None
    return file_table(files, np.zeros(len(files), np.int64), (partition,), bounds)


def _values(stats: pa.Array, wanted: Sequence[Leaf]) -> list[pa.Table]:
    """Return one table per column with its statistics, in the form of `DeltaTable.get_add_actions`."""
    found: list[dict[str, list[Any]]] = [{name: [] for name, _ in _STATISTICS} for _ in wanted]
    for text in stats:
        # one at a time, because the statistics of a wide table are large
        document = json.loads(text.as_py(), parse_float=Decimal)
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


def _typed(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(type_):
        return pa.array(values, pa.string()).cast(type_)
    if pa.types.is_floating(type_):
        return pa.array([None if v is None else float(v) for v in values], type_)
    return pa.array([Decimal(v) if pa.types.is_decimal(type_) and v is not None else v for v in values], type_)
