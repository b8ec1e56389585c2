"""Scenarios of Iceberg's own rewrite suites that no other test shows (docs/contributing/parity.md)."""

import pytest
from spark.subjects import IcebergSubject
from support.builders import make_layout

from zlayout.errors import Refused
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.iceberg.backend import CASE_SENSITIVE
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.iceberg.write.commit import rewrite
from zlayout.spark.jvm import session_conf

NATIVE = make_layout("a", "b", curve="zorder", engine="native")


@pytest.fixture
def table(iceberg: IcebergSubject) -> IcebergSubject:
    return iceberg


def fill(table: IcebergSubject, more: str = "") -> None:
    for start in (0, 100):
        rows = table.spark.range(start, start + 100, 1, 1)
        table.append(rows.selectExpr("id a", "int(id * 7919 % 60) b", *([more] if more else [])))


def test_a_table_of_format_version_1_is_rewritten(table: IcebergSubject) -> None:
    table.sql(f"create table {table} (a bigint, b int) using iceberg tblproperties ('format-version'='1')")
    fill(table)
    before, state = table.rows(), table.observe("a", "b")
    (done,) = table.run(state, verify="full")
    assert isinstance(done, Commit)
    after = load_table(table.catalog, table.name).metadata
    assert (table.rows(), after.format_version) == (before, 1)
    assert {snapshot.sequence_number or 0 for snapshot in after.snapshots} == {0}
    assert set(table.observe().files.layout) == {0}


@pytest.mark.parametrize("name", ["__zlayout_group", "__ZLAYOUT_shard"])
def test_columns_with_names_that_a_rewrite_uses_are_refused(table: IcebergSubject, name: str) -> None:
    table.sql(f"create table {table} (a bigint, b int, {name} string) using iceberg")
    fill(table, f"concat('x', id) {name}")
    before, state = table.rows(), table.observe("a", "b")
    (refusal,) = state.refusals
    assert (refusal.code, refusal.message.rpartition(": ")[2]) == ("ZL260", name)
    with pytest.raises(Refused, match="ZL260"):
        table.run(state, properties=(("team", "x"),))
    # also if the column was added after the plan was checked
    work = table.work(state)
    with pytest.raises(Refused, match="ZL260"):
        list(rewrite(table.jvm, table.catalog, work, lambda _: None, state.files))
    assert table.rows() == before
    assert table.observe().version == state.version


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_a_column_with_the_name_of_the_z_value_of_iceberg(table: IcebergSubject, engine: str) -> None:
    table.sql(f"create table {table} (a bigint, b int, ICEZVALUE string) using iceberg")
    fill(table, "concat('x', id) ICEZVALUE")
    before = table.rows()
    (done, *_) = table.run(layout=NATIVE if engine == "native" else None)
    assert type(done) is (GroupFailed if engine == "native" else Commit)
    assert table.rows() == before


def test_partition_statistics_of_earlier_snapshots_stay(table: IcebergSubject) -> None:
    table.sql(f"create table {table} (a bigint, b int, p int) using iceberg partitioned by (p)")
    fill(table, "int(id % 2) p")
    table.sql(f"call {table.name.catalog}.system.compute_partition_stats('{table.identifier}')")
    (statistics,) = load_table(table.catalog, table.name).metadata.partition_statistics
    before, state = table.rows(), table.observe("a", "b")
    assert any(isinstance(done, Commit) for done in table.run(state))
    assert load_table(table.catalog, table.name).metadata.partition_statistics == [statistics]
    assert table.rows() == before


def test_fields_of_structs_with_dots_and_backticks_are_keys(table: IcebergSubject) -> None:
    table.sql(f"create table {table} (a bigint, b int, s struct<`p.q`: bigint, `r``s`: int>) using iceberg")
    fill(table, "named_struct('p.q', id * 7919 % 600, 'r`s', int(id % 60)) s")
    columns = ("s.`p.q`", "s.`r``s`")
    layout, before = make_layout(*columns), table.rows()
    (done,) = table.run(table.observe(*columns), layout, verify="full")
    assert isinstance(done, Commit)
    assert table.rows() == before


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_names_that_differ_in_letter_case(table: IcebergSubject, engine: str) -> None:
    """Such as pyiceberg writes. Spark reads the table only if it is told to compare names exactly."""
    table.sql(f"create table {table} (a bigint, b int, s struct<x: int>) using iceberg")
    fill(table, "named_struct('x', 5) s")
    long = table.jvm.iceberg.types.Types.LongType.get()
    table.java_table().updateSchema().addColumn("A", long).addColumn("s", "X", long).commit()
    table.sql(f"refresh table {table}")
    with session_conf(table.spark, {CASE_SENSITIVE: "true"}):
        columns = ("id a", "int(id) b", "named_struct('x', 1, 'X', -id) s", "-id A")
        table.append(table.spark.range(100).selectExpr(*columns))
        before = table.rows()
    (done, *_) = table.run(table.observe("a", "b"), NATIVE if engine == "native" else None, verify="full")
    assert isinstance(done, Commit)
    with session_conf(table.spark, {CASE_SENSITIVE: "true"}):
        assert table.rows() == before
    assert table.spark.conf.get(CASE_SENSITIVE) == "false"
