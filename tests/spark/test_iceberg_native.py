"""Engine `native` on Iceberg: what it rewrites, what it records, and that the record survives the table's life."""

from dataclasses import replace
from datetime import date
from math import isnan
from typing import Any

import numpy as np
import pytest
from spark.subjects import IcebergSubject
from support.builders import make_group, make_layout

from zlayout.errors import EngineError, Location, Refused
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.write import native
from zlayout.formats.iceberg.write.settings import change_settings
from zlayout.planner.proposal import digests_of
from zlayout.planner.work import PlannedTable
from zlayout.spec.layouts import parse_partition_key
from zlayout.spec.model import Layout
from zlayout.table.state import PartitionField, TableState

HERE = Location("t.yaml")
MONTH = PartitionField("day", "month")


def layout(*columns: str, curve: str = "zorder", target_size: int = 6_000) -> Layout:
    return make_layout(*columns, curve=curve, target_size=target_size, engine="native")


@pytest.fixture
def table(iceberg: IcebergSubject) -> IcebergSubject:
    return replace(iceberg, layout=layout("a", "b"))


def run(table: IcebergSubject, work: PlannedTable) -> list[Any]:
    """Carry out the work, of which no group may fail, and return all commits."""
    done = list(table.execute(work))
    assert [item for item in done if isinstance(item, GroupFailed)] == []
    return done


def create(table: IcebergSubject, partitioned: str = "", appends: int = 4) -> None:
    columns = "a bigint, b int, s string, m decimal(12,2), day date"
    properties = "tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    table.sql(f"create table {table} ({columns}) using iceberg {partitioned} {properties}")
    for number in range(appends):
        append(table, number)


def append(table: IcebergSubject, number: int) -> None:
    """500 rows over two months, each file spanning all of a and b."""
    keys = ["(id * 7919) % 2000 a", "cast((id * 104729) % 1000 as int) b", "concat('k', id) s"]
    others = ["cast(id as decimal(12,2)) m", "date_add(date'2024-01-20', cast(id % 20 as int)) day"]
    table.append(table.spark.range(number * 500, number * 500 + 500, 1, 1).selectExpr(*keys, *others))


def touched(state: TableState, column: str) -> float:
    """Files whose bounds hold a value, averaged over the values 0, 100, 200 ... of 0..2000 (brute force)."""
    low = state.files.bounds[column].lower.to_pylist()
    high = state.files.bounds[column].upper.to_pylist()
    return float(np.mean([sum(lo <= v <= hi for lo, hi in zip(low, high, strict=True)) for v in range(0, 1000, 50)]))


def test_zorder_rewrites_and_records(table: IcebergSubject) -> None:
    create(table)
    rows = table.rows()
    before = table.observe("a", "b")
    commits = run(table, table.work(before))
    after = table.observe("a", "b")

    assert [c.kind for c in commits] == ["rewrite", "record"]
    assert commits[0].groups == ("g0",)
    assert (commits[0].files_removed, commits[0].files_added) == (4, len(after.files))
    assert commits[0].bytes_removed == before.files.bytes.sum()
    assert commits[0].bytes_added == after.files.bytes.sum()
    assert commits[0].rows == 2000
    assert after.version == commits[0].version == commits[1].version
    assert table.rows() == rows
    assert len(after.files) > 2
    assert touched(after, "a") + touched(after, "b") < 0.8 * (touched(before, "a") + touched(before, "b"))
    assert after.files.layouts[0].layout_id == table.layout.layout_id
    assert after.files.layouts[0].settings == table.layout.settings()
    assert set(after.files.layout) == {0}
    assert set(after.files.group) == {0}
    assert set(before.files.layout) == {-1}


def test_record_outlives_manifest_rewrite_expiry_and_deletes(table: IcebergSubject) -> None:
    create(table)
    run(table, table.work())
    append(table, 9)
    table.sql(f"delete from {table} where b = 7")
    table.sql(f"call ice.system.rewrite_manifests('{table.identifier}')")
    expiry = "older_than => timestamp'2100-01-01', retain_last => 1"
    table.sql(f"call ice.system.expire_snapshots(table => '{table.identifier}', {expiry})")
    state = table.observe()
    laid_out = state.files.layout == 0
    assert state.files.rows[~laid_out].tolist() == [500]
    assert state.files.rows[laid_out].sum() == 2000
    assert "position-deletes" in state.features
    expected = 2500 - table.spark.table(str(table)).count()
    assert expected > 0
    assert state.files.deleted.sum() == expected

    # A second run drops the first snapshot from the record: no file of it is left.
    run(table, table.work(state, run_id="second"))
    after = table.observe()
    assert recorded.parse(after.properties[recorded.PROPERTY])[table.layout.layout_id].snapshots == {after.version}
    assert set(after.files.layout) == {0}


def test_copy_on_write_files_are_not_laid_out_and_rollback_is_followed(table: IcebergSubject) -> None:
    create(table)
    first = table.observe()
    run(table, table.work(first))
    laid_out = table.observe()
    table.sql(f"alter table {table} set tblproperties ('write.delete.mode'='copy-on-write')")
    table.sql(f"delete from {table} where a = 7")
    touched_by_delete = table.observe()
    assert 0 < (touched_by_delete.files.layout == -1).sum() < len(touched_by_delete.files)
    call = f"call ice.system.set_current_snapshot('{table.identifier}', "
    table.sql(f"{call} {first.version})")
    assert set(table.observe().files.layout) == {-1}
    table.sql(f"{call} {laid_out.version})")
    assert set(table.observe().files.layout) == {0}
    before = table.observe(version=first.version).files
    assert digests_of([before]) == digests_of([first.files])


def test_snapshot_summary_counts_when_the_property_was_never_written(table: IcebergSubject) -> None:
    create(table)
    run(table, table.work())
    table.sql(f"alter table {table} unset tblproperties ('{recorded.PROPERTY}')")
    assert set(table.observe().files.layout) == {0}
    table.sql(f"alter table {table} set tblproperties ('{recorded.PROPERTY}'='{{\"v\":1')")
    corrupt = table.observe()
    assert [n.code for n in corrupt.notes] == ["ZL421"]
    assert [r.layout_id for r in corrupt.files.layouts] == [table.layout.layout_id]


@pytest.mark.parametrize("curve", ["hilbert", "linear"])
def test_hilbert_and_linear_curves_reduce_touched(table: IcebergSubject, curve: str) -> None:
    create(table)
    columns = ("b", "m") if curve == "linear" else ("a", "b")
    rows = table.rows()
    before = table.observe("b")
    run(table, table.work(before, layout(*columns, curve=curve)))
    after = table.observe("b")
    assert table.rows() == rows
    assert touched(after, "b") / len(after.files) < 0.8
    assert touched(before, "b") / len(before.files) > 0.9
    if curve == "linear":
        assert touched(after, "b") < 1.5


def test_only_the_chosen_partitions_are_rewritten(table: IcebergSubject) -> None:
    create(table, "partitioned by (month(day))")
    table.sql(f"insert into {table} values (1, 1, 'x', 1.0, null), (2, 1, 'y', 1.0, null)")
    before = table.observe()
    values = [p.values for p in before.files.partitions]
    assert sorted(values, key=str) == [(648,), (649,), (None,)]
    chosen = {values.index((649,)), values.index((None,))}
    commits = run(table, table.work(before, partitions=chosen))
    after = table.observe()
    kept = set(before.files.path.to_pylist()) & set(after.files.path.to_pylist())
    january = before.files.partition == values.index((648,))
    assert kept == set(np.array(before.files.path.to_pylist(), object)[january])
    assert {g for c in commits for g in c.groups} == {f"g{i}" for i in chosen}
    assert all(c.kind != "rewrite" or c.files_removed for c in commits)


def test_a_rewrite_in_parts_goes_on_after_its_own_commits(table: IcebergSubject) -> None:
    create(table, "partitioned by (month(day))")
    rows, state = table.rows(), table.observe()
    parts = table.work(state).in_parts(1)
    assert len(parts) == 2
    assert [len({g for c in run(table, part) for g in c.groups}) for part in parts] == [1, 1]
    assert table.rows() == rows
    assert set(table.observe().files.layout) == {0}


def test_identity_partitions_of_many_types(table: IcebergSubject) -> None:
    table.sql(
        f"create table {table} (a bigint, b int, t timestamp, d date, m decimal(9,2), s string, f boolean) "
        "using iceberg partitioned by (t, d, m, s, f, bucket(4, b), truncate(2, s))"
    )
    for row in (
        "timestamp'2024-01-01 10:00:00', date'2024-01-02', 1.50, 'abc', true",
        "null, date'2024-01-02', -1, 'x', false",
    ):
        for a in (1, 2):
            table.sql(f"insert into {table} select {a}L, 5, {row}")
    before = table.observe()
    index = next(i for i, p in enumerate(before.files.partitions) if p.values[3] == "abc")
    values = before.files.partitions[index].values
    assert values[1] == date(2024, 1, 2)
    assert (str(values[2]), values[3], values[4], values[6]) == ("1.50", "abc", True, "ab")
    commits = run(table, table.work(before, partitions=[index]))
    assert [c.kind for c in commits] == ["rewrite", "record"]
    after = table.observe()
    assert sorted(after.files.rows.tolist()) == [1, 1, 2]
    assert table.spark.table(str(table)).count() == 4


@pytest.mark.parametrize("fields", ["x", "x, b"])
def test_a_partition_of_nan_is_chosen(table: IcebergSubject, fields: str) -> None:
    table.sql(f"create table {table} (a bigint, b int, x double) using iceberg partitioned by ({fields})")
    for start in (0, 10):
        rows = table.spark.range(start, start + 10, 1, 1)
        table.append(rows.selectExpr("id a", "5 b", "if(id % 2 = 0, 1.5D, double('NaN')) x"))
    before = table.observe()
    (index,) = (i for i, partition in enumerate(before.files.partitions) if isnan(partition.values[0]))
    commits = run(table, table.work(before, partitions=[index]))
    assert [(c.kind, c.files_removed, c.rows) for c in commits] == [("rewrite", 2, 10), ("record", 0, 0)]
    assert sorted(table.observe().files.rows.tolist()) == [5, 5, 10]


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
    table: IcebergSubject, fields: tuple[str, ...], refused: str | None
) -> None:
    columns = "id bigint, ts timestamp, other timestamp, other_day int, id_bucket_8 int, id_trunc_3 int"
    table.sql(f"create table {table} ({columns}) using iceberg partitioned by (hours(other))")
    state, wanted = table.observe(), tuple(parse_partition_key(field, HERE) for field in fields)
    diagnostics = table.backend.partition_diagnostics(wanted, state)
    assert len(diagnostics) == (refused is not None)
    assert all(refused in d.message for d in diagnostics if refused)
    settings = table.work(state, layout("id"), partition_by=wanted, groups=())
    if refused:
        with pytest.raises(Refused, match="ZL226"):
            list(table.execute(settings))
        with pytest.raises(EngineError):  # what Iceberg says
            change_settings(table.jvm, settings)
    else:
        list(table.execute(settings))
        assert table.observe().partition_fields == wanted


def test_partition_by_changes_the_spec_and_rewrites_old_files(table: IcebergSubject) -> None:
    create(table, "partitioned by (bucket(2, a))")
    rows = table.rows()
    before = table.observe()
    page_size = (("write.parquet.page-size-bytes", "65536"),)
    commits = run(table, table.work(before, partition_by=(MONTH,), properties=page_size))
    after = table.observe()
    assert commits[0].kind == "settings"
    assert commits[0].version == before.version
    assert after.partition_fields == (MONTH,)
    assert {(p.fields, p.values) for p in after.files.partitions} == {((MONTH,), (648,)), ((MONTH,), (649,))}
    assert after.properties["write.parquet.page-size-bytes"] == "65536"
    assert {g for c in commits for g in c.groups} == {"g0", "g1"}
    assert set(after.files.layout) == {0}
    assert table.rows() == rows
    again = run(table, table.work(after, layout("a"), partition_by=(MONTH,), groups=()))
    assert again == []


def test_work_that_native_cannot_do_is_refused_before_any_write(table: IcebergSubject) -> None:
    create(table, "partitioned by (month(day))", appends=2)
    state = table.observe()
    property_change = (("note", "zlayout"),)
    half = make_group("half", state.files.take(np.array([0])), 1)
    of_decimals = table.work(state, layout("a", "m"), properties=property_change)
    of_half = table.work(state, layout("a"), groups=(half,), covers_table=False, properties=property_change)
    for code, refused in {"ZL223": of_decimals, "ZL224": of_half}.items():
        with pytest.raises(Refused, match=code):
            run(table, refused)
    table.sql(f"delete from {table} where a = 1919")
    now = table.observe()
    with pytest.raises(Refused, match="ZL225"):
        run(table, table.work(state, layout("a"), properties=property_change))
    untouched = table.observe()
    assert untouched.version == now.version
    assert "note" not in untouched.properties


def test_appends_since_the_plan_are_kept(table: IcebergSubject) -> None:
    create(table, appends=2)
    state = table.observe()
    append(table, 5)
    rows = table.rows()
    commits = run(table, table.work(state))
    assert commits[0].groups == ("g0",)
    assert table.rows() == rows


def test_files_beyond_the_plan_that_the_action_replaces_are_an_error(
    table: IcebergSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(table, "partitioned by (month(day))", appends=2)
    state, found = table.observe(), list[Any]()
    (planned,) = (at for at, partition in enumerate(state.files.partitions) if partition.values == (648,))
    work = table.work(state, partitions=[planned])
    others = int((state.files.partition != planned).sum())
    append(table, 2)  # a file in each partition
    monkeypatch.setattr(native, "partition_filter", lambda jvm, _: jvm.iceberg.expressions.Expressions.alwaysTrue())
    with pytest.raises(EngineError, match=r"ZL340 .*, committed by engine native, also replaced ") as caught:
        found.extend(table.execute(work))
    commits = [outcome for outcome in found if isinstance(outcome, Commit)]
    assert {commit.kind for commit in commits} == {"rewrite"}, "no layout record is committed"
    assert f"also replaced {others + 1} files" in str(caught.value)


def test_a_group_that_takes_several_commits_is_finished(table: IcebergSubject) -> None:
    """Iceberg commits each partition apart, and the files of an older partitioning."""
    create(table, "partitioned by (bucket(2, a))", appends=2)
    table.sql(f"alter table {table} replace partition field bucket(2, a) with months(day)")
    append(table, 2)
    rows, state = table.rows(), table.observe()
    whole = make_group("whole", state.files, 2)
    done = run(table, table.work(state, groups=(whole,)))
    rewrites = [commit for commit in done if commit.kind == "rewrite"]
    assert len(rewrites) > 1
    assert [commit.groups for commit in rewrites] == [()] * (len(rewrites) - 1) + [("whole",)]
    assert table.rows() == rows
