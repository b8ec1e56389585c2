"""The gate before a commit: checks that the rows after the shuffle are the rows before the shuffle.

A content is the number of rows and the sum of their 64-bit hashes modulo 2^64. The sum does not depend on the order of
the rows and, unlike an XOR, detects pairs of duplicates. The contents before and after the shuffle are computed during
the rewrite, so the gate needs no additional scan.

A row is one struct, which Spark stores as contiguous bytes (`UnsafeRow`). The hash of these bytes depends on every
type, null and bit. It takes a fifth of the time of `xxhash64` over the columns.

Groups may be committed separately, so each group must keep its own rows. Therefore the number of a group is the seed of
the hash: before the shuffle, the group of the file that the row was read from; after it, the group of the new file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from zlayout.errors import EngineError
from zlayout.spark.jvm import (
    apply_expression,
    call,
    column_of,
    expression_of,
    jvm_of,
    object_literal,
    object_type,
    scala_map,
    scala_object,
    static_call,
    wraparound,
)
from zlayout.table.state import PREFIX, WRONG_ROW_COUNTS
from zlayout.text import quote_identifier

ROW = f"{PREFIX}row"
NUMBER = f"{PREFIX}number"
HASH = f"{PREFIX}hash"
DIGEST = f"{PREFIX}digest"
DIGEST_BYTES = 16  # to make two rows with the same digest takes about 2^64 attempts
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_ACCUMULATOR = "org.apache.spark.util.LongAccumulator"
SEED = -0x61C8864680B583EB  # arbitrary, but too large for py4j to send it as an int
WAIT_SECONDS = 60.0
_CHANGED = "plan again: a source file may have been changed or removed during the rewrite; nothing was committed"
ROWS_DIFFER = "ZL310"
_VARIANT = getattr(T, "VariantType", ())  # new in Spark 4.0


@dataclass(frozen=True, slots=True)
class Content:
    """The number of rows, and the sum of their hashes modulo 2^64 as a signed long."""

    rows: int
    hash: int


class Gate:
    """Watches one rewrite: `watch_source` before the shuffle, `watch_result` after it, `check` after the write."""

    def __init__(
        self,
        source: DataFrame,
        expected_rows: int,
        grouped: Callable[[], tuple[DataFrame, Column]] | None = None,
        table: str = "",
        *,
        has_deletes: bool = True,
    ) -> None:
        """Store the source.

        Args:
            source: The rows to rewrite, without additional columns.
            expected_rows: The number of live rows according to the metadata.
            grouped: A function that returns the source with additional columns, and the column with the number of a
                row's group (int). None if there is one group.
            table: The name of the table, for messages.
            has_deletes: Whether files of the source have deletes, for hints.
        """
        self._table, self._has_deletes = table, has_deletes
        self._source = source
        self._grouped = grouped
        self._expected_rows = expected_rows
        self._before = Observation()
        self._after: Any = None  # a LongAccumulator, once there is a frame to watch

    def watch_source(self, frame: DataFrame, *carried: Column, group: Column | None = None) -> DataFrame:
        """Compute the content before the shuffle by an observation.

        An observation ends Spark's generated loop and copies each row. Directly before the shuffle, this costs nothing.

        Args:
            frame: The source's columns and possibly more.
            carried: Columns of the frame to keep.
            group: The number of a row's group, computed from `carried`. None if there is one group.

        Returns:
            A frame of ROW, a struct of the source's columns, and of the carried columns.
        """
        packed = frame.select(_row(self._source.columns), *carried)
        return packed.observe(self._before, *_content_columns(packed, group))

    def watch_result(self, frame: DataFrame, group: Column | None = None) -> DataFrame:
        """Compute the content after the shuffle by a filter that all rows pass, and return the source's columns.

        The filter runs in the same generated loop as the projection to the source's columns. An observation would add
        another loop.

        Args:
            frame: The sorted rows, with the column ROW.
            group: The number of a row's group. None if there is one group.
        """
        session: Any = frame.sparkSession
        jvm, self._after = jvm_of(session), session.sparkContext._jsc.sc().longAccumulator()
        return frame.filter(_counted(jvm, self._after, _row_hash(jvm, group))).select(f"{ROW}.*")

    def check(self) -> Content:
        """Compare the contents after the write. After an error, nothing may be committed.

        Returns:
            The content that was written.

        Raises:
            EngineError: ZL310 if the contents differ, ZL311 if the metadata has another number of rows; ZL312.
        """
        before, after = _observed(self._before, self._table), _accumulated(self._after)
        if before != after:
            # after the loss of an executor, Spark repeats tasks of the map stage, and their rows are counted twice
            before = self._count_again()
        if before != after:
            raise _differs(_of(self._table, "the rewrite changed the rows"), before, after)
        if after.rows != self._expected_rows:
            what = f"expected {self._expected_rows} live rows from the table's metadata, found {after.rows}"
            raise EngineError.of("ZL311", _of(self._table, what), hint=_wrong_counts(self._has_deletes))
        return after

    def verify(self, written: DataFrame) -> Content:
        """Compare the rows of the new files, read back, with the rows that were rewritten (`--verify full`).

        Raises:
            EngineError: ZL310, if they differ.
        """
        written = written.select(*[quote_identifier(c) for c in self._source.columns])
        # with several groups, the accumulated hashes depend on the groups, which the new files do not contain
        sent = content_of(self._source) if self._grouped else _accumulated(self._after)
        found = content_of(written)
        # a writer may change the bytes of a NaN or a variant, but not the value
        if sent != found and content_of(_normalised(self._source)) != content_of(_normalised(written)):
            raise _differs(_of(self._table, "the new files contain other rows"), sent, found)
        return found

    def _count_again(self) -> Content:
        if self._grouped is None:
            return content_of(self._source)
        frame, group = self._grouped()
        return content_of(frame, self._source.columns, group)


def content_of(frame: DataFrame, columns: Sequence[str] | None = None, group: Column | None = None) -> Content:
    """Compute the content of a frame by a scan.

    columns: the names of the columns of a row, None for all columns. group: the number of a row's group, or None.
    """
    seen = Observation()
    number = () if group is None else (group.alias(NUMBER),)
    packed = frame.select(_row(frame.columns if columns is None else columns), *number)
    metrics = _content_columns(packed, F.col(NUMBER) if number else None)
    packed.observe(seen, *metrics).write.format("noop").mode("overwrite").save()
    return _observed(seen)


def contents_of(frames: Sequence[DataFrame], columns: Sequence[str]) -> list[Content]:
    """Compute the content of each frame, with hashes as HASH of `digests`, in one Spark job.

    Args:
        frames: Frames with the same columns.
        columns: The names of the columns of a row.
    """
    part, seen = f"{PREFIX}part", Observation()
    packed = [
        frame.select(*_normalised_columns(frame, columns)).select(_row(columns), F.lit(number).alias(part))
        for number, frame in enumerate(frames)
    ]
    whole = reduce(DataFrame.unionAll, packed)
    jvm = jvm_of(whole.sparkSession)
    sums = jvm.org.apache.spark.sql.catalyst.expressions.aggregate.Sum
    hashed = column_of(jvm, _row_hash(jvm, None))
    metrics = []
    for number in range(len(frames)):
        of_part = F.col(part) == number
        total = sums(expression_of(jvm, F.when(of_part, hashed)), wraparound(jvm))
        metrics += [
            F.count_if(of_part).alias(f"rows{number}"),
            column_of(jvm, total.toAggregateExpression()).alias(f"hash{number}"),
        ]
    whole.observe(seen, *metrics).write.format("noop").mode("overwrite").save()
    found = _metrics(seen)
    return [Content(found.get(f"rows{n}") or 0, found.get(f"hash{n}") or 0) for n in range(len(frames))]


def require_same_rows(removed: tuple[Content, Content], added: tuple[Content, Content], table: str) -> None:
    """Check that two sets of files have lost the same rows.

    Args:
        removed: The content of files before and after some of their rows were deleted.
        added: The same of other files.
        table: The name of the table, for messages.

    Raises:
        EngineError: ZL310, if the rows differ.
    """
    expected, found = _minus(*removed), _minus(*added)
    if expected != found:
        what = _of(table, "a rebase would delete other rows from the new files than were deleted from the old ones")
        raise _differs(what, expected, found, "report this error; these groups were not committed")


def _minus(before: Content, after: Content) -> Content:
    difference = (before.hash - after.hash) % 2**64
    return Content(before.rows - after.rows, difference - 2**64 * (difference >= 2**63))


def digests(frame: DataFrame, columns: Sequence[str], *carried: str) -> DataFrame:
    """Return HASH (bigint), DIGEST (binary) and the carried columns of each row.

    HASH is the 64-bit hash of the bytes of a row, and DIGEST the first DIGEST_BYTES bytes of their SHA-256, after equal
    values were normalised as by `Gate.verify`: two rows are equal if and only if their digests are. It is not defined
    for rows with a variant.

    Args:
        frame: The rows.
        columns: The names of the columns of a row.
        carried: The names of further columns of the frame to keep.
    """
    jvm = jvm_of(frame.sparkSession)
    rows = frame.select(*_normalised_columns(frame, columns), *carried).select(_row(columns), *carried)
    # an observation stores each row as contiguous bytes, which the hash needs
    rows = rows.observe(Observation(), F.count(F.lit(1)).alias("rows"))
    binary = scala_object(jvm.org.apache.spark.sql.types, "BinaryType")
    stored = column_of(jvm, call(jvm, _unsafe_row(jvm), "getBytes", binary))
    digest = F.unhex(F.substring(F.sha2(stored, 256), 1, 2 * DIGEST_BYTES)).alias(DIGEST)
    return rows.select(column_of(jvm, _row_hash(jvm, None)).alias(HASH), digest, *carried)


def has_variant(type: T.DataType) -> bool:
    """Return whether a type is a variant or contains one."""
    match type:
        case T.StructType(fields=fields):
            return any(has_variant(field.dataType) for field in fields)
        case T.ArrayType(elementType=element):
            return has_variant(element)
        case T.MapType(keyType=key_type, valueType=value_type):
            return has_variant(key_type) or has_variant(value_type)
    return isinstance(type, _VARIANT)


def require_rows(groups: Mapping[str, tuple[int, int]], table: str = "", *, has_deletes: bool = False) -> None:
    """Check that the new files of each group have as many rows as the group has.

    Args:
        groups: The number of live rows of the group and the number of rows in its new files, by group id.
        table: The name of the table, for messages.
        has_deletes: Whether the metadata states deleted rows, for the hint.

    Raises:
        EngineError: ZL310, if the numbers of a group differ.
    """
    for group, (expected, found) in groups.items():
        if expected != found:
            what = _of(table, f"the new files of group {group} contain other rows")
            raise _differs(what, Content(expected, 0), Content(found, 0), _wrong_counts(has_deletes))


def column(name: str) -> Column:
    """Return the column `name` of the source as a field of ROW."""
    return F.col(ROW).getField(name)


def _normalised(frame: DataFrame) -> DataFrame:
    return frame.select(*_normalised_columns(frame, frame.columns))


def _normalised_columns(frame: DataFrame, columns: Sequence[str]) -> list[Column]:
    wanted = set(columns)
    return [
        _normalise(F.col(quote_identifier(f.name)), f.dataType).alias(f.name)
        for f in frame.schema.fields
        if f.name in wanted
    ]


def _normalise(value: Column, type: T.DataType) -> Column:
    if isinstance(type, _VARIANT):
        return F.to_json(value)
    match type:
        case T.FloatType() | T.DoubleType():
            return F.nanvl(value, F.lit(float("nan")).cast(type))
        case T.StructType(fields=fields) if fields:
            parts = [_normalise(value.getField(f.name), f.dataType).alias(f.name) for f in fields]
            return F.when(value.isNotNull(), F.struct(*parts))
        case T.ArrayType(elementType=element):
            return F.transform(value, lambda v: _normalise(v, element))
        case T.MapType(keyType=key_type, valueType=value_type):
            return F.transform(
                F.map_entries(value),
                lambda e: F.struct(
                    _normalise(e.getField("key"), key_type), _normalise(e.getField("value"), value_type)
                ),
            )
    return value


def _row(columns: Sequence[str]) -> Column:
    return F.struct(*[F.col(quote_identifier(c)) for c in columns]).alias(ROW)


def _content_columns(frame: DataFrame, group: Column | None) -> list[Column]:
    jvm = jvm_of(frame.sparkSession)
    total = jvm.org.apache.spark.sql.catalyst.expressions.aggregate.Sum(_row_hash(jvm, group), wraparound(jvm))
    # If the counted column were not marked as nullable, Spark would remove it by a projection that copies each row.
    return [
        F.count(apply_expression(jvm, "KnownNullable", F.col(frame.columns[-1]))).alias("rows"),
        column_of(jvm, total.toAggregateExpression()).alias("hash"),
    ]


def _counted(jvm: Any, accumulator: Any, hashed: Any) -> Column:
    """Return a boolean column that adds the row's hash to a `LongAccumulator` and is true for every row."""
    # `InitializeJavaBean` is the only Catalyst expression that can call a method without a result.
    setters = scala_map(jvm, {"add": hashed})
    objects = jvm.org.apache.spark.sql.catalyst.expressions.objects
    accumulated = objects.InitializeJavaBean(object_literal(jvm, accumulator, _ACCUMULATOR), setters)
    boolean = scala_object(jvm.org.apache.spark.sql.types, "BooleanType")
    # the accumulator is not empty after the addition
    return ~column_of(jvm, call(jvm, accumulated, "isZero", boolean, once=True))


def _row_hash(jvm: Any, group: Column | None) -> Any:
    """Return the `XXH64` hash of the bytes of ROW. All calls stay inside generated code. group: seed of the hash."""
    seed = F.lit(SEED) if group is None else group.cast("bigint")
    bytes_of = _unsafe_row(jvm)
    long, integer = (scala_object(jvm.org.apache.spark.sql.types, f"{name}Type") for name in ("Long", "Integer"))
    where = (
        call(jvm, bytes_of, "getBaseObject", object_type(jvm, "java.lang.Object")),  # null for off-heap memory
        call(jvm, bytes_of, "getBaseOffset", long),
        call(jvm, bytes_of, "getSizeInBytes", integer),
        expression_of(jvm, seed),
    )
    return static_call(jvm, f"{_EXPRESSIONS}.XXH64", "hashUnsafeWords", long, where, nulls=False)


def _unsafe_row(jvm: Any) -> Any:
    """Return ROW as the Java object that it is, because a projection makes it."""
    unsafe_row = f"{_EXPRESSIONS}.UnsafeRow"
    to_unsafe = object_literal(jvm, jvm.java.lang.Class.forName(unsafe_row), "java.lang.Class")
    return call(jvm, to_unsafe, "cast", object_type(jvm, unsafe_row), expression_of(jvm, F.col(ROW)))


def _accumulated(accumulator: Any) -> Content:
    return Content(accumulator.count(), accumulator.sum())


def _observed(observation: Observation, table: str = "") -> Content:
    metrics = _metrics(observation, table)
    return Content(metrics.get("rows") or 0, metrics.get("hash") or 0)


def _metrics(observation: Observation, table: str = "") -> Mapping[str, Any]:
    """Return the metrics of an observation. Waits at most WAIT_SECONDS, because `Observation.get` may never return."""
    found: Future[Mapping[str, Any]] = Future()

    def wait() -> None:
        try:
            found.set_result(observation.get)
        except Exception as error:
            found.set_exception(error)

    threading.Thread(target=wait, daemon=True).start()
    try:
        return found.result(WAIT_SECONDS)
    except TimeoutError as error:
        raise EngineError.of(
            "ZL312",
            _of(table, "Spark reported no row count for the rewrite"),
            hint="use engine: native, and report this error; nothing was committed",
        ) from error


def _of(table: str, what: str) -> str:
    return f"{table}: {what}" if table else what


def _wrong_counts(has_deletes: bool) -> str:
    hint = "check the table's delete files, then plan again" if has_deletes else WRONG_ROW_COUNTS
    return f"{hint}; nothing was committed"


def _differs(what: str, expected: Content, found: Content, hint: str = _CHANGED) -> EngineError:
    difference = "" if expected.rows != found.rows else " with other content"
    return EngineError.of(
        ROWS_DIFFER,
        f"{what}: expected {expected.rows} rows, found {found.rows}{difference}",
        hint=hint,
    )
