"""The floor of one column: touched that no layout of as many files can go below.

A query for a value with the share s of the rows opens at least max(1, s / r) files, where r is the share of the rows
in the largest file. Drawn by row, the values touch at least `sum s * max(1, s / r)` files. Nothing else about the
layout is used: neither other columns nor correlation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]


def floor_of_shares(shares: Float64, largest: float) -> float:
    """The floor of a column.

    Args:
        shares: float64[k], the share of each value among the rows with a value; they sum to 1 or less. Rows that are
            left out count as rare values.
        largest: the rows of the largest file, as a share of the rows with a value; above 0.
    """
    return float(1.0 + (shares * np.maximum(shares / largest - 1.0, 0.0)).sum())


def min_floor(distinct: Float64, largest: Float64) -> Float64:
    """The lowest floor that a column of at most `distinct` values can have, of any shape.

    `s * max(1, s / r)` is convex in s, so that equal shares give the minimum: `max(1, 1 / (distinct * r))`.

    Args:
        distinct: an upper limit of the number of values; infinity if unknown, 0 for a column without a value.
        largest: the rows of the largest file, as a share of the rows with a value; above 0.
    """
    with np.errstate(divide="ignore"):
        lowest: Float64 = np.maximum(1.0 / (np.maximum(distinct, 1.0) * largest), 1.0)
    return np.where(distinct > 0, lowest, 0.0)
