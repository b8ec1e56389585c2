"""What a query reads if it skips row groups: the estimate of a plan beside the rows of real files."""

import datetime
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from support.builders import make_layout, make_spec

from zlayout.errors import Location
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.planner.model import Plan, TablePlan
from zlayout.planner.work import PlanOptions
from zlayout.report.text import TextOptions, render
from zlayout.session.plan import plan_table
from zlayout.session.sampling import SAMPLE_BYTES, sampled
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig

ROWS, FILES, PER_ROW_GROUP = 24_000, 6, 500
COLUMNS = ("id", "at", "name", "price", "sometimes", "random")


@cache
def make_rows() -> pa.Table:
    random = np.random.default_rng(3)
    order = np.arange(ROWS)
    start = datetime.datetime(2026, 1, 1)
    return pa.table(
        {
            "id": order,
            "at": pa.array([start + datetime.timedelta(minutes=int(n)) for n in order], pa.timestamp("us")),
            "name": [f"name {n:06}" for n in order],
            "price": pa.array([Decimal(int(n)) / 100 for n in order], pa.decimal128(12, 2)),
            "sometimes": pa.array(order, mask=order % 4000 < 2000),
            "random": random.integers(0, 10**6, ROWS),
        }
    )


def write(where: Path, row_group: int) -> None:
    """Write files that all have the whole range of values, in order inside."""
    properties = WriterProperties(max_row_group_size=row_group)
    for file in range(FILES):
        write_deltalake(
            where, make_rows().take(np.arange(file, ROWS, FILES)), mode="append", writer_properties=properties
        )


def plan(tmp_path: Path, max_bytes: int = SAMPLE_BYTES) -> TablePlan:
    catalog = CatalogConfig("lake", "delta", "path", {"warehouse": str(tmp_path)}, Location("zlayout.yaml"))
    backend = DeltaBackend(catalog, SparkRuntime(Project(tmp_path, {"lake": catalog}, SparkConfig(), ())))
    spec = make_spec(make_layout(*COLUMNS, target_size=2**18))
    found = plan_table(spec, backend, PlanOptions())
    return sampled(found, backend, max_bytes).plan


def row_groups(where: Path) -> Iterator[tuple[pa.Table, float]]:
    """Yield the rows of each row group, and its part of the size of the file."""
    for path in map(Path, DeltaTable(where).file_uris()):
        file = pq.ParquetFile(path)
        sizes = np.array([file.metadata.row_group(n).total_byte_size for n in range(file.num_row_groups)])
        for n, share in enumerate(sizes / sizes.sum()):
            yield file.read_row_group(n), share * path.stat().st_size


def read_by_queries(where: Path, column: str) -> float:
    """The mean over the rows of the bytes of the row groups whose smallest and largest value surround the row's."""
    values = make_rows()[column].drop_null()
    total = 0.0
    for rows, size in row_groups(where):
        limits = pc.min_max(rows[column])
        inside = pc.and_(pc.greater_equal(values, limits["min"]), pc.less_equal(values, limits["max"]))
        total += size * (pc.sum(inside).as_py() or 0)
    return total / len(values)


@pytest.mark.parametrize("max_bytes", [SAMPLE_BYTES, 10_000])
def test_row_groups_that_cannot_match_are_not_counted(tmp_path: Path, max_bytes: int) -> None:
    write(tmp_path / "db" / "t", PER_ROW_GROUP)
    found = plan(tmp_path, max_bytes)
    assert found.sample.row_groups_in_files == 8 * found.sample.files
    assert (found.sample.row_groups < ROWS // PER_ROW_GROUP) == (max_bytes < SAMPLE_BYTES)
    for column in found.columns:
        read = column.bytes_read
        assert read.in_row_groups == pytest.approx(read_by_queries(tmp_path / "db" / "t", column.column), rel=0.1)
        assert read.in_row_groups <= read.now
    shares = {c.column: (c.bytes_read.in_row_groups or 0) / c.bytes_read.now for c in found.columns}
    assert shares["id"] == pytest.approx(1 / 8, rel=0.1)
    assert shares["random"] > 0.95


def test_files_of_one_row_group_are_read_whole(tmp_path: Path) -> None:
    write(tmp_path / "db" / "t", ROWS)
    found = plan(tmp_path)
    for column in found.columns:
        assert column.bytes_read.in_row_groups == pytest.approx(column.bytes_read.now, rel=0.05)
    assert "in row groups" not in render(Plan("0", (found,)))


def test_the_screen_states_an_estimate_now_and_a_limit_afterwards(tmp_path: Path) -> None:
    write(tmp_path / "db" / "t", PER_ROW_GROUP)
    found = plan(tmp_path)
    one = replace(found, columns=found.columns[:1])
    (line,) = (line for line in render(Plan("0", (one,))).splitlines() if "in row groups" in line)
    now, after = line.split("id ")[1].split(" -> ")
    assert now.startswith("~")
    assert after.startswith("at most ")
    assert max(map(len, render(Plan("0", (found,)), TextOptions(width=80)).splitlines())) <= 80
