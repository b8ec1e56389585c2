"""`import --dbt`: the layouts that the models of a recorded manifest declare, and what becomes of everything else."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.projects import Cli

from zlayout.errors import SpecError
from zlayout.session.import_ import DbtImport, ImportedLayout, NotImported, import_dbt
from zlayout.session.project import load_project

RECORDED = Path(__file__).parents[2] / "fixtures" / "dbt" / "manifest.json"
PROJECT = """version: 1
catalogs:
  lake: {format: delta, warehouse: ./tables}
  ice: {format: iceberg, type: sql, uri: "sqlite:///ice.db", warehouse: ./ice}
"""
UNITY = "  uc: {format: delta, type: unity, uri: 'https://unity.example.com', warehouse: main}\n"
Edit = Callable[[dict[str, Any]], object]
Import = Callable[..., DbtImport]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zlayout.yaml").write_text(PROJECT)
    return tmp_path


def manifest(*edits: Edit) -> Path:
    document = json.loads(RECORDED.read_text())
    for edit in edits:
        edit(document)
    path = Path("manifest.json")
    path.write_text(json.dumps(document))
    return path


def imported(*edits: Edit, pattern: str | None = None) -> DbtImport:
    return import_dbt(load_project(), manifest(*edits), pattern)


def orders(**settings: Any) -> Edit:
    return lambda document: document["nodes"]["model.shop.orders"]["config"].update(settings)


def layout_of_orders(found: DbtImport) -> str:
    (one,) = (one for one in found.layouts if one.table.name == "orders")
    assert isinstance(one, ImportedLayout), one
    return one.text.partition("\n")[2]


@pytest.mark.usefixtures("project")
def test_the_recorded_manifest_becomes_valid_layouts_at_the_paths_of_its_models(cli: Cli) -> None:
    printed = cli("import", "--dbt", str(RECORDED))
    assert sorted(printed.out.split()[1::2]) == [
        "layouts/marts/events.yaml",
        "layouts/marts/orders.yaml",
        "layouts/marts/visits.yaml",
        "layouts/orders_history.yaml",
        "layouts/regions.yaml",
    ]
    assert Path("layouts/marts/orders.yaml").read_text() == (
        "# Imported by zlayout from model.shop.orders of dbt.\n"
        "version: 1\n"
        "table: lake.sales.orders\n"
        "tags: [nightly]\n"
        "partition_by: [region]\n"
        "zorder:\n"
        "  columns: [order_date, customer_id]\n"
        "tolerance: {unclustered: 5%}\n"
    )
    specs = {str(spec.table): spec for spec in load_project().layouts}
    events, visits = specs["ice.sales.events"], specs["lake.sales.visits"]
    assert list(map(str, events.partition_by or ())) == ["day(ts)", "bucket(4, id)"]
    assert (visits.column_names, visits.layout.target_size) == (("visitor", "day"), 64 * 2**20)
    assert visits.layout.engine == "zlayout"  # only dbt-databricks creates clustered tables from this key
    assert not specs["lake.sales.regions"].layout.orders
    assert specs["lake.sales_history.orders_history"].column_names == ("order_id",)
    assert [line for line in printed.err.splitlines() if line.startswith("left out")] == [
        "left out: disabled: model.shop.gone",
        "left out: materialized as 'view': model.shop.view",
        "left out: materialized as 'ephemeral': model.shop.inner",
        "left out: tags with other characters than letters, digits, _ . -: model.shop.orders",
        "left out: without partition_by, zorder, liquid_clustered_by, cluster_by or meta.zlayout: model.shop.plain",
        "left out: with file_format 'parquet': model.shop.files",
    ]
    assert cli("validate").out
    before = {path: path.read_text() for path in Path("layouts").rglob("*.yaml")}
    assert cli("import", "--dbt", str(RECORDED)).err.count("ZL064") == 5  # a second run changes nothing
    assert {path: path.read_text() for path in Path("layouts").rglob("*.yaml")} == before


@pytest.mark.usefixtures("project")
def test_a_pattern_selects_tables(cli: Cli) -> None:
    assert cli("import", "lake.sales.o*", "--dbt", str(RECORDED)).out == "wrote layouts/marts/orders.yaml\n"
    assert "nothing was imported" in cli("import", "lake.sales.x*", "--dbt", str(RECORDED), code=1).err
    assert "ZL021" in cli("import", "nowhere.*.*", "--dbt", str(RECORDED), code=1).err


@pytest.mark.usefixtures("project")
def test_options_for_existing_tables_are_rejected(cli: Cli) -> None:
    assert "--dbt excludes --columns" in cli("import", "--dbt", str(RECORDED), "--columns", "a", code=1).err
    assert "--dbt excludes --out" in cli("import", "--dbt", str(RECORDED), "--out", "-", code=1).err
    assert "expected a table, a pattern, or --dbt" in cli("import", code=64).err


def databricks(document: dict[str, Any]) -> None:
    document["metadata"]["adapter_type"] = "databricks"
    for node in document["nodes"].values():
        node["database"] = "main"


def test_unity_catalog_is_found_by_its_warehouse_and_keeps_its_clustering(project: Path) -> None:
    (project / "zlayout.yaml").write_text(PROJECT + UNITY)
    liquid = orders(file_format=None, zorder=None, partition_by=None, liquid_clustered_by=["a", "b"])
    found = imported(databricks, liquid)
    assert str(found.layouts[0].table).startswith("uc.sales.")
    assert layout_of_orders(found) == (
        "version: 1\n"
        "table: uc.sales.orders\n"
        "tags: [nightly]\n"
        "zorder:\n"
        "  columns: [a, b]\n"
        "  curve: hilbert\n"
        "engine: native\n"
        "tolerance: {unclustered: 5%}\n"
    )
    (events,) = (d for d in found.problems if "events" in str(d.location))
    assert "expected one catalog of format iceberg for database 'main', found none" in events.message


@pytest.mark.usefixtures("project")
def test_the_catalog_of_the_pattern_stands_for_one_database() -> None:
    assert len(imported(databricks, pattern="lake.*.*").layouts) == 4
    assert not imported(databricks).layouts

    def another(document: dict[str, Any]) -> None:
        document["nodes"]["model.shop.visits"]["database"] = "dev"

    found = imported(databricks, another, pattern="lake.*.*")
    assert not found.layouts
    assert {d.code for d in found.problems} == {"ZL091"}


@pytest.mark.usefixtures("project")
def test_tables_of_another_adapter_are_those_whose_database_is_a_catalog() -> None:
    def duckdb(document: dict[str, Any]) -> None:
        document["metadata"]["adapter_type"] = "duckdb"
        for name, node in document["nodes"].items():
            node["database"] = "ice" if name.endswith("events") else "shop"

    found = imported(duckdb, pattern="ice.*.*")
    assert [str(one.table) for one in found.layouts] == ["ice.sales.events"]
    assert "expected one catalog of format delta for database 'shop', found none" in found.problems[0].message


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"zorder": "a, b", "partition_by": None}, "  columns: [a, b]\n"),
        ({"zorder": ["`a b`", "1e5"]}, "  columns:\n  - a b\n  - '1e5'\n"),
        ({"zorder": None}, "tolerance: {unclustered: 5%}\nfiles: {target_size: 128MiB}\n"),
        ({"zorder": None, "partition_by": None, "cluster_by": "a"}, "  columns: [a]\n"),
        ({"meta": {"zlayout": {"zorder": {"columns": ["c"], "curve": "linear"}}}}, "  columns: [c]\n  curve: linear\n"),
        ({"meta": {"zlayout": {"tags": ["own"]}}}, "tags: [own]\n"),
    ],
)
def test_settings_of_a_model(settings: dict[str, Any], expected: str) -> None:
    assert expected in layout_of_orders(imported(orders(**settings)))


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"cluster_by": "a"}, "model.shop.orders: ZL091 expected one of zorder and cluster_by, found several"),
        (
            {"partition_by": {"field": "a"}},
            "ZL091 expected a column or a list of columns for partition_by, found a",
        ),
        ({"zorder": [1]}, "ZL091 expected a column or a list of columns for zorder, found a list"),
        ({"zorder": ["a", "a"]}, "ZL016 duplicate column 'a' in zorder.columns"),
        ({"partition_by": ["days(ts)"]}, "ZL024 expected a column in partition_by of a Delta table, found 'day(ts)'"),
        ({"meta": {"zlayout": {"zorderr": 1}}}, "'zorderr'"),
        ({"meta": {"zlayout": {"table": "lake.a.b"}}}, "ZL091 meta.zlayout cannot have the key table"),
        ({"meta": {"zlayout": {"description": "${HOME}"}}}, "ZL017"),
        ({"meta": {"zlayout": ["a"]}}, "ZL091 expected keys of a layout or false for meta.zlayout, found a list"),
        ({"meta": {"zlayout": {"description": "x" * 300_000}}}, "ZL091 expected at most 256 KiB"),
        ({"tblproperties": {"delta.targetFileSize": "1"}}, "ZL013"),
    ],
)
def test_what_a_layout_cannot_have_is_reported_with_its_model(settings: dict[str, Any], expected: str) -> None:
    found = imported(orders(**settings))
    (one,) = (one for one in found.layouts if one.table.name == "orders")
    assert isinstance(one, NotImported)
    assert expected in str(one.error)
    assert "manifest.json: model.shop.orders:" in str(one.error)
    assert len(found.layouts) == 5  # the other models are imported


@pytest.mark.usefixtures("project")
def test_a_model_can_be_left_out() -> None:
    found = imported(orders(meta={"zlayout": False}, auto_liquid_cluster=True))
    assert found.left_out["with `meta.zlayout: false`"] == ["model.shop.orders"]


@pytest.mark.usefixtures("project")
def test_two_models_of_one_table_are_not_both_imported() -> None:
    found = imported(lambda document: document["nodes"]["model.shop.visits"].update(alias="orders"))
    assert [type(one) for one in found.layouts if one.table.name == "orders"] == [ImportedLayout, NotImported]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "cannot read the file"),
        ("", "expected a manifest of dbt"),
        ("[]", "expected a manifest of dbt"),
        ("{}", "expected a manifest of dbt: 'metadata'"),
        ('{"metadata": 1, "nodes": {}}', "expected a manifest of dbt"),
        ('{"metadata": {"dbt_schema_version": ""}, "nodes": {}}', "it has another schema"),
        ("[" * 100_000, "nested too deeply"),
        ("{" + "," * 5_000_000, "more than 4,000,000 values"),
    ],
)
def test_another_file_than_a_manifest_is_rejected(content: str | None, expected: str) -> None:
    if content is not None:
        Path("m.json").write_text(content)
    with pytest.raises(SpecError, match=expected) as error:
        import_dbt(load_project(), Path("m.json"))
    assert error.value.diagnostics[0].code == "ZL090"
    assert str(error.value.diagnostics[0].location) == "m.json"


@pytest.mark.usefixtures("project")
def test_an_old_manifest_is_rejected() -> None:
    old = "https://schemas.getdbt.com/dbt/manifest/v6.json"
    with pytest.raises(SpecError, match="version 6"):
        imported(lambda document: document["metadata"].update(dbt_schema_version=old))
