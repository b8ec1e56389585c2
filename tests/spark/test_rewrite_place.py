"""Spark must place every row where `FileMap.locate` does, whatever the type of the key."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F

from zlayout.curve.layout import build
from zlayout.predicate.coercion import comparable
from zlayout.predicate.model import Compare
from zlayout.rewrite import engine as forest_module
from zlayout.rewrite.engine import FILE_ID, build_forest, forest_arrays, place_rows
from zlayout.rewrite.rows import ORDINAL, POSITION, SHARD, Constants
from zlayout.spark.arrow import from_arrow, to_arrow

ROWS = 1500
BEFORE_1970 = datetime(1931, 3, 1, 12, 30, 0, 7)
FLOATS = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.5, -2.25, 1e300, 5e-324]


def _values(kind):
    """Plain Python values for `ROWS` rows, in no order and with many repeats."""
    steps = [(i * 7919) % 611 for i in range(ROWS)]
    return {
        "boolean": lambda i: i % 3 == 0,
        "tinyint": lambda i: i % 256 - 128,
        "smallint": lambda i: i * 100 - 30_000,
        "int": lambda i: i * 3_000_000 - 900_000_000,
        "bigint": lambda i: (i - 300) * 2**53 + i,
        "float": lambda i: FLOATS[i] if i < len(FLOATS) and abs(FLOATS[i]) != 1e300 else (i - 300) / 7,
        "double": lambda i: FLOATS[i] if i < len(FLOATS) else (i - 300) / 7,
        "decimal(12,2)": lambda i: Decimal(i - 300) / 4,
        "decimal(18,0)": lambda i: Decimal((i - 300) * 10**15 + i),
        "decimal(38,4)": lambda i: Decimal((i - 300) * 10**30 + i) / 10**4,
        "date": lambda i: date(1969, 6, 1) + timedelta(days=i * 3 - 700),
        "timestamp": lambda i: (BEFORE_1970 + timedelta(days=i * 50, microseconds=i)).replace(tzinfo=UTC),
        "timestamp_ntz": lambda i: BEFORE_1970 + timedelta(days=i * 50, microseconds=i),
        "string": lambda i: (
            "https://example.org/a/very/long/prefix/" + ["z", "é", "\U0001f600", "", "\uffff"][i % 5] + str(i)
        ),
        "binary": lambda i: bytes([i % 256, 255 - i % 200]) * (i % 3),
    }[kind], steps


KINDS = [
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(12,2)", "decimal(18,0)",
    "decimal(38,4)", "date", "timestamp", "timestamp_ntz", "string", "binary",
]  # fmt: skip


@pytest.fixture(scope="module")
def typed(spark, tmp_path_factory):
    """A Parquet table with one column of each kind (nulls in each), and two more for pairs of keys."""
    path = str(tmp_path_factory.mktemp("typed") / "table")
    columns = {}
    for kind in KINDS:
        value, steps = _values(kind)
        columns[kind] = [None if i % 17 == 3 else value(step) for i, step in enumerate(steps)]
    schema = ", ".join(f"`{k}` {k}" for k in KINDS)
    rows = list(zip(*columns.values(), strict=True))
    frame = spark.createDataFrame(rows, schema)
    frame.withColumn("inner", F.struct(F.col("int").alias("x y"))).repartition(3).write.parquet(path)
    return spark.read.parquet(path)


def _both(spark, frame, columns, files, curve="kd", noise=False):
    """The file of every row: by numpy from all rows as the sample, and by Spark."""
    frame = frame.select(
        "*",
        F.lit(0).alias(SHARD),
        F.hash(F.col("_metadata.file_path")).alias(ORDINAL),
        F.col("_metadata.row_index").alias(POSITION),
        F.xxhash64(F.hash(F.col("_metadata.file_path")), F.col("_metadata.row_index")).alias("row_hash"),
    )
    names = {f"key{i}": F.col(c) for i, c in enumerate(columns)}
    keys = to_arrow(frame.select(*[c.alias(n) for n, c in names.items()], ORDINAL, POSITION, "row_hash"))
    cuts = [_middle(keys[n].combine_chunks(), n) for n in names] if curve == "workload" else []
    mapped = build({n: keys[n] for n in names}, {}, curve, 32, files, noise, cuts=[c for c in cuts if c is not None])
    forest = build_forest([mapped])
    constants = Constants(spark, forest_arrays(forest))
    placed = place_rows(frame, [c.replace("`", "") for c in columns], forest, constants, noise=noise)
    found = {(r[ORDINAL], r[POSITION]): r[FILE_ID] for r in placed.select(ORDINAL, POSITION, FILE_ID).collect()}
    located = mapped.locate({n: keys[n] for n in names}, keys["row_hash"].to_numpy()).tolist()
    places = zip(keys[ORDINAL].to_pylist(), keys[POSITION].to_pylist(), strict=True)
    return dict(zip(places, located, strict=True)), found


def _middle(values, name):
    """A cut at the middle value, None for a type whose literals are not supported."""
    if not comparable(values.drop_null()[0].as_py(), values.type):
        return None
    order = pc.sort_indices(values)
    return Compare(name, "<=", values[order[len(values) // 2].as_py()].as_py())


@pytest.mark.parametrize("curve", ["kd", "workload"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_orderable_type_is_placed_as_numpy_does(spark, typed, kind, curve):
    expected, found = _both(spark, typed, [f"`{kind}`"], 6, curve)
    assert len(found) == ROWS
    assert len(set(expected.values())) >= 2
    assert found == expected


@pytest.mark.parametrize("grid", [True, False])
@pytest.mark.parametrize("curve", ["kd", "zorder", "hilbert", "linear", "workload"])
def test_every_curve_is_placed_by_table_and_by_walk(spark, typed, monkeypatch, curve, grid):
    if not grid:
        monkeypatch.setattr(forest_module, "MAX_GRID_CELLS", 0)
    expected, found = _both(spark, typed, ["string", "double", "inner.`x y`"], 11, curve)
    assert len(set(expected.values())) == 11
    assert found == expected


def test_noise_spreads_a_heavy_key_by_a_hash_of_the_row(spark, typed):
    expected, found = _both(spark, typed.withColumn("one", F.lit(1)), ["one"], 5, noise=True)
    assert found == expected
    assert np.bincount(list(found.values())).min() > ROWS / 5 * 0.7


@pytest.mark.parametrize("curve", ["kd", "zorder", "hilbert", "linear", "workload"])
def test_rows_whose_keys_are_all_null_are_spread_by_a_hash_of_the_row(spark, typed, curve):
    number = F.col("_metadata.row_index")
    keys = [F.when(number % 2 > 0, F.col(kind)).alias(f"k{at}") for at, kind in enumerate(["int", "string"])]
    expected, found = _both(spark, typed.select("*", *keys), ["k0", "k1"], 10, curve)
    assert found == expected
    rows = np.bincount(list(found.values()))
    assert len(rows) == 10
    assert rows.max() < 1.3 * ROWS / 10


def test_only_rows_without_keys_are_spread(spark):
    """A key below those of the sample goes where the nulls go, but to the first of their files alone."""
    keys = {"k": pa.array([None] * 500 + list(range(10, 510)))}
    mapped = build(keys, {}, "kd", 32, 10, False)
    forest = build_forest([mapped])
    rows = spark.range(100).select(F.when(F.col("id") % 2 > 0, F.col("id") % 10).alias("k"), F.col("id").alias("p"))
    frame = rows.select("k", F.lit(0).alias(SHARD), F.lit(0).alias(ORDINAL), F.col("p").alias(POSITION))
    placed = place_rows(frame, ["k"], forest, Constants(spark, forest_arrays(forest)), noise=False)
    files = [{r[FILE_ID] for r in placed.where(where).collect()} for where in ("k is null", "k is not null")]
    assert files == [set(range(5)), {0}]


def test_no_look_up_leaves_generated_code(spark, typed):
    keys = to_arrow(typed.select("int"))
    forest = build_forest([build({"int": keys["int"]}, {}, "kd", 32, 6, False)])
    frame = typed.select("int", F.lit(0).alias(SHARD))
    placed = place_rows(frame, ["int"], forest, Constants(spark, forest_arrays(forest)), noise=False)
    plan = placed.select(FILE_ID)._jdf.queryExecution().executedPlan().toString()
    assert "staticinvoke(" in plan.replace("_", "")
    assert "binarySearch" in plan
    assert all(line.lstrip(" +-").startswith("*(1)") for line in plan.splitlines() if "Project" in line)


def test_a_deep_walk_by_many_columns_is_code_that_hotspot_compiles(spark):
    columns = ["a", "b", "c", "d", "e"]
    random = np.random.default_rng(1)
    keys = {c: pa.array(random.integers(0, 10**9, 60_000)) for c in columns}
    forest = build_forest([build(keys, {}, "kd", 1000, 500, False, 3)])
    assert forest.grid is None
    assert forest.depth > 11
    frame = spark.range(1).select(F.lit(0).alias(SHARD), *[F.col("id").alias(c) for c in columns])
    placed = place_rows(frame, columns, forest, Constants(spark, forest_arrays(forest)), noise=False)
    code = spark._jvm.PythonSQLUtils.explainString(placed._jdf.queryExecution(), "codegen")
    assert 1000 < max(map(int, re.findall(r"maxMethodCodeSize:(\d+)", code))) < 8000


@pytest.mark.parametrize("columns", [2, 9])
def test_range_ids_in_one_long_or_in_several(spark, columns):
    """Nine columns of 200 ranges do not fit one long."""
    random = np.random.default_rng(2)
    names = [f"c{i}" for i in range(columns)]
    keys = {name: pa.array(random.integers(0, 10**6, 5000)) for name in names}
    mapped = build(keys, {}, "kd", 1000, 700, False)
    forest = replace(build_forest([mapped]), grid=None)
    assert (columns > forest.ids_per_word) == (columns == 9)
    frame = from_arrow(spark, pa.table(keys)).withColumn(SHARD, F.lit(0))
    placed = place_rows(frame, names, forest, Constants(spark, forest_arrays(forest)), noise=False)
    found = to_arrow(placed.select(*names, FILE_ID))
    assert found[FILE_ID].to_pylist() == mapped.locate({n: found[n].combine_chunks() for n in names}).tolist()
