"""The reach of a file: the share of its partition's rows in its interval. `touched` is the sum of these shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlayout.table.baseline import Baseline
from zlayout.table.density import estimate_rows
from zlayout.table.ranks import rank_bounds
from zlayout.table.segments import PerSegment, Segments, before, segments_of
from zlayout.table.state import FileTable, Float64, Int32, Int64
from zlayout.table.sums import counts, sums

NO_POINT = -1  # instead of the points of a file without a value


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of N files on one column, in P partitions.

    lo, hi: int64[N], the first and the last point of each file (see `Segments`), NO_POINT for a file without a value.
    share: float64[N], the share of the partition's rows whose value is in the file's interval. touched of a partition
    is the sum of the shares of its files.
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
        return len(self._segments.begun)

    def between(self, partition: Int64, lo: Int64, hi: Int64) -> Float64:
        """float64: for each partition the share of its rows between the points lo and hi; 0 if hi < lo."""
        share = self._between(partition, np.minimum(lo, self.points - 1), np.maximum(hi, 0))
        share[hi < lo] = 0.0
        return share

    def _between(self, partition: Int64, lo: Int64, hi: Int64) -> Float64:
        share: Float64 = self._through[hi]
        share -= self._before[lo]
        share /= np.where(self._total > 0, self._total, np.inf)[partition]
        return share

    def touched_among(self, member: NDArray[np.bool_], weights: Float64) -> Float64:
        """float64[P]: touched of a part of the files alone.

        Args:
            member: bool[N], the files.
            weights: float64[N], rows with a value.
        """
        segments = self._segments.among(member)
        return touched_in_partitions(segments, estimate_in_partitions(segments, weights))


def reach(files: FileTable, column: str, partition: Int32 | None = None, partitions: int = 0) -> Reach:
    """The reach of the files on one column.

    Args:
        files: N files.
        column: the name of a column whose bounds were read.
        partition: int32[N], below `partitions`; None for the partitions of the table.
        partitions: the number of partitions P.

    Raises:
        KeyError: for a column whose bounds were not read.
        TableError: ZL109 for a type without an order.
    """
    if partition is None:
        partition, partitions = files.partition, max(len(files.partitions), 1)
    segments = segments_of(rank_bounds(files.bounds[column], files.rows), partition, partitions)
    return reach_of(segments, estimate_in_partitions(segments, files.rows_with_value(column)), len(files))


def measure_baselines(files: FileTable, columns: Sequence[str], group: Int32, count: int) -> tuple[Baseline, ...]:
    """Measure the baseline of each of `count` groups on its own.

    Args:
        files: N files with the bounds of the columns.
        columns: The z-order columns in the order of the layout.
        group: int32[N], the group of each file, below `count`.
        count: The number of groups.
    """
    if not count:
        return ()
    touched = [sums(group, count, reach(files, column, group, count).share).tolist() for column in columns]
    number = counts(group, count).tolist()
    return tuple(Baseline(files, tuple(row[at] for row in touched)) for at, files in enumerate(number))


def reach_of(segments: Segments, estimate: PerSegment, files: int) -> Reach:
    """The reach of N = `files` files, which include those without a value. estimate: rows in each segment."""
    lo, hi = np.full(files, NO_POINT, np.int64), np.full(files, NO_POINT, np.int64)
    lo[segments.file], hi[segments.file] = segments.lo, segments.hi
    points, gaps = estimate
    so_far = before(estimate)
    found = Reach(lo, hi, np.zeros(files), segments, so_far, so_far + points, segments.per_partition(points + gaps))
    found.share[segments.file] = found._between(segments.partition, segments.lo, segments.hi)
    return found


def estimate_in_partitions(segments: Segments, weights: Float64) -> PerSegment:
    """The number of rows in each segment. In a partition without live rows every file counts as one row."""
    weights = weights[segments.file]
    total = sums(segments.partition, len(segments.start) - 1, weights)
    empty = ~(total > 0)
    if empty.any():
        weights[empty[segments.partition]] = 1.0
    return estimate_rows(segments, weights)


def touched_in_partitions(segments: Segments, estimate: PerSegment) -> Float64:
    """float64[P]: touched of each partition. estimate: rows in each segment."""
    return _mean_in_partitions(segments, estimate, segments.coverage)


def bytes_in_partitions(segments: Segments, estimate: PerSegment, size: Int64) -> Float64:
    """float64[P]: the expected size of the files that a query for one value opens in each partition.

    estimate: rows in each segment. size: int64[N], the size of each file.
    """
    return _mean_in_partitions(segments, estimate, segments.cover(size[segments.file].astype(np.float64)))


def _mean_in_partitions(
    segments: Segments, estimate: PerSegment, values: tuple[Int32 | Float64, Int32 | Float64]
) -> Float64:
    """float64[P]: the mean of `values` (one per point, one per gap) over the rows of each partition."""
    points, gaps = estimate
    on_points, on_gaps = values
    met = segments.per_partition(points * on_points + gaps * on_gaps)
    return np.divide(met, segments.per_partition(points + gaps), out=np.zeros(len(met)), where=met > 0)
