"""Water filling: divide a total number of bits (log2 of slices) among columns of different importance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


def fill(total: Float64, importance: Float64, caps: Float64) -> Float64:
    """Bits for each column: `level + importance`, limited to 0..cap, with the level at which they sum to `total`.

    The sum is piecewise linear in the level, with kinks where a column reaches 0 or its cap. The piece that contains
    `total` is found, and the level interpolated. kd trees are built from the results, so that a different order of the
    floating-point operations would be a different layout.

    Args:
        total: float64[P], at least 0.
        importance: float64[d] or float64[P, d], log2 of how much a column gains from being sliced.
        caps: float64[P, d], at least 0. Where they sum to less than `total`, each column gets its cap.

    Returns:
        float64[P, d].
    """
    kinks = np.sort(np.concatenate((np.zeros_like(caps) - importance, caps - importance), axis=1), axis=1)
    filled = _filled(kinks, importance, caps)
    above = np.minimum(np.maximum((filled < total[:, None]).sum(axis=1), 1), kinks.shape[1] - 1)
    row = np.arange(len(total))
    low, high, below, up_to = kinks[row, above - 1], kinks[row, above], filled[row, above - 1], filled[row, above]
    rise = up_to - below
    level = low + (high - low) * (total - below) / np.where(rise > 0, rise, 1.0)
    level = np.where((rise > 0) & (up_to >= total), level, high)
    bits: Float64 = np.minimum(np.maximum(level[:, None] + importance, 0.0), caps)
    return bits


def _filled(levels: Float64, importance: Float64, caps: Float64) -> Float64:
    """float64[P, k]: the sum of bits at each of k levels, added column by column in order."""
    filled = np.zeros_like(levels)
    for column in range(caps.shape[1]):
        filled += np.minimum(np.maximum(levels + importance[..., column, None], 0.0), caps[:, column, None])
    return filled
