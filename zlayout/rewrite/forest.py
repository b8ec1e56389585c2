"""Combines the file maps of all shards to one set of arrays, so that one Spark job places the rows of all groups.

Every shard has its own file map. The trees of the shards are concatenated, and the boundaries of each column are merged
to one sorted list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.curve.layout import FileMap
from zlayout.curve.order import rank

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
# Up to this number of combinations (shard, range id, range id, ...), a table of all leaves (4 MB) replaces the walk.
MAX_GRID_CELLS = 1 << 20

# A node is packed into one long. From the lowest bits: the position of its column's range id in a word (SHIFT_BITS),
# the number of that word among the words of a row (WORD_BITS), the threshold (`Forest.id_bits`), and the left child.
# This fits 2^26 nodes, because there are fewer boundaries than nodes.
SHIFT_BITS = 6
WORD_BITS = 4
ABOVE_ALL_RANGE_IDS = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Forest:
    """The kd trees of all shards.

    The root of a shard is node 2 * shard. Left children have even numbers, and the right child follows the left one. A
    row goes to the left child if its range id is below the threshold of the node. A leaf is its own left child and has
    a threshold above all range ids, so a walk of `depth` steps ends at the leaf.

    Attributes:
        boundaries: The sorted range boundaries of each column, of all shards together.
        column: int32[nodes], the column whose range id is compared.
        threshold: int32[nodes], the threshold.
        left: int32[nodes], the left child.
        file: int32[nodes], the file of a leaf. Files are numbered over all shards.
        leaf: int32[nodes], the number of a leaf within its file, along the curve.
        spread: int32[nodes], as in `KdTree`.
        shards: The number of shards.
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
        """Return the leaf of each row as int64[rows]. This is the reference for the expressions in Spark."""
        node = 2 * shard
        table = np.stack(range_ids)
        rows = np.arange(len(node))
        for _ in range(self.depth):
            right = table[self.column[node], rows] >= self.threshold[node]
            node = self.left[node].astype(np.int64) | right
        return node


def build_forest(maps: Sequence[FileMap]) -> Forest:
    """Return the forest of the file maps of all shards, of which there is at least one."""
    columns = len(maps[0].columns)
    shared = [rank(pa.concat_arrays([m.boundaries[c] for m in maps])) for c in range(columns)]
    taken = [0] * columns
    nodes = 0
    files = 0
    roots: list[int] = []
    parts: list[dict[str, Int64]] = []
    for m in maps:
        # convert thresholds among the shard's boundaries to thresholds among the boundaries of all shards
        thresholds = []
        for c, s in enumerate(shared):
            ordinals = s.ordinals[taken[c] : taken[c] + len(m.boundaries[c])]
            thresholds.append(np.concatenate(([0], ordinals + 1)))
            taken[c] += len(m.boundaries[c])
        part = _node_arrays(m, thresholds, nodes, files)
        roots.append(nodes)
        parts.append(part)
        nodes += len(part["column"])
        files += m.files
    joined = {key: np.concatenate([p[key] for p in parts]) for key in parts[0]}
    forest = Forest(
        boundaries=tuple(s.distinct for s in shared),
        shards=len(maps),
        files=files,
        depth=max(m.tree.depth for m in maps),
        grid=None,
        **_number_siblings(np.array(roots), **joined),
    )
    return _with_grid(forest)


def _node_arrays(m: FileMap, thresholds: Sequence[Int64], first_node: int, first_file: int) -> dict[str, Int64]:
    tree = m.tree
    inner, leaves = len(tree.column), len(tree.file)

    def node_of(child: Int32) -> Int64:
        return np.where(child < 0, inner + ~child, child).astype(np.int64)

    child = np.empty(2 * (inner + leaves), np.int64)
    child[0 : 2 * inner : 2] = node_of(tree.left)
    child[1 : 2 * inner : 2] = node_of(tree.right)
    child[2 * inner :] = np.repeat(np.arange(inner, inner + leaves), 2)
    threshold = np.zeros(inner + leaves, np.int64)
    for c, shared in enumerate(thresholds):
        nodes = np.flatnonzero(tree.column == c)
        threshold[nodes] = shared[tree.threshold[nodes]]
    none = np.zeros(inner, np.int64)
    return {
        "column": np.concatenate((tree.column, np.zeros(leaves, np.int64))),
        "threshold": threshold,
        "child": child + first_node,
        "file": np.concatenate((none, tree.file + first_file)),
        "leaf": np.concatenate((none, _leaf_in_file(tree.file))),
        "spread": np.concatenate((none + 1, tree.spread)),
    }


def _number_siblings(roots: Int64, child: Int64, **of_node: Int64) -> dict[str, Int32]:
    """Renumber the nodes so that siblings follow each other, as `Forest` requires, and replace `child` by `left`.

    A leaf with several parents becomes several leaves. The number after each root is unused.
    """
    children = child.reshape(-1, 2)
    is_leaf = children[:, 0] == np.arange(len(children))
    inner = np.flatnonzero(~is_leaf)
    node = np.concatenate((np.repeat(roots, 2), children[inner].ravel()))
    pair = np.zeros(len(children), np.int64)
    pair[inner] = 2 * (len(roots) + np.arange(len(inner)))
    found = {name: values[node].astype(np.int32) for name, values in of_node.items()}
    found["left"] = np.where(is_leaf[node], np.arange(len(node)), pair[node]).astype(np.int32)
    found["threshold"][is_leaf[node]] = ABOVE_ALL_RANGE_IDS
    return found


def _leaf_in_file(file: Int32) -> Int64:
    """Number the leaves within each file: int64[leaves]. The leaves of a file are adjacent."""
    starts = np.flatnonzero(np.concatenate(([True], file[1:] != file[:-1])))
    return np.arange(len(file)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(file)]))))


def _with_grid(forest: Forest) -> Forest:
    shape = (forest.shards, *forest.range_counts)
    if prod(shape) > MAX_GRID_CELLS:
        return forest
    shard, *range_ids = (axis.ravel() for axis in np.indices(shape, dtype=np.int64))
    return replace(forest, grid=forest.walk(shard, range_ids).astype(np.int32))
