"""The joint optimum: touched of each column in a perfect layout by all z-order columns, if these are independent.

It is a reference for decisions and not a floor: touched of correlated columns can be lower. With
frequent values, perhaps no layout reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from zlayout.table.state import Float64


def joint_optimum(
    n_files: ArrayLike,
    weights: Sequence[float],
    distinct: ArrayLike | None = None,
) -> Float64:
    """Touched of each column in an optimal layout by all of them, if they are independent.

    N files with disjoint boxes form 2^b_i slices along column i, with sum b_i = log2 N. An equality query on column i
    opens N / 2^b_i files, and the product of these numbers is N^(d-1). For weights p the optimum is
    b_i = log2(N)/d + log2(p_i) - mean log2(p_j), limited to 0..log2(distinct_i). Bits that one column cannot use are
    distributed over the other columns (water filling).

    Args:
        n_files: number of files, of any shape [...].
        weights: the weights p of the d columns, above 0.
        distinct: number of distinct values, [d] or [..., d]; infinity if it is unknown, 0 if all rows are null. None:
            unknown for every column.

    Returns:
        float64[..., d]; 0 for a column whose rows are all null.

    Raises:
        ValueError: for a weight that is not positive.
    """
    importance = np.asarray(weights, np.float64)
    if not (importance > 0).all():
        raise ValueError(f"expected positive weights, found {list(weights)}")
    count = np.asarray(n_files, np.float64)
    total = np.log2(np.maximum(count, 1.0))
    shape = (*count.shape, len(importance))
    known = np.full(shape, np.inf) if distinct is None else np.broadcast_to(np.asarray(distinct, np.float64), shape)
    caps = np.minimum(np.log2(np.maximum(known, 1.0)), total[..., None]).reshape(-1, len(importance))
    bits = fill(total.reshape(-1), np.log2(importance), caps)
    per_column: Float64 = count[..., None] * np.exp2(-bits.reshape(shape))
    return np.where(known > 0, per_column, 0.0)


def fill(total: Float64, importance: Float64, caps: Float64) -> Float64:
    """The bits of each column: `level + importance`, limited to 0..cap, at the level at which they sum to `total`.

    The sum is piecewise linear in the level, with a kink wherever a column reaches 0 or its cap. The function finds the
    piece that contains `total`, and interpolates the level. kd trees are built from the results, so that another order
    of the floating-point operations could result in another layout.

    Args:
        total: float64[P], at least 0.
        importance: float64[d] or float64[P, d], log2 of the weight of each column.
        caps: float64[P, d], the maximum bits of each column, at least 0. Where they sum to less than `total`, each
            column gets its cap.

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
    """float64[P, k]: the sum of the bits of all columns at each of k levels. The columns are added in their order."""
    filled = np.zeros_like(levels)
    for column in range(caps.shape[1]):
        filled += np.minimum(np.maximum(levels + importance[..., column, None], 0.0), caps[:, column, None])
    return filled
