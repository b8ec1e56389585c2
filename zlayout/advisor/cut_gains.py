"""The gain of each cut of a part: the rows that queries no longer read, by the bounding boxes of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.advisor.model import Bools
from zlayout.curve.cuts import Cuts, divide_files
from zlayout.curve.order import Ranked
from zlayout.predicate.model import Predicate
from zlayout.predicate.prune import may_match
from zlayout.table.state import ColumnBounds, Int64

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BestCut:
    """A cut of one part: its number, the rows that queries no longer read, and the files on its left side."""

    cut: int
    gain: float
    left_files: int


@dataclass(frozen=True, slots=True)
class CutGains:
    """The candidates and the queries. weights: float64[predicates, partitions]."""

    names: Sequence[str]
    ranked: Sequence[Ranked]
    cuts: Cuts
    predicates: Sequence[Predicate]
    weights: Float64

    def best(self, ordinals: Int64, files: int, partition: int, file_rows: float) -> BestCut | None:
        """The cut that saves the most rows of a part. ordinals: int64[columns, n]."""
        count = ordinals.shape[1]
        none = np.zeros(0, np.int64)
        at, sides, rows, boxes = [none], [none], [np.array([count])], [_boxes(ordinals, np.zeros(1, np.int64))[1]]
        for column in np.unique(self.cuts.column).tolist():
            order = np.argsort(ordinals[column], kind="stable")
            sorted_rows = ordinals[:, order]
            mine = np.flatnonzero(self.cuts.column == column)
            left = np.searchsorted(sorted_rows[column], self.cuts.threshold[mine])
            left_files, valid = divide_files(left, count, files, file_rows)
            mine, left = mine[valid], left[valid]
            if len(mine):
                at.append(mine)
                sides.append(left_files[valid])
                rows.append(np.stack((left, count - left), axis=1).ravel())
                boxes.append(np.stack(_boxes(sorted_rows, left), axis=1).reshape(-1, 3, len(self.names)))
        number = np.concatenate(at)
        if not len(number):
            return None
        size = np.concatenate(rows)
        read = self.weights[:, partition] @ (self._hits(np.concatenate(boxes), size) * size)
        gain = read[0] - (read[1::2] + read[2::2])
        most = int(np.argmax(np.round(gain, 6)))
        return BestCut(int(number[most]), float(gain[most]), int(np.concatenate(sides)[most]))

    def _hits(self, boxes: Int64, rows: Int64) -> Bools:
        """bool[predicates, boxes]: whether the bounds of each box may contain rows that match."""
        bounds = {}
        for column, (name, ranked) in enumerate(zip(self.names, self.ranked, strict=True)):
            low, high, nulls = boxes[:, :, column].T
            empty = high < 0
            lower, upper = (ranked.distinct.take(pa.array(side, mask=empty)) for side in (low, high))
            bounds[name] = ColumnBounds(lower, upper, nulls, np.zeros(len(boxes), bool))
        return np.stack([may_match(predicate, bounds, rows) for predicate in self.predicates])


def _boxes(ordinals: Int64, left: Int64) -> tuple[Int64, Int64]:
    """The bounding boxes of the first `left` rows and of the others, for each of k numbers from 0 to n.

    Args:
        ordinals: int64[columns, n], -1 for null.
        left: int64[k].

    Returns:
        int64[k, 3, columns] twice: lowest and highest ordinal without nulls, and the number of nulls. The highest is -1
        if there is no value.
    """
    none, below = np.full((len(ordinals), 1), np.iinfo(np.int64).max), np.full((len(ordinals), 1), -1)
    values: Int64 = np.where(ordinals < 0, none, ordinals)
    nulls: Int64 = np.concatenate((below + 1, np.cumsum(ordinals < 0, axis=1)), axis=1).astype(np.int64)
    low = np.concatenate((none, np.minimum.accumulate(values, axis=1)), axis=1)
    high = np.concatenate((below, np.maximum.accumulate(ordinals, axis=1)), axis=1)
    low_after = np.concatenate((np.minimum.accumulate(values[:, ::-1], axis=1)[:, ::-1], none), axis=1)
    high_after = np.concatenate((np.maximum.accumulate(ordinals[:, ::-1], axis=1)[:, ::-1], below), axis=1)
    before = np.stack((low[:, left], high[:, left], nulls[:, left]))
    after = np.stack((low_after[:, left], high_after[:, left], nulls[:, -1:] - nulls[:, left]))
    return before.transpose(2, 0, 1), after.transpose(2, 0, 1)
