from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from contract import Contract
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable

from zlayout.spec.model import TableName


@dataclass
class MemoryArena:
    curve: str
    engine: str = "zlayout"
    bytes_per_row: float = 36.0

    def create(self, rows: pa.Table, files: int, partition_by: tuple[str, ...] = ()) -> None:
        self.table = TableName("mem", ("db",), "t")
        self._stored = MemoryTable(rows.schema, partition_by)
        self.backend = MemoryBackend(MemoryCatalog({"db.t": self._stored}))
        if len(rows):
            self.append(rows, files)

    def append(self, rows: pa.Table, files: int = 1) -> None:
        self._stored.append(rows, files)

    def delete_below(self, id: int) -> None:
        self._stored.delete(pc.field("id") < id)

    def rows(self) -> pa.Table:
        return self._stored.rows()


@pytest.fixture(params=["kd", "zorder", "hilbert"])
def arena(request: pytest.FixtureRequest) -> MemoryArena:
    return MemoryArena(request.param)


class TestMemory(Contract):
    pass
