"""The distribution of one column over its ordinals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zlayout.curve.tree import Float64, Int64


@dataclass(frozen=True, slots=True)
class Marginal:
    """The distribution of one column, whose nulls have the ordinal -1.

    Attributes:
        below: float64[distinct + 1]; entry k + 1 is the number of rows whose ordinal is below k.
        up_to: float64[distinct + 1]; entry k + 1 is the number of rows whose ordinal is at most k.
        total: The number of rows.
    """

    below: Float64
    up_to: Float64
    total: float

    @property
    def filled(self) -> float:
        """The number of rows that are not null."""
        return self.total - float(self.up_to[0])

    @staticmethod
    def of(ordinals: Int64) -> Marginal:
        """The distribution of n rows. ordinals: int64[n], dense, -1 for null."""
        rows = np.cumsum(np.bincount(ordinals + 1, minlength=1)).astype(np.float64)
        return Marginal(np.concatenate(([0.0], rows[:-1])), rows, float(rows[-1]))

    def between(self, low: Int64, high: Int64) -> Float64:
        """float64[n]: the number of rows from the ordinal `low` to the ordinal `high`, int64[n]; 0 if low > high."""
        inside, some = np.zeros(len(low)), low <= high
        inside[some] = self.up_to[high[some] + 1] - self.below[low[some] + 1]
        return inside
