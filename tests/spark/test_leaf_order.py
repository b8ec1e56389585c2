"""The rows of each new file are in the order of leaf, value, source file and position."""

import glob
import re
from datetime import date, timedelta
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from support.builders import make_layout

from zlayout.curve.tree import rank
from zlayout.rewrite import engine
from zlayout.rewrite.engine import FILE_ID, LEAF, VALUE_ID, place, rewrite_conf
from zlayout.rewrite.rows import ORDINAL, POSITION, GroupTarget, Source
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spec.model import ZorderColumn

ROWS, SOURCE_FILES, FILES = 12_000, 5, 4
FLOATS = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e300, 5e-324]
VALUES = {  # of an integer from 0 to 99
    "date": (pa.date32(), lambda i: date(1969, 6, 1) + timedelta(days=i * 5)),
    "string": (pa.string(), lambda i: ["z", "é", "\U0001f600", "", "\uffff"][i % 5] + str(i)),
    "double": (pa.float64(), lambda i: FLOATS[i] if i < len(FLOATS) else (i - 50) / 7),
    "decimal": (pa.decimal128(12, 2), lambda i: Decimal(i - 50) / 4),
    "long_decimal": (pa.decimal128(38, 4), lambda i: Decimal((i - 50) * 10**30) / 10**4),
    "binary": (pa.binary(), lambda i: bytes([i * 2, 255 - i])),
    "boolean": (pa.bool_(), lambda i: i % 2 == 0),
    "timestamp": (pa.timestamp("us", "UTC"), lambda i: (i - 50) * 86_400_000_001),
}
NAMES = list(VALUES)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A table with columns of few values, each with nulls, one of many values, and one that is constant in a file."""
    folder = tmp_path_factory.mktemp("few values")
    random = np.random.default_rng(3)
    step = ROWS // SOURCE_FILES
    for file in range(SOURCE_FILES):
        columns = {"id": pa.array(np.arange(file * step, (file + 1) * step))}
        for name, (kind, value) in VALUES.items():
            chosen = random.integers(-5, 100, step)
            columns[name] = pa.array([None if i < 0 else value(int(i)) for i in chosen], kind)
        columns["many"] = pa.array(random.permutation(step) * SOURCE_FILES + file)
        columns["month"] = pa.array(random.integers(0, 3, step))
        columns["part"] = pa.array(np.full(step, file % 2))
        pq.write_table(pa.table(columns), folder / f"{file}.parquet")
    return str(folder)


@pytest.fixture(autouse=True)
def leaves(monkeypatch):
    """Each file has up to eight leaves."""
    monkeypatch.setattr("zlayout.rewrite.engine.ROWS_PER_PAGE", 400)


def _rewritten(spark, path, out, layout, partition=(), groups=1, files=FILES):
    """Return the ids and the keys of the rows of each new file, in their order, and the shards."""
    frame = spark.read.parquet(path)
    source = Source(frame, F.col("_metadata.file_path"), F.col("_metadata.row_index"), partition)
    paths = sorted(r[0] for r in frame.select("_metadata.file_path").distinct().collect())
    targets = [
        GroupTarget(f"g{n}", pa.array(own), ROWS // SOURCE_FILES * len(own), files)
        for n in range(groups)
        if (own := paths[n::groups])
    ]
    built = []

    def remembered(build, *arguments):
        built.append(build(*arguments))
        return built[0]

    with rewrite_conf(spark), pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "build_shards", partial(remembered, engine.build_shards))
        placed = place(source, layout, targets)
        placed.frame.write.mode("overwrite").parquet(out)
        assert placed.gate.check().rows == ROWS
    (shards, _), files = built[0], [pq.read_table(file) for file in sorted(glob.glob(f"{out}/part-*.parquet"))]
    assert sorted(np.concatenate([file["id"].to_numpy() for file in files])) == list(range(ROWS))
    return [file for file in files if len(file)], shards


def _has_order(files, shards, value):
    """Check the order inside each file, where `value` is the name of a column or None; return the number of leaves."""
    leaves = 0
    for rows in files:
        keys = {name: rows[name].combine_chunks() for name in shards[0].map.columns}
        (at,) = [s for s in shards if s.group == (rows["part"][0].as_py() if len({s.group for s in shards}) > 1 else 0)]
        leaf = at.map.leaves(keys)
        value_rank = rank(rows[value]).ordinals if value else np.zeros(len(rows), np.int64)
        assert np.array_equal(np.lexsort((rows["id"].to_numpy(), value_rank, leaf)), np.arange(len(rows)))
        leaves += len(np.unique(leaf))
    return leaves


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_ordered_by_leaf_value_and_source(spark, path, tmp_path, name):
    layout = make_layout(ZorderColumn("many", 2.0), name)
    files, shards = _rewritten(spark, path, str(tmp_path / "out"), layout)
    assert len(files) == FILES
    assert _has_order(files, shards, name) > 2 * FILES
    assert any(np.any(np.diff(rows["id"].to_numpy()) < 0) for rows in files)


def test_with_noise(spark, path, tmp_path):
    """Two values and null are distributed over twelve files."""
    layout = make_layout("boolean", noise=True)
    files, shards = _rewritten(spark, path, str(tmp_path / "out"), layout, files=12)
    assert len(files) > 10
    _has_order(files, shards, "boolean")


def test_several_groups_have_one_order(spark, path, tmp_path):
    files, shards = _rewritten(spark, path, str(tmp_path / "out"), make_layout("many", "string"), groups=2)
    assert {shard.group for shard in shards} == {0, 1}
    assert _has_order(files, shards, "string") > 2 * FILES


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
def test_other_curves(spark, path, tmp_path, curve):
    files, shards = _rewritten(spark, path, str(tmp_path / "out"), make_layout("many", "date", curve=curve))
    _has_order(files, shards, "date")


def test_rows_that_move_to_another_partition(spark, path, tmp_path):
    layout = make_layout("many", "decimal")
    files, shards = _rewritten(spark, path, str(tmp_path / "out"), layout, (F.col("month"),))
    assert all(len(set(rows["month"].to_pylist())) == 1 for rows in files)
    for rows in files:
        (value,) = (rank(rows["decimal"]).ordinals,)
        keys = {name: rows[name].combine_chunks() for name in ("many", "decimal")}
        orders = [np.lexsort((rows["id"].to_numpy(), value, s.map.leaves(keys))) for s in shards]
        assert any(np.array_equal(order, np.arange(len(rows))) for order in orders)


@pytest.mark.parametrize(("column", "settings"), [("many", {}), ("date", {"sort_within": False})])
def test_rows_that_keep_their_order(spark, path, tmp_path, column, settings):
    layout = make_layout(column, **settings)
    files, shards = _rewritten(spark, path, str(tmp_path / "out"), layout)
    assert (_has_order(files, shards, None) > FILES) == (column == "many")


# Numbers of Spark partitions, leaves in a file, value ids and source files; and by how much value ids are divided.
SIZES = [
    (4, 8, 4096, 6, 1),
    (56, 64, 2500, 56, 1),
    (256, 64, 4096, 256, 8),  # 22 bits beside value ids and positions
    (256, 64, 4096, 512, 16),
    (1000, 64, 4096, 1000, 1),  # positions are in a column of their own
    (200_000, 64, 4096, 2**22, 1),
    (1, 1, 1, 1, 1),
    (256, 64, 1, 512, 1),
]


@pytest.mark.parametrize(("partitions", "leaves", "values", "sources", "divisor"), SIZES)
def test_the_sort_key(spark, partitions, leaves, values, sources, divisor):
    random, rows = np.random.default_rng(5), 3000
    numbers = {FILE_ID: partitions, LEAF: leaves, VALUE_ID: values, ORDINAL: sources}
    columns = {name: random.choice([0, 1 % n, n // 2, n - 1], rows).astype(np.int32) for name, n in numbers.items()}
    columns[POSITION] = random.choice([0, 1, 2**31, 2**32 - 2, *range(50)], rows)
    order, partition, ordinal = engine._order(partitions, leaves, values, sources)
    frame = from_arrow(spark, pa.table(columns))
    frame = frame.select(
        "*",
        *[value.alias(f"sorted{n}") for n, value in enumerate(order.values())],
        *(value.alias(name) for name, value in order.items() if name not in columns),
    )
    found = to_arrow(frame.select("*", partition.alias("partition"), ordinal.alias("ordinal")))
    assert found["partition"].to_pylist() == found[FILE_ID].to_pylist()
    assert found["ordinal"].to_pylist() == found[ORDINAL].to_pylist()
    columns = {name: found[name].to_numpy() for name in columns}
    columns[VALUE_ID] //= divisor
    expected = np.lexsort([columns[name] for name in (POSITION, ORDINAL, VALUE_ID, LEAF, FILE_ID)])
    by_key = np.lexsort([found[f"sorted{n}"].to_numpy() for n in reversed(range(len(order)))])
    assert np.array_equal(by_key, expected)
    assert len(order) == (1 if (partitions, sources) != (1000, 1000) and partitions < 2000 else 2)


def test_a_position_beyond_the_bits_does_not_change_the_source_file(spark):
    order, partition, ordinal = engine._order(56, 64, 4096, 56)
    (name,) = order
    columns = {FILE_ID: [7], LEAF: [3], VALUE_ID: [9], ORDINAL: [40], POSITION: [2**35]}
    frame = from_arrow(spark, pa.table(columns)).withColumn(name, order[name])
    assert to_arrow(frame.select(partition.alias("p"), ordinal.alias("o"))).to_pylist() == [{"p": 7, "o": 40}]


def test_the_value_is_searched_once_in_code_that_hotspot_compiles(spark, path, monkeypatch):
    monkeypatch.setattr("zlayout.rewrite.engine.MAX_GRID_CELLS", 0)
    columns = ["many", "date", "string", "double", "long_decimal"]
    frame = spark.read.parquet(path)
    source = Source(frame, F.col("_metadata.file_path"), F.col("_metadata.row_index"))
    paths = pa.array([r[0] for r in frame.select("_metadata.file_path").distinct().collect()])
    with rewrite_conf(spark):
        execution = place(
            source, make_layout(*columns), [GroupTarget("g", paths, ROWS, 40)]
        ).frame._jdf.queryExecution()
        searches = execution.executedPlan().toString().count("binarySearch")
        code = spark._jvm.PythonSQLUtils.explainString(execution, "codegen")
    assert searches == 1 + len(columns) + 1, "of the file, the keys and the value"
    assert 1000 < max(map(int, re.findall(r"maxMethodCodeSize:(\d+)", code))) < 8000
