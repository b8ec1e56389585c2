"""The whole rewrite on plain Parquet: right files, same result at any parallelism, and the gate."""

import glob
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T
from support.builders import make_layout

from zlayout.errors import EngineError
from zlayout.rewrite import engine as shards
from zlayout.rewrite.engine import place, rewrite_conf, to_partitions
from zlayout.rewrite.gate import content_of
from zlayout.rewrite.rows import (
    GROUP,
    ORDINAL,
    Constants,
    GroupTarget,
    Source,
    index_arrays,
    index_files,
    source_columns,
    with_origin,
)
from zlayout.spark.jvm import session_conf

ROWS = 30_000


def layout(*columns, **settings):
    return make_layout(*columns, range_ids=100, target_size=1 << 27, **settings)


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """30,000 rows in 6 files; `part` is constant in a file, `day` is not. The path holds a space and a percent sign."""
    path = str(tmp_path_factory.mktemp("a b%41") / "table")
    frame = spark.range(ROWS).select(
        "id",
        F.pmod(F.xxhash64("id"), F.lit(10_000)).cast("int").alias("a"),
        F.concat(F.lit("key-"), F.pmod(F.xxhash64("id", F.lit(1)), F.lit(5000)).cast("string")).alias("b"),
        (F.col("id") % 3).cast("int").alias("day"),
        F.create_map(F.lit("k"), "id").alias("m"),
        F.expr("{}(concat('{{\"v\":', id, '}}'))".format("parse_json" if hasattr(T, "VariantType") else "")).alias("v"),
    )
    frame.repartition(6, "id").withColumn("part", F.spark_partition_id() % 2).write.parquet(path)
    return path


def _source(spark, path, *partition):
    frame = spark.read.parquet(path)
    return Source(frame, F.col("_metadata.file_path"), F.col("_metadata.row_index"), tuple(partition))


def _groups(spark, path, files, by_part=False):
    frame = spark.read.parquet(path)
    counted = frame.groupBy(F.col("_metadata.file_path").alias("path"), "part").count().orderBy("path").collect()
    parts = [[c for c in counted if not by_part or c.part == p] for p in ((0, 1) if by_part else (0,))]
    return [
        GroupTarget(f"g{i}", pa.array([c.path for c in rows]), sum(c["count"] for c in rows), files)
        for i, rows in enumerate(parts)
    ]


def _write(placed, out):
    placed.frame.write.mode("overwrite").parquet(out)
    return [pq.read_table(f).to_pydict() for f in sorted(glob.glob(f"{out}/part-*.parquet"))]


def test_disjoint_files_of_equal_size_with_every_row(spark, table, tmp_path):
    with rewrite_conf(spark):
        placed = place(_source(spark, table), layout("a", "b"), _groups(spark, table, 9))
        files = _write(placed, str(tmp_path / "out"))
        content = placed.gate.check()
    assert sorted(i for f in files for i in f["id"]) == list(range(ROWS))
    assert content.rows == ROWS
    assert placed.group_of.tolist() == [0] * 9
    rows = np.array([len(f["id"]) for f in files])
    assert len(rows) == 9
    assert rows.std() / rows.mean() < 0.1
    boxes = [[(min(f[c]), max(f[c])) for c in ("a", "b")] for f in files]
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:
            assert any(p[1] < q[0] or q[1] < p[0] for p, q in zip(one, other, strict=True))


def test_rows_are_not_copied_between_the_sort_and_what_observes_them(spark, table):
    with rewrite_conf(spark):
        placed = place(_source(spark, table), layout("a", "b"), _groups(spark, table, 9))
        plan = placed.frame._jdf.queryExecution().executedPlan().toString()
    names = re.findall(r"^[ +:-]*(?:\*\(\d+\) )?(\w+)", plan, re.MULTILINE)
    assert names[:5] == ["Project", "Filter", "Sort", "Exchange", "CollectMetrics"]


def test_more_columns_than_a_generated_loop_takes(spark, table, tmp_path):
    with session_conf(spark, {"spark.sql.codegen.maxFields": "3"}), rewrite_conf(spark):
        placed = place(_source(spark, table), layout("a", "b"), _groups(spark, table, 9))
        files = _write(placed, str(tmp_path / "out"))
        plan = placed.frame._jdf.queryExecution().executedPlan().toString()
    assert "*(" not in plan
    assert sorted(i for f in files for i in f["id"]) == list(range(ROWS))
    assert placed.gate.check() == content_of(spark.read.parquet(table))


def test_a_filter_by_where_a_row_was_does_not_look_its_file_up_again(spark, table):
    source, groups = _source(spark, table), _groups(spark, table, 9)
    index = index_files(spark, groups)
    constants = Constants(spark, index_arrays(index))
    frame = with_origin(source.frame.select("id", *source_columns(source)), index, constants)
    few = frame.where((F.col(ORDINAL) > 2) & (F.col(ORDINAL) < 5) & (F.col(GROUP) == 0)).select("id", ORDINAL)
    assert few._jdf.queryExecution().executedPlan().toString().count("binarySearch") == 1
    assert {row[ORDINAL] for row in few.collect()} == {3, 4}


@pytest.mark.parametrize("curve", ["kd", pytest.param("hilbert", marks=pytest.mark.long)])
def test_same_rows_in_the_same_order_at_any_parallelism(spark, table, tmp_path, curve):
    copy = str(tmp_path / "copy of the table")
    shutil.copytree(table, copy)
    results = []
    for path, split, shuffle in ((table, "128m", "4"), (copy, "8k", "13")):
        conf = {"spark.sql.files.maxPartitionBytes": split, "spark.sql.shuffle.partitions": shuffle}
        with session_conf(spark, conf), rewrite_conf(spark):
            placed = place(_source(spark, path), layout("a", "b", curve=curve), _groups(spark, path, 5))
            results.append([f["id"] for f in _write(placed, str(tmp_path / "out"))])
    assert results[0] == results[1]


def test_many_groups_in_one_job_stay_apart(spark, table, tmp_path):
    with rewrite_conf(spark):
        placed = place(_source(spark, table), layout("a", "b"), _groups(spark, table, 4, by_part=True))
        files = _write(placed, str(tmp_path / "out"))
        placed.gate.check()
    assert placed.group_of.tolist() == [0] * 4 + [1] * 4
    assert [set(f["part"]) for f in files] == [{0}] * 4 + [{1}] * 4


def test_a_file_never_holds_two_output_partitions(spark, table, tmp_path):
    source = _source(spark, table, F.col("day"))
    with rewrite_conf(spark):
        placed = place(source, layout("a", "b"), _groups(spark, table, 6))
        files = _write(placed, str(tmp_path / "out"))
        placed.gate.check()
    assert [len(set(f["day"])) for f in files if f["id"]] == [1] * 6
    assert placed.group_of.tolist() == [0] * 7


def test_an_output_partition_that_the_sample_missed_still_finds_a_place(spark, table, tmp_path, monkeypatch):
    monkeypatch.setattr("zlayout.rewrite.rows.SAMPLE_ROWS_PER_FILE", 60)
    day = F.when(F.col("id") == 17, F.lit("rare")).when(F.col("id") == 18, F.lit(None)).otherwise(F.lit("usual"))
    with rewrite_conf(spark):
        placed = place(_source(spark, table, day), layout("a"), _groups(spark, table, 3))
        placed.frame.withColumn("n", F.spark_partition_id()).write.parquet(str(tmp_path / "out"))
        placed.gate.check()
    where = {r.n for r in spark.read.parquet(str(tmp_path / "out")).where("id in (17, 18)").collect()}
    assert where == {len(placed.group_of) - 1}


def test_a_heavy_key_is_noted_and_noise_spreads_it(spark, table, tmp_path):
    heavy = spark.read.parquet(table)
    source = Source(
        heavy.withColumn("a", F.when(F.col("id") % 10 < 7, F.lit(1)).otherwise(F.col("a"))),
        F.col("_metadata.file_path"),
        F.col("_metadata.row_index"),
    )
    largest = {}
    for noise in (False, True):
        with rewrite_conf(spark):
            placed = place(source, layout("a", noise=noise), _groups(spark, table, 10))
            largest[noise] = max(len(f["id"]) for f in _write(placed, str(tmp_path / "out")))
        expected = "lake.orders: 1 new file is more than twice as large as the others, with rows of one key only"
        assert [note.message for note in placed.notes("lake.orders")] == ([] if noise else [expected])
    assert largest[False] > ROWS * 0.69
    assert largest[True] < ROWS / 10 * 1.2


def test_a_row_of_an_unknown_file_fails_the_job(spark, table):
    groups = _groups(spark, table, 3)
    known = GroupTarget("g0", groups[0].paths.slice(1), groups[0].rows, 3)
    with rewrite_conf(spark), pytest.raises(Exception, match="ZL314"):
        place(_source(spark, table), layout("a"), [known])


def test_a_file_in_two_groups_is_an_error(spark, table):
    group = _groups(spark, table, 3)[0]
    with pytest.raises(EngineError, match="ZL313"):
        place(_source(spark, table), layout("a"), [group, group])


def test_the_gate_refuses_another_row_count_than_the_metadata_promised(spark, table, tmp_path):
    group = _groups(spark, table, 3)[0]
    wrong = GroupTarget("g0", group.paths, group.rows + 1, 3)
    with rewrite_conf(spark):
        placed = place(_source(spark, table), layout("a"), [wrong])
        _write(placed, str(tmp_path / "out"))
        with pytest.raises(EngineError, match="ZL311 expected 30001 live rows"):
            placed.gate.check()


def test_verify_full_reads_the_files_back(spark, table, tmp_path):
    out = str(tmp_path / "out")
    with rewrite_conf(spark):
        placed = place(_source(spark, table), layout("a"), _groups(spark, table, 3))
        _write(placed, out)
        assert placed.gate.verify(spark.read.parquet(out)) == content_of(spark.read.parquet(table))
        with pytest.raises(EngineError, match=r"ZL310.*other content"):
            placed.gate.verify(spark.read.parquet(out).withColumn("a", F.col("a") + 1))


def test_settings_come_back(spark):
    spark.conf.set("spark.sql.files.maxRecordsPerFile", "77")
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    with rewrite_conf(spark):
        assert spark.conf.get("spark.sql.adaptive.enabled") == "false"
        assert spark.conf.get("spark.sql.files.maxRecordsPerFile") == "0"
        assert int(spark.conf.get("spark.sql.files.minPartitionNum")) >= 4 * spark.sparkContext.defaultParallelism
    assert spark.conf.get("spark.sql.files.maxRecordsPerFile") == "77"
    assert spark.conf.get("spark.sql.adaptive.enabled") == adaptive
    spark.conf.unset("spark.sql.files.maxRecordsPerFile")


@pytest.fixture
def two_levels(monkeypatch):
    """File maps of two levels for more than 10 files, with several chunks of several boxes."""
    monkeypatch.setattr("zlayout.rewrite.engine.MAX_SAMPLE_ROWS", 2000)
    monkeypatch.setattr("zlayout.rewrite.engine.BOX_SAMPLE_ROWS", 4000)
    monkeypatch.setattr("zlayout.rewrite.engine.MAX_CHUNK_ROWS", 1500)
    monkeypatch.setattr("zlayout.curve.layout.FILES_PER_BOX", 4)


@pytest.mark.usefixtures("two_levels")
@pytest.mark.long
def test_two_levels_give_disjoint_equal_files_at_any_parallelism(spark, table, tmp_path):
    results = []
    for split, shuffle in (("128m", "4"), ("8k", "13")):
        conf = {"spark.sql.files.maxPartitionBytes": split, "spark.sql.shuffle.partitions": shuffle}
        with session_conf(spark, conf), rewrite_conf(spark):
            placed = place(_source(spark, table), layout("a", "b"), _groups(spark, table, 40))
            results.append(_write(placed, str(tmp_path / "out")))
            assert placed.gate.check().rows == ROWS
    files = results[0]
    assert [f["id"] for f in files] == [f["id"] for f in results[1]]
    assert len(files) == len(placed.group_of) == pytest.approx(40, abs=3)
    rows = np.array([len(f["id"]) for f in files])
    assert rows.std() / rows.mean() < 0.1
    boxes = [[(min(f[c]), max(f[c])) for c in ("a", "b")] for f in files]
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:
            assert any(p[1] < q[0] or q[1] < p[0] for p, q in zip(one, other, strict=True))


@pytest.mark.usefixtures("two_levels")
def test_no_filter_repeats_the_expressions_of_a_tree(spark, table, monkeypatch):
    """Spark would push the filter on boxes down the levels: with 16 of them, the plan needs more than 3 GB."""
    plans = []

    def remembered(frame, *others):
        plans.append(frame._jdf.queryExecution().optimizedPlan().toString())
        return to_partitions(frame, *others)

    monkeypatch.setattr(shards, "to_partitions", remembered)
    with rewrite_conf(spark):
        place(_source(spark, table), layout("a", "b"), _groups(spark, table, 40))
    (plan,) = (plan for plan in plans if shards.CHUNK in plan)  # the other one is that of the rewrite itself
    assert re.search(rf"Filter .*{shards.CHUNK}#\d+ >= 0", plan), plan


@pytest.mark.usefixtures("two_levels")
def test_two_levels_keep_groups_and_output_partitions_apart(spark, table, tmp_path):
    source = _source(spark, table, F.col("day"))
    with rewrite_conf(spark):
        placed = place(source, layout("b", "a"), _groups(spark, table, 18, by_part=True))
        files = _write(placed, str(tmp_path / "out"))
        placed.gate.check()
    assert all(len(set(zip(f["day"], f["part"], strict=True))) == 1 for f in files if f["id"])
    rows = np.array([len(f["id"]) for f in files if f["id"]])
    assert len(rows) == pytest.approx(36, abs=4)
    assert rows.std() / rows.mean() < 0.15


@pytest.mark.usefixtures("two_levels")
@pytest.mark.long
def test_two_levels_report_a_heavy_key_or_spread_it(spark, table, tmp_path):
    frame = spark.read.parquet(table).withColumn("a", F.when(F.col("id") % 10 < 7, 1).otherwise(F.col("a")))
    source = Source(frame, F.col("_metadata.file_path"), F.col("_metadata.row_index"))
    largest = {}
    for noise in (False, True):
        with rewrite_conf(spark):
            placed = place(source, layout("a", noise=noise), _groups(spark, table, 40))
            largest[noise] = max(len(f["id"]) for f in _write(placed, str(tmp_path / "out")))
        assert placed.oversized == (0 if noise else 1)
    assert largest[False] > ROWS * 0.69
    assert largest[True] < ROWS / 40 * 1.3
