"""Measures time and memory of file boundaries, commits and rewrites, by size: benchmarks/results/scale.json.

The rows are uniform in two independent columns, so the share of the rows in a box is its area: touched and the rows
per file are computed exactly from the boundaries. The floor of touched is the square root of the number of files.

`simulated` cases draw the samples from that distribution in this process: they measure the driver. `spark` cases draw
them by Spark from a generated table, as a rewrite does; in local mode, executor_mb is the JVM of driver and executor.
`commit` cases only make the commit of a table (benchmarks/commit.py, commit_iceberg.py). `cluster` cases rewrite
tables on a standalone cluster (benchmarks/scale_cluster.py). The tables in docs/scale.md are written from the results.
Every case runs in a process of its own. cpu_seconds is the CPU time of the Python process, and load the load average of
the machine per core when the case began: above 1, seconds include waiting for other processes.
"""

# ruff: noqa: E402
from __future__ import annotations

from zlayout.process import tune_process

tune_process()  # before numpy and Arrow are imported, as the command does

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from commit import delta_commit
from commit_iceberg import iceberg_commit
from numpy.typing import NDArray
from peak import peak_mb
from scale_cluster import WORKERS, cluster_cases
from scale_tables import write_tables

from zlayout.curve.layout import FileMap, Refined, build, build_boxes, join, refine
from zlayout.rewrite.engine import BOX_SAMPLE_ROWS, MAX_CHUNK_ROWS
from zlayout.rewrite.rows import MAX_SAMPLE_ROWS, MIN_ROWS_PER_FILE, rows_per_file
from zlayout.spec.model import Layout, ZorderColumn

OUT = Path(__file__).parent / "results" / "scale.json"
COLUMNS = ("a", "b")
WEIGHTS = dict.fromkeys(COLUMNS, 1.0)
SIMULATED = (1000, 5000, 20_000, 50_000, 100_000, 800_000)
SPARK = (1000, 100_000)
COMMIT = (1000, 10_000, 100_000)
DEPTH_WITHIN = 2
SOURCE_FILES = 2000
ROWS_PER_FILE = 300  # of the generated table
KEY_RANGE = 1 << 40

Float64 = NDArray[np.float64]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--simulated", type=int, nargs="*", default=SIMULATED, help="numbers of files")
    options.add_argument("--spark", type=int, nargs="*", default=SPARK, help="numbers of files")
    options.add_argument("--delta-commit", type=int, nargs="*", default=COMMIT, help="numbers of files")
    options.add_argument("--iceberg-commit", type=int, nargs="*", default=COMMIT, help="numbers of files")
    options.add_argument("--cluster", type=int, nargs="*", default=WORKERS, help="numbers of workers")
    options.add_argument("--out", type=Path, default=OUT)
    options.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.case:
        name, number = given.case[0], int(given.case[1])
        print(json.dumps([{"case": name, **each} for each in _CASES[name](number)]))
        return 0
    results = json.loads(given.out.read_text()) if given.out.exists() else []
    for name in _CASES:
        for number in getattr(given, name.replace(" ", "_")):
            command = [sys.executable, __file__, "--case", name, str(number)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            for found in json.loads(done.stdout.splitlines()[-1]):
                print("  ".join(f"{key} {value}" for key, value in found.items()), flush=True)
                results = [each for each in results if _key(each) != _key(found)] + [found]
            given.out.write_text(json.dumps(sorted(results, key=_key), indent=1) + "\n")
            write_tables(sorted(results, key=_key))
    return 0


def _key(result: dict[str, Any]) -> tuple[int, int, int]:
    return list(_CASES).index(result["case"]), result.get("workers", 0), result["files"]


def _simulated(files: int) -> dict[str, Any]:
    rng = np.random.default_rng(files)
    load, began, cpu = _load(), time.perf_counter(), time.process_time()
    if files * MIN_ROWS_PER_FILE <= MAX_SAMPLE_ROWS:
        rows = files * rows_per_file(files)
        built = build(_uniform(rng, rows), WEIGHTS, "kd", 0, files, False, DEPTH_WITHIN)
    else:
        rows = files * MIN_ROWS_PER_FILE
        built = _two_levels(rng, files)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return _result(built, rows, seconds, cpu, load) | {"executor_mb": 0, "shuffle_mb": 0}


def _two_levels(rng: np.random.Generator, files: int) -> FileMap:
    boxes = build_boxes(_uniform(rng, BOX_SAMPLE_ROWS), WEIGHTS, files)
    low, high = _boxes(boxes.map)
    rows = rng.poisson(np.prod(high - low, axis=1) * files * MIN_ROWS_PER_FILE)
    chunk = np.cumsum(rows) // MAX_CHUNK_ROWS
    refined: list[Refined] = []
    for number in np.unique(chunk).tolist():
        first, end = np.searchsorted(chunk, (number, number + 1)).tolist()
        box = np.repeat(np.arange(end - first), rows[first:end])
        size = (high - low)[first:end][box]
        keys = ((low[first:end][box] + rng.random(size.shape) * size) * KEY_RANGE).astype(np.int64)
        sample = {name: pa.array(keys[:, c]) for c, name in enumerate(COLUMNS)}
        refined.append(refine(boxes, sample, box, end - first, WEIGHTS, MIN_ROWS_PER_FILE, False, DEPTH_WITHIN))
    return join(boxes, refined, MIN_ROWS_PER_FILE, False)


def _in_spark(files: int) -> dict[str, Any]:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from zlayout.rewrite.engine import build_forest, build_shards, rewrite_conf
    from zlayout.rewrite.rows import GroupTarget, Source, index_files

    session = (
        SparkSession.builder.master("local[*]")
        .config("spark.driver.memory", "3g")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    rows = files * ROWS_PER_FILE
    in_file = -(-rows // SOURCE_FILES)
    frame = session.range(0, rows, 1, 16).select(
        F.shiftright(F.xxhash64("id"), 24).bitwiseAND(KEY_RANGE - 1).alias("a"),
        F.shiftright(F.xxhash64("id", F.lit(1)), 24).bitwiseAND(KEY_RANGE - 1).alias("b"),
        F.floor(F.col("id") / in_file).cast("string").alias("path"),
        (F.col("id") % in_file).alias("position"),
    )
    source = Source(frame, F.col("path"), F.col("position"))
    paths = pa.array([str(n) for n in range(-(-rows // in_file))])
    layout = Layout(tuple(map(ZorderColumn, COLUMNS)), "kd", 1000, False, 1 << 27, True, "zlayout")
    with rewrite_conf(session):
        groups = [GroupTarget("g", paths, rows, files)]
        index = index_files(session, groups)  # starts Spark's first job
        load, began, cpu = _load(), time.perf_counter(), time.process_time()
        (shard,), _ = build_shards(source, layout, groups, index)
        build_forest([shard.map])
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    jvm: Any = session.sparkContext._jvm
    none = session.sparkContext._gateway.new_array(jvm.double, 0)
    stages = session.sparkContext._jsc.sc().statusStore().stageList(None, False, False, none, None)
    shuffled = sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))
    java = peak_mb(int(jvm.java.lang.ProcessHandle.current().pid()))
    result = _result(shard.map, rows, seconds, cpu, load)
    return result | {"executor_mb": java, "shuffle_mb": round(shuffled / 1e6)}


def _result(built: FileMap, rows: int, seconds: float, cpu: float, load: float) -> dict[str, Any]:
    memory = peak_mb()
    low, high = _boxes(built)
    share = np.prod(high - low, axis=1)
    return {
        "rows": rows,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "load": load,
        "driver_mb": memory,
        "built_files": built.files,
        "touched_to_floor": round(float((high - low).sum(axis=0).mean() / built.files**0.5), 3),
        "rows_variation": round(float(share.std() / share.mean()), 3),
        "depth": built.tree.depth,
    }


def _uniform(rng: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    return {name: pa.array(rng.integers(0, KEY_RANGE, rows)) for name in COLUMNS}


def _boxes(built: FileMap) -> tuple[Float64, Float64]:
    """Return the lower and upper ends of each file as shares of the range of the keys, float64[files, columns] each."""
    tree = built.tree
    edges = [values.to_numpy() / KEY_RANGE for values in built.boundaries]
    low, high = np.ones((tree.files, len(edges))), np.zeros((tree.files, len(edges)))
    nodes, node_low, node_high = np.zeros(1, np.int64), np.zeros((1, len(edges))), np.ones((1, len(edges)))
    for child, child_low, child_high in _levels(built, edges, nodes, node_low, node_high):
        file = tree.file[child]
        np.minimum.at(low, file, child_low)
        np.maximum.at(high, file, child_high)
    return low, high


def _levels(
    built: FileMap, edges: list[Float64], nodes: NDArray[np.int64], low: Float64, high: Float64
) -> Iterator[tuple[NDArray[np.int64], Float64, Float64]]:
    """Walk down all levels at once, and yield the leaves of each level with their extents."""
    tree = built.tree
    if not len(tree.column):
        yield nodes, low, high
        return
    while len(nodes):
        at, column = np.arange(len(nodes)), tree.column[nodes]
        cut = np.empty(len(nodes))
        for c, values in enumerate(edges):
            mine = column == c
            cut[mine] = values[tree.threshold[nodes[mine]] - 1]
        left_high, right_low = high.copy(), low.copy()
        left_high[at, column], right_low[at, column] = cut, cut
        child = np.concatenate((tree.left[nodes], tree.right[nodes])).astype(np.int64)
        low, high = np.concatenate((low, right_low)), np.concatenate((left_high, high))
        leaf = child < 0
        yield ~child[leaf], low[leaf], high[leaf]
        nodes, low, high = child[~leaf], low[~leaf], high[~leaf]


def _of_files(measure: Callable[[int], dict[str, Any]]) -> Callable[[int], list[dict[str, Any]]]:
    def case(files: int) -> list[dict[str, Any]]:
        load = _load()
        return [{"files": files, "load": load, **measure(files)}]

    return case


_CASES = {
    "simulated": _of_files(_simulated),
    "spark": _of_files(_in_spark),
    "delta commit": _of_files(delta_commit),
    "iceberg commit": _of_files(iceberg_commit),
    "cluster": cluster_cases,
}


def _load() -> float:
    return round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)


if __name__ == "__main__":
    sys.exit(main())
