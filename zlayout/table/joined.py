"""Concatenate file tables and file bounds, and replace old files by the new files of a rewrite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.table.state import ARROW_COLUMNS, NUMPY_COLUMNS, ColumnBounds, FileTable


def joined(parts: Sequence[FileTable]) -> FileTable:
    """The files of all parts, in order.

    Args:
        parts: At least one file table. Each has the bounds of the columns of the first one. The indices `partition` and
            `layout` of each refer to the partitions and layouts of the last one. A group has the same number in all.
    """
    first = parts[0]
    columns: dict[str, Any] = {
        name: _joined([getattr(part, name) for part in parts], getattr(first, name).type) for name in ARROW_COLUMNS
    }
    columns |= {name: np.concatenate([getattr(part, name) for part in parts]) for name in NUMPY_COLUMNS}
    return replace(
        parts[-1],
        **columns,
        bounds={name: joined_bounds([part.bounds[name] for part in parts]) for name in first.bounds},
        baselines={number: baseline for part in parts for number, baseline in part.baselines.items()},
    )


def joined_bounds(parts: Sequence[ColumnBounds]) -> ColumnBounds:
    """The bounds of all parts, in order, cast to the type of the first part."""
    type_ = parts[0].lower.type
    return ColumnBounds(
        _joined([part.lower for part in parts], type_),
        _joined([part.upper for part in parts], type_),
        np.concatenate([part.null_count for part in parts]),
        np.concatenate([part.truncated for part in parts]),
    )


def _joined(columns: Sequence[pa.Array | pa.ChunkedArray], type_: pa.DataType) -> pa.Array:
    flat = (c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns)
    return pa.concat_arrays([column if column.type == type_ else column.cast(type_) for column in flat])


def replaced(files: FileTable, removed: Sequence[pa.Array], added: Sequence[FileTable]) -> FileTable:
    """Return the live files after a rewrite: `files` that were not removed, then the new files.

    The result has no layout records and no baselines.

    Args:
        files: The live files before the rewrite, with the bounds of some columns.
        removed: The paths of the removed files, in one or several arrays.
        added: The new files, with the bounds of the same columns.
    """
    gone = pa.chunked_array([paths.cast(pa.large_string()) for paths in removed], pa.large_string())
    kept = pc.invert(pc.is_in(files.path.cast(pa.large_string()), value_set=gone)).to_numpy(zero_copy_only=False)
    number = {partition: at for at, partition in enumerate(files.partitions)}
    parts = [files.take(np.flatnonzero(kept))]
    for part in added:
        own = np.array([number.setdefault(p, len(number)) for p in part.partitions], np.int32)
        parts.append(replace(part, partition=own[part.partition]))
    none = np.full(sum(map(len, parts)), -1, np.int32)
    return replace(joined(parts), partitions=tuple(number), layout=none, layouts=(), group=none, baselines={})
