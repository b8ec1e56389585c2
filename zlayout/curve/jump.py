"""Query boxes on the z-order curve: test whether a z-address is in a box, and find the next one that is.

Source: H. Tropf and H. Herzog, "Multidimensional range search in dynamically balanced trees", Angewandte Informatik
2/1981, pp. 71-77. Their BIGMIN is `next_jump_in`.

In every function `zmin` and `zmax` are the z-addresses of the lowest and the highest corner of the box, inclusive.
`schedule` is the column of each bit, the most significant bit first, as in `zlayout.curve.zorder`; None means two
columns in turn, and bit 0 belongs to the last entry. Exchanging the numbers of two columns has no effect.
Z-addresses are int64 (at most 63 bits) or Python ints in an object array (any length).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zlayout.curve.tree import Bool
from zlayout.curve.zorder import LONG_BITS

Positions = NDArray[Any]  # int64, or Python ints of any length in an object array
NONE = -1  # instead of a z-address


def is_relevant(zmin: int, zmax: int, z: ArrayLike, schedule: Sequence[int] | None = None) -> Bool:
    """Whether z-addresses are in a query box.

    Args:
        zmin: the lowest corner of the box, inclusive.
        zmax: the highest corner.
        z: z-addresses of any shape, int64 or Python ints in an object array.
        schedule: the column of each bit from the top; None for two columns in turn.

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
    """The lowest z-address in the box that is greater than each of `z` (BIGMIN by Tropf and Herzog).

    One pass over the bits from the top applies the decision table of the paper to all addresses at once. `lowest` and
    `highest` are the corners of the part of the box that remains. For example, next_jump_in(11, 37, 16) is 33.

    Args:
        zmin: the lowest corner of the box, inclusive.
        zmax: the highest corner.
        z: z-addresses of any shape, inside or outside the box, int64 or Python ints in an object array.
        schedule: the column of each bit from the top; None for two columns in turn.

    Returns:
        Z-addresses of the shape and dtype of `z`, -1 where the box has no greater one.

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
        # 0 0 1 (z, lowest, highest): the start of the upper half is a candidate; the lower half may have a lower one
        fork = searching & ~here & ~low & high
        found = np.where(fork, lowest & ~below | bit, found)
        highest = np.where(fork, highest & ~bit | below, highest)
        # 0 1 1: the whole remaining box is above z; the result is its lowest corner
        above = searching & ~here & low
        found = np.where(above, lowest, found)
        # 1 0 1: only the upper half can contain the result
        lowest = np.where(searching & here & ~low & high, lowest & ~below | bit, lowest)
        # 1 0 0: the whole remaining box is below z; the result is the last candidate
        searching &= ~above & ~(here & ~high)
    return found


def meets_box(first: ArrayLike, last: ArrayLike, zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> Bool:
    """Whether each closed interval of z-addresses intersects a query box.

    A reader with an index of z-addresses opens exactly the files whose interval intersects the box. A reader that has
    min and max of each column prunes differently: see `zlayout.predicate.prune`.

    Args:
        first: int64[n], the lowest z-address of each file.
        last: int64[n], the highest.
        zmin: the lowest corner of the box, inclusive.
        zmax: the highest corner.
        schedule: the column of each bit from the top; None for two columns in turn.

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
    """The number of files whose z-addresses first..last intersect the box; arguments and errors as in `meets_box`."""
    return int(meets_box(first, last, zmin, zmax, schedule).sum())


def corner_masks(zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> tuple[list[int], int]:
    """The mask of the bits of each column, and the number of bits (at most 63).

    Raises ValueError for invalid corners.
    """
    bits = _schedule(zmin, zmax, np.zeros(0, np.int64), schedule)
    return _masks(bits), len(bits)


def _positions(z: ArrayLike) -> Positions:
    array = np.asarray(z)
    if array.dtype == object:
        return array
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"expected whole numbers as positions, found {array.dtype}")
    if array.size and array.dtype.kind == "u" and int(array.max()) >> LONG_BITS:
        raise ValueError(f"expected positions of at most {LONG_BITS} bits, or an object array of Python ints")
    return array.astype(np.int64)


def _schedule(zmin: int, zmax: int, z: Positions, schedule: Sequence[int] | None) -> Sequence[int]:
    """The schedule, checked against corners and positions. The default schedule has as many bits as they need."""
    lowest, highest = (min(int(z.min()), zmin), max(int(z.max()), zmax)) if z.size else (min(zmin, zmax), zmax)
    if schedule is None:
        schedule = [turn % 2 for turn in range(max(highest.bit_length(), int(zmin).bit_length()))]
    if lowest < 0 or max(highest, zmin) >> len(schedule):
        raise ValueError(f"expected positions of {len(schedule)} bits, found {lowest} to {max(highest, zmin)}")
    if z.dtype != object and len(schedule) > LONG_BITS:
        raise ValueError(f"expected an object array of Python ints for {len(schedule)} bits, found {z.dtype}")
    if any(zmin & mask > zmax & mask for mask in _masks(schedule)):
        raise ValueError(f"expected corners of a box, found {zmin} above {zmax} in some column")
    return schedule


def _masks(schedule: Sequence[int]) -> list[int]:
    """The mask of the bits of each column in a position."""
    masks = [0] * (max(schedule, default=-1) + 1)
    for turn, column in enumerate(schedule):
        masks[column] |= 1 << (len(schedule) - 1 - turn)
    return masks
