"""The live files after a rewrite that is not committed yet: some files replaced by others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.table.state import ColumnBounds, FileTable


def replaced(files: FileTable, removed: Sequence[pa.Array], added: Sequence[FileTable]) -> FileTable:
    """Return the files without the removed ones and with the added ones, without layout records.

    Args:
        files: The live files before the rewrite, with the bounds of some columns.
        removed: The paths of the removed files.
        added: The new files, with bounds of the same columns.
    """
    gone = pa.concat_arrays([paths.cast(pa.large_string()) for paths in removed] or [pa.array([], pa.large_string())])
    kept = pc.invert(pc.is_in(files.path.cast(pa.large_string()), value_set=gone)).to_numpy(zero_copy_only=False)
    parts = [files.take(np.flatnonzero(kept)), *added]
    number = {partition: at for at, partition in enumerate(files.partitions)}
    owners = [parts[0].partition]
    for part in added:
        own = np.array([number.setdefault(p, len(number)) for p in part.partitions], np.int32)
        owners.append(own[part.partition])
    together = np.concatenate
    return replace(
        parts[0],
        path=pa.concat_arrays([part.path.cast(pa.large_string()) for part in parts]),
        version_key=pa.concat_arrays([part.version_key.cast(pa.large_string()) for part in parts]),
        rows=together([part.rows for part in parts]),
        deleted=together([part.deleted for part in parts]),
        shared_deletes=together([part.shared_deletes for part in parts]),
        bytes=together([part.bytes for part in parts]),
        partition=together(owners),
        partitions=tuple(number),
        layout=np.full(sum(map(len, parts)), -1, np.int32),
        group=np.full(sum(map(len, parts)), -1, np.int32),
        bounds={name: _joined([part.bounds[name] for part in parts]) for name in files.bounds},
        baselines={},
    )


def _joined(parts: Sequence[ColumnBounds]) -> ColumnBounds:
    kind = parts[0].lower.type
    return ColumnBounds(
        pa.concat_arrays([_array(part.lower).cast(kind) for part in parts]),
        pa.concat_arrays([_array(part.upper).cast(kind) for part in parts]),
        np.concatenate([part.null_count for part in parts]),
        np.concatenate([part.truncated for part in parts]),
    )


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
