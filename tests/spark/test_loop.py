"""The whole loop on a real table: Spark's own event log becomes the workload, the layout follows it, and is tried."""

import json
from pathlib import Path
from typing import Any

import pytest
from spark.event_logs import event_log
from spark.subjects import DeltaSubject, IcebergSubject, SparkSubject
from support.projects import Cli, cli

import zlayout
from zlayout.planner.model import Status
from zlayout.session.advise import write_advice

__all__ = ["cli"]

ROWS, FILES = 8_000, 8
LAYOUT = """\
version: 1
table: {table}
zorder:
  columns: [a]
files: {{target_size: {size}B}}
"""


def laid_out_by_a(table: SparkSubject, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a table that is laid out by `a`, as its project in the working directory declares."""
    table.sql(f"create table {table} (id bigint, a bigint, b bigint) using {table.catalog.format}")
    rows = table.spark.range(0, ROWS, 1, FILES).selectExpr("id", "id * 7919 % 8009 a", "id * 4637 % 7993 b")
    table.append(rows)  # type: ignore[attr-defined]
    size = int(table.observe().files.bytes.sum()) // FILES
    catalog = {"format": table.catalog.format, "type": table.catalog.type, **table.catalog.options}
    for name in ("layouts", "workloads"):
        (folder / name).mkdir()
    project = {"version": 1, "catalogs": {table.catalog.name: catalog}, "history": {}}
    (folder / "zlayout.yaml").write_text(json.dumps(project))
    (folder / "layouts/t.yaml").write_text(LAYOUT.format(table=table.name, size=size))
    monkeypatch.chdir(folder)
    zlayout.apply(zlayout.plan(zlayout.load_project()), table.spark)


def planned(table: SparkSubject) -> Any:
    (found,) = zlayout.plan(zlayout.load_project(), str(table.name)).tables
    return found.status, found.actions, found.columns


def fitted(table: SparkSubject, cli: Cli, folder: Path) -> Any:
    """Let queries for `b` change the layout, and return the plan of the table."""
    name = str(table.name)
    cli("drift", name)
    with event_log(table.spark, folder / "log"):
        for start in range(0, 4000, 500):
            table.sql(f"select count(*), max(id) from {table} where b between {start} and {start + 90}").collect()
    (log,) = (folder / "log").iterdir()
    imported = zlayout.import_workload(zlayout.load_project(), [log])
    assert imported.executions == 8
    imported.write(folder / "workloads/queries.sql")
    assert "the layout no longer fits the workload" in " ".join(cli("drift", name, "--sample", code=2).out.split())
    study = zlayout.advise(zlayout.load_project(), name, (), spark=table.spark)
    assert write_advice(zlayout.load_project(), study) == Path("layouts/t.yaml")
    assert zlayout.load_project().layouts[0].column_names[0] == "b"
    before = planned(table)
    assert before[0] is Status.CHANGES
    cli("plan", name, "--detailed-exitcode", code=2)
    return before


def require_better(report: zlayout.TrialReport) -> None:
    """Spark read less of the trial, and as much as was predicted."""
    assert report.measured.files < 0.5 * report.main.files
    assert report.measured.files == pytest.approx(report.predicted.files, rel=0.35)


def test_from_queries_to_a_published_layout_and_back(
    iceberg: IcebergSubject, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out_by_a(iceberg, tmp_path, monkeypatch)
    table, name, rows = iceberg, str(iceberg.name), iceberg.rows()
    before = fitted(table, cli, tmp_path)
    report = zlayout.trial(zlayout.load_project(), name, branch="try", spark=table.spark)
    require_better(report)
    assert planned(table) == before

    main = table.observe().version
    shown = cli("publish", name, "--branch", "try", "--dry-run").out
    assert f"main from snapshot {main} to {report.trial.version}" in shown
    zlayout.publish(zlayout.load_project(), zlayout.plan_publish(zlayout.load_project(), name, "try"), table.spark)
    assert table.observe().version == report.trial.version
    cli("drift", name, "--sample")
    assert planned(table)[0] is Status.UNCHANGED
    assert table.rows() == rows
    run = zlayout.inspect(zlayout.load_project(), name).last_run
    assert run.run_id == report.result.run_id
    assert run.columns[0].predicted == pytest.approx(run.columns[0].measured, rel=0.35)
    assert "predicted" in cli("inspect", name).out
    records = json.loads(cli("history", name, "--json").out)["records"]
    assert run.run_id in [record["run_id"] for record in records if record["command"] == "apply"]

    back = zlayout.plan_rollback(zlayout.load_project(), name)
    assert back.run_id == run.run_id
    zlayout.rollback(zlayout.load_project(), back, table.spark)
    assert (table.observe().version, table.rows()) == (main, rows)
    assert planned(table) == before
    dropped = zlayout.plan_drop_trial(zlayout.load_project(), name, branch="try")
    zlayout.drop_trial(zlayout.load_project(), dropped, table.spark)
    assert planned(table) == before


@pytest.mark.long
@pytest.mark.long
def test_from_queries_to_apply_and_back_on_delta(
    delta: DeltaSubject, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out_by_a(delta, tmp_path, monkeypatch)
    name, rows = str(delta.name), delta.rows()
    before = fitted(delta, cli, tmp_path)
    zlayout.apply(zlayout.plan(zlayout.load_project(), name), delta.spark)
    cli("drift", name, "--sample")
    assert planned(delta)[0] is Status.UNCHANGED
    assert "predicted" in cli("inspect", name).out
    zlayout.rollback(zlayout.load_project(), zlayout.plan_rollback(zlayout.load_project(), name), delta.spark)
    assert delta.rows() == rows
    assert planned(delta) == before
