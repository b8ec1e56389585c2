"""The content of a frame: equal for any order, different when any value differs, for every type."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from zlayout.errors import EngineError
from zlayout.rewrite import gate as module
from zlayout.rewrite.gate import Gate, column, content_of

BASE = """
select 1 as i, 'x' as s, cast(null as string) as n, map('k', 1, 'l', 2) as m, {v} as v,
  named_struct('x', map(1, 'p'), 'y', cast(null as int)) as st, array(map('q', 1), map('r', 2)) as am,
  interval '1' month as ym, interval '2' day as ds, map('k', map('l', 3)) as mm, binary('z') as bin,
  array(cast(null as int)) as an, 1.5d as d, timestamp_ntz'1950-01-01 00:00:00' as ts
"""
# Spark 3.5 has no variants: text stands for them
VARIANTS = hasattr(T, "VariantType")
BASE = BASE.replace("{v}", """parse_json('{"a": 1}')""" if VARIANTS else """'{"a": 1}'""")
OTHER_VARIANT = """parse_json('{"a": 2}')""" if VARIANTS else """'{"a": 2}'"""


def test_hash_is_the_sum_of_the_rows_hashes_modulo_2_to_the_64(spark):
    hashes = {i: content_of(spark.range(i, i + 1)).hash for i in range(8)}
    assert len(set(hashes.values())) == 8
    positive = {i: h for i, h in hashes.items() if h > 0}
    assert sum(positive.values()) >= 2**63, "the sum must wrap round for this test to mean anything"
    found = content_of(spark.range(8).where(F.col("id").isin(list(positive))))
    assert (found.rows, found.hash % 2**64) == (len(positive), sum(positive.values()) % 2**64)


def test_order_does_not_matter_and_multiplicity_does(spark):
    frame = spark.range(100).toDF("a")
    assert content_of(frame.orderBy(F.desc("a"))) == content_of(frame)
    twice = content_of(frame.where("a in (3, 4)").unionAll(frame.where("a in (3, 4)")))
    other = content_of(frame.where("a in (5, 6)").unionAll(frame.where("a in (5, 6)")))
    assert twice.rows == other.rows
    assert twice.hash != other.hash


@pytest.fixture(scope="module")
def base(spark):
    return content_of(spark.sql(BASE))


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("i", "2"), ("s", "cast(null as string)"), ("m", "map('k', 1, 'l', 3)"),
        ("m", "cast(map() as map<string,int>)"), ("m", "cast(null as map<string,int>)"),
        ("v", OTHER_VARIANT), ("v", "cast(null as variant)" if VARIANTS else "cast(null as string)"),
        ("st", "named_struct('x', map(1, 'q'), 'y', cast(null as int))"),
        ("st", "cast(null as struct<x:map<int,string>,y:int>)"), ("am", "array(map('q', 1), map('r', 3))"),
        ("am", "cast(array() as array<map<string,int>>)"), ("ym", "interval '2' month"), ("ds", "interval '3' day"),
        ("mm", "map('k', map('l', 4))"), ("bin", "binary('y')"), ("d", "double('NaN')"),
        ("ts", "timestamp_ntz'1950-01-01 00:00:00.000001'"),
    ],
)  # fmt: skip
def test_a_changed_value_changes_the_hash(spark, base, column, other):
    assert content_of(spark.sql(BASE).withColumn(column, F.expr(other))).hash != base.hash


def test_a_value_that_moves_to_another_column_changes_the_hash(spark):
    one = spark.sql("select 'x' as a, cast(null as string) as b")
    other = spark.sql("select cast(null as string) as a, 'x' as b")
    assert content_of(one).hash != content_of(other).hash


def test_a_lost_row_and_a_changed_row_are_refused(spark, tmp_path):
    frame = spark.range(10)
    other = F.struct((column("id") + 1).alias("id")).alias(module.ROW)
    for number, change in enumerate((lambda f: f.where(column("id") > 0), lambda f: f.select(other))):
        gate = Gate(frame, 10)
        changed = change(gate.watch_source(frame)).sortWithinPartitions(module.ROW)
        gate.watch_result(changed).write.parquet(str(tmp_path / str(number)))
        with pytest.raises(EngineError, match="ZL310"):
            gate.check()


def test_a_source_that_was_counted_twice_is_counted_again(spark, tmp_path):
    frame = spark.range(10)
    gate = Gate(frame, 10)
    gate.watch_source(frame.unionAll(frame)).write.format("noop").mode("overwrite").save()
    sent = frame.select(F.struct("id").alias(module.ROW)).sortWithinPartitions(module.ROW)
    gate.watch_result(sent).write.parquet(str(tmp_path / "written"))
    assert gate.check().rows == 10
    assert spark.read.parquet(str(tmp_path / "written")).columns == ["id"]


def test_two_rows_that_change_groups_are_refused(spark, tmp_path):
    frame = spark.range(10).withColumn("group", (F.col("id") % 2).cast("int"))
    rows, left = frame.select("id"), F.col("group")
    swapped = F.when(column("id") < 2, 1 - left).otherwise(left)
    for name, came in (("same", left), ("swapped", swapped)):
        gate = Gate(rows, 10, lambda: (frame, left))
        gate.watch_result(gate.watch_source(frame, left, group=left), came).write.parquet(str(tmp_path / name))
        if name == "same":
            assert gate.check().rows == 10
            assert gate.verify(spark.read.parquet(str(tmp_path / name))).rows == 10
        else:
            with pytest.raises(EngineError, match=r"ZL310.*with other content"):
                gate.check()


def test_groups_that_were_counted_twice_are_counted_again(spark, tmp_path):
    frame = spark.range(10).withColumn("group", (F.col("id") % 2).cast("int"))
    gate = Gate(frame.select("id"), 10, lambda: (frame, F.col("group")))
    twice = gate.watch_source(frame.unionAll(frame), F.col("group"), group=F.col("group"))
    twice.write.format("noop").mode("overwrite").save()
    sent = frame.select(F.struct("id").alias(module.ROW), "group").sortWithinPartitions(module.ROW)
    gate.watch_result(sent, F.col("group")).write.parquet(str(tmp_path / "written"))
    assert gate.check().rows == 10


def test_a_write_that_never_ran_is_refused(spark, monkeypatch):
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)
    gate = Gate(spark.range(1), 1)
    gate.watch_result(gate.watch_source(spark.range(1)))
    with pytest.raises(EngineError, match="ZL312"):
        gate.check()


def test_rows_that_moved_into_another_group_are_refused():
    module.require_rows({"a": (3, 3), "b": (4, 4)})
    with pytest.raises(EngineError, match=r"ZL310.*group b.*expected 4 rows, found 5"):
        module.require_rows({"a": (3, 3), "b": (4, 5)})


STRUCT = pa.struct([("f.g", pa.float64()), ("n", pa.string()), ("t", pa.timestamp("us"))])


def test_verify_takes_another_nan_for_the_same_value_and_nothing_else(spark, tmp_path):
    odd = np.array([0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)
    columns = {
        "x": odd,
        "a": pa.array([[v, None] for v in odd]),
        "s": pa.array([{"f.g": v, "n": None, "t": datetime(2026, 1, 1, 0, 0, 0, 123456)} for v in odd], STRUCT),
        "m": pa.array([{"k": [v]} for v in odd], pa.map_(pa.string(), pa.list_(pa.float64()))),
    }
    pq.write_table(pa.table(columns), tmp_path / "source.parquet")
    source = spark.read.parquet(str(tmp_path / "source.parquet"))
    gate = Gate(source, 2)
    gate.watch_result(gate.watch_source(source)).write.parquet(str(tmp_path / "written"))
    gate.check()
    written = spark.read.parquet(str(tmp_path / "written"))
    gate.verify(written)
    millis = F.col("s").withField("t", F.lit("2026-01-01 00:00:00.123").cast("timestamp_ntz"))
    others = [
        {"x": F.lit(1.0)},
        {"a": F.array(F.lit(1.0), F.lit(None))},
        {"a": F.array(F.col("x"))},
        {"s": F.lit(None).cast(written.schema["s"].dataType)},
        {"s": F.col("s").withField("n", F.lit(""))},
        {"s": millis},
        {"m": F.create_map(F.lit("k"), F.array(F.lit(1.0)))},
        {"m": F.create_map(F.lit("l"), F.array("x"))},
    ]
    for other in others:
        with pytest.raises(EngineError, match="ZL310"):
            gate.verify(written.withColumns(other))
