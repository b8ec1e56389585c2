"""Which delete files apply to which data files, and how many rows they take from each.

The rules are those of the Iceberg spec, "Scan Planning". A position delete file or deletion vector that is about one
data file counts exactly. One that is about a whole partition, and an equality delete file, count in proportion to the
rows of the data files they may apply to: an estimate, never more than the delete file's own rows in total.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from zlayout.backends.iceberg.manifests import EQUALITY_DELETES, DataColumns, DeleteFile, PartitionKey
from zlayout.table.state import Int64


def attribute_deletes(data: DataColumns, unpartitioned: frozenset[int]) -> tuple[Int64, pa.Array]:
    """(int64[N] deleted rows of each data file, string[N] sorted keys of the delete files that apply to it).

    unpartitioned: ids of the specs without fields; an equality delete file written with one applies everywhere.
    """
    deleted = np.zeros(len(data.path))
    keys: dict[int, list[str]] = defaultdict(list)
    if data.deletes:
        targets = _Targets(data, unpartitioned)
        for delete in data.deletes:
            rows = targets.of(delete)
            if not len(rows):
                continue
            share = targets.rows[rows] / max(1, targets.rows[rows].sum())
            deleted[rows] += np.minimum(share * delete.rows, targets.rows[rows])
            for row in rows.tolist():
                keys[row].append(delete.key)
    version_key = np.full(len(data.path), "", object)
    for row, names in keys.items():
        version_key[row] = "\n".join(sorted(names))
    counts: Int64 = np.minimum(np.ceil(deleted), data.int64("rows")).astype(np.int64)
    return counts, pa.array(version_key, pa.string())


class _Targets:
    """Finds the data files (row numbers) of a delete file."""

    def __init__(self, data: DataColumns, unpartitioned: frozenset[int]) -> None:
        self.rows = data.int64("rows")
        self._sequence = data.int64("sequence")
        self._path = data.path
        self._row_of: Mapping[str, int] = {path: row for row, path in enumerate(data.path)}
        self._partitions = data.partitions
        self._unpartitioned = unpartitioned
        index = data.partition_index()
        self._order = np.argsort(index, kind="stable")
        self._starts = np.searchsorted(index[self._order], np.arange(len(data.partitions) + 1))

    def of(self, delete: DeleteFile) -> Int64:
        if delete.referenced is not None:
            row = self._row_of.get(delete.referenced, -1)
            return np.array([row] if row >= 0 and self._sequence[row] <= delete.sequence else [], np.int64)
        if delete.content == EQUALITY_DELETES:
            rows = self._everywhere() if delete.partition[0] in self._unpartitioned else self._in(delete.partition)
            return rows[self._sequence[rows] < delete.sequence]
        rows = self._in(delete.partition)
        rows = rows[self._sequence[rows] <= delete.sequence]
        if delete.lowest is None or delete.highest is None:
            return rows
        within = [delete.lowest <= self._path[row] <= delete.highest for row in rows.tolist()]
        return rows[np.array(within, np.bool_)]

    def _everywhere(self) -> Int64:
        return np.arange(len(self._path), dtype=np.int64)

    def _in(self, partition: PartitionKey) -> Int64:
        at = self._partitions.get(partition)
        if at is None:
            return np.zeros(0, np.int64)
        return self._order[self._starts[at] : self._starts[at + 1]]
