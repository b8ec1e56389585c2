"""Two layouts of one table under two names: neither is planned, the other tables are."""

import shutil
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from contract import make_rows
from pyiceberg.catalog.sql import SqlCatalog
from support.builders import make_file_table, make_layout, make_spec, make_state
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable

import zlayout
from zlayout.errors import Location, TableError
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.planner.model import Wait
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import as_plan, plan_tables, shared_tables
from zlayout.spec.model import TableName
from zlayout.table.state import TableState

LAYOUT = "version: 1\ntable: {table}\nzorder:\n  columns: [a, b]\n"
ROWS = pa.table({"a": list(range(40)), "b": list(range(40))})


def project(root: Path, catalogs: str, *tables: str) -> zlayout.Project:
    (root / "zlayout.yaml").write_text(f"version: 1\ncatalogs:\n{catalogs}layouts: [layouts/*.yaml]\n")
    (root / "layouts").mkdir()
    for table in tables:
        (root / "layouts" / f"{table}.yaml").write_text(LAYOUT.format(table=table))
    return zlayout.load_project(root)


def statuses(plan: zlayout.ProjectPlan) -> dict[str, str]:
    return {t.table: str(t.status) for t in plan.tables}


@pytest.mark.parametrize("other", ["{root}/link", "{root}/one/", "file://{root}/one", "{root}/link/../one"])
def test_two_names_of_one_delta_location(tmp_path: Path, other: str) -> None:
    for name in ("one", "three"):
        deltalake.write_deltalake(tmp_path / name, ROWS)
    (tmp_path / "link").symlink_to(tmp_path / "one")
    places = {"one": f"{tmp_path}/one", "two": other.format(root=tmp_path), "three": f"{tmp_path}/three"}
    listed = "".join(f"      db.{name}: {place}\n" for name, place in places.items())
    plan = zlayout.plan(
        project(tmp_path, f"  d:\n    format: delta\n    tables:\n{listed}", *(f"d.db.{n}" for n in places))
    )
    found = statuses(plan)
    assert (found["d.db.one"], found["d.db.two"]) == ("error", "error")
    assert found["d.db.three"] != "error"
    one, _, two = plan.tables
    assert [d.code for d in (*one.diagnostics, *two.diagnostics)] == ["ZL022", "ZL022"]
    message = one.diagnostics[0].message
    assert message.startswith(f"d.db.one and d.db.two are two names of one table, at {tmp_path}/one")
    assert "layouts/d.db.two.yaml:2" in message
    assert not one.actions
    assert plan.document.exit_code == 1


@pytest.mark.parametrize("arguments", [{"select": "d.db.a"}, {"exclude": "e.*.*"}, {"select": "d.*.*"}])
def test_one_of_the_two_alone_is_no_less_an_error(tmp_path: Path, arguments: dict[str, str]) -> None:
    """Else two jobs, one for each name, would rewrite the table back and forth."""
    deltalake.write_deltalake(tmp_path / "one", ROWS)
    entry = "  {}:\n    format: delta\n    tables: {{db.{}: {}/one}}\n"
    entries = entry.format("d", "a", tmp_path) + entry.format("e", "b", tmp_path)
    found = project(tmp_path, entries, "d.db.a", "e.db.b")
    plan = zlayout.plan(found, **arguments)
    assert statuses(plan) == {"d.db.a": "error"}
    assert [d.code for d in plan.tables[0].diagnostics] == ["ZL022"]
    assert "e.db.b" in plan.tables[0].diagnostics[0].message
    assert not plan.document.diagnostics


def test_an_error_on_one_name_does_not_hide_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deltalake.write_deltalake(tmp_path / "one", ROWS)
    listed = "".join(f"      db.{name}: {tmp_path}/one\n" for name in ("a", "b"))
    found = project(tmp_path, f"  d:\n    format: delta\n    tables:\n{listed}", "d.db.a", "d.db.b")
    observe = DeltaBackend.observe

    def one_fails(self: DeltaBackend, table: TableName, *rest: Any) -> TableState:
        if table.name == "b":
            raise TableError.of("ZL114", "no answer")
        return observe(self, table, *rest)

    monkeypatch.setattr(DeltaBackend, "observe", one_fails)
    plan = zlayout.plan(found)
    assert [[d.code for d in table.diagnostics] for table in plan.tables] == [["ZL022"], ["ZL114"]]


def test_layouts_whose_locations_only_a_catalog_knows_are_named(tmp_path: Path) -> None:
    catalog = SqlCatalog("x", uri=f"sqlite:///{tmp_path}/x.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("db")
    for name in ("t", "third", "other"):
        table = catalog.create_table(f"db.{name}", ROWS.schema)
        table.append(ROWS)
    deltalake.write_deltalake(tmp_path / "one", ROWS)
    place = f"uri: sqlite:///{tmp_path}/x.db\n    warehouse: file://{tmp_path}/wh\n"
    entries = f"  x:\n    format: iceberg\n    type: sql\n    {place}"
    entries += f"  d:\n    format: delta\n    tables: {{db.a: {tmp_path}/one}}\n"
    found = project(tmp_path, entries, "x.db.t", "x.db.other", "x.db.third", "d.db.a")
    plan = zlayout.plan(found, select="x.db.other")
    (note,) = plan.document.diagnostics
    assert (note.code, note.severity) == ("ZL419", "note")
    assert "not compared with 2 other layouts" in note.message
    assert note.message.endswith(": x.db.t, x.db.third")
    for arguments in ({}, {"select": "d.db.a"}):
        assert not zlayout.plan(found, **arguments).document.diagnostics
    table.append(ROWS)  # the only table with changes, which is read again when a saved plan is applied
    for select, count in (("*.*.*", 0), ("x.db.other", 1)):
        zlayout.write_plan(zlayout.plan(found, select=select), tmp_path / "p.json")
        again = zlayout.read_plan(found, tmp_path / "p.json")
        assert (len(again.planned), len(again.document.diagnostics)) == (1, count)


def test_a_rule_declares_the_other_name(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "wh" / "db" / "a", ROWS)
    entry = f"    format: delta\n    warehouse: {tmp_path}/wh\n"
    found = project(tmp_path, f"  d:\n{entry}  e:\n{entry}", "d.db.a")
    (tmp_path / "layouts" / "rule.yaml").write_text("version: 1\nmatch: e.db.*\nzorder:\n  columns: [b]\n")
    plan = zlayout.plan(zlayout.load_project(found.root), select="d.db.a")
    assert [d.code for d in plan.tables[0].diagnostics] == ["ZL022"]
    assert "layouts/rule.yaml" in plan.tables[0].diagnostics[0].message


def test_a_copied_delta_folder_is_another_table(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "one", ROWS)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    found = project(tmp_path, f"  d:\n    format: delta\n    warehouse: {tmp_path}\n", "d.one", "d.two")
    assert "error" not in statuses(zlayout.plan(found)).values()


def test_one_iceberg_table_in_two_catalogs(tmp_path: Path) -> None:
    def catalog(name: str) -> SqlCatalog:
        found = SqlCatalog(name, uri=f"sqlite:///{tmp_path}/{name}.db", warehouse=f"file://{tmp_path}/wh")
        found.create_namespace("db")
        return found

    table = catalog("x").create_table("db.t", ROWS.schema)
    table.append(ROWS)
    catalog("y").register_table("db.other", table.metadata_location)
    entries = "".join(
        f"  {name}:\n    format: iceberg\n    type: sql\n    uri: sqlite:///{tmp_path}/{name}.db\n"
        f"    warehouse: file://{tmp_path}/wh\n"
        for name in "xy"
    )
    plan = zlayout.plan(project(tmp_path, entries, "x.db.t", "y.db.other"))
    assert statuses(plan) == {"x.db.t": "error", "y.db.other": "error"}
    assert "y.db.other" in plan.tables[0].diagnostics[0].message


def test_the_budget_is_not_spent_on_them() -> None:
    shared, alone = MemoryTable(make_rows(1).schema), MemoryTable(make_rows(1).schema)
    for table in (shared, alone):
        table.append(make_rows(200), files=4)
    backend = MemoryBackend(MemoryCatalog({"db.t0": shared, "db.t1": shared, "db.t2": alone}))
    specs = [make_spec(make_layout("a", target_size=2000), f"mem.db.t{n}", Location(f"t{n}.yaml", 2)) for n in range(3)]
    size = int(backend.observe(specs[2].table, ()).files.bytes.sum())
    planned = plan_tables(specs, {"mem": backend}, PlanOptions(max_rewrite_bytes=size))
    assert [t.status for t in as_plan(planned).tables] == ["error", "error", "changes"]
    assert planned[2].plan.that_wait(Wait.BUDGET) is None
    assert planned[0].state is None


def test_names_of_object_stores() -> None:
    def of(*places: tuple[str, str]) -> set[int]:
        observed = [
            (
                make_spec(make_layout("a"), f"c.db.t{n}"),
                make_state(make_file_table([1]), location=location, table_id=table_id),
            )
            for n, (location, table_id) in enumerate(places)
        ]
        return set(shared_tables(observed))

    assert of(("s3://b/t", "1"), ("s3a://b/t/", "2"), ("s3://b/u", "3")) == {0, 1}
    assert of(("s3://b/t", "1"), ("s3://b/copy", "1")) == set()
    assert of(("s3://b/t", "1"), ("s3://access-point/t", "1")) == {0, 1}
