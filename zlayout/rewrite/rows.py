"""Adds the origin of each row, its group and the key of its shard to the source of a rewrite, and samples the rows.

The origin of a row is ORDINAL and POSITION. ORDINAL is the rank of the row's file among the files of the rewrite in the
order of paths, so it is the same for copies of a table in different locations. POSITION is the index of the row in the
file. Neither depends on how Spark splits the files into tasks. Whether a row is in the sample depends only on its
origin and its group. One Spark job samples all groups.
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
from zlayout.sql_text import quote_path
from zlayout.table.reserved import PREFIX

FILE = f"{PREFIX}file"
POSITION = f"{PREFIX}position"
ORDINAL = f"{PREFIX}ordinal"
GROUP = f"{PREFIX}group"
SHARD = f"{PREFIX}shard"
SHARD_KEY = f"{PREFIX}shard_key"
PARTITION = f"{PREFIX}partition"
SOURCE_ORDER = f"{PREFIX}source_order"

# With this number, the number of rows in a new file varies by about 1 / sqrt(2000) = 2 %.
SAMPLE_ROWS_PER_FILE = 2000
# The driver needs about 160 bytes for each sampled row of two columns. For a rewrite with many new files, fewer rows
# are sampled for each file, but at least MIN_ROWS_PER_FILE. The number of rows in a new file then varies by about 7 %.
# For even more files, `kd` takes two samples (docs/scale.md).
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
    """

    id: str
    paths: pa.Array
    rows: int
    target_files: int


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The files of a rewrite, in the order of the hashes of their paths.

    Attributes:
        salt: The second argument of the hash function, for which all hashes are distinct.
        hash: int64[files], the hash of the path, ascending.
        ordinal: int32[files], the ORDINAL.
        group: int32[files], the number of the group.
    """

    salt: int
    hash: Int64
    ordinal: Int32
    group: Int32

    def __len__(self) -> int:
        return len(self.hash)


def index_files(session: SparkSession, groups: Sequence[GroupTarget]) -> FileIndex:
    """Build the index of the files of all groups. Raises EngineError ZL313 for a duplicate file."""
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
    """Add ORDINAL and GROUP (int) of a row's FILE. The Spark job fails for a row whose file is not in the index."""
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
    """Add SOURCE_ORDER (bigint), which orders rows by ORDINAL and POSITION, if it is one of the keys."""
    if SOURCE_ORDER not in keys:
        return frame
    high = F.shiftleft(F.col(ORDINAL).cast("bigint"), POSITION_BITS)
    return frame.withColumn(SOURCE_ORDER, high.bitwiseOR(F.col(POSITION).cast("bigint")))


def source_columns(source: Source) -> list[Column]:
    """Return FILE, POSITION and the values of the output partition, as columns with reserved names."""
    values = [value.alias(name) for value, name in zip(source.partition, partition_names(source), strict=True)]
    return [source.file.alias(FILE), source.position.alias(POSITION), *values]


def partition_names(source: Source) -> list[str]:
    return [f"{PARTITION}{i}" for i in range(len(source.partition))]


def shard_key(source: Source) -> Column:
    """Return the key (bigint) of a row's shard: its group, or a hash of group and output partition."""
    names = partition_names(source)
    if not names:
        return F.col(GROUP).cast("bigint")
    # xxhash64 ignores nulls
    return F.xxhash64(GROUP, *names, *[F.col(name).isNull() for name in names])


def key_column(frame: DataFrame, name: str) -> Column:
    """Return a key column by its dotted name.

    The name of a field may contain dots and backticks itself. If there is no such field, a name with backticks is a
    reference in Spark's own notation. Delta columns whose names contain a dot have such names.
    """
    path = _path_of(frame.schema, name)
    return F.col(name) if path is None else F.col(quote_path(path))


def _path_of(struct: T.StructType, name: str) -> tuple[str, ...] | None:
    """The field of a struct has precedence over a field whose own name contains the dot."""
    for field in struct.fields:
        if isinstance(field.dataType, T.StructType) and name.startswith(f"{field.name}."):
            inner = _path_of(field.dataType, name[len(field.name) + 1 :])
            if inner is not None:
                return (field.name, *inner)
    return (name,) if name in struct.names else None


def key_type(frame: DataFrame, name: str) -> T.DataType:
    return frame.select(key_column(frame, name)).schema.fields[0].dataType


@dataclass(frozen=True, slots=True)
class Sample:
    """The sampled rows.

    Attributes:
        keys: The values of each key column by name.
        group: int32[rows], the number of the group.
        shard_key: int64[rows], the result of the function `shard_key`.
    """

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
        frame: Rows with the columns `keys`, ORDINAL, POSITION, GROUP and the values of the output partition.
        keys: The names of the key columns in the frame, which are not those in the source.
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
    """Return a frame with about `per_file` rows for each new file of all groups. It reads only the key columns.

    A row is in the sample if a hash of its file and position is at most the threshold of its group. Therefore the
    sample, unlike `DataFrame.sample`, does not depend on the number of cores or tasks. Executors run no Python.

    Args:
        source: The rows to rewrite.
        columns: The names of the key columns, as in `key_names`.
        groups: The groups.
        index: The files of all groups.
        per_file: The number of rows for each new file.
        arrays: Arrays to add to the constants of the frame.
    """
    shares = (per_file * g.target_files / max(g.rows, 1) for g in groups)
    thresholds = pa.array([min(int(share * (1 << HASH_BITS)), (1 << HASH_BITS) - 1) for share in shares], pa.int32())
    constants = Constants(source.frame.sparkSession, {**index_arrays(index), "share": thresholds, **(arrays or {})})
    names = tuple(name if name == SOURCE_ORDER else f"{PREFIX}key{i}" for i, name in enumerate(columns))
    in_source = [(c, name) for c, name in zip(columns, names, strict=True) if c != SOURCE_ORDER]
    keys = [key_column(source.frame, column).alias(name) for column, name in in_source]
    frame = with_origin(source.frame.select(*keys, *source_columns(source)), index, constants)
    frame = with_source_order(frame, names)
    low_bits = F.xxhash64(ORDINAL, POSITION).bitwiseAND((1 << HASH_BITS) - 1)
    return Drawn(frame.where(low_bits <= constants.at("share", F.col(GROUP))), names, constants)


def take_sample(
    source: Source, columns: Sequence[str], groups: Sequence[GroupTarget], index: FileIndex, per_file: float
) -> Sample:
    """Return the rows that `draw` draws with these arguments, collected to the driver by one Spark job."""
    drawn = draw(source, columns, groups, index, per_file)
    table = to_arrow(drawn.frame.select(*drawn.keys, F.col(GROUP), shard_key(source).alias(SHARD_KEY)))
    keys = {column: table[name] for column, name in zip(columns, drawn.keys, strict=True)}
    return Sample(keys, table[GROUP].to_numpy(), table[SHARD_KEY].to_numpy())


def rows_per_file(files: int) -> int:
    """Return the number of rows to sample for each new file. files: the number of new files of all groups."""
    return min(SAMPLE_ROWS_PER_FILE, max(MIN_ROWS_PER_FILE, MAX_SAMPLE_ROWS // max(files, 1)))
