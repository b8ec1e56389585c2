"""The gate before a commit: the rows that leave the shuffle must be the rows that entered it.

A content is the number of rows and the sum of their 64-bit hashes modulo 2^64, which does not depend on their order
and, unlike an XOR, detects paired duplicates. Both sides are counted during the job, so the gate costs no scan.

A row is one struct, so that Spark has it as contiguous bytes (`UnsafeRow`), which are hashed directly: every type,
every null and every bit counts, at a fifth of the cost of `xxhash64` over the columns. Groups may be committed apart,
so each must have its own rows again. A group's number is the seed of its rows' hashes: on one side by the file that a
row was in, on the other by the file that it is written to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from zlayout.errors import EngineError
from zlayout.rewrite.rows import PREFIX
from zlayout.spark.catalyst import (
    call,
    column_of,
    expression_of,
    object_literal,
    object_type,
    static_call,
    wrapped,
    wrapping,
)
from zlayout.spark.jvm import jvm_of
from zlayout.spark.scala import scala_map, scala_object
from zlayout.sql_text import quoted

ROW = f"{PREFIX}row"
NUMBER = f"{PREFIX}number"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_ACCUMULATOR = "org.apache.spark.util.LongAccumulator"
SEED = -0x61C8864680B583EB  # any long that py4j does not send as an int
WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Content:
    """rows: their number. hash: the sum of the hashes of all rows modulo 2^64, as a signed long."""

    rows: int
    hash: int


class Gate:
    """Watches one rewrite: `watch_source` before the shuffle, `watch_result` after it, `check` after the write."""

    def __init__(
        self, source: DataFrame, expected_rows: int, grouped: Callable[[], tuple[DataFrame, Column]] | None = None
    ) -> None:
        """Make a gate.

        source: the frame to rewrite, with nothing added. expected_rows: live rows according to metadata. grouped: for
        several groups, the source with more columns, and the column with the group's number (int).
        """
        self._source = source
        self._grouped = grouped
        self._expected_rows = expected_rows
        self._before = Observation()
        self._after: Any = None  # a LongAccumulator, once there is a frame to watch

    def watch_source(self, frame: DataFrame, *carried: Column, group: Column | None = None) -> DataFrame:
        """Count the rows that enter the shuffle. Returns a frame of ROW, with the source's columns, and `carried`.

        frame: the source's columns and maybe more. group: of a row, computed from `carried`. An observation ends
        Spark's generated loop and copies each row, which costs nothing directly below the shuffle.
        """
        packed = frame.select(_row(self._source.columns), *carried)
        return packed.observe(self._before, *_content_columns(packed, group))

    def watch_result(self, frame: DataFrame, group: Column | None = None) -> DataFrame:
        """Count the rows that leave the shuffle, and return the source's columns.

        frame: sorted, which is where whole rows come from; has ROW. group: of a row. A filter that all rows pass counts
        them as it looks at each, in the same generated loop as what takes the columns out of ROW: an observation would
        be a loop of its own.
        """
        jvm, context = jvm_of(frame.sparkSession), cast(Any, frame.sparkSession.sparkContext)
        self._after = context._jsc.sc().longAccumulator()
        return frame.filter(_counted(jvm, self._after, _row_hash(jvm, group))).select(f"{ROW}.*")

    def check(self) -> Content:
        """What was written, once the write is done.

        Raises EngineError ZL310 (rows or content differ), ZL311 (row count is not the metadata's) and ZL312
        (the write reported nothing); nothing may be committed then.
        """
        before, after = _observed(self._before), _accumulated(self._after)
        if before != after:
            # a stage that ran again after a lost executor is counted twice before the shuffle: count once more
            before = self._count_again()
        if before != after:
            raise _differs("rewriting changed the rows", before, after)
        if after.rows != self._expected_rows:
            raise EngineError.of(
                "ZL311",
                f"expected {self._expected_rows} live rows from the table's metadata, found {after.rows}",
                hint="nothing was committed; check the table's delete files, then plan again",
            )
        return after

    def verify(self, written: DataFrame) -> Content:
        """Read the written rows back (`verify: full`): the same columns as the source, in any order.

        Raises EngineError ZL310 when they differ from what was sent to the writer.
        """
        written = written.select(*[quoted(c) for c in self._source.columns])
        # what was written does not say its group; the hashes that were sent have it in them
        sent = content_of(self._source) if self._grouped else _accumulated(self._after)
        found = content_of(written)
        # a writer may change the bytes of a NaN or a variant, but not what they mean
        if sent != found and content_of(_normalised(self._source)) != content_of(_normalised(written)):
            raise _differs("the files that were written hold other rows", sent, found)
        return found

    def _count_again(self) -> Content:
        if self._grouped is None:
            return content_of(self._source)
        frame, group = self._grouped()
        return content_of(frame, self._source.columns, group)


def content_of(frame: DataFrame, columns: Sequence[str] | None = None, group: Column | None = None) -> Content:
    """The content of a frame by a scan of it. columns: which make up a row, None for all. group: of a row."""
    seen = Observation()
    number = () if group is None else (group.alias(NUMBER),)
    packed = frame.select(_row(frame.columns if columns is None else columns), *number)
    metrics = _content_columns(packed, F.col(NUMBER) if number else None)
    packed.observe(seen, *metrics).write.format("noop").mode("overwrite").save()
    return _observed(seen)


def require_rows(groups: Mapping[str, tuple[int, int]]) -> None:
    """Each group must have as many rows in the files that it is committed with as it had.

    groups: by id the live rows that it had and those in its new files. Raises EngineError ZL310 where they differ.
    """
    for group, (expected, found) in groups.items():
        if expected != found:
            raise _differs(f"the new files of group {group} hold other rows", Content(expected, 0), Content(found, 0))


def column(name: str) -> Column:
    """A column of the source inside ROW."""
    return F.col(ROW).getField(name)


def _normalised(frame: DataFrame) -> DataFrame:
    """The frame with values that are written in several ways in one of them."""
    return frame.select(*[_normalise(F.col(quoted(f.name)), f.dataType).alias(f.name) for f in frame.schema.fields])


def _normalise(value: Column, kind: T.DataType) -> Column:
    """The value with its NaNs as one of them and its variants as JSON; a map as an array of its entries."""
    match kind:
        case T.FloatType() | T.DoubleType():
            return F.nanvl(value, F.lit(float("nan")).cast(kind))
        case T.VariantType():
            return F.to_json(value)
        case T.StructType(fields=fields) if fields:
            parts = [_normalise(value.getField(f.name), f.dataType).alias(f.name) for f in fields]
            return F.when(value.isNotNull(), F.struct(*parts))
        case T.ArrayType(elementType=element):
            return F.transform(value, lambda v: _normalise(v, element))
        case T.MapType(keyType=key, valueType=of):
            return F.transform(
                F.map_entries(value),
                lambda e: F.struct(_normalise(e.getField("key"), key), _normalise(e.getField("value"), of)),
            )
    return value


def _row(columns: Sequence[str]) -> Column:
    return F.struct(*[F.col(quoted(c)) for c in columns]).alias(ROW)


def _content_columns(frame: DataFrame, group: Column | None) -> list[Column]:
    """Row count and sum of the hashes of a frame with ROW, seeded with the row's group where given.

    The rows are counted by the last column, which is declared nullable. If it were not, Spark would drop it below the
    observation, which copies each row.
    """
    jvm = jvm_of(frame.sparkSession)
    total = jvm.org.apache.spark.sql.catalyst.expressions.aggregate.Sum(_row_hash(jvm, group), wrapping(jvm))
    return [
        F.count(wrapped(jvm, "KnownNullable", F.col(frame.columns[-1]))).alias("rows"),
        column_of(jvm, total.toAggregateExpression()).alias("hash"),
    ]


def _counted(jvm: Any, accumulator: Any, hashed: Any) -> Column:
    """boolean, true for every row: a `LongAccumulator` to which the row's hash was added is not zero.

    The Catalyst expression that sets a Java bean's fields is the only one that calls a method without a result.
    """
    setters = scala_map(jvm, {"add": hashed})
    objects = jvm.org.apache.spark.sql.catalyst.expressions.objects
    accumulated = objects.InitializeJavaBean(object_literal(jvm, accumulator, _ACCUMULATOR), setters)
    boolean = scala_object(jvm.org.apache.spark.sql.types, "BooleanType")
    return ~column_of(jvm, call(jvm, accumulated, "isZero", boolean, once=True))


def _row_hash(jvm: Any, group: Column | None) -> Any:
    """`XXH64` of the bytes of ROW with a seed, the row's group where given: calls that stay in generated code.

    ROW comes from a projection, so it is an UnsafeRow.
    """
    unsafe_row = f"{_EXPRESSIONS}.UnsafeRow"
    seed = F.lit(SEED) if group is None else group.cast("bigint")
    to_unsafe = object_literal(jvm, jvm.java.lang.Class.forName(unsafe_row), "java.lang.Class")
    bytes_of = call(jvm, to_unsafe, "cast", object_type(jvm, unsafe_row), expression_of(jvm, F.col(ROW)))
    long, integer = (scala_object(jvm.org.apache.spark.sql.types, f"{name}Type") for name in ("Long", "Integer"))
    where = (
        call(jvm, bytes_of, "getBaseObject", object_type(jvm, "java.lang.Object")),  # null for memory off the heap
        call(jvm, bytes_of, "getBaseOffset", long),
        call(jvm, bytes_of, "getSizeInBytes", integer),
        expression_of(jvm, seed),
    )
    return static_call(jvm, f"{_EXPRESSIONS}.XXH64", "hashUnsafeWords", long, where, nulls=False)


def _content(metrics: Mapping[str, Any]) -> Content:
    return Content(metrics.get("rows") or 0, metrics.get("hash") or 0)


def _accumulated(accumulator: Any) -> Content:
    """What a `LongAccumulator` counted: the number of longs, and their sum, which wraps around."""
    return Content(accumulator.count(), accumulator.sum())


def _observed(observation: Observation) -> Content:
    """What an observation counted. `Observation.get` would wait for ever if the write never ran the watched plan."""
    observed: Any = observation._jo
    until = time.monotonic() + WAIT_SECONDS
    while not observed.future().isCompleted():
        if time.monotonic() > until:
            raise EngineError.of(
                "ZL312",
                "Spark reported no row count for the rewrite",
                hint="nothing was committed; use engine: native and report this",
            )
        time.sleep(0.01)
    return _content(observation.get)


def _differs(what: str, expected: Content, found: Content) -> Exception:
    difference = "" if expected.rows != found.rows else " with other content"
    return EngineError.of(
        "ZL310",
        f"{what}: expected {expected.rows} rows, found {found.rows}{difference}",
        hint="nothing was committed; a source file may have been changed or removed during the rewrite: plan again",
    )
