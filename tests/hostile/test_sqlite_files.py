"""SQLite files from a checkout or a cache: they run nothing, end, and delete no other file."""

import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile.asking import ask
from pyiceberg.catalog.sql import SqlCatalog
from support.records import make_record

from zlayout.history_records import SqliteStore

HISTORY = "history: {}\n"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
COLUMNS = (
    "time", "run_id", "command", "table_name", "layout_id", "state", "files", "bytes", "rewrite_bytes", "columns",
    "decay",
)  # fmt: skip
VIEW = "CREATE VIEW records AS " + ENDLESS.format("i AS id, " + ", ".join(f"i AS {name}" for name in COLUMNS))
MAGIC = bytes.fromhex("d9d505f920a163d7")


def journal_that_names(file: Path, database: Path) -> bytes:
    """A journal of a commit to several files. SQLite ends such a commit by deleting the named file."""
    name = str(file).encode()
    begin = MAGIC + struct.pack(">5I", 0, 0, database.stat().st_size // 4096, 512, 4096)
    return begin.ljust(512, b"\0") + struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(
        ">II", len(name), sum(name)
    ) + MAGIC  # fmt: skip


@pytest.fixture
def history(project: Path) -> Path:
    """The history file of the project in the current folder, with one record."""
    (project / "zlayout.yaml").write_text((project / "zlayout.yaml").read_text() + HISTORY)
    path = project / ".zlayout" / "history.db"
    SqliteStore(path, 400).append([make_record(table="lake.db.orders")])
    return path


def changed(path: Path, *statements: str) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.close()


OTHER_SCHEMAS: dict[str, tuple[str, ...]] = {
    "an endless view": ("DROP TABLE records", VIEW),
    "a trigger": ("CREATE TRIGGER t AFTER INSERT ON records BEGIN SELECT (" + ENDLESS.format("max(i)") + "); END",),
    "a trigger on a deletion": ("CREATE TRIGGER t BEFORE DELETE ON records BEGIN DELETE FROM records; END",),
    "a virtual table": ("DROP TABLE records", f"CREATE VIRTUAL TABLE records USING fts5({', '.join(COLUMNS)})"),
    "a generated column": (
        "DROP TABLE records",
        f"CREATE TABLE records (id INTEGER PRIMARY KEY, {', '.join(COLUMNS)}, x AS (hex(zeroblob(4000000))))",
    ),
    "an index on an expression": ("CREATE INDEX x ON records (hex(zeroblob(4000000)))",),
    "another table": ("CREATE TABLE other (a)",),
}


@pytest.mark.parametrize("kind", OTHER_SCHEMAS)
def test_a_history_with_another_schema_is_neither_read_nor_written(kind: str, history: Path) -> None:
    changed(history, *OTHER_SCHEMAS[kind])
    begun = time.monotonic()
    answer = ask("history", "lake.db.orders")
    assert answer.code == 1
    assert "ZL106" in answer.err
    assert "other tables, views or triggers" in answer.err
    before = history.read_bytes()[100:]
    assert "ZL450" in ask("plan").err
    assert history.read_bytes()[100:] == before
    assert time.monotonic() - begun < 60


RUN = "import sys; from zlayout.cli.main import main; main(sys.argv[1:])"
LONG = """
import sqlite3, sys
from pathlib import Path
from zlayout import sqlite_files
from zlayout.process import interrupting, exit_code

sqlite_files.MAX_SECONDS = float(sys.argv[2])
try:
    with interrupting(), sqlite_files.open_database(Path(sys.argv[1]), 0, writes=False) as (database, _):
        print("begins", flush=True)
        database.execute(sys.argv[3]).fetchone()
except KeyboardInterrupt as error:
    sys.exit(exit_code(error.number))
except sqlite3.OperationalError as error:
    print(error, flush=True)
    sys.exit(7)
"""


@pytest.mark.parametrize(("seconds", "code"), [("1", 7), ("300", 143)])
def test_an_endless_query_ends_after_a_limit_and_after_a_signal(history: Path, seconds: str, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LONG, str(history), seconds, ENDLESS.format("max(i)")], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begins\n"
        if code == 143:
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == code


def test_a_process_that_reads_an_endless_view_ends_at_once(history: Path) -> None:
    changed(history, *OTHER_SCHEMAS["an endless view"])
    done = subprocess.run(
        [sys.executable, "-c", RUN, "history", "lake.db.orders"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "ZL106" in done.stderr) == (1, True)


@pytest.fixture
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file that is still there in the end."""
    path = tmp_path_factory.mktemp("home") / "authorized_keys"
    path.write_text("ssh-ed25519 AAAA\n" * 9)
    yield path
    assert path.read_text() == "ssh-ed25519 AAAA\n" * 9


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
@pytest.mark.parametrize("command", [["history", "lake.db.orders"], ["plan"], ["drift"]], ids=lambda c: c[0])
def test_a_journal_deletes_no_other_file(history: Path, victim: Path, command: list[str], mode: str) -> None:
    changed(history, f"PRAGMA journal_mode = {mode}")
    Path(f"{history}-journal").write_bytes(journal_that_names(victim, history))
    answer = ask(*command)
    assert ("ZL106" if command[0] == "history" else "ZL450") in answer.err
    assert "names another file" in " ".join(answer.err.split())


def test_the_journal_of_a_killed_process_is_used(history: Path) -> None:
    changed(history, "PRAGMA journal_mode = DELETE")
    before = history.read_bytes()
    writer = sqlite3.connect(history, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM records")
    journal = Path(f"{history}-journal").read_bytes()
    writer.execute("COMMIT")
    after = history.read_bytes()
    writer.close()
    assert before != after
    if journal[:8] == MAGIC:
        Path(f"{history}-journal").write_bytes(journal)
    assert ask("history", "lake.db.orders").code == 0


def _special(path: Path) -> dict[str, Callable[[], None]]:
    return {"a pipe": lambda: os.mkfifo(path), "a folder": path.mkdir, "a link": lambda: path.symlink_to("/dev/zero")}


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a link"])
@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_journals_that_are_no_files(history: Path, ending: str, kind: str) -> None:
    _special(Path(f"{history}{ending}"))[kind]()
    assert "ZL106" in ask("history", "lake.db.orders").err


CATALOG = """
  ice: {format: iceberg, type: sql, uri: "sqlite:///catalog.db", warehouse: ./warehouse}
"""


@pytest.fixture
def catalog(project: Path) -> Path:
    """The SQLite file of an Iceberg catalog in the project of the current folder."""
    text = (project / "zlayout.yaml").read_text()
    (project / "zlayout.yaml").write_text(text + CATALOG.lstrip("\n"))
    path = project / "catalog.db"
    made = SqlCatalog("ice", uri=f"sqlite:///{path}", warehouse=str(project / "warehouse"))
    made.create_namespace("db")
    made.engine.dispose()
    return path


TABLES = "catalog_name, table_namespace, table_name, metadata_location, previous_metadata_location"
CATALOG_SCHEMAS: dict[str, tuple[str, ...]] = {
    "an endless view": (
        "DROP TABLE iceberg_tables",
        "CREATE VIEW iceberg_tables AS " + ENDLESS.format(", ".join(f"i AS {c}" for c in TABLES.split(", "))),
    ),
    "an endless view of namespaces": (
        "DROP TABLE iceberg_namespace_properties",
        "CREATE VIEW Iceberg_Namespace_Properties AS "
        + ENDLESS.format("i AS catalog_name, i AS namespace, i AS property_key, i AS property_value"),
    ),
    "a trigger": ("CREATE TRIGGER t AFTER UPDATE ON iceberg_tables BEGIN DELETE FROM iceberg_tables; END",),
    "a virtual table": ("DROP TABLE iceberg_tables", f"CREATE VIRTUAL TABLE iceberg_tables USING fts5({TABLES})"),
    "a generated column": (
        "DROP TABLE iceberg_tables",
        f"CREATE TABLE iceberg_tables ({TABLES}, iceberg_type AS (hex(zeroblob(4000000))))",
    ),
}


@pytest.mark.parametrize("kind", CATALOG_SCHEMAS)
def test_a_catalog_with_another_schema_is_not_used(kind: str, catalog: Path) -> None:
    changed(catalog, *CATALOG_SCHEMAS[kind])
    for command in (["inspect", "ice.db.t"], ["import", "ice.db.*", "--columns", "a"]):
        answer = ask(*command)
        assert answer.code == 1
        assert "ZL121 the database of catalog ice is not used: expected a table" in " ".join(answer.err.split())


def test_a_catalog_of_iceberg_is_used(catalog: Path) -> None:
    changed(catalog, "CREATE TABLE another (a, b AS (a + 1))", "CREATE INDEX i ON iceberg_tables (table_name)")
    assert "ZL122" in ask("inspect", "ice.db.t").err


def test_the_journal_of_a_catalog_deletes_no_other_file(catalog: Path, victim: Path) -> None:
    Path(f"{catalog}-journal").write_bytes(journal_that_names(victim, catalog))
    assert "names another file" in " ".join(ask("inspect", "ice.db.t").err.split())
