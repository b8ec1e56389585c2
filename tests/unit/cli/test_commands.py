"""The command line without a JVM: exit codes, what goes where, refusals before anything is written."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from unit.cli.conftest import LAYOUT

from zlayout.cli.main import run


@pytest.mark.usefixtures("root")
class TestPlan:
    def test_changes_exit_with_2_only_when_asked(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["plan"]) == 0
        out, err = capsys.readouterr()
        assert "lake.db.orders (delta, version 1)" in out
        assert "Plan: 0 to alter, 1 to rewrite, 0 unchanged." in out
        assert err == ""
        assert run(["plan", "--detailed-exitcode"]) == 2

    def test_a_plan_file_shows_again_and_is_whole(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["plan", "--out", "plan.json", "--output", "json"]) == 0
        out, err = capsys.readouterr()
        assert out == Path("plan.json").read_text()
        assert err == "plan written to plan.json\n"
        assert run(["show", "plan.json"]) == 0
        assert "lake.db.orders" in capsys.readouterr().out

    def test_selection(self, capsys: pytest.CaptureFixture[str]) -> None:
        for wanted in (["lake.*"], ["tag:nightly"], ["path:layouts/*"], ["lake.db.orders"]):
            assert run(["plan", *wanted, "--output", "json"]) == 0
            assert len(json.loads(capsys.readouterr().out)["tables"]) == 1, wanted
        assert run(["plan", "--exclude", "lake.*", "--output", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["tables"] == []
        for typed in (["lake.db.order"], ["--exclude", "lake.db.order"]):
            assert run(["plan", *typed]) == 1
            assert "did you mean lake.db.orders?" in capsys.readouterr().err
        assert run(["plan", "--exclude", "tag:none", "--exclude", "other.*"]) == 0

    def test_a_project_without_layouts_is_no_success(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        layout = root / "layouts" / "orders.yaml"
        layout.rename(root / "elsewhere.yaml")
        for command in ("plan", "drift", "validate"):
            assert run([command]) == 1
            assert "ZL045 there is no layout" in capsys.readouterr().err
        (root / "elsewhere.yaml").rename(layout.with_suffix(".yml"))
        assert run(["validate"]) == 0
        assert capsys.readouterr().out == "1 layout valid\n"

    def test_an_interrupt_while_modules_are_imported_is_one(self) -> None:
        script = """
import sys
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "zlayout.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from zlayout.cli.main import main
main(["plan"])
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "")

    def test_nothing_at_all_may_be_told(self, root: Path) -> None:
        command = [sys.executable, "-c", "from zlayout.cli.main import main; main()", "plan"]
        closed = subprocess.run(["sh", "-c", shlex.join(command) + " >&- 2>&-"], cwd=root, check=False)
        assert closed.returncode == 0

    def test_a_missing_table_is_an_error_and_does_not_stop_the_others(
        self, root: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (root / "layouts" / "none.yaml").write_text(LAYOUT.replace("orders", "none"))
        assert run(["plan"]) == 1
        out = capsys.readouterr().out
        assert "ZL" in out
        assert "1 to rewrite" in out
        assert "1 failed" in out

    def test_a_plan_that_cannot_be_written_leaves_nothing(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for path in ("missing/plan.json", "-"):
            assert run(["plan", "--out", path]) == 1
            assert "ZL043" in capsys.readouterr().err
        assert sorted(p.name for p in root.iterdir()) == ["layouts", "tables", "zlayout.yaml"]


@pytest.mark.usefixtures("root")
class TestApply:
    def test_without_a_terminal_it_wants_approval_first(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["apply"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "ZL046" in err

    def test_a_stale_plan_is_refused_with_3(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["plan", "--out", "plan.json"]) == 0
        (root / "layouts" / "orders.yaml").write_text(LAYOUT.replace("[a]", "[b]"))
        log = sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log"))
        assert run(["apply", "plan.json", "--auto-approve"]) == 3
        out, err = capsys.readouterr()
        assert "ZL203 lake.db.orders: the plan is stale: the layout spec changed" in " ".join(out.split())
        assert "nothing was written" in err
        assert run(["apply", "plan.json", "--auto-approve", "--output", "json", "--report", "junit=stale.xml"]) == 3
        events = list(map(json.loads, capsys.readouterr().out.splitlines()))
        assert [event["type"] for event in events] == ["version", "planned_change", "change_summary"]
        assert events[-1]["exit_code"] == 3
        assert "ZL203" in (root / "stale.xml").read_text()
        assert sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log")) == log

    def test_the_summary_has_the_exit_code_where_a_report_cannot_be_written(
        self, root: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (root / "layouts" / "orders.yaml").write_text(LAYOUT + "partition_by: [b]\n")
        (root / "r.xml").mkdir()
        assert run(["apply", "--auto-approve", "--output", "json", "--report", "junit=r.xml"]) == 1
        out, err = capsys.readouterr()
        assert "ZL061" in err
        assert json.loads(out.splitlines()[-1])["exit_code"] == 1

    def test_a_refused_table_stops_everything_with_3(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (root / "layouts" / "orders.yaml").write_text(LAYOUT + "partition_by: [b]\n")
        log = sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log"))
        assert run(["apply", "--auto-approve"]) == 3
        out, err = capsys.readouterr()
        assert "ZL201" in out
        assert "nothing was written" in err
        assert sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log")) == log

    def test_no_java_is_said_by_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
        assert run(["apply", "--auto-approve"]) == 1
        assert "ZL301" in (err := capsys.readouterr().err)
        assert "openjdk-17" in err


def test_usage_errors_exit_with_64(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--nonsense"]) == 64
    assert run(["nonsense"]) == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert "--nonsense" in err


def test_version_and_schema_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert run(["schema", "plan"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("zlayout 0.")
    assert err == ""


def test_no_project_says_where_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["plan"]) == 1
    assert "zlayout init" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("paths", "code", "named"),
    [
        (["layouts/typo.yaml"], "ZL044", "layouts/typo.yaml"),
        (["layouts/orders.yaml", "layouts/typo.yaml"], "ZL044", "layouts/typo.yaml"),
        (["layouts", "elsewhere.yaml"], "ZL045", "elsewhere.yaml"),
        (["layouts/orders.yaml", "other"], "ZL045", "other"),
    ],
)
def test_every_path_to_validate_must_lead_to_a_layout(
    root: Path, paths: list[str], code: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "elsewhere.yaml").write_text("no layout")
    (root / "other").mkdir()
    (root / "other" / "zlayout.yaml").write_text("another project")
    assert run(["validate", *paths]) == 1
    err = capsys.readouterr().err
    assert code in err
    assert named in err
    assert run(["validate", "layouts", "layouts/orders.yaml", "."]) == 0
    assert capsys.readouterr().out == "1 layout valid\n"


@pytest.mark.usefixtures("root")
def test_a_project_is_found_from_a_folder_below_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["validate", "layouts/orders.yaml"]) == 0
    assert capsys.readouterr().out == "1 layout valid\n"
    monkeypatch.chdir("layouts")
    for command in (["plan"], ["validate"], ["inspect", "lake.db.orders"]):
        assert run(command) == 0, command
    assert "lake.db.orders" in capsys.readouterr().out


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_init_writes_a_valid_project_and_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--format", format]) == 0
    assert run(["validate"]) == 0
    assert capsys.readouterr().out.endswith("1 layout valid\n")
    before = (tmp_path / "zlayout.yaml").read_text()
    assert run(["init", "--format", format]) == 1
    assert "ZL047" in capsys.readouterr().err
    assert (tmp_path / "zlayout.yaml").read_text() == before


def test_inspect_needs_no_layout(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "layouts" / "orders.yaml").unlink()
    assert run(["inspect", "lake.db.orders"]) == 0
    out = capsys.readouterr().out
    assert "2 files in 1 partition" in out
    assert "files by depth of a: 2 at 2" in out
