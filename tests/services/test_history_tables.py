"""Histories in real Delta and Iceberg tables, written without a JVM: several processes, removal, other tables."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from support.projects import Cli
from support.records import make_record, run_at_once

import zlayout
from zlayout.app.history import _store
from zlayout.records.arrow import SCHEMA
from zlayout.records.model import ColumnRecord, Command, HistoryStore, Record

PROJECT = """\
version: 1
catalogs:
  lake: {format: delta, warehouse: ./tables}
  ice: {format: iceberg, type: sql, uri: sqlite:///ice.db, warehouse: ./iceberg}
history: {table: CATALOG.ops.zlayout_history, keep: 10d}
"""
APPEND = """
import sys
from datetime import UTC, datetime
from support.records import make_record
import zlayout
from zlayout.app.history import _store

store = _store(zlayout.load_project("."))
sys.stdin.read(1)  # all begin at once
for number in range(int(sys.argv[2])):
    store.append([make_record(time=datetime.now(UTC), run_id=f"{sys.argv[1]}-{number}")])
"""
PROCESSES, APPENDS = 3, 3
NOW = datetime.now(UTC)


@pytest.fixture(params=["lake", "ice"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A project as the current folder, whose history is a table that does not exist yet."""
    monkeypatch.chdir(tmp_path)
    Path("zlayout.yaml").write_text(PROJECT.replace("CATALOG", request.param))
    ice().create_namespace("db")
    return str(request.param)


def ice() -> SqlCatalog:
    return SqlCatalog("ice", uri=f"sqlite:///{Path.cwd()}/ice.db", warehouse=f"file://{Path.cwd()}/iceberg")


def store() -> HistoryStore:
    found = _store(zlayout.load_project("."))
    assert found is not None
    return found


def rows(catalog: str) -> pa.Table:
    if catalog == "lake":
        return DeltaTable("tables/ops/zlayout_history").to_pyarrow_table()
    loaded = ice()
    try:
        return loaded.load_table(("ops", "zlayout_history")).scan().to_arrow()
    finally:
        loaded.close()


@pytest.mark.usefixtures("catalog")
def test_records_are_read_as_they_were_written_newest_last() -> None:
    columns = (ColumnRecord("a", 12.0, None, 4.5, 4.75), ColumnRecord("b", 1.0))
    records = [
        make_record(time=NOW - timedelta(hours=hours), command=Command.APPLY, columns=columns, run_id=str(hours))
        for hours in (3, 2, 1)
    ]
    assert store().read(["lake.db.t"], 5) == {}
    store().append(records)
    store().append([make_record(time=NOW, table="lake.db.u", columns=(), decay=())])
    found = store().read(["lake.db.t"], 2)
    assert found == {"lake.db.t": records[1:]}


def test_many_processes_append_to_a_new_history_at_once(catalog: str) -> None:
    run_at_once(APPEND, [[str(n), str(APPENDS)] for n in range(PROCESSES)])
    expected = sorted(f"{process}-{number}" for process in range(PROCESSES) for number in range(APPENDS))
    assert sorted(rows(catalog)["run_id"].to_pylist()) == expected


def test_old_records_are_removed_once_they_are_much_too_old(catalog: str) -> None:
    def times(*days: float) -> list[Record]:
        return [make_record(time=NOW - timedelta(days=day), run_id=str(day)) for day in days]

    store().append(times(10.2, 1))  # older than 10 days, but by less than 5%
    assert len(rows(catalog)) == 2
    store().append(times(11, 9))
    assert sorted(rows(catalog)["run_id"].to_pylist()) == ["1", "9"]


def test_another_table_is_neither_written_nor_read(catalog: str) -> None:
    other = pa.table({"x": pa.array([1], pa.int64())})
    if catalog == "lake":
        write_deltalake("tables/ops/zlayout_history", other)
    else:
        loaded = ice()
        loaded.create_namespace("ops")
        loaded.create_table(("ops", "zlayout_history"), other.schema).append(other)
        loaded.close()
    uses: list[Callable[[HistoryStore], object]] = [
        lambda s: s.append([make_record(time=NOW)]),
        lambda s: s.read(["lake.db.t"], 1),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="expected a history of zlayout"):
            use(store())
    assert rows(catalog).equals(other)


def test_commands_fill_the_table_and_history_shows_it(catalog: str, cli: Cli) -> None:
    write_deltalake("tables/db/orders", pa.table({"a": pa.array(range(100), pa.int64())}))
    Path("layouts").mkdir()
    Path("layouts/orders.yaml").write_text("version: 1\ntable: lake.db.orders\nzorder: {columns: [a]}\n")
    cli("plan")
    cli("plan")
    found = json.loads(cli("history", "lake.db.orders", "--json").out)
    assert [(row["command"], row["files"]) for row in found["records"]] == [("plan", 1)] * 2
    assert rows(catalog).schema.names == SCHEMA.names


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("{table: nowhere.ops.h}", "ZL021"),
        ("{table: lake.h}", "ZL051"),
        ("{table: lake.ops.h, path: h.db}", "ZL051"),
        ("{table: 'a b'}", "ZL020"),
    ],
)
def test_the_table_must_be_one_of_a_catalog_of_the_project(
    setting: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("zlayout.yaml").write_text(PROJECT.replace("{table: CATALOG.ops.zlayout_history, keep: 10d}", setting))
    assert f": {code} " in cli("validate", code=1).err
