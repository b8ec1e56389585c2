"""Files grouped by class (partition, group or candidate): sums and hulls over the files of each, without a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlayout.planner.partitions import Bools, Floats, Index
from zlayout.table.order import order_of
from zlayout.table.reach import NOWHERE

FAR = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True)
class Classes:
    """Files in the order of their class.

    files: int64[M]. present: int64[K], the classes with files, out of `count`. start: int64[K], where the files of each
    begin.
    """

    files: Index
    present: Index
    start: Index
    count: int

    def of(self, member: Bools) -> Classes:
        """The classes of only those files; member: bool[N]."""
        kept = member[self.files]
        stop = np.append(self.start, len(self.files))
        before = np.concatenate(([0], np.cumsum(kept)))[stop]
        some = before[1:] > before[:-1]
        return Classes(self.files[kept], self.present[some], before[:-1][some], self.count)

    def numbers(self) -> Index:
        """int64[count]: the number of files of each class."""
        return self._spread(np.diff(self.start, append=len(self.files)), 0)

    def sums(self, values: NDArray[Any]) -> Floats:
        """float64[count]: the sum of `values`, [N], over the files of each class."""
        return self._spread(self._each(np.add, values).astype(np.float64, copy=False), 0)

    def hull(self, lo: Index, hi: Index) -> tuple[Index, Index]:
        """int64[count] twice: the smallest `lo` and the largest `hi` of each class, FAR and NOWHERE without files.

        lo, hi: int64[N], NOWHERE for files to ignore.
        """
        first = self._each(np.minimum, np.where(lo == NOWHERE, FAR, lo))
        return self._spread(first, FAR), self._spread(self._each(np.maximum, hi), NOWHERE)

    def _each(self, reduce: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = reduce.reduceat(values[self.files], self.start) if len(self.start) else values[:0]
        return found

    def _spread(self, values: NDArray[Any], missing: int) -> NDArray[Any]:
        whole = np.full(self.count, missing, values.dtype)
        whole[self.present] = values
        return whole


def classes_of(of: Index, count: int, files: Index | None = None) -> Classes:
    """Group files by class.

    of: int64[M] below `count`, the class of each of `files` (int64[M]; None for all, 0..M - 1).
    """
    order = order_of(of) if (of[1:] < of[:-1]).any() else np.arange(len(of))
    ordered = of[order]
    start = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Classes(order if files is None else files[order], ordered[start], start, count)
