"""Many file maps as one set of arrays, so that one Spark job places the rows of all groups.

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
# Up to so many combinations (shard, range id, range id, ...) a table of all results (4 MB) replaces the walk.
MAX_GRID_CELLS = 1 << 20


# A node as one long, from the lowest bits: by how much and in which of the longs that hold a row's range ids its
# column is, its threshold (`Forest.id_bits`), and its left child. There are fewer boundaries than nodes, so that this
# fits 2^26 nodes.
SHIFT_BITS = 6
WORD_BITS = 4
NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Forest:
    """The trees of all shards. A node is an inner node or a leaf; a leaf is its own left child, and no row goes to its
    right, so that every walk of `depth` steps ends on its leaf.

    boundaries: for each column the sorted distinct values that some node compares with.
    column, threshold, left, file, spread, leaf: int32[nodes]. The root of a shard is node 2 * shard. Left children are
    even, and the right child follows the left one. A row goes left when its range id (the number of boundaries <= key,
    0 for null) is below the threshold.
    file: numbered through over all shards. leaf: 0.. along the curve inside the file. spread as in `KdTree`.
    grid: int32, the leaf node of each (shard, range id, range id, ...) in row-major order, None where too large.
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
        """Bits for a range id of any column, and for a threshold that is above them all."""
        return max(self.range_counts).bit_length()

    @property
    def ids_per_word(self) -> int:
        """Number of range ids in one long."""
        return 63 // self.id_bits

    @property
    def words(self) -> Int64:
        """int64[nodes]: each node as one long, with everything that a step of a walk needs."""
        never = (1 << self.id_bits) - 1
        shift = self.column % self.ids_per_word * self.id_bits
        word = self.left.astype(np.int64) << self.id_bits | np.minimum(self.threshold, never)
        return (word << WORD_BITS | self.column // self.ids_per_word) << SHIFT_BITS | shift

    def walk(self, shard: Int64, range_ids: Sequence[Int64]) -> Int64:
        """Return int64[n], the leaf node of each row: the reference for the expressions in Spark."""
        node = 2 * shard
        table = np.stack(range_ids)
        rows = np.arange(len(node))
        for _ in range(self.depth):
            right = table[self.column[node], rows] >= self.threshold[node]
            node = self.left[node].astype(np.int64) | right
        return node


def build_forest(maps: Sequence[FileMap]) -> Forest:
    """Return one forest of the shards' file maps (at least one), in their order."""
    columns = len(maps[0].columns)
    shared = [rank(pa.concat_arrays([m.boundaries[c] for m in maps])) for c in range(columns)]
    taken = [0] * columns
    nodes = 0
    files = 0
    roots: list[int] = []
    parts: list[dict[str, Int64]] = []
    for m in maps:
        # a shard's boundary as a threshold among all shards' boundaries
        thresholds = []
        for c, s in enumerate(shared):
            mine = s.ordinals[taken[c] : taken[c] + len(m.boundaries[c])]
            thresholds.append(np.concatenate(([0], mine + 1)))
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
        mine = np.flatnonzero(tree.column == c)
        threshold[mine] = shared[tree.threshold[mine]]
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
    """The nodes renumbered as in `Forest`, with `left` for `child`; a leaf of several parents becomes several leaves.

    Beside each root one number is unused.
    """
    children = child.reshape(-1, 2)
    is_leaf = children[:, 0] == np.arange(len(children))
    inner = np.flatnonzero(~is_leaf)
    node = np.concatenate((np.repeat(roots, 2), children[inner].ravel()))
    pair = np.zeros(len(children), np.int64)
    pair[inner] = 2 * (len(roots) + np.arange(len(inner)))
    found = {name: values[node].astype(np.int32) for name, values in of_node.items()}
    found["left"] = np.where(is_leaf[node], np.arange(len(node)), pair[node]).astype(np.int32)
    found["threshold"][is_leaf[node]] = NEVER
    return found


def _leaf_in_file(file: Int32) -> Int64:
    """int64[leaves]: 0.. within each run of leaves of one file (they are adjacent)."""
    starts = np.flatnonzero(np.concatenate(([True], file[1:] != file[:-1])))
    return np.arange(len(file)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(file)]))))


def _with_grid(forest: Forest) -> Forest:
    shape = (forest.shards, *forest.range_counts)
    if prod(shape) > MAX_GRID_CELLS:
        return forest
    shard, *range_ids = (axis.ravel() for axis in np.indices(shape, dtype=np.int64))
    return replace(forest, grid=forest.walk(shard, range_ids).astype(np.int32))
