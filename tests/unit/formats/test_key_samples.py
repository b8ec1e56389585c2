"""Samples of key columns of real Delta and Iceberg tables, read without a JVM."""

import datetime
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimestampType
from support.builders import make_file_table

from zlayout import reading
from zlayout.errors import Location, Refused
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.row_groups import KeyFiles, sample_row_groups
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName
from zlayout.table.samples import KeySample
from zlayout.table.state import Column, TableState

PLACE = Location("zlayout.yaml")
NAME = TableName("lake", ("db",), "t")
AT = [datetime.datetime(2026, 1, 1) + datetime.timedelta(minutes=n) for n in range(6000)]
ROWS = pa.table(
    {
        "id": pa.array(range(6000), pa.int64()),
        "city": pa.array([f"city {n % 70}" for n in range(6000)]),
        "at": pa.array(AT, pa.timestamp("us")),
        "region": pa.array([("east", "a=b/ö", None)[n // 2000] for n in range(6000)]),
    }
)


def runtime(catalog: CatalogConfig, tmp_path: Path) -> SparkRuntime:
    return SparkRuntime(Project(tmp_path, {catalog.name: catalog}, SparkConfig(), ()))


@pytest.fixture
def delta(tmp_path: Path) -> DeltaBackend:
    catalog = CatalogConfig("lake", "delta", "path", {"warehouse": str(tmp_path)}, PLACE)
    return DeltaBackend(catalog, runtime(catalog, tmp_path))


def sample(
    backend: DeltaBackend | IcebergBackend, *columns: str, max_bytes: int = 2**24, seed: int = 1
) -> tuple[TableState, KeySample]:
    state = backend.observe(NAME, columns)
    return state, backend.sample_keys(NAME, state, np.arange(len(state.files)), columns, max_bytes, seed)


def matches(state: TableState, found: KeySample, *columns: str) -> None:
    """Assert that every sampled row is a row of the table, and lies within the bounds of its file."""
    rows = {tuple(row[c] for c in ("id", *columns)) for row in ROWS.to_pylist()}
    keys = [found.keys[c].to_pylist() for c in ("id", *columns)]
    assert {tuple(row) for row in zip(*keys, strict=True)} <= rows
    bounds = state.files.bounds["id"]
    for file, id in zip(found.file.tolist(), found.keys["id"].to_pylist(), strict=True):
        assert bounds.lower[file].as_py() <= id <= bounds.upper[file].as_py()
    for column in columns:
        declared = state.column(column)
        assert found.keys[column].type == declared.type


def test_all_row_groups_of_a_delta_table(tmp_path: Path, delta: DeltaBackend) -> None:
    where = str(tmp_path / "db" / "t")
    small = WriterProperties(max_row_group_size=500)
    for start in range(0, 6000, 2000):
        write_deltalake(
            where,
            ROWS.slice(start, 2000),
            mode="append",
            partition_by=["region"],
            writer_properties=small,
        )
    columns = ("id", "city", "at", "region")
    state, found = sample(delta, *columns)
    assert found.complete
    assert len(found) == 6000
    assert (found.row_groups, found.files, len(found.footers)) == (12, 3, 12)
    matches(state, found, "city", "at", "region")
    assert sorted(found.keys["id"].to_pylist()) == list(range(6000))


def test_timestamps_of_96_bits_may_have_any_year(tmp_path: Path) -> None:
    """Spark writes them by default, in files that zlayout did not write."""
    values = [datetime.datetime(1500, 1, 1), AT[7], datetime.datetime(9999, 12, 31)]
    rows = pa.table({"at": pa.array(values, pa.timestamp("us"))})
    pq.write_table(rows, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    source = KeyFiles(lambda _: pa.OSFile(str(tmp_path / "f.parquet")), lambda name, _: (name,), lambda *_: None)
    files = make_file_table([3], path=["f.parquet"])
    found = sample_row_groups(
        source, files, np.array([0]), [Column("at", pa.timestamp("us"), orderable=True, stats=True)], 2**20, 1
    )
    assert found.keys["at"].to_pylist() == values


def test_the_sample_is_bounded_spread_and_repeatable(tmp_path: Path, delta: DeltaBackend) -> None:
    where = str(tmp_path / "db" / "t")
    small = WriterProperties(max_row_group_size=100)
    for start in range(0, 6000, 1000):
        write_deltalake(where, ROWS.slice(start, 1000), mode="append", writer_properties=small)
    state, found = sample(delta, "id", max_bytes=6000)
    sizes = {
        pq.ParquetFile(tmp_path / "db" / "t" / path).metadata.row_group(0).column(0).total_compressed_size
        for path in state.files.path.to_pylist()
    }
    assert not found.complete
    assert found.bytes_read <= 6000 + 8 * max(sizes)
    assert found.files == 6, "every part of the table is represented"
    assert len(found.footers) == 60 > found.row_groups
    assert len(set(found.row_group.tolist())) == found.row_groups
    assert sample(delta, "id", max_bytes=6000)[1].keys["id"] == found.keys["id"]
    assert sample(delta, "id", max_bytes=6000, seed=2)[1].keys["id"] != found.keys["id"]


def test_a_field_that_was_added_to_a_struct_is_null_in_older_files(tmp_path: Path, delta: DeltaBackend) -> None:
    where = str(tmp_path / "db" / "t")
    write_deltalake(where, pa.table({"s": [{"x": 1}, {"x": 2}]}))
    write_deltalake(where, pa.table({"s": [{"x": 3, "y": 4}, None]}), mode="append", schema_mode="merge")
    _, found = sample(delta, "s.x", "s.y")
    rows = zip(found.keys["s.x"].to_pylist(), found.keys["s.y"].to_pylist(), strict=True)
    assert sorted(rows, key=repr) == [(1, None), (2, None), (3, 4), (None, None)]
    assert found.footers.bounds["s.y"].lower.null_count == 1


@pytest.mark.parametrize(("value", "lacking"), [("east", {}), (None, {"region": 1})])
def test_a_partition_value_is_no_missing_column(
    tmp_path: Path, delta: DeltaBackend, value: str | None, lacking: dict[str, int]
) -> None:
    """Files that other programs wrote, and that were added to a table, may lack the columns of its partitioning."""
    write_deltalake(str(tmp_path / "db" / "t"), ROWS.select(["id"]))
    state = delta.observe(NAME, ("id",))

    def leaf(name: str, schema: pa.Schema) -> tuple[str, ...] | None:
        return (name,) if name in schema.names else None

    source = KeyFiles(
        lambda path: pa.OSFile(str(tmp_path / "db" / "t" / path)), leaf, lambda _name, _file: value, ("id", "region")
    )
    found = sample_row_groups(source, state.files, np.arange(1), [state.columns[0]], 10**6, 1)
    assert found.lacking == lacking


def test_delta_columns_are_read_by_physical_name(tmp_path: Path, delta: DeltaBackend) -> None:
    where = tmp_path / "db" / "t"
    (where / "_delta_log").mkdir(parents=True)
    rows = pa.table({"col-1": pa.array([3, 1, 2], pa.int64()), "col-2": pa.array([{"col-3": n} for n in (7, 8, 9)])})
    pq.write_table(rows, where / "one file.parquet")
    names = {"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 1}
    inner = {"name": "n", "type": "long", "nullable": True}
    inner["metadata"] = {"delta.columnMapping.physicalName": "col-3", "delta.columnMapping.id": 3}
    struct = {"type": "struct", "fields": [inner]}
    outer = {"delta.columnMapping.physicalName": "col-2", "delta.columnMapping.id": 2}
    fields = [
        {"name": "id", "type": "long", "nullable": True, "metadata": names},
        {"name": "s", "type": struct, "nullable": True, "metadata": outer},
    ]
    actions = [
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {
            "metaData": {
                "id": "x",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"},
            }
        },
        {
            "add": {
                "path": "one%20file.parquet",
                "partitionValues": {},
                "size": 10,
                "modificationTime": 0,
                "dataChange": True,
                "stats": '{"numRecords": 3}',
            }
        },
    ]
    (where / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    _, found = sample(delta, "id", "s.n")
    assert found.keys["id"].to_pylist() == [3, 1, 2]
    assert found.keys["s.n"].to_pylist() == [7, 8, 9]


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "city", StringType(), required=False),
    NestedField(3, "at", TimestampType(), required=False),
    NestedField(4, "region", StringType(), required=False),
)


def test_iceberg_columns_are_read_by_field_id(catalog: Catalog, config: CatalogConfig, tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "region"))
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec)
    table.append(ROWS)
    with table.update_schema() as update:
        update.rename_column("city", "town")
    with table.update_schema() as update:
        update.add_column("city", StringType())
    backend = IcebergBackend(config, runtime(config, tmp_path))
    state, found = sample(backend, "id", "town", "city", "at", "region")
    assert (found.complete, len(found), found.files) == (True, 6000, 3)
    matches(state, found, "at", "region")
    by_id = dict(zip(found.keys["id"].to_pylist(), found.keys["town"].to_pylist(), strict=True))
    assert by_id[71] == "city 1"
    assert found.keys["city"].null_count == 6000


def test_stored_rows_are_consecutive_rows_of_files_all_over_the_table(tmp_path: Path, delta: DeltaBackend) -> None:
    where = str(tmp_path / "db" / "t")
    for start in range(0, 6000, 600):
        write_deltalake(where, ROWS.slice(start, 600), mode="append")
    state = delta.observe(NAME, ("id",))
    every = np.arange(len(state.files))
    found = delta.stored_rows(NAME, state, every, ("id", "at"), 2**24)
    assert found is not None
    assert found.codec == "SNAPPY"
    assert sorted(found.file.tolist()) == list(range(10))
    for rows, id, at in zip(found.rows, found.keys["id"], found.keys["at"], strict=True):
        first = rows["id"][0].as_py()
        assert rows.select(["id", "city", "at", "region"]).to_pylist() == ROWS.slice(first, 600).to_pylist()
        assert (id.to_pylist(), at.type) == (rows["id"].to_pylist(), state.column("at").type)
    assert found.stored_rows == 6000
    footers = [pq.read_metadata(tmp_path / "db" / "t" / path).row_group(0) for path in state.files.path.to_pylist()]
    chunks = [group.column(n) for group in footers for n in range(group.num_columns)]
    size = sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema == "city")
    dictionaries = sum(c.data_page_offset - c.dictionary_page_offset for c in chunks if c.path_in_schema == "city")
    assert found.stored["city"].tolist() == [dictionaries, size - dictionaries]
    only = delta.stored_rows(NAME, state, every[2:4], ("id",), 2**24)
    assert only is not None
    assert set(only.file.tolist()) == {2, 3}


def test_stored_rows_are_limited(tmp_path: Path, delta: DeltaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    where = str(tmp_path / "db" / "t")
    for start in range(0, 6000, 600):
        write_deltalake(where, ROWS.slice(start, 600), mode="append")
    state = delta.observe(NAME, ("id",))
    every, size = np.arange(10), int(state.files.bytes.max())
    few = delta.stored_rows(NAME, state, every, ("id",), 3 * size)
    assert few is not None
    assert 3 <= len(few.rows) <= 5, "the limit is in bytes of pages, which are a little smaller than files"
    assert delta.stored_rows(NAME, state, every, ("id",), 100) is None
    monkeypatch.setattr("zlayout.formats.row_groups.MAX_CHUNK_VALUES", 600 * 4 * 3)
    limited = delta.stored_rows(NAME, state, every, ("id",), 2**24)
    assert limited is not None
    assert len(limited.rows) == 3
    long = pa.table({"id": ROWS["id"].slice(0, 2000), "text": pa.array(["x" * 100_000] * 2000)})
    write_deltalake(where, long, mode="overwrite", schema_mode="overwrite")
    state = delta.observe(NAME, ("id",))
    assert state.files.bytes[0] < 2**20
    assert delta.stored_rows(NAME, state, np.arange(1), ("id",), 2**24) is None, "its rows take 200 MB of memory"
    write_deltalake(where, ROWS.slice(0, 400), mode="overwrite", schema_mode="overwrite")
    state = delta.observe(NAME, ("id",))
    assert delta.stored_rows(NAME, state, np.arange(1), ("id",), 2**24) is None, "its dictionaries would tell nothing"


def test_stored_rows_of_iceberg_have_keys_by_field_id(catalog: Catalog, config: CatalogConfig, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    for start in (0, 2000, 4000):
        table.append(ROWS.slice(start, 2000))
    with table.update_schema() as update:
        update.rename_column("city", "town")
    with table.update_schema() as update:
        update.add_column("city", StringType())
    backend = IcebergBackend(config, runtime(config, tmp_path))
    state = backend.observe(NAME, ("id",))
    found = backend.stored_rows(NAME, state, np.arange(3), ("id", "town", "city"), 2**24)
    assert found is not None
    assert set(found.keys) == {"id", "town"}, "the files have no column city"
    assert found.codec == "ZSTD"
    assert found.rows[0].schema.names == ["id", "city", "at", "region"]
    for id, town in zip(found.keys["id"], found.keys["town"], strict=True):
        assert town.to_pylist() == [f"city {n % 70}" for n in id.to_pylist()]


def test_only_a_part_of_a_data_file_is_read(
    catalog: Catalog, config: CatalogConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit for metadata files, which are read as a whole, does not apply to data files."""
    random = np.random.default_rng(1)
    noise = pa.table({"id": ROWS["id"], "city": pa.array(random.bytes(10).hex() for _ in range(6000))})
    catalog.create_table("db.t", noise.schema).append(noise)
    backend = IcebergBackend(config, runtime(config, tmp_path))
    state = backend.observe(NAME, ("id",))
    limit = int(state.files.bytes[0]) - 1
    monkeypatch.setattr(reading, "MAX_METADATA_BYTES", limit)
    found = backend.sample_keys(NAME, state, np.arange(1), ("id",), 10**6, 1)
    assert (len(found), found.bytes_read < limit) == (6000, True)


def test_other_files_than_parquet_are_named(catalog: Catalog, config: CatalogConfig, tmp_path: Path) -> None:
    catalog.create_table("db.t", SCHEMA).append(ROWS)
    backend = IcebergBackend(config, runtime(config, tmp_path))
    state = backend.observe(NAME, ("id",))
    object.__setattr__(state.files, "path", pa.array(["s3://bucket/data/00000.orc"]))
    with pytest.raises(ValueError, match="only Parquet files can be sampled, found ORC files"):
        backend.sample_keys(NAME, state, np.arange(1), ("id",), 10**6, 1)


def test_old_files_without_field_ids_are_read_by_the_name_mapping(
    catalog: Catalog, config: CatalogConfig, tmp_path: Path
) -> None:
    """As after `migrate` or `add_files`, and a rename since."""
    pq.write_table(pa.table({"id": [3, 1], "city": ["a", "b"], "s": [{"n": 7}, {"n": 8}]}), tmp_path / "0.parquet")
    schema = Schema(*SCHEMA.fields[:2], NestedField(5, "s", StructType(NestedField(6, "n", LongType()))))
    table = catalog.create_table("db.t", schema)
    table.add_files([f"file://{tmp_path}/0.parquet"])
    with table.update_schema() as update:
        update.rename_column("city", "town").rename_column("s.n", "m")
    with table.update_schema() as update:
        update.add_column("n", LongType())
    with pytest.raises(Refused, match="ZL242"):
        sample(IcebergBackend(config, runtime(config, tmp_path)), "id")
    config = replace(config, options={**config.options, "file_locations": {"db.*": [str(tmp_path)]}})
    _, found = sample(IcebergBackend(config, runtime(config, tmp_path)), "id", "town", "s.m", "n")
    assert {name: values.to_pylist() for name, values in found.keys.items()} == {
        "id": [3, 1],
        "town": ["a", "b"],
        "s.m": [7, 8],
        "n": [None, None],
    }


def test_columns_that_old_files_lack_have_their_default_value(
    catalog: Catalog, config: CatalogConfig, tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(ROWS.slice(0, 2))
    metadata = Path(catalog.load_table("db.t").metadata_location.removeprefix("file://"))
    document = json.loads(metadata.read_text())
    added = {"n": ("long", 5), "day": ("date", "2024-02-29"), "none": ("long", None), "cost": ("decimal(9, 2)", "1.50")}
    document["schemas"][0]["fields"] += [
        {"id": id, "name": name, "required": False, "type": kind, "initial-default": value}
        for id, (name, (kind, value)) in enumerate(added.items(), 10)
    ]
    metadata.write_text(json.dumps(document | {"format-version": 3, "next-row-id": 0, "last-column-id": 20}))
    _, found = sample(IcebergBackend(config, runtime(config, tmp_path)), *added)
    assert {name: values.to_pylist() for name, values in found.keys.items()} == {
        "n": [5, 5],
        "day": [datetime.date(2024, 2, 29)] * 2,
        "none": [None, None],
        "cost": [Decimal("1.50")] * 2,
    }
