"""touched, depth and overlaps of a column, from file bounds and row counts. docs/metrics.md has the definitions.

Each metric takes O(N log N) for N files. All partitions are measured together, because no two of them share a point of
`zlayout.table.segments`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from zlayout.table.histogram import DepthBucket, depth_histogram
from zlayout.table.ranks import rank_bounds
from zlayout.table.reach import Reach, bytes_in_partitions, estimate_in_partitions, reach_of, touched_in_partitions
from zlayout.table.segments import PerSegment, Segments, segments_of
from zlayout.table.side_by_side import both, side_by_side
from zlayout.table.state import Bools, FileTable, Float64, Int64
from zlayout.table.sums import counts, maxima

MIN_FILES_PER_BOUND = 4  # With fewer files per distinct bound, bounds do not show the number of distinct values.


@dataclass(frozen=True, slots=True)
class ByPartition:
    """The metrics of one column in each partition, float64[P] each.

    Attributes:
        touched: Touched among the files of the partition.
        bytes: Bytes read among these files.
        distinct: The estimated number of distinct values; infinity if unknown.
        max_distinct: An upper limit of this number that the bounds prove; infinity if they prove none.
        floor: The floor; NaN if unknown.
    """

    touched: Float64
    bytes: Float64
    distinct: Float64
    max_distinct: Float64
    floor: Float64


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
        distinct = distinct_estimate(segments, countable)
        limit = max_distinct(segments, countable, single)
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
        by_partition=ByPartition(touched_inside, read, distinct, limit, lowest),
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


def distinct_estimate(segments: Segments, countable: bool) -> Float64:
    """float64[P]: an upper estimate of the number of distinct values in each partition; infinity if unknown.

    Only bounds are used. For integers, dates, times, booleans and decimals the number is at most max - min + 1. The
    number of distinct bounds is used if every file has a single value, since the bounds are then the values. It is also
    used if there are at least 4 files per distinct bound and at least half of the files have a single value: a value
    that is not a bound is then unlikely. In a partition with an unbounded file the number is unknown.

    Args:
        segments: of M files.
        countable: as in `Axis`.
    """
    points, files, estimate = _values_in_range(segments, countable)
    single = counts(segments.partition[segments.hi == segments.lo], len(points))
    bounds_are_values = ((files >= MIN_FILES_PER_BOUND * points) & (2 * single >= files)) | (single == files)
    estimate = np.where(bounds_are_values, np.minimum(estimate, points), estimate)
    estimate[segments.partition[~segments.bounded.all(axis=0)]] = np.inf
    return estimate


def max_distinct(segments: Segments, countable: bool, single: Bools) -> Float64:
    """float64[P]: an upper limit of the number of distinct values that bounds prove; infinity if they prove none.

    Args:
        segments: of M files.
        countable: as in `Axis`.
        single: bool[M], whether all rows of a file have the same value.
    """
    points, files, limit = _values_in_range(segments, countable)
    limit = np.where((counts(segments.partition[single], len(points)) == files) & (files > 0), points, limit)
    limit[segments.partition[~segments.bounded.all(axis=0)]] = np.inf
    return limit


def _values_in_range(segments: Segments, countable: bool) -> tuple[Int64, Int64, Float64]:
    """For each partition the number of points, the number of files, and max - min + 1 (infinity if not countable)."""
    points = np.diff(segments.start)
    files = counts(segments.partition, len(points))
    number = np.where(files > 0, np.inf, 0.0)
    filled = np.flatnonzero(files)
    if countable and len(filled):
        number[filled] = segments.per_partition(segments.gap + segments.point)[filled] / segments.point
    return points, files, number


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
        limit: float64[P], the result of `max_distinct`.
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
