"""Measures time and memory of planning by number of files and columns: benchmarks/results/planning.json.

Synthetic observations show the cost of the planner itself; real Delta logs and Iceberg manifests show the cost of
reading, also as whole `zlayout plan` processes. No JVM. Every case runs a few times, each in a separate process, so
that the peak memory is that of the case; times are medians, and memory is the maximum. metrics_s is the first call,
which also allocates memory; metrics_again_s is the second, as in a process that has just read a large table.
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
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import metadata
from peak import peak_mb

from zlayout.formats.registry import backend_for
from zlayout.planner import forecast
from zlayout.planner.diff import decide
from zlayout.planner.work import Capabilities
from zlayout.spark.session import SparkRuntime
from zlayout.spec.load import load_project
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState

OUT = Path(__file__).parent / "results" / "planning.json"
DELTA = Capabilities("delta", partition_evolution=False, native_by_rank=True)
PROJECT = """\
version: 1
catalogs:
  lake: {{format: delta, type: path, warehouse: "{root}/delta"}}
  ice: {{format: iceberg, type: sql, uri: "sqlite:///{root}/iceberg.db", warehouse: "{root}/iceberg"}}
"""
LAYOUT = "version: 1\ntable: {table}\nzorder: {{columns: [{columns}]}}\n"

# name -> (shape, partitions, share laid out)
SYNTHETIC = {
    "wide": ("wide", 1, 0.0),
    "random": ("random", 1, 0.0),
    "sorted": ("sorted", 1, 0.0),
    "decayed": ("random", 1, 0.9),
    "1000 partitions": ("random", 1000, 0.0),
    "1000 decayed partitions": ("random", 1000, 0.9),
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, nargs="*", default=[10**4, 10**5, 10**6])
    options.add_argument("--columns", type=int, nargs="*", default=[1, 2, 4])
    options.add_argument("--real-files", type=int, default=10**5)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--out", type=Path, default=OUT)
    options.add_argument("--case", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.case:
        print(json.dumps(_measured(json.loads(given.case))))
        return 0
    results = []
    for result in _results(given.files, given.columns, given.real_files, given.rounds):
        print("  ".join(f"{key} {value}" for key, value in result.items()), flush=True)
        results.append(result)
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def _results(files: list[int], columns: list[int], real_files: int, rounds: int) -> Iterator[dict[str, Any]]:
    for name in SYNTHETIC:
        for count in files:
            for width in columns:
                yield _typical({"case": name, "files": count, "columns": width}, rounds)
    yield _real("iceberg", "ice.db.t", real_files, rounds)
    for checkpoint in CHECKPOINTS:
        yield _real(f"delta, checkpoint {checkpoint}", "lake.db.t", real_files, rounds)
    yield _real("delta, checkpoint parsed", "lake.db.t", max(files), rounds)


def _real(name: str, table: str, files: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _make(root, name, table, files)
        case = {"case": name, "files": files, "columns": 2, "root": folder, "table": table}
        walls = [_whole_process(root, table, files) for _ in range(rounds)]
        return _typical(case, rounds) | {"wall_s": median(walls)}


CHECKPOINTS = ("none", "json", "parsed")


def _make(root: Path, name: str, table: str, files: int) -> None:
    (root / "layouts").mkdir()
    (root / "zlayout.yaml").write_text(PROJECT.format(root=root))
    (root / "layouts" / "t.yaml").write_text(LAYOUT.format(table=table, columns=", ".join(metadata.names(2))))
    if name == "iceberg":
        metadata.iceberg_table(root, files, 2)
    else:
        metadata.delta_log(root / "delta" / "db" / "t", files, 2, name.rpartition(" ")[2])


def _typical(case: dict[str, Any], rounds: int) -> dict[str, Any]:
    """The case, in a new process each round."""
    all_rounds = [_child(case) for _ in range(rounds)]
    times = {key: median(r[key] for r in all_rounds) for key in all_rounds[0]}
    named = {key: case[key] for key in ("case", "files", "columns")}
    return named | times | {"peak_mb": max(r["peak_mb"] for r in all_rounds)}


def _child(case: dict[str, Any]) -> dict[str, Any]:
    """Run the case in a separate process. wall_s is its whole time, including making the synthetic table."""
    command = [sys.executable, __file__, "--case", json.dumps(case)]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{case} failed with {done.returncode}")
    return dict(json.loads(done.stdout)) | {"wall_s": round(time.perf_counter() - start, 3)}


def _measured(case: dict[str, Any]) -> dict[str, float]:
    """Return the seconds to load, to measure all columns twice, and to plan (which measures too); and memory."""
    start = time.perf_counter()
    spec, state = _loaded(case)
    load = time.perf_counter() - start if "root" in case else 0.0
    start = time.perf_counter()
    forecast.measure(state.files, spec)
    metrics = time.perf_counter() - start
    start = time.perf_counter()
    forecast.measure(state.files, spec)
    again = time.perf_counter() - start
    start = time.perf_counter()
    decide(spec, state, DELTA)
    plan = time.perf_counter() - start
    times = {"load_s": load, "metrics_s": metrics, "metrics_again_s": again, "plan_s": plan}
    return {name: round(took, 3) for name, took in times.items()} | {"peak_mb": peak_mb()}


def _loaded(case: dict[str, Any]) -> tuple[LayoutSpec, TableState]:
    if "root" not in case:
        return metadata.in_memory(case["files"], case["columns"], *SYNTHETIC[case["case"]])
    project = load_project(Path(case["root"]), os.environ)
    (spec,) = project.layouts
    backend = backend_for(project.catalogs[spec.table.catalog], SparkRuntime(project))
    state = backend.observe(spec.table, spec.column_names)
    if len(state.files) != case["files"]:
        raise RuntimeError(f"expected {case['files']} files, found {len(state.files)}")
    return spec, state


def _whole_process(root: Path, table: str, files: int) -> float:
    command = [str(Path(sys.executable).parent / "zlayout"), "plan", table]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    took = time.perf_counter() - start
    if done.returncode or f"{files:,} -> " not in done.stdout:
        raise RuntimeError(f"expected a plan of {files} files, found {done.returncode}: {done.stdout}{done.stderr}")
    return round(took, 3)


if __name__ == "__main__":
    sys.exit(main())
