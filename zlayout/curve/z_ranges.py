"""Query boxes on the z-order curve: which z-addresses they contain, and the z-ranges that cover them.

`is_relevant` and `next_jump_in` test z-addresses, and `meets_box` tests files. `z_ranges` computes the ranges that a
key-value store or an external index scans. Its decomposition into cells of the z-order curve is that of J. A. Orenstein
and T. H. Merrett, "A class of data structures for associative searching", PODS 1984.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zlayout.curve.tree import Bool, Int64
from zlayout.curve.zorder import LONG_BITS

# Tests of z-addresses.
#
# Source: H. Tropf and H. Herzog, "Multidimensional range search in dynamically balanced trees", Angewandte Informatik
# 2/1981, pp. 71-77. Their BIGMIN is `next_jump_in`.
#
# In every function, `zmin` and `zmax` are the z-addresses of the lowest and the highest corner of the box, inclusive.
# `schedule` is the column of each bit, the most significant bit first, as in `zlayout.curve.zorder`. None means two
# columns in turn. The results do not depend on which number each column has. Z-addresses are int64 (at most 63 bits) or
# Python ints in an object array (any length).


Positions = NDArray[Any]  # int64, or Python ints of any length in an object array
NONE = -1  # the result where there is no z-address


def is_relevant(zmin: int, zmax: int, z: ArrayLike, schedule: Sequence[int] | None = None) -> Bool:
    """Return whether each z-address is in a query box.

    Args:
        zmin: the z-address of the lowest corner of the box, inclusive.
        zmax: the z-address of the highest corner, inclusive.
        z: z-addresses of any shape, int64 or Python ints in an object array.
        schedule: the column of each bit, the most significant bit first; None for two columns in turn.

    Returns:
        bool, of the shape of `z`.

    Raises:
        ValueError: for an address outside the schedule, and for a zmin above zmax in some column.
    """
    z = _positions(z)
    bits = _schedule(zmin, zmax, z, schedule)
    inside: Bool = np.ones(z.shape, np.bool_)
    for mask in _masks(bits):
        own = z & mask
        inside &= (own >= (zmin & mask)) & (own <= (zmax & mask))
    return inside


def next_jump_in(zmin: int, zmax: int, z: ArrayLike, schedule: Sequence[int] | None = None) -> Positions:
    """Return, for each z-address, the lowest one in the box that is greater (BIGMIN by Tropf and Herzog).

    For example, next_jump_in(11, 37, 16) is 33. One pass over the bits, from the most significant one, applies the
    decision table of the paper to all z-addresses at once. `lowest` and `highest` are the corners of the part of the
    box in which the result can be.

    Args:
        zmin: the z-address of the lowest corner of the box, inclusive.
        zmax: the z-address of the highest corner, inclusive.
        z: z-addresses of any shape, inside or outside the box, int64 or Python ints in an object array.
        schedule: the column of each bit, the most significant bit first; None for two columns in turn.

    Returns:
        Z-addresses of the shape of `z`, int64 or Python ints as in `z`; -1 where the box has no greater one.

    Raises:
        ValueError: for an address outside the schedule, and for a zmin above zmax in some column.
    """
    z = _positions(z)
    bits = _schedule(zmin, zmax, z, schedule)
    masks = _masks(bits)
    found, lowest, highest = (np.full_like(z, start) for start in (NONE, zmin, zmax))
    searching = np.ones(z.shape, np.bool_)
    for turn, column in enumerate(bits):
        bit = 1 << (len(bits) - 1 - turn)
        below = masks[column] & (bit - 1)
        here, low, high = ((word & bit) != 0 for word in (z, lowest, highest))
        # (z, lowest, highest) is 0 0 1: the start of the upper half is a candidate; the lower half may have a lower one
        fork = searching & ~here & ~low & high
        found = np.where(fork, lowest & ~below | bit, found)
        highest = np.where(fork, highest & ~bit | below, highest)
        # 0 1 1: the whole remaining part of the box is above z, and the result is its lowest corner
        above = searching & ~here & low
        found = np.where(above, lowest, found)
        # 1 0 1: only the upper half can contain the result, unless it is the candidate
        lowest = np.where(searching & here & ~low & high, lowest & ~below | bit, lowest)
        # 1 0 0: the whole remaining part of the box is below z, and the result is the last candidate
        searching &= ~above & ~(here & ~high)
    return found


def meets_box(first: ArrayLike, last: ArrayLike, zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> Bool:
    """Return whether each closed interval of z-addresses contains a point of a query box.

    A reader with an index of z-addresses opens exactly the files for which this is true. A reader that has min and max
    of each column prunes files as `zlayout.predicate.prune` does.

    Args:
        first: int64[n], the lowest z-address of each file, or Python ints in an object array.
        last: int64[n], the highest z-address of each file, likewise.
        zmin: the z-address of the lowest corner of the box, inclusive.
        zmax: the z-address of the highest corner, inclusive.
        schedule: the column of each bit, the most significant bit first; None for two columns in turn.

    Returns:
        bool[n]; False where first > last.

    Raises:
        ValueError: for an address outside the schedule, and for a zmin above zmax in some column.
    """
    begin, end = _positions(first), _positions(last)
    entry = next_jump_in(zmin, zmax, begin, schedule)
    met: Bool = (entry != NONE) & (entry <= end) | is_relevant(zmin, zmax, begin, schedule)
    return met & (begin <= end)


def count_files(first: ArrayLike, last: ArrayLike, zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> int:
    """Return the number of files for which `meets_box` is true. Arguments and errors are those of `meets_box`."""
    return int(meets_box(first, last, zmin, zmax, schedule).sum())


def _positions(z: ArrayLike) -> Positions:
    array = np.asarray(z)
    if array.dtype == object:
        return array
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"expected whole numbers as z-addresses, found {array.dtype}")
    if array.size and array.dtype.kind == "u" and int(array.max()) >> LONG_BITS:
        raise ValueError(f"expected z-addresses of at most {LONG_BITS} bits, or an object array of Python ints")
    return array.astype(np.int64)


def _schedule(zmin: int, zmax: int, z: Positions, schedule: Sequence[int] | None) -> Sequence[int]:
    lowest, highest = (min(int(z.min()), zmin), max(int(z.max()), zmax)) if z.size else (min(zmin, zmax), zmax)
    if schedule is None:
        schedule = [turn % 2 for turn in range(max(highest.bit_length(), int(zmin).bit_length()))]
    if lowest < 0 or max(highest, zmin) >> len(schedule):
        raise ValueError(f"expected z-addresses of {len(schedule)} bits, found {lowest} to {max(highest, zmin)}")
    if z.dtype != object and len(schedule) > LONG_BITS:
        raise ValueError(f"expected an object array of Python ints for {len(schedule)} bits, found {z.dtype}")
    if any(zmin & mask > zmax & mask for mask in _masks(schedule)):
        raise ValueError(f"expected corners of a box, found {zmin} above {zmax} in some column")
    return schedule


def _masks(schedule: Sequence[int]) -> list[int]:
    masks = [0] * (max(schedule, default=-1) + 1)
    for turn, column in enumerate(schedule):
        masks[column] |= 1 << (len(schedule) - 1 - turn)
    return masks


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
    columns = _schedule(zmin, zmax, np.zeros(0, np.int64), schedule)
    masks, bits = _masks(columns), len(columns)
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
