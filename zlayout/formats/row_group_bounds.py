"""Reads the bounds of key columns per row group from the footers of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zlayout.table.key_sample import RowGroups
from zlayout.table.state import Column, ColumnBounds


def row_groups_of(
    footers: Mapping[int, pq.FileMetaData],
    paths: Mapping[int, Mapping[str, tuple[str, ...] | None]],
    columns: Sequence[Column],
) -> RowGroups:
    """Return the row groups of files in the order of `footers`.

    Args:
        footers: By index of the file in the file table.
        paths: By index of the file and name of a column: its path of names in the file, None if the file has none.
        columns: The columns whose bounds are read.
    """
    found: dict[str, list[pq.Statistics | None]] = {column.name: [] for column in columns}
    file, rows, size = [], [], []
    for index, metadata in footers.items():
        position = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
        at = {name: position.get(".".join(path or ())) for name, path in paths[index].items()}
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            file.append(index)
            rows.append(group.num_rows)
            size.append(group.total_byte_size)
            for name, statistics in found.items():
                chunk = at[name]
                statistics.append(None if chunk is None else group.column(chunk).statistics)
    bounds = {column.name: _bounds(found[column.name], column.type) for column in columns}
    return RowGroups(np.array(file, np.int64), np.array(rows, np.int64), np.array(size, np.int64), bounds)


def _bounds(statistics: Sequence[pq.Statistics | None], kind: pa.DataType) -> ColumnBounds:
    limits = [_limits(s, kind) for s in statistics]
    nulls = [s.null_count if s is not None and s.has_null_count else -1 for s in statistics]
    return ColumnBounds(
        pa.array([low for low, _ in limits], kind),
        pa.array([high for _, high in limits], kind),
        np.array(nulls, np.int64),
        np.zeros(len(nulls), bool),
    )


def _limits(statistics: pq.Statistics | None, kind: pa.DataType) -> tuple[Any, Any]:
    """Return minimum and maximum as values of the type; None twice if the footer has none that can be used."""
    if statistics is None or not statistics.has_min_max:
        return None, None
    try:
        found = statistics.min, statistics.max
        if pa.types.is_decimal(kind) and not all(isinstance(value, Decimal) for value in found):
            return None, None  # an unscaled integer
        return pa.scalar(found[0], kind), pa.scalar(found[1], kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None, None
