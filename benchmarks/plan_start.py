"""Measures the CPU time of `zlayout plan` of one local Delta table, of this revision and of an earlier one.

Both run in the environment of this process, and alternate. Each round is a process of its own, with bytecode and files
in the caches of the system. CPU time is that of user and system together.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from results import replace_section

HERE = Path(__file__).parent
SECTION = "## Start of a plan"
BASE = "3906f8c0"
PROJECT = "version: 1\ncatalogs:\n  lake: {format: delta, warehouse: warehouse}\n"
LAYOUT = "version: 1\ntable: lake.t\nzorder: {columns: [a, b]}\nfiles: {target_size: 1MiB}\n"
FILES, ROWS = 24, 5_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default=BASE, help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--under", default="chrt -r 1", help="the command under which both run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project, base = Path(folder, "project"), Path(folder, "base")
        make_project(project)
        git = ["git", "-C", str(HERE.parent), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(base), given.base], check=True)
        try:
            arms = {"base": base, "now": HERE.parent}
            command = [*given.under.split(), sys.executable, "-m", "zlayout", "plan"]
            for root in (*arms.values(), *arms.values()):
                cpu_seconds(command, project, root)
            seconds: dict[str, list[float]] = {name: [] for name in arms}
            for number in range(given.rounds):
                for name in sorted(arms, reverse=number % 2 == 1):
                    seconds[name].append(cpu_seconds(command, project, arms[name]))
        finally:
            subprocess.run([*git, "remove", "--force", str(base)], check=True)
    text = "\n".join(section(given.base, seconds)) + "\n"
    replace_section(HERE / "RESULTS.md", SECTION, text)
    print(text)
    return 0


def make_project(folder: Path) -> None:
    """Write a project with one table of 24 files in 24 commits."""
    (folder / "layouts").mkdir(parents=True)
    (folder / "zlayout.yaml").write_text(PROJECT)
    (folder / "layouts" / "t.yaml").write_text(LAYOUT)
    random = np.random.default_rng(1)
    for _ in range(FILES):
        columns = {name: random.integers(0, 10**6, ROWS) for name in ("a", "b")}
        write_deltalake(str(folder / "warehouse" / "t"), pa.table(columns), mode="append")


def cpu_seconds(command: Sequence[str], project: Path, root: Path) -> float:
    """Run a command with the package below `root`, and return the CPU seconds that it took."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ["PYTHONPATH"] = str(root)
    subprocess.run(command, check=True, cwd=project, env=environ, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def section(base: str, seconds: dict[str, list[float]]) -> list[str]:
    """Return the lines of RESULTS.md."""
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    rounds, machine = len(seconds["now"]), f"{os.cpu_count()} cores, {platform.machine()}, {date.today().isoformat()}"
    rows = [
        f"| {name} | {middle[key]:.2f} | {min(seconds[key]):.2f} to {max(seconds[key]):.2f} |"
        f" {middle[key] / middle['base']:.2f} |"
        for key, name in (("base", f"revision {base}"), ("now", "this revision"))
    ]
    return [
        f"{SECTION} of one local table",
        "",
        "Made by `benchmarks/plan_start.py`: CPU seconds of the whole process of `zlayout plan`, user and system, for",
        f"a Delta table of {FILES} files in as many commits. The revisions alternate, in one environment.",
        "",
        f"{rounds} rounds, {machine}.",
        "",
        "| | CPU s, median | range | ratio of medians |",
        "|---|---|---|---|",
        *rows,
    ]


if __name__ == "__main__":
    sys.exit(main())
