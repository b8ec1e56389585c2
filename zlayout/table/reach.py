"""Compute the reach of files: the share of the partition's rows whose value is in the interval of the file.

Touched is the sum of these shares. They follow from the density, the number of rows per segment, which is estimated
from file bounds and row counts (docs/adr/0001-touched-estimator.md). First, the rows of each file are distributed over
its interval in proportion to the width of the segments. A few self-consistency steps (Turnbull 1976, the EM algorithm
for interval-censored data) then distribute them in proportion to the density of all files together. One row always
remains at each bound, because a bound is a value of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zlayout.table.baseline import Baseline
from zlayout.table.ranks import rank_bounds
from zlayout.table.segments import PerSegment, Segments, before, segments_of
from zlayout.table.state import FileTable, Float64, Int32, Int64
from zlayout.table.sums import counts, sums

NO_POINT = -1  # the first and the last point of a file without a value
STEPS = 4  # self-consistency steps
STEPS_FOR_MANY_FILES = 2  # with more than MANY_FILES. A step takes about 0.1 s for a million files.
MANY_FILES = 250_000
# Intervals that are not wider than this count as points. In them, the number of rows per width would overflow.
MIN_SPAN = 1e-280


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of N files on one column, in P partitions.

    Attributes:
        lo: int64[N], the first point of each file (see `Segments`), NO_POINT for a file without a value.
        hi: int64[N], the last point of each file, NO_POINT for a file without a value.
        share: float64[N], the reach: the share of the partition's rows whose value is in the interval of the file.
            Touched of a partition is the sum over its files.
    """

    lo: Int64
    hi: Int64
    share: Float64
    _segments: Segments
    _before: Float64
    _through: Float64
    _total: Float64

    @property
    def points(self) -> int:
        """The number of points of all partitions."""
        return len(self._segments.begun)

    def between(self, partition: Int64, lo: Int64, hi: Int64) -> Float64:
        """float64[n]: the share of the rows of a partition whose values are from point `lo` to point `hi`, inclusive.

        All arguments are int64[n]. Where lo <= hi, both are points of the partition; elsewhere the share is 0.
        """
        share = self._between(partition, np.minimum(lo, self.points - 1), np.maximum(hi, 0))
        share[hi < lo] = 0.0
        return share

    def _between(self, partition: Int64, lo: Int64, hi: Int64) -> Float64:
        share: Float64 = self._through[hi]
        share -= self._before[lo]
        share /= np.where(self._total > 0, self._total, np.inf)[partition]
        return share

    def touched_among(self, member: NDArray[np.bool_], file_rows: Float64) -> Float64:
        """float64[P]: touched of some of the files, as if the table had no others.

        Args:
            member: bool[N], whether a file is one of them.
            file_rows: float64[N], the number of rows with a value in each file.
        """
        segments = self._segments.among(member)
        return touched_in_partitions(segments, estimate_in_partitions(segments, file_rows))


def reach(files: FileTable, column: str, partition: Int32 | None = None, partitions: int = 0) -> Reach:
    """The reach of the files on one column.

    Args:
        files: N files.
        column: the name of a column whose bounds were read.
        partition: int32[N], the partition of each file; None for the partitions of the table.
        partitions: the number of partitions P, if `partition` is given.

    Raises:
        KeyError: for a column whose bounds were not read.
        TableError: ZL109 for a type without an order.
    """
    if partition is None:
        partition, partitions = files.partition, max(len(files.partitions), 1)
    segments = segments_of(rank_bounds(files.bounds[column], files.rows), partition, partitions)
    return reach_of(segments, estimate_in_partitions(segments, files.rows_with_value(column)), len(files))


def measure_baselines(files: FileTable, columns: Sequence[str], group: Int32, count: int) -> tuple[Baseline, ...]:
    """Measure the baseline of each of `count` groups, as if the table had only the files of this group.

    Args:
        files: N files with the bounds of the columns.
        columns: the z-order columns in the order of the layout.
        group: int32[N], the group of each file, below `count`.
        count: the number of groups.

    Raises:
        KeyError: for a column whose bounds were not read.
        TableError: ZL109 for a type without an order.
    """
    if not count:
        return ()
    touched = [sums(group, count, reach(files, column, group, count).share).tolist() for column in columns]
    number = counts(group, count).tolist()
    return tuple(Baseline(files, tuple(row[at] for row in touched)) for at, files in enumerate(number))


def reach_of(segments: Segments, estimate: PerSegment, files: int) -> Reach:
    """The reach of all `files` files, with and without a value. estimate: the number of rows in each segment."""
    lo, hi = np.full(files, NO_POINT, np.int64), np.full(files, NO_POINT, np.int64)
    lo[segments.file], hi[segments.file] = segments.lo, segments.hi
    points, gaps = estimate
    so_far = before(estimate)
    total = segments.per_partition(points + gaps)
    found = Reach(lo, hi, np.zeros(files), segments, so_far, so_far + points, total)
    found.share[segments.file] = found._between(segments.partition, segments.lo, segments.hi)
    return found


def estimate_in_partitions(segments: Segments, file_rows: Float64) -> PerSegment:
    """The number of rows in each segment, as `estimate_rows` estimates it.

    In a partition without a live row with a value, each file counts as one row.

    Args:
        segments: of M of N files.
        file_rows: float64[N], the number of rows with a value in each file.
    """
    file_rows = file_rows[segments.file]
    total = sums(segments.partition, len(segments.start) - 1, file_rows)
    empty = ~(total > 0)
    if empty.any():
        file_rows[empty[segments.partition]] = 1.0
    return estimate_rows(segments, file_rows)


def touched_in_partitions(segments: Segments, estimate: PerSegment) -> Float64:
    """float64[P]: touched of each partition. estimate: the number of rows in each segment."""
    return _mean_in_partitions(segments, estimate, segments.coverage)


def bytes_in_partitions(segments: Segments, estimate: PerSegment, size: Int64) -> Float64:
    """float64[P]: bytes read of each partition.

    Args:
        segments: of M of N files.
        estimate: the number of rows in each segment.
        size: int64[N], the size of each file in bytes.
    """
    return _mean_in_partitions(segments, estimate, segments.cover(size[segments.file].astype(np.float64)))


def _mean_in_partitions(
    segments: Segments, estimate: PerSegment, values: tuple[Int32 | Float64, Int32 | Float64]
) -> Float64:
    """float64[P]: the mean of `values` (one per point, one per gap) over the rows of each partition."""
    points, gaps = estimate
    on_points, on_gaps = values
    total = segments.per_partition(points * on_points + gaps * on_gaps)
    return np.divide(total, segments.per_partition(points + gaps), out=np.zeros(len(total)), where=total > 0)


def estimate_rows(segments: Segments, file_rows: Float64, steps: int | None = None) -> PerSegment:
    """Estimate the number of rows in each segment, by the method that the module describes.

    Args:
        segments: of M files and R points.
        file_rows: float64[M], the number of rows with a value in each file of `segments`.
        steps: the number of self-consistency steps, each O(M + R); None for STEPS, or STEPS_FOR_MANY_FILES. They do
            not end at convergence, because the result of one partition would then depend on the files of the others.
    """
    if steps is None:
        steps = STEPS if len(file_rows) <= MANY_FILES else STEPS_FOR_MANY_FILES
    blocks = list(segments.blocks())
    if len(blocks) == 1:
        return _estimate(segments, file_rows, steps)
    rows = (np.empty(len(segments.begun)), np.empty(len(segments.begun)))
    for files, points, block in blocks:
        for segment_rows, found in zip(rows, _estimate(block, file_rows[files], steps), strict=True):
            segment_rows[points] = found
    return rows


def _estimate(segments: Segments, file_rows: Float64, steps: int) -> PerSegment:
    anchored, free = _anchor(segments, file_rows)
    active = free > 0
    files = segments
    if not active.all():
        files = replace(segments, lo=segments.lo[active], hi=segments.hi[active], span=segments.span[active])
        free = free[active]
    limits = files.cover(free)
    rows = _spread(files, free, limits)
    points, _ = rows
    points += anchored
    shared = bool(len(free)) and int(segments.depth.max()) > 1  # else each segment belongs to one file
    for _ in range(steps if shared else 0):
        _respread(files, free, rows, limits)
        points += anchored
    return rows


def _anchor(segments: Segments, file_rows: Float64) -> tuple[Float64, Float64]:
    """The number of rows with a known value at each point, and the number of other rows in each file."""
    half = file_rows / 2
    low, high = np.minimum(half, 1.0) * segments.bounded  # the values of one row at each bound are known
    flat = np.flatnonzero(~(segments.span > MIN_SPAN))  # intervals without width: half of the rows at each end
    low[flat] = high[flat] = half[flat]
    single = np.flatnonzero(segments.lo == segments.hi)  # the values of all rows are known
    low[single], high[single] = file_rows[single], 0.0
    points = len(segments.begun)
    anchored = np.bincount(segments.lo, low, points).astype(np.float64, copy=False)
    anchored += np.bincount(segments.hi, high, points)
    free = np.subtract(file_rows, low, out=low)
    free -= high
    return anchored, np.maximum(free, 0.0, out=free)


def _spread(files: Segments, free: Float64, limits: PerSegment) -> PerSegment:
    """Distribute the `free` rows of each file over the segments of its interval, in proportion to their width."""
    points, gaps = files.cover(free / files.span)
    with np.errstate(over="ignore"):  # a product that overflows in a wide gap is limited afterwards
        points *= files.point
        gaps *= files.gap
    _clip((points, gaps), limits)
    return points, gaps


def _respread(files: Segments, free: Float64, rows: PerSegment, limits: PerSegment) -> None:
    """Distribute the `free` rows of each file again, in place, in proportion to the present `rows` of its segments."""
    inside = _inside(files, rows)
    np.maximum(inside, free, out=inside)
    rate = files.cover(np.divide(free, inside, out=inside))
    _limit_points(rate)
    for segment_rows, factor in zip(rows, rate, strict=True):
        segment_rows *= factor
    _clip(rows, limits)


def _inside(files: Segments, rows: PerSegment) -> Float64:
    so_far = before(rows)
    inside: Float64 = so_far[files.hi]
    inside += rows[0][files.hi]
    inside -= so_far[files.lo]
    return inside


def _clip(rows: PerSegment, limits: PerSegment) -> None:
    """Limit the rows of each segment, in place, to those of the files that cover it. Rounding can exceed them."""
    for segment_rows, limit in zip(rows, limits, strict=True):
        np.clip(segment_rows, 0.0, limit, out=segment_rows)


def _limit_points(rate: PerSegment) -> None:
    """Limit the rate of each point, in place, to the larger rate of the two gaps beside it."""
    points, gaps = rate
    # Without the limit, every step would move more rows onto a point that is the only one that two files share.
    np.minimum(points[:1], gaps[:1], out=points[:1])
    np.minimum(points[1:], np.maximum(gaps[:-1], gaps[1:]), out=points[1:])
