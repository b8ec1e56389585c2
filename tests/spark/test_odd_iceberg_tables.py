"""Iceberg tables as other writers leave them: what is said of them is exact, or marked as not exact."""

import json
from pathlib import Path

import pytest
from spark.subjects import IcebergSubject, SparkSubject
from spark.test_iceberg_equality import delete_equal
from support.projects import Cli, cli

__all__ = ["cli"]

FILES, ROWS = 30, 20


def write_project(table: SparkSubject, folder: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    """Make `folder` the working directory, with a project of the table's catalog and one layout of the table."""
    catalog = {"format": table.catalog.format, "type": table.catalog.type, **table.catalog.options}
    project = {"version": 1, "catalogs": {table.catalog.name: catalog}, "history": {}}
    (folder / "layouts").mkdir()
    (folder / "zlayout.yaml").write_text(json.dumps(project))
    (folder / "layouts" / "t.yaml").write_text(f"version: 1\ntable: {table.name}\n{layout}")
    monkeypatch.chdir(folder)


@pytest.mark.parametrize(
    ("deleted", "granularity", "exact"),
    [(3, "partition", False), (50, "partition", False), (50, "file", True), (50, "equality", False)],
)
def test_inspect_and_plan_count_deleted_rows_exactly_or_say_that_they_do_not(
    deleted: int, granularity: str, exact: bool, iceberg: IcebergSubject, cli: Cli, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    of_spark = "partition" if granularity == "partition" else "file"
    properties = f"'write.delete.mode'='merge-on-read', 'write.delete.granularity'='{of_spark}'"
    iceberg.sql(
        f"create table {iceberg} (id int, a bigint) using iceberg tblproperties ('format-version'='2', {properties})"
    )
    rows = iceberg.spark.range(0, FILES * ROWS, 1, FILES).selectExpr("cast(id as int) id", "id a")
    iceberg.append(rows)
    if granularity == "equality":
        delete_equal(iceberg, list(range(0, 550, 11)))
    else:  # from every file
        gone = f"id % 11 = 0 and id < {11 * deleted}"
        iceberg.spark.conf.set("spark.sql.shuffle.partitions", "1")
        iceberg.sql(f"delete from {iceberg} where {gone}")
        iceberg.spark.conf.unset("spark.sql.shuffle.partitions")
    live = iceberg.spark.table(str(iceberg)).count()
    assert live == FILES * ROWS - deleted
    layout = "files: {target_size: 1MiB}\ntolerance: {deleted_rows: 0.01%}\n"
    write_project(iceberg, tmp_path, monkeypatch, layout)
    found = json.loads(cli("inspect", str(iceberg.name), "--json").out)
    assert (found["deleted_rows"], found["rows"]) == (deleted, live)
    assert found["deleted_rows_exact"] is exact
    text = cli("inspect", str(iceberg.name)).out
    about = "" if exact else "about "
    assert f" {about}{live}, {about}{deleted} deleted" in text
    assert ("(estimated from delete files)" in text) is not exact
    planned, shown = cli("plan", "--json"), cli("plan", "--verbose")
    assert f"deleted_rows {about}{'0.5%' if deleted == 3 else '8.3%'}, tolerance <0.1%" in shown.out
    (decay,) = [d for d in json.loads(planned.out)["tables"][0]["decay"] if d["measure"] == "deleted_rows"]
    assert decay["estimated"] is not exact
