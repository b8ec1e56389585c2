"""The Hilbert curve in d dimensions, vectorised over points.

Algorithm: J. Skilling, "Programming the Hilbert curve", AIP Conf. Proc. 707 (2004). Coordinates are converted in place
to the "transposed" index, d words of `bits` bits, whose interleaved bits are the position on the curve.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zlayout.curve.zorder import deinterleave, interleave, round_robin

Int64 = NDArray[np.int64]


def hilbert(coordinates: Sequence[Int64], bits: int) -> Int64:
    """int64[n]: positions on the curve. coordinates: d arrays int64[n] of 0..2**bits-1; d * bits is at most 63."""
    x = [c.copy() for c in coordinates]
    for level in range(bits - 1, 0, -1):
        low = (1 << level) - 1
        for axis in range(len(x)):
            _reflect_or_exchange(x, axis, level, low)
    for axis in range(1, len(x)):
        x[axis] ^= x[axis - 1]
    flips = np.zeros_like(x[0])
    for level in range(bits - 1, 0, -1):
        flips ^= ((x[-1] >> level) & 1) * ((1 << level) - 1)
    widths = [bits] * len(x)
    return interleave([c ^ flips for c in x], widths, round_robin(widths))


def hilbert_inverse(positions: Int64, columns: int, bits: int) -> tuple[Int64, ...]:
    """The inverse of `hilbert`: coordinates, int64[n] for each of `columns` columns."""
    widths = [bits] * columns
    x = list(deinterleave(positions, widths, round_robin(widths)))
    gray = x[-1] >> 1
    for axis in range(columns - 1, 0, -1):
        x[axis] ^= x[axis - 1]
    x[0] ^= gray
    for level in range(1, bits):
        low = (1 << level) - 1
        for axis in range(columns - 1, -1, -1):
            _reflect_or_exchange(x, axis, level, low)
    return tuple(x)


def _reflect_or_exchange(x: list[Int64], axis: int, level: int, low: int) -> None:
    """If bit `level` of the axis is set, invert the low bits of axis 0, else swap the low bits of both."""
    is_set = -((x[axis] >> level) & 1)
    exchanged = (x[0] ^ x[axis]) & low & ~is_set
    x[0] ^= (low & is_set) | exchanged
    if axis:
        x[axis] ^= exchanged
