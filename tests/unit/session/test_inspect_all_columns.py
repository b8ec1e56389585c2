"""inspect without a layout: every column with bounds is measured alone, in memory that grows with files and columns."""

import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.builders import make_bounds, make_file_table

import zlayout
from zlayout.table.metrics import layout_metrics
from zlayout.table.partition import Partition, PartitionField


@pytest.fixture
def project(root: Path) -> zlayout.Project:
    """A table without a layout: 16 files in the order of `id`, two more columns of numbers and one of text."""
    random = np.random.default_rng(1)
    for n in range(16):
        columns = {
            "id": np.arange(100 * n, 100 * n + 100),
            "wide": random.integers(0, 10**6, 100),
            "few": random.integers(0, 3, 100),
            "text": [f"{value:06}" for value in random.integers(0, 10**6, 100)],
        }
        write_deltalake(str(root / "tables" / "db" / "free"), pa.table(columns), mode="append")
    return zlayout.load_project(root)


def test_a_column_has_the_same_metrics_among_others_as_alone(project: zlayout.Project) -> None:
    together = zlayout.inspect(project, "lake.db.free")
    assert [m.column for m in together.columns] == ["id", "wide", "few", "text"]
    for metrics in together.columns:
        (alone,) = zlayout.inspect(project, "lake.db.free", columns=[metrics.column]).columns
        assert (alone.touched, alone.floor, alone.bytes_read) == (metrics.touched, metrics.floor, metrics.bytes_read)
    first = together.columns[0]
    # A layout by all four columns would have a floor of 8 for `id`, which is 1 already.
    assert first.touched == pytest.approx(1.0)
    assert first.floor is None or first.floor <= first.touched


def peak(files: int, columns: int, partitions: int) -> int:
    """The peak of the memory that measuring all columns takes, in bytes."""
    random = np.random.default_rng(files)
    low = random.integers(0, 10**9, (columns, files))
    names = [f"c{number}" for number in range(columns)]
    bounds = {
        name: make_bounds(values.tolist(), (values + 10**6).tolist(), pa.int64())
        for name, values in zip(names, low, strict=True)
    }
    field = PartitionField("p")
    table = make_file_table(
        [1000] * files,
        partition=[number % partitions for number in range(files)],
        partitions=tuple(Partition(0, (field,), (number,)) for number in range(partitions)),
        bounds=bounds,
    )
    tracemalloc.start()
    layout_metrics(table, names)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_memory_grows_linearly_with_columns_and_with_files() -> None:
    base = peak(2000, 20, 500)
    assert peak(2000, 80, 500) < 4.5 * base
    assert peak(8000, 20, 2000) < 4.5 * base
