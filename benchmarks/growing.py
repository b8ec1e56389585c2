"""Delta tables with two keys that grow, for the benchmarks of incremental rewrites."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zlayout.errors import Location
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.planner.work import PlanOptions
from zlayout.session.apply import apply_table
from zlayout.session.concurrent_reads import Reading
from zlayout.session.plan import plan_tables
from zlayout.session.results import Applied, new_run
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, LayoutSpec, Project, SparkConfig, TableName
from zlayout.table.state import FileTable

KEYS = ("a", "b")
PAYLOAD = 64
DAY = 86_400
RANGE = 10**9  # of the values of a key

Int64 = NDArray[np.int64]


@dataclass(slots=True)
class Table:
    """One arm's table, and the keys of all rows in it."""

    runtime: SparkRuntime
    backend: DeltaBackend
    name: TableName
    path: Path
    target_size: int
    files: int
    keys: list[Int64] = field(default_factory=list)

    def append(self, rows: pa.Table, files: int) -> None:
        source = self.path.with_suffix(".parquet")
        pq.write_table(rows, source)
        frame = self.runtime.session.read.parquet(str(source)).coalesce(1)
        if files > 1:
            frame = self.runtime.session.read.parquet(str(source)).repartition(files)
        frame.write.format("delta").mode("append").save(str(self.path))
        self.keys.append(np.stack([rows[key].to_numpy() for key in KEYS]))

    def live(self) -> FileTable:
        return self.backend.observe(self.name, KEYS).files


def session(root: Path) -> tuple[Project, SparkRuntime]:
    place = Location("benchmark")
    catalog = CatalogConfig("lake", "delta", "path", {"warehouse": str(root)}, place)
    conf = {
        "spark.sql.shuffle.partitions": "4",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
    }
    project = Project(root, {"lake": catalog}, SparkConfig("local[2]", conf), ())
    return project, SparkRuntime(project)


def apply(spec: LayoutSpec, backend: DeltaBackend, options: PlanOptions) -> Applied:
    (planned,) = plan_tables([spec], {spec.table.catalog: backend}, options, Reading())
    applied = new_run(planned)
    apply_table(planned, backend, options, applied, lambda _: None, lambda *_: None)
    if applied.error is not None:
        raise applied.error
    return applied


def rows_of(arm: str, count: int, seed: int, day: int, days: int = 1) -> pa.Table:
    """Return rows with the two keys of the arm, times within the given days, and bytes that do not compress."""
    random = np.random.default_rng(seed)
    a = random.integers(0, RANGE, count)
    if arm.endswith("_dates"):
        a = np.random.default_rng(seed).integers(day * DAY, (day + days) * DAY, count)
    payload = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(PAYLOAD), count, [None, pa.py_buffer(random.bytes(count * PAYLOAD))]
    )
    b = a + random.integers(0, RANGE // 10, count) if arm.endswith("_correlated") else random.integers(0, RANGE, count)
    return pa.table({"a": a, "b": b, "payload": payload.cast(pa.binary())})


def sizes(table: Table) -> dict[str, int]:
    files = table.live()
    return dict(zip(files.path.to_pylist(), files.bytes.tolist(), strict=True))
