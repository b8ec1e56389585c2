"""Find the best cut of a part of the sample.

The gain of a cut is the number of rows that the queries no longer read, according to the bounding boxes of both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zlayout.advisor.model import Bools, Float64
from zlayout.curve.cuts import Cuts, divide_files
from zlayout.curve.order import Ranked
from zlayout.predicate.model import Predicate
from zlayout.predicate.prune import may_match
from zlayout.table.state import ColumnBounds, Int64


@dataclass(frozen=True, slots=True)
class BestCut:
    """The best cut of one part.

    Attributes:
        cut: The index of the cut among the candidates.
        gain: The number of sampled rows that the queries no longer read, each times the weight of the query.
        left_files: The number of files on the left side.
    """

    cut: int
    gain: float
    left_files: int


@dataclass(frozen=True, slots=True)
class CutGains:
    """The candidates and the queries, from which the best cut of each part is found.

    Attributes:
        names: The columns of the sample.
        ranked: Each column of the sample as ordinals, together with the values of the candidates.
        cuts: The candidates.
        predicates: The predicates of the queries.
        weights: float64[predicates, partitions], the weight of the queries that read a partition with a predicate.
    """

    names: Sequence[str]
    ranked: Sequence[Ranked]
    cuts: Cuts
    predicates: Sequence[Predicate]
    weights: Float64

    def best(self, ordinals: Int64, files: int, partition: int, file_rows: float) -> BestCut | None:
        """Return the cut after which the queries read the fewest rows of a part.

        Args:
            ordinals: int64[columns, n], the sampled rows of the part.
            files: The number of files of the part.
            partition: The partition of the part.
            file_rows: The number of sampled rows of an average file.

        Returns:
            The cut; None if no cut leaves enough rows for whole files on both sides.
        """
        count = ordinals.shape[1]
        none = np.zeros(0, np.int64)
        # The first box is the whole part. Two boxes follow for each cut.
        numbers, sides, rows, boxes = [none], [none], [np.array([count])], [_boxes(ordinals, np.zeros(1, np.int64))[1]]
        for column in np.unique(self.cuts.column).tolist():
            order = np.argsort(ordinals[column], kind="stable")
            sorted_rows = ordinals[:, order]
            own = np.flatnonzero(self.cuts.column == column)
            left = np.searchsorted(sorted_rows[column], self.cuts.threshold[own])
            left_files, valid = divide_files(left, count, files, file_rows)
            own, left = own[valid], left[valid]
            if len(own):
                numbers.append(own)
                sides.append(left_files[valid])
                rows.append(np.stack((left, count - left), axis=1).ravel())
                boxes.append(np.stack(_boxes(sorted_rows, left), axis=1).reshape(-1, 3, len(self.names)))
        number = np.concatenate(numbers)
        if not len(number):
            return None
        size = np.concatenate(rows)
        read = self.weights[:, partition] @ (self._hits(np.concatenate(boxes), size) * size)
        gain = read[0] - (read[1::2] + read[2::2])
        best = int(np.argmax(np.round(gain, 6)))
        return BestCut(int(number[best]), float(gain[best]), int(np.concatenate(sides)[best]))

    def _hits(self, boxes: Int64, rows: Int64) -> Bools:
        """Return whether each box may contain matching rows, bool[predicates, boxes]. rows: those of each box."""
        bounds = {}
        for column, (name, ranked) in enumerate(zip(self.names, self.ranked, strict=True)):
            low, high, nulls = boxes[:, :, column].T
            empty = high < 0
            lower, upper = (ranked.distinct.take(pa.array(side, mask=empty)) for side in (low, high))
            bounds[name] = ColumnBounds(lower, upper, nulls, np.zeros(len(boxes), bool))
        return np.stack([may_match(predicate, bounds, rows) for predicate in self.predicates])


def _boxes(ordinals: Int64, left: Int64) -> tuple[Int64, Int64]:
    """Return the bounding boxes of the first `left` rows of a part and of the others, for k ways to divide it.

    Returns:
        int64[k, 3, columns] twice: the lowest ordinal, the highest (-1 if all rows are null), and the number of nulls.
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
