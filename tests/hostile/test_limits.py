"""Small files and responses that would become very large: each reader of untrusted bytes has a limit."""

import ast
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from deltalake import DeltaTable
from support.servers import CREDENTIALS, serving
from support.sources import PACKAGE, SOURCES, nodes

from zlayout import reading
from zlayout.errors import Location, TableError
from zlayout.formats.delta import names as hive
from zlayout.formats.delta import names as unity
from zlayout.formats.delta.names import Hive, Names, Unity
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.reading import TooLargeError
from zlayout.spec.model import CatalogConfig, TableName

MEGABYTES = 700  # above what the libraries take by themselves
# Each module that reads bytes of others, what it reads, its limit, and the test of the limit.
READERS = {
    "spec/yaml.py": ("YAML", "MAX_BYTES", "test_corpus.py::test_large_layouts"),
    "planner/document.py": ("plan files", "MAX_BYTES", "test_corpus.py::test_large_plan_files"),
    "session/import_.py": ("manifests of dbt", "MAX_METADATA_BYTES", ""),
    "workload/event_log.py": (
        "event logs, also compressed",
        "MAX_RATIO, MAX_LINE_BYTES, MAX_BLOCK_BYTES",
        "test_packed_workloads",
    ),
    "workload/files.py": ("SQL and CSV", "MAX_BYTES", "test_workloads.py::test_large_and_broken_files"),
    "workload/histories.py": ("query histories, also gzip", "MAX_UNPACKED_BYTES", "test_packed_workloads"),
    "sqlite_files.py": ("SQLite", "_LIMITS, MAX_SECONDS", "test_sqlite_files.py"),
    "formats/delta/read/log.py": (
        "commits, checkpoints, also through deltalake, and copies; data files",
        "MIN_ROWS, MAX_RATIO, as row_groups.py",
        "test_checkpoints, test_row_groups",
    ),
    "formats/delta/read/observe.py": (
        "logs; footers of data files",
        "as log.py, the limits of Arrow for Thrift",
        "test_checkpoints",
    ),
    "formats/delta/names.py": (
        "listings of folders; responses",
        "MAX_RESPONSE_BYTES, MAX_PAGES",
        "test_unity_catalog, test_glue, test_a_metastore_that_sends_without_end",
    ),
    "formats/delta/backend.py": ("logs through deltalake", "as log.py", "test_checkpoints"),
    "formats/row_groups.py": ("row groups of data files", "MAX_ROWS_PER_GROUP", "test_row_groups"),
    "formats/delta/write/commit.py": ("footers of files that this run has written", "", ""),
    "formats/access.py": (
        "the identity of the run, and responses of AWS, which botocore does not decompress",
        "MAX_METADATA_BYTES",
        "test_glue",
    ),
    "session/workloads.py": (
        "exports of tables: CSV, and columns of Parquet files",
        "MAX_BYTES, MAX_ROWS, MAX_STRING_BYTES",
        "test_exports",
    ),
    "reading.py": ("itself", "", ""),
    "session/revisions.py": (
        "objects of Git: YAML, links and the names of files; workload files, of which it computes sums",
        "MAX_BYTES, MAX_LINK_BYTES, MAX_OUTPUT_BYTES, MAX_TEXT_BYTES",
        "test_git.py::test_large_objects_are_not_read",
    ),
    "session/init.py": ("files of the package", "", ""),
    "session/doctor.py": ("spark-defaults.conf of the user; it opens a connection and closes it", "", ""),
    "table/samples.py": ("footers of what it has encoded itself", "", ""),
    "session/advise.py": ("a layout that was read as YAML before", "", ""),
    "spec/check.py": ("files of the package", "", ""),
    "spec/allowed.py": ("files of the package", "", ""),
    "__init__.py": ("files of the package", "", ""),
    "advisor/reports.py": ("files of the package", "", ""),
    "report/html.py": ("files of the package", "", ""),
    "spark/jars.py": (
        "jars.json of the package, and jars, of which it computes sums; the cache folder of the user",
        "MAX_JAR_BYTES",
        "",
    ),
    "spark/session.py": ("files of the operator", "", ""),
    "spark/jvm.py": ("files of the package", "", ""),
    "formats/delta/write/jvm.py": ("the identity of the run, from AWS", "", ""),
}
READING = {
    "open_input_file", "open_input_stream", "ParquetFile", "read_metadata", "GzipFile", "DeltaTable",
    "open_file", "read_at_most", "read_bytes", "read_text", "create_connection", "urlopen", "from_uri", "LogFiles",
}  # fmt: skip
ENTRY = """
import re, sys
from zlayout.cli.main import run
code = run(sys.argv[1:])
print("PEAK", int(re.search(r"VmHWM:\\\\s+(\\\\d+)", open("/proc/self/status").read())[1]) // 1024, file=sys.stderr)
sys.exit(code)
""".replace("\\\\", "\\")


def alone(folder: Path, *arguments: str, code: int = 1) -> str:
    """What zlayout says in a process of its own, which may use only so much memory and time."""
    command = f'ulimit -v 6000000; exec \'{sys.executable}\' -c "$0" "$@"'
    done = subprocess.run(
        ["bash", "-c", command, ENTRY, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    assert int(done.stderr.split()[-1]) < MEGABYTES, done.stderr[-2000:]
    return " ".join((done.stdout + done.stderr).split())


def test_every_reader_has_a_limit_or_a_reason() -> None:
    """A new module that reads files or responses fails this test. Iceberg has its own: test_iceberg_servers.py."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in SOURCES
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in READING
    }
    assert {name for name in found if not name.startswith("formats/iceberg/")} - set(READERS) == set()
    assert all((PACKAGE / name).exists() for name in READERS)
    for what, limit, test in READERS.values():
        assert what
        for one in test.split(", "):
            name = one.rpartition("::")[2]
            files = [Path(__file__).with_name(one.partition("::")[0])] if ".py" in one else [Path(__file__)]
            assert not one or not limit or files[0].exists()
            assert name.endswith(".py") or not name or f"def {name}(" in files[0].read_text()


EVENT = b'{"Event":"SparkListenerLogStart","Spark Version":"4.0.1"}\n'
PACKED = {
    "events.gz": (EVENT, (b"x" * 999_999 + b"\n"), 150),
    "long_line.gz": (EVENT, b"x" * 1_000_000, 150),
    "events.zstd": (EVENT, (b"x" * 999_999 + b"\n"), 150),
    "document.json.gz": (b"[", b"[]," * 333_333, 150),
    "lines.json.gz": (b'{"query": "q"}\n', b"\n" * 1_000_000, 150),
    "history.csv.gz": (b"query_text,start_time,execution_status\n", b",,\n" * 333_333, 150),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_workloads(name: str, project: Path) -> None:
    first, part, times = PACKED[name]
    packed: Callable[..., BinaryIO] = zstandard.open if name.endswith(".zstd") else gzip.open
    with packed(project / name, "wb") as file:
        file.write(first)
        for _ in range(times):
            file.write(part)
    assert (project / name).stat().st_size < 1_000_000
    assert "ZL070" in alone(project, "workload", "import", name)


@pytest.mark.parametrize(
    "content", [b'{"a": 1}\n' + b"\n" * 20_000_000, b"[" + b"[]," * 9_000_000 + b"[]]"], ids=["lines", "values"]
)
def test_query_histories_of_many_lines_and_values(content: bytes, project: Path) -> None:
    (project / "history.json").write_bytes(content)
    assert "ZL079" in alone(project, "workload", "import", "history.json")


def packed_checkpoint(table: Path, rows: int, add: dict[str, object]) -> None:
    """Replace the checkpoint of a table with one in which an add action is repeated."""
    DeltaTable(str(table)).create_checkpoint()
    (path,) = (table / "_delta_log").glob("*.checkpoint.parquet")
    actions = pq.read_table(path)
    position = next(n for n, action in enumerate(actions["add"].to_pylist()) if action)
    changed = actions["add"][position].as_py() | add
    column = pa.array([changed], actions.schema.field("add").type)
    (index,) = (n for n, name in enumerate(actions.schema.names) if name == "add")
    one = actions.slice(position, 1).set_column(index, actions.schema.field("add"), column)
    block = pa.concat_tables([one] * min(rows, 1000)).combine_chunks()
    with pq.ParquetWriter(path, actions.schema, compression="zstd") as writer:
        writer.write_table(actions)
        for _ in range(max(rows // 1_000_000, 1)):
            writer.write_table(pa.concat_tables([block] * min(rows, 1000)), row_group_size=1_000_000)
    assert path.stat().st_size < 4_000_000


CHECKPOINTS: dict[str, tuple[int, dict[str, object]]] = {
    "rows": (5_000_000, {}),
    "bytes": (1, {"stats": json.dumps({"numRecords": 1, "minValues": {"b": "x" * 300_000_000}})}),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_checkpoints(kind: str, project: Path) -> None:
    packed_checkpoint(project / "tables" / "db" / "orders", *CHECKPOINTS[kind])
    said = alone(project, "plan")
    assert "ZL111" in said
    assert "the limit of zlayout" in said


def test_row_groups(project: Path) -> None:
    table = project / "tables" / "db" / "orders"
    for path in table.glob("*.parquet"):
        rows = pq.read_table(path).slice(0, 1)
        block = pa.concat_tables([rows] * 1000).combine_chunks()
        many = pa.concat_tables([block] * 1000)
        with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
            writer.write_table(pa.concat_tables([many] * 40), row_group_size=40_000_000)
        assert path.stat().st_size < 4_000_000
    assert "has 40,000,000 rows" in alone(project, "plan", "--sample", code=0)


def sparse(path: Path) -> None:
    path.write_text("k,name\n")
    os.truncate(path, 50 << 30)


def short_rows(path: Path) -> None:
    path.write_bytes(b"k,name\n" + b"1,\n" * 20_000_000)


def repeated(path: Path) -> None:
    one = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int32)), pa.array(["x" * (1 << 20)]))
    table = pa.table({"k": pa.array(range(200_000)), "name": one})
    pq.write_table(table, path, compression="zstd", dictionary_pagesize_limit=1 << 30)


def many_rows(path: Path) -> None:
    rows = pa.table({"k": pa.array(np.zeros(5_000_000, np.int64)), "name": pa.nulls(5_000_000, pa.string())})
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        for _ in range(40):
            writer.write_table(rows)


EXPORTS = {
    "sparse.csv": (sparse, "more than 64 MiB"),
    "short_rows.csv": (short_rows, "more than 5,000,000 rows"),
    "repeated.parquet": (repeated, "the strings have more than 256 MiB"),
    "many_rows.parquet": (many_rows, "more than 5,000,000 rows"),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports(name: str, project: Path) -> None:
    make, message = EXPORTS[name]
    make(project / name)
    columns = ", columns: [k integer, name string]" if name.endswith(".csv") else ""
    with (project / "zlayout.yaml").open("a") as file:
        file.write(f"workload: {{engine: trino, exports: {{d: {{files: {name}{columns}}}}}}}\n")
    (project / "workloads").mkdir()
    (project / "workloads" / "q.sql").write_text("SELECT 1 FROM orders o JOIN d ON o.a = d.k WHERE d.name LIKE '%x%'")
    said = alone(project, "plan")
    assert "ZL098" in said
    assert message in said


class Answers(BaseHTTPRequestHandler):
    """Sends what the test sets, and records the requests."""

    seen: list[tuple[str, str]]
    send: "Callable[[Answers], None]"

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization", "")))
        with suppress(OSError):
            type(self).send(self)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(send: Callable[[Answers], None]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The URL of a server that answers each request by `send`, and the requests so far."""
    seen: list[tuple[str, str]] = []
    handler = type("Handler", (Answers,), {"seen": seen, "send": staticmethod(send)})
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen


def catalog(type_: str, uri: str) -> CatalogConfig:
    return CatalogConfig("lake", "delta", type_, {"uri": uri, "warehouse": "w"}, Location("zlayout.yaml"))


def _bomb(request: Answers) -> None:
    body = gzip.compress(b'{"name": "' + b"x" * 200_000_000 + b'"}')
    request.send_response(200)
    request.send_header("Content-Encoding", "gzip")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def _endless(request: Answers) -> None:
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(b"x" * 1_000_000)


@pytest.mark.parametrize("send", [_bomb, _endless])
def test_unity_catalog(send: Callable[[Answers], None]) -> None:
    with answering(send) as (url, _), pytest.raises(TooLargeError):
        Unity(catalog("unity", url), {}).entry("a", "b")


def test_unity_catalog_with_pages_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def page(request: Answers) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(json.dumps({"schemas": [{"name": "a"}], "next_page_token": "again"}).encode())

    monkeypatch.setattr(unity, "MAX_PAGES", 20)
    with answering(page) as (url, seen), pytest.raises(ValueError, match="at most 20 pages"):
        list(Unity(catalog("unity", url), {}).namespaces())
    assert len(seen) == 20


def test_unity_catalog_with_large_pages_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def page(request: Answers) -> None:
        names = [{"name": "x" * 1000} for _ in range(1000)]
        request.send_response(200)
        request.end_headers()
        request.wfile.write(json.dumps({"schemas": names, "next_page_token": "again"}).encode())

    monkeypatch.setattr(reading, "MAX_LISTED_BYTES", 10_000_000)
    with answering(page) as (url, seen), pytest.raises(TableError, match=r"ZL133 .* more than 10,000,000 bytes"):
        list(Names(catalog("unity", url)).listed(TableName("lake", ("*",), "*")))
    assert len(seen) == 7


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_does_not_carry_the_token_to_another_host(status: int) -> None:
    def answer(request: Answers) -> None:
        request.send_response(200)
        request.end_headers()

    def redirect(request: Answers) -> None:
        request.send_response(status)
        request.send_header("Location", other + request.path)
        request.end_headers()

    with answering(answer) as (other, canary), answering(redirect) as (url, seen):
        with pytest.raises(ValueError, match=f"HTTP status {status}"):
            Unity(catalog("unity", url), {"DATABRICKS_TOKEN": "dapi-canary"}).entry("a", "b")
        assert [token for _, token in seen] == ["Bearer dapi-canary"]
        assert canary == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_carries_neither_a_login_nor_credentials_to_another_host(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Answers) -> None:
        request.send_response(200)
        request.end_headers()

    def redirect(request: Answers) -> None:
        is_table = request.path.startswith("/api/2.1/unity-catalog/tables/")
        body = b'{"name": "b", "table_id": "1"}' if is_table else b""
        request.send_response(200 if is_table else status)
        request.send_header("Location", other + request.path)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    monkeypatch.setattr(Answers, "do_POST", Answers.do_GET, raising=False)
    principal = {"DATABRICKS_CLIENT_ID": "me", "DATABRICKS_CLIENT_SECRET": "of-the-canary"}
    with answering(answer) as (other, canary), answering(redirect) as (url, seen):
        for environ in ({"DATABRICKS_TOKEN": "dapi-canary"}, principal):
            with pytest.raises(ValueError, match=f"HTTP status {status}") as refused:
                Unity(catalog("unity", url), environ).vended(TableName("lake", ("a",), "b"), "READ")
            assert "canary" not in str(refused.value)
        assert [path.partition("?")[0] for path, _ in seen] == [
            "/api/2.1/unity-catalog/tables/w.a.b",
            "/api/2.1/unity-catalog/temporary-table-credentials",
            "/oidc/v1/token",
        ]
        assert canary == []


def test_an_id_of_unity_catalog_is_no_variable_of_hadoop() -> None:
    """Hadoop replaces `${env.NAME}`, and the JVM sends the id to the catalog."""

    def answer(request: Answers) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b'{"name": "b", "table_id": "${env.CANARY}"}')

    with answering(answer) as (url, _), pytest.raises(ValueError, match="expected a table_id"):
        Unity(catalog("unity", url), {}).vended(TableName("lake", ("a",), "b"), "READ_WRITE")


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_glue(format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Answers, "do_POST", Answers.do_GET, raising=False)
    table = TableName("lake", ("db",), "t")
    with answering(_endless) as (url, _):
        options = {"uri": url, "storage": {"region": "us-east-1"}}
        found = CatalogConfig("lake", format_, "glue", options, Location("zlayout.yaml"))
        with pytest.raises(TableError, match=r"more than [0-9,]+ bytes"):
            Names(found).located(table) if format_ == "delta" else load_table(found, table)


def test_a_metastore_that_sends_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hive, "MAX_HIVE_RESPONSE_BYTES", 10_000_000)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send() -> None:
            connection, _ = server.accept()
            name = b"get_all_databases"
            reply = b"\x80\x01\x00\x02" + len(name).to_bytes(4, "big") + name + b"\x00\x00\x00\x00"
            field = b"\x0f\x00\x00\x0b" + (2**31 - 1).to_bytes(4, "big")  # a list of strings
            try:
                connection.sendall(reply + field)
                while True:
                    connection.sendall(b"\x00\x00\x00\x04name" * 10_000)
            except OSError:
                connection.close()

        thread = threading.Thread(target=send)
        thread.start()
        port = server.getsockname()[1]
        with pytest.raises(TooLargeError):
            Hive(catalog("hive", f"thrift://127.0.0.1:{port}")).namespaces().__iter__().__next__()
        thread.join()
