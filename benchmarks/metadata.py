"""Tables that are metadata only: a `FileTable` in memory, a Delta log, Iceberg manifests. No data file exists."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from numpy.typing import NDArray
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from zlayout.errors import Location
from zlayout.spec.model import Layout, LayoutSpec, TableName, ZorderColumn
from zlayout.table.state import Column, ColumnBounds, FileTable, LayoutRecord, Partition, PartitionField, TableState

SIZE = 128 << 20
ROWS = 1_000_000
VALUES = 10**9
COMMITS = 50
APPENDS = 10

Int64 = NDArray[np.int64]


def names(columns: int) -> list[str]:
    return [f"c{n}" for n in range(columns)]


def intervals(files: int, shape: str, seed: int) -> tuple[Int64, Int64]:
    """Lower and upper bounds. wide: every file spans nearly everything; random: any interval; sorted: side by side."""
    random = np.random.default_rng(seed)
    if shape == "wide":
        return random.integers(0, VALUES // 1000, files), random.integers(VALUES - VALUES // 1000, VALUES, files)
    if shape == "sorted":
        edges = np.sort(random.integers(0, VALUES, files + 1))
        return edges[:-1], edges[1:]
    ends = np.sort(random.integers(0, VALUES, (files, 2)), axis=1)
    return ends[:, 0], ends[:, 1]


def in_memory(files: int, columns: int, shape: str, partitions: int, laid: float) -> tuple[LayoutSpec, TableState]:
    """A spec and an observation. laid: the share of files that one of three rewrites of their partition laid out."""
    random = np.random.default_rng(7)
    layout = Layout(tuple(map(ZorderColumn, names(columns))), "kd", 1000, False, SIZE, True, "zlayout")
    fields = (PartitionField("p"),) if partitions > 1 else ()
    partition = np.sort(random.integers(0, partitions, files)).astype(np.int32)
    is_laid = random.random(files) < laid
    group = (partition + partitions * random.integers(0, 3, files)).astype(np.int32)
    table = FileTable(
        path=pa.array(_paths(partition, fields)),
        version_key=pa.array([""] * files),
        rows=np.full(files, ROWS, np.int64),
        deleted=np.zeros(files, np.int64),
        shared_deletes=np.zeros(files, np.bool_),
        bytes=np.full(files, SIZE, np.int64),
        partition=partition,
        partitions=tuple(Partition(0, fields, (n,) if fields else ()) for n in range(partitions)),
        layout=np.where(is_laid, 0, -1).astype(np.int32),
        layouts=(LayoutRecord(layout.layout_id, layout.settings()),),
        group=np.where(is_laid, group, -1).astype(np.int32),
        bounds={name: _bounds(*intervals(files, shape, seed)) for seed, name in enumerate(names(columns))},
    )
    state = TableState(
        table="lake.db.t",
        format="delta",
        location="/t",
        table_id="id",
        version=1,
        schema_digest="s",
        columns=tuple(Column(name, pa.int64(), True) for name in [*names(columns), *(f.source for f in fields)]),
        partition_fields=fields,
        spec_id=0,
        properties={},
        features=frozenset(),
        refusals=(),
        files=table,
    )
    return LayoutSpec(TableName("lake", ("db",), "t"), layout, Location("t.yaml")), state


def _paths(partition: NDArray[np.int32], fields: tuple[PartitionField, ...]) -> list[str]:
    """As Spark names them: the partition's folder, the number of a task, and a UUID."""
    numbers = np.random.default_rng(8).bytes(16 * len(partition)).hex()
    paths = []
    for at, owner in enumerate(partition.tolist()):
        x = numbers[32 * at : 32 * at + 32]
        folder = "".join(f"{field}={owner}/" for field in fields)
        uuid = f"{x[:8]}-{x[8:12]}-{x[12:16]}-{x[16:20]}-{x[20:]}"
        paths.append(f"{folder}part-{at % 200:05}-{uuid}-c000.snappy.parquet")
    return paths


def _bounds(low: Int64, high: Int64) -> ColumnBounds:
    none = np.zeros(len(low), np.int64)
    return ColumnBounds(pa.array(low), pa.array(high), none, none.astype(bool))


def delta_log(path: Path, files: int, columns: int, checkpoint: str) -> None:
    """A Delta log of COMMITS commits. checkpoint: none, json (statistics as JSON) or parsed (as columns too)."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    bounds = {name: intervals(files, "random", seed) for seed, name in enumerate(names(columns))}
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in bounds]
    head = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "planning",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": {"delta.checkpoint.writeStatsAsStruct": "true"} if checkpoint == "parsed" else {},
                "createdTime": 1,
            }
        },
    ]
    write = {"timestamp": 1, "operation": "WRITE", "operationParameters": {"mode": "Append", "partitionBy": "[]"}}
    for version, numbers in enumerate(np.array_split(np.arange(files), COMMITS)):
        lines = [json.dumps(action) for action in [{"commitInfo": write}, *(head if version == 0 else [])]]
        lines += [_add(n, bounds) for n in numbers.tolist()]
        (log / f"{version:020d}.json").write_text("\n".join(lines) + "\n")
    if checkpoint != "none":
        DeltaTable(str(path)).create_checkpoint()
    if checkpoint == "parsed":
        _parse_statistics(log, bounds)


def _add(number: int, bounds: dict[str, tuple[Int64, Int64]]) -> str:
    low, high = ({name: int(ends[side][number]) for name, ends in bounds.items()} for side in (0, 1))
    stats = {"numRecords": ROWS, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
    path = f"part-{number:08}-c000.snappy.parquet"
    action = {"path": path, "partitionValues": {}, "size": SIZE, "modificationTime": 1, "dataChange": True}
    return json.dumps({"add": {**action, "stats": json.dumps(stats)}})


def _parse_statistics(log: Path, bounds: dict[str, tuple[Int64, Int64]]) -> None:
    """Put `stats_parsed` into the checkpoint where the writer has not."""
    (file,) = log.glob("*.checkpoint.parquet")
    table = pq.read_table(file)
    adds = table["add"].combine_chunks()
    if "stats_parsed" in {field.name for field in adds.type}:
        return
    paths = adds.field("path").to_pylist()
    number = np.array([int(p[5:13]) if p else 0 for p in paths])
    low, high = (
        pa.StructArray.from_arrays([pa.array(e[s][number]) for e in bounds.values()], list(bounds)) for s in (0, 1)
    )
    nulls = pa.StructArray.from_arrays([pa.array(np.zeros(len(paths), np.int64)) for _ in bounds], list(bounds))
    rows = pa.array(np.full(len(paths), ROWS, np.int64))
    parsed = pa.StructArray.from_arrays([rows, low, high, nulls], ["numRecords", "minValues", "maxValues", "nullCount"])
    fields = [adds.field(n) for n in range(adds.type.num_fields)]
    known = [adds.type.field(n).name for n in range(adds.type.num_fields)]
    whole = pa.StructArray.from_arrays([*fields, parsed], [*known, "stats_parsed"], mask=adds.is_null())
    pq.write_table(table.set_column(table.schema.get_field_index("add"), "add", whole), file)
    (log / "_last_checkpoint").unlink(missing_ok=True)  # it states the size of the file that was replaced


def iceberg_table(root: Path, files: int, columns: int) -> None:
    """An Iceberg table `db.t` in an SQLite catalog under `root`, written in APPENDS snapshots."""
    schema = Schema(*(NestedField(n + 1, name, LongType(), required=False) for n, name in enumerate(names(columns))))
    catalog = load_catalog(
        "ice", type="sql", uri=f"sqlite:///{root / 'iceberg.db'}", warehouse=f"file://{root / 'iceberg'}"
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema)
    bounds = [intervals(files, "random", seed) for seed in range(columns)]
    for numbers in np.array_split(np.arange(files), APPENDS):
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for number in numbers.tolist():
                append.append_data_file(_data_file(number, table.location(), bounds))
        table = catalog.load_table("db.t")


def _data_file(number: int, location: str, bounds: list[tuple[Int64, Int64]]) -> DataFile:
    low, high = (
        {n + 1: int(ends[side][number]).to_bytes(8, "little", signed=True) for n, ends in enumerate(bounds)}
        for side in (0, 1)
    )
    counts = dict.fromkeys(low, ROWS)
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{location}/data/part-{number:08}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=ROWS,
        file_size_in_bytes=SIZE,
        column_sizes=counts,
        value_counts=counts,
        null_value_counts=dict.fromkeys(low, 0),
        nan_value_counts={},
        lower_bounds=low,
        upper_bounds=high,
        split_offsets=[4],
        equality_ids=None,
        sort_order_id=None,
    )
