"""Computes which data files the equality delete files of one scope may apply to, as Iceberg's delete index does.

An equality delete file applies to older data files of its partition, unless the null counts or the bounds of a column
show that they have no value in common (`canContainEqDeletesForFile` in `org.apache.iceberg.DeleteFileIndex`).

Nothing shows how many rows a delete file finds. It is assumed that each of its rows deletes one row, and that these are
distributed over the data files to which it may apply, in proportion to their numbers of rows.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.formats.iceberg.read.bounds import Bytes, decode
from zlayout.formats.iceberg.read.manifests import DataColumns, DeleteFile
from zlayout.table.state import Int64

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

# Pairs of a delete file and a data file that are compared. Delete files beyond them count as if they had no bounds.
MAX_PAIRS = 50_000_000


@dataclass(frozen=True, slots=True)
class EqualityField:
    """The Arrow type of the bounds of a primitive column, and whether its values are never null."""

    type: pa.DataType
    required: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the equality delete files of one scope may delete from its N data files.

    Attributes:
        rows: float64[N], the estimated number of deleted rows; more than the rows of a file if they are deleted often.
        shared: bool[N], whether a delete file that may apply may also apply to another data file.
        key: One string per file, which identifies the delete files of the scope that are newer than the file.
    """

    rows: Floats
    shared: Bools
    key: list[str]


def estimate(
    data: DataColumns, rows: Int64, deletes: Sequence[DeleteFile], fields: Mapping[int, EqualityField]
) -> Estimate:
    """Estimate the deletes of the data files of one scope.

    Args:
        data: All data files, with the bounds of the equality columns.
        rows: int64[N], the data files of the scope.
        deletes: The equality delete files of the scope.
        fields: The equality columns of a primitive type, by field id.
    """
    files = _Files(data, rows, fields)
    sets: dict[tuple[int, ...], list[DeleteFile]] = defaultdict(list)
    for delete in deletes:
        sets[tuple(f for f in delete.equality if f in fields)].append(delete)
    deleted, shared = np.zeros(len(rows)), np.zeros(len(rows), np.bool_)
    anywhere = list(sets.pop((), ()))
    for ids, some in sets.items():
        anywhere += files.apply_within_bounds(ids, some, deleted, shared)
    first, digests = _by_age(files, deletes)
    files.apply_by_age(anywhere, deleted, shared)
    return Estimate(deleted, shared, [digests[at] for at in first.tolist()])


def _by_age(files: _Files, deletes: Sequence[DeleteFile]) -> tuple[Int64, list[str]]:
    """Return the index of the first delete file, by sequence number, that is newer than each data file.

    Returns:
        int64[N], and for each index a digest of the delete files from this index on; an empty string for none.
    """
    ordered = sorted(deletes, key=lambda delete: (delete.sequence, delete.key))
    since = np.array([delete.sequence for delete in ordered], np.int64)
    digests = accumulate(reversed(ordered), lambda after, delete: _digest(after, delete.key), initial="")
    return np.searchsorted(since, files.sequence, side="right"), list(digests)[::-1]


def _digest(after: str, key: str) -> str:
    return hashlib.sha256(f"{after}\0{key}".encode()).hexdigest()[:32]


class _Files:
    """The data files of one scope, with the ranks of their bounds."""

    def __init__(self, data: DataColumns, rows: Int64, fields: Mapping[int, EqualityField]) -> None:
        self.rows = data.int64("rows")[rows]
        self.sequence = data.int64("sequence")[rows]
        self._data, self._index, self._fields = data, rows, fields

    def apply_by_age(self, deletes: Sequence[DeleteFile], deleted: Floats, shared: Bools) -> None:
        """Add the deletes of files without usable bounds, which may apply to all older data files."""
        if not deletes:
            return
        ordered = sorted(deletes, key=lambda delete: (delete.sequence, delete.key))
        since = np.array([delete.sequence for delete in ordered], np.int64)
        by_age = np.argsort(self.sequence, kind="stable")
        so_far = np.concatenate(([0], np.cumsum(self.rows[by_age])))
        older = so_far[np.searchsorted(self.sequence[by_age], since, side="left")]
        share = np.minimum(np.array([delete.rows for delete in ordered]) / np.maximum(older, 1), 1.0)
        shares = np.append(np.cumsum(share[::-1])[::-1], 0.0)
        first = np.searchsorted(since, self.sequence, side="right")
        deleted += self.rows * shares[first]
        hit = first < len(ordered)
        shared |= hit & (hit.sum() > 1)

    def apply_within_bounds(
        self, ids: tuple[int, ...], deletes: Sequence[DeleteFile], deleted: Floats, shared: Bools
    ) -> list[DeleteFile]:
        """Add the deletes of files with these equality columns. Return the delete files that are too many for that."""
        columns = [_Column(self, field, deletes) for field in ids]
        order, ends = columns[0].order, columns[0].slices()
        left, beyond = MAX_PAIRS, []
        for number in np.argsort(ends[1] - ends[0], kind="stable").tolist():
            start, stop = int(ends[0][number]), int(ends[1][number])
            left -= max(stop - start, 0)
            if left < 0:
                beyond.append(deletes[number])
                continue
            some = order[start:stop]
            some = some[self.sequence[some] < deletes[number].sequence]
            for column in columns:
                some = some[column.may_match(number, some)]
            if len(some):
                share = min(deletes[number].rows / max(1, int(self.rows[some].sum())), 1.0)
                deleted[some] += share * self.rows[some]
                shared[some] |= len(some) > 1
        return beyond

    def bounds(self, field: int) -> tuple[Bytes, Bytes, Int64]:
        """Return the serialized bounds of a column, and its null counts (int64[N], -1 for unknown)."""
        lower, upper, nulls = self._data.lower[field], self._data.upper[field], self._data.nulls[field]
        index = self._index.tolist()
        return [lower[i] for i in index], [upper[i] for i in index], np.array([nulls[i] for i in index], np.int64)

    def field(self, field: int) -> EqualityField:
        return self._fields[field]


class _Column:
    """One equality column of the data files of a scope and of E delete files.

    Bounds are ranks; a file without both bounds has the range of all ranks.
    """

    def __init__(self, files: _Files, field: int, deletes: Sequence[DeleteFile]) -> None:
        kind = files.field(field)
        lower, upper, nulls = files.bounds(field)
        sides = (lower, upper, _side(deletes, field, "lower"), _side(deletes, field, "upper"))
        self._low, self._high, self._from, self._to = _ranks([decode(side, kind.type) for side in sides])
        gone = np.array([delete.nulls.get(field, -1) for delete in deletes], np.int64)
        stored = np.array([delete.rows for delete in deletes], np.int64)
        self._has_null, self._no_null, self._all_null = _nulls(nulls, files.rows, kind.required)
        self._of_null, self._not_of_null, self._only_of_null = _nulls(gone, stored, kind.required)
        self.order = np.argsort(self._low, kind="stable")

    def slices(self) -> tuple[Int64, Int64]:
        """Return the range of positions in `order`, int64[E] each, outside of which no file has a common value."""
        start = np.searchsorted(np.maximum.accumulate(self._high[self.order]), self._from, side="left")
        stop = np.searchsorted(self._low[self.order], self._to, side="right")
        return np.where(self._of_null, 0, start), np.where(self._of_null, len(self.order), stop)

    def may_match(self, delete: int, some: Int64) -> Bools:
        """Return whether each of `some` files may have a value of the delete file, bool[len(some)]."""
        matches: Bools = (self._low[some] <= self._to[delete]) & (self._high[some] >= self._from[delete])
        if self._not_of_null[delete]:
            matches &= ~self._all_null[some]
        if self._only_of_null[delete]:
            matches &= ~self._no_null[some]
        if self._of_null[delete]:
            matches |= self._has_null[some]
        return matches


def _side(deletes: Iterable[DeleteFile], field: int, side: str) -> Bytes:
    return [getattr(delete, side).get(field) for delete in deletes]


def _ranks(sides: Sequence[pa.Array]) -> list[Int64]:
    """Return the dense ranks of bounds, given as lower and upper bounds of data files, then of delete files."""
    ranks = pc.rank(pa.concat_arrays(sides), sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    found = []
    parts = np.split(ranks, np.cumsum([len(side) for side in sides])[:-1])
    for (low, low_ranks), (high, high_ranks) in zip(*[iter(zip(sides, parts, strict=True))] * 2, strict=True):
        known = pc.and_(low.is_valid(), high.is_valid()).to_numpy(zero_copy_only=False)
        found += [np.where(known, low_ranks, -1), np.where(known, high_ranks, np.iinfo(np.int64).max)]
    return found


def _nulls(nulls: Int64, rows: Int64, required: bool) -> tuple[Bools, Bools, Bools]:
    """Return whether each file may have nulls, has none for certain, and has nothing else for certain."""
    if required:
        never, always = np.zeros(len(nulls), np.bool_), np.ones(len(nulls), np.bool_)
        return never, always, never
    return nulls != 0, nulls == 0, nulls == rows
