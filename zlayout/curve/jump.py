"""A query box on the z-order curve: is a position inside, and where does the curve enter the box next.

H. Tropf and H. Herzog, "Multidimensional range search in dynamically balanced trees", Angewandte Informatik 2/1981,
pp. 71-77. Their BIGMIN is `next_jump_in`.

In every function here `zmin` and `zmax` are the positions of the box's lowest and highest corner, both inside, and
`schedule` names the column of each bit from the top as in `zlayout.curve.zorder`; None means two columns in turn.
Its last bit is bit 0, and only which bits share a column matters, so that with two columns of equal width it is all
one which of them comes first. Positions are int64 (63 bits at most) or Python ints in an object array (any length).
All raise ValueError for a corner or position outside the schedule, and for a zmin above zmax in some column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zlayout.curve.zorder import LONG_BITS

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]
# int64, or Python ints of any length in an object array
Positions = NDArray[Any]
NONE = -1


def is_relevant(zmin: int, zmax: int, z: ArrayLike, schedule: Sequence[int] | None = None) -> Bool:
    """bool, the shape of `z`: whether each position lies in the box."""
    z = _positions(z)
    bits = _schedule(zmin, zmax, z, schedule)
    inside: Bool = np.ones(z.shape, np.bool_)
    for mask in _masks(bits):
        own = z & mask
        inside &= (own >= (zmin & mask)) & (own <= (zmax & mask))
    return inside


def next_jump_in(zmin: int, zmax: int, z: ArrayLike, schedule: Sequence[int] | None = None) -> Positions:
    """The lowest position of the box that is greater than each of `z` (BIGMIN), NONE = -1 where there is none.

    The shape and dtype of `z`. A position may be inside or outside the box. One pass over the bits from the top, with
    the paper's decision table in numpy: `lowest` and `highest` bound that part of the box in which the search goes on.
    next_jump_in(11, 37, 16) is 33.
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
        # 0 0 1: the half above begins at a candidate; a better one may be in the half below
        fork = searching & ~here & ~low & high
        found = np.where(fork, lowest & ~below | bit, found)
        highest = np.where(fork, highest & ~bit | below, highest)
        # 0 1 1: all that is left of the box lies above; its lowest corner is next
        above = searching & ~here & low
        found = np.where(above, lowest, found)
        # 1 0 1: only the half above can hold it
        lowest = np.where(searching & here & ~low & high, lowest & ~below | bit, lowest)
        # 1 0 0: all that is left lies below, and the best candidate stands
        searching &= ~above & ~(here & ~high)
    return found


def meets_box(first: ArrayLike, last: ArrayLike, zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> Bool:
    """bool[n]: whether each closed interval first..last of positions holds a position of the box.

    first, last: int64[n], the lowest and highest z-address of each file. The count of True is the number of files that
    a reader with an index of z-addresses opens for the box, to the position and without drawing points. A reader that
    has min and max of each column opens by those instead: see `zlayout.table`.
    """
    begin, end = _positions(first), _positions(last)
    entry = next_jump_in(zmin, zmax, begin, schedule)
    met: Bool = (entry != NONE) & (entry <= end) | is_relevant(zmin, zmax, begin, schedule)
    return met & (begin <= end)


def count_files(first: ArrayLike, last: ArrayLike, zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> int:
    """How many of the files with z-addresses first..last meet the box; arguments as in `meets_box`."""
    return int(meets_box(first, last, zmin, zmax, schedule).sum())


def corner_masks(zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> tuple[list[int], int]:
    """For each column the bits of a position that are its own, and the number of bits, at most 63. Corners checked."""
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
    """The schedule, checked against corners and positions; the default is as long as they need."""
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
    """For each column the bits of a position that are its own."""
    masks = [0] * (max(schedule, default=-1) + 1)
    for turn, column in enumerate(schedule):
        masks[column] |= 1 << (len(schedule) - 1 - turn)
    return masks
