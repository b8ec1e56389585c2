"""The forecast of files for `engine: duckdb`, beside the files of which DuckDB reads data.

DuckDB reads the Parquet files of a Delta table through a file system that counts bytes. It opens the footer of each
file, because it gets a list of files without bounds here; a file counts as read if more of it than that is read.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support.counted_files import CountingFiles
from support.projects import write_project

import zlayout

FILES, KEYS, ROWS = 20, 100, 4_000  # keys and rows of one file, which are those of one month
LAYOUT = "version: 1\ntable: lake.db.orders\nzorder: {columns: [day]}\n"
SPARSE = 1_000_003


def star(folder: Path, step: int) -> None:
    """Write a fact whose files have the days of one month each, and its dimension. step: between two keys."""
    random = np.random.default_rng(5)
    for month in range(FILES):
        day = (month * KEYS + np.arange(ROWS) % KEYS) * step
        rows = pa.table({"day": pa.array(day, pa.int64()), "v": random.random(ROWS)})
        write_deltalake(folder / "orders", rows, mode="append")
    every = np.arange(FILES * KEYS)
    dates = {"d_key": every * step, "d_month": every // KEYS, "d_day": every % KEYS}
    names = [f"month {month}" for month in dates["d_month"]]
    write_deltalake(folder / "dates", pa.table({**dates, "d_name": names}))


def files_read(tables: Mapping[str, Sequence[str]], fact: str, queries: Sequence[str]) -> list[set[str]]:
    """Return the paths of the files of the fact of which DuckDB reads more for a query than for counting their rows.

    tables: the paths of the Parquet files of each table.
    """
    files = CountingFiles()
    found = []
    with duckdb.connect() as duck:
        duck.register_filesystem(files)
        duck.execute("SET enable_external_file_cache = false")  # a query would not read what another one has read
        for name, paths in tables.items():
            scheme = "counted://" if name == fact else ""
            duck.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({[scheme + path for path in paths]})")
        duck.execute(f"SELECT count(*) FROM {fact}").fetchall()
        footers = Counter(files.counter)
        assert len(footers) == len(tables[fact])
        for query in queries:
            files.counter.clear()
            duck.execute(query).fetchall()
            found.append({name for name in footers if files.counter[name] > footers[name]})
    return found


@pytest.mark.parametrize(
    ("step", "condition", "predicted", "read"),
    [
        (SPARSE, "d_month = 5", 1, 1),
        (SPARSE, "d_name LIKE '%h 5'", 1, 1),
        (SPARSE, "d_month IN (2, 15)", 14, 14),  # by the lowest and the highest key
        # By the keys themselves: at most 50 rows, and integers that are close together, which is not predicted.
        (SPARSE, "d_month IN (2, 15) AND d_day = 3", 2, 2),
        (SPARSE, "d_month IN (2, 15) AND d_day < 25", 2, 2),
        (SPARSE, "d_month IN (2, 15) AND d_day <= 25", 14, 14),
        (1, "d_month IN (2, 15)", 14, 2),
    ],
)
def test_duckdb_reads_no_more_files_than_predicted(
    step: int, condition: str, predicted: int, read: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"SELECT sum(v) FROM orders JOIN dates ON day = d_key WHERE {condition}"
    write_project(tmp_path, monkeypatch, LAYOUT)
    (tmp_path / "zlayout.yaml").write_text(
        "version: 1\ncatalogs: {lake: {format: delta, warehouse: warehouse}}\n"
        "layouts: [layouts/*.yaml]\nworkload: {engine: duckdb}\n"
    )
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "orders.sql").write_text(query)
    star(tmp_path / "warehouse" / "db", step)
    forecast = zlayout.plan(zlayout.load_project(), sample=False).tables[0].workload
    assert forecast is not None
    assert (forecast.now.files, forecast.through) == (predicted, ("day = dates",))
    folder = tmp_path / "warehouse" / "db"
    tables = {
        name: [path.removeprefix("file://") for path in DeltaTable(folder / name).file_uris()]
        for name in ("orders", "dates")
    }
    assert len(tables["orders"]) == FILES
    assert len(files_read(tables, "orders", [query])[0]) == read
