"""Opens SQLite files that others may have written, such as one in a checkout or in the cache of a CI service.

SQLite runs what a file contains: a view or a trigger is evaluated when its table is used, and a journal beside the file
can name another file, which SQLite deletes. (It is the super-journal of a commit to several files:
https://www.sqlite.org/fileformat2.html#the_rollback_journal.) https://www.sqlite.org/security.html lists the settings
for such files. A query that takes too long ends, also after a signal.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from zlayout.process import Deferral
from zlayout.reading import require_usable_path

MAX_SECONDS = 30.0  # of one use of a file, without the time to wait for other processes
_MAX_OBJECTS = 100  # of a table: itself, its indexes and triggers
_INSTRUCTIONS = 20_000  # of SQLite, between two checks: a few milliseconds
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")  # the end of a journal that names a super-journal
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1 << 20,  # bytes of a value, and of a row
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 8,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 50,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class SchemaObject(NamedTuple):
    """A table, index, view or trigger of a database. Tables and indexes that SQLite itself makes have no SQL."""

    type: str
    name: str
    table: str
    sql: str


class Database(NamedTuple):
    """An open SQLite file.

    Attributes:
        connection: The connection, which commits each statement.
        deferral: Holds back signals until the file is closed.
    """

    connection: sqlite3.Connection
    deferral: Deferral


@contextmanager
def open_database(path: Path, wait: float, *, writes: bool) -> Iterator[Database]:
    """Open a SQLite file, which is created if it does not exist.

    Args:
        path: The file.
        wait: The time to wait for other processes that write, in seconds.
        writes: Whether the block writes to the database.

    Raises:
        ValueError: `require_plain` does not accept the file.
        OSError: The file cannot be examined.
        sqlite3.Error: The file is not a database, or a statement takes longer than MAX_SECONDS.
    """
    require_plain(path)
    until = time.monotonic() + wait + MAX_SECONDS
    with Deferral() as deferral:
        connection = sqlite3.connect(path, timeout=wait, isolation_level=None)
        try:
            for limit, value in _LIMITS.items():
                connection.setlimit(limit, value)
            # An exception in this function would be lost, and a signal handler that raised one would run in it.
            connection.set_progress_handler(lambda: deferral.received or time.monotonic() > until, _INSTRUCTIONS)
            settings = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", f"query_only = {not writes}")
            for setting in settings:
                connection.execute(f"PRAGMA {setting}")
            yield Database(connection, deferral)
        finally:
            connection.close()


def require_plain(path: Path) -> None:
    """Check a SQLite file and its journals before SQLite opens them.

    Raises:
        ValueError: One of them is not a file, or its journal names another file, which SQLite would delete.
        OSError: They cannot be examined.
    """
    require_usable_path(path)
    for ending in ("", "-journal", "-wal", "-shm"):
        file = path.with_name(path.name + ending)
        try:
            found = file.stat() if not ending else os.lstat(file)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"expected a file at {file}, found a link, a folder or a device")
        if ending == "-journal" and _names_a_file(file):
            raise ValueError(f"the journal {file} names another file, which SQLite would delete")


def _names_a_file(journal: Path) -> bool:
    try:
        with journal.open("rb") as file:
            file.seek(-len(_JOURNAL_MAGIC), os.SEEK_END)
            return file.read() == _JOURNAL_MAGIC
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):  # shorter, or another process has ended its transaction
            return False
        raise


def schema(connection: sqlite3.Connection) -> list[SchemaObject]:
    """Return the tables, indexes, views and triggers of a database, at most _MAX_OBJECTS of them."""
    return _objects(connection, "")


def require_tables(path: Path, names: Sequence[str]) -> None:
    """Check that those objects of a database that have these names are plain tables, which run nothing when used.

    Args:
        path: The SQLite file.
        names: The names in lower case.

    Raises:
        ValueError: One of them is a view or a virtual table, or has triggers or generated columns; also as
            `require_plain`.
        OSError, sqlite3.Error: As `open_database`.
    """
    with open_database(path, MAX_SECONDS, writes=False) as (connection, _):
        for found in _objects(connection, f"WHERE lower(tbl_name) IN ({', '.join('?' * len(names))})", names):
            if found.type == "index":
                continue
            if found.type != "table" or not found.sql.upper().startswith("CREATE TABLE"):
                kind = found.type if found.type != "table" else "virtual table"
                raise ValueError(f"expected a table {found.table}, found the {kind} {found.name}")
            hidden = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden <> 0 LIMIT 1"
            if (column := connection.execute(hidden, (found.name,)).fetchone()) is not None:
                raise ValueError(f"expected a table {found.table}, found one with a generated column {column[0]}")


def _objects(connection: sqlite3.Connection, where: str, values: Sequence[str] = ()) -> list[SchemaObject]:
    statement = f"SELECT type, name, tbl_name, sql FROM sqlite_master {where} LIMIT {_MAX_OBJECTS}"
    return [SchemaObject(*(str(value or "") for value in row)) for row in connection.execute(statement, values)]
