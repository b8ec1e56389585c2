"""Rollbacks of Iceberg tables without a JVM, of real tables in a SQLite catalog; pyiceberg reads the rows."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from support.rewritten import LIMITS, ROWS, RewrittenTable

from zlayout.cli.main import run
from zlayout.errors import CommitConflict, CommitUnknown, Location, Refused
from zlayout.formats.iceberg.write import rollback
from zlayout.formats.undo import ROLLBACK
from zlayout.spec.model import CatalogConfig


@pytest.fixture
def table(tmp_path: Path) -> RewrittenTable:
    options = {"uri": f"sqlite:///{tmp_path}/ice.db", "warehouse": f"file://{tmp_path}/tables"}
    load_catalog("ice", type="sql", **options).create_namespace("db")
    return RewrittenTable(CatalogConfig("ice", "iceberg", "sql", options, Location("zlayout.yaml")))


def test_the_files_the_records_and_the_limits_of_the_branch_return(table: RewrittenTable) -> None:
    before = table.loaded
    commit = table.roll_back()
    after = table.loaded
    assert (commit.kind, commit.version, commit.files_added) == ("rollback", table.current(), len(table.files))
    assert table.read().equals(table.rows)
    assert table.paths() == table.files
    properties = dict(after.properties)
    (entry,) = json.loads(properties.pop(ROLLBACK))
    assert entry == {"run": "run-1", "rollback": "undo-1", "snapshots": [before.metadata.current_snapshot_id]}
    assert properties == table.properties
    main = json.loads(after.metadata.refs["main"].model_dump_json())
    assert main == {"type": "branch", "snapshot-id": table.current(), **LIMITS}
    unchanged = {"properties", "current_snapshot_id", "refs", "snapshot_log", "metadata_log", "last_updated_ms"}
    now, then = (one.metadata.model_dump(exclude=unchanged) for one in (after, before))
    assert now == then
    with pytest.raises(Refused, match="ZL231"):
        table.undo()


def test_the_command_asks_no_server(
    table: RewrittenTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ", ".join(f"{key}: '{value}'" for key, value in table.catalog.options.items())
    text = f"version: 1\ncatalogs: {{ice: {{format: iceberg, type: sql, {options}}}}}\n"
    (tmp_path / "zlayout.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:1")
    assert run(["rollback", str(table.name), "--auto-approve"]) == 0, capsys.readouterr().err
    assert table.paths() == table.files
    assert run(["rollback", str(table.name), "--auto-approve"]) == 3
    assert "ZL231" in capsys.readouterr().err


Moment = tuple[Any, str]


@pytest.mark.parametrize(
    "moment",
    [(rollback, "_require_current"), (rollback, "_unwritable"), (SqlCatalog, "_write_metadata")],
    ids=["read", "checked", "metadata file written"],
)
@pytest.mark.parametrize("change", ["append", "property"])
def test_a_concurrent_commit_ends_the_rollback_and_stays(
    table: RewrittenTable, moment: Moment, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name = moment
    wrapped = getattr(where, name)

    def during(*given: Any, **named: Any) -> Any:
        monkeypatch.undo()
        found = wrapped(*given, **named)
        table.append(1000) if change == "append" else table.loaded.transaction().set_properties(
            other="x"
        ).commit_transaction()
        return found

    monkeypatch.setattr(where, name, staticmethod(during) if where is SqlCatalog else during)
    with pytest.raises(CommitConflict, match="ZL321"):
        table.roll_back()
    appended = ROWS if change == "append" else 0
    assert len(table.read()) == len(table.rows) + appended
    assert table.loaded.properties.get("other") == (None if appended else "x")
    assert ROLLBACK not in table.loaded.properties


def test_a_rollback_that_keeps_appends_needs_a_jvm(table: RewrittenTable) -> None:
    table.append(1000)
    version = table.current()
    with pytest.raises(Refused, match=r"ZL204 .* that keeps 1 later appends"):
        table.roll_back()
    assert table.current() == version


@pytest.mark.parametrize("type_", ["hive", "glue"])
def test_other_catalogs_need_a_jvm(table: RewrittenTable, type_: str) -> None:
    with pytest.raises(Refused, match=f"ZL204 .* by a catalog of type {type_}"):
        rollback.roll_back_by_catalog(replace(table.catalog, type=type_), table.undo(), "undo-1")


def changed_file(table: RewrittenTable, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the metadata file of the table, as another library may have written it."""
    path = Path(table.loaded.metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda found: found.update({"format-version": 3, "next-row-id": 30}), "format version 3"),
        (lambda found: found.update({"encryption-keys": [{"key-id": "k"}]}), "encryption-keys"),
        (lambda found: found["snapshots"][0].update({"new-key": 1}), "snapshots"),
        (lambda found: found["schemas"][0]["fields"][1].update({"type": "variant"}), "schemas"),
        (lambda found: found["properties"].update({"write.py-location-provider.impl": "os.path"}), "location-provider"),
        (lambda found: found.update({"last-updated-ms": time.time_ns() // 1_000_000 + 60_000}), "clock"),
    ],
    ids=["version 3", "unknown key", "unknown key of a snapshot", "unread type", "class of the table", "clock"],
)
def test_metadata_that_pyiceberg_must_not_write_needs_a_jvm(
    table: RewrittenTable, change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    changed_file(table, change)
    location = table.loaded.metadata_location
    with pytest.raises(Refused, match=f"ZL204 .*{reason}"):
        table.roll_back()
    assert table.loaded.metadata_location == location


def test_metadata_is_not_written_to_a_place_that_the_table_names(table: RewrittenTable) -> None:
    undo = table.undo()
    changed_file(table, lambda found: found["properties"].update({"write.metadata.path": "file:///elsewhere"}))
    with pytest.raises(Refused, match=r"ZL242 .*/elsewhere"):
        table.roll_back(undo)
    with pytest.raises(Refused, match=r"ZL204 .* write.metadata.path"):  # changed after the check
        rollback.roll_back_by_catalog(table.catalog, undo, "undo-1")


def test_a_snapshot_that_has_expired_since_is_a_conflict(table: RewrittenTable) -> None:
    undo = table.undo()
    changed_file(table, lambda found: found.update(snapshots=found["snapshots"][-1:], **{"snapshot-log": []}))
    with pytest.raises(CommitConflict, match="ZL321"):
        rollback.roll_back_by_catalog(table.catalog, undo, "undo-1")


@pytest.mark.parametrize("sent", [True, False])
def test_a_lost_answer_is_settled_by_reading_the_table(
    table: RewrittenTable, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = SqlCatalog.commit_table

    def lost(*given: Any) -> Any:
        if sent:
            commit(*given)
        raise OSError("the answer was lost")

    undo, version = table.undo(), table.current()
    monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    if sent:
        assert table.roll_back(undo).version == undo.before == table.current()
    else:
        with pytest.raises(CommitUnknown, match=r"(?s)ZL331.*zlayout\.rollback"):
            table.roll_back(undo)
        assert table.current() == version
    assert table.read().equals(table.rows)


def test_records_of_a_lost_metadata_file_stay_lost(table: RewrittenTable) -> None:
    for entry in table.loaded.metadata.metadata_log:
        Path(entry.metadata_file.removeprefix("file://")).unlink()
    table.roll_back()
    assert table.read().equals(table.rows)
    assert dict(table.loaded.properties).keys() == {ROLLBACK}
