"""The rewrite benchmark: zlayout beside plain copies and both native z-orders, arms alternating in one run.

Writes RESULTS.md and results/rewrite.json beside this file. `make bench` runs it; it needs no one to watch it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

import numpy as np
from arms import ARMS, Arm, Keys
from lineitem import DELTA, ICEBERG, Bench, open_bench
from results import write_results, write_touched
from touched import key_columns, lowest, mean_touched

HERE = Path(__file__).parent
KEY_SETS: tuple[Keys, ...] = (
    ("l_shipdate", "l_partkey"),
    ("l_shipmode", "l_partkey"),
    ("l_shipmode", "l_quantity", "l_shipdate"),
    ("l_shipdate", "l_partkey", "l_suppkey", "l_orderkey"),
)


@dataclass(slots=True)
class Result:
    """One arm with one key set, as it stands in results/rewrite.json. run: on what, where and when."""

    arm: str
    format: str
    keys: list[str]
    curve: str
    run: str = ""
    rounds: int = 0
    wall_median_s: float = 0.0
    wall_min_s: float = 0.0
    wall_max_s: float = 0.0
    files: int = 0
    bytes: int = 0
    rows_cv: float = 0.0
    touched: dict[str, float] = field(default_factory=dict)
    touched_mean: float | None = None
    floor_mean: float | None = None
    ranges: dict[str, float] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=56, help="files in every table, before and after")
    parser.add_argument("--key-sets", type=int, nargs="*", default=range(len(KEY_SETS)), help="which key sets")
    parser.add_argument("--untimed", action="store_true", help="files touched only, each arm once; nothing is timed")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "bench")
    arguments = parser.parse_args()
    bench = open_bench(arguments.folder.resolve(), arguments.scale, arguments.files)
    results: list[Result] = []
    today = date.today().isoformat()
    sizes = f"scale {arguments.scale:g}, {arguments.files} files"
    rounds = f"{arguments.rounds} round{'s' if arguments.rounds > 1 else ''}"
    for number in arguments.key_sets:
        if arguments.untimed:
            results += touched_only(bench, KEY_SETS[number])
            write_touched(HERE, [asdict(r) for r in results], f"{sizes}, {today}")
            continue
        measured = run_key_set(bench, KEY_SETS[number], arguments.rounds)
        for result in measured:
            result.run = f"{sizes}, {rounds}, {os.cpu_count()} cores, {platform.machine()}, {today}"
        write_results(HERE, [asdict(r) for r in measured])
    bench.runtime.stop()
    return 0


def run_key_set(bench: Bench, keys: Keys, rounds: int) -> list[Result]:
    """Every arm once uncounted, to warm the JVM for it, and then `rounds` times, alternating."""
    data = key_columns(bench.root, keys)
    floors = lowest(data, keys, bench.files)
    results = {arm.name: Result(arm.name, arm.format, list(keys), arm.curve) for arm in ARMS}
    walls: dict[str, list[float]] = {arm.name: [] for arm in ARMS}
    for turn in range(rounds + 1):
        for arm in ARMS:
            seconds = timed(bench, arm, keys)
            say(f"{', '.join(keys)}  round {turn}  {arm.name:<22} {seconds:6.1f} s{'  (warm-up)' if not turn else ''}")
            if turn:
                walls[arm.name].append(seconds)
            if turn == rounds:
                measure(bench, arm, keys, results[arm.name], data, floors)
    for name, result in results.items():
        result.rounds = rounds
        result.wall_median_s = round(statistics.median(walls[name]), 2)
        result.wall_min_s, result.wall_max_s = round(min(walls[name]), 2), round(max(walls[name]), 2)
    return list(results.values())


def touched_only(bench: Bench, keys: Keys) -> list[Result]:
    """Every arm that orders rows, once: what it leaves does not depend on what else the machine does."""
    data = key_columns(bench.root, keys)
    floors = lowest(data, keys, bench.files)
    results = []
    for arm in (arm for arm in ARMS if arm.laid_out):
        result = Result(arm.name, arm.format, list(keys), arm.curve)
        timed(bench, arm, keys)
        measure(bench, arm, keys, result, data, floors)
        say(f"{', '.join(keys)}  {arm.name:<22} touched {result.touched_mean}, floor {result.floor_mean}")
        results.append(result)
    return results


def timed(bench: Bench, arm: Arm, keys: Keys) -> float:
    bench.drop_outputs()
    bench.reset_delta() if arm.format == "delta" else bench.reset_iceberg()
    bench.runtime.session.sparkContext._jvm.System.gc()
    start = time.perf_counter()
    arm.run(bench, keys)
    return time.perf_counter() - start


def measure(bench: Bench, arm: Arm, keys: Keys, result: Result, data: object, floors: dict[str, float]) -> None:
    """Files, bytes and touched of the table that the arm has just left."""
    if not arm.laid_out:
        return
    files = bench.backend(arm.format).observe(DELTA if arm.format == "delta" else ICEBERG, keys).files
    result.files, result.bytes = len(files), int(files.bytes.sum())
    result.rows_cv = round(float(np.std(files.rows) / np.mean(files.rows)), 4)
    equality, ranges = mean_touched(files, data, keys)
    result.touched = {key: round(value, 2) for key, value in equality.items()}
    result.ranges = {name: round(value, 2) for name, value in ranges.items()}
    result.touched_mean = round(float(np.mean(list(equality.values()))), 3)
    result.floor_mean = round(float(np.mean(list(floors.values()))), 3)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
