"""Delta tables whose location a metastore stores: what depends on the location that was looked up."""

import shutil
from typing import Any

import pytest
from contract import OPTIONS, Contract, make_rows
from deltalake import DeltaTable
from spark.named import NAMED, HiveDeltaArena, NamedDeltaArena

from zlayout.errors import CommitConflict, Refused
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.session.plan import as_plan
from zlayout.session.plan_file import check_saved

ARENAS = [pytest.param(kind, id=name) for name, kind in NAMED.items()]


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
