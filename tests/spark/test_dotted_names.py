"""Columns whose names contain dots: in backticks wherever a column is named, on both formats alike."""

import json
from pathlib import Path

import pytest
from spark.subjects import DeltaSubject, SparkSubject
from spark.test_odd_iceberg_tables import write_project
from support.projects import Cli, cli

import zlayout

__all__ = ["cli"]

ROWS, FILES = 4000, 8
COLUMNS = "`a.b` int, s struct<`x.y`: int, z: int>, `p.q` string, `g.h` int, v int"
LAYOUT = "zorder: {columns: ['`a.b`', 's.`x.y`']}\nfiles: {target_size: 4KiB}\n"


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest) -> SparkSubject:
    subject: SparkSubject = request.getfixturevalue(request.param)
    using = "delta" if isinstance(subject, DeltaSubject) else "iceberg"
    subject.sql(f"create table {subject} ({COLUMNS}) using {using} partitioned by (`p.q`)")
    subject.append(
        subject.spark.range(0, ROWS, 1, FILES // 2).selectExpr(
            "cast(id * 7919 % 1009 as int) `a.b`",
            "named_struct('x.y', cast(id * 104729 % 997 as int), 'z', cast(id as int)) s",
            "if(id % 2 = 0, 'eu', 'us') `p.q`",
            "cast(id % 3 as int) `g.h`",
            "cast(id as int) v",
        )
    )
    return subject


def rows(table: SparkSubject) -> list[object]:
    return sorted(map(tuple, table.spark.table(str(table)).collect()))


def write_layout(table: SparkSubject, folder: Path, layout: str) -> None:
    (folder / "layouts" / "t.yaml").write_text(f"version: 1\ntable: {table.name}\n{layout}")


def planned(folder: Path, **options: object) -> tuple[zlayout.ProjectPlan, zlayout.TablePlan]:
    plan = zlayout.plan(zlayout.load_project(folder), **options)  # type: ignore[arg-type]
    (found,) = plan.document.tables
    assert not [d for d in found.diagnostics if d.severity in ("error", "refused")], found.diagnostics
    return plan, found


def apply(table: SparkSubject, folder: Path, **options: object) -> zlayout.TablePlan:
    """Apply the layout, which must rewrite files and leave nothing to do. Returns the plan."""
    before = rows(table)
    plan, found = planned(folder, **options)
    report = zlayout.apply(plan, spark=table.spark)
    assert not report.failed, report.failed
    assert report.results[str(table.name)].files_removed
    assert rows(table) == before
    assert planned(folder)[1].status is zlayout.Status.UNCHANGED
    return found


def test_columns_with_dots_are_laid_out_and_select_partitions(
    table: SparkSubject, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(table, tmp_path, monkeypatch, LAYOUT + "where: \"`p.q` = 'eu'\"\n")
    (tmp_path / "workloads").mkdir()
    query = f"SELECT * FROM {table.name} AS t WHERE t.`a.b` = 5 AND `s`.`x.y` < 9;\n"
    (tmp_path / "workloads" / "t.sql").write_text(query)
    found = apply(table, tmp_path, sample=True)
    assert {group.partition for group in found.groups} == {"`p.q`=eu"}
    assert [column.column for column in found.columns] == ["`a.b`", "s.`x.y`"]
    measured = json.loads(cli("inspect", str(table.name), "--columns", "`a.b`,s.`x.y`", "--json").out)["columns"]
    assert [column["column"] for column in measured] == ["`a.b`", "s.`x.y`"]


@pytest.mark.long
def test_cuts_and_partition_keys_have_columns_with_dots(
    table: SparkSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = "zorder: {columns: ['`a.b`'], curve: workload, cuts: ['`a.b` < 500']}\nfiles: {target_size: 4KiB}\n"
    write_project(table, tmp_path, monkeypatch, cuts)
    apply(table, tmp_path)
    transform = "'bucket(2, `a.b`)', " if not isinstance(table, DeltaSubject) else ""
    keys = f"zorder: {{columns: ['s.`x.y`']}}\nfiles: {{target_size: 4KiB}}\npartition_by: [{transform}'`g.h`']\n"
    write_layout(table, tmp_path, keys)
    apply(table, tmp_path, allow_full_rewrite=True)
    write_layout(table, tmp_path, keys.replace("s.`x.y`", "v") + "where: '`g.h` <= 1'\n")
    assert {"`g.h`=1"} == {g.partition.rpartition(", ")[2] for g in apply(table, tmp_path).groups} - {"`g.h`=0"}


def test_engine_native_orders_by_columns_with_dots_or_is_refused(
    table: SparkSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPTIMIZE WHERE of Delta 4.3 rewrites all partitions, and the action of Iceberg 1.12 looks for a nested column."""
    native = "engine: native\nzorder: {columns: ['`a.b`'], curve: zorder}\nfiles: {target_size: 4KiB}\n"
    write_project(table, tmp_path, monkeypatch, native)
    (found,) = zlayout.plan(zlayout.load_project(tmp_path)).document.tables
    (refused,) = [d for d in found.diagnostics if d.severity == "refused"]
    assert refused.code == "ZL223"
    if isinstance(table, DeltaSubject):
        assert "OPTIMIZE ignores conditions on the partition column `p.q`" in refused.message
        plain = table.spark.table(str(table)).withColumnRenamed("p.q", "p").write.format("delta").mode("overwrite")
        plain.option("overwriteSchema", "true").partitionBy("p").save(str(table.path))
    else:
        assert "cannot order by `a.b`, whose name contains a dot" in refused.message
        native = native.replace("zorder}", "linear}") + "where: \"`p.q` = 'eu'\"\n"
    write_layout(table, tmp_path, native)
    apply(table, tmp_path)


def test_the_bounds_of_a_column_with_a_dot_are_enabled(
    table: SparkSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "delta.dataSkippingStatsColumns" if isinstance(table, DeltaSubject) else "write.metadata.metrics.default"
    value = "v" if isinstance(table, DeltaSubject) else "none"
    table.sql(f"alter table {table} set tblproperties ('{name}' = '{value}')")
    write_project(table, tmp_path, monkeypatch, LAYOUT)
    apply(table, tmp_path)
