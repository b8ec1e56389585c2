"""Combines the file maps of all shards into one set of arrays, so that one Spark job places the rows of all groups.

The trees of the shards are concatenated, and the range boundaries of each column are merged into one sorted list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.curve.layout import FileMap, join_trees
from zlayout.curve.tree import Int32, Int64

# Up to this number of combinations (shard, range id, range id, ...), a table of their leaves (4 MB) replaces the walk.
MAX_GRID_CELLS = 1 << 20

# The range ids of a row are packed into longs, the words of the row. A node is packed into one long, too. It contains,
# from the lowest bits, the bit at which the range id of its column begins in a word (SHIFT_BITS), the index of the word
# (WORD_BITS), the threshold (`Forest.id_bits`), and the left child. This is enough for 2^26 nodes: the threshold then
# needs at most 27 bits, because there are fewer boundaries than nodes, and 26 bits remain for the left child.
SHIFT_BITS = 6
WORD_BITS = 4
ABOVE_ALL_RANGE_IDS = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Forest:
    """The kd trees of all shards.

    The root of a shard is node 2 * shard. Left children have even numbers, and the right child follows the left one. A
    row goes to the left child if its range id is below the threshold of the node. A leaf is its own left child and has
    a threshold above all range ids, so a walk of `depth` steps ends at a leaf and stays there.

    Attributes:
        boundaries: The sorted range boundaries of each column, of all shards together.
        column, threshold, left: int32[nodes], the column whose range id is compared, the threshold, and the left child.
        file: int32[nodes], the file of a leaf. Files are numbered over all shards.
        leaf: int32[nodes], the number of a leaf within its file, along the curve.
        spread: int32[nodes], as in `KdTree`.
        shards, files: The number of shards, and the number of files of all shards.
        depth: The maximum depth of the trees.
        grid: int32, the leaf of each combination (shard, range id, range id, ...) in row-major order, None if there are
            more than MAX_GRID_CELLS.
    """

    boundaries: tuple[pa.Array, ...]
    column: Int32
    threshold: Int32
    left: Int32
    file: Int32
    leaf: Int32
    spread: Int32
    shards: int
    files: int
    depth: int
    grid: Int32 | None

    @property
    def range_counts(self) -> tuple[int, ...]:
        return tuple(len(b) + 1 for b in self.boundaries)

    @property
    def leaves_in_file(self) -> int:
        return int(self.leaf.max(initial=0)) + 1

    @property
    def id_bits(self) -> int:
        """The number of bits for a range id of any column, and for a threshold that is above all range ids."""
        return max(self.range_counts).bit_length()

    @property
    def ids_per_word(self) -> int:
        """The number of range ids in one word, a long."""
        return 63 // self.id_bits

    @property
    def words(self) -> Int64:
        """The nodes, each packed into one long: int64[nodes]."""
        never = (1 << self.id_bits) - 1
        shift = self.column % self.ids_per_word * self.id_bits
        word = self.left.astype(np.int64) << self.id_bits | np.minimum(self.threshold, never)
        return (word << WORD_BITS | self.column // self.ids_per_word) << SHIFT_BITS | shift

    def walk(self, shard: Int64, range_ids: Sequence[Int64]) -> Int64:
        """Return the leaf of each row. This is the reference for the expressions in Spark.

        Args:
            shard: int64[rows], the shard of each row.
            range_ids: One int64[rows] per column, the range id of each row.

        Returns:
            int64[rows], the number of the node that is the leaf.
        """
        node = 2 * shard
        table = np.stack(range_ids)
        rows = np.arange(len(node))
        for _ in range(self.depth):
            right = table[self.column[node], rows] >= self.threshold[node]
            node = self.left[node].astype(np.int64) | right
        return node


def build_forest(maps: Sequence[FileMap]) -> Forest:
    """Return the forest of the file maps of all shards. There must be at least one."""
    roots = [np.array([0 if len(m.tree.column) else ~0], np.int32) for m in maps]
    shared, tree, root = join_trees([m.boundaries for m in maps], [m.tree for m in maps], roots)
    # The children of a node have consecutive numbers. A leaf with several parents becomes several leaves. The number
    # after the number of each root is unused.
    inner, leaves = len(tree.column), len(tree.file)
    child = np.concatenate((np.repeat(root, 2), np.stack((tree.left, tree.right), axis=1).ravel()))
    node = np.where(child < 0, inner + ~child, child)

    def numbered(of_node: NDArray[Any], of_leaf: NDArray[Any]) -> Int32:
        return np.concatenate((of_node, of_leaf))[node].astype(np.int32)

    none = np.zeros(inner, np.int32)
    forest = Forest(
        boundaries=tuple(s.distinct for s in shared),
        column=numbered(tree.column, np.zeros(leaves)),
        threshold=numbered(tree.threshold, np.full(leaves, ABOVE_ALL_RANGE_IDS)),
        left=np.where(child < 0, np.arange(len(node)), 2 * (len(maps) + child)).astype(np.int32),
        file=numbered(none, tree.file),
        leaf=numbered(none, _leaf_in_file(tree.file)),
        spread=numbered(none + 1, tree.spread),
        shards=len(maps),
        files=tree.files,
        depth=max(m.tree.depth for m in maps),
        grid=None,
    )
    shape = (forest.shards, *forest.range_counts)
    if prod(shape) > MAX_GRID_CELLS:
        return forest
    shard, *range_ids = (axis.ravel() for axis in np.indices(shape, dtype=np.int64))
    return replace(forest, grid=forest.walk(shard, range_ids).astype(np.int32))


def _leaf_in_file(file: Int32) -> Int64:
    """Return the number of each leaf within its file, int64[leaves]. The leaves of a file are adjacent."""
    starts = np.flatnonzero(np.concatenate(([True], file[1:] != file[:-1])))
    return np.arange(len(file)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(file)]))))
