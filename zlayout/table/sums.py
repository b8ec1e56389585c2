"""Counts, sums and maxima per class, for example over the files of each partition.

In every function, `of` is the class of each item, an integer from 0 to `number` - 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlayout.table.state import Float64, Int64


def counts(of: NDArray[np.integer[Any]], number: int) -> Int64:
    """int64[number]: the number of items of each class."""
    if number == 1:
        return np.array([len(of)])
    return np.bincount(of, minlength=number)


def sums(of: NDArray[np.integer[Any]], number: int, values: NDArray[Any]) -> Float64:
    """float64[number]: the sum of `values`, one for each item, in each class.

    For a single class, `sum` is ten times as fast as `bincount`, in which each addition depends on the previous one.
    """
    if number == 1:
        return np.array([values.sum()], np.float64)
    return np.bincount(of, values, number).astype(np.float64, copy=False)  # without values it returns integers


def maxima(of: NDArray[np.integer[Any]], number: int, values: Int64) -> Int64:
    """int64[number]: the largest of `values`, one for each item, in each class. It is 0 if none is above 0."""
    largest = np.zeros(number, np.int64)
    np.maximum.at(largest, of, values)
    return largest
