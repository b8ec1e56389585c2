"""Column ids of real metadata: what a rename leaves of a layout record, on Delta and on Iceberg. No JVM."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField
from support.builders import make_layout, make_spec
from support.delta_logs import add, field, metadata, observe, protocol, write_log

from zlayout.formats.iceberg.read import observe as iceberg
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.planner.diff import decide
from zlayout.planner.model import TablePlan
from zlayout.planner.work import Capabilities
from zlayout.session.import_ import recorded_settings
from zlayout.spec.model import CatalogConfig, Layout, TableName
from zlayout.table.state import TableState

LAYOUT = make_layout("id")
CAPABILITIES = Capabilities("any", partition_evolution=True, native_by_rank=True)


def plan(layout: Layout, state: TableState) -> TablePlan:
    return decide(make_spec(layout), state, CAPABILITIES).plan


def drift(found: TablePlan) -> list[tuple[str, Any, Any]]:
    return [(d.key, d.before, d.after) for d in found.drift]


def delta_table(path: Path, **names: str) -> None:
    """Two files of one rewrite by `id`, out of order. names: the logical name of each physical one after a rename."""
    tags = {
        "zlayout.layout_id": LAYOUT.layout_id,
        "zlayout.group": "run/0",
        "zlayout.layout": json.dumps(LAYOUT.identified(["col-1"]).recorded_settings()),
    }
    sides = ({"col-1": 0, "col-2": 0}, {"col-1": 9, "col-2": 9})

    def schema(**of: str) -> dict[str, Any]:
        fields = [field(logical, "long", physical.replace("_", "-")) for physical, logical in of.items()]
        return metadata(fields, **{"delta.columnMapping.mode": "name"})

    first = [protocol(reader=("columnMapping",)), schema(col_1="id", col_2="other")]
    files = [add(name, *sides, tags=tags) for name in ("f0.parquet", "f1.parquet")]
    write_log(path, [*first, *files], [schema(**names)])


def test_delta_columns_are_known_by_their_physical_names(tmp_path: Path) -> None:
    delta_table(tmp_path / "renamed", col_1="customer", col_2="other")
    state = observe(tmp_path / "renamed", "customer")
    assert [c.id for c in state.columns] == ["col-1", "col-2"]
    assert plan(make_layout("customer"), state).status == "unchanged"
    settings = recorded_settings(state)
    assert settings["zorder.columns"] == ["customer"]


def test_delta_names_that_are_swapped_are_drift(tmp_path: Path) -> None:
    delta_table(tmp_path / "swapped", col_1="other", col_2="id")
    found = plan(LAYOUT, observe(tmp_path / "swapped", "id"))
    assert (found.status, drift(found)) == ("changes", [("zorder.columns", ["other"], ["id"])])


NAME = TableName("ice", ("db",), "t")
SCHEMA = Schema(*(NestedField(n, name, LongType(), required=False) for n, name in enumerate(("id", "other", "day"), 1)))


def rows(days: list[int]) -> pa.Table:
    return pa.table({"id": range(len(days)), "other": range(len(days)), "day": days})


def laid_out(catalog: Catalog) -> Any:
    """A table of two files that one run by `id` wrote, according to `zlayout.state`."""
    table = catalog.create_table("db.t", schema=SCHEMA)
    for _ in range(2):
        table.append(rows([1] * 10))
    state = recorded.after({}, LAYOUT.identified(["1"]), [s.snapshot_id for s in table.metadata.snapshots], frozenset())
    with table.transaction() as change:
        change.set_properties({recorded.PROPERTY: recorded.render(state)})
    return table


def test_iceberg_columns_are_known_by_their_field_ids(config: CatalogConfig, catalog: Catalog) -> None:
    with laid_out(catalog).update_schema() as change:
        change.rename_column("id", "customer")
    state = iceberg.observe(config, NAME, ["customer"])
    assert [c.id for c in state.columns] == ["1", "2", "3"]
    found = plan(make_layout("customer"), state)
    assert drift(found) == []
    assert state.files.layouts[0].layout_id == make_layout("customer").layout_id
    assert recorded_settings(state) is not None


def test_iceberg_names_that_are_swapped_are_drift(config: CatalogConfig, catalog: Catalog) -> None:
    table = laid_out(catalog)
    with table.update_schema() as change:
        change.rename_column("id", "x")
    with table.update_schema() as change:
        change.rename_column("other", "id")
    with table.update_schema() as change:
        change.rename_column("x", "other")
    found = plan(LAYOUT, iceberg.observe(config, NAME, ["id"]))
    assert (found.status, drift(found)) == ("changes", [("zorder.columns", ["other"], ["id"])])


def test_iceberg_files_of_an_older_spec_show_where_their_rows_go(config: CatalogConfig, catalog: Catalog) -> None:
    table = catalog.create_table("db.t", schema=SCHEMA)
    table.append(rows([3, 5]))
    with table.update_spec() as change:
        change.add_field("day", IdentityTransform(), "day")
    state = iceberg.observe_table(load_table(config, NAME), NAME, ["id"])
    assert state.files.bounds["day"].lower.to_pylist() == [3]
    assert state.files.bounds["day"].upper.to_pylist() == [5]
