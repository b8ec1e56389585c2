"""touched, depth and overlaps of a column, from file bounds and row counts. docs/metrics.md has the definitions.

All metrics take O(N log N). All partitions are measured together: `zlayout.table.segments` gives each its own points.
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

MIN_FILES_PER_BOUND = 4  # files per distinct bound; with fewer, bounds do not show the number of distinct values


@dataclass(frozen=True, slots=True)
class ByPartition:
    """Metrics of each partition, float64[P] each.

    touched: files touched. bytes: the size of these files. distinct: estimated distinct values, infinity if unknown.
    max_distinct: an upper limit of the distinct values that the bounds prove, infinity if they prove none. floor: NaN
    if unknown.
    """

    touched: Float64
    bytes: Float64
    distinct: Float64
    max_distinct: Float64
    floor: Float64


@dataclass(frozen=True, slots=True)
class ColumnMetrics:
    """The metrics of one column of one set of files.

    touched: files opened by an equality query on this column, summed over partitions. bytes_read: the size of these
    files. floor: touched that no layout of files of this number and these sizes can go below; None where bounds do not
    show how often the values occur. depth, overlaps: mean over the files that have a value. distinct: estimated
    distinct values, the maximum over partitions (infinity if unknown). unbounded: number of files with an open bound.
    all_null: number of files without any value. truncated: number of files with a truncated bound. reach: the share of
    rows in each file's interval, if it was requested.
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
    """The metrics of each column.

    Args:
        files: the files, of all partitions.
        columns: the names of columns whose bounds were read.
        with_reach: keep the `Reach` of each column, which needs memory for every file.
    """
    alone = len(columns) == 1
    return tuple(side_by_side(lambda column: _measure(files, column, with_reach, alone), tuple(columns), len(files)))


def _measure(files: FileTable, column: str, with_reach: bool, alone: bool) -> ColumnMetrics:
    """The column's metrics. alone: whether no other column is measured meanwhile, so that two threads can be used."""
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
    maximum query with a sparse table, one level of which is computed at a time.
    """
    depths = np.empty(len(segments.lo), np.int64)
    for files, _, block in segments.blocks():
        depths[files] = _highest(block)
    return depths


def _highest(segments: Segments) -> Int64:
    highest = segments.depth  # over windows of 2^level points, level 0 first
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
    """float64[P]: an upper estimate of the distinct values of each partition, from bounds alone; infinity if unknown.

    For integers, dates, times, booleans and decimals it is at most max - min + 1. The number of distinct bounds is used
    if every file has a single value, since the bounds are then the values. It is also used if there are at least 4
    files per distinct bound and at least half of the files have a single value: a value that is not a bound is then
    unlikely. In a partition with an unbounded file the number is unknown.
    """
    points, files, estimate = _values_in_range(segments, countable)
    single = counts(segments.partition[segments.hi == segments.lo], len(points))
    bounds_are_values = ((files >= MIN_FILES_PER_BOUND * points) & (2 * single >= files)) | (single == files)
    estimate = np.where(bounds_are_values, np.minimum(estimate, points), estimate)
    estimate[segments.partition[~segments.bounded.all(axis=0)]] = np.inf
    return estimate


def max_distinct(segments: Segments, countable: bool, single: Bools) -> Float64:
    """float64[P]: an upper limit of the distinct values that the bounds prove; infinity if they prove none.

    Args:
        segments: of M files.
        countable: whether the values of the type can be counted.
        single: bool[M], the files of one value.
    """
    points, files, limit = _values_in_range(segments, countable)
    limit = np.where((counts(segments.partition[single], len(points)) == files) & (files > 0), points, limit)
    limit[segments.partition[~segments.bounded.all(axis=0)]] = np.inf
    return limit


def _values_in_range(segments: Segments, countable: bool) -> tuple[Int64, Int64, Float64]:
    """[P] each: the number of points, the number of files, and max - min + 1; infinity for values without a number."""
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
    """float64[P]: the floor of each partition; NaN where bounds do not show how often the values occur.

    They show it if every file has a single value. Where touched is the lowest floor that the partition can have, the
    present layout proves that it is reached.

    Args:
        segments: of M files, of which `single` (bool[M]) have one value.
        estimate: rows in each segment.
        touched, limit: float64[P], touched and `max_distinct`.
        files: the N files.
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
    """The floor of a column: touched that no layout of as many files can go below.

    A query for a value with the share s of the rows opens at least max(1, s / r) files, where r is the share of the
    rows in the largest file. Drawn by row, the values touch at least `sum s * max(1, s / r)` files. Nothing else about
    the layout is used: neither other columns nor correlation.

    Args:
        shares: float64[k], the share of each value among the rows with a value; they sum to 1 or less. Rows that are
            left out count as rare values.
        largest: the rows of the largest file, as a share of the rows with a value; above 0.
    """
    return float(1.0 + (shares * np.maximum(shares / largest - 1.0, 0.0)).sum())


def min_floor(distinct: Float64, largest: Float64) -> Float64:
    """The lowest floor that a column of at most `distinct` values can have, of any shape.

    `s * max(1, s / r)` is convex in s, so that equal shares give the minimum: `max(1, 1 / (distinct * r))`.

    Args:
        distinct: an upper limit of the number of values; infinity if unknown, 0 for a column without a value.
        largest: the rows of the largest file, as a share of the rows with a value; above 0.
    """
    with np.errstate(divide="ignore"):
        lowest: Float64 = np.maximum(1.0 / (np.maximum(distinct, 1.0) * largest), 1.0)
    return np.where(distinct > 0, lowest, 0.0)
