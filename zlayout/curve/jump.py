"""Test whether a z-address is in a query box, and find the next one that is.

Source: H. Tropf and H. Herzog, "Multidimensional range search in dynamically balanced trees", Angewandte Informatik
2/1981, pp. 71-77. Their BIGMIN is `next_jump_in`.

In every function, `zmin` and `zmax` are the z-addresses of the lowest and the highest corner of the box, inclusive.
`schedule` is the column of each bit, the most significant bit first, as in `zlayout.curve.zorder`. None means two
columns in turn. The results do not depend on which number each column has. Z-addresses are int64 (at most 63 bits) or
Python ints in an object array (any length).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zlayout.curve.tree import Bool
from zlayout.curve.zorder import LONG_BITS

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


def corner_masks(zmin: int, zmax: int, schedule: Sequence[int] | None = None) -> tuple[list[int], int]:
    """The mask of the bits of each column in a z-address, and the number of bits (at most 63).

    Raises:
        ValueError: for corners as in `is_relevant`.
    """
    bits = _schedule(zmin, zmax, np.zeros(0, np.int64), schedule)
    return _masks(bits), len(bits)


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
    """Check corners and z-addresses. Return the schedule; the default one has as many bits as they need."""
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
