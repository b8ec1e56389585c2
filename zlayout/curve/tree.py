"""The kd tree from keys to files, to which every curve is converted, and its assembly from levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KdTree:
    """A kd tree. Each node compares one column with one threshold, and each leaf belongs to a file.

    Node 0 is the root. A tree without nodes is the single leaf 0. Several cells of a z-order or Hilbert curve may share
    a leaf. Leaves are numbered along the curve, so that the leaves of one file are adjacent.

    Attributes:
        column: int32[nodes], the column that the node compares.
        threshold: int64[nodes], an ordinal of this column. A row goes left if its ordinal is below the threshold, so
            that null (-1) always goes left.
        left: int32[nodes], the left child: a later node, or ~leaf, which is negative.
        right: int32[nodes], the right child, in the same form.
        file: int32[leaves], the file of the leaf, or the first one of several.
        spread: int32[leaves], the number of consecutive files over which the rows of the leaf are distributed by a hash
            of the row. It is 1 unless noise is on and the leaf is one key with more rows than two files.
        rows: float64[files], the number of rows of the sample in each file.
        low: int64[files, columns], the lowest ordinal of these rows that is not null; above `high` if there is none.
            int64[0, columns] if the tree is built in two levels.
        high: int64[files, columns], the highest ordinal of these rows, in the same form.
        oversized: int32[k], the files with one indivisible key that has more rows than two files.
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


@dataclass(frozen=True, slots=True)
class Level:
    """The parts of one level of growing trees. The next level has the left sides of all split parts, then the right.

    Attributes:
        split: bool[parts], whether the part is split. The other parts are leaves.
        column: int64[split parts], as in `KdTree`.
        threshold: int64[split parts], as in `KdTree`.
        spread: int64[parts], as in `KdTree`.
        begins: int64[n], the parts at which files begin: those that are one file, and those that are one key.
        files: int64[n], the number of files of each.
        rows: float64[n], the number of rows in each of these files.
        low: int64[n, columns], as in `KdTree`.
        high: int64[n, columns], as in `KdTree`.
        is_oversized: bool[n], whether the file is oversized.
    """

    split: Bool
    column: Int64
    threshold: Int64
    spread: Int64
    begins: Int64
    files: Int64
    rows: Float64
    low: Int64
    high: Int64
    is_oversized: Bool


def join_levels(levels: Sequence[Level]) -> tuple[KdTree, Int32]:
    """Assemble the trees whose levels, beginning with the roots, are given.

    Returns:
        The arrays of all trees, one after another, each in depth-first order; and int32[trees], the root of each tree:
        a node, or ~leaf.
    """

    def joined(name: str) -> Any:
        return np.concatenate([getattr(level, name) for level in levels])

    numbers = _numbers(levels)
    references = [np.where(s.split, n[:, 0], ~n[:, 1]).astype(np.int32) for s, n in zip(levels, numbers, strict=True)]
    sides = np.concatenate([np.zeros((2, 0), np.int32), *(r.reshape(2, -1) for r in references[1:])], axis=1)
    number, split = np.concatenate(numbers), joined("split")
    by_node, by_leaf = np.argsort(number[split, 0]), np.argsort(number[~split, 1])
    file = np.concatenate([n[level.begins, 2] for level, n in zip(levels, numbers, strict=True)])
    by_file = np.argsort(file)
    each_file = np.repeat(by_file, joined("files")[by_file])
    tree = KdTree(
        column=joined("column")[by_node].astype(np.int32),
        threshold=joined("threshold")[by_node],
        left=sides[0][by_node],
        right=sides[1][by_node],
        file=number[~split, 2][by_leaf].astype(np.int32),
        spread=joined("spread")[~split][by_leaf].astype(np.int32),
        rows=joined("rows")[each_file],
        low=joined("low")[each_file],
        high=joined("high")[each_file],
        oversized=np.sort(file[joined("is_oversized")]).astype(np.int32),
    )
    return tree, references[0]


def _numbers(levels: Sequence[Level]) -> list[Int64]:
    """int64[parts, 3] for each level: the numbers of the first node, leaf and file in the subtree of each part."""
    counts: list[Int64] = []
    for level in reversed(levels):
        count = np.stack((level.split, ~level.split, np.zeros_like(level.split)), axis=1).astype(np.int64)
        count[level.begins, 2] = level.files
        if level.split.any():
            left, right = np.split(counts[-1], 2)
            count[level.split] += left + right
        counts.append(count)
    first = [np.cumsum(counts[-1], axis=0) - counts[-1]]
    for level, count in zip(levels[:-1], reversed(counts[:-1]), strict=True):
        begin = first[-1][level.split] + np.array([1, 0, 0])
        first.append(np.concatenate((begin, begin + count[: len(begin)])))
    return first
