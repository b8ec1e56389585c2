"""Put files, or the bounds of files, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from zlayout.table.state import ColumnBounds, FileTable


def joined(parts: Sequence[FileTable]) -> FileTable:
    """The files of all parts, in order.

    Args:
        parts: At least one file table, with bounds of the columns of the first one. Their indices refer to the
            partitions and layouts of the last one, and their groups are numbered together.
    """
    first, last = parts[0], parts[-1]
    return FileTable(
        path=_joined([part.path for part in parts], first.path.type),
        version_key=_joined([part.version_key for part in parts], first.version_key.type),
        rows=np.concatenate([part.rows for part in parts]),
        deleted=np.concatenate([part.deleted for part in parts]),
        shared_deletes=np.concatenate([part.shared_deletes for part in parts]),
        bytes=np.concatenate([part.bytes for part in parts]),
        partition=np.concatenate([part.partition for part in parts]),
        partitions=last.partitions,
        layout=np.concatenate([part.layout for part in parts]),
        layouts=last.layouts,
        group=np.concatenate([part.group for part in parts]),
        bounds={name: joined_bounds([part.bounds[name] for part in parts]) for name in first.bounds},
        baselines={number: baseline for part in parts for number, baseline in part.baselines.items()},
    )


def joined_bounds(parts: Sequence[ColumnBounds]) -> ColumnBounds:
    """The bounds of all parts, in order, with the type of the first one."""
    kind = parts[0].lower.type
    return ColumnBounds(
        _joined([part.lower for part in parts], kind),
        _joined([part.upper for part in parts], kind),
        np.concatenate([part.null_count for part in parts]),
        np.concatenate([part.truncated for part in parts]),
    )


def _joined(columns: Sequence[pa.Array | pa.ChunkedArray], kind: pa.DataType) -> pa.Array:
    flat = (c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns)
    return pa.concat_arrays([column if column.type == kind else column.cast(kind) for column in flat])
