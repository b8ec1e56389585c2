"""Saved plans and byte budgets on the command line, up to where Spark would start."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.projects import Cli

from zlayout.cli.main import run

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
        assert "ZL301" in cli("apply", "plan.json", "--auto-approve", code=1).err

    def test_a_plan_of_another_format_version_is_refused_with_3(self, cli: Cli) -> None:
        cli("plan", "--out", "plan.json")
        plan = json.loads(Path("plan.json").read_text())
        Path("plan.json").write_text(json.dumps(plan | {"format_version": 99}))
        assert "ZL206" in cli("apply", "plan.json", "--auto-approve", code=3).err

    @pytest.mark.parametrize(
        ("layout", "code", "said"), [("zorder: {columns: [gone]}", 1, "ZL012"), ("partition_by: [b]", 3, "ZL201")]
    )
    def test_what_was_not_planned_is_not_forgotten(
        self, layout: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As without a plan file: after what can be done where a table has an error, nothing where one is refused."""
        write_deltalake("tables/db/other", pa.table({"a": pa.array([1], pa.int64()), "b": ["x"]}))
        columns = "" if "zorder" in layout else "zorder: {columns: [a]}"
        Path("layouts/other.yaml").write_text(f"version: 1\ntable: lake.db.other\n{layout}\n{columns}\n")
        assert run(["plan", "--out", "plan.json"]) == code
        applied: list[str] = []
        monkeypatch.setattr(
            "zlayout.app.apply.apply_table", lambda planned, *_: applied.append(str(planned.spec.table))
        )
        capsys.readouterr()
        assert run(["apply", "plan.json", "--auto-approve"]) == code
        assert applied == (["lake.db.orders"] if code == 1 else [])
        assert said in "".join(capsys.readouterr())
        assert run(["apply", "plan.json", "--auto-approve", "--exclude", "lake.db.other"]) != 3


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
        assert table["left_over"]["bytes"] + sum(g["bytes"] for g in table["actions"]) == sum(sizes)

    @pytest.mark.parametrize("text", ["many", "10 parsecs", "GiB", "-1"])
    def test_a_size_that_is_none_is_an_error(self, text: str, cli: Cli) -> None:
        assert "ZL050" in cli("plan", f"--max-rewrite-bytes={text}", code=1).err
