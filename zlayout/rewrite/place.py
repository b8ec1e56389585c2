"""Computes the file of a row by Spark expressions: range ids by binary search, then one table look-up or a tree walk.

Each step is a separate projection, and later steps use its results more than once. Therefore Spark does not merge the
projections, and computes each result once, inside one generated loop. docs/adr/0003 has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from zlayout.rewrite.constants import Constants, search_array
from zlayout.rewrite.forest import SHIFT_BITS, WORD_BITS, Forest
from zlayout.rewrite.rows import GROUP, ORDINAL, POSITION, SHARD, Source, key_column, key_type, shard_key
from zlayout.table.reserved import PREFIX

FILE_ID = f"{PREFIX}file_id"
LEAF = f"{PREFIX}leaf"
NOT_SAMPLED = f"{PREFIX}not_sampled"


def forest_arrays(forest: Forest) -> dict[str, pa.Array]:
    """Return the arrays that `place_rows` reads from `Constants`."""
    arrays = {f"boundaries{c}": search_array(b) for c, b in enumerate(forest.boundaries)}
    arrays |= {name: pa.array(getattr(forest, name)) for name in ("file", "leaf", "spread")}
    name = "words" if forest.grid is None else "grid"
    return arrays | {name: pa.array(getattr(forest, name))}


def place_rows(frame: DataFrame, columns: Sequence[str], forest: Forest, constants: Constants) -> DataFrame:
    """Add to each row FILE_ID, the number (int) of its new file, and LEAF, the number (int) of its leaf in the file.

    Args:
        frame: Rows with SHARD, ORDINAL, POSITION and the key columns.
        columns: The names of the key columns.
        forest: The file maps of all shards. They number the files over all shards.
        constants: Constants that include `forest_arrays(forest)`.
    """
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


def _with_range_ids(frame: DataFrame, columns: Sequence[str], constants: Constants) -> DataFrame:
    keys = [constants.ordered_key(key_column(frame, name), key_type(frame, name)) for name in columns]
    results = [F.coalesce(constants.search(f"boundaries{c}", key), F.lit(-1)) for c, key in enumerate(keys)]
    frame = frame.withColumns({f"{PREFIX}found{c}": constants.not_null(found) for c, found in enumerate(results)})
    range_ids = [_range_id(F.col(f"{PREFIX}found{c}")) for c in range(len(columns))]
    return frame.withColumns({f"{PREFIX}range_id{c}": range_id for c, range_id in enumerate(range_ids)})


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
    """Add the leaf of each row, with one look-up and one comparison per level of the tree."""
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
    """Pack range ids of `bits` bits each into one bigint, the first one in the lowest bits."""
    packed = F.lit(0).cast("bigint")
    for name in reversed(ids):
        packed = F.shiftleft(packed, bits).bitwiseOR(F.col(name).cast("bigint"))
    return packed
