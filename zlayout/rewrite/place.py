"""Which file a row goes to, as Spark expressions: range ids by binary search, then one table look-up or a tree walk.

Each step is a projection of its own whose results the next ones use more than once: Spark then keeps them apart
and computes each once, all inside one generated loop. docs/adr/0003 has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from zlayout.rewrite.constants import Constants, search_array
from zlayout.rewrite.forest import Forest
from zlayout.rewrite.rows import CELL, ORDINAL, POSITION, PREFIX, key_column, key_type

FILE_ID = f"{PREFIX}file_id"
LEAF = f"{PREFIX}leaf"


def forest_arrays(forest: Forest) -> dict[str, pa.Array]:
    """What `place_rows` reads from `Constants`."""
    arrays = {f"boundaries{c}": search_array(b) for c, b in enumerate(forest.boundaries)}
    for name in ("file", "leaf", "spread"):
        arrays[name] = pa.array(getattr(forest, name))
    if forest.grid is not None:
        return arrays | {"grid": pa.array(forest.grid)}
    for name in ("root", "column", "threshold", "child"):
        arrays[name] = pa.array(getattr(forest, name))
    return arrays


def place_rows(frame: DataFrame, columns: Sequence[str], forest: Forest, constants: Constants) -> DataFrame:
    """The frame with `FILE_ID` (int, numbered over all cells) and `LEAF` (int, inside the file) for each row.

    frame: has CELL, ORDINAL and POSITION (`zlayout.rewrite.rows`) and the key columns.
    """
    frame = _with_range_ids(frame, columns, constants)
    node = f"{PREFIX}node"
    if forest.grid is not None:
        frame = frame.withColumn(node, constants.at("grid", _grid_index(forest)))
    else:
        frame = _walk(frame, node, forest, constants)
    file = constants.at("file", F.col(node))
    if forest.spread.max(initial=1) > 1:
        # positions are what a row keeps whatever the number of tasks; rand() would change with them
        row_hash = F.xxhash64(ORDINAL, POSITION)
        file = (file + F.pmod(row_hash, constants.at("spread", F.col(node)))).cast("int")
    return frame.withColumns({FILE_ID: file, LEAF: constants.at("leaf", F.col(node))})


def _with_range_ids(frame: DataFrame, columns: Sequence[str], constants: Constants) -> DataFrame:
    found = {f"{PREFIX}found{c}": c for c in range(len(columns))}
    keys = [constants.ordered_key(key_column(frame, name), key_type(frame, name)) for name in columns]
    frame = frame.withColumns({n: constants.search(f"boundaries{c}", keys[c]) for n, c in found.items()})
    return frame.withColumns({f"{PREFIX}range_id{c}": _range_id(F.col(n)) for n, c in found.items()})


def _range_id(found: Column) -> Column:
    """The number of boundaries <= key: found at i gives i + 1, to be inserted at i gives i, null gives 0."""
    return F.when(found >= 0, found + 1).otherwise(-1 - F.coalesce(found, F.lit(-1)))


def _range_id_names(forest: Forest) -> list[str]:
    return [f"{PREFIX}range_id{c}" for c in range(len(forest.boundaries))]


def _grid_index(forest: Forest) -> Column:
    index = F.col(CELL)
    for name, count in zip(_range_id_names(forest), forest.range_counts, strict=True):
        index = index * F.lit(count) + F.col(name)
    return index


def _walk(frame: DataFrame, node: str, forest: Forest, constants: Constants) -> DataFrame:
    names = _range_id_names(forest)
    frame = frame.withColumn(node, constants.at("root", F.col(CELL)))
    for _ in range(forest.depth):
        column = constants.at("column", F.col(node))
        range_id = F.col(names[-1])
        for c in range(len(names) - 2, -1, -1):
            range_id = F.when(column == c, F.col(names[c])).otherwise(range_id)
        right = F.when(range_id >= constants.at("threshold", F.col(node)), F.lit(1)).otherwise(F.lit(0))
        frame = frame.withColumn(node, constants.at("child", F.col(node) * 2 + right))
    return frame
