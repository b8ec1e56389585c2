"""drift and --report: exit codes, what goes where, outputs for GitHub."""

import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.projects import LAYOUT, Cli, Scripted

from zlayout.cli.main import run
from zlayout.report.formats import REPORTERS


def test_drift_exits_with_2_and_writes_nothing(root: Path, cli: Cli) -> None:
    log = sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log"))
    assert "Drift: 1 of 1 table is not as declared." in cli("drift", code=2).out
    assert sorted(os.listdir(root / "tables" / "db" / "orders" / "_delta_log")) == log


@pytest.mark.usefixtures("memory")
def test_drift_exits_with_0_once_it_is_applied() -> None:
    assert run(["drift"]) == 2
    assert run(["apply", "--auto-approve"]) == 0
    assert run(["drift"]) == 0


def test_a_table_that_cannot_be_read_exits_with_1_though_another_drifted(root: Path) -> None:
    (root / "layouts" / "none.yaml").write_text(LAYOUT.replace("orders", "none"))
    assert run(["drift"]) == 1


@pytest.mark.usefixtures("root")
def test_a_changed_partitioning_is_drift() -> None:
    Path("layouts/orders.yaml").write_text(LAYOUT + "partition_by: [b]\n")
    assert run(["drift"]) == 2


@pytest.mark.usefixtures("root")
def test_all_reports_come_out_of_one_command(cli: Cli) -> None:
    Path("out").mkdir()
    options = [part for name in REPORTERS for part in ("--report", f"{name}=out/report.{name}")]
    err = cli("drift", *options, code=2).err
    for name in REPORTERS:
        assert "lake.db.orders" in Path(f"out/report.{name}").read_text()
        assert f"{name} report written to out/report.{name}\n" in err
    assert sorted(p.name for p in Path("out").iterdir()) == sorted(f"report.{name}" for name in REPORTERS)


@pytest.mark.usefixtures("root")
def test_a_report_on_stdout_takes_the_screens_place(cli: Cli) -> None:
    assert json.loads(cli("plan", "--report", "sarif=-").out)["version"] == "2.1.0"
    printed = json.loads(cli("plan", "--out", "plan.json", "--report", "json=-").out)
    assert printed == json.loads(Path("plan.json").read_text())
    assert json.loads(cli("plan", "--output", "json", "--report", "sarif=-").out)["version"] == "2.1.0"
    assert cli("show", "plan.json", "--report", "github=-").out.startswith("::error file=layouts/orders.yaml,")


@pytest.mark.usefixtures("root")
def test_a_plan_file_holds_pictures_for_later_pages() -> None:
    assert run(["plan", "--out", "plan.json"]) == 0
    assert run(["show", "plan.json", "--report", "html=later.html"]) == 0
    assert "Files after, an illustration" in Path("later.html").read_text()
    assert run(["plan", "--report", "json=bare.json"]) == 0
    assert json.loads(Path("bare.json").read_text())["pictures"] == []


@pytest.mark.parametrize(
    ("option", "code"),
    [("pdf=x", "ZL060"), ("sarif", "ZL060"), ("sarif=", "ZL060"), ("=x", "ZL060"), ("sarif=missing/x.sarif", "ZL061")],
)
@pytest.mark.usefixtures("root")
def test_a_bad_report_option_stops_before_any_table_is_read(option: str, code: str, cli: Cli) -> None:
    out, err = cli("drift", "--report", option, code=1)
    assert code in err
    assert out == ""


@pytest.mark.usefixtures("root")
def test_a_report_that_cannot_be_written_is_an_error(cli: Cli) -> None:
    Path("folder").mkdir()
    assert "ZL061" in cli("drift", "--report", "junit=folder", code=1).err


@pytest.mark.usefixtures("root")
def test_github_outputs_name_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_OUTPUT", "outputs")
    Path("summary.md").write_text("before\n")
    assert run(["drift"]) == 2
    assert Path("summary.md").read_text().startswith("before\n<!-- zlayout-report -->\n")
    assert Path("outputs").read_text() == "has_changes=true\nexit_code=2\ntables_changed=1\n"


def test_in_a_workflow_paths_start_at_the_checkout(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(root.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("layouts/none.yaml").write_text(LAYOUT.replace("orders", "none"))
    names = ("github", "sarif", "junit")
    assert run(["drift", *(part for name in names for part in ("--report", f"{name}=r.{name}"))]) == 1
    for file in ("r.github", "r.sarif", "summary.md"):
        text = Path(file).read_text()
        assert text.count(f"{root.name}/layouts/") == text.count("layouts/") > 0, file
    assert root.name not in Path("r.junit").read_text().partition("<error")[0]
    monkeypatch.setenv("GITHUB_WORKSPACE", str(root / "elsewhere"))
    assert run(["drift", "--report", "github=r.github"]) == 1
    assert "file=layouts/orders.yaml" in Path("r.github").read_text()


def test_partitions_have_names_only_with_show_values(root: Path) -> None:
    rows = pa.table({"a": [1, 2], "day": ["monday", "tuesday"]})
    for _ in range(2):
        write_deltalake(str(root / "tables/db/days"), rows, mode="append", partition_by=["day"])
    Path("layouts/days.yaml").write_text(LAYOUT.replace("orders", "days"))
    reports = ["--report", "html=r.html", "--report", "json=r.json"]
    assert run(["drift", *reports]) == 2
    assert "monday" not in Path("r.html").read_text() + Path("r.json").read_text()
    assert run(["drift", *reports, "--show-values"]) == 2
    assert "day=monday" in Path("r.html").read_text()
    assert "day=monday" in Path("r.json").read_text()


def test_apply_reports_what_it_did(memory: Scripted, cli: Cli) -> None:
    out = cli("apply", "--auto-approve", "--report", "json=done.json", "--report", "junit=done.xml").out
    assert "as declared; 1 commit, 4 -> " in out
    done = json.loads(Path("done.json").read_text())
    (table,), (result,) = done["tables"], [entry["result"] for entry in done["results"]]
    assert table["status"] == "changes"
    assert (result["outcome"], result["files_removed"]) == ("as_declared", 4)
    assert result["columns"][0]["column"] == "a"
    assert 'failures="0"' in Path("done.xml").read_text()
    memory.breaks = ZeroDivisionError("odd")
    Path("layouts/orders.yaml").write_text(LAYOUT.replace("[a]", "[b]"))
    assert "ZL307" in cli("apply", "--auto-approve", "--report", "github=-", code=1).out


def test_the_help_names_every_report_format(cli: Cli) -> None:
    words = set(re.findall(r"\w+", cli("drift", "--help").out))
    assert set(REPORTERS) <= words


@pytest.fixture
def regions(root: Path) -> Path:
    """A table with one partition per region, of which `where` of the layout names another one."""
    rows = pa.table({"a": pa.array(range(4), pa.int64()), "region": ["EU", "EU", "US", "US"]})
    write_deltalake(str(root / "tables" / "db" / "sales"), rows, partition_by=["region"])
    Path("layouts/orders.yaml").write_text(LAYOUT.replace("orders", "sales") + "where: region = 'eu'\n")
    return root


@pytest.mark.usefixtures("regions")
def test_a_where_that_selects_nothing_is_a_warning_in_every_format(cli: Cli) -> None:
    Path("out").mkdir()
    options = [part for name in REPORTERS for part in ("--report", f"{name}=out/{name}")]
    printed = cli("drift", *options, code=2)
    told = "warning: layouts/orders.yaml:7:1: ZL443 `where` matches none of the 2 partitions, so"
    assert told in " ".join(printed.out.split())
    assert printed.out.endswith("Drift: 1 of 1 table is not as declared.\n")
    written = {name: Path("out", name).read_text() for name in REPORTERS}
    assert all("ZL443" in text for text in written.values()), written
    assert "| matches no partition |" in written["markdown"]
    assert '<testsuites name="zlayout drift" tests="1" failures="1" errors="0">' in written["junit"]
    assert "::warning file=layouts/orders.yaml,title=lake.db.sales%3A ZL443," in written["github"]
    assert [r["level"] for r in json.loads(written["sarif"])["runs"][0]["results"]] == ["warning"]
    assert '<span class="badge changes">matches no partition</span>' in written["html"]
    assert "<title>zlayout: drift</title>" in written["html"]
    assert "### zlayout drift: 1 table not as declared" in written["markdown"]
    assert "Drift: 1 of 1 table is not as declared." in written["markdown"]
    assert re.match(r"zlayout \S+ drift  1 layout, 1 table read in ", printed.out)
    assert "To plan: zlayout plan\n" in printed.err
    shown = " ".join(cli("plan").out.split())
    assert shown.endswith("No changes. 0 tables laid out as declared. `where` of 1 table matches no partition.")


@pytest.mark.usefixtures("regions")
def test_a_where_that_may_select_nothing_is_no_drift(cli: Cli) -> None:
    with Path("layouts/orders.yaml").open("a") as layout:
        layout.write("where_may_be_empty: true\n")
    printed = cli("drift", "--report", "github=-")
    assert "::notice file=layouts/orders.yaml,title=lake.db.sales%3A ZL403," in printed.out
