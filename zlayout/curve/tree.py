"""The kd tree from keys to files, to which every curve is converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KdTree:
    """A kd tree. Each node compares one column with one threshold; each leaf belongs to a file.

    Node 0 is the root. A tree without nodes is the single leaf 0. Several cells of a z-order or Hilbert curve may share
    a leaf. Leaves are numbered along the curve, so that the leaves of one file are adjacent.

    column: int32[nodes]. threshold: int64[nodes], an ordinal of that column. A row goes left if its ordinal is below
    it, so that null (-1) always goes left. left, right: int32[nodes], a later node, or ~leaf if negative.
    file: int32[leaves], the (first) file of the leaf. spread: int32[leaves], the number of consecutive files over which
    the rows of the leaf are distributed by a hash of the row. It is 1 unless noise is on and the leaf is one key with
    more rows than two files.

    The rest describes the sample. rows: float64[files]. low, high: int64[files, columns], the bounding box of the
    ordinals without nulls (low > high if all are null); int64[0, columns] if the tree is of two levels. oversized:
    int32[k], the files with one indivisible key that has more rows than two files.
    """

    column: Int32
    threshold: Int64
    left: Int32
    right: Int32
    file: Int32
    spread: Int32
    rows: Float64
    low: Int64
    high: Int64
    oversized: Int32

    @property
    def files(self) -> int:
        return len(self.rows)

    @property
    def depth(self) -> int:
        """The number of comparisons on the longest path from the root to a leaf."""
        level, depth = np.zeros(min(1, len(self.column)), np.int32), 0
        while len(level):
            children = np.concatenate((self.left[level], self.right[level]))
            level, depth = children[children >= 0], depth + 1
        return depth


def locate(tree: KdTree, ordinals: Sequence[Int64]) -> Int32:
    """int32[n]: the leaf of each row. ordinals: int64[n] for each column of the tree, -1 for null."""
    table = np.stack(ordinals)
    leaf = np.zeros(table.shape[1], np.int32)
    if not len(tree.column):
        return leaf
    rows, node = np.arange(table.shape[1]), np.zeros(table.shape[1], np.int32)
    while len(rows):
        goes_left = table[tree.column[node], rows] < tree.threshold[node]
        node = np.where(goes_left, tree.left[node], tree.right[node])
        arrived = node < 0
        leaf[rows[arrived]] = ~node[arrived]
        rows, node = rows[~arrived], node[~arrived]
    return leaf
