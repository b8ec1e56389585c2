"""The memory format, which one line adds to the registry: the contract, and the command line, run over it."""

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from contract import Contract, make_rows
from support.memory_format.format import MemoryFormat
from support.memory_format.store import MemoryTable

from zlayout.cli.main import run
from zlayout.errors import SpecError
from zlayout.formats.registry import backend_for
from zlayout.spark.session import SparkRuntime
from zlayout.spec.load import load_project
from zlayout.spec.model import TableName

PROJECT = "version: 1\ncatalogs:\n  mem: {format: memory}\n"
LAYOUT = "version: 1\ntable: mem.db.t\nzorder: {columns: [a, b]}\nfiles: {target_size: 2000B}\n"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryFormat:
    format = MemoryFormat()
    format.add(monkeypatch)
    return format


@dataclass
class MemoryArena:
    format: MemoryFormat
    folder: Path
    curve: str
    engine: str = "zlayout"
    bytes_per_row: float = 36.0

    def __post_init__(self) -> None:
        (self.folder / "zlayout.yaml").write_text(PROJECT)
        project = load_project(self.folder, os.environ)
        self.table = TableName("mem", ("db",), "t")
        self.backend = backend_for(project.catalogs["mem"], SparkRuntime(project))

    def create(self, rows: pa.Table, files: int, partition_by: tuple[str, ...] = ()) -> None:
        self._stored = self.format.tables["db.t"] = MemoryTable(rows.schema, partition_by)
        if len(rows):
            self.append(rows, files)

    def append(self, rows: pa.Table, files: int = 1) -> None:
        self._stored.append(rows, files)

    def delete_below(self, id: int) -> None:
        self._stored.delete(pc.field("id") < id)

    def rows(self) -> pa.Table:
        return self._stored.rows()


@pytest.fixture(params=["kd", "zorder", "hilbert"])
def arena(request: pytest.FixtureRequest, memory: MemoryFormat, tmp_path: Path) -> MemoryArena:
    return MemoryArena(memory, tmp_path, request.param)


class TestMemory(Contract):
    pass


def test_the_command_line_plans_and_applies(
    memory: MemoryFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "zlayout.yaml").write_text(PROJECT)
    (tmp_path / "layouts").mkdir()
    (tmp_path / "layouts" / "t.yaml").write_text(LAYOUT)
    monkeypatch.chdir(tmp_path)
    rows = make_rows(200)
    table = memory.tables["db.t"] = MemoryTable(rows.schema)
    table.append(rows, 4)
    assert run(["plan", "--detailed-exitcode"]) == 2
    assert "mem.db.t (memory, moment 1)" in capsys.readouterr().out
    assert run(["apply", "--auto-approve"]) == 0
    assert run(["plan", "--detailed-exitcode"]) == 0
    assert table.rows().sort_by("id").combine_chunks() == rows.combine_chunks()
    assert run(["inspect", "mem.db.t"]) == 0


def test_a_format_that_is_not_registered_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zlayout.yaml").write_text(PROJECT)
    with pytest.raises(SpecError, match=r"ZL.*memory"):
        load_project(tmp_path, os.environ)
