"""Delta tables whose location a metastore stores: everything that works by path, at the location that was looked up."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from contract import OPTIONS, Contract, make_rows
from deltalake import DeltaTable
from spark.arenas import delete_before_first_commit
from spark.named import GlueDeltaArena, HiveDeltaArena, NamedDeltaArena, S3GlueDeltaArena, S3HiveDeltaArena

from zlayout.app.plan import as_plan
from zlayout.app.plan_file import check_saved
from zlayout.errors import CommitConflict, Refused
from zlayout.formats.delta.write.jvm import DeltaJvm

ARENAS = [
    pytest.param(HiveDeltaArena, id="hive"),
    pytest.param(S3HiveDeltaArena, id="hive-s3"),
    pytest.param(GlueDeltaArena, id="glue", marks=pytest.mark.long),
    pytest.param(S3GlueDeltaArena, id="glue-s3"),
]


@pytest.mark.parametrize("arena", ARENAS, indirect=True)
class TestEachStore:
    """Plan, apply, empty plan, conflict, orphans, in one test each."""

    def test_apply_reaches_the_layout_and_the_next_plan_is_empty(self, arena: NamedDeltaArena) -> None:
        contract = Contract()
        contract.test_apply_reaches_the_layout_and_the_next_plan_is_empty(arena)
        assert contract.plan(arena, contract.spec(arena)).decision.plan.storage_location == arena.path

    def test_a_delete_during_the_rewrite_is_a_conflict(
        self, arena: NamedDeltaArena, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        contract = Contract()
        arena.create(make_rows(contract.rows), contract.files)
        planned = contract.plan(arena, contract.spec(arena))
        delete_before_first_commit(arena, DeltaJvm, monkeypatch)
        applied = contract.apply(arena, planned)
        assert {d.code for failed in applied.failures for d in failed.error.diagnostics} == {"ZL321"}
        assert arena.rows().num_rows == contract.rows - 5
        assert arena.backend.observe(arena.table, ()).files.live_rows.sum() == contract.rows - 5

    def test_orphans_are_found_below_the_location(self, arena: NamedDeltaArena) -> None:
        arena.create(make_rows(10), 1)
        assert arena.backend.orphans(arena.table).files == ()
        arena.frame(make_rows(10), 1).write.parquet(f"{arena.path}/left")
        left = arena.backend.orphans(arena.table).files
        assert [orphan.path for orphan in left if orphan.path.endswith(".parquet")]
        assert all(orphan.path.startswith("left/") for orphan in left)


@pytest.mark.long
@pytest.mark.parametrize("arena", ARENAS, indirect=True)
class TestContract(Contract):
    """Every test of the contract."""


@pytest.mark.parametrize("arena", [HiveDeltaArena], ids=["hive"], indirect=True)
def test_a_plan_is_not_applied_where_the_name_leads_since(arena: NamedDeltaArena) -> None:
    """The copy has the table id, the version and the files of the plan."""
    contract = Contract()
    arena.create(make_rows(contract.rows), contract.files)
    spec = contract.spec(arena)
    planned = contract.plan(arena, spec)
    copy = f"{arena.path}-copy"
    shutil.copytree(arena.path, copy)
    arena.register(copy)
    with pytest.raises(CommitConflict, match=r"ZL320.*expected the table at .*, found .*-copy"):
        contract.apply(arena, planned)
    saved = as_plan([planned]).tables[0]
    with pytest.raises(Refused, match=r"ZL203.*the catalog leads to another location"):
        check_saved(saved, contract.plan(arena, spec), arena.backend, OPTIONS, "compatible")
    assert [DeltaTable(place).version() for place in (arena.path, copy)] == [1, 1]


@pytest.mark.parametrize("arena", [(HiveDeltaArena, "native", "zorder")], ids=["hive"], indirect=True)
def test_the_work_stays_at_one_location_when_the_name_changes_meanwhile(
    arena: NamedDeltaArena, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = Contract()
    arena.create(make_rows(contract.rows), contract.files)
    planned = contract.plan(arena, contract.spec(arena))
    copy = f"{arena.path}-copy"
    shutil.copytree(arena.path, copy)
    create = DeltaJvm.__init__

    def before_a_change(self: DeltaJvm, *arguments: Any) -> None:
        create(self, *arguments)
        arena.register(copy)

    monkeypatch.setattr(DeltaJvm, "__init__", before_a_change)
    applied = contract.apply(arena, planned)
    assert [commit.kind for commit in applied.commits] == ["rewrite", "record"]
    assert DeltaTable(arena.path).version() == 3
    assert DeltaTable(copy).version() == 1
