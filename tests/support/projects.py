"""Projects as the current folder, on a real Delta table or on one in memory, and commands that run in them."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pytest
import typer.main
from contract import make_rows
from deltalake import write_deltalake
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable

from zlayout.cli.main import run
from zlayout.formats.base import Commit, GroupFailed, Notify, PlannedTable

PROJECT = """\
version: 1
catalogs:
  lake: {format: delta, type: path, warehouse: ./tables}
"""
LAYOUT = """\
version: 1
table: lake.db.orders
tags: [nightly]
zorder:
  columns: [a]
files: {target_size: 1KiB}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one layout and a real Delta table of two files."""
    write_project(tmp_path, monkeypatch, LAYOUT)
    for _ in range(2):
        rows = pa.table({"a": pa.array(range(100), pa.int64()), "b": pa.array(["x"] * 100)})
        write_deltalake(str(tmp_path / "tables" / "db" / "orders"), rows, mode="append")
    return tmp_path


class Printed(Protocol):
    out: str
    err: str


class Cli(Protocol):
    def __call__(self, *arguments: str, code: int = 0) -> Printed: ...


# typer builds all commands again for each call, which takes longer than most of them.
typer.main.get_command = cache(typer.main.get_command)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run one command, which must exit with `code`, and return what was printed since the last time."""

    def call(*arguments: str, code: int = 0) -> Printed:
        assert run(list(arguments)) == code
        return capsys.readouterr()

    return call


class Scripted(MemoryBackend):
    """A memory backend that calls `meanwhile` after each group; where `breaks` is set, it fails after that instead."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(MemoryCatalog({"db.orders": table}))
        self.breaks: Exception | None = None
        self.meanwhile = lambda: None

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:
        if self.breaks is not None:
            self.meanwhile()
            raise self.breaks
        for outcome in super().execute(work, notify):
            self.meanwhile()
            yield outcome


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A project whose one table, of four files, lives in memory, so that apply runs without Spark."""
    write_project(tmp_path, monkeypatch, LAYOUT.replace("1KiB", "2000B"))
    rows = make_rows(200)
    table = MemoryTable(rows.schema)
    table.append(rows, files=4)
    backend = Scripted(table)
    monkeypatch.setattr("zlayout.spark.session.check_java", lambda: "")  # not needed
    for command in ("plan", "import_"):
        monkeypatch.setattr(f"zlayout.session.{command}.backend_for", lambda *_: backend)
    return backend


def workload_project(
    folder: Path, monkeypatch: pytest.MonkeyPatch, layout: str, table: MemoryTable, queries: str
) -> MemoryBackend:
    """Write a project whose one table lives in memory, and a workload of queries on it; return its backend."""
    write_project(folder, monkeypatch, layout)
    (folder / "workloads").mkdir()
    (folder / "workloads" / "orders.sql").write_text(queries)
    backend = MemoryBackend(MemoryCatalog({"db.orders": table}))
    for command in ("plan", "inspect"):
        monkeypatch.setattr(f"zlayout.session.{command}.backend_for", lambda *_: backend)
    return backend


def write_project(folder: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    (folder / "layouts").mkdir()
    (folder / "zlayout.yaml").write_text(PROJECT)
    (folder / "layouts" / "orders.yaml").write_text(layout)
    monkeypatch.chdir(folder)
    for name in ("NO_COLOR", "FORCE_COLOR", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
