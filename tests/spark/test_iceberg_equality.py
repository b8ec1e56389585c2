"""Equality deletes, as Flink and others write them and Spark cannot: applied, kept apart by age, never lost."""

import uuid
from dataclasses import replace
from typing import Any

import pytest
from spark.subjects import IcebergSubject
from support.builders import make_layout, make_spec
from support.runs import plan_and_apply

from zlayout.formats.base import Commit, GroupFailed
from zlayout.planner.model import Reason, TablePlan


@pytest.fixture
def table(iceberg: IcebergSubject) -> IcebergSubject:
    return replace(iceberg, layout=make_layout("a", "b", target_size=4096))


def create(table: IcebergSubject, version: int = 2) -> None:
    properties = f"tblproperties ('format-version'='{version}')"
    table.sql(f"create table {table} (id int, a bigint, b int) using iceberg {properties}")


def append(table: IcebergSubject, first: int, rows: int) -> None:
    keys = ["id * 7919 % 600 + 600 * (id div 10000) a", "cast(id % 60 + 60 * (id div 10000) as int) b"]
    table.append(table.spark.range(first, first + rows, 1, 1).selectExpr("cast(id as int) id", *keys))


def delete_equal(table: IcebergSubject, gone: list[int], spec_id: int = 0, partition: Any = None) -> None:
    """Commit an equality delete file on `id` for all rows that are there already, or for those of one partition.

    partition: a Java StructLike of the spec.
    """
    java, spark = table.java_table(), table.spark
    iceberg = table.jvm.iceberg
    schema = java.schema().select(["id"])
    where = f"{java.location()}/data/equality-{uuid.uuid4()}.parquet"
    file = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(java.io().newOutputFile(where))
    fields = spark.sparkContext._gateway.new_array(spark._jvm.int, 1)  # type: ignore[union-attr]
    fields[0] = schema.findField("id").fieldId()
    factory = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(java).equalityFieldIds(fields)
    made = factory.equalityDeleteRowSchema(schema).build()
    writer = made.newEqualityDeleteWriter(file, java.specs().get(spec_id), partition)
    record = iceberg.data.GenericRecord.create(schema)
    for number in gone:
        writer.write(record.copy("id", number))
    writer.close()
    java.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def apply(table: IcebergSubject) -> tuple[TablePlan, TablePlan]:
    """The plan, and the plan after it was applied."""
    planned, applied = plan_and_apply(make_spec(table.layout, table.name), table.backend, verify="full")
    return planned.plan, applied.after


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_are_deleted_by_value_stay_deleted(table: IcebergSubject, version: int) -> None:
    create(table, version)
    append(table, 0, 300)
    delete_equal(table, [*range(0, 300, 7), 301])
    append(table, 300, 300)
    expected = [n for n in range(600) if n >= 300 or n % 7]
    assert table.ids() == expected
    born = table.lineage() if version == 3 else {}
    _, after = apply(table)
    assert after.status == "unchanged"
    assert table.ids() == expected
    assert (table.lineage() if version == 3 else {}) == born
    assert table.observe().files.deleted.sum() == 0
    append(table, 0, 1)  # the same key again, younger than its delete
    assert table.ids() == [0, *expected]


def test_one_apply_is_enough_for_deletes_of_two_ages(table: IcebergSubject) -> None:
    # The bounds of the delete files exclude the later rows: 560 of all 6000 are within the tolerance, 1120 are not.
    create(table)
    append(table, 0, 4000)
    apply(table)
    delete_equal(table, list(range(560)))
    append(table, 10_000, 2000)
    planned, after = apply(table)
    assert (planned.status, after.status) == ("changes", "unchanged")
    assert table.observe().files.deleted.sum() >= 560
    delete_equal(table, list(range(560, 1120)))
    planned, after = apply(table)
    assert (planned.status, after.status) == ("changes", "unchanged")
    assert table.ids() == [*range(1120, 4000), *range(10_000, 12_000)]


def test_an_upsert_of_new_keys_costs_no_more_than_an_append(table: IcebergSubject) -> None:
    create(table)
    append(table, 0, 4000)
    assert apply(table)[1].status == "unchanged"
    delete_equal(table, list(range(10_000, 14_000)))
    append(table, 10_000, 2000)
    assert table.observe().files.deleted.sum() == 0
    planned, after = apply(table)
    assert [(g.files, g.reason) for g in planned.groups] == [(1, Reason.DECAYED)]
    assert after.status == "unchanged"


def test_a_file_that_is_deleted_on_paper_is_split_by_the_rows_that_it_has(table: IcebergSubject) -> None:
    """4000 rows of a delete file that name one key delete one row."""
    create(table)
    append(table, 0, 4000)
    delete_equal(table, [5] * 4000)
    assert table.observe().files.deleted.sum() == 2000
    assert apply(table)[1].status == "unchanged"
    assert table.ids() == [n for n in range(4000) if n != 5]
    size = table.observe().files.bytes
    assert len(size) >= 0.75 * size.sum() / 4096


@pytest.mark.parametrize("version", [2, 3])
def test_a_concurrent_delete_applies_to_the_new_files(table: IcebergSubject, version: int) -> None:
    create(table, version)
    append(table, 0, 400)
    append(table, 400, 400)
    delete_equal(table, [5, 405])
    state = table.observe()
    (done,) = table.race(state, lambda: delete_equal(table, [7, 407]))
    assert isinstance(done, Commit)
    assert table.ids() == [n for n in range(800) if n not in (5, 7, 405, 407)]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("before", [[], [5]], ids=["first", "further"])
def test_a_concurrent_delete_stays_although_all_other_files_are_newer(
    table: IcebergSubject, version: int, before: list[int]
) -> None:
    """Iceberg removes delete files that are older than all data files, and does not count the files of the commit."""
    create(table, version)
    append(table, 0, 400)
    append(table, 400, 400)
    if before:
        delete_equal(table, before)
    state = table.observe()

    def write() -> None:
        delete_equal(table, [7, 407])
        append(table, 1000, 10)

    (done,) = table.race(state, write)
    left = [n for n in [*range(800), *range(1000, 1010)] if n not in (*before, 7, 407)]
    assert table.ids() == left
    assert isinstance(done, GroupFailed)
    assert done.error.diagnostics[0].code == "ZL321"
    assert apply(table)[1].status == "unchanged"
    assert table.ids() == left


def test_a_concurrent_delete_is_a_conflict_for_engine_native(table: IcebergSubject) -> None:
    """Older deletes do not reach new files with the number of their own commit, so Iceberg must report them."""
    create(table)
    append(table, 0, 400)
    append(table, 400, 400)
    delete_equal(table, [5])
    native = replace(table, layout=make_layout("a", "b", curve="zorder", target_size=4096, engine="native"))
    assert apply(native)[1].status == "unchanged"
    made = native.java_table().currentSnapshot()
    numbers = {int(f.dataSequenceNumber()) for f in made.addedDataFiles(native.java_table().io())}
    assert numbers == {int(made.sequenceNumber())}
    assert table.ids() == [n for n in range(800) if n != 5]


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_in_the_old_partitioning_is_a_conflict_for_rows_that_move_to_the_new(
    table: IcebergSubject, version: int
) -> None:
    """A writer that started before the partitioning changed goes on in it, as Flink does."""
    create(table, version)
    table.sql(f"alter table {table} add partition field b")
    table.sql(f"insert into {table} values (1, 1, 7), (2, 2, 7), (3, 3, 7)")
    table.sql(f"alter table {table} replace partition field b with bucket(2, id)")
    (old,) = table.java_table().currentSnapshot().addedDataFiles(table.java_table().io())
    state = table.observe()

    def upsert() -> None:
        delete_equal(table, [2], old.specId(), old.partition())

    (done,) = table.race(state, upsert)
    assert table.ids() == [1, 3]
    assert isinstance(done, GroupFailed)
    assert apply(table)[1].status == "unchanged"
    assert table.ids() == [1, 3]


def test_row_ids_that_a_concurrent_upgrade_adds_are_kept(table: IcebergSubject) -> None:
    create(table)
    append(table, 0, 40)
    state = table.observe()
    born = {}

    def upgrade() -> None:
        table.sql(f"alter table {table} set tblproperties ('format-version'='3')")
        append(table, 40, 1)
        born.update(table.lineage())

    (done,) = table.race(state, upgrade)
    assert isinstance(done, GroupFailed)
    apply(table)
    assert len(born) == 41
    row_ids = [{row: number for row, (number, _) in found.items()} for found in (table.lineage(), born)]
    assert row_ids[0] == row_ids[1]


@pytest.mark.parametrize("version", [2, 3])
def test_a_delete_in_the_new_partitioning_does_not_reach_rows_that_had_none(
    table: IcebergSubject, version: int
) -> None:
    create(table, version)
    table.sql(f"insert into {table} values (1, 1, 7), (2, 2, 7), (3, 3, 7)")
    table.sql(f"alter table {table} add partition field bucket(2, id)")
    spec = table.java_table().spec()
    bucket = table.jvm.iceberg.PartitionData(spec.partitionType())
    bucket.put(0, table.sql("select ice.system.bucket(2, 2) b").collect()[0].b)
    seen: list[list[int]] = []

    def delete() -> None:
        delete_equal(table, [2], spec.specId(), bucket)
        seen.append(table.ids())

    table.race(table.observe(), delete)
    assert seen == [[1, 2, 3]]
    assert table.ids() == [1, 2, 3]
