"""Engine `zlayout` on Iceberg: what is committed, and what a concurrent change does to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from spark.iceberg_runs import ids, lineage, race, work

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, Refused
from zlayout.formats.base import Commit, GroupFailed, Notice
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.read.history import run_commits
from zlayout.formats.iceberg.write import commit, staging
from zlayout.formats.iceberg.write.commit import commit_groups, write_groups
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.formats.iceberg.write.scan import tasks_of
from zlayout.formats.iceberg.write.staging import staged
from zlayout.planner.requirements import PartitioningIs, PropertyIs, TableIs
from zlayout.planner.work import Group
from zlayout.spark.jvm import session_conf
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName
from zlayout.table.state import PartitionField


@pytest.fixture
def backend(project: Project, runtime: SparkRuntime) -> IcebergBackend:
    return IcebergBackend(project.catalogs["ice"], runtime)


def create(spark: SparkSession, name: TableName, version: int, partitioned: str = "") -> None:
    spark.sql(
        f"create table {name} (id bigint, a bigint, b int, p int) using iceberg {partitioned} "
        f"tblproperties ('format-version'='{version}', 'write.delete.mode'='merge-on-read', "
        "'write.update.mode'='merge-on-read')"
    )
    for number in range(3):
        rows = spark.range(number * 200, number * 200 + 200, 1, 1)
        rows.selectExpr("id", "id * 7919 % 600 a", "cast(id % 60 as int) b", "cast(id % 2 as int) p").writeTo(
            str(name)
        ).append()
    spark.sql(f"delete from {name} where id % 10 = 3")


@pytest.mark.parametrize("version", [2, 3])
def test_rewrite_applies_deletes_and_keeps_lineage(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName, version: int
) -> None:
    create(spark, iceberg_table, version)
    rows = sorted(map(tuple, spark.table(str(iceberg_table)).collect()))
    born = lineage(spark, iceberg_table) if version == 3 else {}
    state = backend.observe(iceberg_table, [])
    (done,) = backend.execute(work(state, iceberg_table, verify="full"), lambda _: None)
    assert isinstance(done, Commit)
    after = backend.observe(iceberg_table, ["a", "b"])
    assert done.groups == ("g0",)
    assert (done.files_removed, done.files_added, done.rows) == (3, 2, 540)
    assert sorted(map(tuple, spark.table(str(iceberg_table)).collect())) == rows
    assert after.files.rows.tolist() == [270, 270]
    assert after.files.deleted.sum() == 0
    assert set(after.files.layout) == {0}
    assert after.version == done.version
    if version == 3:
        assert lineage(spark, iceberg_table) == born
    assert list(backend.execute(work(after, iceberg_table, groups=()), lambda _: None)) == []


@pytest.mark.parametrize("version", [2, 3])
def test_concurrent_changes(
    spark: SparkSession, project: Project, backend: IcebergBackend, iceberg_table: TableName, version: int
) -> None:
    create(spark, iceberg_table, version)
    name = ".".join(iceberg_table.identifier)
    expected = ids(spark, iceberg_table)

    compaction = f"call ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    rivals = [
        (f"delete from {iceberg_table} where id = 5", 5),
        (f"update {iceberg_table} set b = -1 where id = 7", None),
        (compaction, None),
        (f"delete from {iceberg_table} where id = 8", 8),
    ]
    for number, (statement, deleted) in enumerate(rivals):
        mode = "copy-on-write" if number == 3 else "merge-on-read"
        spark.sql(f"alter table {iceberg_table} set tblproperties ('write.delete.mode'='{mode}')")
        state = backend.observe(iceberg_table, [])
        (failed,) = race(spark, project, iceberg_table, state, lambda: spark.sql(statement))  # noqa: B023
        assert isinstance(failed, GroupFailed), statement
        assert failed.error.diagnostics[0].code == "ZL321"
        expected = [i for i in expected if i != deleted]
        assert ids(spark, iceberg_table) == expected
        assert -1 in backend.observe(iceberg_table, []).files.layout

    state = backend.observe(iceberg_table, [])
    (done,) = race(
        spark, project, iceberg_table, state, lambda: spark.sql(f"insert into {iceberg_table} values (9999, 1, 1, 1)")
    )
    assert isinstance(done, Commit)
    assert ids(spark, iceberg_table) == [*expected, 9999]
    assert sorted(set(backend.observe(iceberg_table, []).files.layout)) == [-1, 0]


def test_only_the_group_in_conflict_is_dropped(
    spark: SparkSession, project: Project, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, 2, "partitioned by (p)")
    state = backend.observe(iceberg_table, [])
    odd = next(f"g{i}" for i, p in enumerate(state.files.partitions) if p.values == (1,))
    even = next(f"g{i}" for i, p in enumerate(state.files.partitions) if p.values == (0,))
    before = ids(spark, iceberg_table)
    done = race(spark, project, iceberg_table, state, lambda: spark.sql(f"delete from {iceberg_table} where id = 5"))
    assert [d.groups for d in done if isinstance(d, GroupFailed)] == [(odd,)]
    assert [d.groups for d in done if isinstance(d, Commit)] == [(even,)]
    assert ids(spark, iceberg_table) == [i for i in before if i != 5]


def test_a_new_partitioning_is_written(spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName) -> None:
    create(spark, iceberg_table, 2)
    before = ids(spark, iceberg_table)
    state = backend.observe(iceberg_table, [])
    wanted = (PartitionField("p"), PartitionField("id", "bucket[2]"))
    commits = list(backend.execute(work(state, iceberg_table, partition_by=wanted), lambda _: None))
    assert [type(c) for c in commits] == [Commit, Commit]
    after = backend.observe(iceberg_table, [])
    assert sorted(p.values for p in after.files.partitions) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {p.spec_id for p in after.files.partitions} == {after.spec_id}
    assert ids(spark, iceberg_table) == before


def test_a_new_partitioning_by_odd_columns_is_written(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    spark.sql(f"create table {iceberg_table} (a bigint, b int, `p.q` int, s struct<t: date>) using iceberg")
    IcebergJvm(spark).load(iceberg_table).updateSchema().addColumn("u", uuid_type(spark)).commit()
    spark.sql(f"refresh table {iceberg_table}")
    rows = spark.range(200).selectExpr(
        "id a",
        "cast(id % 60 as int) b",
        "cast(id % 2 as int) `p.q`",
        "named_struct('t', date_add(date'2026-01-01', cast(id % 3 as int))) s",
        "if(id % 9 = 0, null, concat('00000000-0000-0000-00', substr(md5(cast(id as string)), 1, 2), "
        "'-', substr(md5(cast(id as string)), 3, 12))) u",
    )
    rows.writeTo(str(iceberg_table)).append()
    before = sorted(map(str, spark.table(str(iceberg_table)).collect()))
    state = backend.observe(iceberg_table, [])
    wanted = (PartitionField("p.q"), PartitionField("s.t", "day"), PartitionField("u", "bucket[4]"))
    list(backend.execute(work(state, iceberg_table, partition_by=wanted), lambda _: None))
    after = backend.observe(iceberg_table, [])
    assert after.partition_fields == wanted
    # four buckets for each p and day, and the nulls, all of one day
    assert len(after.files.partitions) == 2 * 3 * 4 + 2
    assert {p.spec_id for p in after.files.partitions} == {after.spec_id}
    spark.sql(f"refresh table {iceberg_table}")
    assert sorted(map(str, spark.table(str(iceberg_table)).collect())) == before


def uuid_type(spark: SparkSession) -> Any:
    return IcebergJvm(spark).iceberg.types.Types.UUIDType.get()


def test_a_partitioning_that_somebody_else_changed_stays(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, 2)
    state = backend.observe(iceberg_table, [])
    spark.sql(f"alter table {iceberg_table} add partition field b")
    wanted = work(state, iceberg_table, partition_by=(PartitionField("p"),), requirements=(PartitioningIs(()),))
    with pytest.raises(CommitConflict, match=r"ZL320 .* is partitioned by b since the plan"):
        list(backend.execute(wanted, lambda _: None))
    assert backend.observe(iceberg_table, []).partition_fields == (PartitionField("b"),)
    spark.sql(f"alter table {iceberg_table} set tblproperties ('team' = 'b')")
    wanted = replace(
        wanted, properties=(("team", "x"),), requirements=(PartitioningIs(("b",)), PropertyIs("team", None))
    )
    with pytest.raises(CommitConflict, match=r"ZL320 .* has team = b since the plan"):
        list(backend.execute(wanted, lambda _: None))
    assert backend.observe(iceberg_table, []).partition_fields == (PartitionField("b"),)
    (settings, done) = backend.execute(
        replace(wanted, requirements=(PartitioningIs(("b",)), PropertyIs("team", "b"))), lambda _: None
    )
    assert (settings.kind, done.kind) == ("settings", "rewrite")


class Answerless:
    """A transaction that is committed, after which no answer arrives but `error`."""

    def __init__(self, transaction: Any, error: Exception) -> None:
        self._transaction, self._error = transaction, error

    def commitTransaction(self) -> None:
        self._transaction.commitTransaction()
        raise self._error


def test_a_commit_without_an_answer_is_found_by_its_run(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName, monkeypatch: Any
) -> None:
    create(spark, iceberg_table, 2)
    prepared = commit._prepared
    for error in (ConnectionResetError("no answer"), CommitConflict.of("ZL321", "Iceberg tried a second time")):

        def answerless(*arguments: Any) -> Any:
            transaction, snapshot = prepared(*arguments)
            return Answerless(transaction, error), snapshot  # noqa: B023

        state = backend.observe(iceberg_table, [])
        monkeypatch.setattr(commit, "_prepared", answerless)
        run_id = f"run-{type(error).__name__}"
        (done,) = backend.execute(work(state, iceberg_table, run_id=run_id), lambda _: None)
        assert isinstance(done, Commit)
        assert done.version == backend.observe(iceberg_table, []).version != state.version
        assert (done.groups, done.files_removed, done.files_added) == (("g0",), len(state.files), 2)

    monkeypatch.setattr(commit, "run_commits", lambda *_: 1 / 0)
    unknown = work(backend.observe(iceberg_table, []), iceberg_table, run_id="lost")
    with pytest.raises(CommitUnknown, match=r"ZL331 .*run lost .*cannot be read"):
        list(backend.execute(unknown, lambda _: None))


def test_known_commit_equals_what_a_fresh_reader_finds(
    spark: SparkSession, project: Project, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, 3, "partitioned by (p)")
    wanted = work(backend.observe(iceberg_table, []), iceberg_table)
    (told,) = backend.execute(wanted, lambda _: None)
    (found,) = run_commits(project.catalogs["ice"], iceberg_table, wanted.run_id)
    assert told == found.commit(wanted.groups)


def test_full_verification_reads_odd_names_and_no_file_at_all(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    spark.sql(
        f"create table {iceberg_table} (`order id` bigint, a bigint, b int, u binary) using iceberg "
        "tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    spark.sql(f"insert into {iceberg_table} select /*+ coalesce(1) */ id, id, id % 7, x'00ff' from range(100)")
    spark.sql(f"delete from {iceberg_table} where a < 10")
    (some,) = backend.execute(work(backend.observe(iceberg_table, []), iceberg_table, verify="full"), lambda _: None)
    assert isinstance(some, Commit)
    assert (some.files_removed, some.rows) == (1, 90)

    spark.sql(f"insert into {iceberg_table} select /*+ coalesce(1) */ id, id, id % 7, x'00ff' from range(10)")
    spark.sql(f"delete from {iceberg_table} where a % 100 < 10")  # by position: bounds cannot tell that all go
    state = backend.observe(iceberg_table, [])
    fresh = Group("fresh", state.files.take(np.flatnonzero(state.files.deleted == 10)), 1)
    wanted = work(state, iceberg_table, groups=(fresh,), covers_table=False, verify="full", run_id="empty")
    (none,) = backend.execute(wanted, lambda _: None)
    assert isinstance(none, Commit)
    assert (none.files_removed, none.files_added, none.rows) == (1, 0, 0)
    assert sorted(r.a for r in spark.table(str(iceberg_table)).select("a").collect()) == list(range(10, 100))


def test_an_empty_table_takes_settings_and_an_append_meanwhile(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    spark.sql(f"create table {iceberg_table} (id bigint, p int) using iceberg")
    empty = backend.observe(iceberg_table, [])
    assert empty.version == -1
    (changed,) = backend.execute(work(empty, iceberg_table, properties=(("note", "one"),)), lambda _: None)
    assert (changed.kind, changed.version) == ("settings", -1)
    spark.sql(f"insert into {iceberg_table} values (1, 1)")
    wanted = work(empty, iceberg_table, properties=(("note", "two"),), partition_by=(PartitionField("p"),))
    (changed,) = backend.execute(wanted, lambda _: None)
    after = backend.observe(iceberg_table, [])
    assert changed.version == after.version
    assert (after.properties["note"], after.partition_fields) == ("two", (PartitionField("p"),))


def test_groups_changed_since_the_plan_are_not_even_written(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, 2, "partitioned by (p)")
    state = backend.observe(iceberg_table, [])
    group = {p.values: f"g{i}" for i, p in enumerate(state.files.partitions)}
    spark.sql(f"delete from {iceberg_table} where id = 5")
    before = ids(spark, iceberg_table)
    stages: list[str] = []
    failed, done = backend.execute(work(state, iceberg_table), lambda p: stages.append(p.stage))
    assert isinstance(failed, GroupFailed)
    assert failed.groups == (group[(1,)],)
    assert "ZL320" in str(failed.error)
    assert "rewriting" in stages
    assert isinstance(done, Commit)
    assert done.groups == (group[(0,)],)
    assert ids(spark, iceberg_table) == before

    spark.sql(f"insert overwrite {iceberg_table} select * from {iceberg_table} where id < 100")
    gone = list(backend.execute(work(state, iceberg_table, run_id="again"), lambda _: None))
    assert [(type(g), g.groups) for g in gone] == [(GroupFailed, ("g0",)), (GroupFailed, ("g1",))]


def test_tasks_are_those_of_the_chosen_files(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, 2)
    state = backend.observe(iceberg_table, [])
    spark.sql(f"insert into {iceberg_table} values (9999, 1, 1, 1)")
    jvm = IcebergJvm(spark)
    table, paths = jvm.load(iceberg_table), state.files.path.to_pylist()
    found = tasks_of(jvm, table, state.version, [paths[2], paths[0], "file:/elsewhere"])
    assert sorted(found) == sorted([paths[0], paths[2]])
    assert {path: task.file().location() for path, task in found.items()} == {p: p for p in found}
    assert [len(list(task.deletes())) for task in found.values()] == [1, 1]
    assert tasks_of(jvm, table, state.version, []) == {}
    now = set(backend.observe(iceberg_table, []).files.path.to_pylist())
    assert set(tasks_of(jvm, table, int(table.currentSnapshot().snapshotId()), [*now])) == now > set(paths)


def test_a_scan_is_split_so_that_all_cores_have_work(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spark, iceberg_table, 2)
    jvm, wanted = IcebergJvm(spark), work(backend.observe(iceberg_table, []), iceberg_table)
    with staged(jvm, jvm.load(wanted.table), wanted) as pinned:
        assert pinned.frame.rdd.getNumPartitions() < 3  # small files share a task
    monkeypatch.setattr(staging, "SMALLEST_SPLIT", 1)
    with staged(jvm, jvm.load(wanted.table), wanted) as pinned:
        assert pinned.frame.rdd.getNumPartitions() == 3


def test_one_key_larger_than_two_files_is_told(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, 2)
    spark.sql(f"update {iceberg_table} set a = 1, b = 1 where id < 500")
    wanted = work(backend.observe(iceberg_table, []), iceberg_table)
    (group,) = wanted.groups
    done = list(backend.execute(replace(wanted, groups=(replace(group, target_files=10),)), lambda _: None))
    assert [d.diagnostic.code for d in done if isinstance(d, Notice)] == ["ZL402"]
    assert str(iceberg_table) in str(done)


def test_a_missing_new_file_stops_the_commit(
    spark: SparkSession, project: Project, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, 2)
    state = backend.observe(iceberg_table, [])
    jvm, wanted = IcebergJvm(spark), work(state, iceberg_table)
    with staged(jvm, jvm.load(wanted.table), wanted) as pinned:
        new, _ = write_groups(pinned, wanted)
        Path(new["g0"][0].path.removeprefix("file:")).unlink()
        with pytest.raises(EngineError, match=r"ZL316 .*found no file"):
            list(commit_groups(pinned, project.catalogs["ice"], wanted, new))
    assert backend.observe(iceberg_table, []).version == state.version


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_row_ids_of_orc_files_stay_where_the_table_reads_them_by_column(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName, engine: Any
) -> None:
    """Iceberg's columnar reader of ORC files gives each row the row id of the file's first."""
    vectorized = "read.orc.vectorization.enabled"
    spark.sql(
        f"create table {iceberg_table} (id bigint, a bigint, b int) using iceberg tblproperties "
        f"('format-version'='3', 'write.format.default'='orc', '{vectorized}'='true')"
    )
    for number in range(2):
        rows = spark.range(number * 100, number * 100 + 100, 1, 1)
        rows.selectExpr("id", "id * 79 % 200 a", "cast(id % 60 as int) b").writeTo(str(iceberg_table)).append()

    def by_row() -> dict[int, tuple[int, int]]:
        with session_conf(spark, {"spark.sql.iceberg.vectorization.enabled": "false"}):
            return lineage(spark, iceberg_table)

    born, state = by_row(), backend.observe(iceberg_table, [])
    assert len({number for number, _ in born.values()}) == 200
    wanted = work(state, iceberg_table, verify="full")
    done = list(backend.execute(replace(wanted, layout=replace(wanted.layout, engine=engine)), lambda _: None))
    assert isinstance(done[0], Commit)
    assert by_row() == born
    assert len(set(lineage(spark, iceberg_table).values())) < 200, "the reader is mended: drop mixes_row_ids"


def test_files_whose_names_begin_with_something_else(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, 2, "partitioned by (p)")
    properties = "'write.object-storage.enabled'='true', 'write.object-storage.partitioned-paths'='false'"
    spark.sql(f"alter table {iceberg_table} set tblproperties ({properties})")
    expected, state = ids(spark, iceberg_table), backend.observe(iceberg_table, [])
    (done,) = backend.execute(work(state, iceberg_table), lambda _: None)
    assert isinstance(done, Commit)
    assert sorted(done.groups) == ["g0", "g1"]
    names = [path.rpartition("/")[2] for path in backend.observe(iceberg_table, []).files.path.to_pylist()]
    assert all(set(name.partition("-")[0]) <= {"0", "1"} for name in names), names
    assert ids(spark, iceberg_table) == expected


@pytest.mark.parametrize("nested", [False, True])
def test_types_that_spark_does_not_read_are_refused_before_settings_change(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName, nested: bool
) -> None:
    create(spark, iceberg_table, 2)
    jvm = IcebergJvm(spark)
    types = jvm.iceberg.types.Types
    kind = types.ListType.ofOptional(90, types.TimeType.get()) if nested else types.TimeType.get()
    jvm.load(iceberg_table).updateSchema().addColumn("t", kind).commit()
    state = backend.observe(iceberg_table, [])
    with pytest.raises(Refused, match=r"ZL227 .* t(\.element)? \(time\)"):
        list(backend.execute(work(state, iceberg_table, properties=(("team", "x"),)), lambda _: None))
    assert "team" not in backend.observe(iceberg_table, []).properties


def test_a_table_that_took_the_place_of_the_planned_one_is_left_alone(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, 2)
    state = backend.observe(iceberg_table, [])
    wanted = work(state, iceberg_table, properties=(("team", "x"),), groups=(), requirements=(TableIs("another"),))
    with pytest.raises(CommitConflict, match=f"ZL320 .* expected the table another, found {state.table_id}"):
        list(backend.execute(wanted, lambda _: None))
    assert "team" not in backend.observe(iceberg_table, []).properties
