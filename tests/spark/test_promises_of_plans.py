"""What a plan promises, `apply` can do: what the metadata show to be impossible is refused in the plan."""

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import zlayout

PROJECT = """\
version: 1
catalogs:
  lake: {format: delta, type: path, warehouse: ./delta}
"""
LAYOUT = """\
version: 1
table: lake.db.t
zorder: {columns: [a]}
files: {target_size: 1MiB}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(PROJECT)
    (tmp_path / "layouts/t.yaml").write_text(LAYOUT)
    return tmp_path


def planned(root: Path, **options: object) -> zlayout.ProjectPlan:
    return zlayout.plan(zlayout.load_project(root), **options)  # type: ignore[arg-type]


def codes(table: zlayout.TablePlan) -> list[tuple[str, str]]:
    return [(d.code, d.severity) for d in table.diagnostics]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_partitions_that_delta_would_change_are_refused_and_the_others_are_rewritten(
    root: Path, spark: SparkSession, checkpoint: bool
) -> None:
    path = str(root / "delta/db/t")
    for at in range(3):
        rows = pa.table({"a": [3 * at, 3 * at + 1, 3 * at + 2], "p": ["", "eu", None]})
        write_deltalake(path, rows, partition_by=["p"], mode="append")
    if checkpoint:
        DeltaTable(path).create_checkpoint()
    before = sorted(map(tuple, spark.read.format("delta").load(path).collect()), key=repr)
    plan = planned(root)
    (table,) = plan.document.tables
    assert {g.partition for g in table.groups} == {"p=eu", "p=null"}
    assert ("ZL217", "warning") in codes(table)
    report = zlayout.apply(plan, spark=spark)
    assert report.results["lake.db.t"].files_removed == 6
    assert sorted(map(tuple, spark.read.format("delta").load(path).collect()), key=repr) == before
    plan = planned(root)
    (table,) = plan.document.tables
    assert (table.status, table.groups) == (zlayout.Status.REFUSED, ())
    assert codes(table) == [("ZL217", "refused")]
    assert "3 files in 1 partition have an empty string in the partition column p" in table.diagnostics[0].message
    (root / "layouts/t.yaml").write_text(LAYOUT + "where: p != ''\n")
    assert planned(root).document.tables[0].status is zlayout.Status.UNCHANGED


def test_partitions_of_delta_rs_with_timestamps_without_zone(root: Path, spark: SparkSession) -> None:
    path = str(root / "delta/db/t")
    times = pa.array([datetime(2024, 1, 1, 10), datetime(2024, 1, 2, 10)], pa.timestamp("us", "UTC"))
    for at in range(3):
        write_deltalake(path, pa.table({"a": [at, at], "t": times}), partition_by=["t"], mode="append")
    (table,) = planned(root).document.tables
    assert table.status is zlayout.Status.REFUSED
    assert codes(table) == [("ZL218", "refused")]
    (root / "layouts/t.yaml").write_text(LAYOUT + "partition_by: []\n")
    (table,) = planned(root, allow_full_rewrite=True).document.tables
    assert table.status is zlayout.Status.REFUSED
    assert codes(table) == [("ZL218", "refused")]
    (root / "layouts/t.yaml").write_text(LAYOUT + "partition_timezone: UTC\n")
    report = zlayout.apply(planned(root), spark=spark)
    assert report.results["lake.db.t"].files_removed == 6
    assert planned(root).document.tables[0].status is zlayout.Status.UNCHANGED


def test_empty_strings_in_a_new_partition_column_are_refused_in_the_plan(root: Path) -> None:
    path = str(root / "delta/db/t")
    for at in range(2):
        write_deltalake(path, pa.table({"a": [at, at], "p": ["", "eu"]}), mode="append")
    (root / "layouts/t.yaml").write_text(LAYOUT + "partition_by: [p]\n")
    (table,) = planned(root, allow_full_rewrite=True).document.tables
    assert table.status is zlayout.Status.REFUSED
    assert codes(table) == [("ZL217", "refused")]
    assert "2 files have an empty string in p" in table.diagnostics[0].message
