"""Renames of key columns, and files of an older partition spec, through Spark: what plans after an apply."""

from dataclasses import replace

from spark.subjects import DeltaSubject, IcebergSubject, SparkSubject
from support.builders import make_layout, make_spec
from support.runs import plan_and_apply

from zlayout.planner.model import Reason, TablePlan
from zlayout.planner.selection import PROPERTY, acceptance
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_table
from zlayout.spec.model import LayoutSpec


def spec_of(table: SparkSubject, *columns: str) -> LayoutSpec:
    return make_spec(make_layout(*columns, target_size=4096), table.name)


def append(table: SparkSubject, first: int, rows: int) -> None:
    keys = ["id * 7919 % 10007 a", "cast(id * 31 % 1009 as bigint) b"]
    table.append(table.spark.range(first, first + rows, 1, 4).selectExpr("cast(id as int) id", *keys))


def plan(table: SparkSubject, *columns: str) -> TablePlan:
    return plan_table(spec_of(table, *columns), table.backend, PlanOptions()).plan


def check_renames(table: SparkSubject) -> None:
    append(table, 0, 4000)
    _, applied = plan_and_apply(spec_of(table, "a"), table.backend)
    assert applied.after.status == "unchanged"
    table.sql(f"alter table {table} rename column a to customer")
    assert plan(table, "customer").status == "unchanged"
    table.sql(f"alter table {table} rename column b to a")
    swapped = plan(table, "a")
    assert (swapped.status, [(d.before, d.after) for d in swapped.drift]) == ("changes", [(["customer"], ["a"])])
    _, applied = plan_and_apply(spec_of(table, "a"), table.backend)
    assert applied.after.status == "unchanged"
    assert plan(table, "customer").status == "changes"


def test_renames_on_delta(delta: DeltaSubject) -> None:
    delta.sql(
        f"create table {delta} (id int, a bigint, b bigint) using delta "
        "tblproperties ('delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5')"
    )
    check_renames(delta)


def test_renames_on_iceberg(iceberg: IcebergSubject) -> None:
    iceberg.sql(f"create table {iceberg} (id int, a bigint, b bigint) using iceberg")
    check_renames(iceberg)


def test_a_writer_of_the_old_spec_is_one_move_each_time(iceberg: IcebergSubject) -> None:
    table = replace(iceberg, layout=make_layout("a", "b", target_size=4096))
    table.sql(f"create table {table} (id int, a bigint, b bigint) using iceberg")
    append(table, 0, 12_000)
    table.sql(f"alter table {table} add partition field bucket(2, id)")
    spec = make_spec(table.layout, table.name)
    planned, applied = plan_and_apply(spec, table.backend)
    assert applied.after.status == "unchanged"
    for number in range(2):
        first = 20_000 + 1000 * number
        keys = ["id * 7919 % 10007 a", "cast(id * 31 % 1009 as bigint) b"]
        late = table.spark.range(first, first + 200, 1, 1).selectExpr("cast(id as int) id", *keys)
        late.writeTo(str(table.name)).option("output-spec-id", "0").append()
        planned, applied = plan_and_apply(spec, table.backend)
        found = [(g.files, g.reason) for g in planned.plan.groups]
        assert found == [(1, Reason.PARTITIONING_CHANGED)]
        assert applied.after.status == "unchanged"
        properties = table.backend.observe(table.name, ()).properties
        assert properties[PROPERTY] == acceptance(spec)
    assert len(table.ids()) == 12_400
