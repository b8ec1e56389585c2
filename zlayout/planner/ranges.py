"""The ranges that metadata allows for `touched`, the number of files, and the bytes read after a rewrite.

A rewrite of whole partitions leaves every value in at least one file, and opens at most all new files. More is known
only in special cases: files in the order of their only key share no value, a column without values touches no file, and
a column without bounds touches every file. Where some files of a partition stay, their share of touched is known from
the estimate of the present one, whose error is ESTIMATE_ERROR (docs/metrics.md).

The bytes of rewritten rows are those of their present files: how well a new order compresses is not known. A group of
B bytes becomes at most k files, and a query for one of its values reads at least B / k bytes in the mean, because that
is the mean over files of equal size, and larger files are read more often than smaller ones. It reads at most B, within
the range that the group covers. Both bounds count whole files: row groups may be skipped inside of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from zlayout.planner.classes import classes_of
from zlayout.planner.forecast import Measured
from zlayout.planner.forecasts import BytesRead, ColumnForecast, FilesAfter, TouchedRange
from zlayout.planner.partitions import Bools, Floats, Index
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import lacks_bounds
from zlayout.table.metrics import min_floor
from zlayout.table.state import Column, FileTable, TableState, is_text
from zlayout.table.sums import counts, sums

# The largest relative error of `touched`, which is estimated from bounds: docs/metrics.md, "touched".
ESTIMATE_ERROR = 0.1
# The relative error of a number of distinct values from a sketch; 2 % are usual.
SKETCH_ERROR = 0.1
# The rows of the largest new file, as a multiple of the mean, if no key is larger than a file.
MAX_IMBALANCE = 3.0


@dataclass(frozen=True, slots=True)
class Rewrites:
    """G groups of files of one partition each that are rewritten together.

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
        """Return what happens to each partition.

        Returns:
            int64[P], the number of files that stay; bool[P], whether files are rewritten; bool[P], whether files are
            rewritten and others stay, or are rewritten in another group.
        """
        count = max(len(self.files.partitions), 1)
        kept = counts(self.files.partition[self.kept], count)
        changed = counts(self.files.partition, count) > kept
        return kept, changed, changed & ((kept > 0) | (counts(self.partition, count) > 1))

    def share_of_rows(self, column: str) -> Floats:
        """Return the share of the rows with a value of its partition that each group has, float64[G]."""
        values = self.files.rows_with_value(column)
        own = self.sums(values)
        whole = sums(self.files.partition, max(len(self.files.partitions), 1), values)[self.partition]
        return np.divide(own, whole, out=np.zeros_like(own), where=whole > 0)

    def beside_kept(self, now: Measured, at: int, apart: Bools) -> tuple[Index, Floats, Floats]:
        """Measure the partitions `apart` (bool[P]) that keep files or are rewritten in several groups.

        Args:
            now: The present metrics.
            at: The number of a z-order column.
            apart: See `changes`.

        Returns:
            int64[K], the files that stay in these partitions; float64[K], the share of the rows of its partition in the
            interval of each; float64[G], the share in the range of each group.
        """
        inside = np.flatnonzero(apart[self.files.partition])
        group, reach = self.group[inside], now.reach_of(self.files, at, inside)
        stays, members = group < 0, np.flatnonzero(group >= 0)
        hull = classes_of(group[members], len(self.targets), members).hull(reach.lo, reach.hi)
        return inside[stays], reach.share[stays], reach.between(self.partition, *hull)


def rewrites_of(files: FileTable, groups: Sequence[Index], targets: Sequence[int]) -> Rewrites:
    """Return the groups of files (int64 indices each), which become at most `targets` files each."""
    group = np.full(len(files), -1, np.int64)
    for number, members in enumerate(groups):
        group[members] = number
    partition = files.partition[[members[0] for members in groups]] if groups else np.zeros(0, np.int64)
    return Rewrites(files, group, partition.astype(np.int64), np.array(targets, np.int64))


def unknown_ranges(spec: LayoutSpec) -> tuple[TouchedRange, ...]:
    """Return one entry per z-order column for a rewrite of which metadata proves nothing."""
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
    """Return the range of touched of z-order column number `at`, summed over partitions."""
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
        least = (1 - ESTIMATE_ERROR) * (beside + rewrites.in_partitions(rewrites.share_of_rows(column.name)))
        new = rewrites.in_partitions(high_in_group * np.minimum((1 + ESTIMATE_ERROR) * hull, 1.0))
        low = np.where(apart, np.maximum(low, least), low)
        high = np.where(apart, np.minimum((1 + ESTIMATE_ERROR) * beside + new, kept + written), high)
    high = np.where(changed & (touched == 0) & (lowest == 0), 0.0, np.maximum(high, low))
    return float(low.sum()), float(high.sum())


def files_after(rewrites: Rewrites) -> FilesAfter:
    """Return the range of the number of live files after the rewrites. A group becomes at least one file."""
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
    """Return the lowest possible touched of a column after whole partitions are rewritten, float64[P].

    At most `distinct` values fill all files: N / distinct files each, if the files are of about equal size. They are
    unless one key is larger than a file, which stays in one file without noise.

    Args:
        at: The number of the column.
        column: The same column.
        targets: float64[P], the largest number of new files.
    """
    values = (state.files.live_rows, state.files.rows_with_value(column.name))
    rows, filled = (sums(state.files.partition, len(targets), each) for each in values)
    distinct = now.metrics[at].by_partition.max_distinct
    if column.distinct is not None:
        distinct = np.minimum(distinct, (1 + SKETCH_ERROR) * column.distinct + 1)
    largest = MAX_IMBALANCE * np.divide(rows, targets, out=rows.copy(), where=targets > 0)
    if not spec.layout.noise:
        largest = np.maximum(largest, np.minimum(_max_rows_of_key(spec, state), rows))
    share = np.divide(largest, filled, out=np.ones_like(largest), where=filled > 0)
    return np.where(share > 0, min_floor(distinct, np.where(share > 0, share, 1.0)), 1.0)


def _max_among_new(spec: LayoutSpec, state: TableState, column: Column, rewrites: Rewrites) -> Floats:
    """Return the largest possible touched among the new files of each group alone, float64[G].

    Files in the order of the only z-order column share no value, unless noise distributes equal keys, or the bounds
    are less exact than the values: truncated, or rounded as timestamps are. A file with NaN may have no bounds. Noise
    distributes only keys larger than two files, which no key is if nearly all values are distinct. A file without a
    value is not opened, so that no more files are than there are rows with a value.
    """
    files, nulls = state.files, state.files.bounds[column.name].null_count
    filled = rewrites.sums(np.maximum(files.rows - np.maximum(nulls, 0), 0))
    most = np.where(rewrites.sums(nulls < 0) > 0, rewrites.targets, np.minimum(rewrites.targets, filled))
    truncated = is_text(column.type) and column.bound_length is not None
    if len(spec.column_names) > 1 or truncated or pt.is_timestamp(column.type):
        return most
    once = 2.0 if pt.is_floating(column.type) else 1.0
    rows = rewrites.sums(files.live_rows)
    heaviest = np.divide(_max_rows_of_key(spec, state), rows, out=np.ones(len(rows)), where=rows > 0)
    spread = np.minimum(heaviest, 1.0) * (np.minimum(heaviest, 1.0) * rewrites.targets + 2)
    whole = (heaviest * rewrites.targets <= 2) | (not spec.layout.noise)
    return np.minimum(most, np.where(whole, once, once + spread))


def has_values(files: FileTable, column: str, partitions: int) -> Bools:
    """Return the partitions, bool[P], with a live row that is certainly not null in the column."""
    bounds = files.bounds[column]
    certain = np.where(bounds.null_count >= 0, files.rows - files.deleted - bounds.null_count, 0) > 0
    bounded = bounds.lower.is_valid().to_numpy(zero_copy_only=False) & (files.deleted == 0)
    return counts(files.partition[certain | bounded], partitions) > 0


def with_bytes(
    state: TableState, now: Measured, rewrites: Rewrites, columns: Sequence[ColumnForecast]
) -> tuple[ColumnForecast, ...]:
    """Add the range of the bytes that a query reads after the rewrites to the forecast of each z-order column."""
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
    """Return the range of the bytes read of z-order column number `at`. size: float64[G], the live bytes."""
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
    # The files that have values may be small if other rows are null.
    valued = np.divide(rows, live, out=np.zeros_like(rows), where=live > 0)
    least = np.where(targets > 1, np.minimum(valued, 1.0) / np.maximum(targets, 1), 1.0)
    low = stay + (1 - ESTIMATE_ERROR) * beside + float((own * least * size).sum())
    high = stay + (1 + ESTIMATE_ERROR) * beside + float((hull * size).sum())
    return low, max(low, high)
