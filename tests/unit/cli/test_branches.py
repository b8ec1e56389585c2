"""`ref` of layouts and `--branch` of the commands, on an Iceberg table with a branch and a tag."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from support.projects import Cli

from zlayout.formats.base import Backend, Commit
from zlayout.planner.model import Status
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import PlannedTable
from zlayout.session.results import Applied

PROJECT = """\
version: 1
catalogs:
  ice: {{format: iceberg, type: sql, uri: "sqlite:///{root}/ice.db", warehouse: "file://{root}/w"}}
  lake: {{format: delta, type: path, warehouse: ./tables}}
history: {{}}
"""
LAYOUT = "version: 1\ntable: {table}\nzorder: {{columns: [a]}}\nfiles: {{target_size: 1KiB}}\n{more}"


def rows(start: int) -> pa.Table:
    return pa.table({"a": pa.array([n * 7919 % 1000 for n in range(start, start + 500)], pa.int64())})


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """`ice.db.t` with two files on main and three on the branch `audit`; `lake.db.d` of Delta."""
    monkeypatch.chdir(tmp_path)
    Path("zlayout.yaml").write_text(PROJECT.format(root=tmp_path))
    Path("layouts").mkdir()
    declare("ice.db.t")
    declare("lake.db.d")
    write_deltalake("tables/db/d", rows(0))
    catalog = load_catalog("ice", type="sql", uri=f"sqlite:///{tmp_path}/ice.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", rows(0).schema)
    table.append(rows(0))
    table.append(rows(500))
    first = table.current_snapshot()
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").create_tag(first.snapshot_id, "v1").commit()
    table.append(rows(1000), branch="audit")
    yield table
    catalog.close()


def declare(table: str, more: str = "") -> None:
    Path(f"layouts/{table.rpartition('.')[2]}.yaml").write_text(LAYOUT.format(table=table, more=more))


def head(table: Table, branch: str) -> int:
    snapshot = table.refresh().snapshot_by_name(branch)
    return snapshot.snapshot_id


def planned(cli: Cli, *arguments: str, code: int = 0) -> dict[str, dict[str, object]]:
    found = json.loads(cli("plan", "--output", "json", *arguments, code=code).out)
    return {entry["table"]: entry for entry in found["tables"]}


def version(entry: dict[str, object]) -> object:
    requirements: dict[str, object] = entry["requirements"]  # type: ignore[assignment]
    return requirements["version"]


def test_a_plan_is_of_the_branch_of_the_option_or_else_of_the_layout(table: Table, cli: Cli) -> None:
    of_main = planned(cli, "ice.db.t")["ice.db.t"]
    assert (version(of_main), of_main["files"]) == (head(table, "main"), 2)
    assert of_main["requirements"]["branch"] == ""  # type: ignore[index]
    of_audit = planned(cli, "ice.db.t", "--branch", "audit")["ice.db.t@audit"]
    assert (version(of_audit), of_audit["files"]) == (head(table, "audit"), 3)
    assert of_audit["requirements"]["branch"] == "audit"  # type: ignore[index]
    assert cli("drift", "ice.db.t", "--branch", "audit", code=2).out.count("ice.db.t@audit") == 1
    declare("ice.db.t", "ref: audit\n")
    assert planned(cli, "ice.db.t") == {"ice.db.t@audit": of_audit}
    assert planned(cli, "ice.db.t", "--branch", "main") == {"ice.db.t": of_main}
    assert "To apply: zlayout apply ice.db.t --branch audit" in cli("plan", "ice.db.t", "--branch", "audit").err
    for arguments in (("ice.db.t@audit",), ("ice.db.t", "--branch", "audit"), ("ice.db.t",)):  # the last by `ref`
        assert len(json.loads(cli("history", *arguments, "--json").out)["records"]) == 4
    assert len(json.loads(cli("history", "ice.db.t", "--branch", "main", "--json").out)["records"]) == 2
    assert "ZL237" in cli("history", "lake.db.d", "--branch", "audit", code=3).err


def test_inspect_shows_the_branch(table: Table, cli: Cli) -> None:
    assert f"ice.db.t (iceberg, snapshot {head(table, 'main')})" in cli("inspect", "ice.db.t").out
    shown = f"ice.db.t@audit (iceberg, snapshot {head(table, 'audit')})"
    assert shown in cli("inspect", "ice.db.t", "--branch", "audit").out
    assert "3 files" in cli("inspect", "ice.db.t", "--branch", "audit").out
    declare("ice.db.t", "ref: audit\n")
    assert shown in cli("inspect", "ice.db.t").out
    assert "ZL237" in cli("inspect", "lake.db.d", "--branch", "audit", code=3).err


@pytest.mark.usefixtures("table")
def test_what_is_no_branch_is_refused_for_each_table(cli: Cli) -> None:
    found = planned(cli, "--branch", "audit", code=3)
    assert found["ice.db.t@audit"]["status"] == "changes"
    refused = found["lake.db.d@audit"]
    assert (refused["status"], [d["code"] for d in refused["diagnostics"]]) == ("refused", ["ZL237"])  # type: ignore[attr-defined]
    for name, said in (("gone", "no such branch"), ("v1", "a tag of this name")):
        (entry,) = planned(cli, "ice.db.t", "--branch", name, code=3).values()
        assert (entry["status"], entry["diagnostics"][0]["code"]) == ("refused", "ZL238")  # type: ignore[index]
        assert said in entry["diagnostics"][0]["message"]  # type: ignore[index]
        assert "ZL238" in cli("inspect", "ice.db.t", "--branch", name, code=3).err
    assert planned(cli, "--branch", "main").keys() == {"ice.db.t", "lake.db.d"}
    for name in ("", "a b", "-x", "x" * 201, "a\n"):
        assert "ZL054" in cli("plan", f"--branch={name}", code=1).err


@pytest.mark.usefixtures("table")
def test_settings_of_the_table_are_refused_on_a_branch(cli: Cli) -> None:
    declare("ice.db.t", "partition_by: ['bucket(4, a)']\n")
    assert planned(cli, "ice.db.t")["ice.db.t"]["status"] == "changes"
    (entry,) = planned(cli, "ice.db.t", "--branch", "audit", code=3).values()
    assert entry["status"] == "refused"
    (refusal,) = [d for d in entry["diagnostics"] if d["severity"] == "refused"]  # type: ignore[attr-defined]
    assert refusal["code"] == "ZL239"
    assert "partition_by" in refusal["message"]


def test_a_plan_file_is_for_one_branch_as_it_was(table: Table, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[tuple[str, int]] = []

    def succeed(planned: PlannedTable, _backend: Backend, _options: PlanOptions, run: Applied, *_: object) -> None:
        applied.append((run.table, planned.state.version))
        run.commits.append(Commit("rewrite", 9))
        run.after = replace(planned.plan, status=Status.UNCHANGED)

    monkeypatch.setattr("zlayout.session.apply.apply_table", succeed)
    out = cli("plan", "ice.db.t", "--branch", "audit", "--out", "p.json").err
    assert "To apply: zlayout apply p.json --branch audit" in out
    stale = cli("apply", "p.json", "--auto-approve", code=3).out
    assert "it is for branch audit, and this run is for main" in " ".join(stale.split())
    at = head(table, "audit")
    out = cli("apply", "p.json", "--auto-approve", "--branch", "audit").out
    assert "zlayout rollback" not in out
    assert applied == [("ice.db.t@audit", at)]
    declare("ice.db.t", "ref: audit\n")
    cli("apply", "p.json", "--auto-approve")
    assert applied == [("ice.db.t@audit", at)] * 2

    table.append(rows(2000))  # to main
    cli("apply", "p.json", "--auto-approve", "--stale", "strict")
    assert applied.pop() == ("ice.db.t@audit", at)
    table.append(rows(2000), branch="audit")
    assert "expected table version" in cli("apply", "p.json", "--auto-approve", "--stale", "strict", code=3).out
    cli("apply", "p.json", "--auto-approve")
    table.overwrite(rows(0), branch="audit")
    assert "changed or removed" in " ".join(cli("apply", "p.json", "--auto-approve", code=3).out.split())

    assert "apply m.json --branch main" in cli("plan", "ice.db.t", "--branch", "main", "--out", "m.json").err
    stale = cli("apply", "m.json", "--auto-approve", code=3).out
    assert "it is for branch main, and this run is for audit" in " ".join(stale.split())
    cli("apply", "m.json", "--auto-approve", "--branch", "main")
    assert applied[-1] == ("ice.db.t", head(table, "main"))

    table.manage_snapshots().remove_branch("audit").commit()
    assert "ZL238" in cli("apply", "p.json", "--auto-approve", code=3).out


@pytest.mark.usefixtures("table")
def test_a_rollback_without_a_run_is_refused_where_the_layout_is_for_a_branch(cli: Cli) -> None:
    declare("ice.db.t", "ref: audit\n")
    assert "ZL230" in cli("rollback", "ice.db.t", "--dry-run", code=3).err
    assert "ZL231" in cli("rollback", "ice.db.t", "--dry-run", "--run", "x", code=3).err


def test_the_hint_for_a_run_on_a_branch_names_no_tag(table: Table, cli: Cli) -> None:
    table.append(rows(3000), {"zlayout.run": "r1"}, "audit")
    table.manage_snapshots().create_tag(head(table, "audit"), "a-tag").create_tag(
        head(table, "audit"), "z-tag"
    ).commit()
    refused = cli("rollback", "ice.db.t", "--dry-run", "--run", "r1", code=3).err
    assert "ZL230" in refused
    assert "rewrote branch audit" in refused
    assert "tag" not in refused


@pytest.mark.usefixtures("table")
def test_the_workload_of_a_table_is_that_of_its_branches(cli: Cli) -> None:
    Path("workloads").mkdir()
    Path("workloads/q.sql").write_text("select * from ice.db.t where a = 5;\n")
    (main,), (audit,) = (planned(cli, "ice.db.t", *more).values() for more in ((), ("--branch", "audit")))
    assert main["workload"]["queries"] == audit["workload"]["queries"] == 1  # type: ignore[index]
