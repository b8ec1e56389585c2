"""A saved plan of a table that another writer changes before it is applied."""

from dataclasses import replace
from pathlib import Path

import pytest
from spark.sample_tables import create_delta, create_iceberg
from spark.subjects import DeltaSubject, IcebergSubject, SparkSubject
from support.builders import make_layout, make_spec

import zlayout


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_saved_plan_stays_valid_when_rows_are_deleted(
    delta: DeltaSubject, iceberg: IcebergSubject, format: str, tmp_path: Path
) -> None:
    table: SparkSubject = delta if format == "delta" else iceberg
    if format == "delta":
        create_delta(delta, 600)
    else:
        create_iceberg(iceberg, 3, "partitioned by (p)")
        iceberg.sql(f"alter table {iceberg} set tblproperties ('write.merge.mode' = 'merge-on-read')")
    spec = make_spec(make_layout("a", "b", target_size=20_000), table.name)
    project, saved = replace(table.project, layouts=(spec,)), tmp_path / "plan.json"
    zlayout.write_plan(zlayout.plan(project), saved)
    before = table.rows("id")
    table.sql(f"delete from {table} where id in (10, 11, 14)")
    left = [row for row in before if row[0] not in (10, 11, 14)]

    assert zlayout.read_plan(project, saved, stale="strict").tables[0].status == "refused"
    plan = zlayout.read_plan(project, saved)
    assert [each.status for each in plan.tables] == ["changes"]
    (result,) = zlayout.apply(plan, table.spark).results.values()
    assert (result.problems, result.files_removed) == ((), plan.tables[0].files)
    assert table.rows("id") == left
    assert zlayout.plan(project).tables[0].status == "unchanged"
