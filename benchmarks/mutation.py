"""Runs the unit tests of the core against mutants that mutmut makes. See docs/contributing/mutation.md.

Run it as `make mutation`. It works in a git worktree of its own, so that it never changes files that somebody edits.
Results are kept there: a second run tests only mutants of functions that have changed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
# The mutants of a function are numbered from its first line to its last. This is a tenth of those of long functions.
SAMPLE = "zlayout.*__mutmut_*7"
MUTMUT = str(Path(sys.executable).with_name("mutmut"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mutants", nargs="*", default=[SAMPLE], help="patterns of the names of mutants")
    parser.add_argument("--tree", type=Path, default=ROOT / "build" / "mutation", help="the worktree to use")
    given = parser.parse_args()
    check_out(given.tree)
    # CI: generated examples are the same in each run
    run = ["nice", "-n", "15", MUTMUT, "run", *given.mutants]
    subprocess.run(run, cwd=given.tree, env=os.environ | {"CI": "true"}, check=True)
    report(given.tree)
    return 0


def check_out(tree: Path) -> None:
    """Check out the last commit in the worktree."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    if tree.exists():
        subprocess.run(["git", "checkout", "--quiet", "--detach", head.strip()], cwd=tree, check=True)
    else:
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)  # `make clean` deletes the folder only
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), head.strip()], cwd=ROOT, check=True)


def report(tree: Path) -> None:
    """Print the number of mutants by package and result, and the change of each mutant that survived."""
    listed = subprocess.run(
        [MUTMUT, "results", "--all", "true"], cwd=tree, capture_output=True, text=True, check=True
    ).stdout
    results = dict(line.strip().rsplit(": ", 1) for line in listed.splitlines() if ": " in line)
    tested = {name: result for name, result in results.items() if result != "not checked"}
    counts = Counter((name.split(".")[1], result) for name, result in tested.items())
    for (package, result), count in sorted(counts.items()):
        print(f"{package:10} {result:14} {count}")
    for name, result in tested.items():
        if result == "survived":
            shown = subprocess.run([MUTMUT, "show", name], cwd=tree, capture_output=True, text=True, check=True).stdout
            changed = [s for s in shown.splitlines() if s[:1] in "+-" and s[:3] not in ("+++", "---")]
            print("", name, *changed, sep="\n")


if __name__ == "__main__":
    sys.exit(main())
