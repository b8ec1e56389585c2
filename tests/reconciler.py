"""Any sequence of what happens to tables, with applies in between: one apply must always be enough.

A state machine over one table. A subclass gives the table (`make`), and with it what writers, other tools and the
format itself do to tables; the machine keeps the rows that must be there.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.builders import make_layout, make_spec
from support.runs import apply_planned

from zlayout.formats.base import Backend
from zlayout.planner.work import PlanOptions
from zlayout.predicate.model import Compare
from zlayout.session.concurrent_reads import Reading
from zlayout.session.plan import PlannedTable, plan_table, plan_tables
from zlayout.session.results import Applied
from zlayout.spec.model import TableName, Tolerance, ZorderColumn
from zlayout.table.state import PartitionField

REGIONS = np.array(["east", "west"])
OPTIONS = PlanOptions(allow_full_rewrite=True)

QUERIES = """\
-- weight: 9
SELECT * FROM {table} WHERE a >= 900 AND b = 'key-0005' AND region = 'east';
-- weight: 1
SELECT * FROM {table} WHERE id < 10 OR a IN (5, 7);
"""

counts = st.integers(1, 60)
shapes = st.sampled_from(["everywhere", "corner", "one key", "growing", "half null", "correlated", "skewed"])


class Subject(Protocol):
    """One table, and what others do to it. Ids are unique; `region` is east for even ids, west for odd ones."""

    backend: Backend
    table: TableName
    bytes_per_row: float

    def append(self, rows: pa.Table, files: int) -> None: ...
    def delete(self, low: int, high: int) -> None: ...
    def update(self, low: int, high: int, value: int) -> None:
        """Set column a to `value` where low <= id < high."""
        ...

    def optimize(self) -> None:
        """As another tool does it: rewrite files, order and records lost."""
        ...

    def repartition(self, fields: tuple[str, ...]) -> None:
        """Somebody changes how new files are partitioned, where the format can."""
        ...

    def checkpoint(self) -> None: ...
    def expire(self) -> None: ...
    def rows(self) -> pa.Table: ...


def make_rows(start: int, count: int, shape: str, seed: int) -> pa.Table:
    """`count` rows with ids from `start`: an int key a, a text key b, a region."""
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 1000, count), random.integers(0, 1000, count)
    if shape == "corner":
        a, b = 900 + a // 20, b // 20
    elif shape == "one key":
        a, b = np.full(count, 7), np.full(count, 7)
    elif shape == "growing":
        a = 1000 + start + np.arange(count)
    elif shape == "correlated":
        b = a + b // 50
    elif shape == "skewed":
        a, b = np.where(b < 300, 5, a), a // 300
    text = [None if shape == "half null" and n % 2 else f"key-{n:04}" for n in b.tolist()]
    return with_ids(pa.table({"a": a, "b": pa.array(text, pa.string())}), np.arange(start, start + count))


def with_ids(rows: pa.Table, ids: npt.NDArray[np.int64]) -> pa.Table:
    """The rows with these ids, and the region of each id."""
    return pa.table({"id": ids, "a": rows["a"], "b": rows["b"], "region": REGIONS[ids % 2]})


CUTS = st.lists(
    st.one_of(
        st.integers(0, 2000).map(lambda value: Compare("a", "<=", value)),
        st.integers(0, 2000).map(lambda value: Compare("b", "<", f"key-{value:04}")),
    ),
    min_size=1,
    max_size=4,
    unique=True,
)


class Reconciler(RuleBasedStateMachine):
    """Subclasses define `make`."""

    subject: Subject
    curves: tuple[str, ...] = ("kd", "zorder", "hilbert", "linear", "workload")

    def make(self, rows: pa.Table, files: int, partitioned: bool) -> Subject:
        raise NotImplementedError

    @initialize(count=counts, files=st.integers(1, 6), shape=shapes, partitioned=st.booleans(), seed=st.integers(0, 99))
    def create(self, count: int, files: int, shape: str, partitioned: bool, seed: int) -> None:
        self.expected = make_rows(0, count, shape, seed)
        self.next_id = count
        self.subject = self.make(self.expected, files, partitioned)
        layout = make_layout("a", "b", target_size=self.size(20))
        self.spec = make_spec(layout, self.subject.table)
        self.folder = tempfile.TemporaryDirectory()
        self.workload = Path(self.folder.name) / "workload.sql"
        self.workload.write_text(QUERIES.format(table=self.subject.table.name))

    def size(self, rows: int) -> int:
        return int(self.subject.bytes_per_row * rows)

    @rule(count=counts, files=st.integers(1, 4), shape=shapes, seed=st.integers(0, 99))
    def append(self, count: int, files: int, shape: str, seed: int) -> None:
        rows = make_rows(self.next_id, count, shape, seed)
        self.next_id += count
        self.subject.append(rows, files)
        self.expected = pa.concat_tables([self.expected, rows])

    @rule(start=st.floats(0, 1), share=st.floats(0, 1))
    def delete(self, start: float, share: float) -> None:
        low, high = int(start * self.next_id), int((start + share) * self.next_id)
        self.subject.delete(low, high)
        ids = self.expected["id"].to_numpy()
        self.expected = self.expected.filter(pa.array((ids < low) | (ids >= high)))

    @rule(start=st.floats(0, 1), share=st.floats(0, 0.3), value=st.integers(0, 2000))
    def update(self, start: float, share: float, value: int) -> None:
        low, high = int(start * self.next_id), int((start + share) * self.next_id)
        self.subject.update(low, high, value)
        ids, a = self.expected["id"].to_numpy(), self.expected["a"].to_numpy()
        changed = pa.array(np.where((ids >= low) & (ids < high), value, a))
        self.expected = self.expected.set_column(self.expected.schema.get_field_index("a"), "a", changed)

    @rule(
        columns=st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a")]),
        rows=st.sampled_from([10, 20, 50]),
        data=st.data(),
    )
    def change_layout(self, columns: tuple[str, ...], rows: int, data: st.DataObject) -> None:
        keys = tuple(ZorderColumn(name) for name in columns)
        curve = data.draw(st.sampled_from(self.curves))
        cuts = data.draw(CUTS.map(lambda found: tuple(c for c in found if c.column in columns)))
        if not cuts and curve == "workload":
            curve = "kd"
        layout = replace(
            self.spec.layout,
            columns=keys,
            curve=curve,
            target_size=self.size(rows),
            cuts=cuts if curve == "workload" else (),
        )
        self.spec = replace(self.spec, layout=layout)

    @rule(
        touched=st.sampled_from([1.0, 1.2, 1.5, 2.0]),
        unclustered=st.sampled_from([0.0, 0.1, 0.5]),
        small=st.sampled_from([0.0, 0.2, 0.9]),
        deleted=st.sampled_from([0.0, 0.1, 0.6]),
    )
    def change_tolerance(self, touched: float, unclustered: float, small: float, deleted: float) -> None:
        self.spec = replace(self.spec, tolerance=Tolerance(unclustered, touched, small, deleted))

    @rule(fields=st.sampled_from([None, (), ("region",)]))
    def change_partitioning(self, fields: tuple[str, ...] | None) -> None:
        wanted = None if fields is None else tuple(PartitionField(name) for name in fields)
        self.spec = replace(self.spec, partition_by=wanted)

    @rule(fields=st.sampled_from([(), ("region",)]))
    def repartition(self, fields: tuple[str, ...]) -> None:
        self.subject.repartition(fields)

    @rule()
    def optimize(self) -> None:
        self.subject.optimize()

    @rule()
    def checkpoint(self) -> None:
        self.subject.checkpoint()

    @rule()
    def expire(self) -> None:
        self.subject.expire()

    @rule(share=st.floats(0.05, 1), ranked_by_queries=st.booleans())
    def apply_with_budget(self, share: float, ranked_by_queries: bool) -> None:
        size = int(self.subject.backend.observe(self.subject.table, ()).files.bytes.sum())
        budget = max(1, int(share * size))
        options = replace(OPTIONS, max_rewrite_bytes=budget)
        spec = replace(self.spec, workload=(self.workload,) if ranked_by_queries else ())
        (planned,) = plan_tables([spec], {spec.table.catalog: self.subject.backend}, options, Reading())
        if planned.plan.status == "refused":
            return
        applied = self.run(planned, options)
        assert sum(c.bytes_removed for c in applied.commits if c.kind == "rewrite") <= budget
        assert applied.exit_code == 0
        self.check_rows()

    @rule()
    def apply(self) -> None:
        applied = self.run(self.plan(), OPTIONS)
        assert applied.after.status == "unchanged", (applied.after.groups, applied.after.decay)
        self.check_rows()

    @rule()
    def apply_twice(self) -> None:
        self.apply()
        before = self.subject.backend.observe(self.subject.table, ()).version
        again = self.run(self.plan(), OPTIONS)
        assert again.commits == []
        assert self.subject.backend.observe(self.subject.table, ()).version == before

    def teardown(self) -> None:
        if hasattr(self, "spec"):
            self.apply()
            self.folder.cleanup()

    def plan(self) -> PlannedTable:
        return plan_table(self.spec, self.subject.backend, OPTIONS)

    def run(self, planned: PlannedTable, options: PlanOptions) -> Applied:
        assert planned.plan.status in ("changes", "unchanged"), planned.plan.diagnostics
        applied = apply_planned(planned, self.subject.backend, options)
        if applied.error is not None:
            raise applied.error
        return applied

    def check_rows(self) -> None:
        names = self.expected.schema.names
        found = self.subject.rows().select(names).sort_by("id").combine_chunks()
        assert found.equals(self.expected.sort_by("id").combine_chunks())
