"""Convert file bounds to dense integer ranks, so that the metrics do not depend on the type of the column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from zlayout.table.axis import Axis, axis_and_ranks
from zlayout.table.state import ColumnBounds, Int64


@dataclass(frozen=True, slots=True)
class Ranked:
    """The closed intervals [lo, hi] of N files as ranks among the R distinct bounds.

    Attributes:
        lo: int64[N], the rank of the lower bound, at least 0; 0 if it is missing.
        hi: int64[N], the rank of the upper bound, from lo to R - 1; R - 1 (or 0 if R is 0) if it is missing. It is -1
            for a file without a value (all null), which no query touches.
        open_lo: bool[N], whether the lower bound is missing.
        open_hi: bool[N], whether the upper bound is missing.
        axis: The values of the ranks, to measure distances.
    """

    lo: Int64
    hi: Int64
    open_lo: NDArray[np.bool_]
    open_hi: NDArray[np.bool_]
    axis: Axis

    def __len__(self) -> int:
        return len(self.lo)

    @property
    def empty(self) -> NDArray[np.bool_]:
        """bool[N]: the files without a value of this column."""
        return self.lo > self.hi

    @property
    def unbounded(self) -> int:
        """The number of files that have a value and an open bound."""
        return int(((self.open_lo | self.open_hi) & ~self.empty).sum())


def rank_bounds(bounds: ColumnBounds, rows: Int64) -> Ranked:
    """Rank the bounds of one column.

    NaN counts as a missing bound, and -0.0 equals 0.0. If the lower bound is above the upper bound, both count as
    missing. Truncated bounds are used as they are, because the lower one is rounded down and the upper one up.

    Args:
        bounds: the bounds of N files.
        rows: int64[N], the number of rows of each file, to find the files that are null in every row.

    Raises:
        TableError: ZL109 for a type without an order.
    """
    known_lo, known_hi = _known(bounds.lower), _known(bounds.upper)
    values = pa.concat_arrays([_filter(bounds.lower, known_lo), _filter(bounds.upper, known_hi)])
    axis, ranks = axis_and_ranks(values)
    split = int(known_lo.sum())
    lo = np.zeros(len(rows), np.int64)
    hi = np.full(len(rows), max(len(axis) - 1, 0), np.int64)
    lo[known_lo], hi[known_hi] = ranks[:split], ranks[split:]
    inverted = lo > hi
    open_lo, open_hi = ~known_lo | inverted, ~known_hi | inverted
    empty = (bounds.null_count >= rows) & (rows >= 0) & ~(known_lo & known_hi)
    lo[inverted | empty] = 0
    hi[inverted] = max(len(axis) - 1, 0)
    hi[empty] = -1
    return Ranked(lo, hi, open_lo, open_hi, axis)


def _known(values: pa.Array) -> NDArray[np.bool_]:
    known = values.is_valid().to_numpy(zero_copy_only=False)
    if pt.is_floating(values.type):
        finite = pc.fill_null(pc.invert(pc.is_nan(values)), False)
        known = known & finite.to_numpy(zero_copy_only=False)
    return np.asarray(known, bool)


def _filter(values: pa.Array, known: NDArray[np.bool_]) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values if known.all() else values.filter(pa.array(known))
