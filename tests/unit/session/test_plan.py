"""Many tables at once: read side by side, one broken table stops none of the others."""

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from contract import make_rows
from support.builders import make_layout, make_spec
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable

from zlayout.errors import Location
from zlayout.planner.diff import propose
from zlayout.planner.proposal import Proposal
from zlayout.planner.work import PlannedTable
from zlayout.session import proposing as app
from zlayout.session.concurrent_reads import Reading
from zlayout.session.plan import as_plan, plan_tables
from zlayout.spec.model import TableName
from zlayout.table.state import TableState

LAYOUT = make_layout("a", target_size=2000)
SPECS = [make_spec(LAYOUT, f"mem.db.t{n}", Location(f"t{n}.yaml", 2)) for n in range(4)]


class Watched(MemoryBackend):
    """Each observation waits until `together` of them are under way, and may fail."""

    def __init__(self, together: int, breaks: Exception | None = None) -> None:
        tables = {f"db.t{n}": MemoryTable(make_rows(1).schema) for n in range(4)}
        for table in tables.values():
            table.append(make_rows(200), files=4)
        super().__init__(MemoryCatalog(tables))
        self.barrier = threading.Barrier(together)
        self.breaks, self.active, self.most = breaks, 0, 0

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            self.barrier.wait(timeout=30)
            if self.breaks is not None and table.name == "t1":
                raise self.breaks
            return super().observe(table, columns, version)
        finally:
            self.active -= 1


def test_tables_are_read_side_by_side_as_many_as_allowed() -> None:
    backend = Watched(together=2)
    planned = plan_tables(SPECS, {"mem": backend}, reading=Reading(2))
    assert [p.plan.status for p in planned] == ["changes"] * 4
    assert backend.most == 2
    assert [p.spec for p in planned] == SPECS


@pytest.mark.parametrize(("max_files_in_turn", "together"), [(4, 1), (3, 2)])
def test_changes_to_small_tables_are_found_in_turn(
    max_files_in_turn: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the four tables has four files."""
    both, active, most = threading.Barrier(together), 0, 0

    def watched(*arguments: Any) -> Proposal | PlannedTable:
        nonlocal active, most
        active += 1
        most = max(most, active)
        both.wait(timeout=30)
        time.sleep(0.01)
        active -= 1
        return propose(*arguments)

    monkeypatch.setattr(app, "propose", watched)
    monkeypatch.setattr(app, "MAX_FILES_IN_TURN", max_files_in_turn)
    planned = plan_tables(SPECS, {"mem": Watched(together=2)}, reading=Reading(2))
    assert most == together
    assert [p.plan.status for p in planned] == ["changes"] * 4


def test_one_at_a_time() -> None:
    backend = Watched(together=1)
    plan_tables(SPECS, {"mem": backend}, reading=Reading(1))
    assert backend.most == 1


@pytest.mark.parametrize("error", [OSError("no route to host"), KeyError("schema")])
def test_a_broken_table_stops_no_other(error: Exception) -> None:
    planned = plan_tables(SPECS, {"mem": Watched(1, error)}, reading=Reading(1))
    plan = as_plan(planned)
    assert [t.status for t in plan.tables] == ["changes", "error", "changes", "changes"]
    (diagnostic,) = plan.tables[1].diagnostics
    assert diagnostic.code == "ZL104"
    assert type(error).__name__ in diagnostic.message
    assert diagnostic.location == Location("t1.yaml", 2)
    assert plan.exit_code == 1


def test_a_table_that_is_not_there_is_named() -> None:
    missing = replace(SPECS[0], table=TableName("mem", ("db",), "t9"))
    (planned,) = plan_tables([missing], {"mem": Watched(1)})
    assert [d.code for d in planned.plan.diagnostics] == ["ZL102"]
