"""Tables on S3, reached by the one definition of their catalog."""

from dataclasses import replace
from typing import Any

import pytest
from contract import OPTIONS, Contract, make_rows
from deltalake import write_deltalake
from spark.arenas import S3DeltaArena, S3IcebergArena
from support.runs import apply_planned

from zlayout.errors import Refused
from zlayout.formats.delta.write import jvm as log_store
from zlayout.formats.delta.write.jvm import DeltaJvm, require_exclusive_commits
from zlayout.session.plan import plan_table
from zlayout.session.results import Applied
from zlayout.spark.jvm import CONDITIONAL_PUT, use_conditional_puts
from zlayout.spec.client_options import deltalake_options


@pytest.mark.long  # tests/spark/test_catalogs.py plans, applies and conflicts on S3 each day
@pytest.mark.parametrize("arena", [S3DeltaArena, S3IcebergArena], ids=["delta", "iceberg"], indirect=True)
class TestContract(Contract):
    """Every test of the contract."""


@pytest.mark.parametrize("arena", [S3DeltaArena], ids=["delta"], indirect=True)
class TestDeltaCommits:
    def test_an_append_during_the_rewrite_is_no_conflict_and_not_replaced(
        self, arena: S3DeltaArena, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S3 refuses the first PUT of the commit, because another writer has the version, and Delta tries again."""
        contract = Contract()
        arena.create(make_rows(contract.rows), contract.files)
        planned = contract.plan(arena, contract.spec(arena))
        commit = DeltaJvm.commit

        def after_another(self: DeltaJvm, transaction: Any, actions: Any, operation: Any, tags: Any) -> int:
            storage = deltalake_options(arena.project.catalogs["s3lake"])
            rows = make_rows(10, start=contract.rows)
            write_deltalake(arena.path, rows, mode="append", storage_options=storage)
            return commit(self, transaction, actions, operation, tags)

        monkeypatch.setattr(DeltaJvm, "commit", after_another)
        applied = contract.apply(arena, planned)
        assert [commit.kind for commit in applied.commits] == ["rewrite"]
        assert arena.rows().num_rows == contract.rows + 10

    def test_delta_writes_commits_by_conditional_puts(self, arena: S3DeltaArena) -> None:
        arena.create(make_rows(10), 1)
        delta = DeltaJvm(arena.runtime.session, arena.path)
        assert delta.log_store(delta.log_folder()).getClass().getName() == CONDITIONAL_PUT
        before = _names(delta)
        require_exclusive_commits(delta, arena.path, "lake.db.table")
        assert _names(delta) == before

    def test_a_session_that_commits_in_another_way_is_refused(
        self, arena: S3DeltaArena, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        arena.create(make_rows(10), 1)
        delta = DeltaJvm(arena.runtime.session, arena.path)
        other = arena.runtime.session._jvm.io.delta.storage.S3SingleDriverLogStore(delta.hadoop_conf())
        monkeypatch.setattr(DeltaJvm, "log_store", lambda *_: other)
        with pytest.raises(Refused) as refused:
            require_exclusive_commits(delta, arena.path, "lake.db.table")
        assert [d.code for d in refused.value.diagnostics] == ["ZL220"]
        assert "S3SingleDriverLogStore" in refused.value.diagnostics[0].message

    def test_a_log_store_that_the_user_named_is_kept(
        self, arena: S3DeltaArena, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = arena.runtime.session
        conf = session._jvm.org.apache.spark.SparkEnv.get().conf()
        named = [("spark.delta.logStore.s3a.impl", "io.delta.storage.S3DynamoDBLogStore")]
        monkeypatch.setattr(type(session.sparkContext.getConf()), "getAll", lambda _: named)
        conf.remove("spark.delta.logStore.s3n.impl")
        use_conditional_puts(session)
        assert not conf.contains("spark.delta.logStore.s3n.impl")
        monkeypatch.undo()
        conf.remove("spark.delta.logStore.s3.impl").remove("spark.delta.logStore.s3a.impl")
        use_conditional_puts(session)
        assert conf.get("spark.delta.logStore.s3n.impl") == CONDITIONAL_PUT

    def test_a_store_that_ignores_the_condition_is_refused(
        self, arena: S3DeltaArena, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        arena.create(make_rows(10), 1)
        delta = DeltaJvm(arena.runtime.session, arena.path)
        store = delta.log_store(delta.log_folder())

        class Ignoring:
            def getClass(self) -> Any:
                return store.getClass()

            def write(self, path: Any, lines: Any, _overwrite: bool, conf: Any) -> None:
                store.write(path, lines, True, conf)

        before = _names(delta)
        monkeypatch.setattr(DeltaJvm, "log_store", lambda *_: Ignoring())
        with pytest.raises(Refused) as refused:
            require_exclusive_commits(delta, arena.path, "lake.db.table")
        assert [d.code for d in refused.value.diagnostics] == ["ZL220"]
        assert "If-None-Match" in refused.value.diagnostics[0].hint
        assert _names(delta) == before


@pytest.mark.parametrize("arena", [S3DeltaArena], ids=["delta"], indirect=True)
class TestManyTables:
    """Two tables of one catalog, each rewritten in several parts."""

    def tables(self, arena: S3DeltaArena) -> list[S3DeltaArena]:
        second = replace(arena, table=replace(arena.table, name=f"{arena.table.name}_second"))
        second.backend = arena.backend  # as in a run, where a catalog has one
        for each in (arena, second):
            each.create(make_rows(Contract.rows), 2)
        return [arena, second]

    def apply(self, tables: list[S3DeltaArena]) -> list[Applied]:
        contract = Contract()
        specs = [contract.spec(each, max_group_size=1) for each in tables]
        planned = [plan_table(spec, each.backend, OPTIONS) for spec, each in zip(specs, tables, strict=True)]
        return [apply_planned(plan, each.backend) for plan, each in zip(planned, tables, strict=True)]

    def test_exclusive_commits_are_checked_once_for_each_table_of_a_run(
        self, arena: S3DeltaArena, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables = self.tables(arena)
        checked, check = [], log_store._not_exclusive

        def counted(delta: DeltaJvm, *arguments: Any) -> str:
            checked.append(delta.location)
            return check(delta, *arguments)

        monkeypatch.setattr(log_store, "_not_exclusive", counted)
        done = self.apply(tables)
        assert [applied.error for applied in done] == [None, None]
        assert [len(applied.commits) for applied in done] == [2, 2]
        assert checked == [each.path for each in tables]

    def test_each_refused_table_has_one_error_and_no_commit(
        self, arena: S3DeltaArena, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables = self.tables(arena)
        monkeypatch.setattr(log_store, "_not_exclusive", lambda *_: "the object store ignores the condition")
        done = self.apply(tables)
        assert all(isinstance(applied.error, Refused) for applied in done)
        problems = [diagnostic for applied in done if applied.error for diagnostic in applied.error.diagnostics]
        assert [problem.code for problem in problems] == ["ZL220", "ZL220"]
        assert [str(each.table) in problem.message for each, problem in zip(tables, problems, strict=True)] == [
            True
        ] * 2
        assert [(applied.commits, applied.failures) for applied in done] == [([], []), ([], [])]


def _names(delta: DeltaJvm) -> list[str]:
    folder = delta.log_folder()
    return sorted(str(f.getPath().getName()) for f in folder.getFileSystem(delta.hadoop_conf()).listStatus(folder))
