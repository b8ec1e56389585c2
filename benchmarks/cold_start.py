"""Measures the whole process that lays out the demo's Delta table: `zlayout apply`, and OPTIMIZE ZORDER BY in PySpark.

The arms alternate, and each run starts from the same files. `optimize` starts Spark as in Delta's documentation, with a
package that Ivy resolves in every start. The first two runs of zlayout are not counted: they download the jars and
write the archive of classes (docs/adr/0019-quick-start.md).

Wall time ends with the started process. CPU time is that of all its processes, including a JVM that ends later.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

from results import replace_section

from zlayout.spark import versions

HERE = Path(__file__).parent
SECTION = "## Cold start"
KEYS = "l_shipdate, l_partkey"
FILES = 24
TABLE = Path("warehouse", "tpch", "lineitem")
PROJECT = "version: 1\ncatalogs:\n  lake: {format: delta, warehouse: warehouse}\n"
LAYOUT = f"version: 1\ntable: lake.tpch.lineitem\nzorder: {{columns: [{KEYS}]}}\nfiles: {{target_size: 2MiB}}\n"
PR_SET_CHILD_SUBREAPER = 36

SESSION = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
spark = builder.config(sys.argv[1], sys.argv[2]).getOrCreate()
"""
OPTIMIZE = f"""{SESSION}
spark.conf.set("spark.databricks.delta.optimize.maxFileSize", "2097152")
spark.sql(f"OPTIMIZE delta.`{{sys.argv[3]}}` ZORDER BY ({KEYS})").collect()
spark.stop()
"""
GENERATE = f"""{SESSION}
rows = spark.read.parquet("tpch/lineitem.parquet").selectExpr("*", "xxhash64(l_orderkey, l_linenumber) AS arrival")
rows.repartitionByRange({FILES}, "arrival").drop("arrival").write.format("delta").save("base")
spark.stop()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.2, help="TPC-H scale factor")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--max-load", type=float, default=float("inf"), help="load above which a run waits")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "cold")
    arguments = parser.parse_args()
    # A JVM that outlives its parent becomes a child of this process: its CPU time counts, and no arm runs beside it.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    folder = arguments.folder.resolve()
    arms = make_arms(folder, arguments.scale)
    for _ in range(2):
        run(folder, arms["zlayout"])
    runs: list[dict[str, Any]] = []
    for turn in range(1, arguments.rounds + 1):
        for name, command in arms.items():
            while os.getloadavg()[0] > arguments.max_load:
                time.sleep(5)
            runs.append({"arm": name, "round": turn, **run(folder, command)})
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {date.today().isoformat()}"
    about = f"Scale {arguments.scale:g}, {FILES} files, {arguments.rounds} rounds, {machine}."
    record(about, runs)
    return 0


def make_arms(folder: Path, scale: float) -> dict[str, list[str]]:
    """Write the project and the files that every run starts from, and return the command of each arm."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "layouts").mkdir(parents=True)
    (folder / "zlayout.yaml").write_text(PROJECT)
    (folder / "layouts" / "lineitem.yaml").write_text(LAYOUT)
    tools = Path(sys.executable).parent
    generator = [str(tools / "tpchgen-cli"), "parquet", "-s", str(scale), "--tables=lineitem", "--output-dir=tpch"]
    subprocess.run(generator, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    by_ivy = ["spark.jars.packages", versions.installed().delta_package]
    generate = [sys.executable, "-c", GENERATE, *by_ivy]
    subprocess.run(generate, check=True, cwd=folder)
    return {
        "zlayout": [str(tools / "zlayout"), "apply", "--auto-approve"],
        "optimize": [sys.executable, "-c", OPTIMIZE, *by_ivy, str(folder / TABLE)],
    }


def run(folder: Path, command: list[str]) -> dict[str, float]:
    """Run a command on the table as it was, and return seconds, CPU seconds and the load of the machine before.

    The cache folder is one of its own, because zlayout keeps only the three archives that were used last.
    """
    environ = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    shutil.rmtree(folder / TABLE, ignore_errors=True)
    shutil.copytree(folder / "base", folder / TABLE, copy_function=os.link)
    load, before = os.getloadavg()[0], resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    silent = subprocess.DEVNULL
    subprocess.run(command, check=True, cwd=folder, env=environ, stdout=silent, stderr=silent)
    seconds = time.perf_counter() - began
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), "load": round(load, 1)}


def record(about: str, runs: list[dict[str, Any]]) -> None:
    """Write results/cold_start.json and the section of RESULTS.md."""
    results = {"run": about, "runs": runs}
    (HERE / "results" / "cold_start.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    replace_section(HERE / "RESULTS.md", SECTION, "\n".join(section(about, runs)) + "\n")


def section(about: str, runs: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of RESULTS.md."""
    yield f"{SECTION}: the whole process that lays out the demo's Delta table"
    yield ""
    yield "Made by `benchmarks/cold_start.py`. *optimize* is `OPTIMIZE ... ZORDER BY` in a PySpark process that starts"
    yield "with packages, as in Delta's documentation. Seconds are medians. CPU seconds include those of a JVM"
    yield "that ends after the command."
    yield ""
    yield about
    yield ""
    yield "| arm | s | range s | zlayout / arm | CPU s | load before |"
    yield "|---|---|---|---|---|---|"
    names = dict.fromkeys(r["arm"] for r in runs)
    seconds = {name: [r["seconds"] for r in runs if r["arm"] == name] for name in names}
    for name, walls in seconds.items():
        chosen = [r for r in runs if r["arm"] == name]
        cpu = statistics.median(r["cpu_seconds"] for r in chosen)
        loads = [r["load"] for r in chosen]
        ratio = statistics.median(seconds["zlayout"]) / statistics.median(walls)
        yield (
            f"| {name} | {statistics.median(walls):.1f} | {min(walls):.1f} to {max(walls):.1f} | {ratio:.2f} "
            f"| {cpu:.1f} | {min(loads)} to {max(loads)} |"
        )


if __name__ == "__main__":
    sys.exit(main())
