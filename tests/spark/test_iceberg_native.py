"""Engine `native` on Iceberg: what it rewrites, what it records, and that the record survives the table's life."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from support.builders import make_layout

from zlayout.errors import EngineError, Location, Refused
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.formats.iceberg.write.settings import change_settings
from zlayout.planner.work import Group, Work
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Layout, Project, TableName
from zlayout.spec.names import parse_partition_key
from zlayout.table.digests import digest_of
from zlayout.table.state import PartitionField, TableState

HERE = Location("t.yaml")
MONTH = PartitionField("day", "month")


def layout(*columns: str, curve: str = "zorder", target_size: int = 6_000) -> Layout:
    return make_layout(*columns, curve=curve, target_size=target_size, engine="native")


def groups_of(state: TableState, partitions: set[int] | None = None) -> tuple[Group, ...]:
    """One group for each partition (or for those wanted) with all its files."""
    found = []
    for index in np.unique(state.files.partition).tolist():
        if partitions is None or index in partitions:
            rows = np.flatnonzero(state.files.partition == index)
            found.append(Group(f"g{index}", state.files.take(rows), 2))
    return tuple(found)


def work(state: TableState, name: TableName, wanted: Layout, **changes: Any) -> Work:
    settings: dict[str, Any] = {
        "table": name,
        "layout": wanted,
        "run_id": f"run-{name.name}-{state.version}",
        "version": state.version,
        "properties": (),
        "partition_by": None,
        "groups": groups_of(state),
        "covers_table": True,
    }
    return Work(**(settings | changes))


@pytest.fixture
def backend(project: Project, runtime: SparkRuntime) -> IcebergBackend:
    return IcebergBackend(project.catalogs["ice"], runtime)


@pytest.fixture
def run(backend: IcebergBackend) -> Callable[[Work], list[Commit | GroupFailed]]:
    def execute(wanted: Work) -> list[Commit | GroupFailed]:
        done = list(backend.execute(wanted, lambda _: None))
        assert [item for item in done if isinstance(item, GroupFailed)] == []
        return done

    return execute


def create(spark: SparkSession, name: TableName, partitioned: str = "", version: int = 2, appends: int = 4) -> None:
    spark.sql(
        f"create table {name} (a bigint, b int, s string, m decimal(12,2), day date) using iceberg {partitioned} "
        f"tblproperties ('format-version'='{version}', 'write.delete.mode'='merge-on-read')"
    )
    for number in range(appends):
        append(spark, name, number)


def append(spark: SparkSession, name: TableName, number: int) -> None:
    """500 rows over two months, each file spanning all of a and b."""
    rows = spark.range(number * 500, number * 500 + 500, 1, 1).selectExpr(
        "(id * 7919) % 2000 a",
        "cast((id * 104729) % 1000 as int) b",
        "concat('k', id) s",
        "cast(id as decimal(12,2)) m",
        "date_add(date'2024-01-20', cast(id % 20 as int)) day",
    )
    rows.writeTo(str(name)).append()


def content(spark: SparkSession, name: TableName) -> list[Any]:
    return sorted(map(tuple, spark.table(str(name)).collect()))


def touched(state: TableState, column: str) -> float:
    """Files whose bounds hold a value, averaged over the values 0, 100, 200 ... of 0..2000 (brute force)."""
    low = state.files.bounds[column].lower.to_pylist()
    high = state.files.bounds[column].upper.to_pylist()
    return float(np.mean([sum(lo <= v <= hi for lo, hi in zip(low, high, strict=True)) for v in range(0, 1000, 50)]))


def test_zorder_rewrites_and_records(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table)
    rows = content(spark, iceberg_table)
    before = backend.observe(iceberg_table, ["a", "b"])
    wanted = layout("a", "b")
    commits = run(work(before, iceberg_table, wanted))
    after = backend.observe(iceberg_table, ["a", "b"])

    assert [c.kind for c in commits] == ["rewrite", "record"]
    assert commits[0].groups == ("g0",)
    assert (commits[0].files_removed, commits[0].files_added) == (4, len(after.files))
    assert commits[0].bytes_removed == before.files.bytes.sum()
    assert commits[0].bytes_added == after.files.bytes.sum()
    assert commits[0].rows == 2000
    assert after.version == commits[0].version == commits[1].version
    assert content(spark, iceberg_table) == rows
    assert len(after.files) > 2
    assert touched(after, "a") + touched(after, "b") < 0.8 * (touched(before, "a") + touched(before, "b"))
    assert after.files.layouts[0].layout_id == wanted.layout_id
    assert after.files.layouts[0].settings == wanted.settings()
    assert set(after.files.layout) == {0}
    assert set(after.files.group) == {0}
    assert set(before.files.layout) == {-1}


def test_record_outlives_manifest_rewrite_expiry_and_deletes(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table)
    wanted = layout("a", "b")
    run(work(backend.observe(iceberg_table, []), iceberg_table, wanted))
    append(spark, iceberg_table, 9)
    spark.sql(f"delete from {iceberg_table} where b = 7")
    spark.sql(f"call ice.system.rewrite_manifests('{'.'.join(iceberg_table.identifier)}')")
    spark.sql(
        f"call ice.system.expire_snapshots(table => '{'.'.join(iceberg_table.identifier)}', "
        "older_than => timestamp'2100-01-01', retain_last => 1)"
    )
    state = backend.observe(iceberg_table, [])
    laid_out = state.files.layout == 0
    assert state.files.rows[~laid_out].tolist() == [500]
    assert state.files.rows[laid_out].sum() == 2000
    assert "position-deletes" in state.features
    expected = 2500 - spark.table(str(iceberg_table)).count()
    assert expected > 0
    assert state.files.deleted.sum() == expected

    # A second run drops the first snapshot from the record: no file of it is left.
    run(work(state, iceberg_table, wanted, run_id="second"))
    after = backend.observe(iceberg_table, [])
    assert recorded.parse(after.properties[recorded.PROPERTY])[wanted.layout_id].snapshots == {after.version}
    assert set(after.files.layout) == {0}


def test_copy_on_write_files_are_not_laid_out_and_rollback_is_followed(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table)
    first = backend.observe(iceberg_table, [])
    run(work(first, iceberg_table, layout("a", "b")))
    laid_out = backend.observe(iceberg_table, [])
    spark.sql(f"alter table {iceberg_table} set tblproperties ('write.delete.mode'='copy-on-write')")
    spark.sql(f"delete from {iceberg_table} where a = 7")
    touched_by_delete = backend.observe(iceberg_table, [])
    assert 0 < (touched_by_delete.files.layout == -1).sum() < len(touched_by_delete.files)
    call = f"call ice.system.set_current_snapshot('{'.'.join(iceberg_table.identifier)}', "
    spark.sql(f"{call} {first.version})")
    assert set(backend.observe(iceberg_table, []).files.layout) == {-1}
    spark.sql(f"{call} {laid_out.version})")
    assert set(backend.observe(iceberg_table, []).files.layout) == {0}
    before = backend.observe(iceberg_table, [], first.version).files
    assert digest_of([before]) == digest_of([first.files])


def test_snapshot_summary_counts_when_the_property_was_never_written(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table)
    wanted = layout("a", "b")
    run(work(backend.observe(iceberg_table, []), iceberg_table, wanted))
    spark.sql(f"alter table {iceberg_table} unset tblproperties ('{recorded.PROPERTY}')")
    assert set(backend.observe(iceberg_table, []).files.layout) == {0}
    spark.sql(f"alter table {iceberg_table} set tblproperties ('{recorded.PROPERTY}'='{{\"v\":1')")
    corrupt = backend.observe(iceberg_table, [])
    assert [n.code for n in corrupt.notes] == ["ZL421"]
    assert [r.layout_id for r in corrupt.files.layouts] == [wanted.layout_id]


@pytest.mark.parametrize("curve", ["hilbert", "linear"])
def test_other_curves(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName, curve: str
) -> None:
    create(spark, iceberg_table)
    columns = ("b", "m") if curve == "linear" else ("a", "b")
    rows = content(spark, iceberg_table)
    before = backend.observe(iceberg_table, ["b"])
    run(work(before, iceberg_table, layout(*columns, curve=curve)))
    after = backend.observe(iceberg_table, ["b"])
    assert content(spark, iceberg_table) == rows
    assert touched(after, "b") / len(after.files) < 0.8
    assert touched(before, "b") / len(before.files) > 0.9
    if curve == "linear":
        assert touched(after, "b") < 1.5


def test_only_the_chosen_partitions_are_rewritten(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, "partitioned by (month(day))")
    spark.sql(f"insert into {iceberg_table} values (1, 1, 'x', 1.0, null), (2, 1, 'y', 1.0, null)")
    before = backend.observe(iceberg_table, [])
    values = [p.values for p in before.files.partitions]
    assert sorted(values, key=str) == [(648,), (649,), (None,)]
    chosen = {values.index((649,)), values.index((None,))}
    commits = run(work(before, iceberg_table, layout("a", "b"), groups=groups_of(before, chosen), covers_table=False))
    after = backend.observe(iceberg_table, [])
    kept = set(before.files.path.to_pylist()) & set(after.files.path.to_pylist())
    january = before.files.partition == values.index((648,))
    assert kept == set(np.array(before.files.path.to_pylist(), object)[january])
    assert {g for c in commits for g in c.groups} == {f"g{i}" for i in chosen}
    assert all(c.kind != "rewrite" or c.files_removed for c in commits)


def test_a_rewrite_in_parts_goes_on_after_its_own_commits(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, "partitioned by (month(day))")
    rows, state = content(spark, iceberg_table), backend.observe(iceberg_table, [])
    parts = work(state, iceberg_table, layout("a", "b")).in_parts(1)
    assert len(parts) == 2
    assert [len({g for c in run(part) for g in c.groups}) for part in parts] == [1, 1]
    assert content(spark, iceberg_table) == rows
    assert set(backend.observe(iceberg_table, []).files.layout) == {0}


def test_identity_partitions_of_many_types(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    spark.sql(
        f"create table {iceberg_table} (a bigint, b int, t timestamp, d date, m decimal(9,2), s string, f boolean) "
        "using iceberg partitioned by (t, d, m, s, f, bucket(4, b), truncate(2, s))"
    )
    for row in (
        "timestamp'2024-01-01 10:00:00', date'2024-01-02', 1.50, 'abc', true",
        "null, date'2024-01-02', -1, 'x', false",
    ):
        for a in (1, 2):
            spark.sql(f"insert into {iceberg_table} select {a}L, 5, {row}")
    before = backend.observe(iceberg_table, [])
    index = next(i for i, p in enumerate(before.files.partitions) if p.values[3] == "abc")
    values = before.files.partitions[index].values
    assert values[1] == date(2024, 1, 2)
    assert (str(values[2]), values[3], values[4], values[6]) == ("1.50", "abc", True, "ab")
    commits = run(work(before, iceberg_table, layout("a", "b"), groups=groups_of(before, {index}), covers_table=False))
    assert [c.kind for c in commits] == ["rewrite", "record"]
    after = backend.observe(iceberg_table, [])
    assert sorted(after.files.rows.tolist()) == [1, 1, 2]
    assert spark.table(str(iceberg_table)).count() == 4


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        (("day(ts)", "hour(ts)"), "day(ts) and hour(ts)"),
        (("month(ts)", "year(other)"), None),
        (("bucket(4, id)", "truncate(2, id)", "id", "ts"), None),
        (("day(other)",), "day(other), which Iceberg would name other_day"),
        (("bucket(8, id)",), "bucket(8, id), which Iceberg would name id_bucket_8"),
        (("truncate(3, id)",), "truncate(3, id), which Iceberg would name id_trunc_3"),
        (("hour(other)", "year(ts)"), None),  # hour(other) is there already
        (("hour(other)", "day(other)"), "other_day"),
    ],
)
def test_partitionings_are_refused_that_iceberg_does_not_make(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName, fields: tuple[str, ...], refused: str | None
) -> None:
    columns = "id bigint, ts timestamp, other timestamp, other_day int, id_bucket_8 int, id_trunc_3 int"
    spark.sql(f"create table {iceberg_table} ({columns}) using iceberg partitioned by (hours(other))")
    state, wanted = backend.observe(iceberg_table, []), tuple(parse_partition_key(field, HERE) for field in fields)
    told = backend.partition_diagnostics(wanted, state)
    assert len(told) == (refused is not None)
    assert all(refused in d.message for d in told if refused)
    settings = work(state, iceberg_table, layout("id"), partition_by=wanted, groups=())
    if refused:
        with pytest.raises(Refused, match="ZL226"):
            list(backend.execute(settings, lambda _: None))
        with pytest.raises(EngineError):  # what Iceberg says
            change_settings(IcebergJvm(spark), settings)
    else:
        list(backend.execute(settings, lambda _: None))
        assert backend.observe(iceberg_table, []).partition_fields == wanted


def test_partition_by_changes_the_spec_and_rewrites_old_files(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, "partitioned by (bucket(2, a))")
    rows = content(spark, iceberg_table)
    before = backend.observe(iceberg_table, [])
    commits = run(
        work(
            before,
            iceberg_table,
            layout("a", "b"),
            partition_by=(MONTH,),
            properties=(("write.parquet.page-size-bytes", "65536"),),
        )
    )
    after = backend.observe(iceberg_table, [])
    assert commits[0].kind == "settings"
    assert commits[0].version == before.version
    assert after.partition_fields == (MONTH,)
    assert {(p.fields, p.values) for p in after.files.partitions} == {((MONTH,), (648,)), ((MONTH,), (649,))}
    assert after.properties["write.parquet.page-size-bytes"] == "65536"
    assert {g for c in commits for g in c.groups} == {"g0", "g1"}
    assert set(after.files.layout) == {0}
    assert content(spark, iceberg_table) == rows
    again = run(work(after, iceberg_table, layout("a"), partition_by=(MONTH,), groups=()))
    assert again == []


def test_refused_before_any_write(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, "partitioned by (month(day))", appends=2)
    state = backend.observe(iceberg_table, [])
    property_change = (("note", "zlayout"),)
    half = Group("half", state.files.take(np.array([0])), 1)
    for code, refused in {
        "ZL223": work(state, iceberg_table, layout("a", "m"), properties=property_change),
        "ZL224": work(
            state, iceberg_table, layout("a"), groups=(half,), covers_table=False, properties=property_change
        ),
    }.items():
        with pytest.raises(Refused, match=code):
            run(refused)
    spark.sql(f"delete from {iceberg_table} where a = 1919")
    now = backend.observe(iceberg_table, [])
    with pytest.raises(Refused, match="ZL225"):
        run(work(state, iceberg_table, layout("a"), properties=property_change))
    untouched = backend.observe(iceberg_table, [])
    assert untouched.version == now.version
    assert "note" not in untouched.properties


def test_appends_since_the_plan_are_kept(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table, appends=2)
    state = backend.observe(iceberg_table, [])
    append(spark, iceberg_table, 5)
    rows = content(spark, iceberg_table)
    commits = run(work(state, iceberg_table, layout("a", "b")))
    assert commits[0].groups == ("g0",)
    assert content(spark, iceberg_table) == rows


def test_a_group_that_takes_several_commits_is_finished(
    spark: SparkSession, backend: IcebergBackend, run: Any, iceberg_table: TableName
) -> None:
    """Iceberg commits each partition apart, and the files of an older partitioning."""
    create(spark, iceberg_table, "partitioned by (bucket(2, a))", appends=2)
    spark.sql(f"alter table {iceberg_table} replace partition field bucket(2, a) with months(day)")
    append(spark, iceberg_table, 2)
    rows, state = content(spark, iceberg_table), backend.observe(iceberg_table, [])
    whole = Group("whole", state.files, 2)
    done = run(work(state, iceberg_table, layout("a", "b"), groups=(whole,)))
    rewrites = [commit for commit in done if commit.kind == "rewrite"]
    assert len(rewrites) > 1
    assert [commit.groups for commit in rewrites] == [()] * (len(rewrites) - 1) + [("whole",)]
    assert content(spark, iceberg_table) == rows
