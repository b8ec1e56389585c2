"""Hand-made states for planner tests: files given as small tuples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zlayout.errors import Location
from zlayout.planner.work import Capabilities
from zlayout.spec.model import Layout, LayoutSpec, TableName, ZorderColumn
from zlayout.table.state import Column, ColumnBounds, FileTable, LayoutRecord, Partition, PartitionField, TableState

DELTA = Capabilities("delta", partition_evolution=False, native_by_rank=True)
TARGET = 1000
LAYOUT = Layout((ZorderColumn("a"),), "kd", 1000, False, TARGET, True, "zlayout")
SPEC = LayoutSpec(TableName("lake", ("db",), "t"), LAYOUT, Location("layouts/t.yaml", 2, 1))
OURS = LayoutRecord(LAYOUT.layout_id, LAYOUT.settings())
OLD_LAYOUT = Layout((ZorderColumn("b"),), "kd", 1000, False, TARGET, True, "zlayout")
OLD = LayoutRecord(OLD_LAYOUT.layout_id, OLD_LAYOUT.settings())


@dataclass(frozen=True)
class File:
    low: int
    high: int
    region: str = "east"
    layout: int = -1  # 0: ours, 1: another one, -1: none
    group: int = -1
    rows: int = 100
    deleted: int = 0
    shared: bool = False
    bytes: int = TARGET


def state(*files: File, partitioned: bool = True, spec_id: int = 0, version: int = 7) -> TableState:
    fields = (PartitionField("region"),) if partitioned else ()
    regions = sorted({f.region for f in files}) if partitioned else [""]
    partitions = tuple(Partition(spec_id, fields, (r,) if partitioned else ()) for r in regions)
    kind = pa.int64()
    bounds = ColumnBounds(
        pa.array([f.low for f in files], kind),
        pa.array([f.high for f in files], kind),
        np.zeros(len(files), dtype=np.int64),
        np.zeros(len(files), dtype=bool),
    )
    table = FileTable(
        path=pa.array([f"f{n}" for n in range(len(files))], pa.string()),
        version_key=pa.array([str(f.deleted or "") for f in files], pa.string()),
        rows=np.array([f.rows for f in files], dtype=np.int64),
        deleted=np.array([f.deleted for f in files], dtype=np.int64),
        shared_deletes=np.array([f.shared for f in files], dtype=np.bool_),
        bytes=np.array([f.bytes for f in files], dtype=np.int64),
        partition=np.array([regions.index(f.region) if partitioned else 0 for f in files], dtype=np.int32),
        partitions=partitions if files else (),
        layout=np.array([f.layout for f in files], dtype=np.int32),
        layouts=(OURS, OLD),
        group=np.array([f.group for f in files], dtype=np.int32),
        bounds={"a": bounds},
    )
    return TableState(
        table="lake.db.t",
        format="delta",
        location="/t",
        table_id="id-1",
        version=version,
        schema_digest="s1",
        columns=(Column("a", kind, True), Column("b", kind, True), Column("region", pa.string(), True)),
        partition_fields=fields,
        spec_id=spec_id,
        properties={},
        features=frozenset(),
        refusals=(),
        files=table,
    )
