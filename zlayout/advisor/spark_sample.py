"""One Spark job that draws rows of the key columns: the only part of advise that needs a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.advisor.model import KeySample
from zlayout.formats.catalogs import delta_location
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.sql_text import quoted_name
from zlayout.table.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FILE = "__zlayout_file"
DRAW = "__zlayout_draw"
HASH_BITS = 31
# A few more are drawn than wanted, since each row is drawn by itself.
MARGIN = 1.05


def draw_sample(
    runtime: SparkRuntime,
    catalog: CatalogConfig,
    table: TableName,
    state: TableState,
    columns: Sequence[str],
    rows: int,
    seed: int,
) -> KeySample:
    """About `rows` rows (never more) of the table's pinned version, with the partition that each is in.

    The same seed draws the same rows from the same files; on Delta as long as Spark splits them alike, since a row's
    position is not to be had of every Delta table. Types are those of the bounds.
    Raises EngineError ZL301 to ZL306, ZL314.
    """
    from pyspark.sql import functions as F

    from zlayout.formats.delta.write.failures import spark_errors
    from zlayout.rewrite.rows import key_column

    session = runtime.session
    with spark_errors(str(table), "drawing a sample"):
        frame, file, draw = _frame(runtime, catalog, table, state.version, seed)
        known = int(state.files.live_rows.sum())
        share = min(1.0, MARGIN * rows / max(known, 1))
        wanted = {name: f"key{i}" for i, name in enumerate(columns)}
        picked = [key_column(frame, name).alias(alias) for name, alias in wanted.items()]
        where = [F.col(file).alias(FILE)] if len(state.files.partitions) > 1 else []
        drawn = frame.select(*picked, *where, draw.alias(DRAW))
        data = drawn.where(F.col(DRAW) < share).toArrow()
        paths = _paths(session, state, catalog, table) if where else None
    # in the order of the draw, which does not depend on the order in which Spark reads files
    data = data.take(pc.sort_indices(data[DRAW])[:rows])
    keys = {name: _typed(data[alias], state, name) for name, alias in wanted.items()}
    partition = np.zeros(len(data), np.int32)
    if paths is not None:
        found = pc.index_in(data[FILE], paths).combine_chunks().to_numpy(zero_copy_only=False)
        partition = state.files.partition[found.astype(np.int64)]
    return KeySample(keys, partition, seed)


def _frame(
    runtime: SparkRuntime, catalog: CatalogConfig, table: TableName, version: int, seed: int
) -> tuple[DataFrame, str, Column]:
    """The live rows at the version, the name of the column that has a row's file, and a number from 0 to 1 for each."""
    from pyspark.sql import functions as F

    session = runtime.session
    if catalog.format == "delta":
        reader = session.read.format("delta").option("versionAsOf", str(version))
        return reader.load(delta_location(catalog, table)), "_metadata.file_path", F.rand(seed)
    frame = session.read.option("versionAsOf", str(version)).table(quoted_name((table.catalog, *table.identifier)))
    low_bits = F.xxhash64("_file", "_pos", F.lit(seed)).bitwiseAND((1 << HASH_BITS) - 1)
    return frame, "_file", low_bits / float(1 << HASH_BITS)


def _paths(session: object, state: TableState, catalog: CatalogConfig, table: TableName) -> pa.Array:
    """string[files]: the paths of the state's files as Spark gives them."""
    if catalog.format != "delta":
        return state.files.path.cast(pa.string())
    from zlayout.formats.delta.write.jvm import DeltaJvm
    from zlayout.formats.delta.write.source_files import file_uris

    delta = DeltaJvm(session, delta_location(catalog, table))  # type: ignore[arg-type]
    return file_uris(delta.base_uri(), state.files.path.to_pylist())


def _typed(values: pa.ChunkedArray, state: TableState, name: str) -> pa.Array:
    flat = values.combine_chunks()
    column = state.column(name)
    return flat if column is None or flat.type == column.type else flat.cast(column.type)
