"""touched, depth and overlaps of a column, from file bounds and row counts. docs/metrics.md has the definitions.

All metrics take O(N log N). All partitions are measured together: `zlayout.table.segments` gives each its own points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zlayout.table.floor import floor
from zlayout.table.histogram import DepthBucket, depth_histogram
from zlayout.table.ranks import rank_bounds
from zlayout.table.reach import Reach, estimate_in_partitions, reach_of, touched_in_partitions
from zlayout.table.segments import Float64, PerSegment, Segments, segments_of
from zlayout.table.side_by_side import both, side_by_side
from zlayout.table.state import FileTable, Int64
from zlayout.table.sums import counts

MIN_FILES_PER_BOUND = 4  # files per distinct bound; with fewer, bounds do not show the number of distinct values


@dataclass(frozen=True, slots=True)
class ByPartition:
    """float64[P] each: files touched in each partition, and its estimated distinct values (infinity if unknown)."""

    touched: Float64
    distinct: Float64


@dataclass(frozen=True, slots=True)
class ColumnMetrics:
    """The metrics of one column of one set of files.

    touched, floor: files opened by an equality query on this column, summed over partitions. depth, overlaps: mean
    over the files that have a value. distinct: estimated distinct values, the maximum over partitions (infinity if
    unknown). unbounded: number of files with an open bound. all_null: number of files without any value. truncated:
    number of files with a truncated bound. reach: the share of rows in each file's interval, if it was requested.
    """

    column: str
    files: int
    partitions: int
    touched: float
    floor: float
    depth: float
    overlaps: float
    depth_histogram: tuple[DepthBucket, ...]
    distinct: float
    unbounded: int
    all_null: int
    truncated: int
    by_partition: ByPartition
    reach: Reach | None = None


def layout_metrics(
    files: FileTable,
    weights: Mapping[str, float],
    distinct: Mapping[str, float] | None = None,
    heavy: Mapping[str, Sequence[float]] | None = None,
    with_reach: bool = False,
) -> tuple[ColumnMetrics, ...]:
    """The metrics of all z-order columns, each with its floor in a layout by all of them.

    Args:
        files: the files, of all partitions.
        weights: the weight of each z-order column by name.
        distinct: the number of distinct values by column, where it is known from more than the bounds.
        heavy: the shares (0..1) of the most frequent values by column, where they are known.
        with_reach: keep the `Reach` of each column, which needs memory for every file.
    """
    known, shares = distinct or {}, heavy or {}
    if not weights:
        return ()
    alone = len(weights) == 1
    measured = side_by_side(lambda column: _measure(files, column, with_reach, alone), tuple(weights), len(files))
    limits = np.stack([np.minimum(d, known.get(c, np.inf)) for c, (_, d) in zip(weights, measured, strict=True)], 1)
    shares_by_column = [shares.get(c, ()) for c in weights]
    floors = floor(_files_by_partition(files), tuple(weights.values()), limits, shares_by_column).sum(axis=0)
    return tuple(replace(m, floor=float(lowest)) for (m, _), lowest in zip(measured, floors, strict=True))


def _measure(
    files: FileTable, column: str, with_reach: bool = False, alone: bool = True
) -> tuple[ColumnMetrics, Float64]:
    """The column's metrics without the floor, and its estimated distinct values by partition.

    alone: whether no other column is measured at the same time, so that two threads can be used.
    """
    bounds = files.bounds[column]
    ranked = rank_bounds(bounds, files.rows)
    number = _files_by_partition(files)
    segments = segments_of(ranked, files.partition, len(number))
    countable, unbounded, all_null = ranked.axis.countable, ranked.unbounded, int(ranked.empty.sum())
    del ranked  # it would add an eighth to the peak memory

    def from_bounds() -> tuple[float, tuple[DepthBucket, ...], float, Float64]:
        depths = depth(segments)
        return _mean(depths), depth_histogram(depths), _mean(overlaps(segments)), distinct_estimate(segments, countable)

    def from_rows() -> tuple[PerSegment, Float64]:
        estimate = estimate_in_partitions(segments, rows_with_value(files, column))
        return estimate, touched_in_partitions(segments, estimate)

    found = both(from_bounds, from_rows, len(files) if alone else 0)
    (mean_depth, depths, others, distinct), (estimate, touched_inside) = found
    measured = ColumnMetrics(
        column=column,
        files=len(files),
        partitions=int((number > 0).sum()),
        touched=float(touched_inside.sum()),
        floor=float("nan"),
        depth=mean_depth,
        overlaps=others,
        depth_histogram=depths,
        distinct=float(distinct[number > 0].max(initial=0.0)),
        unbounded=unbounded,
        all_null=all_null,
        truncated=int(bounds.truncated.sum()),
        by_partition=ByPartition(touched_inside, distinct),
        reach=reach_of(segments, estimate, len(files)) if with_reach else None,
    )
    return measured, distinct


def rows_with_value(files: FileTable, column: str) -> Float64:
    """float64[N]: live rows minus nulls. It is at least 0, because deleted rows may also be null."""
    nulls = np.maximum(files.bounds[column].null_count, 0)
    return np.maximum(files.live_rows - nulls, 0).astype(np.float64)


def _files_by_partition(files: FileTable) -> Int64:
    return counts(files.partition, max(len(files.partitions), 1))


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
    points = np.diff(segments.start)
    files = counts(segments.partition, len(points))
    estimate = np.where(files > 0, np.inf, 0.0)
    filled = np.flatnonzero(files)
    if len(filled) == 0:
        return estimate
    if countable:
        estimate[filled] = segments.per_partition(segments.gap + segments.point)[filled] / segments.point
    single = counts(segments.partition[segments.hi == segments.lo], len(points))
    bounds_are_values = ((files >= MIN_FILES_PER_BOUND * points) & (2 * single >= files)) | (single == files)
    estimate = np.where(bounds_are_values, np.minimum(estimate, points), estimate)
    estimate[segments.partition[~segments.bounded.all(axis=0)]] = np.inf
    return estimate
