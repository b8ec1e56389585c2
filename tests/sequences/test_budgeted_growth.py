"""A table that grows under a byte budget: queries read less if their workload ranks what the budget is spent on.

The table has one partition per day. Half of the rows of an append are of a new day, and half are late, of the days
before. The queries ask for a value of a in one of the last three days.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout, make_spec
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.runs import apply_planned

from zlayout.advisor.costs import costs, in_partitions, queries_on
from zlayout.planner.work import PlanOptions
from zlayout.session.concurrent_reads import Reading
from zlayout.session.plan import plan_tables
from zlayout.spec.model import LayoutSpec
from zlayout.workload.files import read_workload

DAYS, ROWS_PER_DAY, APPENDS, ROWS_PER_APPEND = 15, 1000, 12, 300


class Grown:
    """One table, and what was written to it. workload: the file that ranks its rewrites; None for touched."""

    def __init__(self, workload: Path | None) -> None:
        self.random = np.random.default_rng(5)
        first = self.rows(np.repeat(np.arange(DAYS), ROWS_PER_DAY))
        self.table = MemoryTable(first.schema, ("day",))
        self.table.append(first)
        self.backend = MemoryBackend(MemoryCatalog({"db.t": self.table}))
        layout = make_layout("a", "b", target_size=first.nbytes // DAYS // 10)
        self.spec: LayoutSpec = make_spec(layout, "mem.db.t", workload=() if workload is None else (workload,))
        self.written = self.appended = 0

    def rows(self, days: np.ndarray) -> pa.Table:
        keys = {name: self.random.integers(0, 10**6, len(days)) for name in ("a", "b")}
        return pa.table(keys | {"day": pa.array(days, pa.int32())})

    def append(self, today: int) -> int:
        half = ROWS_PER_APPEND // 2
        late = today - self.random.integers(1, DAYS, half)
        rows = self.rows(np.concatenate((np.full(half, today), late)))
        self.table.append(rows)
        self.appended += rows.nbytes
        return rows.nbytes

    def apply(self, budget: int | None) -> int:
        """Plan and apply; return the bytes written."""
        options = PlanOptions(max_rewrite_bytes=budget)
        (planned,) = plan_tables([self.spec], {"mem": self.backend}, options, Reading())
        if planned.plan.status != "changes":
            return 0
        applied = apply_planned(planned, self.backend, options)
        assert applied.error is None
        written = sum(commit.bytes_added for commit in applied.commits)
        self.written += written
        return written

    def share_read(self, queries: Path) -> float:
        """The share of the bytes that the mean query opens."""
        state = self.backend.observe(self.spec.table, ("a", "b"))
        asked = in_partitions(queries_on(read_workload([queries]), self.spec.table, state).queries, state)
        files = state.files
        return costs(asked, files).mean_bytes / float(files.bytes.sum())


def queries(today: int, random: np.random.Generator) -> str:
    asked = zip(random.integers(0, 3, 30), random.integers(0, 10**6, 30), strict=True)
    return "".join(f"SELECT * FROM t WHERE day = {today - day} AND a = {value};\n" for day, value in asked)


@pytest.fixture
def grown(tmp_path: Path) -> dict[str, tuple[Grown, float]]:
    """The tables after all appends, and the mean share that new queries of the same kind opened after each run.

    The budget is 1.25 times the appended bytes if touched ranks, and the appended bytes if the workload does.
    """
    found = {}
    for name, workload, times in (("touched", None, 1.25), ("workload", tmp_path / "workload.sql", 1.0)):
        asked, table, shares = np.random.default_rng(6), Grown(workload), []
        table.spec, spec = make_spec(table.spec.layout, "mem.db.t"), table.spec
        table.apply(None)
        table.spec, table.written = spec, 0
        for today in range(DAYS, DAYS + APPENDS):
            budget = int(times * table.append(today))
            (tmp_path / "workload.sql").write_text(queries(today, asked))
            (tmp_path / "new.sql").write_text(queries(today, asked))
            assert table.apply(budget) <= budget
            shares.append(table.share_read(tmp_path / "new.sql"))
        found[name] = table, float(np.mean(shares))
    return found


def test_queries_read_less_although_less_is_written(grown: dict[str, tuple[Grown, float]]) -> None:
    (by_touched, read_by_touched), (by_worth, read_by_worth) = grown["touched"], grown["workload"]
    assert by_worth.written <= by_touched.written
    assert read_by_worth <= 0.8 * read_by_touched


def test_runs_without_appends_end_and_leave_nothing(grown: dict[str, tuple[Grown, float]]) -> None:
    table, _ = grown["workload"]
    left = [table.apply(ROWS_PER_APPEND * 20 * 3) for _ in range(20)]
    assert 0 in left
    assert not any(left[left.index(0) :])
    table.apply(None)
    assert table.apply(None) == 0
