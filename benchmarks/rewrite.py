"""The rewrite benchmark: compares zlayout with plain copies and with the z-orders of both formats, in alternating arms.

Each arm has its own process and JVM: in a shared one, the time of an arm depended on the other arms. The arms of one
format run before those of the other, because nothing is compared across formats, and a process that has been idle for
minutes is slow at first.

Writes RESULTS.md and results/rewrite.json beside this file. `make bench` runs it without interaction.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

import numpy as np
from arms import ARMS, Arm, Keys
from lineitem import DELTA, ICEBERG, Bench, attach, open_bench
from results import write_results
from touched import key_columns, lowest, mean_touched

HERE = Path(__file__).parent
SECONDS = "seconds "  # begins the line with the answer, whatever else an engine prints
KEY_SETS: tuple[Keys, ...] = (
    ("l_shipdate", "l_partkey"),
    ("l_shipmode", "l_partkey"),
    ("l_shipmode", "l_quantity", "l_shipdate"),
    ("l_shipdate", "l_partkey", "l_suppkey", "l_orderkey"),
)
FORMATS = tuple(dict.fromkeys(arm.format for arm in ARMS))


@dataclass(slots=True)
class Result:
    """One arm with one key set, as in results/rewrite.json. run: the data, the machine and the day."""

    arm: str
    format: str
    keys: list[str]
    curve: str
    run: str
    rounds: int
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
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=FORMATS, help="which formats")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "bench")
    parser.add_argument("--arm", choices=[arm.name for arm in ARMS], help=argparse.SUPPRESS)
    parser.add_argument("--snapshot", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if arguments.arm:
        serve(attach(folder, arguments.files, arguments.snapshot), arguments.arm)
        return 0
    bench = open_bench(folder, arguments.scale, arguments.files)
    bench.runtime.stop()
    rounds = f"{arguments.rounds} round{'s' if arguments.rounds > 1 else ''}"
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {date.today().isoformat()}"
    run = f"scale {arguments.scale:g}, {arguments.files} files, {rounds}, {machine}"
    for format in arguments.formats:
        with ExitStack() as stack:
            processes = {arm: stack.enter_context(ArmProcess(arm, bench)) for arm in ARMS if arm.format == format}
            for number in arguments.key_sets:
                measured = run_key_set(bench, processes, KEY_SETS[number], arguments.rounds, run)
                write_results(HERE, [asdict(r) for r in measured])
    return 0


class ArmProcess:
    """One arm in a process with a JVM of its own, which waits for its turns."""

    def __init__(self, arm: Arm, bench: Bench) -> None:
        place = ["--folder", str(bench.root), "--files", str(bench.files), "--snapshot", str(bench.snapshot)]
        command = [sys.executable, __file__, "--arm", arm.name, *place]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> ArmProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def run(self, keys: Keys) -> float:
        """Seconds that the arm took."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps(keys), file=self._child.stdin, flush=True)
        for line in self._child.stdout:
            if line.startswith(SECONDS):
                return float(line.removeprefix(SECONDS))
        raise RuntimeError("the arm failed: see above")


def serve(bench: Bench, name: str) -> None:
    """Run the arm once for each line of keys on stdin, until it ends."""
    arm = next(arm for arm in ARMS if arm.name == name)
    for line in sys.stdin:
        print(f"{SECONDS}{timed(bench, arm, tuple(json.loads(line)))}", flush=True)
    bench.runtime.stop()


def run_key_set(bench: Bench, processes: Mapping[Arm, ArmProcess], keys: Keys, rounds: int, run: str) -> list[Result]:
    """Run every arm `rounds` times, alternating, after an uncounted round, because new keys need new generated code."""
    data = key_columns(bench.root, keys)
    floors = lowest(data, keys, bench.files)
    results = {arm: Result(arm.name, arm.format, list(keys), arm.curve, run, rounds) for arm in processes}
    walls: dict[Arm, list[float]] = {arm: [] for arm in processes}
    for arm, process in processes.items():
        say(f"{', '.join(keys)}  warm-up  {arm.name:<22} {process.run(keys):6.1f} s")
    for turn in range(1, rounds + 1):
        for arm, process in processes.items():
            walls[arm].append(process.run(keys))
            say(f"{', '.join(keys)}  round {turn}  {arm.name:<22} {walls[arm][-1]:6.1f} s")
            if turn == rounds:
                measure(bench, arm, keys, results[arm], data, floors)
    for arm, result in results.items():
        result.wall_median_s = round(statistics.median(walls[arm]), 2)
        result.wall_min_s, result.wall_max_s = round(min(walls[arm]), 2), round(max(walls[arm]), 2)
    return list(results.values())


def timed(bench: Bench, arm: Arm, keys: Keys) -> float:
    bench.drop_outputs()
    bench.reset_delta() if arm.format == "delta" else bench.reset_iceberg()
    bench.runtime.session.sparkContext._jvm.System.gc()
    start = time.perf_counter()
    arm.run(bench, keys)
    return time.perf_counter() - start


def measure(bench: Bench, arm: Arm, keys: Keys, result: Result, data: object, floors: dict[str, float]) -> None:
    """Measure files, bytes and touched of the table after the arm."""
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
