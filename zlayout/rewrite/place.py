"""Computes the file of a row by Spark expressions: range ids by binary search, then one table look-up or a tree walk.

`build_forest` combines the file maps of all shards, and `place_rows` adds the file of each row. Each step is a separate
projection, and later steps use its results more than once. Therefore Spark does not merge the projections, and computes
each result once, inside one generated loop. docs/adr/0003 has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from zlayout.curve.layout import FileMap, LeafOrder, join_trees
from zlayout.curve.tree import Int32, Int64
from zlayout.rewrite.rows import (
    GROUP,
    ORDINAL,
    POSITION,
    SHARD,
    Constants,
    Source,
    key_column,
    key_type,
    search_array,
    shard_key,
)
from zlayout.table.state import PREFIX

# The forest: the file maps of all shards in one set of arrays, so that one Spark job places the rows of all groups. The
# trees of the shards are concatenated, and the range boundaries of each column are merged into one sorted list.


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


# The Spark expressions that compute the file of a row.

FILE_ID = f"{PREFIX}file_id"
LEAF = f"{PREFIX}leaf"
VALUE_ID = f"{PREFIX}value_id"
NOT_SAMPLED = f"{PREFIX}not_sampled"


def forest_arrays(forest: Forest) -> dict[str, pa.Array]:
    """Return the arrays that `place_rows` reads from `Constants`."""
    arrays = {f"boundaries{c}": search_array(b) for c, b in enumerate(forest.boundaries)}
    arrays |= {name: pa.array(getattr(forest, name)) for name in ("file", "leaf", "spread")}
    name = "words" if forest.grid is None else "grid"
    return arrays | {name: pa.array(getattr(forest, name))}


def place_rows(
    frame: DataFrame, columns: Sequence[str], forest: Forest, constants: Constants, *, noise: bool
) -> DataFrame:
    """Add to each row FILE_ID, the number (int) of its new file, and LEAF, the number (int) of its leaf in the file.

    Args:
        frame: Rows with SHARD, ORDINAL, POSITION and the key columns.
        columns: The names of the key columns.
        forest: The file maps of all shards. They number the files over all shards.
        constants: Constants that include `forest_arrays(forest)`.
        noise: Whether all rows of a leaf with several files are distributed over these, or only those whose keys are
            all null.
    """
    nulls = [key_column(name).isNull() for name in columns]
    frame = _with_range_ids(frame, columns, constants)
    node = f"{PREFIX}node"
    if forest.grid is not None:
        frame = frame.withColumn(node, constants.at("grid", _grid_index(forest, constants)))
    else:
        frame = _walk(frame, node, forest, constants)
    file = constants.at("file", F.col(node))
    if forest.spread.max(initial=1) > 1:
        # not rand(), which depends on the number of tasks
        row_hash = F.xxhash64(ORDINAL, POSITION)
        if not noise:
            row_hash = F.when(reduce(and_, nulls), row_hash).otherwise(F.lit(0))
        file = (file + F.pmod(row_hash, constants.at("spread", F.col(node)))).cast("int")
    return frame.withColumns({FILE_ID: file, LEAF: constants.at("leaf", F.col(node))})


def shard_arrays(keys: Sequence[int]) -> dict[str, pa.Array]:
    """Return the arrays that `with_shard` reads from `Constants`. keys: the key of each shard, in order."""
    values = np.array(keys, np.int64)
    by_key = np.argsort(values)
    return {"shard_key": pa.array(values[by_key]), "shard": pa.array(by_key.astype(np.int32))}


def with_shard(frame: DataFrame, source: Source, constants: Constants) -> DataFrame:
    """Add the number of each row's shard, SHARD (int).

    If groups have several output partitions, also adds NOT_SAMPLED (boolean): whether the row's shard is not in the
    sample. SHARD is then arbitrary.
    """
    if not source.partition:
        return frame.withColumn(SHARD, F.col(GROUP))
    found = f"{PREFIX}found"
    frame = frame.withColumn(found, constants.search("shard_key", shard_key(source)))
    at = F.greatest(F.col(found), F.lit(0))
    return frame.withColumns({SHARD: constants.at("shard", at), NOT_SAMPLED: F.col(found) < 0})


def leaf_order_arrays(order: LeafOrder | None) -> dict[str, pa.Array]:
    """Return the arrays that `with_value_id` reads from `Constants`."""
    return {"leaf_values": search_array(order.values)} if order else {}


def with_value_id(frame: DataFrame, order: LeafOrder | None, constants: Constants) -> DataFrame:
    """Add VALUE_ID (int), as `LeafOrder.value_ids` computes it. It is 0 without an order."""
    if order is None:
        return frame.withColumn(VALUE_ID, F.lit(0))
    found = f"{PREFIX}found"
    frame = frame.withColumn(found, _search(frame, order.column, "leaf_values", constants))
    return frame.withColumn(VALUE_ID, _range_id(F.col(found)))


def _with_range_ids(frame: DataFrame, columns: Sequence[str], constants: Constants) -> DataFrame:
    results = [_search(frame, name, f"boundaries{c}", constants) for c, name in enumerate(columns)]
    frame = frame.withColumns({f"{PREFIX}found{c}": found for c, found in enumerate(results)})
    range_ids = [_range_id(F.col(f"{PREFIX}found{c}")) for c in range(len(columns))]
    return frame.withColumns({f"{PREFIX}range_id{c}": range_id for c, range_id in enumerate(range_ids)})


def _search(frame: DataFrame, column: str, array: str, constants: Constants) -> Column:
    """Return the result of `Constants.search` for a key column. It is -1 for null, which is below all values."""
    key = constants.ordered_key(key_column(column), key_type(frame, column))
    return constants.not_null(F.coalesce(constants.search(array, key), F.lit(-1)))


def _range_id(result: Column) -> Column:
    """Convert the result of a search to a range id, the number of boundaries <= key: i to i + 1, and -1 - i to i."""
    negative = F.shiftright(result, 31)  # -1 or 0
    return result.bitwiseXOR(negative) + F.bitwise_not(negative).bitwiseAND(1)


def _range_id_names(forest: Forest) -> list[str]:
    return [f"{PREFIX}range_id{c}" for c in range(len(forest.boundaries))]


def _grid_index(forest: Forest, constants: Constants) -> Column:
    index = F.col(SHARD)
    for name, count in zip(_range_id_names(forest), forest.range_counts, strict=True):
        index = constants.row_major(index, count, F.col(name))
    return index


def _walk(frame: DataFrame, node: str, forest: Forest, constants: Constants) -> DataFrame:
    names, number = _range_id_names(forest), forest.ids_per_word
    parts = [names[i : i + number] for i in range(0, len(names), number)]
    packed = {f"{PREFIX}range_ids{i}": _packed(part, forest.id_bits) for i, part in enumerate(parts)}
    frame = frame.withColumns(packed)
    mask, threshold_at = (1 << forest.id_bits) - 1, SHIFT_BITS + WORD_BITS
    packed_node = F.col(node)
    word = F.shiftright(packed_node, SHIFT_BITS).bitwiseAND((1 << WORD_BITS) - 1)
    ids, *others = map(F.col, packed)
    for i, other in enumerate(others, 1):
        ids = F.when(word == i, other).otherwise(ids)
    shift = constants.low_int(packed_node.bitwiseAND((1 << SHIFT_BITS) - 1))
    range_id = F.call_function("shiftright", ids, shift).bitwiseAND(mask)
    right = F.when(range_id >= F.shiftright(packed_node, threshold_at).bitwiseAND(mask), 1).otherwise(0)
    left = F.shiftright(packed_node, threshold_at + forest.id_bits)
    frame = frame.withColumn(node, constants.at("words", F.shiftleft(SHARD, 1)))
    # Spark generates one method for all levels. Its bytecode must have less than 8000 bytes, because HotSpot does not
    # compile longer methods.
    for _ in range(forest.depth):
        frame = frame.withColumn(node, constants.at("words", constants.low_int(left.bitwiseOR(right))))
    return frame.withColumn(node, constants.low_int(left))


def _packed(ids: Sequence[str], bits: int) -> Column:
    packed = F.lit(0).cast("bigint")
    for name in reversed(ids):
        packed = F.shiftleft(packed, bits).bitwiseOR(F.col(name).cast("bigint"))
    return packed
