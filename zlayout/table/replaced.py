"""The live files after a rewrite that is not committed yet: some files replaced by others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.table.joined import joined
from zlayout.table.state import FileTable


def replaced(files: FileTable, removed: Sequence[pa.Array], added: Sequence[FileTable]) -> FileTable:
    """Return the files without the removed ones and with the added ones, without layout records.

    Args:
        files: The live files before the rewrite, with the bounds of some columns.
        removed: The paths of the removed files.
        added: The new files, with bounds of the same columns.
    """
    gone = pa.concat_arrays([paths.cast(pa.large_string()) for paths in removed] or [pa.array([], pa.large_string())])
    kept = pc.invert(pc.is_in(files.path.cast(pa.large_string()), value_set=gone)).to_numpy(zero_copy_only=False)
    number = {partition: at for at, partition in enumerate(files.partitions)}
    parts = [files.take(np.flatnonzero(kept))]
    for part in added:
        own = np.array([number.setdefault(p, len(number)) for p in part.partitions], np.int32)
        parts.append(replace(part, partition=own[part.partition]))
    none = np.full(sum(map(len, parts)), -1, np.int32)
    return replace(joined(parts), partitions=tuple(number), layout=none, layouts=(), group=none, baselines={})
