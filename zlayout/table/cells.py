"""A column of many partitions cut into points and gaps, so that one pass of numpy measures all partitions at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlayout.table.axis import Axis, dense, order_of
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
    bounded: bool[2, M], whether the lower and the upper end are bounds that the metadata gave.
    measure: float64[2R], how many values (or how much width) each cell holds. span: float64[M], the same for files.
    extent: float64[P], the distance from the first to the last point of each partition.
    """

    lo: Int64
    hi: Int64
    file: Int64
    partition: Int64
    start: Int64
    bounded: NDArray[np.bool_]
    measure: Float64
    span: Float64
    extent: Float64

    def cover(self, amount: Float64 | None = None) -> Float64:
        """float64[2R]: the sum of `amount` over the files whose interval holds the cell; None counts the files."""
        size = len(self.measure) + 1
        change = np.bincount(2 * self.lo, amount, size).astype(np.float64, copy=False)
        change -= np.bincount(2 * self.hi + 1, amount, size)
        return np.cumsum(change, out=change)[:-1]

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
    owner = np.zeros(len(file), np.int64) if partition is None else partition[file].astype(np.int64)
    open_lo, open_hi = ranked.open_lo[file], ranked.open_hi[file]
    width = max(len(ranked.axis), 1)
    lo, hi, point_key = ranked.lo[file], ranked.hi[file], np.arange(width)
    start = np.array([0, width])
    if partitions > 1:
        point_key, lo, hi = _points(owner, width, np.where(open_lo, -1, lo), np.where(open_hi, -1, hi))
        start = np.searchsorted(point_key, np.arange(partitions + 1) * width)
        lo = np.where(open_lo, start[owner], lo)
        hi = np.where(open_hi, start[owner + 1] - 1, hi)
    order = order_of(lo) if len(lo) and (np.diff(lo) < 0).any() else np.arange(len(lo))
    lo, hi, file, owner = lo[order], hi[order], file[order], owner[order]
    rank = point_key % width
    measure, span, extent = _measures(ranked.axis, rank, start, lo, hi)
    return Cells(lo, hi, file, owner, start, np.stack((~open_lo[order], ~open_hi[order])), measure, span, extent)


def _points(owner: Int64, width: int, lo: Int64, hi: Int64) -> tuple[Int64, Int64, Int64]:
    """Distinct keys (owner * width + rank) of the given bounds in order, and each file's first and last among them.

    A rank of -1 is an open side: its place is -1 too. A partition without any bound still gets its first key.
    """
    rank, both = np.concatenate((lo, hi)), np.tile(owner, 2)
    given = np.flatnonzero(rank >= 0)
    size = int(owner.max(initial=0)) + 1
    bare = np.flatnonzero((np.bincount(owner, minlength=size) > 0) & (np.bincount(both[given], minlength=size) == 0))
    keys = np.concatenate((both[given] * width + rank[given], bare * width))
    ranks, first = dense((keys,))
    place = np.full(len(rank), -1)
    place[given] = ranks[: len(given)]
    return keys[first], place[: len(lo)], place[len(lo) :]


def _measures(axis: Axis, rank: Int64, start: Int64, lo: Int64, hi: Int64) -> tuple[Float64, Float64, Float64]:
    measure = np.zeros(2 * len(rank))
    measure[0::2] = axis.point
    if len(axis) == 0:
        return measure, np.full(len(lo), axis.point), np.zeros(len(start) - 1)
    gap = np.maximum(axis.width(rank[:-1], rank[1:]) - axis.point, 0.0)
    filled = np.diff(start) > 0
    first, last = start[:-1][filled], start[1:][filled] - 1
    gap[first[1:] - 1] = 0.0  # between two partitions
    measure[1:-1:2] = gap
    extent = np.zeros(len(filled))
    extent[filled] = axis.width(rank[first], rank[last])
    return measure, axis.width(rank[lo], rank[hi]) + axis.point, extent
