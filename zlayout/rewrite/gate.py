"""The gate before a commit: what came out of the shuffle must be what went in, row for row.

A content is the number of rows and the sum of their 64-bit hashes modulo 2^64, which does not depend on their order
and, unlike an XOR, sees paired duplicates. Both sides are observed while the rows flow, so the gate costs no scan.
-0.0 and 0.0 hash alike, as do all NaN: Spark treats them as the same value everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from zlayout.errors import EngineError
from zlayout.rewrite.rows import quoted

MASK_BITS = 63
WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Content:
    """rows: how many. hash: the sum of `xxhash64` over all columns of each row, modulo 2^64 (as a signed long)."""

    rows: int
    hash: int


class Gate:
    """Watches one rewrite: `watch_source` before the shuffle, `watch_result` after it, `check` after the write."""

    def __init__(self, source: DataFrame, expected_rows: int) -> None:
        """source: the frame to rewrite, without anything added. expected_rows: live rows that the metadata promises."""
        self._source = source
        self._hash = row_hash(source)
        self._jvm: Any = source.sparkSession.sparkContext._jvm
        self._expected_rows = expected_rows
        self._before = Observation()
        self._after = Observation()

    def watch_source(self, frame: DataFrame) -> DataFrame:
        """Count what goes into the shuffle. `frame` holds the source's columns and maybe more, which do not count.

        An observation ends Spark's generated loop and copies each row. Directly below the shuffle, which wants whole
        rows anyway, that costs nothing; right after the scan it costs as much as the hash twice over.
        """
        return frame.observe(self._before, *_sums(self._jvm, self._hash))

    def watch_result(self, frame: DataFrame) -> DataFrame:
        """Count what comes out of the shuffle, hashed anew."""
        return frame.observe(self._after, *_sums(self._jvm, self._hash))

    def check(self) -> Content:
        """What was written, once the write is done.

        Raises EngineError ZL310 (rows or content differ), ZL311 (row count is not the metadata's) and ZL312
        (the write reported nothing); nothing may be committed then.
        """
        before, after = _observed(self._before), _observed(self._after)
        if before != after:
            # a stage that ran again after a lost executor is counted twice before the shuffle: count once more
            before = content_of(self._source)
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
        sent, found = _observed(self._after), content_of(written.select(*[quoted(c) for c in self._source.columns]))
        if sent != found:
            raise _differs("the files that were written hold other rows", sent, found)
        return found


def content_of(frame: DataFrame) -> Content:
    """The content of a frame by a scan of it."""
    row = frame.agg(*_sums(frame.sparkSession.sparkContext._jvm, row_hash(frame))).first()
    return _content(row.asDict() if row else {})


def row_hash(frame: DataFrame) -> Column:
    """`xxhash64` over all columns of the frame, with columns that it refuses (maps, variants) made hashable."""
    fields = [(F.col(quoted(f.name)), f) for f in frame.schema.fields]
    values = [part for column, f in fields for part in _hashable(column, f.dataType)]
    return F.xxhash64(*values, *_null_masks([column for column, _ in fields]))


def _null_masks(columns: Sequence[Column]) -> list[Column]:
    """Which of the columns are null, 63 to a long: `xxhash64` passes over nulls, so (1, null) would equal (null, 1).

    All columns have a bit, also those that cannot be null: the files read back say that every column can.
    """
    masks = []
    for start in range(0, len(columns), MASK_BITS):
        some = columns[start : start + MASK_BITS]
        bits = [F.shiftleft(c.isNull().cast("bigint"), i) for i, c in enumerate(some)]
        masks.append(reduce(Column.bitwiseOR, bits))
    return masks


def _sums(jvm: Any, hashed: Column) -> list[Column]:
    """Row count and sum of the hashes. The sum wraps round, whatever `spark.sql.ansi.enabled` says.

    One aggregate, since an observation computes the hash anew for each; a decimal would be made for every row.
    """
    sql = jvm.org.apache.spark.sql
    expressions, convert = sql.catalyst.expressions, sql.classic.ExpressionUtils
    wrapping = getattr(getattr(expressions, "EvalMode$"), "MODULE$").LEGACY()
    context = expressions.NumericEvalContext(wrapping, True)
    total = expressions.aggregate.Sum(convert.expression(hashed._jc), context)
    return [F.count(F.lit(1)).alias("rows"), Column(convert.column(total.toAggregateExpression())).alias("hash")]


def _content(metrics: Mapping[str, Any]) -> Content:
    return Content(metrics.get("rows") or 0, metrics.get("hash") or 0)


def _hashable(value: Column, kind: T.DataType) -> list[Column]:
    """The value as columns that `xxhash64` takes and that differ when the value does."""
    if not _refused(kind):
        return [value]
    match kind:
        case T.StructType():
            parts = [p for f in kind.fields for p in _hashable(value.getField(f.name), f.dataType)]
            return [value.isNull(), *parts]
        case T.MapType():
            return _hashable(F.map_entries(value), _entries_type(kind))
        case T.ArrayType():
            # the array itself may be null or empty, which its elements cannot tell
            return [F.size(value), F.transform(value, lambda e: F.xxhash64(*_hashable(e, kind.elementType)))]
        case _:
            return [F.to_json(value)]


def _refused(kind: T.DataType) -> bool:
    match kind:
        case T.MapType() | T.VariantType():
            return True
        case T.StructType():
            return any(_refused(f.dataType) for f in kind.fields)
        case T.ArrayType():
            return _refused(kind.elementType)
        case _:
            return False


def _entries_type(kind: T.MapType) -> T.ArrayType:
    entry = T.StructType().add("key", kind.keyType, False).add("value", kind.valueType, kind.valueContainsNull)
    return T.ArrayType(entry, False)


def _observed(observation: Observation) -> Content:
    """What an observation saw. `Observation.get` would wait for ever if the write never ran the watched plan."""
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
        hint="nothing was committed; a source file may have been changed or removed meanwhile, plan again",
    )
