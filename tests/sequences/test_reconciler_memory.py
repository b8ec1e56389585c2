"""The reconciler's contract on the memory backend: at least 500 sequences in CI."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from reconciler import Reconciler, counts, make_rows, shapes
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable

from zlayout.spec.model import TableName
from zlayout.table.state import PartitionField

SEQUENCES = 500 if os.environ.get("CI") else 60


class MemorySubject:
    bytes_per_row = 36.0

    def __init__(self, rows: pa.Table, files: int, partitioned: bool) -> None:
        self.table = TableName("mem", ("db",), "t")
        self.stored = MemoryTable(rows.schema, ("region",) if partitioned else ())
        self.backend = MemoryBackend(MemoryCatalog({"db.t": self.stored}))
        self.append(rows, files)

    def append(self, rows: pa.Table, files: int) -> None:
        self.stored.append(rows, files)

    def delete(self, low: int, high: int) -> None:
        self.stored.delete((pc.field("id") >= low) & (pc.field("id") < high))

    def update(self, low: int, high: int, value: int) -> None:
        self.stored.update((pc.field("id") >= low) & (pc.field("id") < high), "a", value)

    def repartition(self, fields: tuple[str, ...]) -> None:
        self.stored.set_partitioning(tuple(PartitionField(name) for name in fields))

    def optimize(self) -> None:
        self.stored.compact()

    def checkpoint(self) -> None:
        pass

    def expire(self) -> None:
        self.stored.expire()

    def rows(self) -> pa.Table:
        return self.stored.rows()


class MemoryReconciler(Reconciler):
    def make(self, rows: pa.Table, files: int, partitioned: bool) -> MemorySubject:
        return MemorySubject(rows, files, partitioned)

    @rule(count=counts, files=st.integers(1, 2), shape=shapes, seed=st.integers(0, 99), data=st.data())
    def straggle(self, count: int, files: int, shape: str, seed: int, data: st.DataObject) -> None:
        """A writer goes on with a partition spec that the table had before."""
        rows = make_rows(self.next_id, count, shape, seed)
        self.next_id += count
        assert isinstance(self.subject, MemorySubject)
        stored = self.subject.stored
        stored.append(rows, files, data.draw(st.integers(0, len(stored.specs) - 1)))
        self.expected = pa.concat_tables([self.expected, rows])


TestMemoryReconciler = MemoryReconciler.TestCase
TestMemoryReconciler.settings = settings(
    max_examples=SEQUENCES, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
