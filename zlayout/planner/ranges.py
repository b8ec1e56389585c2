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
from zlayout.table.metrics import rows_with_value
from zlayout.table.reach import reach
from zlayout.table.state import Column, FileTable, TableState, is_text
from zlayout.table.sums import counts, sums

# The largest relative error of `touched`, which is estimated from bounds: docs/metrics.md, "touched".
ESTIMATE_ERROR = 0.1


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
        lowest = _has_values(state.files, name, len(now.files)).astype(np.float64)
        most = np.minimum(_most_among_new(spec, column, rewrites.targets), rewrites.targets)
        low = np.where(changed, lowest, now.touched[:, at])
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


def _files_range(files: FileTable, rewrites: Rewrites) -> tuple[int, int]:
    kept, count = int(rewrites.kept.sum()), len(rewrites.targets)
    members = np.flatnonzero(~rewrites.kept)
    rows = sums(rewrites.group[members], max(count, 1), files.live_rows[members])[:count]
    return kept + int((rows > 0).sum()), kept + int(rewrites.targets.sum())


def _most_among_new(spec: LayoutSpec, column: Column | None, targets: Index) -> Floats:
    """Return the largest possible touched among the new files of each group alone, float64[G].

    Files in the order of the only z-order column share no value, unless noise distributes equal keys, or the bounds
    are less exact than the values: truncated, or rounded as timestamps are. A file with NaN may have no bounds.
    """
    exact = column is not None and not pa.types.is_timestamp(column.type)
    exact = exact and not (column is not None and is_text(column.type) and column.bound_length is not None)
    if len(spec.column_names) == 1 and not spec.layout.noise and exact:
        return np.full(len(targets), 2.0 if column is not None and pa.types.is_floating(column.type) else 1.0)
    return targets.astype(np.float64)


def _has_values(files: FileTable, column: str, partitions: int) -> Bools:
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
        files: The files of the table.
        column: The z-order column, number `at`.
        now: The present metrics.
        rewrites: The groups.
        most: float64[G], the largest possible touched among the new files of each group alone.
        inside: bool[P], the partitions to compute; the others are arbitrary.
    """
    count, weights = len(now.files), rows_with_value(files, column)
    if now.reaches:
        measured, owner, group = now.reaches[at], files.partition, rewrites.group
    else:
        part = np.flatnonzero(inside[files.partition])
        owner, group, weights = files.partition[part], rewrites.group[part], weights[part]
        measured = reach(files.take(part), column, weights, owner, count)
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
