"""Engine zlayout on Delta: what the commit keeps, what it refuses, and how concurrent changes are treated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from support.builders import make_layout

from zlayout.errors import CommitConflict, EngineError, Refused
from zlayout.formats.base import Commit, Group, GroupFailed, Notice, Progress, Work
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.delta.write import source_files
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.planner.requirements import PartitioningIs, PropertyIs, TableIs
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName, ZorderColumn
from zlayout.table.state import PartitionField, TableState

LAYOUT = make_layout("a", "b", target_size=20_000)
FEATURES = (
    "'delta.columnMapping.mode'='name','delta.enableDeletionVectors'='true','delta.enableRowTracking'='true',"
    "'delta.enableInCommitTimestamps'='true','delta.enableChangeDataFeed'='true'"
)
ALL = "id, a, b, m['k'], p, _metadata.row_id, _metadata.row_commit_version"


@pytest.fixture(scope="module")
def backend(project: Project, runtime: SparkRuntime) -> DeltaBackend:
    return DeltaBackend(project.catalogs["lake"], runtime)


def silent(_: Progress) -> None:
    """No progress wanted."""


def work_for(table: TableName, state: TableState, files: int = 4, **changes: Any) -> Work:
    groups = tuple(
        Group(f"g{at}", state.files.take(np.flatnonzero(state.files.partition == at)), files)
        for at in range(len(state.files.partitions))
    )
    settings: dict[str, Any] = {"properties": (), "partition_by": None, "groups": groups, "covers_table": True}
    return Work(table, LAYOUT, f"run-{table.name}", state.version, **(settings | changes))


def rows(spark: SparkSession, path: Path, where: str = "true") -> list[Any]:
    return sorted(map(tuple, spark.sql(f"select {ALL} from delta.`{path}` where {where}").collect()), key=repr)


def append(spark: SparkSession, path: Path, start: int, stop: int) -> None:
    spark.range(start, stop, 1, 2).selectExpr(
        "id",
        "cast(id * 7919 % 1009 as int) a",
        "cast(id * 104729 % 997 as int) b",
        "map('k', cast(id as int)) m",
        "case when id % 2 = 0 then 'x y/%ü+=' end p",
    ).write.format("delta").mode("append").save(str(path))


def table_with_everything(spark: SparkSession, path: Path, count: int, features: str = FEATURES) -> None:
    columns = "id bigint, a int, b int, m map<string,int>, p string"
    spark.sql(f"create table delta.`{path}` ({columns}) using delta partitioned by (p) tblproperties({features})")
    append(spark, path, 0, count)
    spark.sql(f"delete from delta.`{path}` where id = 7")


def test_one_key_larger_than_two_files_is_told(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    spark.range(500).selectExpr("id", "1 a", "if(id < 400, 1, id) b").write.format("delta").save(str(delta_path))
    done = list(backend.execute(work_for(delta_table, backend.observe(delta_table, ()), 10), silent))
    assert [d.diagnostic.code for d in done if isinstance(d, Notice)] == ["ZL402"]
    assert str(delta_table) in str(done)


def during_commit(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Let `change` happen right before the first commit is sent."""
    commit: Callable[..., int] = DeltaJvm.commit
    waiting = [change]

    def commit_after_it(self: DeltaJvm, *arguments: Any) -> int:
        while waiting:
            waiting.pop()()
        return commit(self, *arguments)

    monkeypatch.setattr(DeltaJvm, "commit", commit_after_it)


def test_one_commit_for_all_groups_keeps_rows_ids_and_a_concurrent_append(
    spark: SparkSession,
    backend: DeltaBackend,
    delta_table: TableName,
    delta_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table_with_everything(spark, delta_path, 2000)
    before, state = rows(spark, delta_path), backend.observe(delta_table, ("a", "b"))
    during_commit(monkeypatch, lambda: append(spark, delta_path, 5000, 5010))
    (commit,) = backend.execute(work_for(delta_table, state, verify="full"), silent)
    assert isinstance(commit, Commit)
    after = backend.observe(delta_table, ("a", "b"))
    assert (commit.kind, commit.groups, commit.rows) == ("rewrite", ("g0", "g1"), 1999)
    assert (commit.files_removed, commit.files_added) == (len(state.files), 8)
    assert commit.bytes_removed == int(state.files.bytes.sum())
    laid_out = np.flatnonzero(after.files.layout >= 0)
    assert commit.bytes_added == int(after.files.bytes[laid_out].sum())
    assert len(laid_out) == 8
    assert after.files.layouts[0].settings == LAYOUT.settings()
    assert len({(g, p) for g, p in zip(after.files.group, after.files.partition, strict=True) if g >= 0}) == 2
    assert rows(spark, delta_path, "id < 5000") == before
    assert spark.sql(f"select count(*) n from delta.`{delta_path}` where id >= 5000").collect()[0].n == 10
    assert after.files.deleted.sum() == 0
    changes = spark.read.option("readChangeFeed", "true").option("startingVersion", commit.version)
    assert changes.format("delta").load(str(delta_path)).count() == 0

    for column, whole in (("a", 1009), ("b", 997)):
        b = after.files.take(laid_out).bounds[column]
        widths = np.array(b.upper.to_pylist()) - np.array(b.lower.to_pylist())
        assert widths.max() < 0.6 * whole, "four disjoint boxes a partition: each spans about half of each column"
        assert b.lower.null_count == 0

    spark.sql(f"alter table delta.`{delta_path}` set tblproperties ('delta.checkpointInterval' = '1')")
    spark.sql(f"delete from delta.`{delta_path}` where id = 8")
    assert list((delta_path / "_delta_log").glob("*.checkpoint*.parquet")), "a checkpoint could be written"
    again = backend.observe(delta_table, ())
    assert (again.files.layout >= 0).sum() == 8
    assert again.files.deleted.sum() == 1


def test_a_concurrent_delete_drops_just_the_group_it_touched(
    spark: SparkSession,
    backend: DeltaBackend,
    delta_table: TableName,
    delta_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table_with_everything(spark, delta_path, 600)
    before, state = rows(spark, delta_path), backend.observe(delta_table, ())
    named = next(at for at, p in enumerate(state.files.partitions) if p.values[0] is not None)
    during_commit(monkeypatch, lambda: spark.sql(f"delete from delta.`{delta_path}` where id = 10"))
    outcomes = list(backend.execute(work_for(delta_table, state), silent))
    failed = next(o for o in outcomes if isinstance(o, GroupFailed))
    done = next(o for o in outcomes if isinstance(o, Commit))
    assert len(outcomes) == 2
    assert failed.groups == (f"g{named}",)
    assert isinstance(failed.error, CommitConflict)
    assert done.groups == (f"g{1 - named}",)
    assert rows(spark, delta_path) == [row for row in before if row[0] != 10]


def test_files_changed_since_the_plan_are_left_alone(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    table_with_everything(spark, delta_path, 200)
    state = backend.observe(delta_table, ())
    spark.sql(f"delete from delta.`{delta_path}` where id in (10, 11)")
    (failed,) = backend.execute(work_for(delta_table, state), silent)
    assert isinstance(failed, GroupFailed)
    assert (failed.groups, failed.error.diagnostics[0].code) == (("g0", "g1"), "ZL320")
    assert backend.observe(delta_table, ()).version == state.version + 1


def test_a_new_file_that_vanished_before_the_commit_stops_it(
    spark: SparkSession,
    backend: DeltaBackend,
    delta_table: TableName,
    delta_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark.sql(f"create table delta.`{delta_path}` using delta as select id, id * 3 % 50 a, 2 b from range(50)")
    state = backend.observe(delta_table, ())
    write: Callable[..., list[Any]] = DeltaJvm.write_files

    def vanish(self: DeltaJvm, transaction: Any, frame: Any, *, optimize: bool) -> list[Any]:
        written = write(self, transaction, frame, optimize=optimize)
        Path(str(delta_path), written[0].path()).unlink()
        return written

    (commit,) = backend.execute(work_for(delta_table, state, files=2), silent)
    assert isinstance(commit, Commit), "a table without any feature works"
    assert (commit.rows, commit.files_added) == (50, 2)
    assert sorted(r.id for r in spark.sql(f"select id from delta.`{delta_path}`").collect()) == list(range(50))
    state = backend.observe(delta_table, ())

    monkeypatch.setattr(DeltaJvm, "write_files", vanish)
    with pytest.raises(EngineError, match=r"ZL316 .*is gone"):
        list(backend.execute(work_for(delta_table, state, files=2), silent))
    assert backend.observe(delta_table, ()).version == state.version


def test_one_conflict_costs_a_few_commits_and_files_are_looked_at_before_each(
    spark: SparkSession,
    backend: DeltaBackend,
    delta_table: TableName,
    delta_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight groups, one of them changed meanwhile: 8, 4, 2, 1, 1, 2, 4 groups in a commit, 3 of which succeed."""
    spark.sql(f"create table delta.`{delta_path}` (id bigint, a int, b int, p int) using delta partitioned by (p)")
    source = spark.range(0, 80, 1, 1).selectExpr("id", "cast(id as int) a", "2 b", "cast(id % 8 as int) p")
    source.write.format("delta").mode("append").save(str(delta_path))
    state = backend.observe(delta_table, ())
    work = work_for(delta_table, state, files=1)
    values = [state.files.partitions[at].values[0] for at in range(8)]
    sent, looked_at = [], []
    send, require = DeltaJvm.commit, DeltaJvm.require_files

    def count(self: DeltaJvm, transaction: Any, actions: Any, *rest: Any) -> int:
        if not sent:
            spark.sql(f"delete from delta.`{delta_path}` where id = {values[0]}")
        sent.append(actions.size() // 2)
        return send(self, transaction, actions, *rest)

    def look(self: DeltaJvm, files: Any) -> None:
        looked_at.append(len(files))
        require(self, files)

    monkeypatch.setattr(DeltaJvm, "commit", count)
    monkeypatch.setattr(DeltaJvm, "require_files", look)
    outcomes = list(backend.execute(work, silent))
    assert sent == looked_at == [8, 4, 2, 1, 1, 2, 4]
    assert [o.groups for o in outcomes if isinstance(o, GroupFailed)] == [("g0",)]
    assert [len(o.groups) for o in outcomes if isinstance(o, Commit)] == [1, 2, 4]
    kept = [row.id for row in spark.sql(f"select id from delta.`{delta_path}` order by id").collect()]
    assert kept == [id for id in range(80) if id != values[0]]


def test_a_table_that_became_clustered_after_the_check_is_left_alone(
    spark: SparkSession,
    backend: DeltaBackend,
    delta_table: TableName,
    delta_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark.sql(f"create table delta.`{delta_path}` using delta as select id, id a, 2 b from range(0, 10, 1, 1)")
    state = backend.observe(delta_table, ())
    read = DeltaJvm.snapshot

    def after_cluster_by(self: DeltaJvm) -> Any:
        monkeypatch.undo()
        spark.sql(f"alter table delta.`{delta_path}` cluster by (a)")
        return read(self)

    for changes in ({}, {"partition_by": (PartitionField("b"),)}):
        monkeypatch.setattr(DeltaJvm, "snapshot", after_cluster_by)
        monkeypatch.setattr(DeltaBackend, "_checked", lambda *_: state)
        with pytest.raises(Refused, match="ZL211"):
            list(backend.execute(work_for(delta_table, state, **changes), silent))
    operations = [row.operation for row in spark.sql(f"describe history delta.`{delta_path}`").collect()]
    assert set(operations) == {"CREATE TABLE AS SELECT", "CLUSTER BY"}


def test_pinned_files_are_found_with_their_deletion_vectors_or_not_at_all(
    spark: SparkSession,
    backend: DeltaBackend,
    delta_table: TableName,
    delta_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a filter and, as for many files, by a join."""
    table_with_everything(spark, delta_path, 40, "'delta.enableDeletionVectors'='true'")
    state, delta = backend.observe(delta_table, ()), DeltaJvm(spark, str(delta_path))
    groups = work_for(delta_table, state).groups
    snapshot = delta.snapshot()
    spark.sql(f"delete from delta.`{delta_path}` where id = 9")
    for few in (1000, 0):
        monkeypatch.setattr(source_files, "_FEW", few)
        found = source_files.pinned_files(delta, snapshot, "t", groups[1:], len(state.files))
        assert set(found.by_path) == set(groups[1].files.path.to_pylist())
        whole = source_files.pinned_files(delta, snapshot, "t", groups, len(state.files))
        assert len(whole.by_path) == len(state.files)
        with pytest.raises(CommitConflict, match="ZL320"):
            source_files.pinned_files(delta, delta.snapshot(), "t", groups, len(state.files))


def test_odd_characters_in_folder_names(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    """Without column mapping the partition values stand in the paths, encoded twice in the log."""
    table_with_everything(spark, delta_path, 60, "'delta.enableDeletionVectors'='true'")
    assert any("%" in path.name for path in delta_path.iterdir())
    (commit,) = backend.execute(work_for(delta_table, backend.observe(delta_table, ()), files=1), silent)
    assert isinstance(commit, Commit)
    assert (commit.files_added, commit.rows) == (2, 59)
    assert spark.sql(f"select count(*) n from delta.`{delta_path}` where p = 'x y/%ü+='").collect()[0].n == 30


def test_columns_whose_names_have_dots(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    columns = "id `a.b`, named_struct('x.y', cast(id * 7919 % 1009 as int), 'z', 1) s"
    spark.sql(f"create table delta.`{delta_path}` using delta as select {columns} from range(0, 2000, 1, 4)")
    layout = replace(LAYOUT, columns=(ZorderColumn("`a.b`"), ZorderColumn("s.`x.y`")))
    work = replace(work_for(delta_table, backend.observe(delta_table, ())), layout=layout)
    assert any(isinstance(outcome, Commit) for outcome in backend.execute(work, silent))
    assert spark.sql(f"select sum(`a.b`), sum(s.`x.y`) from delta.`{delta_path}`").collect()[0][0] == 1999 * 1000
    assert (backend.observe(delta_table, ()).files.layout >= 0).all()


def test_a_column_may_have_the_name_of_the_metadata(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    """As tables have that took over what files a row came from."""
    columns = "id a, id * 7919 % 1009 b, named_struct('file_path', 'here', 'row_index', 1L) _metadata"
    spark.sql(f"create table delta.`{delta_path}` using delta as select {columns} from range(0, 2000, 1, 4)")
    assert any(
        isinstance(o, Commit) for o in backend.execute(work_for(delta_table, backend.observe(delta_table, ())), silent)
    )
    assert spark.sql(f"select sum(a), max(_metadata.file_path) from delta.`{delta_path}`").collect()[0] == (
        1999000,
        "here",
    )
    assert (backend.observe(delta_table, ()).files.layout >= 0).all()


def test_a_table_that_took_the_place_of_the_planned_one_is_left_alone(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    append(spark, delta_path, 0, 100)
    state = backend.observe(delta_table, ())
    work = replace(
        work_for(delta_table, state, properties=(("note", "zlayout"),), groups=()),
        requirements=(TableIs("another"),),
        version=0,
    )
    with pytest.raises(CommitConflict, match=f"ZL320 .* expected the table another, found {state.table_id}"):
        list(backend.execute(work, silent))
    assert backend.observe(delta_table, ()).version == state.version


def test_row_ids_that_come_meanwhile_are_kept(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path, monkeypatch: Any
) -> None:
    """Delta takes the new property for one that conflicts with nothing, and would give all rows new ids."""
    append(spark, delta_path, 0, 100)
    work = work_for(delta_table, backend.observe(delta_table, ()))
    require_files = DeltaJvm.require_files

    def after_an_upgrade(self: DeltaJvm, files: Any) -> None:
        require_files(self, files)
        spark.sql(f"alter table delta.`{delta_path}` set tblproperties ('delta.enableRowTracking' = 'true')")

    monkeypatch.setattr(DeltaJvm, "require_files", after_an_upgrade)
    outcomes = list(backend.execute(work, silent))
    assert [type(outcome) for outcome in outcomes] == [GroupFailed] * len(work.groups)
    assert len(outcomes) > 0


def test_a_table_that_becomes_clustered_as_it_is_committed_is_left_alone(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path, monkeypatch: Any
) -> None:
    """Delta by itself would let it pass."""
    spark.sql(f"create table delta.`{delta_path}` using delta as select id, id a, 2 b from range(0, 10, 1, 1)")
    work = work_for(delta_table, backend.observe(delta_table, ()))
    during_commit(monkeypatch, lambda: spark.sql(f"alter table delta.`{delta_path}` cluster by (a)"))
    (outcome,) = backend.execute(work, silent)
    assert isinstance(outcome, GroupFailed)
    assert isinstance(outcome.error, CommitConflict)
    operations = [row.operation for row in spark.sql(f"describe history delta.`{delta_path}`").collect()]
    assert set(operations) == {"CREATE TABLE AS SELECT", "CLUSTER BY"}


def test_a_partitioning_or_setting_that_somebody_else_changed_stays(
    spark: SparkSession, backend: DeltaBackend, delta_table: TableName, delta_path: Path
) -> None:
    append(spark, delta_path, 0, 100)
    state = backend.observe(delta_table, ())
    by_p = {"partition_by": (PartitionField("p"),), "requirements": (PartitioningIs(()),), "groups": ()}
    frame = spark.read.format("delta").load(str(delta_path))
    overwrite = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    overwrite.partitionBy("b").save(str(delta_path))
    with pytest.raises(CommitConflict, match=r"ZL320 .* is partitioned by b since the plan"):
        list(backend.execute(work_for(delta_table, state, **by_p), silent))
    name = "delta.dataSkippingNumIndexedCols"
    spark.sql(f"alter table delta.`{delta_path}` set tblproperties ('{name}' = '40')")
    wanted = {"properties": ((name, "4"),), "groups": ()}
    for before in (None, "32"):
        with pytest.raises(CommitConflict, match=f"ZL320 .* has {name} = 40 since the plan"):
            list(
                backend.execute(
                    work_for(delta_table, state, **wanted, requirements=(PropertyIs(name, before),)), silent
                )
            )
    assert backend.observe(delta_table, ()).properties[name] == "40"
    for before in ("40", "4"):
        (done,) = backend.execute(
            work_for(delta_table, state, **wanted, requirements=(PropertyIs(name, before),)), silent
        )
        assert isinstance(done, Commit)
        assert backend.observe(delta_table, ()).properties[name] == "4"
