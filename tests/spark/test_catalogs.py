"""Iceberg tables in each catalog, on this machine and on S3: plan, apply, empty plan, conflict, orphans."""

from __future__ import annotations

import pytest
from contract import Contract, make_rows
from spark.arenas import IcebergArena, delete_before_first_commit
from spark.catalogs import PAIRS

from zlayout.formats.iceberg.write.commit import Committer

# SQLite has the whole contract in test_contract.py and test_s3.py.
ARENAS = [pytest.param(kind, id=pair) for pair, kind in PAIRS.items() if not pair.startswith("sqlite")]


@pytest.mark.parametrize("arena", [pytest.param(kind, id=pair) for pair, kind in PAIRS.items()], indirect=True)
def test_plan_apply_empty_plan_conflict_and_orphans(arena: IcebergArena, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test for each pair, because a table in a service takes seconds."""
    contract = Contract()
    arena.create(make_rows(contract.rows), contract.files)
    spec = contract.spec(arena)
    planned = contract.plan(arena, spec)
    assert planned.decision.plan.status == "changes"

    applied = contract.apply(arena, planned)
    assert [each.kind for each in applied.commits if each.kind == "rewrite"]
    assert contract.plan(arena, spec).decision.plan.status == "unchanged"
    assert arena.rows().sort_by("id").equals(make_rows(contract.rows))

    assert arena.backend.orphans(arena.table).files == ()
    location = arena.backend.observe(arena.table, ()).location
    arena.frame(make_rows(10), 1).write.parquet(f"{location}/data/left")
    left = [orphan.path for orphan in arena.backend.orphans(arena.table).files]
    assert [path for path in left if path.endswith(".parquet")]
    assert all(path.startswith("data/left/") for path in left)

    with monkeypatch.context() as patched:
        delete_before_first_commit(arena, Committer, patched)
        failed = contract.apply(arena, contract.plan(arena, contract.spec(arena, ("a",))))
    assert {d.code for failure in failed.failures for d in failure.error.diagnostics} == {"ZL321"}
    assert arena.rows().num_rows == contract.rows - 5


@pytest.mark.long
@pytest.mark.parametrize("arena", ARENAS, indirect=True)
class TestContract(Contract):
    """Every test of the contract."""
