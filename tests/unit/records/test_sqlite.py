"""The history in a SQLite file: what is kept, several processes at once, and files of other programs."""

import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.records import make_record, run_at_once

from zlayout.history_records import ColumnRecord, Command, RecordState, SqliteStore

PROCESSES, APPENDS = 6, 15
APPEND = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from support.records import make_record
from zlayout.history_records import SqliteStore

store = SqliteStore(Path(sys.argv[1]), 400)
sys.stdin.read(1)  # all begin at once
for number in range(int(sys.argv[3])):
    store.append([make_record(time=datetime.now(UTC), run_id=f"{sys.argv[2]}-{number}", table=t) for t in ("a", "b")])
"""
NOW = datetime.now(UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "history.db"


def test_records_are_read_as_they_were_written(path: Path) -> None:
    column = ColumnRecord("a", 12.0, None, 4.5, 4.75)
    record = make_record(
        time=NOW.replace(microsecond=250_000), command=Command.APPLY, state=RecordState.DRIFT, columns=(column,)
    )
    store = SqliteStore(path, 400)
    store.append([record])
    assert store.read(["lake.db.t", "lake.db.u"], 5) == {"lake.db.t": [record]}


def test_the_newest_records_are_returned_oldest_first(path: Path) -> None:
    store = SqliteStore(path, 400)
    records = [make_record(time=NOW - timedelta(hours=hours), run_id=str(hours)) for hours in (3, 1, 2)]
    store.append(records)
    assert [record.run_id for record in store.read(["lake.db.t"], 2)["lake.db.t"]] == ["2", "1"]


def test_records_older_than_the_limit_are_removed(path: Path) -> None:
    store = SqliteStore(path, 10)
    store.append([make_record(time=NOW - timedelta(days=days), run_id=str(days)) for days in (11, 9)])
    assert [record.run_id for record in store.read(["lake.db.t"], 9)["lake.db.t"]] == ["9"]


def test_a_history_that_does_not_exist_yet_is_empty_and_not_created(path: Path) -> None:
    assert SqliteStore(path, 10).read(["lake.db.t"], 9) == {}
    assert not path.exists()


def test_many_processes_append_to_a_new_history_at_once(path: Path) -> None:
    run_at_once(APPEND, [[str(path), str(n), str(APPENDS)] for n in range(PROCESSES)])
    found = SqliteStore(path, 400).read(["a", "b"], 10_000)
    expected = {f"{process}-{number}" for process in range(PROCESSES) for number in range(APPENDS)}
    for records in found.values():
        assert {record.run_id for record in records} == expected
        assert len(records) == len(expected)


def test_a_writer_waits_for_another_and_gives_up_after_its_limit(path: Path) -> None:
    SqliteStore(path, 400).append([make_record(time=NOW)])
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        SqliteStore(path, 400, max_wait=0.2).append([make_record(time=NOW)])
    release = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    release.start()
    SqliteStore(path, 400, max_wait=20).append([make_record(time=NOW)])
    release.join()
    assert len(SqliteStore(path, 400).read(["lake.db.t"], 9)["lake.db.t"]) == 2
    other.close()


def test_a_failed_append_leaves_nothing_behind(path: Path) -> None:
    store = SqliteStore(path, 400)
    store.append([make_record(time=NOW)])
    broken = replace(make_record(time=NOW), files=None)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.IntegrityError):
        store.append([make_record(time=NOW), broken])
    assert len(store.read(["lake.db.t"], 9)["lake.db.t"]) == 1


@pytest.mark.parametrize("statement", ["CREATE TABLE records (x)", "PRAGMA user_version = 1"])
def test_the_database_of_another_program_is_neither_written_nor_read(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute(statement)
    other.close()
    before = path.read_bytes()[100:]
    for use in (lambda s: s.append([make_record(time=NOW)]), lambda s: s.read(["lake.db.t"], 1)):
        with pytest.raises(ValueError, match="another database"):
            use(SqliteStore(path, 400))
    assert path.read_bytes()[100:] == before


def test_a_history_of_a_newer_version_is_neither_written_nor_read(path: Path) -> None:
    SqliteStore(path, 400).append([make_record(time=NOW)])
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 2")
    newer.close()
    for use in (lambda s: s.append([make_record(time=NOW)]), lambda s: s.read(["lake.db.t"], 1)):
        with pytest.raises(ValueError, match="expected record version 1, found 2"):
            use(SqliteStore(path, 400))
