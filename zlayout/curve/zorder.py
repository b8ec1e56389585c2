"""Compute positions of points on the z-order curve (Morton 1966) and on the Hilbert curve, vectorised over points.

Curve `linear` uses the same functions with another order of the bits that z-order interleaves. The algorithm of the
Hilbert curve is that of J. Skilling, "Programming the Hilbert curve", AIP Conf. Proc. 707 (2004). It converts the
coordinates to the "transposed" index, d words of `bits` bits, whose interleaved bits are the position on the curve.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zlayout.curve.tree import Int64

LONG_BITS = 63  # bits of a position that fit into an int64


def round_robin(widths: Sequence[int], weights: Sequence[float] | None = None) -> tuple[int, ...]:
    """The schedule of a z-order curve: the column of each bit of a position, the most significant bit first.

    Columns take turns in the given order. A column of weight 2**k is k bits ahead of one of weight 1.

    Args:
        widths: the number of bits of each column.
        weights: the weight of each column, above 0; None for equal weights.
    """
    lead = [float(np.log2(w)) for w in weights] if weights is not None else [0.0] * len(widths)
    left = list(widths)
    turns: list[int] = []
    while any(left):
        column = max((c for c in range(len(left)) if left[c]), key=lambda c: (lead[c], -c))
        turns.append(column)
        left[column] -= 1
        lead[column] -= 1.0
    return tuple(turns)


def interleave(coordinates: Sequence[Int64], widths: Sequence[int], schedule: Sequence[int]) -> Int64:
    """Interleave the bits of coordinates to positions of at most 63 bits.

    Args:
        coordinates: int64[n] for each column, 0..2**width-1.
        widths: the number of bits of each column.
        schedule: the column of each bit of a position, the most significant bit first.

    Returns:
        int64[n], the positions.

    Raises:
        ValueError: for more than 63 bits.
    """
    if len(schedule) > LONG_BITS:
        raise ValueError(f"expected at most {LONG_BITS} bits, found {len(schedule)}")
    positions = np.zeros(len(coordinates[0]), np.int64)
    left = list(widths)
    for column in schedule:
        left[column] -= 1
        positions = positions << 1 | (coordinates[column] >> left[column]) & 1
    return positions


def deinterleave(positions: Int64, widths: Sequence[int], schedule: Sequence[int]) -> tuple[Int64, ...]:
    """The inverse of `interleave`: the coordinates of positions, int64[n] for each column."""
    coordinates = [np.zeros(len(positions), np.int64) for _ in widths]
    for turn, column in enumerate(schedule):
        bit = (positions >> (len(schedule) - 1 - turn)) & 1
        coordinates[column] = coordinates[column] << 1 | bit
    return tuple(coordinates)


def width_that_fits(columns: int, wanted: int) -> int:
    """The number of bits per column: `wanted`, or fewer if `columns` columns would need more than 63 bits."""
    return max(1, min(wanted, LONG_BITS // columns))


def hilbert(coordinates: Sequence[Int64], bits: int) -> Int64:
    """int64[n]: the positions of points on the Hilbert curve.

    Args:
        coordinates: for each of d columns int64[n], 0..2**bits-1.
        bits: the number of bits of each column; d * bits is at most 63.
    """
    x = [c.copy() for c in coordinates]
    for level in range(bits - 1, 0, -1):
        for axis in range(len(x)):
            _reflect_or_exchange(x, axis, level)
    for axis in range(1, len(x)):
        x[axis] ^= x[axis - 1]
    flips = np.zeros_like(x[0])
    for level in range(bits - 1, 0, -1):
        flips ^= ((x[-1] >> level) & 1) * ((1 << level) - 1)
    widths = [bits] * len(x)
    return interleave([c ^ flips for c in x], widths, round_robin(widths))


def hilbert_inverse(positions: Int64, columns: int, bits: int) -> tuple[Int64, ...]:
    """The inverse of `hilbert`: the coordinates of positions, int64[n] for each of `columns` columns."""
    widths = [bits] * columns
    x = list(deinterleave(positions, widths, round_robin(widths)))
    gray = x[-1] >> 1
    for axis in range(columns - 1, 0, -1):
        x[axis] ^= x[axis - 1]
    x[0] ^= gray
    for level in range(1, bits):
        for axis in range(columns - 1, -1, -1):
            _reflect_or_exchange(x, axis, level)
    return tuple(x)


def _reflect_or_exchange(x: list[Int64], axis: int, level: int) -> None:
    """Where bit `level` of `axis` is set, invert the lower bits of axis 0. Elsewhere swap those of both axes."""
    low = (1 << level) - 1
    is_set = -((x[axis] >> level) & 1)
    exchanged = (x[0] ^ x[axis]) & low & ~is_set
    x[0] ^= (low & is_set) | exchanged
    if axis:
        x[axis] ^= exchanged
