"""The ranges that metadata allows for `touched`, the number of files, and the bytes read after a rewrite.

After a rewrite of whole partitions, a query for a value opens at least one and at most all of the new files. More is
known only in special cases: files in the order of their only z-order column share no value, a query on a column without
values opens no file, and a query on a column without bounds opens every file. If some files of a partition stay, what
they contribute to touched is known from the present estimate, whose error is ESTIMATE_ERROR (docs/metrics.md).

It is assumed that rewritten rows keep their size, because it is not known how well a new order compresses. If a group
of B bytes becomes at most k files, a query for one of its values reads at least B / k bytes in the mean: B / k is the
mean over files of equal size, and larger files are read more often than smaller ones. A query reads at most B bytes of
the group, and none if the value is outside of the hull of the group. Both limits count whole files, although engines
may skip row groups in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from zlayout.planner.forecast import Measured
from zlayout.planner.model import BytesRead, ColumnForecast, FilesAfter, TouchedRange
from zlayout.planner.partitions import Bools, Floats, Index, classes_of
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import lacks_bounds
from zlayout.table.metrics import min_floor
from zlayout.table.state import Column, FileTable, TableState, counts, is_text, sums

# The largest relative error of `touched`, which is estimated from bounds: docs/metrics.md, "touched".
ESTIMATE_ERROR = 0.1
# The largest relative error of a number of distinct values from a sketch; 2 % is usual.
SKETCH_ERROR = 0.1
# An upper limit of the rows of the largest new file, as a multiple of the mean, if no key has more rows than a file.
MAX_IMBALANCE = 3.0


@dataclass(frozen=True, slots=True)
class Rewrites:
    """A rewrite of G groups, each with files of one partition.

    Attributes:
        files: The N files of the table, in P partitions.
        group: int64[N], the group of each file; -1 for files that stay.
        partition: int64[G], the partition of each group.
        targets: int64[G], the largest number of files that each group can become.
    """

    files: FileTable
    group: Index
    partition: Index
    targets: Index

    @property
    def kept(self) -> Bools:
        """bool[N], the files that stay."""
        kept: Bools = self.group < 0
        return kept

    def sums(self, values: NDArray[Any]) -> Floats:
        """Return the sum of `values` ([N]) over the files of each group, float64[G]."""
        members, count = np.flatnonzero(~self.kept), len(self.targets)
        return sums(self.group[members], max(count, 1), values[members])[:count]

    def in_partitions(self, values: NDArray[Any]) -> Floats:
        """Return the sum of `values` ([G]) over the groups of each partition, float64[P]."""
        return sums(self.partition, max(len(self.files.partitions), 1), values)

    def changes(self) -> tuple[Index, Bools, Bools]:
        """Return how each partition changes.

        Returns:
            int64[P], the number of files that stay. bool[P], whether files are rewritten. bool[P], whether files are
            rewritten, but not all files of the partition in one group.
        """
        count = max(len(self.files.partitions), 1)
        kept = counts(self.files.partition[self.kept], count)
        changed = counts(self.files.partition, count) > kept
        return kept, changed, changed & ((kept > 0) | (counts(self.partition, count) > 1))

    def share_of_rows(self, column: str) -> Floats:
        """Return the share of each group in the rows of its partition that have a value, float64[G]."""
        values = self.files.rows_with_value(column)
        own = self.sums(values)
        whole = sums(self.files.partition, max(len(self.files.partitions), 1), values)[self.partition]
        return np.divide(own, whole, out=np.zeros_like(own), where=whole > 0)

    def beside_kept(self, now: Measured, at: int, apart: Bools) -> tuple[Index, Floats, Floats]:
        """Measure the partitions that are not rewritten as one group.

        Args:
            now: The present metrics.
            at: The index of a z-order column.
            apart: bool[P], these partitions: the third result of `changes`.

        Returns:
            int64[K], the files that stay in these partitions. float64[K], for each of these files, the share of the
            rows of its partition in its interval. float64[G], the same share for the hull of each group.
        """
        inside = np.flatnonzero(apart[self.files.partition])
        group, reach = self.group[inside], now.reach_of(self.files, at, inside)
        stays, members = group < 0, np.flatnonzero(group >= 0)
        hull = classes_of(group[members], len(self.targets), members).hull(reach.lo, reach.hi)
        return inside[stays], reach.share[stays], reach.between(self.partition, *hull)


def rewrites_of(files: FileTable, groups: Sequence[Index], targets: Sequence[int]) -> Rewrites:
    """Return the rewrite of some groups.

    Args:
        files: The files of the table.
        groups: int64, the indices of the files of each group. They are in one partition.
        targets: The largest number of files that each group can become.
    """
    group = np.full(len(files), -1, np.int64)
    for number, members in enumerate(groups):
        group[members] = number
    partition = files.partition[[members[0] for members in groups]] if groups else np.zeros(0, np.int64)
    return Rewrites(files, group, partition.astype(np.int64), np.array(targets, np.int64))


def unknown_ranges(spec: LayoutSpec) -> tuple[TouchedRange, ...]:
    """Return the forecast of each z-order column for a rewrite about which metadata proves nothing."""
    return tuple(TouchedRange(name, None, None, None, None) for name in spec.column_names)


def stays_unbounded(column: Column, state: TableState) -> bool:
    """Return whether files have no bounds of a column, and no table property would make writers store them."""
    return lacks_bounds(column, state) and not column.enable_stats


def touched_ranges(spec: LayoutSpec, state: TableState, now: Measured, rewrites: Rewrites) -> tuple[TouchedRange, ...]:
    """Return the range of touched of each z-order column after the rewrites, summed over partitions."""
    result = []
    for at, column in enumerate(state.columns_of(spec.column_names)):
        if stays_unbounded(column, state):
            low, high = map(float, _files_range(rewrites))
        else:
            low, high = _touched_range(spec, state, now, rewrites, at, column)
        result.append(TouchedRange(column.name, None, low, high, None))
    return tuple(result)


def _touched_range(
    spec: LayoutSpec, state: TableState, now: Measured, rewrites: Rewrites, at: int, column: Column
) -> tuple[float, float]:
    touched, (kept, changed, apart) = now.touched[:, at], rewrites.changes()
    written = rewrites.in_partitions(rewrites.targets)
    lowest = has_values(state.files, column.name, len(touched)).astype(np.float64)
    lowest *= _lowest_touched(spec, state, now, at, column, written)
    high_in_group = np.minimum(_max_among_new(spec, state, column, rewrites), rewrites.targets)
    low = np.where(changed, np.where(apart, np.minimum(lowest, 1.0), lowest), touched)
    high = np.where(changed, rewrites.in_partitions(high_in_group), touched)
    if apart.any():
        stay, share, hull = rewrites.beside_kept(now, at, apart)
        beside = sums(state.files.partition[stay], len(touched), share)
        low_apart = (1 - ESTIMATE_ERROR) * (beside + rewrites.in_partitions(rewrites.share_of_rows(column.name)))
        new = rewrites.in_partitions(high_in_group * np.minimum((1 + ESTIMATE_ERROR) * hull, 1.0))
        low = np.where(apart, np.maximum(low, low_apart), low)
        high = np.where(apart, np.minimum((1 + ESTIMATE_ERROR) * beside + new, kept + written), high)
    high = np.where(changed & (touched == 0) & (lowest == 0), 0.0, np.maximum(high, low))
    return float(low.sum()), float(high.sum())


def files_after(rewrites: Rewrites) -> FilesAfter:
    """Return the range of the number of live files after the rewrites. A group with live rows becomes at least one."""
    low, high = _files_range(rewrites)
    return FilesAfter(None, low, high)


def _files_range(rewrites: Rewrites) -> tuple[int, int]:
    kept, filled = int(rewrites.kept.sum()), rewrites.sums(rewrites.files.live_rows) > 0
    return kept + int(filled.sum()), kept + int(rewrites.targets.sum())


def _max_rows_of_key(spec: LayoutSpec, state: TableState) -> float:
    """Return an upper limit of the number of rows that have the same values in all z-order columns."""
    rows = float(state.files.live_rows.sum())
    stated = [c.distinct for c in state.columns_of(spec.column_names) if c.distinct is not None]
    return rows - max([(1 - SKETCH_ERROR) * n for n in stated], default=0.0) + 1


def _lowest_touched(
    spec: LayoutSpec, state: TableState, now: Measured, at: int, column: Column, targets: Floats
) -> Floats:
    """Return the lowest touched that rewriting whole partitions can reach. targets: the largest number of new files."""
    values = (state.files.live_rows, state.files.rows_with_value(column.name))
    rows, filled = (sums(state.files.partition, len(targets), each) for each in values)
    distinct = now.metrics[at].by_partition.max_distinct
    if column.distinct is not None:
        distinct = np.minimum(distinct, (1 + SKETCH_ERROR) * column.distinct + 1)
    # k values fill all N new files, so that a query for a value opens at least N / k files in the mean if the files
    # have equal numbers of rows. A file may have MAX_IMBALANCE times the mean, and without noise all rows of one key.
    largest = MAX_IMBALANCE * np.divide(rows, targets, out=rows.copy(), where=targets > 0)
    if not spec.layout.noise:
        largest = np.maximum(largest, np.minimum(_max_rows_of_key(spec, state), rows))
    share = np.divide(largest, filled, out=np.ones_like(largest), where=filled > 0)
    return np.where(share > 0, min_floor(distinct, np.where(share > 0, share, 1.0)), 1.0)


def _max_among_new(spec: LayoutSpec, state: TableState, column: Column, rewrites: Rewrites) -> Floats:
    """Return the largest possible touched among the new files of each group alone, float64[G]."""
    files, nulls = state.files, state.files.bounds[column.name].null_count
    filled = rewrites.sums(np.maximum(files.rows - np.maximum(nulls, 0), 0))
    # At most as many files are opened as there are rows with a value, because a file without a value is not opened.
    limit = np.where(rewrites.sums(nulls < 0) > 0, rewrites.targets, np.minimum(rewrites.targets, filled))
    # Files in the order of the only z-order column share no value, with three exceptions. Bounds may be less exact
    # than the values: strings are truncated and timestamps are rounded. A file with NaN may have no bounds. Noise
    # distributes a key that has more rows than two files; there is none if nearly all values are distinct.
    truncated = is_text(column.type) and column.bound_length is not None
    if len(spec.column_names) > 1 or truncated or pt.is_timestamp(column.type):
        return limit
    once = 2.0 if pt.is_floating(column.type) else 1.0
    rows = rewrites.sums(files.live_rows)
    heaviest = np.divide(_max_rows_of_key(spec, state), rows, out=np.ones(len(rows)), where=rows > 0)
    spread = np.minimum(heaviest, 1.0) * (np.minimum(heaviest, 1.0) * rewrites.targets + 2)
    whole = (heaviest * rewrites.targets <= 2) | (not spec.layout.noise)
    return np.minimum(limit, np.where(whole, once, once + spread))


def has_values(files: FileTable, column: str, partitions: int) -> Bools:
    """Return the partitions, bool[P], that certainly have a live row with a value of the column."""
    bounds = files.bounds[column]
    certain = np.where(bounds.null_count >= 0, files.rows - files.deleted - bounds.null_count, 0) > 0
    certain &= ~files.shared_deletes
    bounded = bounds.lower.is_valid().to_numpy(zero_copy_only=False) & (files.deleted == 0) & ~files.shared_deletes
    return counts(files.partition[certain | bounded], partitions) > 0


def with_bytes(
    state: TableState, now: Measured, rewrites: Rewrites, columns: Sequence[ColumnForecast]
) -> tuple[ColumnForecast, ...]:
    """Return the forecast of each z-order column with the range of the bytes that a query reads after the rewrites."""
    size = rewrites.sums(state.files.live_bytes)
    result = []
    for at, (forecast, column) in enumerate(zip(columns, state.columns_of(c.column for c in columns), strict=True)):
        if stays_unbounded(column, state):
            low = high = float(state.files.bytes[rewrites.kept].sum() + size.sum())
        else:
            low, high = _bytes_range(column.name, now, at, rewrites, size)
        result.append(replace(forecast, bytes_read=BytesRead(forecast.bytes_read.now, None, round(low), round(high))))
    return tuple(result)


def _bytes_range(column: str, now: Measured, at: int, rewrites: Rewrites, size: Floats) -> tuple[float, float]:
    """Return the range of the bytes read. at: the index of the column. size: the live bytes of each group."""
    files, targets, (_, changed, apart) = rewrites.files, rewrites.targets, rewrites.changes()
    values = files.rows_with_value(column)
    own, rows, live = rewrites.share_of_rows(column), rewrites.sums(values), rewrites.sums(files.live_rows)
    filled = sums(files.partition, len(changed), values) > 0
    hull = filled[rewrites.partition].astype(np.float64)
    stay, beside = float(now.metrics[at].by_partition.bytes[~changed].sum()), 0.0
    if apart.any():
        kept, share, width = rewrites.beside_kept(now, at, apart)
        beside = float((share * files.bytes[kept]).sum())
        hull = np.where(apart[rewrites.partition], np.minimum((1 + ESTIMATE_ERROR) * width, hull), hull)
    # If other rows are null, the files with values may have only the share of the bytes that rows with a value have.
    valued = np.divide(rows, live, out=np.zeros_like(rows), where=live > 0)
    share_read = np.where(targets > 1, np.minimum(valued, 1.0) / np.maximum(targets, 1), 1.0)
    low = stay + (1 - ESTIMATE_ERROR) * beside + float((own * share_read * size).sum())
    high = stay + (1 + ESTIMATE_ERROR) * beside + float((hull * size).sum())
    return low, max(low, high)
