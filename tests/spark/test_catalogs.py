"""Tables of both formats in each catalog, on this machine and on S3: plan, apply, empty plan, conflict, orphans."""

from __future__ import annotations

import pytest
from contract import Contract, make_rows
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from spark.arenas import DeltaArena, S3DeltaArena, SparkArena, delete_before_first_commit
from spark.catalogs import PAIRS
from spark.named import NAMED, NamedDeltaArena
from sqlalchemy.orm import Session

from zlayout.errors import EngineError
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName

DELTA = {"delta": DeltaArena, "delta-s3": S3DeltaArena} | NAMED
LONG = ("delta-glue",)  # nobody has it: Glue with tables on local disk

# SQLite and Delta by path have the whole contract in test_contract.py and test_s3.py, Delta by name in its own file.
ARENAS = [pytest.param(kind, id=pair) for pair, kind in PAIRS.items() if not pair.startswith("sqlite")]


@pytest.mark.parametrize(
    "arena",
    [pytest.param(k, id=pair, marks=[pytest.mark.long] * (pair in LONG)) for pair, k in (PAIRS | DELTA).items()],
    indirect=True,
)
def test_plan_apply_empty_plan_conflict_and_orphans(
    arena: SparkArena, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """One test for each pair, because a table in a service takes seconds."""
    contract = Contract()
    arena.create(make_rows(contract.rows), contract.files)
    spec = contract.spec(arena)
    planned = contract.plan(arena, spec)
    assert planned.decision.plan.status == "changes"
    if isinstance(arena, NamedDeltaArena):
        assert planned.decision.plan.storage_location == arena.path

    applied = contract.apply(arena, planned)
    assert [each.kind for each in applied.commits if each.kind == "rewrite"]
    assert contract.plan(arena, spec).decision.plan.status == "unchanged"
    assert arena.rows().sort_by("id").equals(make_rows(contract.rows))

    assert arena.backend.orphans(arena.table).files == ()
    location = arena.backend.observe(arena.table, ()).location
    assert location.startswith("s3") is ("-s3" in request.node.name)
    folder = f"{arena.data_folder}left/"
    arena.frame(make_rows(10), 1).write.parquet(f"{location}/{folder}")
    left = [orphan.path for orphan in arena.backend.orphans(arena.table).files]
    assert [path for path in left if path.endswith(".parquet")]
    assert all(path.startswith(folder) for path in left)

    with monkeypatch.context() as patched:
        delete_before_first_commit(arena, patched)
        failed = contract.apply(arena, contract.plan(arena, contract.spec(arena, ("a",))))
    assert {d.code for failure in failed.failures for d in failure.error.diagnostics} == {"ZL321"}
    assert arena.rows().num_rows == contract.rows - 5
    assert arena.backend.observe(arena.table, ()).files.live_rows.sum() == contract.rows - 5


@pytest.mark.long
@pytest.mark.parametrize("arena", ARENAS, indirect=True)
class TestContract(Contract):
    """Every test of the contract."""


@pytest.mark.long
def test_a_store_that_the_definition_does_not_name_is_explained(project: Project, runtime: SparkRuntime) -> None:
    """A catalog can lead to a table in any store. Spark has the jars only of those that the project declares."""
    properties = {key: str(project.catalogs["ice"].options[key]) for key in ("uri", "warehouse")}
    place = "undeclared://bucket/table/metadata/1.metadata.json"
    names = {"catalog_name": "ice", "table_namespace": "db", "table_name": "elsewhere"}
    with Session(SqlCatalog("ice", **properties).engine) as session:
        session.add(IcebergTables(**names, metadata_location=place, previous_metadata_location=place))
        session.commit()
    with pytest.raises(EngineError) as failed:
        IcebergJvm(runtime.session).load(TableName("ice", ("db",), "elsewhere"))
    (problem,) = failed.value.diagnostics
    assert problem.code == "ZL314"
    assert "declare the store of the table in warehouse or storage" in problem.hint
