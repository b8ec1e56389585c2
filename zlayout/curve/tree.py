"""A k-d tree from keys to files: the one form in which every curve says which row goes to which file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class KdTree:
    """Nodes compare one column with one threshold; leaves lead to files.

    column: int32[nodes]. threshold: int64[nodes], an ordinal of that column; a row goes left when its ordinal is
    below it, so null (-1) always goes left. left, right: int32[nodes], a later node, or ~leaf where negative. Node 0
    is the root; a tree without nodes is the single leaf 0. Several cells of a z-order or Hilbert curve may lead to
    the same leaf. Leaves are numbered along the curve: neighbours are near, and the leaves of one file are adjacent.

    file: int32[leaves], the leaf's (first) file. spread: int32[leaves], over how many files from there on the rows
    of the leaf are spread by a hash of the row; 1 unless one key is larger than two files and noise is on.

    What the sample had in each file, for predictions: rows: float64[files]; low, high: int64[files, columns], the
    ordinals' bounding box without nulls (low > high where all are null). oversized: int32[k], files that hold
    one indivisible key larger than two files.
    """

    column: Int32
    threshold: Int64
    left: Int32
    right: Int32
    file: Int32
    spread: Int32
    rows: NDArray[np.float64]
    low: Int64
    high: Int64
    oversized: Int32

    @property
    def files(self) -> int:
        return len(self.rows)

    @property
    def depth(self) -> int:
        """The number of comparisons on the longest way from the root to a leaf."""
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
