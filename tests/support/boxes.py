"""The boxes of the files that a file map makes of a sample, and touched in these boxes, counted from the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from zlayout.curve.layout import FileMap
from zlayout.curve.tree import Int32, Int64, KdTree, Marginal, rank


def boxes_of(tree: KdTree, leaf: Int32, ordinals: Sequence[Int64]) -> tuple[Int64, Int64]:
    """int64[files, columns] twice: the lowest and the highest ordinal that is not null; 0 and -1 if there is none.

    Args:
        tree: The tree.
        leaf: int32[n], the leaf of each row.
        ordinals: For each column int64[n], -1 for null. A leaf that is spread over files has one box.
    """
    file = tree.file[leaf]
    shape = (tree.files, len(ordinals))
    low, high = np.full(shape, np.iinfo(np.int64).max), np.full(shape, -1)
    for column, values in enumerate(ordinals):
        known = values >= 0
        np.minimum.at(low[:, column], file[known], values[known])
        np.maximum.at(high[:, column], file[known], values[known])
    first = np.arange(tree.files)
    for start, number in zip(tree.file.tolist(), tree.spread.tolist(), strict=True):
        first[start : start + number] = first[start]
    return np.where(high < 0, 0, low)[first], high[first]


def touched_of(built: FileMap, sample: Mapping[str, pa.Array]) -> dict[str, float]:
    """For each column the expected number of files whose range has a value that is drawn from the sample.

    Nulls are not drawn.
    """
    ordinals = [rank(sample[name]).ordinals for name in built.columns]
    low, high = boxes_of(built.tree, built.leaves(sample), ordinals)
    found = {}
    for column, (name, values) in enumerate(zip(built.columns, ordinals, strict=True)):
        rows = Marginal.of(values)
        filled = rows.total - float(rows.up_to[0])
        found[name] = float(rows.between(low[:, column], high[:, column]).sum() / filled) if filled else 0.0
    return found
