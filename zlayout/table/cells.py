"""A column of many partitions cut into points and gaps, so that one pass of numpy measures all partitions at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zlayout.table.axis import Axis, dense_values, order_of
from zlayout.table.ranks import Ranked
from zlayout.table.state import Int32, Int64

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cells:
    """The M files that hold a value, as intervals of points; no two partitions share a point.

    Points are the distinct bounds of each partition, in order of (partition, value); R in all. Cell 2i is point i,
    cell 2i + 1 the open gap between points i and i + 1 (of measure 0 behind the last point of a partition).
    lo, hi: int64[M], first and last point of each file, in ascending order of lo (memory is then read in order,
    which is several times faster for a million files). file: int64[M], its row in the ranked column.
    partition: int64[M]. start: int64[P + 1], where the points of each partition begin.
    begun, ended: int32[R], how many files begin and how many end at a point or before it.
    bounded: bool[2, M], whether the lower and the upper end are bounds that the metadata gave.
    measure: float64[2R], how many values (or how much width) each cell holds. span: float64[M], the same for files.
    extent: float64[P], the distance from the first to the last point of each partition.
    """

    lo: Int64
    hi: Int64
    file: Int64
    partition: Int64
    start: Int64
    begun: Int32
    ended: Int32
    bounded: NDArray[np.bool_]
    measure: Float64
    span: Float64
    extent: Float64

    @property
    def depth(self) -> Int32:
        """int32[R]: how many files hold each point."""
        depth = self.begun.copy()
        depth[1:] -= self.ended[:-1]
        return depth

    def coverage(self) -> Float64:
        """float64[2R]: how many files hold each cell."""
        coverage = np.empty(len(self.measure))
        coverage[0::2] = self.depth
        np.subtract(self.begun, self.ended, out=coverage[1::2])
        return coverage

    def cover(self, amount: Float64) -> Float64:
        """float64[2R]: the sum of `amount`, float64[M], over the files whose interval holds the cell."""
        points = len(self.begun)
        here, gone = np.bincount(self.lo, amount, points), np.bincount(self.hi, amount, points)
        here -= gone
        np.cumsum(here, out=here)
        covered = np.empty(2 * points)
        covered[1::2] = here
        np.add(here, gone, out=covered[0::2])  # a file that ends at a point holds it, and not the gap behind it
        return covered

    def among(self, member: NDArray[np.bool_]) -> Cells:
        """The same cells, of some of the files alone. member: bool[N], by a file's row in the ranked column."""
        kept = member[self.file]
        lo, hi = self.lo[kept], self.hi[kept]
        begun, ended = _counts(lo, hi, len(self.begun))
        return replace(
            self,
            lo=lo,
            hi=hi,
            file=self.file[kept],
            partition=self.partition[kept],
            begun=begun,
            ended=ended,
            bounded=self.bounded[:, kept],
            span=self.span[kept],
        )

    def per_partition(self, cell_values: Float64) -> Float64:
        """float64[P]: sums of a float64[2R] cell array over each partition's cells."""
        filled = np.diff(self.start) > 0
        out = np.zeros(len(filled))
        if filled.any():
            out[filled] = np.add.reduceat(cell_values, 2 * self.start[:-1][filled])
        return out


def cut_cells(ranked: Ranked, partition: Int32 | None = None, partitions: int = 1) -> Cells:
    """Cut a ranked column into cells; `partition` int32[N] < `partitions` (None: all files are in one)."""
    file = np.flatnonzero(~ranked.empty)
    lo, hi, axis = ranked.lo[file], ranked.hi[file], ranked.axis
    start, files = np.array([0, max(len(axis), 1)]), np.array([len(file)])
    if partitions > 1:
        owner = np.zeros(len(file), np.int64) if partition is None else partition[file].astype(np.int64)
        files = np.bincount(owner, minlength=partitions)
        lo, hi, axis, start = _apart(ranked, file, owner, partitions)
    if (lo[1:] < lo[:-1]).any():
        order = order_of(lo)
        lo, hi, file = lo[order], hi[order], file[order]
    begun, ended = _counts(lo, hi, start[-1])
    bounded = np.stack((~ranked.open_lo[file], ~ranked.open_hi[file]))
    measure, span, extent = _measures(axis, start, lo, hi)
    owner = np.repeat(np.arange(partitions), files)  # points, and so lo, rise from partition to partition
    return Cells(lo, hi, file, owner, start, begun, ended, bounded, measure, span, extent)


def _counts(lo: Int64, hi: Int64, points: int) -> tuple[Int32, Int32]:
    """`begun` and `ended` of `Cells`."""
    begun, ended = (np.cumsum(np.bincount(ends, minlength=points), dtype=np.int32) for ends in (lo, hi))
    return begun, ended


def _apart(ranked: Ranked, file: Int64, owner: Int64, partitions: int) -> tuple[Int64, Int64, Axis, Int64]:
    """lo and hi as points that no two partitions share, the values of the points, and where each partition's begin.

    A point is a distinct key owner * width + rank. A partition without any bound has its first key as its only point.
    """
    lo, hi, open_lo, open_hi = (side[file] for side in (ranked.lo, ranked.hi, ranked.open_lo, ranked.open_hi))
    bound = np.zeros(partitions, np.int64)
    bound[owner[~open_lo]] = lo[~open_lo]
    bound[owner[~open_hi]] = hi[~open_hi]
    lo[open_lo], hi[open_hi] = bound[owner[open_lo]], bound[owner[open_hi]]  # there anyway: an open side adds no point
    width = max(len(ranked.axis), 1)
    point, key = dense_values(np.concatenate((owner * width + lo, owner * width + hi)))
    first_key = np.arange(partitions + 1) * width
    start = np.searchsorted(key, first_key)
    lo, hi = point[: len(file)], point[len(file) :]
    lo[open_lo], hi[open_hi] = start[owner[open_lo]], start[owner[open_hi] + 1] - 1
    rank = key - np.repeat(first_key[:-1], np.diff(start))
    return lo, hi, ranked.axis.at(rank) if len(ranked.axis) else ranked.axis, start


def _measures(axis: Axis, start: Int64, lo: Int64, hi: Int64) -> tuple[Float64, Float64, Float64]:
    """measure, span and extent of `Cells`; `axis` holds the values of the points."""
    measure = np.zeros(2 * start[-1])
    measure[0::2] = axis.point
    if len(axis) == 0:
        return measure, np.full(len(lo), axis.point), np.zeros(len(start) - 1)
    gap = axis.width(slice(None, -1), slice(1, None))
    gap -= axis.point
    filled = np.diff(start) > 0
    first, last = start[:-1][filled], start[1:][filled] - 1
    gap[first[1:] - 1] = 0.0  # between two partitions
    np.maximum(gap, 0.0, out=measure[1:-1:2])
    extent = np.zeros(len(filled))
    extent[filled] = axis.width(first, last)
    span = axis.width(lo, hi)
    span += axis.point
    return measure, span, extent
