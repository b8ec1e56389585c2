"""Lays out a table that is larger than the heap by a separate process of `zlayout apply`, and compares all rows.

    python benchmarks/large.py FOLDER --format delta --gib 20 --heap 8g

FOLDER needs about three times the size of the table: the table, its new files, and the shuffle. Most of a row is
random doubles and text, so that neither Parquet nor the shuffle can compress it by much. The rows before and after are
compared by their number and by the sum of a hash of each row, computed here with numpy and not by the gate.

Writes results/large.json, one entry for each format, and its section of RESULTS.md: {format, gib, heap, cores, files,
rows, seconds, cpu_seconds, load, python_mb, java_mb, shuffle_mb, spilled_mb, touched_before, touched_after,
rows_variation, day}. java_mb is the largest resident size of the Java process, python_mb that of `zlayout`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, convert_to_deltalake
from numpy.typing import NDArray
from peak import peak_mb
from pyiceberg.catalog import load_catalog
from results import replace_section

OUT = Path(__file__).parent / "results" / "large.json"
SECTION = "## A table that is larger than the heap"
FILE = 128 << 20
ROW_BYTES = 8 * 3 + 8 * 10 + 16 + 48
KEYS = ("customer", "device")
DOUBLES = tuple(f"measure_{n}" for n in range(10))
SCHEMA = pa.schema(
    [("id", pa.int64()), ("customer", pa.int64()), ("at", pa.timestamp("us", "UTC"))]
    + [("device", pa.string()), ("note", pa.string())]
    + [(name, pa.float64()) for name in DOUBLES]
)
# Odd constants of splitmix64.
MIX, FIRST, SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
PROJECT = """\
version: 1
catalogs:
  lake: {{format: delta, warehouse: "{root}/delta"}}
  ice: {{format: iceberg, type: sql, uri: "sqlite:///{root}/ice.db", warehouse: "file://{root}/iceberg"}}
spark:
  master: "local[2]"
  conf:
    spark.driver.memory: "{heap}"
    spark.local.dir: "{root}/shuffle"
"""
LAYOUT = "version: 1\ntable: {table}\nzorder: {{columns: [customer, device]}}\nfiles: {{target_size: 128MiB}}\n"
DEFAULTS = """\
spark.eventLog.enabled true
spark.eventLog.dir file://{root}/events
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
"""
TABLES = {"delta": "lake.db.large", "iceberg": "ice.db.large"}


@dataclass(slots=True)
class Content:
    """The number of rows, and the sum of their hashes modulo 2^64."""

    rows: int = 0
    hashes: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        row = np.zeros(batch.num_rows, np.uint64)
        for name in SCHEMA.names:
            for words in _words(batch.column(name)):
                row = (row ^ words) * MIX
                row ^= row >> np.uint64(29)
        row = (row ^ (row >> np.uint64(30))) * FIRST
        row = (row ^ (row >> np.uint64(27))) * SECOND
        self.rows += len(row)
        self.hashes = (self.hashes + int(row.sum(dtype=np.uint64))) % 2**64


def _words(column: pa.Array) -> list[NDArray[np.uint64]]:
    """Return the values of a column without nulls as 64-bit words, several for each text."""
    assert not column.null_count
    if pa.types.is_string(column.type):
        assert pc.all(pc.equal(pc.binary_length(column), len(column[0].as_py()))).as_py()
        start = column.offset * len(column[0].as_py())
        data = np.frombuffer(column.buffers()[2], np.uint8)[start:][: len(column) * len(column[0].as_py())]
        return list(data.reshape(len(column), -1).view(np.uint64).T)
    return [column.to_numpy(zero_copy_only=False).view(np.uint64)]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--format", choices=TABLES, default="delta")
    options.add_argument("--gib", type=float, default=20)
    options.add_argument("--heap", default="8g")
    given = options.parse_args()
    root = given.folder.resolve()
    shutil.rmtree(root, ignore_errors=True)
    for name in ("conf", "events", "shuffle", "layouts", "delta/db/large", "iceberg"):
        (root / name).mkdir(parents=True)
    (root / "zlayout.yaml").write_text(PROJECT.format(root=root, heap=given.heap))
    (root / "conf" / "spark-defaults.conf").write_text(DEFAULTS.format(root=root))
    (root / "layouts" / "large.yaml").write_text(LAYOUT.format(table=TABLES[given.format]))
    written = _write(root, given.format, int(given.gib * 2**30))
    before = _files(root, given.format)
    load = round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
    measured = _apply(root)
    after = _files(root, given.format)
    found = _content(after)
    if found != written:
        print(f"the rows differ: {written} were written, {found} are in the table", file=sys.stderr)
        return 1
    rows = np.array([pq.read_metadata(file).num_rows for file in after])
    result = {
        "format": given.format,
        "gib": round(sum(file.stat().st_size for file in before) / 2**30, 1),
        "heap": given.heap,
        "cores": 2,
        "files": len(after),
        "rows": found.rows,
        **measured,
        "load": load,
        "touched_before": round(_touched(before), 1),
        "touched_after": round(_touched(after), 1),
        "rows_variation": round(float(rows.std() / rows.mean()), 3),
        "day": date.today().isoformat(),
    }
    print(json.dumps(result))
    results = json.loads(OUT.read_text()) if OUT.exists() else []
    results = sorted([r for r in results if r["format"] != given.format] + [result], key=lambda r: r["format"])
    OUT.write_text(json.dumps(results, indent=1) + "\n")
    replace_section(OUT.parents[1] / "RESULTS.md", SECTION, _section(results))
    shutil.rmtree(root)
    return 0


def _write(root: Path, format: str, size: int) -> Content:
    """Write a table of about `size` bytes, in files of FILE bytes in the order of `at`."""
    data = root / ("delta/db/large" if format == "delta" else "iceberg/data")
    data.mkdir(exist_ok=True)
    rng, content, rows = np.random.default_rng(7), Content(), int(FILE / ROW_BYTES)
    paths = []
    for number in range(max(2, round(size / FILE))):
        batch = _batch(rng, number * rows, rows)
        content.add(batch)
        paths.append(data / f"part-{number:05}.parquet")
        pq.write_table(pa.Table.from_batches([batch]), paths[-1], compression="snappy", use_dictionary=False)
    if format == "delta":
        convert_to_deltalake(str(data))
    else:
        catalog = load_catalog("ice", type="sql", uri=f"sqlite:///{root}/ice.db", warehouse=f"file://{root}/iceberg")
        catalog.create_namespace("db")
        catalog.create_table("db.large", SCHEMA).add_files([f"file://{path}" for path in paths])
    return content


def _batch(rng: np.random.Generator, first: int, rows: int) -> pa.RecordBatch:
    ids = np.arange(first, first + rows)
    columns = [
        pa.array(ids),
        pa.array(rng.integers(0, 10_000_000, rows)),
        pa.array(1_700_000_000_000_000 + ids * 1_000 + rng.integers(0, 60_000_000, rows), SCHEMA.field("at").type),
        _texts(rng, rows, 16),
        _texts(rng, rows, 48),
        *(pa.array(rng.random(rows)) for _ in DOUBLES),
    ]
    return pa.record_batch(columns, SCHEMA)


def _texts(rng: np.random.Generator, rows: int, length: int) -> pa.Array:
    letters = np.frombuffer(rng.bytes(rows * length), np.uint8) % 64 + 48
    offsets = np.arange(0, (rows + 1) * length, length, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))


def _files(root: Path, format: str) -> Sequence[Path]:
    if format == "delta":
        uris = DeltaTable(str(root / "delta/db/large")).file_uris()
    else:
        catalog = load_catalog("ice", type="sql", uri=f"sqlite:///{root}/ice.db", warehouse=f"file://{root}/iceberg")
        uris = [task.file.file_path for task in catalog.load_table("db.large").scan().plan_files()]
    return sorted(Path(urlparse(uri).path) for uri in uris)


def _content(files: Sequence[Path]) -> Content:
    content = Content()
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(250_000, columns=SCHEMA.names):
            content.add(batch)
    return content


def _touched(files: Sequence[Path]) -> float:
    """Return the mean touched of the keys: the files whose bounds contain the value of a row of the table."""
    bounds: dict[str, list[tuple[Any, Any, int]]] = {name: [] for name in KEYS}
    for file in files:
        meta = pq.read_metadata(file)
        for column in range(meta.num_columns):
            parts = [meta.row_group(g).column(column) for g in range(meta.num_row_groups)]
            if parts[0].path_in_schema in KEYS:
                stats = [part.statistics for part in parts]
                low, high = min(s.min for s in stats), max(s.max for s in stats)
                bounds[parts[0].path_in_schema].append((low, high, meta.num_rows))
    sample = next(pq.ParquetFile(files[len(files) // 2]).iter_batches(2_000, columns=list(KEYS)))
    counts = [
        sum(low <= value <= high for low, high, _ in bounds[name])
        for name in KEYS
        for value in sample.column(name).to_pylist()
    ]
    return float(np.mean(counts))


def _apply(root: Path) -> dict[str, Any]:
    """Run `zlayout apply`, and return the time and the memory of its processes."""
    command = [sys.executable, "-m", "zlayout", "apply", "--auto-approve"]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=root, env=os.environ | {"SPARK_CONF_DIR": str(root / "conf")})
    python, java, ticks = 0, 0, {}
    while process.poll() is None:
        with suppress(OSError, KeyError):
            python = peak_mb(process.pid)
            for pid in (process.pid, *_descendants(process.pid)):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks[pid] = int(fields[11]) + int(fields[12])
                if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                    java = max(java, peak_mb(pid))
        time.sleep(1)
    if process.returncode:
        raise SystemExit(f"apply ended with exit code {process.returncode}")
    seconds = time.perf_counter() - began
    shuffled, spilled = _shuffled(root / "events")
    return {
        "seconds": round(seconds),
        "cpu_seconds": round(sum(ticks.values()) / os.sysconf("SC_CLK_TCK")),
        "python_mb": python,
        "java_mb": java,
        "shuffle_mb": round(shuffled / 1e6),
        "spilled_mb": round(spilled / 1e6),
    }


def _descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [each for child in children for each in _descendants(child)]


def _shuffled(events: Path) -> tuple[int, int]:
    """Return the bytes that tasks wrote for shuffles, and those that they spilled to disk."""
    shuffled = spilled = 0
    for log in events.iterdir():
        with log.open() as lines:
            for line in lines:
                if '"SparkListenerTaskEnd"' in line:
                    metrics = json.loads(line).get("Task Metrics") or {}
                    shuffled += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
                    spilled += metrics.get("Disk Bytes Spilled", 0)
    return shuffled, spilled


def _section(results: list[dict[str, Any]]) -> str:
    lines = [
        SECTION,
        "",
        "Made by `benchmarks/large.py`, which runs `zlayout apply` on one table without partitions, in one rewrite",
        "and one commit, with the heap of the column. It checks that rows are equal before and after, by their number",
        "and the sum of hashes that it computes itself. *Load* is the number of processes that waited for each core",
        "when the run began; with a load above 1 the seconds are too large.",
        "",
        "| format | GiB | heap | cores | rows | files | seconds | CPU s | load | Python MB | Java MB | shuffle MB"
        " | spilled MB | touched before | after | rows per file, variation | day |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for r in results:
        cells = [r["format"], r["gib"], r["heap"], r["cores"], f"{r['rows']:,}", r["files"]]
        cells += [f"{r[name]:,}" for name in ("seconds", "cpu_seconds", "load", "python_mb", "java_mb", "shuffle_mb")]
        cells += [
            f"{r['spilled_mb']:,}",
            r["touched_before"],
            r["touched_after"],
            f"{r['rows_variation']:.1%}",
            r["day"],
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
