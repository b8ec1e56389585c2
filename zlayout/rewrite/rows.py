"""Adds the origin of each row, its group and the key of its shard to the source of a rewrite, and samples the rows.

The origin of a row is ORDINAL and POSITION. ORDINAL is the rank of the row's file among the files of the rewrite in the
order of paths, so it is the same for copies of a table in different locations. POSITION is the index of the row in the
file. Neither depends on how Spark splits the files into tasks. Whether a row is in the sample depends only on its
origin and its group. One Spark job samples all groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from zlayout.curve.tree import Int32, Int64
from zlayout.errors import EngineError
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spark.jvm import (
    apply_expression,
    column_of,
    expression_of,
    jvm_of,
    object_literal,
    scala_object,
    static_call,
    string_order,
    wraparound,
)
from zlayout.spec.model import Layout
from zlayout.table.state import PREFIX
from zlayout.text import path_of, quote_path

# Arrays of the driver in Spark expressions: look-ups and binary searches without a join or a UDF.
#
# A binary search is a call of `java.util.Arrays.binarySearch` through Catalyst's `StaticInvoke`. The call stays inside
# whole-stage code generation. Spark's own `array_binary_search` copies the whole array for every row.


MAX_DIGITS_IN_LONG = 18


class Constants:
    """Named arrays that Spark expressions can read. Spark sends them to the tasks once per stage that uses them."""

    def __init__(self, session: SparkSession, arrays: Mapping[str, pa.Array]) -> None:
        """Store arrays of int32, int64, float64, string, binary or decimal128, without nulls, by name."""
        self._jvm = jvm_of(session)
        self._types = {name: values.type for name, values in arrays.items()}
        self._positions = {name: i for i, name in enumerate(arrays)}
        self._row = _one_row(session, arrays)

    def at(self, name: str, index: Column) -> Column:
        """Return the element at `index` (int) of an int32 or int64 array. The index must be valid and not null."""
        element = "LongType" if pt.is_int64(self._types[name]) else "IntegerType"
        sql = self._jvm.org.apache.spark.sql
        array_type = sql.types.ArrayType(scala_object(sql.types, element), False)
        literal = sql.catalyst.expressions.Literal(self._row.getArray(self._positions[name]), array_type)
        return self.not_null(F.get(column_of(self._jvm, literal), index))

    def search(self, name: str, key: Column, *, once: bool = False) -> Column:
        """Return the index of `key` in a sorted array, by binary search.

        Args:
            name: The name of the array, which is a result of `search_array`.
            key: The result of `ordered_key` for the same column type.
            once: See `static_call`.

        Returns:
            int: the index, -1 - (insertion point) if the array does not contain the key, null for a null key.
        """
        type = self._types[name]
        row = self._row.getArray(self._positions[name])
        if pt.is_int32(type):
            array, signature = row.toIntArray(), "[I"
        elif pt.is_int64(type):
            array, signature = row.toLongArray(), "[J"
        elif pt.is_float64(type):
            array, signature = row.toDoubleArray(), "[D"
        else:
            array, signature = row.toObjectArray(self._element_type(type)), "[Ljava.lang.Object;"
        arguments = [object_literal(self._jvm, array, signature), expression_of(self._jvm, key)]
        if pt.is_string(type) or pt.is_binary(type):
            arguments.append(object_literal(self._jvm, string_order(self._jvm), "java.util.Comparator"))
        integer = scala_object(self._jvm.org.apache.spark.sql.types, "IntegerType")
        invoke = static_call(self._jvm, "java.util.Arrays", "binarySearch", integer, arguments, nulls=True, once=once)
        return column_of(self._jvm, invoke)

    def not_null(self, value: Column) -> Column:
        """Mark a value as not null. Null checks would make the generated code of a tree walk too long to compile."""
        return apply_expression(self._jvm, "KnownNotNull", value)

    def row_major(self, index: Column, count: int, inner: Column) -> Column:
        """Return index * count + inner (int) without Spark's overflow check, which calls a closure for every row."""
        jvm = self._jvm
        catalyst, context = jvm.org.apache.spark.sql.catalyst.expressions, wraparound(jvm)
        scaled = catalyst.Multiply(expression_of(jvm, index), expression_of(jvm, F.lit(count)), context)
        return column_of(jvm, catalyst.Add(scaled, expression_of(jvm, inner), context))

    def low_int(self, value: Column) -> Column:
        """Return the low 32 bits (int) of a bigint, without an overflow check, which makes generated code longer."""
        jvm = self._jvm
        catalyst, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types
        legacy, no_zone = scala_object(catalyst, "EvalMode").LEGACY(), scala_object(jvm.scala, "None")
        cast = catalyst.Cast(expression_of(jvm, value), scala_object(types, "IntegerType"), no_zone, legacy)
        return column_of(jvm, cast)

    def ordered_key(self, key: Column, type: T.DataType) -> Column:
        """Convert a key of a Spark type to a Java value that Java compares in the order of `zlayout.curve.tree`."""
        match type:
            case T.BooleanType() | T.ByteType() | T.ShortType():
                return key.cast("int")
            case T.FloatType() | T.DoubleType():
                # Double.compare puts NaN above infinity, as required, but -0.0 below 0.0; adding 0.0 makes them equal
                return key.cast("double") + F.lit(0.0)
            case T.DecimalType() if type.precision <= MAX_DIGITS_IN_LONG:
                return apply_expression(self._jvm, "UnscaledValue", key)
            case T.BinaryType():
                return key.cast("string")  # does not change the bytes, which UTF8String compares as unsigned numbers
        return key

    def _element_type(self, type: pa.DataType) -> Any:
        types = self._jvm.org.apache.spark.sql.types
        if pt.is_decimal(type):
            return types.DecimalType(type.precision, type.scale)
        return scala_object(types, "StringType")


def search_array(boundaries: pa.Array) -> pa.Array:
    """Convert the sorted boundaries of a key column to an array for `Constants.search`, in the same order."""
    type = boundaries.type
    if any(is_type(type) for is_type in (pt.is_boolean, pt.is_int8, pt.is_int16, pt.is_date32)):
        return boundaries.cast(pa.int32())
    if pt.is_timestamp(type):
        return boundaries.cast(pa.timestamp("us", type.tz)).cast(pa.int64())
    if pt.is_floating(type):
        return pc.add(boundaries.cast(pa.float64()), 0.0)
    if pt.is_decimal(type) and type.precision <= MAX_DIGITS_IN_LONG:
        return _unscaled_longs(boundaries)
    if pt.is_large_string(type):
        return boundaries.cast(pa.string())
    if pt.is_large_binary(type):
        return boundaries.cast(pa.binary())
    return boundaries


def _unscaled_longs(decimals: pa.Array) -> pa.Array:
    """Return decimal128 values of at most 18 digits as int64[n]: the low 8 of the 16 little-endian bytes."""
    halves = np.frombuffer(decimals.buffers()[1], dtype="<i8")
    return pa.array(halves[2 * decimals.offset :: 2][: len(decimals)])


def _one_row(session: SparkSession, arrays: Mapping[str, pa.Array]) -> Any:
    """Convert the arrays to the fields of one internal row of Spark, by Arrow: py4j would take 0.1 ms per element."""
    whole = [pa.ListArray.from_arrays(pa.array([0, len(a)], pa.int32()), a) for a in arrays.values()]
    frame = from_arrow(session, pa.table(whole, names=[f"c{i}" for i in range(len(whole))]))
    columns = [
        F.col(f"c{i}").cast("array<string>") if pt.is_binary(a.type) else F.col(f"c{i}")
        for i, a in enumerate(arrays.values())
    ]
    jframe: Any = frame.select(*columns)._jdf
    return jframe.queryExecution().executedPlan().executeCollect()[0]


# The rows of a rewrite: their origin, their group, the key of their shard, and a sample of them.

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
        table: The name of the table, for messages.
        has_deletes: Whether files have deletes, for hints.
    """

    frame: DataFrame
    file: Column
    position: Column
    partition: tuple[Column, ...] = ()
    table: str = ""
    has_deletes: bool = True


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


def index_files(session: SparkSession, groups: Sequence[GroupTarget], name: str = "") -> FileIndex:
    """Build the index of the files of all groups. Raises EngineError ZL313 for a duplicate file. name: of the table."""
    paths = pa.concat_arrays([pa.array(g.paths, pa.string()) for g in groups])
    group = np.repeat(np.arange(len(groups), dtype=np.int32), [len(g.paths) for g in groups])
    if len(pc.unique(paths)) != len(paths):
        message = f"{name}: duplicate file in the plan" if name else "duplicate file in the plan"
        hint = "check the metadata of the table, which a new plan would read in the same way, and report this error"
        raise EngineError.of("ZL313", message, hint=f"{hint}; nothing was committed")
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


def key_column(name: str) -> Column:
    """Return a key column by its name in the table state."""
    return F.col(quote_path(path_of(name)))


def key_type(frame: DataFrame, name: str) -> T.DataType:
    return frame.select(key_column(name)).schema.fields[0].dataType


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
    keys = [key_column(column).alias(name) for column, name in in_source]
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
