"""Commands on Delta tables that Unity Catalog knows by name: the location is shown, and a plan holds for it alone."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support.projects import Cli
from support.unity import UnityServer, unity_server

from zlayout.formats.access import READ_SECONDS

PROJECT = """\
version: 1
catalogs:
  uc: {{format: delta, type: unity, uri: "{url}", warehouse: main}}
"""
LAYOUT = "version: 1\ntable: {table}\nzorder:\n  columns: [a]\nfiles: {{target_size: 1KiB}}\n"


def write(place: Path) -> None:
    for _ in range(2):
        rows = pa.table({"a": pa.array(range(100), pa.int64()), "b": pa.array(["x"] * 100)})
        write_deltalake(place, rows, mode="append")


def declare(table: str) -> None:
    Path("layouts").mkdir(exist_ok=True)
    Path("layouts", f"{table}.yaml").write_text(LAYOUT.format(table=table))


@pytest.fixture
def unity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UnityServer]:
    """A project with one layout, whose table is at `here`."""
    with unity_server() as server:
        monkeypatch.chdir(tmp_path)
        Path("zlayout.yaml").write_text(PROJECT.format(url=server.url))
        write(tmp_path / "here")
        server.add("main.sales.orders", f"file://{tmp_path}/here")
        declare("uc.sales.orders")
        yield server


@pytest.mark.usefixtures("unity")
def test_the_location_is_shown(cli: Cli, tmp_path: Path) -> None:
    place = f"{tmp_path}/here"
    assert f"\n      location        {place}\n" in cli("plan").out
    (planned,) = json.loads(cli("plan", "--output", "json").out)["tables"]
    assert planned["requirements"]["location"] == place
    assert f"  location        {place}\n" in cli("inspect", "uc.sales.orders").out
    cli("plan", "--report", "markdown=plan.md")
    assert place in Path("plan.md").read_text()
    checked = cli("doctor").out
    assert "ok       read metadata" in checked
    assert "ok       connect" in checked


def test_a_saved_plan_is_stale_when_the_name_leads_to_a_copy(cli: Cli, unity: UnityServer, tmp_path: Path) -> None:
    """A copy has the same table id, versions and files, so only the location differs."""
    cli("plan", "--out", "plan.json")
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    unity.add("main.sales.orders", f"file://{tmp_path}/copy")
    stale = cli("apply", "plan.json", "--auto-approve", code=3)
    assert "ZL203 uc.sales.orders: the plan is stale: the catalog leads to another location" in _unwrapped(stale.out)
    for place in ("here", "copy"):
        assert DeltaTable(tmp_path / place).version() == 1
    unity.add("main.sales.orders", f"file:{tmp_path}/here/")  # the same location, written differently
    assert "No changes" not in cli("plan").out
    from zlayout.session.project import load_project
    from zlayout.session.session import read_plan

    assert read_plan(load_project(), "plan.json").has_changes


def test_two_names_of_one_location_are_an_error(cli: Cli, unity: UnityServer, tmp_path: Path) -> None:
    unity.add("main.sales.alias", f"file:///{tmp_path}/here")
    declare("uc.sales.alias")
    printed = cli("plan", code=1).out
    assert printed.count("ZL022") == 2
    assert f"uc.sales.alias and uc.sales.orders are two names of one table, at {tmp_path}/here" in _unwrapped(printed)


def test_a_catalog_that_is_declared_twice_has_the_same_tables(cli: Cli, unity: UnityServer) -> None:
    twice = PROJECT.format(url=unity.url)
    Path("zlayout.yaml").write_text(twice + twice.splitlines()[-1].replace("uc:", "twice:") + "\n")
    declare("twice.sales.orders")
    for selected in ("uc.sales.orders", "twice.*.*"):
        assert "ZL022" in cli("plan", selected, code=1).out


def test_a_view_does_not_stop_the_other_tables(cli: Cli, unity: UnityServer) -> None:
    unity.add("main.sales.view", None, None, "VIEW")
    declare("uc.sales.view")
    printed = cli("plan", code=1).out
    assert "ZL135 expected a Delta table for uc.sales.view in catalog uc, found a view" in _unwrapped(printed)
    assert "1 to rewrite" in printed


def test_import_writes_the_tables_that_a_pattern_matches(cli: Cli, unity: UnityServer, tmp_path: Path) -> None:
    for name in ("items", "returns"):
        write(tmp_path / name)
        unity.add(f"main.sales.{name}", f"file://{tmp_path}/{name}")
    unity.add("main.sales.v", None, None, "VIEW")
    unity.add("main.other.t", f"file://{tmp_path}/t")
    printed = cli("import", "uc.sales.*", "--columns", "a")
    assert printed.out == "wrote layouts/sales_items.yaml\nwrote layouts/sales_returns.yaml\n"
    assert "not imported: uc.sales.orders: layouts/uc.sales.orders.yaml:2:1: ZL064" in printed.err
    assert "not imported: uc.sales.v: zlayout.yaml:3:3: ZL135" in printed.err
    assert "uc.other.t" not in printed.err
    cli("validate")
    again = cli("import", "uc.sales.i*")
    assert again.out == ""
    assert "ZL064" in again.err


def test_import_of_tables_that_cannot_be_read_fails(cli: Cli, unity: UnityServer, tmp_path: Path) -> None:
    unity.add("main.sales.gone", f"file://{tmp_path}/gone")
    assert "ZL110" in cli("import", "uc.sales.g*", "--columns", "a", code=1).err
    unity.add("main.sales.odd", "data/odd")
    assert "ZL136" in cli("import", "uc.sales.o*", "--columns", "a", code=1).err


@pytest.mark.usefixtures("unity")
def test_a_pattern_that_matches_nothing_and_one_with_a_file(cli: Cli) -> None:
    assert "ZL038 no table of catalog uc matches uc.sales.x*" in cli("import", "uc.sales.x*", code=1).err
    assert "ZL038 --out names one file" in cli("import", "uc.sales.*", "--out", "-", code=1).err
    assert "ZL134" in cli("import", "uc.*", code=1).err


@pytest.mark.usefixtures("unity")
def test_services_that_hang_cost_their_own_tables_alone(cli: Cli, hung: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    services = {"unity": f"http://127.0.0.1:{hung}", "hive": f"thrift://127.0.0.1:{hung}"}
    services["glue"] = services["unity"]
    with Path("zlayout.yaml").open("a") as project:
        for kind, uri in services.items():
            warehouse = ", warehouse: main" if kind == "unity" else ""
            project.write(f'  slow_{kind}: {{format: delta, type: {kind}, uri: "{uri}"{warehouse}}}\n')
    for kind in services:
        declare(f"slow_{kind}.sales.orders")
    boto3.client(
        "glue", region_name="us-east-1"
    )  # beside other processes, loading libraries would take longer than the limit
    cli("plan", "uc.sales.orders")
    start = time.monotonic()
    printed = _unwrapped(cli("plan", "--timeout", "2", code=1).out)
    assert time.monotonic() - start < READ_SECONDS  # the limit of one request, of which there are two
    for kind in services:
        assert f"ZL105 slow_{kind}.sales.orders" in printed
    assert "1 to rewrite" in printed


def _unwrapped(text: str) -> str:
    return " ".join(text.split())
