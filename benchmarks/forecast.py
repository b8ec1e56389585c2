"""Compares the forecasts of a plan, with and without a sample, with the result of `apply`, for many data shapes.

A table of each shape is created in both formats, planned with and without a sample, applied by engine zlayout in one
Spark session, and planned again. Writes results/forecast.json, a list of {shape, format, column, predicted, low, high,
measured, floor, files_predicted, files_measured, now}. predicted, floor and files_predicted are those of `plan
--sample`; low and high those of `plan` without a sample; measured and files_measured are the metrics of the table after
apply; now is touched before.

A cell passes if predicted is within 10 % or 0.3 files of measured, measured is within low..high, and measured is not
below floor. The program lists the cells that fail, and ends with exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import IdentityTransform

from zlayout.errors import Location
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.planner.work import PlanOptions
from zlayout.session.apply import apply_table
from zlayout.session.plan import plan_table
from zlayout.session.results import new_run
from zlayout.session.sampling import SAMPLE_BYTES, sampled
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Layout, LayoutSpec, Project, SparkConfig, TableName, ZorderColumn
from zlayout.table.partition import PartitionField

OUT = Path(__file__).parent / "results" / "forecast.json"
ROWS = 200_000
FILES = 48
APPENDS = 12
PLACE = Location("layouts/t.yaml")


@dataclass(frozen=True)
class Shape:
    """Columns of a table, its keys, and what differs from a first layout of an unpartitioned table.

    Attributes:
        columns: The values by column. A column that is not a key is a payload.
        keys: The z-order columns.
        partitioned: The columns by which the table is partitioned from the beginning.
        partition_by: The declared partitioning, if it changes.
        deleted: A condition in SQL; the rows that match are deleted (deletion vectors, position deletes).
        noise: The setting of the layout.
        curve: The curve.
    """

    columns: Mapping[str, Any]
    keys: tuple[str, ...]
    partitioned: tuple[str, ...] = ()
    partition_by: tuple[PartitionField, ...] | None = None
    deleted: str = ""
    noise: bool = False
    curve: str = "kd"


@dataclass
class Cell:
    """One column of one table: a row of the result."""

    shape: str
    format: str
    column: str
    predicted: float | None
    low: float | None
    high: float | None
    measured: float
    floor: float | None
    files_predicted: int | None
    files_measured: int
    now: float
    failures: list[str] = field(default_factory=list)

    def judge(self) -> None:
        if self.predicted is None or abs(self.predicted - self.measured) > max(0.1 * self.measured, 0.3):
            self.failures.append("predicted")
        if self.low is not None and self.measured < self.low - 1e-6:
            self.failures.append("low")
        if self.high is not None and self.measured > self.high + 1e-6:
            self.failures.append("high")
        if self.floor is not None and self.measured < self.floor - 1e-6:
            self.failures.append("floor")


def shapes(rows: int) -> Iterator[tuple[str, Shape]]:
    """Return the name and the data of each shape, the same in each run."""
    rng = np.random.default_rng(20261125)
    wide = rng.integers(0, 10**9, rows)
    wide2, wide3, wide4 = (rng.integers(0, 10**9, rows) for _ in range(3))
    id = np.arange(rows)
    day = rng.integers(0, 2000, rows)
    dates = [(day + shift).astype("datetime64[D]") for shift in (0, rng.integers(1, 30, rows))]
    seconds = (id * 30 + rng.integers(0, 3600, rows)).astype("datetime64[s]").astype("datetime64[us]")
    place = rng.random(rows)
    skewed = np.select([place < 0.2, place < 0.28, place < 0.33], [1, 2, 3], rng.integers(4, 50_000, rows))
    few = pa.array([f"customer of the region {n:03}" for n in rng.integers(0, 200, rows)])
    status = pa.array(np.array(["open", "paid", "sent"])[rng.integers(0, 3, rows)])
    doubles = rng.integers(0, 50, rows) / 7.0
    nulls = pa.array(rng.integers(0, 10**9, rows), mask=rng.random(rows) < 0.9)
    region = pa.array(np.array(["east", "north", "south", "west"])[np.minimum(rng.geometric(0.5, rows) - 1, 3)])
    yield "uniform", Shape({"a": wide, "b": wide2}, ("a", "b"))
    yield "one key", Shape({"a": wide, "b": wide2}, ("a",))
    yield "correlated dates", Shape({"a": dates[0], "b": dates[1], "c": wide}, ("a", "b"))
    yield "id and time", Shape({"a": id, "b": seconds, "c": wide}, ("a", "b"))
    yield "skewed 20/8/5 %", Shape({"a": skewed, "b": wide}, ("a", "b"))
    yield "zipf", Shape({"a": rng.zipf(1.3, rows).clip(max=10**9), "b": wide}, ("a", "b"))
    yield "text, 200 values", Shape({"a": few, "b": wide}, ("a", "b"))
    yield "text, 3 values", Shape({"a": status, "b": wide}, ("a", "b"))
    yield "text, 3 values, one key", Shape({"a": status, "b": wide}, ("a",))
    yield "text, 3 values, one key, noise", Shape({"a": status, "b": wide}, ("a",), noise=True)
    yield "doubles, 50 values", Shape({"a": doubles, "b": wide}, ("a", "b"))
    yield "90 % null", Shape({"a": nulls, "b": wide}, ("a", "b"))
    yield "three keys", Shape({"a": wide, "b": wide2, "c": wide3}, ("a", "b", "c"))
    yield "four keys", Shape({"a": wide, "b": skewed, "c": dates[0], "d": wide4}, ("a", "b", "c", "d"))
    yield "hilbert", Shape({"a": wide, "b": wide2}, ("a", "b"), curve="hilbert")
    yield "linear", Shape({"a": day, "b": wide2}, ("a", "b"), curve="linear")
    yield "partitioned", Shape({"a": wide, "b": skewed, "region": region}, ("a", "b"), partitioned=("region",))
    declared = (PartitionField("region"),)
    yield "partition_by changes", Shape({"a": wide, "b": skewed, "region": region}, ("a", "b"), partition_by=declared)
    yield (
        "with deletes",
        Shape({"a": wide, "b": wide2, "id": id}, ("a", "b"), deleted=f"id % 3 = 0 or id < {rows // 4}"),
    )


def create(format: str, runtime: SparkRuntime, project: Project, name: TableName, shape: Shape) -> None:
    """Create the table in APPENDS appends, without Spark, and delete rows of it with Spark."""
    rows = pa.table({column: pa.array(values) for column, values in shape.columns.items()})
    step = -(-len(rows) // APPENDS)
    parts = [rows.slice(start, step) for start in range(0, len(rows), step)]
    if format == "delta":
        where = str(project.root / "delta" / "db" / name.name)
        for part in parts:
            write_deltalake(where, part, mode="append", partition_by=list(shape.partitioned) or None)
        if shape.deleted:
            spark = runtime.session
            spark.sql(f"alter table delta.`{where}` set tblproperties ('delta.enableDeletionVectors' = 'true')")
            spark.sql(f"delete from delta.`{where}` where {shape.deleted}")
        return
    catalog = load_catalog("ice", type="sql", **project.catalogs["ice"].options)
    table = catalog.create_table(("db", name.name), schema=rows.schema)
    if shape.partitioned:
        with table.update_spec() as update:
            for column in shape.partitioned:
                update.add_field(column, IdentityTransform(), column)
    for part in parts:
        table.append(part)
    catalog.close()
    if shape.deleted:
        where = f"ice.db.{name.name}"
        modes = "'format-version' = '2', 'write.delete.mode' = 'merge-on-read'"
        runtime.session.sql(f"alter table {where} set tblproperties ({modes})")
        runtime.session.sql(f"delete from {where} where {shape.deleted}")


def measure(format: str, name: str, shape: Shape, backend: Backend, table: TableName) -> list[Cell]:
    """Plan, sample, apply and plan again."""
    size = int(backend.observe(table, ()).files.bytes.sum())
    columns = tuple(ZorderColumn(key) for key in shape.keys)
    layout = Layout(columns, shape.curve, 1000, shape.noise, max(size // FILES, 1), True, "zlayout")
    spec = LayoutSpec(table, layout, PLACE, partition_by=shape.partition_by)
    options = PlanOptions(allow_full_rewrite=True)
    planned = plan_table(spec, backend, options)
    forecast = sampled(planned, backend, SAMPLE_BYTES).plan
    for diagnostic in forecast.diagnostics:
        print(f"    {diagnostic}", flush=True)
    applied = new_run(planned)
    apply_table(planned, backend, options, applied, lambda _event: None, lambda _table, _event: None)
    if applied.error is not None:
        raise applied.error
    after = plan_table(spec, backend, options).plan
    cells = []
    for before, then, now in zip(planned.plan.columns, forecast.columns, after.columns, strict=True):
        files = forecast.files_after.predicted if forecast.files_after else None
        touched = (then.predicted, before.low, before.high, now.touched, then.floor)
        cell = Cell(name, format, now.column, *touched, files, after.files, before.touched)
        cell.judge()
        cells.append(cell)
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", default="", help="shapes whose name contains this text; other results stay")
    args = parser.parse_args()
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        options = {"uri": f"sqlite:///{root / 'ice.db'}", "warehouse": f"file://{root / 'ice'}"}
        catalogs = {
            "lake": CatalogConfig("lake", "delta", "path", {"warehouse": str(root / "delta")}, PLACE),
            "ice": CatalogConfig("ice", "iceberg", "sql", options, PLACE),
        }
        conf = {"spark.sql.shuffle.partitions": "4", "spark.databricks.delta.snapshotPartitions": "2"}
        project = Project(root, catalogs, SparkConfig("local[2]", conf), ())
        runtime = SparkRuntime(project)
        made = load_catalog("ice", type="sql", **options)
        made.create_namespace("db")
        made.close()
        backends = {name: backend_for(config, runtime) for name, config in catalogs.items()}
        for number, (name, shape) in enumerate(shapes(args.rows)):
            if args.only not in name:
                continue
            for catalog, config in catalogs.items():
                table = TableName(catalog, ("db",), f"t{number}")
                create(config.format, runtime, project, table, shape)
                found = measure(config.format, name, shape, backends[catalog], table)
                cells += found
                for cell in found:
                    print(line(cell), flush=True)
        runtime.stop()
    failed = [cell for cell in cells if cell.failures]
    print(f"{len(cells) - len(failed)} of {len(cells)} cells hold")
    found = [document(cell) for cell in cells]
    if args.only:
        measured = {cell.shape for cell in cells}
        order = [name for name, _ in shapes(1000)]
        found += [row for row in json.loads(OUT.read_text(encoding="utf-8")) if row["shape"] not in measured]
        found.sort(key=lambda row: order.index(row["shape"]))
    lines = ",\n  ".join(map(json.dumps, found))
    OUT.write_text(f"[\n  {lines}\n]\n", encoding="utf-8")
    return 1 if failed else 0


def document(cell: Cell) -> dict[str, Any]:
    """One cell of the result, with its failures if it has some."""
    values = {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(cell).items()}
    return {key: value for key, value in values.items() if key != "failures" or value}


def line(cell: Cell) -> str:
    """One row of the screen."""
    text = [f"{cell.shape:32} {cell.format:8} {cell.column:7} {cell.now:7.2f} ->"]
    for value in (cell.predicted, cell.low, cell.high, cell.measured, cell.floor):
        text.append(f"{'?' if value is None else f'{value:.2f}':>7}")
    return " ".join([*text, f"files {cell.files_predicted} {cell.files_measured}", *map(str.upper, cell.failures)])


if __name__ == "__main__":
    sys.exit(main())
