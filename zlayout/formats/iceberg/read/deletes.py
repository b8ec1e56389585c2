"""Computes which delete files apply to each data file, and the number of rows that they delete from it.

The rules are those of the Iceberg spec under "Scan Planning". The deletes of a deletion vector, or of a position delete
file for one data file, are counted exactly. Those of a position delete file for a partition, and of an equality delete
file (`zlayout.formats.iceberg.read.equality`), are distributed over the data files to which they may apply, in
proportion to their numbers of rows. This is an estimate; its total is at most the number of deletes in the delete file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.formats.iceberg.read.equality import EqualityField, estimate
from zlayout.formats.iceberg.read.manifests import EQUALITY_DELETES, DataColumns, DeleteFile, PartitionKey
from zlayout.table.state import Int64


@dataclass(frozen=True, slots=True)
class Deletes:
    """The deletes of each data file.

    Attributes:
        rows: int64[files], the number of deleted rows.
        by_position: int64[files], those of `rows` that are deleted by position. The others are deleted by equality.
        shared: bool[files], whether a delete file of the data file also applies to other data files.
        key: string[files], a key of the set of delete files that apply, empty for none.
    """

    rows: Int64
    by_position: Int64
    shared: NDArray[np.bool_]
    key: pa.Array

    def plausible(self, stored: Int64) -> Int64:
        """Return the numbers of deleted rows, int64[files], with a limit on those that are deleted by equality.

        The limit is half of the rows that are not deleted by position. An equality delete file may match no row at
        all. Without the limit, the plan could treat a full file as an empty one, and its rewrite would write files
        that are too large.

        Args:
            stored: int64[files], the numbers of rows of the data files.
        """
        half: Int64 = np.minimum(self.rows - self.by_position, (stored - self.by_position) // 2)
        return self.by_position + half


def attribute_deletes(
    data: DataColumns, unpartitioned: frozenset[int], fields: Mapping[int, EqualityField] = MappingProxyType({})
) -> Deletes:
    """Return the deletes of each data file of a snapshot.

    Args:
        data: The data files and delete files.
        unpartitioned: The result of `unpartitioned_specs`.
        fields: The columns of equality delete files whose bounds can be compared, by field id.
    """
    shared = np.zeros(len(data.path), np.bool_)
    if not data.deletes:
        none = np.zeros(len(data.path), np.int64)
        return Deletes(none, none, shared, pa.array([""] * len(data.path), pa.string()))
    deleted = np.zeros(len(data.path))
    keys: dict[int, list[str]] = defaultdict(list)
    targets = _Targets(data)
    equality: dict[PartitionKey | None, list[DeleteFile]] = defaultdict(list)
    for delete in data.deletes:
        if delete.content == EQUALITY_DELETES:
            equality[None if delete.partition[0] in unpartitioned else delete.partition].append(delete)
            continue
        index = targets.of(delete)
        share = targets.rows[index] / max(1, targets.rows[index].sum())
        counted = np.minimum(share * delete.rows, targets.rows[index])
        deleted[index] += counted if delete.vector else np.where(targets.has_vector[index], 0.0, counted)
        shared[index] |= ~targets.has_vector[index] & (len(index) > 1)
        for file in index.tolist():
            keys[file].append(delete.key)
    by_position = _whole_rows(deleted, targets.rows)
    for partition, deletes in equality.items():
        index = targets.inside(partition)
        by_equality, with_others, of_files = estimate(data, index, deletes, fields)
        deleted[index] += by_equality
        shared[index] |= with_others
        for file, key in zip(index.tolist(), of_files, strict=True):
            if key:
                keys[file].append(key)
    version_key = ["\n".join(sorted(keys.get(file, ()))) for file in range(len(data.path))]
    return Deletes(_whole_rows(deleted, targets.rows), by_position, shared, pa.array(version_key, pa.string()))


def _whole_rows(deleted: NDArray[np.float64], stored: Int64) -> Int64:
    whole = np.ceil(deleted.round(6))  # rounded, because sums of shares are not exact
    counts: Int64 = np.minimum(whole, stored).astype(np.int64)
    return counts


class _Targets:
    """Finds the data files to which a delete file may apply, as indices of the file table."""

    def __init__(self, data: DataColumns) -> None:
        self.rows = data.int64("rows")
        self.sequence = data.int64("sequence")
        self._written = data.int64("written")
        self._path = data.path
        self._index_of: Mapping[str, int] = {path: file for file, path in enumerate(data.path)}
        self._partitions = data.partitions
        index = data.partition_index()
        self._order = np.argsort(index, kind="stable")
        self._starts = np.searchsorted(index[self._order], np.arange(len(data.partitions) + 1))
        self.has_vector = np.zeros(len(data.path), np.bool_)  # a deletion vector replaces all position delete files
        for delete in data.deletes:
            if delete.vector:
                self.has_vector[self.of(delete)] = True

    def of(self, delete: DeleteFile) -> Int64:
        """Return the data files to which a position delete file or deletion vector may apply."""
        if delete.referenced is not None:
            file = self._index_of.get(delete.referenced, -1)
            return np.array([file] if file >= 0 and self.sequence[file] <= delete.sequence else [], np.int64)
        index = self.inside(delete.partition)
        # a rewrite may keep a data sequence number, but a position delete never refers to a file that was written later
        index = index[(self.sequence[index] <= delete.sequence) & (self._written[index] <= delete.sequence)]
        if delete.lowest is None or delete.highest is None:
            return index
        within = [delete.lowest <= self._path[file] <= delete.highest for file in index.tolist()]
        return index[np.array(within, np.bool_)]

    def inside(self, partition: PartitionKey | None) -> Int64:
        """Return the data files of a partition, or all data files if it is None."""
        if partition is None:
            return np.arange(len(self._path), dtype=np.int64)
        at = self._partitions.get(partition)
        if at is None:
            return np.zeros(0, np.int64)
        return self._order[self._starts[at] : self._starts[at + 1]]
