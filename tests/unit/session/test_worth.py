"""A budget that the queries of a workload rank, from the files of a project to the plan and its application."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryTable
from support.projects import workload_project

import zlayout
from zlayout.planner.document import to_json
from zlayout.planner.model import TablePlan, Wait

ROWS = 4000
LAYOUT = """\
version: 1
table: lake.db.orders
zorder: {columns: [a, b]}
files: {target_size: SIZE}
"""
QUERIES = "SELECT * FROM orders WHERE region = 'west' AND c = 1 AND a = 500;\n"


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryBackend:
    """A table of 8 files in east and 6 in west, which the queries read; east has more to gain for each byte."""
    random = np.random.default_rng(3)
    keys = {name: pa.array(random.integers(0, 1000, ROWS)) for name in ("a", "b")}
    rows = pa.table(keys | {"c": pa.array(np.ones(ROWS, np.int64)), "region": pa.array(["west"] * ROWS)})
    east = rows.set_column(3, "region", pa.array(["east"] * ROWS))
    memory = MemoryTable(rows.schema, ("region",))
    memory.append(east, files=8)
    memory.append(rows.slice(0, 3000), files=6)
    layout = LAYOUT.replace("SIZE", str(rows.nbytes // 8))
    return workload_project(tmp_path, monkeypatch, layout, memory, QUERIES)


def planned(backend: MemoryBackend) -> tuple[zlayout.ProjectPlan, TablePlan]:
    """A plan with a budget for one of the two partitions."""
    found = zlayout.plan(zlayout.load_project(), sample=False, max_rewrite_bytes=size_of(backend) * 8 // 14)
    return found, found.tables[0]


def size_of(backend: MemoryBackend) -> int:
    state = backend.observe(zlayout.load_project().layouts[0].table, ("a",))
    return int(state.files.bytes.sum())


def test_the_budget_is_spent_on_what_the_queries_read(backend: MemoryBackend) -> None:
    _, table = planned(backend)
    assert [group.partition for group in table.groups] == ["region=west"]
    assert table.that_wait(Wait.BUDGET).ranked_by == "workload"
    Path("workloads/orders.sql").unlink()
    _, table = planned(backend)
    assert [group.partition for group in table.groups] == ["region=east"]
    assert table.that_wait(Wait.BUDGET).ranked_by == "touched"


def test_the_plan_document_says_by_what_groups_were_ranked(backend: MemoryBackend) -> None:
    found, _ = planned(backend)
    assert json.loads(to_json(found.document))["tables"][0]["waiting"][0]["ranked_by"] == "workload"


def test_a_saved_plan_keeps_its_groups_when_the_workload_changes(backend: MemoryBackend, tmp_path: Path) -> None:
    found, table = planned(backend)
    zlayout.write_plan(found, tmp_path / "plan.json")
    Path("workloads/orders.sql").write_text(QUERIES.replace("west", "east"))
    again = zlayout.read_plan(zlayout.load_project(), tmp_path / "plan.json").tables[0]
    assert (again.status, again.groups) == ("changes", table.groups)


def test_nothing_more_is_read_if_the_budget_is_enough(backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[object] = []
    monkeypatch.setattr("zlayout.session.workloads.worth", lambda *given: ranked.append(given))
    zlayout.plan(zlayout.load_project(), sample=False, max_rewrite_bytes=size_of(backend))
    zlayout.plan(zlayout.load_project(), sample=False)
    assert not ranked


def test_a_table_that_cannot_be_read_again_is_ranked_by_touched(
    backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe = backend.observe

    def fail(table: object, columns: tuple[str, ...], version: int | None = None) -> object:
        if "c" in columns:
            raise OSError("no route to host")
        return observe(table, columns, version)  # type: ignore[arg-type]

    monkeypatch.setattr(backend, "observe", fail)
    _, table = planned(backend)
    assert [group.partition for group in table.groups] == ["region=east"]
    assert table.that_wait(Wait.BUDGET).ranked_by == "touched"
    assert "ZL414" in [d.code for d in table.diagnostics]
