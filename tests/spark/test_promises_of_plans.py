"""What a plan promises, `apply` can do: what the metadata show to be impossible is refused in the plan."""

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from deltalake.table import TableFeatures
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.types import LongType
from pyspark.sql import SparkSession
from spark.subjects import IcebergSubject

import zlayout
from zlayout.formats.iceberg.read.catalog import load_table

RECORD_COUNT = 4  # the position of record_count in a DataFile of pyiceberg

PROJECT = """\
version: 1
catalogs:
  lake: {format: delta, type: path, warehouse: ./delta}
  ice: {format: iceberg, type: sql, uri: "sqlite:///ROOT/ice.db", warehouse: "file://ROOT/ice"}
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
    (tmp_path / "zlayout.yaml").write_text(PROJECT.replace("ROOT", str(tmp_path)))
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


# Tables that Delta and Iceberg do not rewrite themselves.


PROPERTIES = {
    "delta.constraints.positive": "a >= 0",
    "delta.enableRowTracking": "true",
    "delta.enableTypeWidening": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpointPolicy": "v2",
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_without_their_table_feature_are_refused_in_the_plan(root: Path, name: str) -> None:
    table = delta_table(root, [0, 1])
    table.alter.set_table_properties({name: PROPERTIES[name]}, raise_if_not_exists=False)
    (found,) = planned(root).document.tables
    assert (found.status, codes(found)) == (zlayout.Status.REFUSED, [("ZL244", "refused")])


def test_a_table_with_the_added_feature_is_rewritten(root: Path, spark: SparkSession) -> None:
    table = delta_table(root, [0, 1])
    table.alter.set_table_properties({"delta.constraints.positive": "a >= 0"}, raise_if_not_exists=False)
    (found,) = planned(root).document.tables
    assert "add_feature" in found.diagnostics[0].hint
    table.alter.add_feature(TableFeatures.CheckConstraints, allow_protocol_versions_increase=True)
    assert zlayout.apply(planned(root), spark=spark).results["lake.db.t"].files_removed == 3


def test_rows_that_violate_a_constraint_are_refused_where_bounds_show_them(root: Path, spark: SparkSession) -> None:
    table = delta_table(root, [-5, 1])
    change_metadata(table, configuration={"delta.constraints.positive": "A >= 0"})
    (found,) = planned(root).document.tables
    assert (found.status, codes(found)) == (zlayout.Status.REFUSED, [("ZL245", "refused")])
    assert "the CHECK constraint positive (A >= 0)" in found.diagnostics[0].message
    change_metadata(table, configuration={"delta.constraints.positive": "length(b) > 1 or a >= 0"})
    plan = planned(root)
    assert plan.document.tables[0].status is zlayout.Status.CHANGES
    (problem,) = zlayout.apply(plan, spark=spark).results["lake.db.t"].problems
    assert problem.code == "ZL314"
    assert "CHECK constraint positive ((length(b) > 1) OR (a >= 0)) violated by row with values:" in problem.detail
    assert "a : -5" in problem.detail
    assert problem.hint.startswith("correct these rows by UPDATE or DELETE, or drop the constraint")


def test_nulls_in_a_column_that_must_not_be_null_are_refused_in_the_plan(root: Path) -> None:
    table = delta_table(root, [1, None])
    schema = json.loads(table.schema().to_json())
    schema["fields"][0]["nullable"] = False
    change_metadata(table, schemaString=json.dumps(schema))
    (found,) = planned(root).document.tables
    assert (found.status, codes(found)) == (zlayout.Status.REFUSED, [("ZL245", "refused")])
    assert "3 files have null in the column a, which must not be null" in found.diagnostics[0].message


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_files_with_nulls_are_counted_in_their_partitions(root: Path, kind: str) -> None:
    """Four files in each of two partitions; one file has a null in a column that must not be null since."""
    fields = [pa.field("a", pa.int64()), pa.field("p", pa.string())]
    parts = [
        pa.table({"a": pa.array([at, None if (at, p) == (2, "x") else 7], pa.int64()), "p": [p, p]}, pa.schema(fields))
        for at in range(4)
        for p in "xy"
    ]
    if kind == "delta":
        path = str(root / "delta/db/t")
        for part in parts:
            write_deltalake(path, part, partition_by=["p"], mode="append")
        schema = json.loads(DeltaTable(path).schema().to_json())
        schema["fields"][0]["nullable"] = False
        change_metadata(DeltaTable(path), schemaString=json.dumps(schema))
    else:
        (root / "layouts/t.yaml").write_text(LAYOUT.replace("lake.db.t", "ice.db.t"))
        catalog = SqlCatalog("ice", uri=f"sqlite:///{root}/ice.db", warehouse=f"file://{root}/ice")
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", pa.schema(fields))
        with table.update_spec() as spec:
            spec.add_identity("p")
        for part in parts:
            table.append(part)
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.update_column("a", required=True)
    (found,) = planned(root).document.tables
    assert {group.partition for group in found.groups} == {"p=y"}
    (warning,) = [d for d in found.diagnostics if d.code == "ZL245"]
    assert warning.severity == "warning"
    assert "1 of 4 files in 1 partition has null in the column a, which must not be null" in warning.message


def test_nulls_that_iceberg_forbids_are_refused_because_spark_reads_them_as_zero(
    iceberg: IcebergSubject, tmp_path: Path
) -> None:
    iceberg.sql(f"create table {iceberg} (a bigint, b string) using iceberg")
    for at in range(3):
        iceberg.sql(f"insert into {iceberg} values ({at}, 'x'), (null, 'y')")
    iceberg.java_table().updateSchema().allowIncompatibleChanges().requireColumn("a").commit()
    (found,) = zlayout.plan(subject_project(iceberg, tmp_path)).document.tables
    assert (found.status, codes(found)) == (zlayout.Status.REFUSED, [("ZL245", "refused")])
    assert "3 of 6 files have null in the column a, which must not be null" in found.diagnostics[0].message
    assert found.diagnostics[0].hint.startswith("ALTER TABLE ... ALTER COLUMN a DROP NOT NULL")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_column_that_older_files_lack_is_refused_with_a_sample(root: Path, spark: SparkSession, kind: str) -> None:
    if kind == "delta":
        delta_table(root, [0, 1]).alter.add_columns([Field("c", PrimitiveType("long"), nullable=False)])
    else:
        with iceberg_table(root).update_schema(allow_incompatible_changes=True) as update:
            update.add_column("c", LongType(), required=True)
    (found,) = planned(root, sample=True).document.tables
    assert found.status is zlayout.Status.REFUSED
    assert ("ZL245", "refused") in codes(found)
    assert "3 of 3 sampled files lack the column c, which must not be null" in found.diagnostics[0].message
    if kind == "delta":  # the session has no such catalog of Iceberg
        (problem,) = zlayout.apply(planned(root), spark=spark).results[found.table].problems
        assert "c" in problem.detail
        assert "must not be null" in problem.hint


def test_files_that_engine_native_would_also_rewrite_are_refused_in_the_plan(root: Path) -> None:
    """`rewrite_data_files` selects by `p = 'x'`, which files of an older partition spec without p match too."""
    layout = LAYOUT.replace("lake.db.t", "ice.db.t").replace("[a]", "[a], curve: linear") + "where: p = 'x'\n"
    (root / "layouts/t.yaml").write_text(layout + "engine: native\n")
    catalog = SqlCatalog("ice", uri=f"sqlite:///{root}/ice.db", warehouse=f"file://{root}/ice")
    catalog.create_namespace("db")
    rows = pa.table({"a": pa.array([1, 2], pa.int64()), "p": ["x", "y"]})
    table = catalog.create_table("db.t", rows.schema)
    with table.update_spec() as spec:
        spec.add_identity("p")
    for _ in range(3):
        table.append(rows)
    assert planned(root).document.tables[0].status is zlayout.Status.CHANGES
    with table.update_spec() as spec:
        spec.remove_field("p")
    table.append(rows)
    with table.update_spec() as spec:
        spec.add_identity("p")
    (found,) = planned(root).document.tables
    assert found.status is zlayout.Status.REFUSED
    (refusal,) = [d for d in found.diagnostics if d.code == "ZL224"]
    assert refusal.message == "engine native rewrites whole partitions, and 1 files in them are not part of this work"
    (root / "layouts/t.yaml").write_text(layout)
    assert planned(root).document.tables[0].status is zlayout.Status.CHANGES


# Row counts that are wrong in the log.


def test_wrong_row_counts_are_told_by_the_sample_and_by_the_gate(root: Path, spark: SparkSession) -> None:
    table = delta_table(root, list(range(100)))
    for log in sorted(Path(table.table_uri.removeprefix("file://"), "_delta_log").glob("*.json")):
        log.write_text(log.read_text().replace('numRecords\\":100', 'numRecords\\":0'))
    (found,) = planned(root, sample=True).document.tables
    (warning,) = [d for d in found.diagnostics if d.code == "ZL448"]
    assert warning.severity == "warning"
    assert "3 of 3 sampled files have other numbers of rows" in warning.message
    assert "100 instead of 0" in warning.message
    (problem,) = zlayout.apply(planned(root), spark=spark).results["lake.db.t"].problems
    assert problem.code == "ZL311"
    assert problem.message == "lake.db.t: expected 0 live rows from the table's metadata, found 300"
    assert "delete files" not in problem.hint
    assert "OPTIMIZE" in problem.hint


def test_wrong_row_counts_of_iceberg_are_told_by_the_sample_and_by_the_gate(
    iceberg: IcebergSubject, tmp_path: Path
) -> None:
    """A writer that counts wrongly states 7 for files of 100 rows."""
    iceberg.sql(f"create table {iceberg} (a bigint) using iceberg")
    table = load_table(iceberg.catalog, iceberg.name)
    for _ in range(3):
        rows = pa.table({"a": pa.array(range(100), pa.int64())})
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for file in _dataframe_to_data_files(transaction.table_metadata, rows, table.io):
                file._data[RECORD_COUNT] = 7
                append.append_data_file(file)
    project = subject_project(iceberg, tmp_path)
    (found,) = zlayout.plan(project, sample=True).document.tables
    (warning,) = [d for d in found.diagnostics if d.code == "ZL448"]
    assert "3 of 3 sampled files have other numbers of rows" in warning.message
    assert "100 instead of 7" in warning.message
    (problem,) = zlayout.apply(zlayout.plan(project), spark=iceberg.spark).results[str(iceberg.name)].problems
    assert problem.code == "ZL311", problem
    assert problem.message == f"{iceberg.name}: expected 21 live rows from the table's metadata, found 300"
    assert "rewrite_data_files" in problem.hint
    assert "plan again" not in problem.hint


def test_wrong_row_counts_whose_sum_is_right_have_a_hint_that_helps(root: Path, spark: SparkSession) -> None:
    path = str(root / "delta/db/t")
    for _ in range(3):
        for p in "xy":
            rows = pa.table({"a": range(100), "p": [p] * 100})
            write_deltalake(path, rows, partition_by=["p"], mode="append")
    for log in sorted(Path(path, "_delta_log").glob("*.json")):
        text = log.read_text()
        log.write_text(text.replace('numRecords\\":100', f'numRecords\\":{110 if "p=x" in text else 90}'))
    (problem,) = zlayout.apply(planned(root), spark=spark).results["lake.db.t"].problems
    assert problem.code == "ZL310"
    assert "the new files of group" in problem.message
    assert "OPTIMIZE" in problem.hint
    assert "plan again" not in problem.hint


def subject_project(table: IcebergSubject, root: Path) -> zlayout.Project:
    """A project with the catalog of the session."""
    catalog = {"format": "iceberg", "type": table.catalog.type, **table.catalog.options}
    (root / "layouts").mkdir()
    (root / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": {table.catalog.name: catalog}}))
    (root / "layouts/t.yaml").write_text(LAYOUT.replace("lake.db.t", str(table.name)))
    return zlayout.load_project(root)


def delta_table(root: Path, values: list[int | None]) -> DeltaTable:
    path = str(root / "delta/db/t")
    for _ in range(3):
        write_deltalake(path, pa.table({"a": pa.array(values, pa.int64()), "b": ["x"] * len(values)}), mode="append")
    return DeltaTable(path)


def iceberg_table(root: Path) -> Table:
    (root / "layouts/t.yaml").write_text(LAYOUT.replace("lake.db.t", "ice.db.t"))
    catalog = SqlCatalog("ice", uri=f"sqlite:///{root}/ice.db", warehouse=f"file://{root}/ice")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("a", pa.int64()), ("b", pa.string())]))
    for at in range(3):
        table.append(pa.table({"a": [at, at + 1], "b": ["x", "y"]}))
    return table


def change_metadata(table: DeltaTable, **changes: object) -> None:
    """Commit other metadata, as a writer does that checks nothing."""
    log = Path(table.table_uri.removeprefix("file://"), "_delta_log")
    commits = sorted(log.glob("*.json"))
    lines = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    metadata = [line["metaData"] for line in lines if "metaData" in line][-1] | changes
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}}, {"metaData": metadata}]
    (log / f"{len(commits):020}.json").write_text("\n".join(map(json.dumps, actions)))
