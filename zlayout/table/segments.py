"""Divide the axis of one column in each partition into segments, so that numpy measures all partitions at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlayout.table.axis import Axis, dense_values
from zlayout.table.order import order_and_sorted
from zlayout.table.ranks import Ranked
from zlayout.table.side_by_side import pieces
from zlayout.table.state import Float64, Int32, Int64

PerSegment = tuple[Float64, Float64]  # float64[R] for the points, and float64[R] for the gaps after them
FILES_PER_BLOCK = 1 << 17  # temporary arrays of this length fit into the CPU cache


@dataclass(frozen=True, slots=True)
class Segments:
    """The M files that have a value, as closed intervals of points, in P partitions.

    The points are the R distinct bounds of each partition, ordered by (partition, value), so that no two partitions
    share a point. R is at least 1, or 0 if `among` selects no file. A segment is a point or the open gap after it. The
    gap after the last point of a partition is empty.

    Attributes:
        lo: int64[M], the first point of each file. The files are in ascending order of lo, because reading memory
            sequentially is several times as fast for a million files.
        hi: int64[M], the last point of each file.
        file: int64[M], the index of each file among the N files of the ranked column.
        partition: int64[M], the partition of each file.
        start: int64[P + 1], the first point of each partition, then R.
        begun: int32[R], the number of files whose first point is this point or an earlier one.
        ended: int32[R], the number of files whose last point is this point or an earlier one.
        bounded: bool[2, M], whether the metadata has the lower and the upper bound of each file.
        point: The width of a point (see `Axis`).
        gap: float64[R], the width of the gap after each point.
        span: float64[M], the width of the interval of each file.
    """

    lo: Int64
    hi: Int64
    file: Int64
    partition: Int64
    start: Int64
    begun: Int32
    ended: Int32
    bounded: NDArray[np.bool_]
    point: float
    gap: Float64
    span: Float64

    @property
    def depth(self) -> Int32:
        """int32[R]: the number of files whose interval contains each point."""
        depth = self.begun.copy()
        depth[1:] -= self.ended[:-1]
        return depth

    @property
    def coverage(self) -> tuple[Int32, Int32]:
        """int32[R] twice: the number of files whose interval contains each point, and each gap."""
        return self.depth, self.begun - self.ended

    def cover(self, amount: Float64) -> PerSegment:
        """The sum over the files whose interval contains each segment. amount: float64[M], what is summed."""
        # bincount returns integers if there is no file
        gaps, points = (
            np.bincount(ends, amount, len(self.begun)).astype(np.float64, copy=False) for ends in (self.lo, self.hi)
        )
        gaps -= points
        np.cumsum(gaps, out=gaps)
        points += gaps  # a file that ends at a point contains the point, but not the gap after it
        return points, gaps

    def among(self, member: NDArray[np.bool_]) -> Segments:
        """The segments of some of the files, without the points that only other files have.

        member: bool[N], whether a file of the ranked column is one of them.
        """
        kept = np.flatnonzero(member[self.file])
        lo, hi = self.lo[kept], self.hi[kept]
        used = np.zeros(len(self.begun), bool)
        used[lo] = used[hi] = True
        points = np.flatnonzero(used)
        number = np.empty(len(used), np.int64)
        number[points] = np.arange(len(points))
        lo, hi, start = number[lo], number[hi], np.searchsorted(points, self.start)
        begun, ended = _counts(lo, hi, len(points))
        gap = np.zeros(len(points))
        if len(points):
            np.add.reduceat(self.gap + self.point, points, out=gap)
            gap -= self.point
            gap[_last_points(start)] = 0.0
        file, partition, span, bounded = self.file[kept], self.partition[kept], self.span[kept], self.bounded[:, kept]
        return Segments(lo, hi, file, partition, start, begun, ended, bounded, self.point, gap, span)

    def blocks(self) -> Iterator[tuple[slice, slice, Segments]]:
        """Yield consecutive partitions that have about FILES_PER_BLOCK files together.

        Yields:
            The range of their files, the range of their points, and their segments with both numbered from 0.
        """
        first_file = np.searchsorted(self.lo, self.start)
        _, first = np.unique(first_file[:-1] // FILES_PER_BLOCK, return_index=True)
        for one, end in zip(first, [*first[1:], len(self.start) - 1], strict=True):
            files, points = slice(first_file[one], first_file[end]), slice(self.start[one], self.start[end])
            yield files, points, self._block(one, end, files, points)

    def _block(self, one: int, end: int, files: slice, points: slice) -> Segments:
        if end - one == len(self.start) - 1:
            return self
        begun, ended = (self.begun[points.start - 1], self.ended[points.start - 1]) if points.start else (0, 0)
        return Segments(
            self.lo[files] - points.start,
            self.hi[files] - points.start,
            self.file[files],
            self.partition[files] - one,
            self.start[one : end + 1] - points.start,
            self.begun[points] - begun,
            self.ended[points] - ended,
            self.bounded[:, files],
            self.point,
            self.gap[points],
            self.span[files],
        )

    def per_partition(self, values: Float64) -> Float64:
        """float64[P]: the sum over the points of each partition. values: float64[R], what is summed."""
        filled = np.diff(self.start) > 0
        out = np.zeros(len(filled))
        if filled.any():
            out[filled] = np.add.reduceat(values, self.start[:-1][filled])
        return out


def before(values: PerSegment) -> Float64:
    """float64[R]: the sum of `values` over all segments before each point, in all partitions."""
    points, gaps = values
    sums = np.empty_like(points)
    sums[:1] = 0.0
    np.add(points[:-1], gaps[:-1], out=sums[1:])
    np.cumsum(sums[1:], out=sums[1:])
    return sums


def segments_of(ranked: Ranked, partition: Int32 | None = None, partitions: int = 1) -> Segments:
    """The segments of a ranked column.

    Args:
        ranked: the bounds of N files.
        partition: int32[N], the partition of each file; None if all files are in one partition.
        partitions: the number of partitions P.
    """
    file = np.flatnonzero(~ranked.empty)
    lo, hi, axis = ranked.lo[file], ranked.hi[file], ranked.axis
    start, files = np.full(partitions + 1, max(len(axis), 1)), np.array([len(file)])
    start[0] = 0
    if partitions > 1 and partition is not None and len(file):
        owner = partition[file].astype(np.int64)
        files = np.bincount(owner, minlength=partitions)
        lo, hi, axis, start = _apart(ranked, file, owner, partitions)
    if (lo[1:] < lo[:-1]).any():
        order, lo = order_and_sorted(lo)
        hi, file = hi[order], file[order]
    begun, ended = _counts(lo, hi, start[-1])
    bounded = np.stack((~ranked.open_lo[file], ~ranked.open_hi[file]))
    gap, span = _measures(axis, start, lo, hi)
    owner = np.repeat(np.arange(len(files)), files)  # files are sorted by lo, and so by partition
    return Segments(lo, hi, file, owner, start, begun, ended, bounded, axis.point, gap, span)


def _last_points(start: Int64) -> Int64:
    return start[1:][np.diff(start) > 0] - 1


def _counts(lo: Int64, hi: Int64, points: int) -> tuple[Int32, Int32]:
    begun, ended = (np.cumsum(np.bincount(ends, minlength=points), dtype=np.int32) for ends in (lo, hi))
    return begun, ended


def _apart(ranked: Ranked, file: Int64, owner: Int64, partitions: int) -> tuple[Int64, Int64, Axis, Int64]:
    """Number the points of each partition separately. Return `lo` and `hi` of `Segments`, the values, and `start`."""
    lo, hi, open_lo, open_hi = (side[file] for side in (ranked.lo, ranked.hi, ranked.open_lo, ranked.open_hi))
    any_open = bool(open_lo.any() or open_hi.any())
    if any_open:
        bound = np.zeros(partitions, np.int64)
        bound[owner[~open_lo]] = lo[~open_lo]
        bound[owner[~open_hi]] = hi[~open_hi]
        # a missing bound gets the rank of a bound of its partition, so that it adds no point
        lo[open_lo], hi[open_hi] = bound[owner[open_lo]], bound[owner[open_hi]]
    width = max(len(ranked.axis), 1)
    first_of_owner = owner * width
    lo += first_of_owner
    hi += first_of_owner
    # A point is a distinct key. A partition without any bound has one point, its first key.
    point, key = dense_values(np.concatenate((lo, hi)))
    first_key = np.arange(partitions + 1) * width
    start = np.searchsorted(key, first_key)
    lo, hi = point[: len(file)], point[len(file) :]
    if any_open:
        lo[open_lo], hi[open_hi] = start[owner[open_lo]], start[owner[open_hi] + 1] - 1
    rank = key - np.repeat(first_key[:-1], np.diff(start))
    return lo, hi, ranked.axis.at(rank) if len(ranked.axis) else ranked.axis, start


def _measures(axis: Axis, start: Int64, lo: Int64, hi: Int64) -> tuple[Float64, Float64]:
    gap = np.zeros(start[-1])
    if len(axis) == 0:
        return gap, np.full(len(lo), axis.point)
    span = np.empty(len(lo))
    for at, stop in pieces(0, len(gap) - 1, FILES_PER_BLOCK):
        gap[at:stop] = axis.width(slice(at, stop), slice(at + 1, stop + 1))
    for at, stop in pieces(0, len(span), FILES_PER_BLOCK):
        span[at:stop] = axis.width(lo[at:stop], hi[at:stop])
    gap -= axis.point
    np.maximum(gap, 0.0, out=gap)
    gap[_last_points(start)] = 0.0
    span += axis.point
    return gap, span
