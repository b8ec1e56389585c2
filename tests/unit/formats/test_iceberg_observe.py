"""Observing tables that pyiceberg wrote, and every way in which a table can be missing. No JVM."""

import os
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import AwsStandardS3RetryStrategy
from pyiceberg.catalog import Catalog
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import _import_retry_strategy
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType, StructType

from zlayout.errors import TableError
from zlayout.formats.iceberg.read import manifests
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.iceberg.read.observe import observe
from zlayout.formats.iceberg.read.schema import unpartitioned_specs
from zlayout.planner.proposal import digests_of
from zlayout.spec.client_options import S3_READ_ATTEMPTS
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table import state as core

NAME = TableName("ice", ("db",), "t")
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "city", StringType(), required=False),
    NestedField(3, "at", StructType(NestedField(4, "hour", IntegerType(), required=False)), required=False),
    NestedField(5, "tags", ListType(6, StringType(), element_required=False), required=False),
)


def rows(first: int, count: int, city: str) -> pa.Table:
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": pa.array([city] * count),
            "at": pa.array([{"hour": i % 24} for i in ids], pa.struct([("hour", pa.int32())])),
            "tags": pa.array([["x"]] * count, pa.list_(pa.string())),
        }
    )


def test_files_bounds_and_columns(catalog: Catalog, config: CatalogConfig) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(0, 10, "Oslo"))
    table.append(rows(100, 5, "a name of more than sixteen characters"))
    state = observe(config, NAME, ["id", "city", "at.hour", "tags", "missing"])

    assert [(c.name, c.orderable, c.stats) for c in state.columns] == [
        ("id", True, True),
        ("city", True, True),
        ("at.hour", True, True),
        ("tags", False, False),
    ]
    assert set(state.files.bounds) == {"id", "city", "at.hour"}
    order = state.files.rows.argsort()[::-1]
    files = state.files.take(order)
    assert files.rows.tolist() == [10, 5]
    sizes = [os.path.getsize(path.removeprefix("file://")) for path in files.path.to_pylist()]
    assert files.bytes.tolist() == sizes
    assert files.bounds["id"].lower.to_pylist() == [0, 100]
    assert files.bounds["id"].upper.to_pylist() == [9, 104]
    assert files.bounds["city"].lower.to_pylist() == ["Oslo", "a name of more t"]
    assert files.bounds["city"].upper.to_pylist() == ["Oslo", "a name of more u"]
    assert files.bounds["city"].truncated.tolist() == [False, True]
    assert files.bounds["id"].null_count.tolist() == [0, 0]
    assert state.version == catalog.load_table("db.t").metadata.current_snapshot_id
    assert state.table_id == str(table.metadata.table_uuid)
    assert state.features == {"format-version=2"}
    assert state.refusals == ()
    assert set(state.files.layout) == {-1}


def test_time_travel_schema_changes_and_a_rename(catalog: Catalog, config: CatalogConfig) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(0, 10, "Oslo"))
    first = observe(config, NAME, ["city"])
    with table.update_schema() as update:
        update.rename_column("city", "town")
        update.add_column("added", LongType())
    renamed = observe(config, NAME, ["town", "added", "city"])
    assert renamed.version == first.version
    assert renamed.schema_digest != first.schema_digest
    assert renamed.files.bounds["town"].lower.to_pylist() == ["Oslo"]
    assert renamed.files.bounds["added"].lower.to_pylist() == [None]
    assert renamed.files.bounds["added"].null_count.tolist() == [-1]
    assert "city" not in renamed.files.bounds
    table.append(rows(20, 5, "Rome").rename_columns(["id", "town", "at", "tags"]))
    back = observe(config, NAME, ["city"], first.version)
    assert digests_of([back.files]) == digests_of([first.files])
    assert back.schema_digest == first.schema_digest
    with pytest.raises(TableError, match="ZL124"):
        observe(config, NAME, [], 12345)


def test_partitions_keep_the_spec_of_their_files(catalog: Catalog, config: CatalogConfig) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec)
    table.append(rows(0, 3, "Oslo"))
    with table.update_spec() as update:
        update.remove_field("city")
        update.add_field("id", IdentityTransform(), "id_key")
    table.append(rows(0, 1, "Rome"))
    state = observe(config, NAME, [])
    of_rows = {int(n): state.files.partitions[p] for n, p in zip(state.files.rows, state.files.partition, strict=True)}
    by_id = core.PartitionField("id")
    assert of_rows[3] == core.Partition(0, (core.PartitionField("city"),), ("Oslo",))
    assert of_rows[1] == core.Partition(1, (by_id,), (0,))
    assert state.partition_fields == (by_id,)
    assert state.spec_id == 1


def test_files_with_the_same_nan_are_in_one_partition() -> None:
    """pyiceberg cannot write such files."""
    files = [Record(0, f"f{n}", "PARQUET", Record(float("nan"), "Oslo")) for n in range(2)]
    assert len({manifests._values(file) for file in files}) == 1


def test_a_spec_of_removed_fields_is_unpartitioned(catalog: Catalog, config: CatalogConfig) -> None:
    """Iceberg applies its equality deletes to files of all specs. Format version 1 keeps the field as void."""
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties={"format-version": "1"})
    table.append(rows(0, 3, "Oslo"))
    with table.update_spec() as update:
        update.remove_field("city")
    table.append(rows(0, 1, "Rome"))
    (void,) = table.spec().fields
    assert str(void.transform) == "void"
    assert unpartitioned_specs(table.metadata) == {1}
    assert sorted(partition.values for partition in observe(config, NAME, []).files.partitions) == [(), ("Oslo",)]


def test_empty_table_and_metrics_switched_off(catalog: Catalog, config: CatalogConfig) -> None:
    off = {"write.metadata.metrics.default": "none", "write.format.default": "avro", "encryption.key-id": "k"}
    catalog.create_table("db.t", SCHEMA, properties=off)
    state = observe(config, NAME, ["id"])
    assert (state.version, len(state.files)) == (-1, 0)
    assert state.files.bounds["id"].lower.type == pa.int64()
    column = state.column("id")
    assert column.stats is False
    assert column.enable_stats == (("write.metadata.metrics.column.id", "truncate(16)"),)
    assert [r.code for r in state.refusals] == ["ZL221", "ZL222"]
    assert uuid.UUID(state.table_id)


def test_columns_with_the_names_of_metadata_columns_are_refused(catalog: Catalog, config: CatalogConfig) -> None:
    names = ("id", "_file", "_POS", "file")
    catalog.create_table("db.t", Schema(*[NestedField(i + 1, n, LongType()) for i, n in enumerate(names)]))
    (refusal,) = observe(config, NAME, ["id"]).refusals
    assert (refusal.code, refusal.message.rpartition(": ")[2]) == ("ZL227", "_file, _POS")


def test_files_that_were_added_twice_are_refused(catalog: Catalog, config: CatalogConfig) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(0, 10, "Oslo"))
    assert observe(config, NAME, []).refusals == ()
    (file,) = (task.file.file_path for task in table.scan().plan_files())
    table.add_files([file], check_duplicate_files=False)
    (refusal,) = observe(config, NAME, []).refusals
    assert refusal.code == "ZL240"
    assert "(1 entry too many)" in refusal.message


def test_metrics_of_a_column_that_pyiceberg_dropped_are_refused(catalog: Catalog, config: CatalogConfig) -> None:
    """Iceberg for Java then rejects each change of table properties, as if it were a conflict."""
    prefix = "write.metadata.metrics.column"
    properties = {f"{prefix}.city": "full", f"{prefix}.at.hour": "none", f"{prefix}.tags.element": "counts"}
    table = catalog.create_table("db.t", SCHEMA, properties=properties)
    assert observe(config, NAME, []).refusals == ()
    with table.update_schema() as update:
        update.delete_column("city")
    (refusal,) = observe(config, NAME, []).refusals
    assert (refusal.code, refusal.message.rpartition(": ")[2]) == ("ZL241", f"{prefix}.city")


def test_what_is_missing_is_named_and_nothing_is_created(
    catalog: Catalog, config: CatalogConfig, tmp_path: Path
) -> None:
    for identifier in (("db",), "none"), (("nowhere",), "t"):
        with pytest.raises(TableError, match="ZL122"):
            observe(config, TableName("ice", *identifier), [])
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(0, 3, "Oslo"))
    manifest_list = catalog.load_table("db.t").metadata.snapshots[0].manifest_list
    Path(manifest_list.removeprefix("file://")).unlink()
    with pytest.raises(TableError, match="ZL125"):
        observe(config, NAME, [])
    Path(catalog.load_table("db.t").metadata_location.removeprefix("file://")).write_text('{"format-version": 9}')
    with pytest.raises(TableError, match="ZL123"):
        observe(config, NAME, [])
    Path(table.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(TableError, match="ZL123"):
        observe(config, NAME, [])

    absent = tmp_path / "absent.db"
    elsewhere = CatalogConfig("ice", "iceberg", "sql", {"uri": f"sqlite:///{absent}"}, config.location)
    with pytest.raises(TableError, match=r"zlayout.yaml:3:5: ZL121"):
        observe(elsewhere, NAME, [])
    assert not absent.exists()
    unreachable = CatalogConfig("ice", "iceberg", "rest", {"uri": "http://127.0.0.1:9"}, config.location)
    with pytest.raises(TableError, match="ZL121"):
        observe(unreachable, NAME, [])


def test_a_missing_table_of_a_database_has_a_hint_where_it_is(catalog: Catalog, config: CatalogConfig) -> None:
    catalog.create_table("db.t", SCHEMA)
    with pytest.raises(TableError, match=r"ZL122 .*\(did you mean ice.db.t\?\)"):
        observe(config, TableName("ice", ("sales",), "t"), [])
    renamed = CatalogConfig("lake", "iceberg", "sql", config.options, config.location)
    with pytest.raises(TableError, match=r"ZL122 .*for a catalog with another name, ice: use this name"):
        observe(renamed, TableName("lake", ("db",), "t"), [])


@pytest.mark.parametrize("key", ["py-io-impl", "s3.retry-strategy-impl"])
def test_a_table_names_no_python_class(
    catalog: Catalog,
    config: CatalogConfig,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    key: str,
) -> None:
    """pyiceberg imports what a table property names, and calls it with the catalog's settings."""
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(0, 3, "x"))
    monkeypatch.setattr(catalog, "_load_file_io", lambda *_, **__: load_file_io({}, table.location()))
    with table.transaction() as change:
        change.set_properties({key: "builtins.print", "s3.access-key-id": "canary"})
    found = load_table(config, NAME)
    assert found.properties[key] == "builtins.print"
    assert found.io.properties.get(key) != "builtins.print"
    assert len(observe(config, NAME, ()).files) == 1
    assert "canary" not in capsys.readouterr().out


def test_a_store_is_asked_as_often_as_for_delta_tables(catalog: Catalog, config: CatalogConfig) -> None:
    """Otherwise a store that is away for three seconds ends a run."""
    catalog.create_table("db.t", SCHEMA)
    strategy = _import_retry_strategy(load_table(config, NAME).io.properties["s3.retry-strategy-impl"])
    assert isinstance(strategy, AwsStandardS3RetryStrategy)
    assert strategy.max_attempts == S3_READ_ATTEMPTS == 5


def test_statistics_of_the_snapshot_state_distinct_values(catalog: Catalog, config: CatalogConfig) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(0, 10, "Oslo"))
    first = table.current_snapshot()
    assert first is not None

    def state(snapshot: int, **properties: str) -> None:
        blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": snapshot, "sequence-number": 1, "fields": [1]}
        document = {
            "snapshot-id": snapshot,
            "statistics-path": "stats.puffin",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [{**blob, "properties": properties}],
        }
        with table.update_statistics() as update:
            update.set_statistics(StatisticsFile.model_validate(document))

    state(first.snapshot_id, ndv="9")
    assert [c.distinct for c in observe(config, NAME, ["id"]).columns] == [9, None, None, None]
    table.append(rows(10, 10, "Rome"))
    assert [c.distinct for c in observe(config, NAME, ["id"]).columns] == [None] * 4, "values may have been added"
    second = table.current_snapshot()
    state(second.snapshot_id, ndv="many")
    assert observe(config, NAME, ["id"]).columns[0].distinct is None
