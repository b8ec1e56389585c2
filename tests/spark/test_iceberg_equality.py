"""Equality deletes, as Flink and others write them and Spark cannot: applied, kept apart by age, never lost."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from pyspark.sql import SparkSession
from spark.iceberg_runs import ids, lineage, race
from support.builders import make_layout, make_spec

from zlayout.app.apply import apply_table
from zlayout.app.plan import plan_table
from zlayout.app.results import new_run
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.planner.decision import PlanOptions
from zlayout.planner.model import TablePlan
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName

LAYOUT = make_layout("a", "b", target_size=4096)


@pytest.fixture
def backend(project: Project, runtime: SparkRuntime) -> IcebergBackend:
    return IcebergBackend(project.catalogs["ice"], runtime)


def create(spark: SparkSession, name: TableName, version: int = 2) -> None:
    spark.sql(
        f"create table {name} (id int, a bigint, b int) using iceberg tblproperties ('format-version'='{version}')"
    )


def append(spark: SparkSession, name: TableName, first: int, rows: int) -> None:
    added = spark.range(first, first + rows, 1, 1)
    added.selectExpr(
        "cast(id as int) id",
        "id * 7919 % 600 + 600 * (id div 10000) a",
        "cast(id % 60 + 60 * (id div 10000) as int) b",
    ).writeTo(str(name)).append()


def delete_equal(
    spark: SparkSession, name: TableName, gone: list[int], spec_id: int | None = None, partition: Any = None
) -> None:
    """Commit an equality delete file on `id` for all rows that are there already, or for those of one partition.

    partition: a Java StructLike of the spec.
    """
    jvm = IcebergJvm(spark)
    table, java, iceberg = jvm.load(name), spark._jvm, spark._jvm.org.apache.iceberg  # type: ignore[union-attr]
    schema = table.schema().select(["id"])
    where = f"{table.location()}/data/equality-{uuid.uuid4()}.parquet"
    file = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(where))
    fields = spark.sparkContext._gateway.new_array(java.int, 1)  # type: ignore[union-attr]
    fields[0] = schema.findField("id").fieldId()
    factory = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table).equalityFieldIds(fields)
    writer = (
        factory.equalityDeleteRowSchema(schema)
        .build()
        .newEqualityDeleteWriter(file, table.specs().get(spec_id or 0), partition)
    )
    record = iceberg.data.GenericRecord.create(schema)
    for number in gone:
        writer.write(record.copy("id", number))
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def apply(backend: IcebergBackend, name: TableName) -> tuple[TablePlan, TablePlan]:
    """The plan, and the plan after it was applied."""
    planned = plan_table(make_spec(LAYOUT, name), backend, PlanOptions())
    applied = new_run(planned)
    apply_table(planned, backend, PlanOptions(), applied, lambda _: None, lambda *_: None, "full")
    assert applied.error is None
    assert applied.after is not None
    return planned.decision.plan, applied.after


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_are_deleted_by_value_stay_deleted(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName, version: int
) -> None:
    create(spark, iceberg_table, version)
    append(spark, iceberg_table, 0, 300)
    delete_equal(spark, iceberg_table, [*range(0, 300, 7), 301])
    append(spark, iceberg_table, 300, 300)
    expected = [n for n in range(600) if n >= 300 or n % 7]
    assert ids(spark, iceberg_table) == expected
    born = lineage(spark, iceberg_table) if version == 3 else {}
    _, after = apply(backend, iceberg_table)
    assert after.status == "unchanged"
    assert ids(spark, iceberg_table) == expected
    assert (lineage(spark, iceberg_table) if version == 3 else {}) == born
    assert backend.observe(iceberg_table, []).files.deleted.sum() == 0
    append(spark, iceberg_table, 0, 1)  # the same key again, younger than its delete
    assert ids(spark, iceberg_table) == [0, *expected]


def test_one_apply_is_enough_for_deletes_of_two_ages(
    spark: SparkSession, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    # 1120 of the first 4000 rows go, the younger 560 of them by a delete file that may be about the other 2000 as well:
    # about 190 of those, until the first are written anew, and then all 560, which is past the tolerance again.
    create(spark, iceberg_table)
    append(spark, iceberg_table, 0, 4000)
    apply(backend, iceberg_table)
    delete_equal(spark, iceberg_table, list(range(560)))
    append(spark, iceberg_table, 10_000, 2000)
    planned, after = apply(backend, iceberg_table)
    assert (planned.status, after.status) == ("changes", "unchanged")
    assert backend.observe(iceberg_table, []).files.deleted.sum() >= 560
    delete_equal(spark, iceberg_table, list(range(560, 1120)))
    planned, after = apply(backend, iceberg_table)
    assert (planned.status, after.status) == ("changes", "unchanged")
    assert ids(spark, iceberg_table) == [*range(1120, 4000), *range(10_000, 12_000)]


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_that_comes_meanwhile_counts_for_the_new_files(
    spark: SparkSession, project: Project, backend: IcebergBackend, iceberg_table: TableName, version: int
) -> None:
    create(spark, iceberg_table, version)
    append(spark, iceberg_table, 0, 400)
    append(spark, iceberg_table, 400, 400)
    delete_equal(spark, iceberg_table, [5, 405])
    state = backend.observe(iceberg_table, [])
    (done,) = race(spark, project, iceberg_table, state, lambda: delete_equal(spark, iceberg_table, [7, 407]))
    assert isinstance(done, Commit)
    assert ids(spark, iceberg_table) == [n for n in range(800) if n not in (5, 7, 405, 407)]


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_in_the_old_partitioning_is_a_conflict_for_rows_that_move_to_the_new(
    spark: SparkSession, project: Project, backend: IcebergBackend, iceberg_table: TableName, version: int
) -> None:
    """A writer that started before the partitioning changed goes on in it, as Flink does."""
    create(spark, iceberg_table, version)
    spark.sql(f"alter table {iceberg_table} add partition field b")
    spark.sql(f"insert into {iceberg_table} values (1, 1, 7), (2, 2, 7), (3, 3, 7)")
    spark.sql(f"alter table {iceberg_table} replace partition field b with bucket(2, id)")
    (old,) = (
        IcebergJvm(spark)
        .load(iceberg_table)
        .currentSnapshot()
        .addedDataFiles(IcebergJvm(spark).load(iceberg_table).io())
    )
    state = backend.observe(iceberg_table, [])

    def upsert() -> None:
        delete_equal(spark, iceberg_table, [2], old.specId(), old.partition())

    (done,) = race(spark, project, iceberg_table, state, upsert)
    assert ids(spark, iceberg_table) == [1, 3]
    assert isinstance(done, GroupFailed)
    assert apply(backend, iceberg_table)[1].status == "unchanged"
    assert ids(spark, iceberg_table) == [1, 3]


def test_row_ids_that_come_meanwhile_are_kept(
    spark: SparkSession, project: Project, backend: IcebergBackend, iceberg_table: TableName
) -> None:
    create(spark, iceberg_table)
    append(spark, iceberg_table, 0, 40)
    state = backend.observe(iceberg_table, [])
    born = {}

    def upgrade() -> None:
        spark.sql(f"alter table {iceberg_table} set tblproperties ('format-version'='3')")
        append(spark, iceberg_table, 40, 1)
        born.update(lineage(spark, iceberg_table))

    (done,) = race(spark, project, iceberg_table, state, upgrade)
    assert isinstance(done, GroupFailed)
    apply(backend, iceberg_table)
    assert len(born) == 41
    assert {row: number for row, (number, _) in lineage(spark, iceberg_table).items()} == {
        row: number for row, (number, _) in born.items()
    }


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_in_the_new_partitioning_does_not_reach_rows_that_had_none(
    spark: SparkSession, project: Project, backend: IcebergBackend, iceberg_table: TableName, version: int
) -> None:
    create(spark, iceberg_table, version)
    spark.sql(f"insert into {iceberg_table} values (1, 1, 7), (2, 2, 7), (3, 3, 7)")
    spark.sql(f"alter table {iceberg_table} add partition field bucket(2, id)")
    spec = IcebergJvm(spark).load(iceberg_table).spec()
    bucket = IcebergJvm(spark).iceberg.PartitionData(spec.partitionType())
    bucket.put(0, spark.sql("select ice.system.bucket(2, 2) b").collect()[0].b)
    seen: list[list[int]] = []

    def delete() -> None:
        delete_equal(spark, iceberg_table, [2], spec.specId(), bucket)
        seen.append(ids(spark, iceberg_table))

    race(spark, project, iceberg_table, backend.observe(iceberg_table, []), delete)
    assert seen == [[1, 2, 3]]
    assert ids(spark, iceberg_table) == [1, 2, 3]
