"""Measures `apply` of small tables, one after the other and several at the same time, in one Spark session.

`python benchmarks/concurrent_tables.py` writes `results/concurrent_tables.json`: the seconds of each run by the number
of concurrent tables, and the ratio of medians to one table at a time. Arms alternate; one round is not counted.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import zlayout
from zlayout.spark.session import SparkRuntime

HERE = Path(__file__).parent
TABLES, FILES, ROWS, ROUNDS = 8, 6, 20_000, 3
CONCURRENT = (1, 2, 4)
PROJECT = "version: 1\ncatalogs:\n  lake: {format: delta, type: path, warehouse: .}\n"
LAYOUT = "version: 1\ntable: lake.db.t{number}\nzorder: {{columns: [a, b]}}\nfiles: {{target_size: 1MiB}}\n"


def make_tables(root: Path) -> None:
    """Write a project of small tables in arrival order."""
    (root / "layouts").mkdir()
    (root / "zlayout.yaml").write_text(PROJECT)
    random = np.random.default_rng(1)
    for number in range(TABLES):
        (root / f"layouts/t{number}.yaml").write_text(LAYOUT.format(number=number))
        rows = pa.table({name: random.integers(0, 10**9, FILES * ROWS) for name in ("a", "b", "c", "d")})
        for file in range(FILES):
            write_deltalake(str(root / f"db/t{number}"), rows.slice(file * ROWS, ROWS), mode="append")


def seconds(spark: SparkSession, concurrent: int) -> float:
    """Return the seconds that apply takes for new tables, of which `concurrent` are rewritten at the same time."""
    with tempfile.TemporaryDirectory() as folder:
        make_tables(Path(folder))
        plan = zlayout.plan(zlayout.load_project(Path(folder)))
        begun = time.monotonic()
        report = zlayout.apply(plan, spark, concurrent_tables=concurrent)
        taken = time.monotonic() - begun
    assert {result.outcome for result in report.results.values()} == {"as_declared"}
    return taken


def main() -> None:
    """Run all arms and write the results."""
    with tempfile.TemporaryDirectory() as folder:
        make_tables(Path(folder))
        with SparkRuntime(zlayout.load_project(Path(folder))) as runtime:
            found: dict[int, list[float]] = {concurrent: [] for concurrent in CONCURRENT}
            for number in range(ROUNDS + 1):
                for concurrent in CONCURRENT:
                    taken = seconds(runtime.session, concurrent)
                    if number:
                        found[concurrent].append(taken)
                print(number, {c: round(times[-1], 1) for c, times in found.items() if times}, file=sys.stderr)
    base = statistics.median(found[1])
    cases = [
        {
            "tables": TABLES,
            "concurrent": concurrent,
            "seconds": [round(taken, 2) for taken in times],
            "ratio": round(statistics.median(times) / base, 2),
            "load": round(os.getloadavg()[0], 1),
        }
        for concurrent, times in found.items()
    ]
    (HERE / "results/concurrent_tables.json").write_text(json.dumps(cases, indent=2) + "\n")
    print(json.dumps(cases, indent=2))


if __name__ == "__main__":
    main()
