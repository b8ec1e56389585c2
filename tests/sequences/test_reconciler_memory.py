"""The reconciler's contract on the memory backend: at least 500 sequences in CI."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from reconciler import OPTIONS, Reconciler, counts, make_rows, shapes
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable

from zlayout.app.plan import plan_table
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

    @rule()
    def rename(self) -> None:
        """The plan is the same while the key columns have other names, in the table and in the layout."""
        assert isinstance(self.subject, MemorySubject)
        before = self.plan().decision.plan
        names = {"a": "c", "b": "d"}
        self.subject.stored.rename(names)
        columns = tuple(replace(c, name=names[c.name]) for c in self.spec.layout.columns)
        renamed = replace(self.spec, layout=replace(self.spec.layout, columns=columns))
        after = plan_table(renamed, self.subject.backend, OPTIONS).decision.plan
        assert (after.status, len(after.groups)) == (before.status, len(before.groups))
        assert [(d.measure, d.value) for d in after.decay] == [(d.measure, d.value) for d in before.decay]
        assert [d.key for d in after.drift] == [d.key for d in before.drift]
        self.subject.stored.rename({new: old for old, new in names.items()})


TestMemoryReconciler = MemoryReconciler.TestCase
TestMemoryReconciler.settings = settings(
    max_examples=SEQUENCES, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
