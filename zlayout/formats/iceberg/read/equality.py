"""Computes which data files the equality delete files of one scope may apply to, as Iceberg's delete index does.

An equality delete file applies to older data files of its partition, unless the null counts or the bounds of a column
show that they have no value in common (`canContainEqDeletesForFile` in `org.apache.iceberg.DeleteFileIndex`).

The metadata does not state how many rows a delete file matches. It is assumed that each of its rows deletes one row,
and that these are distributed over the data files to which it may apply, in proportion to their numbers of rows.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.formats.iceberg.read.bounds import decode
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


def estimate(
    data: DataColumns, rows: Int64, deletes: Sequence[DeleteFile], fields: Mapping[int, EqualityField]
) -> tuple[Floats, Bools, list[str]]:
    """Estimate what the equality delete files of one scope delete from its data files.

    Args:
        data: All data files, with the bounds of the equality columns.
        rows: int64[N], the data files of the scope.
        deletes: The equality delete files of the scope.
        fields: The equality columns of a primitive type, by field id.

    Returns:
        float64[N], the estimated number of deleted rows; more than the rows of a file if they are deleted often.
        bool[N], whether a delete file that may apply may also apply to another data file.
        One key per file, which identifies the delete files of the scope that are newer than the file; '' for none.
    """
    scope = _Scope(data, rows)
    ordered = sorted(deletes, key=lambda delete: (delete.sequence, delete.key))
    sets: dict[tuple[int, ...], list[DeleteFile]] = defaultdict(list)
    for delete in deletes:
        sets[tuple(f for f in delete.equality if f in fields)].append(delete)
    anywhere = sets.pop((), [])
    for ids, some in sets.items():
        anywhere += scope.apply_within_bounds({field: fields[field] for field in ids}, some)
    scope.apply_by_age(anywhere)
    digests = [*accumulate(reversed(ordered), lambda after, delete: _digest(after, delete.key), initial="")][::-1]
    return scope.deleted, scope.shared, [digests[at] for at in scope.first_newer(ordered).tolist()]


def _digest(after: str, key: str) -> str:
    return hashlib.sha256(f"{after}\0{key}".encode()).hexdigest()[:32]


class _Scope:
    """The data files of one scope, with the deletes that were applied to them."""

    def __init__(self, data: DataColumns, index: Int64) -> None:
        self.rows = data.int64("rows")[index]
        self.sequence = data.int64("sequence")[index]
        self.deleted, self.shared = np.zeros(len(index)), np.zeros(len(index), np.bool_)
        self._data, self._index = data, index.tolist()

    def first_newer(self, ordered: Sequence[DeleteFile]) -> Int64:
        """Return the index of the first delete file, ordered by sequence number, that is newer than each data file."""
        return np.searchsorted([delete.sequence for delete in ordered], self.sequence, side="right")

    def apply_by_age(self, deletes: Sequence[DeleteFile]) -> None:
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
        first = self.first_newer(ordered)
        self.deleted += self.rows * shares[first]
        hit = first < len(ordered)
        self.shared |= hit & (hit.sum() > 1)

    def apply_within_bounds(
        self, fields: Mapping[int, EqualityField], deletes: Sequence[DeleteFile]
    ) -> list[DeleteFile]:
        """Add the deletes of files with these equality columns. Return the delete files that are too many for that."""
        columns = [self._column(field, kind, deletes) for field, kind in fields.items()]
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
                self.deleted[some] += share * self.rows[some]
                self.shared[some] |= len(some) > 1
        return beyond

    def _column(self, field: int, kind: EqualityField, deletes: Sequence[DeleteFile]) -> _Column:
        stored = (self._data.lower, self._data.upper, self._data.nulls)
        lower, upper, nulls = ([by_field[field][i] for i in self._index] for by_field in stored)
        of_deletes = ([delete.lower.get(field) for delete in deletes], [delete.upper.get(field) for delete in deletes])
        deleted_nulls = np.array([delete.nulls.get(field, -1) for delete in deletes], np.int64)
        return _Column(
            [decode(side, kind.type) for side in (lower, upper, *of_deletes)],
            _nulls(np.array(nulls, np.int64), self.rows, kind.required),
            _nulls(deleted_nulls, np.array([delete.rows for delete in deletes], np.int64), kind.required),
        )


class _Column:
    """One equality column of the data files of a scope and of E delete files.

    Bounds are ranks; a file without both bounds has the range of all ranks.
    """

    def __init__(self, sides: Sequence[pa.Array], nulls: Sequence[Bools], of_deletes: Sequence[Bools]) -> None:
        """Store lower and upper bounds of data files, then of delete files, and the results of `_nulls` for both."""
        self._low, self._high, self._from, self._to = _ranks(sides)
        self._has_null, self._no_null, self._all_null = nulls
        self._of_null, self._not_of_null, self._only_of_null = of_deletes
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


def _ranks(sides: Sequence[pa.Array]) -> list[Int64]:
    """Return the dense ranks of bounds, given as lower and upper bounds of data files, then of delete files."""
    ranks = pc.rank(pa.concat_arrays(sides), sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    parts = np.split(ranks, np.cumsum([len(side) for side in sides])[:-1])
    found = []
    for low, high in ((0, 1), (2, 3)):
        known = pc.and_(sides[low].is_valid(), sides[high].is_valid()).to_numpy(zero_copy_only=False)
        found += [np.where(known, parts[low], -1), np.where(known, parts[high], np.iinfo(np.int64).max)]
    return found


def _nulls(nulls: Int64, rows: Int64, required: bool) -> tuple[Bools, Bools, Bools]:
    """Return whether each file may have nulls, has none for certain, and has nothing else for certain."""
    if required:
        never, always = np.zeros(len(nulls), np.bool_), np.ones(len(nulls), np.bool_)
        return never, always, never
    return nulls != 0, nulls == 0, nulls == rows
