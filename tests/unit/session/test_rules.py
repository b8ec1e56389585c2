"""Layouts by rules, for real Delta tables in a folder and Iceberg tables in a SQLite catalog."""

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from support.projects import Cli

from zlayout.errors import SpecError
from zlayout.session.import_ import NotImported, import_tables
from zlayout.session.inspect import inspect
from zlayout.session.plan_file import write_plan
from zlayout.session.project import load_project
from zlayout.session.session import drift, plan, read_plan
from zlayout.spec.model import Project

PROJECT = """version: 1
catalogs:
  lake: {format: delta, warehouse: ./tables}
  ice: {format: iceberg, type: sql, uri: "sqlite:///ice.db", warehouse: ./ice}
"""
ROWS = pa.table({"a": pa.array(range(1000), pa.int64()), "b": pa.array([f"{n:04}" for n in range(1000)])})


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """Four Delta tables and a folder that is none, and an Iceberg catalog with two tables."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(PROJECT)
    for table in ("sales/orders", "sales/items", "sales/tmp_x", "web/clicks"):
        for _ in range(2):
            write_deltalake(f"tables/{table}", ROWS, mode="append")
    Path("tables/sales/notes").mkdir()
    loaded = load_catalog("ice", type="sql", uri=f"sqlite:///{tmp_path}/ice.db", warehouse=f"file://{tmp_path}/ice")
    loaded.create_namespace("web")
    for name in ("clicks", "views"):
        table = loaded.create_table(f"web.{name}", ROWS.schema)
        table.append(ROWS)
        table.append(ROWS)
    yield loaded
    loaded.engine.dispose()  # type: ignore[attr-defined]


def layout(name: str, text: str) -> Project:
    file = Path(f"layouts/{name}.yaml")
    file.write_text(
        f"version: 1\n{text}\nfiles: {{target_size: 4KiB}}\n" + ("" if "zorder" in text else "zorder: {columns: [a]}\n")
    )
    return load_project()


def rules_of(project: Project, *select: str) -> dict[str, str]:
    return {table.table: table.rule for table in plan(project, select).tables}


@pytest.mark.usefixtures("catalog")
def test_a_rule_plans_all_tables_that_it_matches() -> None:
    layout("exact", "table: lake.sales.orders")
    layout("wide", "match: lake.*.*\nzorder: {columns: [b]}")
    project = layout("sales", "match: lake.sales.*\nexclude: [lake.sales.tmp_*]")
    found = plan(project)
    assert {t.table: (t.rule, str(t.status), dict(t.settings)["zorder.columns"]) for t in found.tables} == {
        "lake.sales.items": ("lake.sales.*", "changes", ["a"]),
        "lake.sales.orders": ("", "changes", ["a"]),
        "lake.sales.tmp_x": ("lake.*.*", "changes", ["b"]),
        "lake.web.clicks": ("lake.*.*", "changes", ["b"]),
    }
    assert [(d.code, "lake.sales.notes" in d.message) for d in found.document.diagnostics] == [("ZL445", True)] * 2
    assert len(drift(project).drifted) == 4


@pytest.mark.usefixtures("catalog")
def test_iceberg_namespaces_are_listed() -> None:
    assert rules_of(layout("web", "match: ice.web.*")) == {"ice.web.clicks": "ice.web.*", "ice.web.views": "ice.web.*"}


@pytest.mark.usefixtures("catalog")
def test_conditions_decide_after_the_name() -> None:
    write_deltalake("tables/web/big", pa.table({"a": pa.array(range(100_000), pa.int64())}))
    parted = ROWS.append_column("p", pa.array(["x"] * 1000))
    write_deltalake("tables/web/parts", parted, partition_by=["p"])
    layout("any", "match: lake.web.*")
    layout("big", "match: lake.web.*\nonly: {min_size: 100KiB}")
    layout("parts", "match: lake.web.*\nonly: {partitioned: true, max_size: 100KiB}\ntags: [parts]")
    project = layout("other", "match: lake.sales.*\nonly: {columns: [a, c]}")
    lines = {t.table: t.location.path for t in plan(project).tables}
    assert lines == {
        "lake.web.big": "layouts/big.yaml",
        "lake.web.clicks": "layouts/any.yaml",
        "lake.web.parts": "layouts/parts.yaml",
    }
    assert list(rules_of(project, "tag:parts")) == ["lake.web.parts"]


@pytest.mark.usefixtures("catalog")
def test_a_tie_fails_the_tables_that_both_rules_match_alone() -> None:
    layout("one", "match: lake.sales.*")
    found = plan(layout("two", "match: lake.*.orders")).tables
    assert {t.table: str(t.status) for t in found if t.table.endswith(("orders", "items"))} == {
        "lake.sales.items": "changes",
        "lake.sales.orders": "error",
    }
    assert [t.diagnostics[0].code for t in found if t.status == "error"] == ["ZL039"]


@pytest.mark.usefixtures("catalog")
def test_a_rule_that_matches_nothing_is_a_warning(cli: Cli) -> None:
    layout("none", "match: lake.sale.*")
    shown = cli("plan").out
    assert "ZL444 the rule 'lake.sale.*' matches no table" in " ".join(shown.split())
    sarif = json.loads(cli("drift", "--report", "sarif=-").out)
    assert [r["ruleId"] for r in sarif["runs"][0]["results"]] == ["ZL444"]
    saved = json.loads(cli("plan", "--output", "json").out)
    assert (saved["tables"], saved["diagnostics"][0]["code"], saved["exit_code"]) == ([], "ZL444", 0)


@pytest.mark.usefixtures("catalog")
def test_a_catalog_that_cannot_list_costs_its_own_tables(cli: Cli) -> None:
    layout("web", "match: ice.web.*")
    project = layout("sales", "match: lake.sales.*")
    Path("ice.db").unlink()
    found = {t.table: (str(t.status), [d.code for d in t.diagnostics]) for t in plan(project).tables}
    assert found["ice.web.*"] == ("error", ["ZL121"])
    assert found["lake.sales.orders"][0] == "changes"
    (table,) = plan(project, "ice.web.c*").tables
    assert (table.table, [d.code for d in table.diagnostics]) == ("ice.web.*", ["ZL121"])
    assert "ZL121" in cli("plan", code=1).out


def lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make two folders of the warehouse that cannot be listed."""
    for folder in ("locked", "_hidden"):
        Path("tables", folder).mkdir()

    def selector(path: str, **options: bool) -> pa_fs.FileSelector:
        if path in ("locked", "_hidden"):  # the user who runs the tests may be root, who can list every folder
            raise PermissionError(errno.EACCES, "Permission denied")
        return selecting(path, **options)

    selecting = pa_fs.FileSelector
    monkeypatch.setattr(pa_fs, "FileSelector", selector)


@pytest.mark.usefixtures("catalog")
def test_a_folder_that_cannot_be_listed_costs_its_own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("tables/sales/broken").mkdir()
    Path("tables/sales/broken/_delta_log").write_text("no folder")
    lock(monkeypatch)
    found = plan(layout("every", "match: lake.*.*"))
    assert {t.table: [d.code for d in t.diagnostics] for t in found.tables if t.status == "error"} == {
        "lake.locked.*": ["ZL114"],
        "lake.sales.broken": ["ZL114"],
    }
    assert len(found.tables) == 6
    failed = [one for one in import_tables(load_project(), "lake.*.*") if isinstance(one, NotImported)]
    assert {"lake.locked.*", "lake.sales.broken"} <= {str(one.table) for one in failed}


@pytest.mark.usefixtures("catalog")
def test_a_selection_keeps_the_error_of_a_folder_whose_tables_it_may_select(monkeypatch: pytest.MonkeyPatch) -> None:
    lock(monkeypatch)
    project = layout("every", "match: lake.*.*")

    def errors(*select: str, exclude: str = "") -> list[str]:
        tables = plan(project, select, [exclude] if exclude else ()).tables
        return [d.code for t in tables if t.table == "lake.locked.*" for d in t.diagnostics]

    assert errors("lake.*.orders") == errors("lake.lo*.orders") == errors("*orders") == ["ZL114"]
    assert errors("lake.web.*", "lake.locked.orders") == ["ZL114"]
    assert errors("lake.web.c*") == errors("lake.sales.orders", "lake.web.*") == []
    for exclude in ("lake.locked.orders", "lake.*.orders", "lake.locked.?"):
        assert errors(exclude=exclude) == ["ZL114"]
    assert errors(exclude="lake.locked.*") == errors(exclude="lake.lo*") == []
    with pytest.raises(SpecError, match="ZL045"):
        plan(project, exclude=["lake.lacked.orders"])


@pytest.mark.usefixtures("catalog")
def test_the_error_of_a_folder_has_the_tags_of_the_narrowest_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    lock(monkeypatch)
    layout("every", "match: lake.*.*")
    found = plan(layout("orders", "match: lake.*.orders\ntags: [nightly]"), "tag:nightly").tables
    assert [(t.table, str(t.status)) for t in found] == [
        ("lake.locked.orders", "error"),
        ("lake.sales.orders", "changes"),
    ]


@pytest.mark.usefixtures("catalog")
def test_a_selection_of_names_lists_no_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    project = layout("sales", "match: lake.sales.*")
    monkeypatch.setattr("zlayout.formats.delta.backend.DeltaBackend.list_tables", lambda *_: pytest.fail("listed"))
    assert rules_of(project, "lake.sales.orders") == {"lake.sales.orders": "lake.sales.*"}
    with pytest.raises(SpecError, match="ZL045"):
        plan(project, "lake.web.clicks")


@pytest.mark.usefixtures("catalog")
def test_globs_select_and_exclude_among_the_listed_tables() -> None:
    project = layout("all", "match: lake.*.*")
    assert list(rules_of(project, "lake.sales.*s")) == ["lake.sales.items", "lake.sales.orders"]
    assert [t.table for t in plan(project, exclude=["lake.sales.*"]).tables] == ["lake.web.clicks"]
    assert [t.table for t in plan(project, "lake.web.*", "lake.sales.orders").tables] == ["lake.web.clicks"]


@pytest.mark.usefixtures("catalog")
def test_a_saved_plan_is_applied_by_the_rules_that_it_was_made_by() -> None:
    project = layout("sales", "match: lake.sales.*")
    write_plan(plan(project), "plan.json")
    write_deltalake("tables/sales/added", ROWS)
    read = read_plan(project, "plan.json", exclude="lake.sales.tmp_x")
    assert {t.table: (t.rule, str(t.status)) for t in read.tables} == {
        "lake.sales.items": ("lake.sales.*", "changes"),
        "lake.sales.orders": ("lake.sales.*", "changes"),
    }
    changed = layout("orders", "match: lake.sales.ord*\nzorder: {columns: [b]}")
    codes = {t.table: [d.code for d in t.diagnostics] for t in read_plan(changed, "plan.json").tables}
    assert "ZL203" in codes["lake.sales.orders"]
    assert "ZL203" not in codes["lake.sales.items"]
    Path("layouts/orders.yaml").unlink()
    with pytest.raises(SpecError, match="ZL045"):
        read_plan(layout("sales", "match: lake.web.*"), "plan.json")


@pytest.mark.usefixtures("catalog")
def test_inspect_measures_the_columns_of_the_rule() -> None:
    layout("sales", "match: lake.sales.*\nzorder: {columns: [b]}")
    project = layout("big", "match: lake.sales.*\nonly: {min_size: 1GiB}")
    inspection = inspect(project, "lake.sales.orders")
    assert (inspection.spec.rule, [c.column for c in inspection.columns]) == ("lake.sales.*", ["b"])
    assert inspect(project, "lake.web.clicks").spec is None


@pytest.mark.usefixtures("catalog")
def test_the_plan_shows_the_rule_of_each_table(cli: Cli) -> None:
    layout("sales", "match: lake.sales.*")
    assert "      rule            lake.sales.*\n" in cli("plan").out
    assert cli("validate").out == "1 layout valid\n"


@pytest.mark.usefixtures("catalog")
def test_tables_in_hidden_folders_are_named(cli: Cli) -> None:
    for table in ("sales/_x", "sales/.y", "_old/orders"):
        write_deltalake(f"tables/{table}", ROWS)
    Path("tables/sales/_temporary").mkdir()
    found = plan(layout("r", "match: lake.*.*\nexclude: [lake.*.notes]"))
    assert len(found.tables) == 4
    (note,) = found.document.diagnostics
    assert (note.code, note.severity) == ("ZL445", "note")
    assert note.message.endswith("begin with _ or .: lake._old.orders, lake.sales..y, lake.sales._x")
    assert "ZL140" in cli("import", "lake.sales.*", "--columns", "a").err
    Path("layouts/r.yaml").unlink()
    (named,) = plan(layout("named", "table: lake.sales._x"), "lake.sales._x").tables
    assert named.status != "error"
    hidden = plan(layout("hidden", "match: lake._old.*"))
    assert [d.code for d in hidden.document.diagnostics] == ["ZL444", "ZL445"]
