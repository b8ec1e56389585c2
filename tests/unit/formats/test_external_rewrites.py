"""Who rewrote the files that zlayout laid out: by the histories of real tables, and of other engines' commits."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from support import delta_logs
from support.builders import make_layout, make_spec

from zlayout.formats.base import Capabilities
from zlayout.formats.delta.read.history import external
from zlayout.formats.iceberg.read.history import external_rewrites_of
from zlayout.formats.iceberg.read.observe import observe_table
from zlayout.planner.diff import decide
from zlayout.planner.model import TablePlan
from zlayout.spec.model import LayoutSpec, TableName
from zlayout.table.state import TableState

LAYOUT = make_layout("a", target_size=4_000)
SPEC = make_spec(LAYOUT)
NAME = TableName("lake", ("db",), "t")
SPARK = "Apache-Spark/4.1.0 Delta-Lake/4.1.0"
RUN = {"zlayout.run": "r1", "zlayout.commit": "m1"}


def rows(first: int) -> pa.Table:
    return pa.table({"a": range(first, first + 500), "b": [n * 7919 % 500 for n in range(500)]})


def zlayout_commit(path: Path, **info: Any) -> int:
    """Write the commit of a rewrite by zlayout, which Delta and its readers see as an OPTIMIZE ZORDER BY."""
    table = DeltaTable(path)
    version = table.version() + 1
    log = path / "_delta_log"
    adds = [
        json.loads(line)["add"]
        for name in sorted(log.glob("*.json"))
        for line in name.read_text().splitlines()
        if '"add"' in line
    ]
    live = {Path(uri).name for uri in table.file_uris()}
    settings = json.dumps(LAYOUT.settings())
    tags = {"zlayout.layout_id": LAYOUT.layout_id, "zlayout.group": "r1/0", "zlayout.layout": settings}
    known = {a["path"]: a | {"dataChange": False, "tags": tags} for a in adds if a["path"] in live}
    parameters = {"zOrderBy": '["a"]', "predicate": "[]"}
    commit = {"timestamp": 1_764_000_000_000, "operation": "OPTIMIZE", "operationParameters": parameters, "tags": RUN}
    actions = [{"commitInfo": commit | info}, *({"add": a} for a in known.values())]
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
    return version


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    """A Delta table of four files that zlayout laid out at version 4."""
    for n in range(4):
        write_deltalake(tmp_path / "t", rows(500 * n), mode="append")
    assert zlayout_commit(tmp_path / "t") == 4
    return tmp_path / "t"


def planned(state: TableState, spec: LayoutSpec = SPEC, format: str = "delta") -> TablePlan:
    return decide(spec, state, Capabilities(format, partition_evolution=False, native_by_rank=True)).plan


def messages(plan: TablePlan, code: str = "ZL431") -> list[str]:
    return [d.message for d in plan.diagnostics if d.code == code]


def test_a_table_as_zlayout_left_it_has_no_external_rewrite(delta: Path) -> None:
    state = delta_logs.observe(delta, "a")
    assert (state.rewrites, state.ordering) == ((), None)
    assert messages(planned(state)) == []


def test_z_order_by_delta_rs_is_named(delta: Path) -> None:
    before = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    DeltaTable(delta).optimize.z_order(["b"], target_size=2_000)
    state = delta_logs.observe(delta, "a")
    assert (state.files.layout < 0).all()
    (rewrite,) = state.rewrites
    assert (rewrite.operation, rewrite.version, rewrite.commits) == ("OPTIMIZE (z-order)", 5, 1)
    assert rewrite.engine.startswith("delta-rs")
    assert rewrite.time is not None
    assert rewrite.time >= before
    assert state.ordering is None  # the OPTIMIZE ZORDER BY (a) at version 4 was zlayout's own
    plan = planned(state)
    assert plan.status == "changes"
    assert messages(plan) == [
        "since the last rewrite by zlayout, files were rewritten by OPTIMIZE (z-order) at version 5 "
        f"({rewrite.engine}, {rewrite.time:%Y-%m-%d %H:%M:%S} UTC)"
    ]
    assert messages(plan, "ZL408") == []


@pytest.mark.parametrize(("value", "warned"), [("true", True), ("auto", True), ("false", False), (None, False)])
def test_auto_compaction_is_a_warning_that_says_how_to_disable_it(
    tmp_path: Path, value: str | None, warned: bool
) -> None:
    configuration = {} if value is None else {"delta.autoOptimize.autoCompact": value}
    write_deltalake(tmp_path / "t", rows(0), configuration=configuration)
    found = [d for d in planned(delta_logs.observe(tmp_path / "t", "a")).diagnostics if d.code == "ZL433"]
    assert [d.severity for d in found] == ["warning"] * warned
    assert all("SET TBLPROPERTIES ('delta.autoOptimize.autoCompact' = 'false')" in (d.hint or "") for d in found)


def test_what_happened_before_the_last_rewrite_by_zlayout_is_not_blamed(delta: Path) -> None:
    DeltaTable(delta).optimize.z_order(["b"])
    zlayout_commit(delta)
    write_deltalake(delta, rows(9_000), mode="append")
    assert delta_logs.observe(delta, "a").rewrites == ()


def test_a_table_that_zlayout_never_wrote_was_not_undone(tmp_path: Path) -> None:
    for n in range(4):
        write_deltalake(tmp_path / "t", rows(n), mode="append")
    DeltaTable(tmp_path / "t").optimize.z_order(["b"])
    state = delta_logs.observe(tmp_path / "t", "a")
    assert state.rewrites == ()
    assert messages(planned(state)) == []


def commit(version: int, operation: str, engine: str = "Trino/480", **more: Any) -> dict[str, Any]:
    base = {"version": version, "timestamp": 1_764_000_000_000 + version, "operation": operation, "engineInfo": engine}
    return base | more


def test_operations_of_a_history() -> None:
    found = external(
        [
            commit(20, "WRITE", operationParameters={"mode": "Append"}),
            commit(19, "MERGE"),
            commit(
                18, "OPTIMIZE", "Apache-Spark/4.1.0 Delta-Lake/4.1.0", operationParameters={"zOrderBy": '["b","c"]'}
            ),
            commit(17, "MERGE"),
            commit(16, "WRITE", operationParameters={"mode": "Overwrite"}),
            commit(15, "SET TBLPROPERTIES", tags=RUN),
            commit(14, "RESTORE", timestamp="x"),
            commit(13, "ADD COLUMNS"),
            commit(12, "OPTIMIZE", userMetadata=json.dumps({"zlayout.run": "r"})),
            commit(11, "OPTIMIZE"),
        ]
    )
    assert [(r.operation, r.version, r.commits) for r in found.rewrites] == [
        ("MERGE", 19, 2),
        ("OPTIMIZE ZORDER BY (b, c)", 18, 1),
        ("WRITE (overwrite)", 16, 1),
        ("RESTORE", 14, 1),
    ]
    assert found.rewrites[3].time is None
    assert found.rewrites[1].engine == SPARK
    assert found.known
    assert found.ordering.columns == ("b", "c")
    assert external([commit(3, "OPTIMIZE", tags=RUN, operationParameters={"zOrderBy": '["a"]'})]).ordering is None


@pytest.mark.parametrize(
    ("change", "operation"),
    [
        (lambda table: table.restore(3), "RESTORE"),
        (lambda table: table.update({"b": "b + 1"}), "UPDATE"),
    ],
)
def test_what_changes_or_restores_rows_is_no_competing_maintenance(
    delta: Path, change: Callable[[DeltaTable], object], operation: str
) -> None:
    change(DeltaTable(delta))
    write_deltalake(delta, rows(9_000), mode="append")
    (note,) = (d for d in planned(delta_logs.observe(delta, "a")).diagnostics if d.code == "ZL431")
    assert f"by {operation} at version 5" in note.message
    assert "maintenance" not in note.hint
    DeltaTable(delta).optimize.z_order(["b"])
    (note,) = (d for d in planned(delta_logs.observe(delta, "a")).diagnostics if d.code == "ZL431")
    assert "disable this maintenance" in note.hint


def test_a_hostile_history_stays_short() -> None:
    found = external([commit(1, "OPTIMIZE" + "x" * 10_000, "e" * 10_000), commit(0, "WRITE", tags=RUN)])
    assert max(len(found.rewrites[0].operation), len(found.rewrites[0].engine)) <= 100


@pytest.mark.parametrize(
    ("properties", "engine"),
    [
        ({"engine-name": "spark", "engine-version": "4.1.0"}, "spark 4.1.0"),
        ({"trino_query_id": "2026"}, "Trino"),
        ({}, ""),
    ],
)
def test_an_iceberg_rewrite_is_named(tmp_path: Path, properties: dict[str, str], engine: str) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", rows(0).schema)
    table.append(rows(0), snapshot_properties={"zlayout.run": "r", "zlayout.layout_id": LAYOUT.layout_id})
    assert observe_table(table, NAME, ["a"]).rewrites == ()
    # pyiceberg has no rewrite of data files; an overwrite by other rows has the same effect on the files
    for n in range(3):
        table.overwrite(rows(0), snapshot_properties=properties) if n == 0 else table.append(rows(n))
    state = observe_table(catalog.load_table("db.t"), NAME, ["a"])
    (rewrite,) = state.rewrites
    assert rewrite.engine == engine
    assert rewrite.operation in ("overwrite", "delete")
    assert rewrite.version in {s.snapshot_id for s in table.metadata.snapshots}
    (message,) = messages(planned(state, format="iceberg"))
    assert f"{rewrite.operation} at version {rewrite.version} ({engine or 'unknown engine'}, 20" in message


@pytest.mark.parametrize(("location", "warned"), [("s3://1f--table-s3", True), ("s3://my--table-s3-a/t", False)])
def test_the_compaction_of_s3_tables_is_a_warning(tmp_path: Path, location: str, warned: bool) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", rows(0).schema)
    table.metadata = table.metadata.model_copy(update={"location": location})
    found = [note for note in observe_table(table, NAME, ["a"]).maintainers if note.code == "ZL433"]
    assert [note.severity for note in found] == ["warning"] * warned
    assert all("aws s3tables put-table-maintenance-configuration" in note.hint for note in found)


def test_what_was_rewritten_before_a_branch_of_zlayout_is_no_rewrite_of_main(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", rows(0).schema)
    table.append(rows(0))
    first = table.current_snapshot()
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    table.append(rows(9), snapshot_properties={"zlayout.layout_id": LAYOUT.layout_id}, branch="audit")
    table.overwrite(rows(1), branch="audit")
    table.overwrite(rows(2))
    table = catalog.load_table("db.t")
    assert observe_table(table, NAME, ["a"]).rewrites == ()
    assert len(observe_table(table, NAME.on("audit"), ["a"]).rewrites) == 1


def snapshot(number: int, operation: Operation, deleted: int = 0, **summary: str) -> Snapshot:
    properties = {"deleted-data-files": str(deleted)} | summary
    return Snapshot(
        snapshot_id=number,
        parent_snapshot_id=number - 1,
        manifest_list="",
        timestamp_ms=1_764_000_000_000 + number,
        summary=Summary(operation, **properties),
    )


def test_a_rewrite_of_data_files_is_one_and_a_rewrite_of_manifests_is_not() -> None:
    spark = {"engine-name": "spark", "engine-version": "4.1.0"}
    snapshots = [
        snapshot(1, Operation.REPLACE, 5, **{"zlayout.run": "r", "zlayout.layout_id": "x"}),
        snapshot(2, Operation.REPLACE, 5, **spark),
        snapshot(3, Operation.REPLACE, 0, **spark),
        snapshot(4, Operation.APPEND, 0),
        snapshot(5, Operation.REPLACE, 7, **spark),
    ]
    metadata: Any = SimpleNamespace(snapshots=snapshots)
    (found,) = external_rewrites_of(metadata, snapshots[-1], frozenset(), known=True)
    assert (found.operation, found.version, found.commits) == ("replace (a rewrite of data files)", 5, 2)
    (found,) = external_rewrites_of(metadata, snapshots[-1], frozenset({2}), known=True)  # 2 is in the layout records
    assert (found.version, found.commits) == (5, 1)
    expired: Any = SimpleNamespace(snapshots=snapshots[3:])
    assert len(external_rewrites_of(expired, snapshots[-1], frozenset(), known=True)) == 1
    assert external_rewrites_of(expired, snapshots[-1], frozenset(), known=False) == ()
