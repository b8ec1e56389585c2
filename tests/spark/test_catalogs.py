"""Tables of both formats in each catalog, here and on S3: plan, apply, empty plan, no file left over, conflict."""

import pytest
from contract import OPTIONS, Contract, make_rows
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from spark.arenas import DeltaArena, S3DeltaArena, SparkArena, delete_before_first_commit
from spark.catalogs import PAIRS, NessieArena
from spark.named import NAMED, NamedDeltaArena
from sqlalchemy.orm import Session
from support.unreferenced import unreferenced

from zlayout.errors import EngineError, Refused
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.session.plan import as_plan
from zlayout.session.plan_file import check_saved
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName

DELTA = {"delta": DeltaArena, "delta-s3": S3DeltaArena} | NAMED
# Servers that make servers-long brings, what nobody has (Glue with tables on local disk), and what other tests try too.
# Of a catalog with tables on local disk and on S3, `make test` tries the latter.
LONG = (
    *("mysql", "mysql-s3", "nessie-s3", "delta-glue", "delta", "delta-s3", "sqlite", "sqlite-s3"),
    *("delta-hive", "delta-hive-s3", "postgres", "rest", "hive", "glue"),
)

# SQLite and Delta by path have the whole contract in test_contract.py and test_s3.py, Delta by name in its own file.
ARENAS = [pytest.param(k, id=pair) for pair, k in PAIRS.items() if k.has_history and not pair.startswith("sqlite")]


@pytest.mark.parametrize(
    "arena",
    [pytest.param(k, id=pair, marks=[pytest.mark.long] * (pair in LONG)) for pair, k in (PAIRS | DELTA).items()],
    indirect=True,
)
def test_plan_apply_empty_plan_and_conflict(
    arena: SparkArena, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """One test for each pair, because a table in a service takes seconds."""
    contract = Contract()
    arena.create(make_rows(contract.rows), contract.files)
    spec = contract.spec(arena)
    planned = contract.plan(arena, spec)
    assert planned.plan.status == "changes"
    if isinstance(arena, NamedDeltaArena):
        assert planned.plan.storage_location == arena.path

    applied = contract.apply(arena, planned)
    assert [each.kind for each in applied.commits if each.kind == "rewrite"]
    assert contract.plan(arena, spec).plan.status == "unchanged"
    assert arena.rows().sort_by("id").equals(make_rows(contract.rows))

    location = arena.backend.observe(arena.table, ()).location
    assert location.startswith("s3") is ("-s3" in request.node.name)
    if arena.has_history:
        check_unreferenced(arena, location)

    with monkeypatch.context() as patched:
        delete_before_first_commit(arena, patched)
        late = contract.apply(arena, contract.plan(arena, contract.spec(arena, ("a",))))
    assert not late.failures
    assert sum(commit.rebased for commit in late.commits) == 5
    assert arena.rows().num_rows == contract.rows - 5
    assert arena.backend.observe(arena.table, ()).files.live_rows.sum() == contract.rows - 5


def check_unreferenced(arena: SparkArena, location: str) -> None:
    """The rewrite has left no file that no version refers to. Those that are written here are found."""
    catalog = arena.project.catalogs[arena.table.catalog]
    assert unreferenced(catalog, arena.table) == []
    folder = f"{arena.data_folder}left/"
    arena.frame(make_rows(10), 1).write.parquet(f"{location}/{folder}")
    left = unreferenced(catalog, arena.table)
    assert left
    assert all(path.startswith(folder) for path in left)


@pytest.mark.long
@pytest.mark.parametrize("arena", ARENAS, indirect=True)
class TestContract(Contract):
    """Every test of the contract."""


@pytest.mark.long
@pytest.mark.parametrize("arena", [NessieArena], ids=["nessie-s3"], indirect=True)
class TestContractWithoutHistory(Contract):
    """What needs an earlier snapshot is refused; everything else is as with other catalogs."""

    def test_a_rollback_returns_the_files_and_the_plan_and_keeps_an_append(self, arena: SparkArena) -> None:
        arena.create(make_rows(self.rows), self.files)
        self.apply(arena, self.plan(arena, self.spec(arena)))
        with pytest.raises(Refused, match="ZL233"):
            arena.backend.undo(arena.table, None)

    def test_saved_plan_is_refused_after_a_delete_and_fine_after_an_append(self, arena: SparkArena) -> None:
        arena.create(make_rows(self.rows), self.files)
        spec = self.spec(arena)
        saved = as_plan([self.plan(arena, spec)]).tables[0]
        check_saved(saved, self.plan(arena, spec), arena.backend, OPTIONS, "strict")
        arena.append(make_rows(10, start=self.rows))
        with pytest.raises(Refused, match="ZL203"):
            check_saved(saved, self.plan(arena, spec), arena.backend, OPTIONS, "compatible")


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
    assert "declare the storage of the table in warehouse or storage" in problem.hint
