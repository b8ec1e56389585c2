"""The share of its partition's rows in each file's interval; `touched` is the sum of these shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlayout.table.density import estimate_rows
from zlayout.table.ranks import rank_bounds
from zlayout.table.segments import Float64, PerSegment, Segments, before, segments_of
from zlayout.table.state import FileTable, Int32, Int64
from zlayout.table.sums import sums

NOWHERE = -1  # the point of a file without a value


@dataclass(frozen=True, slots=True)
class Reach:
    """One column of N files in P partitions.

    lo, hi: int64[N], first and last point of each file (see `Segments`; NOWHERE for a file without a value). No two
    partitions share a point. share: float64[N], the share of its partition's rows whose value lies in the interval,
    so that touched of a partition is the sum of its files' shares.
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
        """float64: the share of the rows of each `partition` between points lo and hi, 0 where hi < lo."""
        share = self._between(partition, np.minimum(lo, self.points - 1), np.maximum(hi, 0))
        share[hi < lo] = 0.0
        return share

    def _between(self, partition: Int64, lo: Int64, hi: Int64) -> Float64:
        share: Float64 = self._through[hi]
        share -= self._before[lo]
        share /= np.where(self._total > 0, self._total, np.inf)[partition]
        return share

    def touched_among(self, member: NDArray[np.bool_], weights: Float64) -> Float64:
        """float64[P]: touched of some files, bool[N], without the others. weights: float64[N], rows with a value."""
        segments = self._segments.among(member)
        return touched_in_partitions(segments, estimate_in_partitions(segments, weights))


def reach(files: FileTable, column: str, weights: Float64, partition: Int32, partitions: int) -> Reach:
    """Measure one column. weights: float64[N], rows with a value. partition: int32[N] below `partitions`.

    Raises KeyError for a column whose bounds were not read, TableError ZL109 for a type without an order.
    """
    segments = segments_of(rank_bounds(files.bounds[column], files.rows), partition, partitions)
    return reach_of(segments, estimate_in_partitions(segments, weights), len(files))


def reach_of(segments: Segments, estimate: PerSegment, files: int) -> Reach:
    """estimate: rows in each segment. files: N, including those without a value, which have no segment."""
    lo, hi = np.full(files, NOWHERE, np.int64), np.full(files, NOWHERE, np.int64)
    lo[segments.file], hi[segments.file] = segments.lo, segments.hi
    points, gaps = estimate
    so_far = before(estimate)
    found = Reach(lo, hi, np.zeros(files), segments, so_far, so_far + points, segments.per_partition(points + gaps))
    found.share[segments.file] = found._between(segments.partition, segments.lo, segments.hi)
    return found


def estimate_in_partitions(segments: Segments, weights: Float64) -> PerSegment:
    """Rows in each segment. In a partition without live rows every file counts as one row."""
    weights = weights[segments.file]
    total = sums(segments.partition, len(segments.start) - 1, weights)
    empty = ~(total > 0)
    if empty.any():
        weights[empty[segments.partition]] = 1.0
    return estimate_rows(segments, weights)


def touched_in_partitions(segments: Segments, estimate: PerSegment) -> Float64:
    """float64[P]: files that an equality query opens. estimate: rows in each segment."""
    points, gaps = estimate
    on_points, on_gaps = segments.coverage
    met = segments.per_partition(points * on_points + gaps * on_gaps)
    return np.divide(met, segments.per_partition(points + gaps), out=np.zeros(len(met)), where=met > 0)
