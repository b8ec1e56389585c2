"""Adds the origin of each row, its group and the key of its shard to the source of a rewrite, and samples the rows.

ORDINAL is the rank of the row's file among the files of the rewrite in the order of paths, so it is the same for copies
of a table in different locations. POSITION is the index of the row in the file. Neither depends on how Spark splits the
files into tasks. Whether a row is in the sample depends on that row alone. One Spark job samples all groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from zlayout.curve.tree import Int32, Int64
from zlayout.errors import EngineError
from zlayout.rewrite.constants import Constants
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spec.layout import Layout
from zlayout.sql_text import quote_identifier, quote_path
from zlayout.table.reserved import PREFIX

FILE = f"{PREFIX}file"
POSITION = f"{PREFIX}position"
ORDINAL = f"{PREFIX}ordinal"
GROUP = f"{PREFIX}group"
SHARD = f"{PREFIX}shard"
SHARD_KEY = f"{PREFIX}shard_key"
PARTITION = f"{PREFIX}partition"
SOURCE_ORDER = f"{PREFIX}source_order"

# With this number, the number of rows of new files varies by about 1 / sqrt(2000) = 2 %.
SAMPLE_ROWS_PER_FILE = 2000
# With more files, each file gets fewer rows, down to MIN_ROWS_PER_FILE, with which their number varies by about 7 %.
# The driver needs about 160 bytes for each row of two columns. For more files, `kd` takes two samples (docs/scale.md).
MAX_SAMPLE_ROWS = 10_000_000
MIN_ROWS_PER_FILE = 200
HASH_BITS = 31
POSITION_BITS = 40  # enough for the rows of any file; row counts are not used, because they may be estimates


@dataclass(frozen=True, slots=True)
class Source:
    """The rows to rewrite: exactly the live rows of the pinned files.

    Attributes:
        frame: The rows, with all columns that must be kept.
        file: The path of a row's file, a column that can be selected from `frame`.
        position: The index of a row in its file, a column that can be selected from `frame`.
        partition: The values of a row's output partition, with transforms applied. Empty if every group has one output
            partition.
    """

    frame: DataFrame
    file: Column
    position: Column
    partition: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """A group to rewrite.

    Attributes:
        paths: string[files], the paths of its files in the form of `Source.file`.
        rows: The number of live rows.
        target_files: The number of files to write.
    """

    id: str
    paths: pa.Array
    rows: int
    target_files: int


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The files of a rewrite, in the order of the hashes of their paths: hash, ORDINAL and number of the group of each.

    Attributes:
        salt: The seed for which the hashes are distinct.
    """

    salt: int
    hash: Int64
    ordinal: Int32
    group: Int32

    def __len__(self) -> int:
        return len(self.hash)


def index_files(session: SparkSession, groups: Sequence[GroupTarget]) -> FileIndex:
    """Build the index of the files of all groups. Raises EngineError ZL313 for a file in two groups."""
    paths = pa.concat_arrays([pa.array(g.paths, pa.string()) for g in groups])
    group = np.repeat(np.arange(len(groups), dtype=np.int32), [len(g.paths) for g in groups])
    if len(pc.unique(paths)) != len(paths):
        raise EngineError.of("ZL313", "duplicate file in the plan", hint="plan again")
    by_path = pc.sort_indices(paths).to_numpy()
    ordinal = np.empty(len(paths), np.int32)
    ordinal[by_path] = np.arange(len(paths), dtype=np.int32)
    table = from_arrow(session, pa.table({"path": paths}))
    salt = 0
    while True:
        hashes = to_arrow(table.select(F.xxhash64("path", F.lit(salt)).alias("h")))["h"].to_numpy()
        if len(np.unique(hashes)) == len(hashes):
            break
        salt += 1
    order = np.argsort(hashes)
    return FileIndex(salt, hashes[order].astype(np.int64), ordinal[order], group[order])


def index_arrays(index: FileIndex) -> dict[str, pa.Array]:
    """Return the arrays that `with_origin` reads from `Constants`."""
    return {"path_hash": pa.array(index.hash), "ordinal": pa.array(index.ordinal), "group": pa.array(index.group)}


def with_origin(frame: DataFrame, index: FileIndex, constants: Constants) -> DataFrame:
    """Add ORDINAL and GROUP (int) of a row's FILE. The Spark job fails if a file is not in the index."""
    found = f"{PREFIX}found"
    path_hash = F.xxhash64(F.col(FILE), F.lit(index.salt))
    frame = frame.withColumn(found, constants.search("path_hash", path_hash, once=True))
    at = F.when(F.col(found) >= 0, F.col(found)).otherwise(
        F.raise_error(F.lit("ZL314 expected rows of the planned files, found a row of another file")).cast("int")
    )
    frame = frame.withColumn(found, constants.not_null(at))
    origin = {ORDINAL: constants.at("ordinal", F.col(found)), GROUP: constants.at("group", F.col(found))}
    return frame.withColumns(origin)


def key_names(layout: Layout) -> tuple[str, ...]:
    """Return the names of the key columns: the z-order columns, or SOURCE_ORDER if the layout has none."""
    return tuple(column.name for column in layout.columns) or (SOURCE_ORDER,)


def with_source_order(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Add SOURCE_ORDER (bigint) if it is a key: the order of rows by ORDINAL and POSITION, which both are present."""
    if SOURCE_ORDER not in keys:
        return frame
    high = F.shiftleft(F.col(ORDINAL).cast("bigint"), POSITION_BITS)
    return frame.withColumn(SOURCE_ORDER, high.bitwiseOR(F.col(POSITION).cast("bigint")))


def source_columns(source: Source) -> list[Column]:
    """Return FILE, POSITION and the values of the output partition, under names that no table has."""
    values = [value.alias(name) for value, name in zip(source.partition, partition_names(source), strict=True)]
    return [source.file.alias(FILE), source.position.alias(POSITION), *values]


def partition_names(source: Source) -> list[str]:
    return [f"{PARTITION}{i}" for i in range(len(source.partition))]


def shard_key(source: Source) -> Column:
    """Return the key (bigint) of a row's shard: its group, or a hash of group and output partition."""
    names = partition_names(source)
    if not names:
        return F.col(GROUP).cast("bigint")
    return F.xxhash64(GROUP, *names, *[F.col(name).isNull() for name in names])  # the hash itself skips nulls


def key_column(frame: DataFrame, name: str) -> Column:
    """Return a key column by its dotted name. The name of a top-level column has precedence over a nested one."""
    if name in frame.columns:
        return F.col(quote_identifier(name))
    if "`" in name:
        return F.col(name)
    return F.col(quote_path(name.split(".")))


def key_type(frame: DataFrame, name: str) -> T.DataType:
    return frame.select(key_column(frame, name)).schema.fields[0].dataType


@dataclass(frozen=True, slots=True)
class Sample:
    """The sampled rows: the values of each key column, the number of the group, and the result of `shard_key`."""

    keys: Mapping[str, pa.ChunkedArray]
    group: Int32
    shard_key: Int64

    def rows_at(self, positions: Int64) -> dict[str, pa.ChunkedArray]:
        """Return the keys of the rows at these positions."""
        chosen = pa.array(positions)
        return {name: values.take(chosen) for name, values in self.keys.items()}


@dataclass(frozen=True, slots=True)
class Drawn:
    """The rows of a sample in Spark.

    Attributes:
        frame: Rows with `keys`, ORDINAL, POSITION, GROUP and the values of the output partition.
        constants: The constants that the frame uses.
    """

    frame: DataFrame
    keys: tuple[str, ...]
    constants: Constants


def draw(
    source: Source,
    columns: Sequence[str],
    groups: Sequence[GroupTarget],
    index: FileIndex,
    per_file: float,
    arrays: Mapping[str, pa.Array] | None = None,
) -> Drawn:
    """Return about `per_file` rows for each new file of all groups. Reading them reads only the key columns.

    A row is in the sample if a hash of its file and position is below the threshold of its group. Therefore the sample,
    unlike `DataFrame.sample`, does not depend on the number of cores or tasks. Executors run no Python.

    arrays: arrays to add to the constants of the frame.
    """
    # the largest hash of a sampled row, by group
    shares = (per_file * g.target_files / max(g.rows, 1) for g in groups)
    thresholds = pa.array([min(int(share * (1 << HASH_BITS)), (1 << HASH_BITS) - 1) for share in shares], pa.int32())
    constants = Constants(source.frame.sparkSession, {**index_arrays(index), "share": thresholds, **(arrays or {})})
    names = tuple(name if name == SOURCE_ORDER else f"{PREFIX}key{i}" for i, name in enumerate(columns))
    stored = [(c, name) for c, name in zip(columns, names, strict=True) if c != SOURCE_ORDER]
    keys = [key_column(source.frame, column).alias(name) for column, name in stored]
    frame = with_origin(source.frame.select(*keys, *source_columns(source)), index, constants)
    frame = with_source_order(frame, names)
    low_bits = F.xxhash64(ORDINAL, POSITION).bitwiseAND((1 << HASH_BITS) - 1)
    return Drawn(frame.where(low_bits <= constants.at("share", F.col(GROUP))), names, constants)


def take_sample(
    source: Source, columns: Sequence[str], groups: Sequence[GroupTarget], index: FileIndex, per_file: float
) -> Sample:
    """Sample the key columns of all groups in one Spark job. The arguments are those of `draw`."""
    drawn = draw(source, columns, groups, index, per_file)
    table = to_arrow(drawn.frame.select(*drawn.keys, F.col(GROUP), shard_key(source).alias(SHARD_KEY)))
    keys = {column: table[name] for column, name in zip(columns, drawn.keys, strict=True)}
    return Sample(keys, table[GROUP].to_numpy(), table[SHARD_KEY].to_numpy())


def rows_per_file(files: int) -> int:
    """Return the number of rows to sample for each of `files` new files of all groups."""
    return min(SAMPLE_ROWS_PER_FILE, max(MIN_ROWS_PER_FILE, MAX_SAMPLE_ROWS // max(files, 1)))
