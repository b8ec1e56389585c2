"""Makes arrays of the driver available in Spark expressions: look-ups and binary searches without a join or a UDF.

A binary search is a call of `java.util.Arrays.binarySearch` through Catalyst's `StaticInvoke`. The call stays inside
whole-stage code generation. Spark's own `array_binary_search` copies the whole array for every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from zlayout.spark.arrow import from_arrow
from zlayout.spark.catalyst import (
    apply_expression,
    column_of,
    expression_of,
    object_literal,
    static_call,
    string_order,
    wraparound,
)
from zlayout.spark.jvm import jvm_of, scala_object

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
        """Convert a key of a Spark type to a Java value that Java compares in the order of `zlayout.curve.order`."""
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
