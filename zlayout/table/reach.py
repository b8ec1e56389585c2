"""How much of its partition's data each file's interval holds: what `touched` is the sum of, file by file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlayout.table.cells import Cells, Float64, PerCell, before, cut_cells
from zlayout.table.density import estimate_rows
from zlayout.table.ranks import rank_bounds
from zlayout.table.state import FileTable, Int32, Int64
from zlayout.table.sums import sums

NOWHERE = -1  # the point of a file that holds no value


@dataclass(frozen=True, slots=True)
class Reach:
    """One column of N files in P partitions.

    lo, hi: int64[N], first and last point of each file (see `Cells`; NOWHERE for a file without a value). No two
    partitions share a point. share: float64[N], the share of its partition's rows whose value lies in the interval,
    so that touched of a partition is the sum of its files' shares.
    """

    lo: Int64
    hi: Int64
    share: Float64
    _cells: Cells
    _before: Float64
    _through: Float64
    _total: Float64

    @property
    def points(self) -> int:
        return len(self._cells.begun)

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
        """float64[P]: touched of some of the files, bool[N], by themselves. weights: float64[N], rows with a value."""
        cells = self._cells.among(member)
        return touched_in_partitions(cells, estimate_in_partitions(cells, weights))


def reach(files: FileTable, column: str, weights: Float64, partition: Int32, partitions: int) -> Reach:
    """Measure one column. weights: float64[N], rows with a value. partition: int32[N] below `partitions`.

    Raises KeyError for a column whose bounds were not read, TableError ZL109 for a type without an order.
    """
    cells = cut_cells(rank_bounds(files.bounds[column], files.rows), partition, partitions)
    return reach_of(cells, estimate_in_partitions(cells, weights), len(files))


def reach_of(cells: Cells, estimate: PerCell, files: int) -> Reach:
    """estimate: rows in each cell. files: N, of which the cells have those that hold a value."""
    lo, hi = np.full(files, NOWHERE, np.int64), np.full(files, NOWHERE, np.int64)
    lo[cells.file], hi[cells.file] = cells.lo, cells.hi
    points, gaps = estimate
    so_far = before(estimate)
    found = Reach(lo, hi, np.zeros(files), cells, so_far, so_far + points, cells.per_partition(points + gaps))
    found.share[cells.file] = found._between(cells.partition, cells.lo, cells.hi)
    return found


def estimate_in_partitions(cells: Cells, weights: Float64) -> PerCell:
    """float64: rows in each cell. A partition whose files have no rows left counts its files alike."""
    weights = weights[cells.file]
    total = sums(cells.partition, len(cells.start) - 1, weights)
    empty = ~(total > 0)
    if empty.any():
        weights[empty[cells.partition]] = 1.0
    return estimate_rows(cells, weights)


def touched_in_partitions(cells: Cells, estimate: PerCell) -> Float64:
    """float64[P]: files that an equality query opens. estimate: rows in each cell."""
    points, gaps = estimate
    on_points, on_gaps = cells.coverage
    met = cells.per_partition(points * on_points + gaps * on_gaps)
    return np.divide(met, cells.per_partition(points + gaps), out=np.zeros(len(met)), where=met > 0)
