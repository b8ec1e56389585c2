"""Compute the z-ranges of a query box, which a key-value store or an external index scans.

The decomposition into cells of the z-order curve is that of J. A. Orenstein and T. H. Merrett, "A class of data
structures for associative searching", PODS 1984.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zlayout.curve.jump import corner_masks
from zlayout.curve.tree import Bool, Int64


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Disjoint closed ranges in order. is_cell: whether a range is a grid cell that must be halved further."""

    first: Int64
    last: Int64
    is_cell: Bool

    def gaps(self) -> Int64:
        """int64[n - 1]: the number of z-addresses between each range and the next one."""
        return self.first[1:] - self.last[:-1] - 1

    def join(self, over: Bool) -> _Ranges:
        """Join each range with the next one where `over`, bool[n - 1], is true. Joined ranges must not be cells."""
        starts = np.flatnonzero(np.append(True, ~over))
        ends = np.append(starts[1:], len(self.first)) - 1
        return _Ranges(self.first[starts], self.last[ends], self.is_cell[starts])


def z_ranges(
    zmin: int, zmax: int, schedule: Sequence[int] | None = None, limit: int | None = None
) -> tuple[Int64, Int64]:
    """The smallest set of closed ranges of z-addresses that covers a query box.

    Without a limit, the ranges contain exactly the box. Their number grows with the surface of the box: a box of 2**20
    by 2**20 points may need a million ranges. With a limit, ranges are joined over the smallest gaps between them (of
    equal gaps, the later ones), so that no other cover by as few ranges contains fewer z-addresses.

    The algorithm begins with a cell that contains the whole grid. It halves cells, keeps those inside the box and drops
    those outside. With a limit, it does not halve cells whose gaps cannot be among the largest, so that its time
    depends on the limit and not on the surface of the box.

    Args:
        zmin: the z-address of the lowest corner of the box, inclusive, at most 63 bits.
        zmax: the z-address of the highest corner, inclusive.
        schedule: the column of each bit, the most significant bit first; None for two columns in turn.
        limit: the maximum number of ranges, at least 1; None for as many as needed.

    Returns:
        int64[k] twice, ascending: the first and the last z-address of each range.

    Raises:
        ValueError: for a limit below 1, a corner outside the schedule, or a zmin above zmax in some column.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"expected a limit of at least 1, found {limit}")
    masks, bits = corner_masks(zmin, zmax, schedule)
    found = _Ranges(np.zeros(1, np.int64), np.full(1, (1 << bits) - 1, np.int64), np.ones(1, np.bool_))
    if limit == 1:
        return np.full(1, zmin, np.int64), np.full(1, zmax, np.int64)
    for bit in range(bits, -1, -1):
        found = _compare_with_box(found, zmin, zmax, masks)
        if limit is not None:
            found = _drop_small_gaps(found, limit, 1 << bit)
        done = ~found.is_cell
        found = found.join((found.gaps() == 0) & done[1:] & done[:-1])
        if not found.is_cell.any():
            break
        found = _halve(found, bit)
    if limit is not None:
        found = found.join(_smallest(found.gaps(), len(found.first) - limit))
    # With a limit, the first and the last cell may not be halved completely and extend beyond the corners.
    return np.maximum(found.first, zmin), np.minimum(found.last, zmax)


def _compare_with_box(found: _Ranges, zmin: int, zmax: int, masks: Sequence[int]) -> _Ranges:
    """Drop the cells outside the box. Those inside the box no longer count as cells."""
    outside, inside = np.zeros(len(found.first), np.bool_), np.ones(len(found.first), np.bool_)
    for mask in masks:
        low, high = found.first & mask, found.last & mask
        outside |= (high < (zmin & mask)) | (low > (zmax & mask))
        inside &= (low >= (zmin & mask)) & (high <= (zmax & mask))
    keep = ~(found.is_cell & outside)
    return _Ranges(found.first[keep], found.last[keep], (found.is_cell & ~inside)[keep])


def _halve(found: _Ranges, bit: int) -> _Ranges:
    """Halve each cell. All cells have 2**bit z-addresses."""
    copies = np.where(found.is_cell, 2, 1)
    is_cell = np.repeat(found.is_cell, copies)
    first, last = np.repeat(found.first, copies), np.repeat(found.last, copies)
    second = np.zeros(len(first), np.bool_)
    second[np.cumsum(copies)[found.is_cell] - 1] = True
    half = 1 << (bit - 1)
    return _Ranges(np.where(second, first + half, first), np.where(is_cell & ~second, last - half, last), is_cell)


def _drop_small_gaps(found: _Ranges, limit: int, size: int) -> _Ranges:
    """Join ranges over gaps that cannot be among the `limit` - 1 largest. size: the z-addresses of a cell."""
    gaps = found.gaps()
    if len(gaps) < limit:
        return found
    enough = np.partition(gaps, len(gaps) - limit + 1)[len(gaps) - limit + 1]
    if size > enough:
        return found
    # When cells are halved, a gap between them grows by less than one cell at each end, and a gap that appears inside
    # a cell is smaller than the cell. A cell that is partly in the box never disappears.
    may_count = gaps >= enough - 2 * (size - 1)
    beside = np.append(False, may_count) | np.append(may_count, False)
    is_cell = found.is_cell & beside
    return _Ranges(found.first, found.last, is_cell).join(~may_count & ~is_cell[1:] & ~is_cell[:-1])


def _smallest(gaps: Int64, count: int) -> Bool:
    """Whether each gap is among the `count` smallest ones. Of equal gaps, the later ones count as smaller."""
    chosen = np.zeros(len(gaps), np.bool_)
    if count > 0:
        chosen[len(gaps) - 1 - np.argsort(gaps[::-1], kind="stable")[:count]] = True
    return chosen
