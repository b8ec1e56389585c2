"""The history in a SQLite file. Several processes may append at the same time."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from zlayout.records.model import RECORD_VERSION, Record
from zlayout.sqlite_files import Database, open_database, schema

# Identifies the file as a history of zlayout: "ZLAY" in ASCII.
APPLICATION_ID = 0x5A4C4159
# The time to wait for other processes that write, in seconds.
MAX_WAIT = 10.0
_COLUMNS = (
    "time", "run_id", "command", "table_name", "layout_id", "state",
    "files", "bytes", "rewrite_bytes", "columns", "decay",
)  # fmt: skip
_CREATE = (
    """CREATE TABLE records (
        id INTEGER PRIMARY KEY, time TEXT NOT NULL, run_id TEXT NOT NULL, command TEXT NOT NULL,
        table_name TEXT NOT NULL, layout_id TEXT NOT NULL, state TEXT NOT NULL, files INTEGER NOT NULL,
        bytes INTEGER NOT NULL, rewrite_bytes INTEGER NOT NULL, columns TEXT NOT NULL, decay TEXT NOT NULL)""",
    "CREATE INDEX records_of_table ON records (table_name, time)",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {RECORD_VERSION}",
)
_INSERT = f"INSERT INTO records ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_NEWEST = f"SELECT {', '.join(_COLUMNS)} FROM records WHERE table_name = ? ORDER BY time DESC, id DESC LIMIT ?"


class SqliteStore:
    """A history in one file. Its methods raise any exception if the file cannot be read or written."""

    def __init__(self, path: Path, keep_days: int, max_wait: float = MAX_WAIT) -> None:
        self._path, self._keep_days, self._max_wait = path, keep_days, max_wait

    def append(self, records: Sequence[Record]) -> None:
        """Add records, and remove those that are too old."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        oldest = _text(datetime.now(UTC) - timedelta(days=self._keep_days))
        with open_database(self._path, self._max_wait, writes=True) as opened, self._writing(opened):
            database = opened.connection
            if not _version(database):
                for statement in _CREATE:
                    database.execute(statement)
            database.executemany(_INSERT, map(_row, records))
            database.execute("DELETE FROM records WHERE time < ?", (oldest,))

    def read(self, tables: Iterable[str], limit: int) -> dict[str, list[Record]]:
        """Return the newest records of each table, at most `limit` per table, oldest first.

        A history that does not exist yet has no records.
        """
        if not self._path.exists():
            return {}
        with open_database(self._path, self._max_wait, writes=False) as (database, _):
            if not _version(database):
                return {}
            rows = ((table, database.execute(_NEWEST, (table, limit)).fetchall()) for table in tables)
            return {table: [_record(row) for row in reversed(newest)] for table, newest in rows if newest}

    @contextmanager
    def _writing(self, opened: Database) -> Iterator[None]:
        database, until = opened.connection, time.monotonic() + self._max_wait
        # SQLite does not wait for other writers when it changes the journal mode, so the statement is repeated.
        while True:
            opened.deferral.check()
            try:
                database.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.02)
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")


def _version(database: sqlite3.Connection) -> int:
    (owner,), (version,) = (
        database.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    objects = schema(database)
    if not (owner or version or objects):
        return 0
    if owner != APPLICATION_ID:
        raise ValueError("expected a history of zlayout, found another database")
    if version != RECORD_VERSION:
        raise ValueError(f"expected record version {RECORD_VERSION}, found {version}")
    if {" ".join(found.sql.split()) for found in objects} != {" ".join(sql.split()) for sql in _CREATE[:2]}:
        raise ValueError("expected the table of a history of zlayout, found other tables, views or triggers")
    return int(version)


def _text(time: datetime) -> str:
    """Return a time as text in UTC. The alphabetical order of such texts is the order of the times."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def _row(record: Record) -> tuple[Any, ...]:
    row = record.row() | {"time": _text(record.time), "table_name": record.table}
    lists = {name: json.dumps(row[name], separators=(",", ":"), allow_nan=False) for name in ("columns", "decay")}
    return tuple((row | lists)[name] for name in _COLUMNS)


def _record(row: Sequence[Any]) -> Record:
    values = dict(zip(_COLUMNS, row, strict=True))
    lists = {name: json.loads(values[name]) for name in ("columns", "decay")}
    time = datetime.fromisoformat(values["time"])
    table = values.pop("table_name")
    return Record.of_row({"record_version": RECORD_VERSION, **values, **lists, "time": time, "table": table})
