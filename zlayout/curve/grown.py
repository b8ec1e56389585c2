"""Numbers the nodes, leaves and files of kd trees that were grown level by level, each tree in depth-first order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlayout.curve.tree import Int32, Int64, KdTree

Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Ends:
    """The parts of a level at which files begin: those that are one file, and those of one key.

    part: int64[n], the part in its level. files: int64[n], their number. rows: float64[n], the rows of each file.
    low, high: int64[n, columns], the bounding box of the ordinals. is_oversized: bool[n].
    """

    part: Int64
    files: Int64
    rows: NDArray[np.float64]
    low: Int64
    high: Int64
    is_oversized: Bool


@dataclass(frozen=True, slots=True)
class Level:
    """The parts of one level. The next level has the left sides of the split parts, then their right sides.

    split: bool[parts]. column, threshold: int64, of the split parts. ends: the files that begin here. spread:
    int64[parts], the number of files of a leaf.
    """

    split: Bool
    column: Int64
    threshold: Int64
    ends: Ends
    spread: Int64


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The subtrees of the parts of a level.

    first: int64[parts, 3], the first node, leaf and file of each. count: int64[parts, 3], their numbers.
    """

    first: Int64
    count: Int64


@dataclass(frozen=True, slots=True)
class Grown:
    """Trees that were grown at the same time. levels: from the roots, at least one. columns: the number of columns."""

    levels: Sequence[Level]
    columns: int

    def tree(self) -> KdTree:
        """The arrays of all trees: the nodes, leaves and files of each tree follow those of the tree before."""
        numbers = self._numbers()
        total = numbers[0].count.sum(axis=0)
        nodes, leaves, files = (int(n) for n in total)
        column, threshold = np.empty(nodes, np.int32), np.empty(nodes, np.int64)
        left, right = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
        leaf_file, leaf_spread = np.empty(leaves, np.int32), np.empty(leaves, np.int32)
        rows = np.empty(files, np.float64)
        low, high = np.empty((files, self.columns), np.int64), np.empty((files, self.columns), np.int64)
        oversized: list[Int64] = [np.zeros(0, np.int64)]
        for depth, (level, number) in enumerate(zip(self.levels, numbers, strict=True)):
            at = number.first[level.split, 0]
            column[at], threshold[at] = level.column, level.threshold
            if len(at):
                below = _references(self.levels[depth + 1], numbers[depth + 1].first)
                left[at], right[at] = below[: len(at)], below[len(at) :]
            end = number.first[~level.split]
            leaf_file[end[:, 1]], leaf_spread[end[:, 1]] = end[:, 2], level.spread[~level.split]
            ends = level.ends
            which = np.repeat(np.arange(len(ends.part)), ends.files)
            file = number.first[ends.part, 2]
            oversized.append(file[ends.is_oversized])
            file = file[which] + np.arange(len(which)) - np.repeat(np.cumsum(ends.files) - ends.files, ends.files)
            rows[file], low[file], high[file] = ends.rows[which], ends.low[which], ends.high[which]
        return KdTree(
            column=column,
            threshold=threshold,
            left=left,
            right=right,
            file=leaf_file,
            spread=leaf_spread,
            rows=rows,
            low=low,
            high=high,
            oversized=np.sort(np.concatenate(oversized)).astype(np.int32),
        )

    def roots(self) -> Int32:
        """int32[trees]: the node at which each tree begins, or ~leaf of a tree without nodes."""
        return _references(self.levels[0], self._numbers()[0].first)

    def _numbers(self) -> list[_Numbers]:
        """Count the subtrees from the last level up, then number them from the roots down."""
        counts: list[Int64] = []
        for level in reversed(self.levels):
            count = np.zeros((len(level.split), 3), np.int64)
            count[:, 0], count[:, 1] = level.split, ~level.split
            count[level.ends.part, 2] = level.ends.files
            if level.split.any():
                left, right = np.split(counts[-1], 2)
                count[level.split] += left + right
            counts.append(count)
        counts.reverse()
        first = np.cumsum(counts[0], axis=0) - counts[0]
        numbers = [_Numbers(first, counts[0])]
        for level, count in zip(self.levels[:-1], counts[1:], strict=True):
            begin = first[level.split] + np.array([1, 0, 0])
            first = np.concatenate((begin, begin + count[: len(begin)]))
            numbers.append(_Numbers(first, count))
        return numbers


def _references(level: Level, first: Int64) -> Int32:
    """int32[parts]: how a node refers to each part of a level, by its node or as ~leaf."""
    return np.where(level.split, first[:, 0], ~first[:, 1]).astype(np.int32)
