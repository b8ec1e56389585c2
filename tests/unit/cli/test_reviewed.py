"""plan --reviewed: a reviewed plan is used if it is not stale, and else the table is planned again."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.projects import LAYOUT, Cli

ORDERS = "tables/db/orders"
ROWS = pa.table({"a": pa.array(range(100), pa.int64()), "b": ["x"] * 100})


def plan(path: str = "plan.json") -> dict[str, dict[str, object]]:
    return {table["table"]: table for table in json.loads(Path(path).read_text())["tables"]}


def version(path: str = "plan.json") -> int:
    requirements = plan(path)["lake.db.orders"]["requirements"]
    assert isinstance(requirements, dict)
    return requirements["version"]


@pytest.fixture
def reviewed(root: Path, cli: Cli) -> Path:
    """A folder with the reviewed plan of the one table, at version 1."""
    (root / "reviewed").mkdir()
    cli("plan", "--out", "reviewed/7.json")
    return root / "reviewed"


@pytest.mark.usefixtures("reviewed")
@pytest.mark.parametrize("where", ["reviewed", "reviewed/7.json"])
def test_an_append_keeps_the_reviewed_plan(where: str, cli: Cli) -> None:
    write_deltalake(ORDERS, ROWS, mode="append")
    out = cli("plan", "--reviewed", where, "--out", "plan.json").out
    assert "ZL451" not in out
    assert version() == 1
    assert plan()["lake.db.orders"]["requirements"] == plan("reviewed/7.json")["lake.db.orders"]["requirements"]
    cli("plan", "--out", "plan.json")
    assert version() == 2


@pytest.mark.usefixtures("reviewed")
def test_the_reason_is_stated_and_the_table_is_planned_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(root / "outputs"))
    write_deltalake(ORDERS, ROWS, mode="overwrite")
    for _ in range(2):
        write_deltalake(ORDERS, ROWS, mode="append")
    out = " ".join(cli("plan", "--reviewed", "reviewed", "--out", "plan.json").out.split())
    assert "ZL451 not the reviewed plan: lake.db.orders: the plan is stale: 2 pinned files were changed or" in out
    assert version() == 4
    assert "tables_not_reviewed=1\n" in (root / "outputs").read_text()


@pytest.mark.usefixtures("reviewed")
def test_another_layout_was_not_reviewed(cli: Cli) -> None:
    Path("layouts/orders.yaml").write_text(LAYOUT.replace("[a]", "[a, b]"))
    out = " ".join(cli("plan", "--reviewed", "reviewed").out.split())
    assert "ZL451 not the reviewed plan: lake.db.orders: the plan is stale: the layout spec changed" in out


def test_each_table_keeps_the_plan_that_holds(reviewed: Path, cli: Cli) -> None:
    """Two pull requests on one table: the plan of the first one is for a layout that is no longer there."""
    Path("layouts/orders.yaml").write_text(LAYOUT.replace("[a]", "[a, b]"))
    cli("plan", "--out", str(reviewed / "8.json"))
    assert "ZL451" not in cli("plan", "--reviewed", "reviewed").out


def test_a_table_that_no_reviewed_plan_changes_is_marked(root: Path, cli: Cli) -> None:
    (root / "reviewed").mkdir()
    out = " ".join(cli("plan", "--reviewed", "reviewed").out.split())
    assert "ZL451 not the reviewed plan: no reviewed plan changes the table" in out
    assert "ZL040" in cli("plan", "--reviewed", "missing", code=1).err


def test_a_plan_file_that_cannot_be_read_does_not_stop_the_plan(reviewed: Path, cli: Cli) -> None:
    text = (reviewed / "7.json").read_text()
    for number, content in enumerate(("{", text.replace('"format_version": 3', '"format_version": 99'), text)):
        (reviewed / f"{number}.json").write_text(content)
    (reviewed / "7.json").unlink()
    out = " ".join(cli("plan", "--reviewed", "reviewed", "--out", "plan.json").out.split())
    assert out.count("ZL451 a reviewed plan is not used: ") == 2
    assert "expected plan format version 3, found the number 99" in out
    assert version() == 1


@pytest.mark.usefixtures("reviewed")
def test_a_table_that_is_as_declared_needs_no_review(cli: Cli) -> None:
    Path("layouts/orders.yaml").write_text(LAYOUT.replace("[a]", "[b]"))  # one value, so that any order is this one
    out = cli("plan", "--reviewed", "reviewed").out
    assert "unchanged" in out
    assert "ZL451" not in out
