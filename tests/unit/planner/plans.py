"""Hand-made states for planner tests: files given as small tuples."""

from dataclasses import dataclass

import pyarrow as pa
from support.builders import layout_record, make_bounds, make_file_table, make_layout, make_spec, make_state

from zlayout.errors import Location
from zlayout.planner.work import Capabilities
from zlayout.table.state import Column, Partition, PartitionField, TableState

DELTA = Capabilities("delta", partition_evolution=False, native_by_rank=True)
TARGET = 1000
KIND = pa.int64()
LAYOUT = make_layout("a", target_size=TARGET)
SPEC = make_spec(LAYOUT, location=Location("layouts/t.yaml", 2, 1))
OURS = layout_record(LAYOUT)
OLD = layout_record(make_layout("b", target_size=TARGET))


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
    table = make_file_table(
        [f.rows for f in files],
        version_key=[str(f.deleted or "") for f in files],
        deleted=[f.deleted for f in files],
        shared_deletes=[f.shared for f in files],
        bytes=[f.bytes for f in files],
        partition=[regions.index(f.region) if partitioned else 0 for f in files],
        partitions=partitions if files else (),
        layout=[f.layout for f in files],
        layouts=(OURS, OLD),
        group=[f.group for f in files],
        bounds={"a": make_bounds([f.low for f in files], [f.high for f in files], KIND)},
    )
    columns = (Column("a", KIND, True), Column("b", KIND, True), Column("region", pa.string(), True))
    return make_state(table, version=version, columns=columns, partition_fields=fields, spec_id=spec_id)
