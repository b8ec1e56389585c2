"""Measures `zlayout plan` as a whole process on tables of 50 files, one Delta and one Iceberg. No JVM."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

FILES = 50
RUNS = 7
PROJECT = """\
version: 1
catalogs:
  lake: {{format: delta, type: path, warehouse: {root}/delta}}
  ice: {{format: iceberg, type: sql, uri: "sqlite:///{root}/iceberg.db", warehouse: {root}/iceberg}}
"""
LAYOUT = """\
version: 1
table: {table}
zorder: {{columns: [a, b]}}
files: {{target_size: 16KiB}}
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "layouts").mkdir()
        (root / "zlayout.yaml").write_text(PROJECT.format(root=root))
        _make_tables(root)
        for format, table in (("delta", "lake.db.t"), ("iceberg", "ice.db.t")):
            (root / "layouts" / f"{format}.yaml").write_text(LAYOUT.format(table=table))
            times = [_plan(root, table) for _ in range(RUNS)]
            print(
                f"plan of a {format} table of {FILES} files, whole process: median {statistics.median(times):.2f} s, "
                f"{min(times):.2f} to {max(times):.2f} s over {RUNS} runs"
            )
    return 0


def _make_tables(root: Path) -> None:
    catalog = load_catalog(
        "ice", type="sql", uri=f"sqlite:///{root / 'iceberg.db'}", warehouse=f"file://{root / 'iceberg'}"
    )
    catalog.create_namespace("db")
    table = None
    for number in range(FILES):
        random = np.random.default_rng(number)
        rows = pa.table({"a": random.integers(0, 10**6, 1000), "b": random.integers(0, 10**6, 1000)})
        write_deltalake(str(root / "delta" / "db" / "t"), rows, mode="append")
        table = table or catalog.create_table("db.t", rows.schema)
        table.append(rows)


def _plan(root: Path, table: str) -> float:
    command = [str(Path(sys.executable).parent / "zlayout"), "plan", table, "--detailed-exitcode"]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    took = time.perf_counter() - start
    if done.returncode != 2 or f"{FILES} -> " not in done.stdout:
        raise RuntimeError(f"expected a plan with changes, found exit code {done.returncode}: {done.stderr}")
    return took


if __name__ == "__main__":
    sys.exit(main())
