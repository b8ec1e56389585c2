"""Adds the origin of each row, its group and the key of its shard to the source of a rewrite.

ORDINAL is the rank of the row's file among the files of the rewrite in the order of paths, so it is the same for copies
of a table in different locations. POSITION is the index of the row in the file. Neither depends on how Spark splits the
files into tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from zlayout.errors import EngineError
from zlayout.rewrite.constants import Constants
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spec.layout import Layout
from zlayout.sql_text import quote_identifier, quote_path
from zlayout.table.reserved import PREFIX

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

FILE = f"{PREFIX}file"
POSITION = f"{PREFIX}position"
ORDINAL = f"{PREFIX}ordinal"
GROUP = f"{PREFIX}group"
SHARD = f"{PREFIX}shard"
SHARD_KEY = f"{PREFIX}shard_key"
PARTITION = f"{PREFIX}partition"
SOURCE_ORDER = f"{PREFIX}source_order"

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
        id: The id of the group.
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
    """The files of a rewrite, in the order of the hashes of their paths.

    Attributes:
        salt: The seed for which the hashes are distinct.
        hash: int64[files], the hashes.
        ordinal: int32[files], the ordinals.
        group: int32[files], the numbers of the groups.
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
    return {
        "path_hash": pa.array(index.hash),
        "ordinal": pa.array(index.ordinal),
        "group": pa.array(index.group),
    }


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
