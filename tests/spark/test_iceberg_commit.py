"""Engine `zlayout` on Iceberg: what is committed, and what a concurrent change does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from zlayout.backends.base import Commit, GroupFailed
from zlayout.backends.iceberg.backend import IcebergBackend
from zlayout.backends.iceberg.commit import commit_groups, write_groups
from zlayout.backends.iceberg.jvm import IcebergJvm
from zlayout.backends.iceberg.staging import staged
from zlayout.backends.spark import SparkRuntime
from zlayout.plan.work import Group, Work
from zlayout.spec.model import Layout, Project, TableName, ZorderColumn
from zlayout.table.state import PartitionField, TableState

LAYOUT = Layout((ZorderColumn("a"), ZorderColumn("b")), "kd", 1000, False, 1 << 20, True, "zlayout")


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


def work(state: TableState, name: TableName, **changes: Any) -> Work:
    groups = tuple(
        Group(f"g{i}", state.files.take(np.flatnonzero(state.files.partition == i)), 2)
        for i in np.unique(state.files.partition).tolist()
    )
    settings = {"properties": (), "partition_by": None, "groups": groups, "covers_table": True} | changes
    return Work(name, LAYOUT, f"run-{name.name}", state.version, **settings)


def ids(spark: SparkSession, name: TableName) -> list[int]:
    return sorted(r.id for r in spark.table(str(name)).select("id").collect())


def lineage(spark: SparkSession, name: TableName) -> dict[int, tuple[int, int]]:
    found = spark.sql(f"select id, _row_id, _last_updated_sequence_number s from {name}").collect()
    return {r.id: (r._row_id, r.s) for r in found}


@pytest.mark.parametrize("version", [2, 3])
def test_rewrite_applies_deletes_and_keeps_lineage(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName, version: int
) -> None:
    create(spark, iceberg_table, version)
    rows = sorted(map(tuple, spark.table(str(iceberg_table)).collect()))
    born = lineage(spark, iceberg_table) if version == 3 else {}
    state = backend.observe(iceberg_table, [])
    (commit,) = backend.execute(work(state, iceberg_table, verify="full"), lambda _: None)
    assert isinstance(commit, Commit)
    after = backend.observe(iceberg_table, ["a", "b"])
    assert commit.groups == ("g0",)
    assert (commit.files_removed, commit.files_added, commit.rows) == (3, 2, 540)
    assert sorted(map(tuple, spark.table(str(iceberg_table)).collect())) == rows
    assert after.files.rows.tolist() == [270, 270]
    assert after.files.deleted.sum() == 0
    assert set(after.files.layout) == {0}
    assert after.version == commit.version
    if version == 3:
        assert lineage(spark, iceberg_table) == born
    assert list(backend.execute(work(after, iceberg_table, groups=()), lambda _: None)) == []


def race(
    spark: SparkSession, project: Project, name: TableName, state: TableState, between: Callable[[], Any]
) -> list[Commit | GroupFailed]:
    """Write, let the other one commit, then commit."""
    jvm, wanted = IcebergJvm(spark), work(state, name)
    with staged(jvm, wanted) as pinned:
        new = write_groups(pinned, wanted)
        between()
        return list(commit_groups(pinned, project.catalogs["ice"], wanted, new))


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
