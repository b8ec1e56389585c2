"""Runs the unit tests of the core against a sample of mutants. See docs/mutation.md.

Run it as `make mutation`. It works in a separate git worktree, so that it never changes files that somebody edits, and
needs cosmic-ray (dependency group `mutation`).
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

PACKAGES = ("curve", "table", "predicate", "planner")
TIMEOUT = 150.0  # seconds per mutant
# Mutants that cannot differ: unions in annotations, and comparisons by identity where enums or None are compared.
EXCLUDED = ("ReplaceBinaryOperator_BitOr", "RemoveDecorator", "_Is", "_IsNot")
DATABASE = "mutation.sqlite"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=Path("build/mutation"), help="worktree to make and mutate")
    parser.add_argument("--per-package", type=int, default=40)
    parser.add_argument("--seed", type=int, default=30)
    parser.add_argument("--test", action="store_true", help="run the tests of the mutated package (used internally)")
    given = parser.parse_args()
    if given.test:
        return test_mutated_package()
    if not given.tree.exists():
        subprocess.run(["git", "worktree", "add", "--detach", str(given.tree)], check=True)
    (given.tree / "mutation.toml").write_text(configuration())
    tool = str(Path(sys.executable).with_name("cosmic-ray"))
    subprocess.run([tool, "init", "mutation.toml", DATABASE], cwd=given.tree, check=True)
    keep_sample(given.tree / DATABASE, given.per_package, given.seed)
    subprocess.run(["nice", "-n", "15", tool, "exec", "mutation.toml", DATABASE], cwd=given.tree, check=True)
    report(given.tree / DATABASE)
    return 0


def configuration() -> str:
    modules = ", ".join(f'"zlayout/{package}"' for package in PACKAGES)
    command = f"{sys.executable} {Path(__file__).resolve()} --test"
    return f"""[cosmic-ray]
module-path = [{modules}]
timeout = {TIMEOUT}
excluded-modules = []
test-command = "{command}"
[cosmic-ray.distributor]
name = "local"
"""


def keep_sample(database: Path, per_package: int, seed: int) -> None:
    """Keep a random sample of the mutants of each package, at most one for each place in the source."""
    rng = random.Random(seed)
    with sqlite3.connect(database) as rows:
        found = rows.execute(
            "select job_id, module_path, operator_name, start_pos_row, start_pos_col from mutation_specs"
        )
        mutants = sorted(m for m in found if not any(part in m[2] for part in EXCLUDED))
        mutants.sort(key=lambda m: m[1:])
        rng.shuffle(mutants)
        one_per_place = {(path, row, column): (job, path) for job, path, _, row, column in mutants}
        kept: list[str] = []
        for package in PACKAGES:
            jobs = [job for job, path in one_per_place.values() if Path(path).parent.name == package]
            kept += jobs[:per_package]
        rows.execute("create temporary table kept (job_id text)")
        rows.executemany("insert into kept values (?)", [(job,) for job in kept])
        for table in ("mutation_specs", "work_items"):
            rows.execute(f"delete from {table} where job_id not in (select job_id from kept)")


def test_mutated_package() -> int:
    """Run the unit tests of the mutated module first, then those of its package; the exit code of pytest."""
    listed = subprocess.run(["git", "diff", "--name-only", "--", "zlayout"], capture_output=True, text=True, check=True)
    for name in map(Path, listed.stdout.split()):
        folder = Path("tests/unit") / name.parent.name
        tests = [*map(str, sorted(folder.glob(f"test_{name.stem}*.py"))), str(folder)]
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
    return 0


def report(database: Path) -> None:
    """Print the counts by package, and every survivor with its diff."""
    with sqlite3.connect(database) as rows:
        done = rows.execute(
            "select module_path, operator_name, start_pos_row, test_outcome, worker_outcome, diff "
            "from mutation_specs join work_results using (job_id) order by module_path, start_pos_row"
        ).fetchall()
    counts = Counter((Path(path).parent.name, outcome) for path, _, _, outcome, _, _ in done)
    for (package, outcome), count in sorted(counts.items(), key=str):
        print(f"{package:10} {outcome!s:28} {count}")
    for path, operator, row, outcome, _, diff in done:
        if "SURVIVED" in str(outcome).upper():
            print(f"\n{path}:{row} {operator}\n{diff}")


if __name__ == "__main__":
    sys.exit(main())
