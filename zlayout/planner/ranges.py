"""The ranges that metadata allows for `touched` and the number of files after a rewrite.

A rewrite of whole partitions leaves every value in at least one file, and opens at most all new files. More is known
only in special cases: files in the order of their only key share no value, a column without values touches no file, and
a column without bounds touches every file. Where some files of a partition stay, their share of touched is known from
the estimate of the present one, whose error is ESTIMATE_ERROR (docs/metrics.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zlayout.planner.classes import classes_of
from zlayout.planner.forecast import Measured
from zlayout.planner.forecasts import FilesAfter, TouchedRange
from zlayout.planner.partitions import Bools, Floats, Index
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import lacks_bounds
from zlayout.table.floor import min_floor
from zlayout.table.metrics import rows_with_value
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
        group: int64[N], the group of each file of the table; -1 for files that stay.
        partition: int64[G], the partition of each group.
        targets: int64[G], the largest number of files that each group can become.
    """

    group: Index
    partition: Index
    targets: Index

    @property
    def kept(self) -> Bools:
        """bool[N], the files that stay."""
        kept: Bools = self.group < 0
        return kept


def rewrites_of(files: FileTable, groups: Sequence[Index], targets: Sequence[int]) -> Rewrites:
    """Return the groups of files (int64 indices each), which become at most `targets` files each."""
    group = np.full(len(files), -1, np.int64)
    for number, members in enumerate(groups):
        group[members] = number
    partition = files.partition[[members[0] for members in groups]] if groups else np.zeros(0, np.int64)
    return Rewrites(group, partition.astype(np.int64), np.array(targets, np.int64))


def unknown_ranges(spec: LayoutSpec) -> tuple[TouchedRange, ...]:
    """Return one entry per z-order column for a rewrite of which metadata proves nothing."""
    return tuple(TouchedRange(name, None, None, None, None) for name in spec.column_names)


def touched_ranges(spec: LayoutSpec, state: TableState, now: Measured, rewrites: Rewrites) -> tuple[TouchedRange, ...]:
    """Return the range of touched of each z-order column after the rewrites, summed over partitions."""
    number = counts(state.files.partition, len(now.files))
    kept = counts(state.files.partition[rewrites.kept], len(now.files))
    several = counts(rewrites.partition, len(now.files)) > 1
    written = sums(rewrites.partition, len(now.files), rewrites.targets)
    changed = number > kept
    apart = changed & ((kept > 0) | several)
    result = []
    for at, name in enumerate(spec.column_names):
        column = state.column(name)
        if column is not None and lacks_bounds(column, state) and not column.enable_stats:
            after = _files_range(state.files, rewrites)
            result.append(TouchedRange(name, None, float(after[0]), float(after[1]), None))
            continue
        filled = rows_by_partition(state.files, name, len(now.files))
        lowest = has_values(state.files, name, len(now.files)).astype(np.float64)
        lowest *= lowest_touched(spec, state, now, at, written, filled)
        most = np.minimum(_most_among_new(spec, state, column, rewrites), rewrites.targets)
        low = np.where(changed, np.where(apart, np.minimum(lowest, 1.0), lowest), now.touched[:, at])
        high = np.where(changed, sums(rewrites.partition, len(now.files), most), now.touched[:, at])
        if apart.any():
            least, limit = _beside_kept(state.files, name, now, at, rewrites, most, apart)
            low = np.where(apart, np.maximum(low, least), low)
            high = np.where(apart, np.minimum(limit, kept + written), high)
        high = np.where(changed & (now.touched[:, at] == 0) & (lowest == 0), 0.0, np.maximum(high, low))
        result.append(TouchedRange(name, None, float(low.sum()), float(high.sum()), None))
    return tuple(result)


def files_after(files: FileTable, rewrites: Rewrites) -> FilesAfter:
    """Return the range of the number of live files after the rewrites. A group becomes at least one file."""
    low, high = _files_range(files, rewrites)
    return FilesAfter(None, low, high)


def rows_by_partition(files: FileTable, column: str, partitions: int) -> Floats:
    """Return the live rows with a value of each partition, float64[P]."""
    return sums(files.partition, partitions, rows_with_value(files, column))


def max_rows_of_key(spec: LayoutSpec, state: TableState) -> float:
    """Return an upper limit of the number of rows that have the same values in all z-order columns."""
    rows = float(state.files.live_rows.sum())
    columns = [state.column(name) for name in spec.column_names]
    stated = [c.distinct for c in columns if c is not None and c.distinct is not None]
    return rows - max([(1 - SKETCH_ERROR) * n for n in stated], default=0.0) + 1


def lowest_touched(
    spec: LayoutSpec, state: TableState, now: Measured, at: int, targets: Floats, filled: Floats
) -> Floats:
    """Return the lowest possible touched of a column after whole partitions are rewritten, float64[P].

    At most `distinct` values fill all files: N / distinct files each, if the files are of about equal size. They are
    unless one key is larger than a file, which stays in one file without noise.

    Args:
        at: The number of the column.
        targets: float64[P], the largest number of new files.
        filled: float64[P], rows with a value.
    """
    rows = sums(state.files.partition, len(targets), state.files.live_rows)
    column = state.column(spec.column_names[at])
    distinct = now.metrics[at].by_partition.max_distinct
    if column is not None and column.distinct is not None:
        distinct = np.minimum(distinct, (1 + SKETCH_ERROR) * column.distinct + 1)
    largest = MAX_IMBALANCE * np.divide(rows, targets, out=rows.copy(), where=targets > 0)
    if not spec.layout.noise:
        largest = np.maximum(largest, np.minimum(max_rows_of_key(spec, state), rows))
    share = np.divide(largest, filled, out=np.ones_like(largest), where=filled > 0)
    return np.where(share > 0, min_floor(distinct, np.where(share > 0, share, 1.0)), 1.0)


def _files_range(files: FileTable, rewrites: Rewrites) -> tuple[int, int]:
    kept, count = int(rewrites.kept.sum()), len(rewrites.targets)
    members = np.flatnonzero(~rewrites.kept)
    rows = sums(rewrites.group[members], max(count, 1), files.live_rows[members])[:count]
    return kept + int((rows > 0).sum()), kept + int(rewrites.targets.sum())


def _most_among_new(spec: LayoutSpec, state: TableState, column: Column | None, rewrites: Rewrites) -> Floats:
    """Return the largest possible touched among the new files of each group alone, float64[G].

    Files in the order of the only z-order column share no value, unless noise distributes equal keys, or the bounds
    are less exact than the values: truncated, or rounded as timestamps are. A file with NaN may have no bounds. Noise
    distributes only keys larger than two files, which no key is if nearly all values are distinct. A file without a
    value is not opened, so that no more files are than there are rows with a value.
    """
    targets, files = rewrites.targets.astype(np.float64), state.files
    members = np.flatnonzero(~rewrites.kept)
    if column is not None and column.name in files.bounds and len(targets):
        owner, nulls = rewrites.group[members], files.bounds[column.name].null_count[members]
        unsure = sums(owner, len(targets), nulls < 0) > 0
        filled = sums(owner, len(targets), np.maximum(files.rows[members] - np.maximum(nulls, 0), 0))
        targets = np.where(unsure, targets, np.minimum(targets, filled))
    exact = column is not None and not pa.types.is_timestamp(column.type)
    exact = exact and not (column is not None and is_text(column.type) and column.bound_length is not None)
    if len(spec.column_names) == 1 and exact and len(targets):
        once = 2.0 if column is not None and pa.types.is_floating(column.type) else 1.0
        rows = sums(rewrites.group[members], len(targets), files.live_rows[members])
        heaviest = np.divide(max_rows_of_key(spec, state), rows, out=np.ones(len(rows)), where=rows > 0)
        spread = np.minimum(heaviest, 1.0) * (np.minimum(heaviest, 1.0) * rewrites.targets + 2)
        whole = (heaviest * rewrites.targets <= 2) | (not spec.layout.noise)
        return np.minimum(targets, np.where(whole, once, once + spread))
    return targets


def has_values(files: FileTable, column: str, partitions: int) -> Bools:
    """Return the partitions, bool[P], with a live row that is certainly not null in the column."""
    bounds = files.bounds[column]
    certain = np.where(bounds.null_count >= 0, files.rows - files.deleted - bounds.null_count, 0) > 0
    bounded = bounds.lower.is_valid().to_numpy(zero_copy_only=False) & (files.deleted == 0)
    return counts(files.partition[certain | bounded], partitions) > 0


def _beside_kept(
    files: FileTable, column: str, now: Measured, at: int, rewrites: Rewrites, most: Floats, inside: Bools
) -> tuple[Floats, Floats]:
    """Return the range of touched in partitions that keep files or are rewritten in parts, float64[P] each.

    Args:
        column: The z-order column, number `at`.
        most: float64[G], the largest possible touched among the new files of each group alone.
        inside: bool[P], the partitions to compute; the others are arbitrary.
    """
    count, part = len(now.files), np.flatnonzero(inside[files.partition])
    owner, group, weights = files.partition[part], rewrites.group[part], rows_with_value(files, column)[part]
    measured = now.reach_of(files, at, part)
    stays, members = group < 0, np.flatnonzero(group >= 0)
    groups = classes_of(group[members], len(most), members)
    hull = measured.between(rewrites.partition, *groups.hull(measured.lo, measured.hi))
    rows = sums(owner, count, weights)[rewrites.partition]
    own = np.divide(groups.sums(weights), rows, out=np.zeros_like(hull), where=rows > 0)
    kept = sums(owner[stays], count, measured.share[stays])
    low = (1 - ESTIMATE_ERROR) * (kept + sums(rewrites.partition, count, own))
    new = most * np.minimum((1 + ESTIMATE_ERROR) * hull, 1.0)
    high = (1 + ESTIMATE_ERROR) * kept + sums(rewrites.partition, count, new)
    return low, high
