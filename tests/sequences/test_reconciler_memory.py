"""The reconciler's contract on the memory backend: 60 sequences, and 300 further ones in `make test-long`."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from reconciler import OPTIONS, Reconciler, counts, make_rows, shapes, with_ids
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable

from zlayout.session.plan import plan_table
from zlayout.spec.model import TableName
from zlayout.table.state import PartitionField


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

    @rule(count=counts, files=st.integers(1, 2), shape=shapes, seed=st.integers(0, 99), spec=st.integers(0, 3))
    def straggle(self, count: int, files: int, shape: str, seed: int, spec: int) -> None:
        """A writer goes on with a partition spec that the table had before."""
        rows = make_rows(self.next_id, count, shape, seed)
        self.next_id += count
        assert isinstance(self.subject, MemorySubject)
        stored = self.subject.stored
        stored.append(rows, files, spec % len(stored.specs))
        self.expected = pa.concat_tables([self.expected, rows])

    @rule(
        known=st.integers(0, 40),
        new=st.integers(0, 40),
        start=st.floats(0, 1),
        step=st.sampled_from([1, 2, 5]),
        files=st.integers(1, 3),
        shape=shapes,
        seed=st.integers(0, 99),
    )
    def upsert(self, known: int, new: int, start: float, step: int, files: int, shape: str, seed: int) -> None:
        """One commit with new versions of every `step`th row from `start`, and with rows of new ids."""
        ids = np.arange(int(start * self.next_id), self.next_id, step)[:known]
        ids = np.concatenate((ids, np.arange(self.next_id, self.next_id + new)))
        rows = with_ids(make_rows(self.next_id, len(ids), shape, seed), ids)
        self.next_id += new
        assert isinstance(self.subject, MemorySubject)
        self.subject.stored.upsert(rows, "id", files)
        others = self.expected.filter(pa.array(~np.isin(self.expected["id"].to_numpy(), ids)))
        self.expected = pa.concat_tables([others, rows])

    @rule()
    def rename(self) -> None:
        """The plan is the same while the key columns have other names, in the table and in the layout."""
        assert isinstance(self.subject, MemorySubject)
        before = self.plan().plan
        names = {"a": "c", "b": "d"}
        self.subject.stored.rename(names)
        columns = tuple(replace(c, name=names[c.name]) for c in self.spec.layout.columns)
        cuts = tuple(replace(c, column=names[c.column]) for c in self.spec.layout.cuts)
        renamed = replace(self.spec, layout=replace(self.spec.layout, columns=columns, cuts=cuts))
        after = plan_table(renamed, self.subject.backend, OPTIONS).plan
        assert (after.status, len(after.groups)) == (before.status, len(before.groups))
        assert [(d.measure, d.value) for d in after.decay] == [(d.measure, d.value) for d in before.decay]
        assert [d.key for d in after.drift] == [d.key for d in before.drift]
        self.subject.stored.rename({new: old for old, new in names.items()})


class MoreReconciler(MemoryReconciler):
    """The same, with other examples where they are derived from the name."""


def of_sequences(count: int) -> settings:
    return settings(max_examples=count, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck))


TestMemoryReconciler, TestMoreReconciler = MemoryReconciler.TestCase, MoreReconciler.TestCase
TestMemoryReconciler.settings, TestMoreReconciler.settings = of_sequences(60), of_sequences(300)
TestMoreReconciler.pytestmark = [pytest.mark.long]


def test_moved_rows_become_more_files_because_of_a_file_that_is_merged_with_them() -> None:
    """With the file of one row in the west, the group is three files, and two of them are in the east."""
    state = MemoryReconciler()
    state.create(count=1, files=1, shape="everywhere", partitioned=False, seed=0)
    state.repartition(fields=("region",))
    state.append(count=1, files=1, seed=0, shape="everywhere")
    state.change_tolerance(deleted=0.0, small=0.0, touched=1.0, unclustered=0.0)
    state.apply()
    state.straggle(count=19, files=1, seed=0, shape="everywhere", spec=0)
    state.straggle(count=30, files=1, seed=0, shape="everywhere", spec=0)
    state.apply()
