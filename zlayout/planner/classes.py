"""Group files by class (partition, group or candidate) and reduce columns over each class without a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlayout.planner.partitions import Bools, Floats, Index
from zlayout.table.order import order_of
from zlayout.table.reach import NO_POINT

# The lower end of the hull of a class without points. It is above every point.
NO_LOWER_BOUND = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True)
class Classes:
    """M files sorted by class. K of the `count` classes have files.

    Attributes:
        files: int64[M], indices of files, sorted by class.
        present: int64[K], the classes that have files, ascending.
        start: int64[K], the position in `files` where each of these classes begins.
        count: The number of classes, including those without files.
    """

    files: Index
    present: Index
    start: Index
    count: int

    def of(self, member: Bools) -> Classes:
        """Return the classes with only those files for which `member` (bool[N], of all N files) is true."""
        kept = member[self.files]
        stop = np.append(self.start, len(self.files))
        before = np.concatenate(([0], np.cumsum(kept)))[stop]
        some = before[1:] > before[:-1]
        return Classes(self.files[kept], self.present[some], before[:-1][some], self.count)

    def numbers(self) -> Index:
        """Return the number of files per class, int64[count]."""
        return self._spread(np.diff(self.start, append=len(self.files)), 0)

    def sums(self, values: NDArray[Any]) -> Floats:
        """Return the sum of `values` ([N], one per file) per class, float64[count]."""
        return self._spread(self._each(np.add, values).astype(np.float64, copy=False), 0)

    def hull(self, lo: Index, hi: Index) -> tuple[Index, Index]:
        """Return the hull of each class: the smallest `lo` and the largest `hi` of its files.

        Args:
            lo, hi: int64[N], the first and the last point of each file; NO_POINT for files without a value, which are
                ignored.

        Returns:
            int64[count] each; NO_LOWER_BOUND and NO_POINT for a class without points.
        """
        first = self._each(np.minimum, np.where(lo == NO_POINT, NO_LOWER_BOUND, lo))
        return self._spread(first, NO_LOWER_BOUND), self._spread(self._each(np.maximum, hi), NO_POINT)

    def _each(self, reduce: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = reduce.reduceat(values[self.files], self.start) if len(self.start) else values[:0]
        return found

    def _spread(self, values: NDArray[Any], missing: int) -> NDArray[Any]:
        whole = np.full(self.count, missing, values.dtype)
        whole[self.present] = values
        return whole


def classes_of(of: Index, count: int, files: Index | None = None) -> Classes:
    """Group files by class.

    Args:
        of: int64[M], the class of each file, below `count`.
        count: The number of classes.
        files: int64[M], the indices of the files; None for 0..M - 1.
    """
    order = order_of(of) if (of[1:] < of[:-1]).any() else np.arange(len(of))
    ordered = of[order]
    start = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Classes(order if files is None else files[order], ordered[start], start, count)
