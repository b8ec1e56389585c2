"""Metrics of columns from file bounds and row counts: touched, bytes read, depth, overlaps, distinct values and floor.

`layout_metrics` measures columns. docs/metrics.md has the definitions. Each metric takes O(N log N) for N files. All
partitions are measured together, because no two of them share a point of `zlayout.table.ranks.Segments`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zlayout.table.ranks import PerSegment, Segments, before, rank_bounds, segments_of
from zlayout.table.state import (
    Baseline,
    Bools,
    FileTable,
    Float64,
    Int32,
    Int64,
    both,
    counts,
    maxima,
    side_by_side,
    sums,
)

# Histograms of depth and file size. The class borders are fixed, so that two histograms can be compared.


SINGLE_DEPTHS = 16  # number of depths that have a class of their own
SIZE_BORDERS = ((1 / 16, "<= 1/16"), (1 / 8, "<= 1/8"), (1 / 4, "<= 1/4"), (1 / 2, "<= 1/2"), (1, "<= 1"), (2, "<= 2"))


@dataclass(frozen=True, slots=True)
class DepthBucket:
    """The number of files whose depth is from `low` to `high`, inclusive. label: for example "3" or "17-32"."""

    label: str
    low: int
    high: int
    files: int


@dataclass(frozen=True, slots=True)
class SizeBucket:
    """The number and the total size of the files of one size class.

    Attributes:
        label: The upper border as a multiple of the target size, for example "<= 1/4", or "> 2" for the last class.
        files: The number of files.
        bytes: The sum of their sizes.
    """

    label: str
    files: int
    bytes: int


def depth_histogram(depths: Int64) -> tuple[DepthBucket, ...]:
    """The number of files of each depth from 1 to 16, then of the depths 17-32, 33-64 and so on up to the deepest file.

    depths: int64[N], the depth of each file that has a value.
    """
    borders = list(range(SINGLE_DEPTHS + 1))
    deepest = int(depths.max()) if len(depths) else 0
    while borders[-1] < deepest:
        borders.append(borders[-1] * 2)
    up_to = np.cumsum(np.bincount(depths, minlength=1))  # files of each depth and below
    files = np.diff(up_to[np.minimum(borders, deepest)]).tolist()
    return tuple(
        DepthBucket(str(high) if high == low + 1 else f"{low + 1}-{high}", low + 1, high, count)
        for (low, high), count in zip(pairwise(borders), files, strict=True)
    )


def size_histogram(sizes: Int64, target: int, number: Int64 | None = None) -> tuple[SizeBucket, ...]:
    """The number of files up to 1/16, 1/8, 1/4, 1/2, 1 and 2 times `target` bytes, and of larger files.

    Args:
        sizes: int64[N], sizes in bytes.
        target: the target size in bytes.
        number: int64[N], the number of files of each of these sizes; None for one of each.
    """
    labels = [label for _, label in SIZE_BORDERS] + ["> 2"]
    bucket = np.zeros(len(sizes), np.uint8)
    for border, _ in SIZE_BORDERS:
        bucket += sizes > int(border * target)
    files = np.bincount(bucket, number, len(labels))
    size = sizes if number is None else sizes * number
    return tuple(SizeBucket(x, int(files[i]), int(size[bucket == i].sum())) for i, x in enumerate(labels))


# The reach of a file: the share of the partition's rows whose value is in the interval of the file.
#
# Touched is the sum of these shares. They follow from the density, the number of rows per segment, which is estimated
# from file bounds and row counts (docs/adr/0001-touched-estimator.md). First, the rows of each file are distributed
# over its interval in proportion to the width of the segments. A few self-consistency steps (Turnbull 1976, the EM
# algorithm for interval-censored data) then distribute them in proportion to the density of all files together. One row
# always remains at each bound, because a bound is a value of the file.


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
    """Estimate the number of rows in each segment, by the method described above `Reach`.

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


# The metrics of columns.

MIN_FILES_PER_BOUND = 4  # With fewer files per distinct bound, bounds do not show the number of distinct values.


@dataclass(frozen=True, slots=True)
class ByPartition:
    """The metrics of one column in each partition, float64[P] each.

    Attributes:
        touched: Touched among the files of the partition.
        bytes: Bytes read among these files.
        distinct: The estimated number of distinct values; infinity if unknown.
        max_distinct: An upper limit of this number that the bounds prove; infinity if they prove none.
    """

    touched: Float64
    bytes: Float64
    distinct: Float64
    max_distinct: Float64


@dataclass(frozen=True, slots=True)
class ColumnMetrics:
    """The metrics of one column of one set of files.

    Attributes:
        files: The number of files.
        partitions: The number of partitions that have files.
        touched: The number of files that an equality query on this column opens, summed over the partitions.
        bytes_read: The size of these files.
        floor: The lowest touched of any layout with as many files of these sizes; None if it is unknown in some
            partition (see `known_floor`).
        depth: The mean over the files that have a value.
        overlaps: The mean over the files that have a value.
        distinct: The estimated number of distinct values, the maximum over the partitions; infinity if unknown.
        unbounded: The number of files that have a value and an open bound.
        all_null: The number of files without a value.
        truncated: The number of files with a truncated bound.
        reach: The share of rows in each file's interval; None if it was not requested.
    """

    column: str
    files: int
    partitions: int
    touched: float
    bytes_read: float
    floor: float | None
    depth: float
    overlaps: float
    depth_histogram: tuple[DepthBucket, ...]
    distinct: float
    unbounded: int
    all_null: int
    truncated: int
    by_partition: ByPartition
    reach: Reach | None = None


def layout_metrics(files: FileTable, columns: Collection[str], with_reach: bool = False) -> tuple[ColumnMetrics, ...]:
    """The metrics of each column, in the order of the columns.

    Args:
        files: the files of all partitions.
        columns: the names of columns whose bounds were read.
        with_reach: keep the `Reach` of each column, which needs memory for every file.

    Raises:
        KeyError: for a column whose bounds were not read.
        TableError: ZL109 for a type without an order.
    """
    alone = len(columns) == 1
    return tuple(side_by_side(lambda column: _measure(files, column, with_reach, alone), tuple(columns), len(files)))


def _measure(files: FileTable, column: str, with_reach: bool, alone: bool) -> ColumnMetrics:
    """The column's metrics. alone: whether it is the only measured column, so that two threads can be used for it."""
    bounds = files.bounds[column]
    ranked = rank_bounds(bounds, files.rows)
    number = counts(files.partition, max(len(files.partitions), 1))
    segments = segments_of(ranked, files.partition, len(number))
    countable, unbounded, all_null = ranked.axis.countable, ranked.unbounded, int(ranked.empty.sum())
    del ranked  # it would add an eighth to the peak memory
    # bool[M]: the files whose rows all have the same value
    single = (segments.lo == segments.hi) & segments.bounded.all(axis=0) & ~bounds.truncated[segments.file]

    def from_bounds() -> tuple[float, tuple[DepthBucket, ...], float, Float64, Float64]:
        depths = depth(segments)
        distinct, limit = distinct_values(segments, countable, single)
        return _mean(depths), depth_histogram(depths), _mean(overlaps(segments)), distinct, limit

    def from_rows() -> tuple[PerSegment, Float64, Float64]:
        estimate = estimate_in_partitions(segments, files.rows_with_value(column))
        read = bytes_in_partitions(segments, estimate, files.bytes)
        return estimate, touched_in_partitions(segments, estimate), read

    found = both(from_bounds, from_rows, len(files) if alone else 0)
    (mean_depth, depths, others, distinct, limit), (estimate, touched_inside, read) = found
    lowest = known_floor(segments, estimate, touched_inside, limit, files, single)
    return ColumnMetrics(
        column=column,
        files=len(files),
        partitions=int((number > 0).sum()),
        touched=float(touched_inside.sum()),
        bytes_read=float(read.sum()),
        floor=None if np.isnan(lowest).any() else float(lowest.sum()),
        depth=mean_depth,
        overlaps=others,
        depth_histogram=depths,
        distinct=float(distinct[number > 0].max(initial=0.0)),
        unbounded=unbounded,
        all_null=all_null,
        truncated=int(bounds.truncated.sum()),
        by_partition=ByPartition(touched_inside, read, distinct, limit),
        reach=reach_of(segments, estimate, len(files)) if with_reach else None,
    )


def _mean(values: Int64) -> float:
    return float(values.mean()) if len(values) else 0.0


def overlaps(segments: Segments) -> Int64:
    """int64[M]: the number of other files of its partition whose interval intersects a file's interval."""
    ended_before = np.concatenate((np.zeros(1, np.int32), segments.ended))
    others = segments.begun[segments.hi] - ended_before[segments.lo]
    others -= 1
    return others.astype(np.int64)


def depth(segments: Segments) -> Int64:
    """int64[M]: for each file the largest number of files of its partition that share one point of its interval.

    The file itself is counted. As intervals are closed, the maximum is reached at a point. It is found by a range
    maximum query with a sparse table, of which only one level at a time is in memory.
    """
    depths = np.empty(len(segments.lo), np.int64)
    for files, _, block in segments.blocks():
        depths[files] = _highest(block)
    return depths


def _highest(segments: Segments) -> Int64:
    highest = segments.depth  # the maximum over each window of 2^level points, beginning with level 0
    level = (np.frexp((segments.hi - segments.lo + 1).astype(np.float64))[1] - 1).astype(np.int8)
    by_level = np.argsort(level, kind="stable")
    last = np.cumsum(np.bincount(level, minlength=1))
    depths = np.zeros(len(level), np.int64)
    for step, stop in enumerate(last):
        if step:
            half = 1 << (step - 1)
            highest = np.maximum(highest[:-half], highest[half:])
        files = by_level[last[step - 1] if step else 0 : stop]
        depths[files] = np.maximum(highest[segments.lo[files]], highest[segments.hi[files] - (1 << step) + 1])
    return depths


def distinct_values(segments: Segments, countable: bool, single: Bools) -> tuple[Float64, Float64]:
    """The number of distinct values in each partition.

    Only bounds are used. For integers, dates, times, booleans and decimals the number is at most max - min + 1. The
    number of distinct bounds is used if every file has a single value, since the bounds are then the values. The
    estimate uses it also if there are at least 4 files per distinct bound and at least half of the files have a single
    value: a value that is not a bound is then unlikely. In a partition with an unbounded file the number is unknown.

    Args:
        segments: of M files.
        countable: as in `Axis`.
        single: bool[M], whether all rows of a file have the same value.

    Returns:
        float64[P] twice: an upper estimate, and an upper limit that bounds prove; infinity if unknown.
    """
    points = np.diff(segments.start)
    files = counts(segments.partition, len(points))
    number = np.where(files > 0, np.inf, 0.0)
    filled = np.flatnonzero(files)
    if countable and len(filled):
        number[filled] = segments.per_partition(segments.gap + segments.point)[filled] / segments.point
    at_points = counts(segments.partition[segments.hi == segments.lo], len(points))
    likely = ((files >= MIN_FILES_PER_BOUND * points) & (2 * at_points >= files)) | (at_points == files)
    proven = (counts(segments.partition[single], len(points)) == files) & (files > 0)
    estimate, limit = np.where(likely, np.minimum(number, points), number), np.where(proven, points, number)
    unknown = segments.partition[~segments.bounded.all(axis=0)]
    estimate[unknown] = limit[unknown] = np.inf
    return estimate, limit


def known_floor(
    segments: Segments, estimate: PerSegment, touched: Float64, limit: Float64, files: FileTable, single: Bools
) -> Float64:
    """float64[P]: the floor of each partition; NaN where it is unknown.

    Bounds show how often each value occurs if every file has a single value. The floor is also known where touched
    equals the lowest floor that the partition can have, because the floor is never below this or above touched.

    Args:
        segments: of M files.
        estimate: the number of rows in each segment.
        touched: float64[P], touched in each partition.
        limit: float64[P], the limit that `distinct_values` returns.
        files: the N files.
        single: bool[M], whether all rows of a file have the same value.
    """
    partitions = len(touched)
    rows = segments.per_partition(estimate[0] + estimate[1])
    rows_of_largest = maxima(files.partition, partitions, files.live_rows)
    largest = np.divide(rows_of_largest, rows, out=np.ones(partitions), where=rows > 0)
    lowest = min_floor(limit, np.where(largest > 0, largest, 1.0))
    reached = touched <= lowest * (1 + 1e-9)
    shown = counts(segments.partition[single], partitions) == counts(segments.partition, partitions)
    floor = np.where(reached, lowest, np.nan)
    if not (shown & ~reached).any():
        return floor
    owner = np.repeat(np.arange(partitions), np.diff(segments.start))
    share = estimate[0] / np.where(rows > 0, rows, 1.0)[owner]
    exact = segments.per_partition(share * np.maximum(share / np.where(largest > 0, largest, 1.0)[owner], 1.0))
    return np.where(shown & ~reached, exact, floor)


def floor_of_shares(shares: Float64, largest: float) -> float:
    """The floor of a column: the lowest touched of any layout with as many files of these sizes.

    A query for a value with the share s of the rows opens at least max(1, s / r) files, where r is the share of the
    rows in the largest file. The mean over values that are drawn from the rows is at least `sum s * max(1, s / r)`. It
    does not depend on other columns.

    Args:
        shares: float64[k], the share of each value among the rows with a value. They sum to 1 or less; the remaining
            rows count as rare values.
        largest: the rows of the largest file, as a share of the rows with a value; above 0.
    """
    return float(1.0 + (shares * np.maximum(shares / largest - 1.0, 0.0)).sum())


def min_floor(distinct: Float64, largest: Float64) -> Float64:
    """float64[...]: the lowest floor that a column with at most `distinct` values can have.

    `s * max(1, s / r)` of `floor_of_shares` is convex in s, so that equal shares give the minimum:
    `max(1, 1 / (distinct * r))`.

    Args:
        distinct: float64[...], an upper limit of the number of values; infinity if unknown, 0 for a column without a
            value, whose floor is 0.
        largest: float64[...], the rows of the largest file, as a share of the rows with a value; above 0.
    """
    with np.errstate(divide="ignore"):
        lowest: Float64 = np.maximum(1.0 / (np.maximum(distinct, 1.0) * largest), 1.0)
    return np.where(distinct > 0, lowest, 0.0)


# The joint optimum.


def joint_optimum(
    n_files: ArrayLike,
    weights: Sequence[float],
    distinct: ArrayLike | None = None,
) -> Float64:
    """Touched of each column in an optimal layout by all of them, if they are independent.

    It is a reference for decisions and not a floor: touched of correlated columns can be lower. With frequent values,
    perhaps no layout reaches it.

    N files with disjoint boxes form 2^b_i slices along column i, with sum b_i = log2 N. An equality query on column i
    opens N / 2^b_i files, and the product of these numbers is N^(d-1). For weights p the optimum is
    b_i = log2(N)/d + log2(p_i) - mean log2(p_j), limited to 0..log2(distinct_i). Bits that one column cannot use are
    distributed over the other columns (water filling).

    Args:
        n_files: number of files, of any shape [...].
        weights: the weights p of the d columns, above 0.
        distinct: number of distinct values, [d] or [..., d]; infinity if it is unknown, 0 if all rows are null. None:
            unknown for every column.

    Returns:
        float64[..., d]; 0 for a column whose rows are all null.

    Raises:
        ValueError: for a weight that is not positive.
    """
    importance = np.asarray(weights, np.float64)
    if not (importance > 0).all():
        raise ValueError(f"expected positive weights, found {list(weights)}")
    count = np.asarray(n_files, np.float64)
    total = np.log2(np.maximum(count, 1.0))
    shape = (*count.shape, len(importance))
    known = np.full(shape, np.inf) if distinct is None else np.broadcast_to(np.asarray(distinct, np.float64), shape)
    caps = np.minimum(np.log2(np.maximum(known, 1.0)), total[..., None]).reshape(-1, len(importance))
    bits = fill(total.reshape(-1), np.log2(importance), caps)
    per_column: Float64 = count[..., None] * np.exp2(-bits.reshape(shape))
    return np.where(known > 0, per_column, 0.0)


def fill(total: Float64, importance: Float64, caps: Float64) -> Float64:
    """The bits of each column: `level + importance`, limited to 0..cap, at the level at which they sum to `total`.

    The sum is piecewise linear in the level, with a kink wherever a column reaches 0 or its cap. The function finds the
    piece that contains `total`, and interpolates the level. kd trees are built from the results, so that another order
    of the floating-point operations could result in another layout.

    Args:
        total: float64[P], at least 0.
        importance: float64[d] or float64[P, d], log2 of the weight of each column.
        caps: float64[P, d], the maximum bits of each column, at least 0. Where they sum to less than `total`, each
            column gets its cap.

    Returns:
        float64[P, d].
    """
    kinks = np.sort(np.concatenate((np.zeros_like(caps) - importance, caps - importance), axis=1), axis=1)
    filled = _filled(kinks, importance, caps)
    above = np.minimum(np.maximum((filled < total[:, None]).sum(axis=1), 1), kinks.shape[1] - 1)
    row = np.arange(len(total))
    low, high, below, up_to = kinks[row, above - 1], kinks[row, above], filled[row, above - 1], filled[row, above]
    rise = up_to - below
    level = low + (high - low) * (total - below) / np.where(rise > 0, rise, 1.0)
    level = np.where((rise > 0) & (up_to >= total), level, high)
    bits: Float64 = np.minimum(np.maximum(level[:, None] + importance, 0.0), caps)
    return bits


def _filled(levels: Float64, importance: Float64, caps: Float64) -> Float64:
    """float64[P, k]: the sum of the bits of all columns at each of k levels. The columns are added in their order."""
    filled = np.zeros_like(levels)
    for column in range(caps.shape[1]):
        filled += np.minimum(np.maximum(levels + importance[..., column, None], 0.0), caps[:, column, None])
    return filled
