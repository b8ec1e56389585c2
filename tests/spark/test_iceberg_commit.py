"""Engine `zlayout` on Iceberg: what is committed, and what is refused before anything is written."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from spark.sample_tables import create_iceberg
from spark.subjects import IcebergSubject, shifted_files
from support.builders import make_group

from zlayout.errors import EngineError, Refused
from zlayout.formats.base import Commit, Notice
from zlayout.formats.iceberg.write import commit, staging
from zlayout.formats.iceberg.write import staging as refusals
from zlayout.formats.iceberg.write.commit import Committer, write_groups
from zlayout.formats.iceberg.write.staging import staged, tasks_of
from zlayout.formats.kernel.commits import Measurement
from zlayout.spark import versions
from zlayout.spark.jvm import session_conf
from zlayout.table.state import PartitionField

Record = Callable[[str, object], None]  # notes for docs/support.md, see `support.matrix`


@pytest.fixture
def table(iceberg: IcebergSubject) -> IcebergSubject:
    return iceberg


@pytest.mark.parametrize("version", [2, 3])
def test_rewrite_applies_deletes_and_keeps_lineage(table: IcebergSubject, version: int) -> None:
    create_iceberg(table, version)
    rows = table.rows()
    born = table.lineage() if version == 3 else {}
    state = table.observe()
    (done,) = table.run(state, verify="full")
    assert isinstance(done, Commit)
    after = table.observe("a", "b")
    assert done.groups == ("g0",)
    assert (done.files_removed, done.files_added, done.rows) == (3, 2, 540)
    assert table.rows() == rows
    assert after.files.rows.tolist() == [270, 270]
    assert after.files.deleted.sum() == 0
    assert set(after.files.layout) == {0}
    assert after.version == done.version
    if version == 3:
        assert table.lineage() == born
    assert table.run(after, groups=()) == []


def test_a_new_partitioning_is_written(table: IcebergSubject) -> None:
    create_iceberg(table)
    before = table.ids()
    state = table.observe()
    wanted = (PartitionField("p"), PartitionField("id", "bucket[2]"))
    commits = table.run(state, partition_by=wanted)
    assert [type(c) for c in commits] == [Commit, Commit]
    after = table.observe()
    assert sorted(p.values for p in after.files.partitions) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {p.spec_id for p in after.files.partitions} == {after.spec_id}
    assert table.ids() == before


def test_a_new_partitioning_by_nested_and_quoted_columns_is_written(table: IcebergSubject) -> None:
    table.sql(f"create table {table} (a bigint, b int, `p.q` int, s struct<t: date>) using iceberg")
    uuid = table.jvm.iceberg.types.Types.UUIDType.get()
    table.java_table().updateSchema().addColumn("u", uuid).commit()
    table.sql(f"refresh table {table}")
    rows = table.spark.range(200).selectExpr(
        "id a",
        "cast(id % 60 as int) b",
        "cast(id % 2 as int) `p.q`",
        "named_struct('t', date_add(date'2026-01-01', cast(id % 3 as int))) s",
        "if(id % 9 = 0, null, concat('00000000-0000-0000-00', substr(md5(cast(id as string)), 1, 2), "
        "'-', substr(md5(cast(id as string)), 3, 12))) u",
    )
    table.append(rows)
    before = sorted(map(str, table.spark.table(str(table)).collect()))
    state = table.observe()
    wanted = (PartitionField("`p.q`"), PartitionField("s.t", "day"), PartitionField("u", "bucket[4]"))
    table.run(state, partition_by=wanted)
    after = table.observe()
    assert after.partition_fields == wanted
    # four buckets for each p and day, and the nulls, all of one day
    assert len(after.files.partitions) == 2 * 3 * 4 + 2
    assert {p.spec_id for p in after.files.partitions} == {after.spec_id}
    table.sql(f"refresh table {table}")
    assert sorted(map(str, table.spark.table(str(table)).collect())) == before


def test_full_verification_reads_quoted_names_and_an_empty_result(table: IcebergSubject) -> None:
    table.sql(
        f"create table {table} (`order id` bigint, a bigint, b int, u binary) using iceberg "
        "tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    )
    table.sql(f"insert into {table} select /*+ coalesce(1) */ id, id, id % 7, x'00ff' from range(100)")
    table.sql(f"delete from {table} where a < 10")
    (some,) = table.run(verify="full")
    assert isinstance(some, Commit)
    assert (some.files_removed, some.rows) == (1, 90)

    table.sql(f"insert into {table} select /*+ coalesce(1) */ id, id, id % 7, x'00ff' from range(10)")
    table.sql(f"delete from {table} where a % 100 < 10")  # by position: bounds cannot tell that all go
    state = table.observe()
    fresh = make_group("fresh", state.files.take(np.flatnonzero(state.files.deleted == 10)), 1)
    wanted = table.work(state, groups=(fresh,), covers_table=False, verify="full", run_id="empty")
    (none,) = table.execute(wanted)
    assert isinstance(none, Commit)
    assert (none.files_removed, none.files_added, none.rows) == (1, 0, 0)
    assert sorted(r.a for r in table.spark.table(str(table)).select("a").collect()) == list(range(10, 100))


def test_tasks_are_those_of_the_chosen_files(table: IcebergSubject) -> None:
    create_iceberg(table)
    state = table.observe()
    table.sql(f"insert into {table} values (9999, 1, 1, 1)")
    jvm, java, paths = table.jvm, table.java_table(), state.files.path.to_pylist()
    found = list(tasks_of(jvm, java, state.version, pa.array([paths[2], "file:/elsewhere", paths[0]])))
    assert [task and task.file().location() for task in found] == [paths[2], None, paths[0]]
    assert [len(list(task.deletes())) for task in found if task] == [1, 1]
    assert len(tasks_of(jvm, java, state.version, pa.array([], pa.string()))) == 0
    now = table.observe().files.path.cast(pa.string())
    live = tasks_of(jvm, java, int(java.currentSnapshot().snapshotId()), now)
    assert jvm.content.paths(jvm.content.files(live)).equals(now)
    assert set(now.to_pylist()) > set(paths)
    with pytest.raises((Py4JJavaError, PySparkException), match="duplicate path"):
        tasks_of(jvm, java, state.version, pa.array([paths[2], paths[2]]))


def test_a_scan_is_split_so_that_all_cores_have_work(table: IcebergSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    create_iceberg(table)
    jvm, wanted = table.jvm, table.work()
    with staged(jvm, jvm.load(table.name), wanted) as pinned:
        assert pinned.frame.rdd.getNumPartitions() < 3  # small files share a task
    monkeypatch.setattr(staging, "MIN_SPLIT_BYTES", 1)
    with staged(jvm, jvm.load(table.name), wanted) as pinned:
        assert pinned.frame.rdd.getNumPartitions() == 3


def test_a_key_larger_than_two_files_is_reported(table: IcebergSubject) -> None:
    create_iceberg(table)
    table.sql(f"update {table} set a = 1, b = 1 where id < 500")
    wanted = table.work()
    (group,) = wanted.groups
    done = list(table.run(groups=(replace(group, target_files=10),)))
    assert [d.diagnostic.code for d in done if isinstance(d, Notice)] == ["ZL402"]
    assert str(table) in str(done)


def test_a_missing_new_file_stops_the_commit(table: IcebergSubject) -> None:
    create_iceberg(table)
    state = table.observe()
    jvm, wanted = table.jvm, table.work(state)
    with staged(jvm, jvm.load(table.name), wanted) as pinned:
        new, _ = write_groups(pinned, wanted)
        Path(new[0].added.path[0].as_py().removeprefix("file:")).unlink()
        with pytest.raises(EngineError, match=r"ZL316 .*found no file"):
            Committer(pinned, table.catalog, wanted, Measurement(state.files, wanted)).commit(new)
    assert table.observe().version == state.version


@pytest.mark.parametrize("wrong", ["added", "removed"])
def test_other_files_than_those_of_the_groups_are_not_committed(
    table: IcebergSubject, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """The lists of a commit are made by positions. An error in these would remove or add other files."""
    create_iceberg(table)
    state = table.observe()

    if wrong == "added":
        monkeypatch.setattr(commit, "new_files", shifted_files)
    else:
        monkeypatch.setattr(staging, "positions_among", lambda _, paths: np.zeros(len(paths), np.int64))
    with pytest.raises(EngineError, match=r"ZL310 .*not those of its groups"):
        table.run(state)
    assert table.observe().version == state.version


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_row_ids_of_orc_files_stay_where_the_table_reads_them_by_column(
    table: IcebergSubject, engine: Any, record_property: Record
) -> None:
    """Iceberg's columnar reader of ORC files gives each row the row id of the file's first.

    Before Spark 4.1 its row reader does so too, and such a table is refused.
    """
    vectorized = "read.orc.vectorization.enabled"
    table.sql(
        f"create table {table} (id bigint, a bigint, b int) using iceberg tblproperties "
        f"('format-version'='3', 'write.format.default'='orc', '{vectorized}'='true')"
    )
    for number in range(2):
        rows = table.spark.range(number * 100, number * 100 + 100, 1, 1)
        table.append(rows.selectExpr("id", "id * 79 % 200 a", "cast(id % 60 as int) b"))

    def by_row() -> dict[int, tuple[int, int]]:
        with session_conf(table.spark, {"spark.sql.iceberg.vectorization.enabled": "false"}):
            return table.lineage()

    born, state = by_row(), table.observe()
    wanted = table.work(state, verify="full")
    if len({number for number, _ in born.values()}) < 200:
        assert versions.numbers(versions.installed().spark) < (4, 1)
        with pytest.raises(Refused, match="ZL228"):
            list(table.execute(wanted))
        assert table.observe().version == state.version
        record_property("answer", "ZL228")
        return
    done = list(table.execute(replace(wanted, spec=replace(wanted.spec, layout=replace(wanted.layout, engine=engine)))))
    assert isinstance(done[0], Commit)
    assert by_row() == born
    assert len(set(table.lineage().values())) < 200, "the reader is fixed: remove needs_row_reader"


def test_sequence_numbers_of_files_from_before_row_ids_are_kept_or_the_table_is_refused(
    table: IcebergSubject, record_property: Record
) -> None:
    create_iceberg(table, 2)
    options = "options => map('rewrite-all', 'true')"
    table.sql(f"call ice.system.rewrite_data_files(table => '{table.identifier}', {options})")
    table.sql(f"alter table {table} set tblproperties ('format-version'='3')")
    table.sql(f"insert into {table} values (9999, 1, 1, 1)")
    born, state = table.lineage(), table.observe()
    if versions.numbers(str(table.jvm.iceberg.IcebergBuild.version())) < (1, 12):
        with pytest.raises(Refused, match="ZL228"):
            list(table.execute(table.work(state)))
        assert table.observe().version == state.version
        record_property("answer", "ZL228")
        return
    (done,) = table.run(state, verify="full")
    assert isinstance(done, Commit)
    assert table.lineage() == born


def test_row_ids_that_would_change_are_refused_before_the_first_write_of_the_first_part(
    table: IcebergSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of p = 1 were rewritten before the table had row ids. The first part has only those of p = 0."""
    create_iceberg(table, 2, "partitioned by (p)")
    options = "where => 'p = 1', options => map('rewrite-all', 'true')"
    table.sql(f"call ice.system.rewrite_data_files(table => '{table.identifier}', {options})")
    table.sql(f"alter table {table} set tblproperties ('format-version'='3')")
    table.sql(f"insert into {table} values (9999, 1, 1, 0)")
    state = table.observe()
    whole = table.work(state, properties=(("note", "zlayout"),))
    first = next(at for at, partition in enumerate(state.files.partitions) if partition.values == (0,))
    of_first = whole.with_rewrites(r for r in whole.plan.groups if r.id == f"g{first}")
    with monkeypatch.context() as patched:
        patched.setattr(versions, "minor", lambda _: "1.11")
        for part in (whole, of_first):
            with pytest.raises(Refused, match=r"ZL228 .*would change the sequence numbers"):
                list(table.execute(part))
    monkeypatch.setattr(refusals, "ROW_ID", "no_such_column")
    with pytest.raises(Refused, match=r"ZL228 .*without its row ids"):
        list(table.execute(whole))
    now = table.observe()
    assert (now.version, now.properties) == (state.version, state.properties)


def test_files_whose_names_begin_with_something_else(table: IcebergSubject) -> None:
    create_iceberg(table, 2, "partitioned by (p)")
    properties = "'write.object-storage.enabled'='true', 'write.object-storage.partitioned-paths'='false'"
    table.sql(f"alter table {table} set tblproperties ({properties})")
    expected, state = table.ids(), table.observe()
    (done,) = table.run(state)
    assert isinstance(done, Commit)
    assert sorted(done.groups) == ["g0", "g1"]
    names = [path.rpartition("/")[2] for path in table.observe().files.path.to_pylist()]
    assert all(set(name.partition("-")[0]) <= {"0", "1"} for name in names), names
    assert table.ids() == expected


@pytest.mark.parametrize("nested", [False, True])
def test_types_that_spark_does_not_read_are_refused_before_settings_change(table: IcebergSubject, nested: bool) -> None:
    create_iceberg(table)
    jvm = table.jvm
    types = jvm.iceberg.types.Types
    kind = types.ListType.ofOptional(90, types.TimeType.get()) if nested else types.TimeType.get()
    jvm.load(table.name).updateSchema().addColumn("t", kind).commit()
    state = table.observe()
    with pytest.raises(Refused, match=r"ZL227 .* t(\.element)? \(time\)"):
        table.run(state, properties=(("team", "x"),))
    assert "team" not in table.observe().properties
