"""Computes which delete files apply to each data file, and the number of rows that they delete from it.

The rules are those of the Iceberg spec under "Scan Planning". The rows of a position delete file or deletion vector for
one data file are counted exactly. The rows of a position delete file for a partition, and of an equality delete file,
are distributed over the data files to which they may apply, in proportion to their numbers of rows. This is an
estimate; its total is at most the number of rows of the delete file.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.formats.iceberg.read.manifests import EQUALITY_DELETES, DataColumns, DeleteFile, PartitionKey
from zlayout.table.state import Int64


@dataclass(frozen=True, slots=True)
class Deletes:
    """The deletes of each data file.

    Attributes:
        rows: int64[files], the number of deleted rows.
        shared: bool[files], whether a delete file of the data file also applies to other data files.
        key: string[files], a key of the set of delete files that apply, empty for none.
    """

    rows: Int64
    shared: NDArray[np.bool_]
    key: pa.Array


def attribute_deletes(data: DataColumns, unpartitioned: frozenset[int]) -> Deletes:
    """Return the deletes of each data file of a snapshot.

    Equality delete files of a partition spec without fields (`unpartitioned`: the ids) apply to all data files.
    """
    shared = np.zeros(len(data.path), np.bool_)
    if not data.deletes:
        return Deletes(np.zeros(len(data.path), np.int64), shared, pa.array([""] * len(data.path), pa.string()))
    deleted = np.zeros(len(data.path))
    keys: dict[int, list[str]] = defaultdict(list)
    targets = _Targets(data)
    equality: dict[PartitionKey | None, list[DeleteFile]] = defaultdict(list)
    for delete in data.deletes:
        if delete.content == EQUALITY_DELETES:
            equality[None if delete.partition[0] in unpartitioned else delete.partition].append(delete)
            continue
        rows = targets.of(delete)
        share = targets.rows[rows] / max(1, targets.rows[rows].sum())
        counted = np.minimum(share * delete.rows, targets.rows[rows])
        deleted[rows] += counted if delete.vector else np.where(targets.has_vector[rows], 0.0, counted)
        shared[rows] |= ~targets.has_vector[rows] & (len(rows) > 1)
        for row in rows.tolist():
            keys[row].append(delete.key)
    for scope, deletes in equality.items():
        rows = targets.inside(scope)
        counted, first, digests = _by_equality(targets.rows[rows], targets.sequence[rows], deletes)
        deleted[rows] += counted
        hit = first < len(deletes)  # at least one delete file applies
        shared[rows] |= hit & (hit.sum() > 1)
        for row, at in zip(rows[hit].tolist(), first[hit].tolist(), strict=True):
            keys[row].append(digests[at])
    version_key = np.full(len(data.path), "", object)
    for row, names in keys.items():
        version_key[row] = "\n".join(sorted(names))
    whole = np.ceil(deleted.round(6))  # rounded, because sums of shares are not exact
    counts: Int64 = np.minimum(whole, data.int64("rows")).astype(np.int64)
    return Deletes(counts, shared, pa.array(version_key, pa.string()))


def _by_equality(
    rows: Int64, sequence: Int64, deletes: Sequence[DeleteFile]
) -> tuple[NDArray[np.float64], Int64, list[str]]:
    """Apply equality delete files to the data files of one partition.

    Args:
        rows: int64[files], the numbers of rows of the data files.
        sequence: int64[files], the sequence numbers of the data files.
        deletes: The delete files.

    Returns:
        float64[files], the numbers of deleted rows; int64[files], the index of the first delete file, in the order of
        sequence numbers, that applies to the data file (all later delete files apply too); and for each index a digest
        of the delete files from this index on.
    """
    ordered = sorted(deletes, key=lambda delete: (delete.sequence, delete.key))
    since = np.array([delete.sequence for delete in ordered], np.int64)
    by_age = np.argsort(sequence, kind="stable")
    older = np.concatenate(([0], np.cumsum(rows[by_age])))[np.searchsorted(sequence[by_age], since, side="left")]
    share = np.minimum(np.array([delete.rows for delete in ordered]) / np.maximum(older, 1), 1.0)
    shares = np.append(np.cumsum(share[::-1])[::-1], 0.0)
    first = np.searchsorted(since, sequence, side="right")
    digests = accumulate(reversed(ordered), lambda after, delete: _digest(after, delete.key), initial="")
    return rows * shares[first], first, list(digests)[::-1]


def _digest(after: str, key: str) -> str:
    return hashlib.sha256(f"{after}\0{key}".encode()).hexdigest()[:32]


class _Targets:
    """Finds the data files, as row numbers of the file table, to which a delete file may apply."""

    def __init__(self, data: DataColumns) -> None:
        self.rows = data.int64("rows")
        self.sequence = data.int64("sequence")
        self._written = data.int64("written")
        self._path = data.path
        self._row_of: Mapping[str, int] = {path: row for row, path in enumerate(data.path)}
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
            row = self._row_of.get(delete.referenced, -1)
            return np.array([row] if row >= 0 and self.sequence[row] <= delete.sequence else [], np.int64)
        rows = self.inside(delete.partition)
        # a rewrite may keep the sequence number of the rows, but no position delete refers to a file written after it
        rows = rows[(self.sequence[rows] <= delete.sequence) & (self._written[rows] <= delete.sequence)]
        if delete.lowest is None or delete.highest is None:
            return rows
        within = [delete.lowest <= self._path[row] <= delete.highest for row in rows.tolist()]
        return rows[np.array(within, np.bool_)]

    def inside(self, partition: PartitionKey | None) -> Int64:
        """Return the data files of a partition, all data files for None."""
        if partition is None:
            return np.arange(len(self._path), dtype=np.int64)
        at = self._partitions.get(partition)
        if at is None:
            return np.zeros(0, np.int64)
        return self._order[self._starts[at] : self._starts[at + 1]]
