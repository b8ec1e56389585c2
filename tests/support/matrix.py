"""Runs the tests of both engines with each supported combination of Spark, Delta and Iceberg.

`make matrix` runs all combinations and writes docs/support.md; `make matrix ONLY=spark-3.5` runs those whose name has
this text in it, and keeps the results of the others. Each combination gets its own jars, and its own pyspark in
`build/matrix`, which precedes the one of the project on Python's path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from zlayout.spark import versions

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "matrix"
RESULTS = ROOT / "benchmarks" / "results" / "support.json"
SUITES: Mapping[str, tuple[str, ...]] = {
    "contract": ("tests/spark/test_contract.py",),
    "placement and gate": ("tests/spark/test_rewrite_place.py", "tests/spark/test_rewrite_gate.py"),
    "conflicts": ("tests/spark/test_delta_conflicts.py", "tests/spark/test_iceberg_conflicts.py"),
    "commits and row ids": ("tests/spark/test_delta_commit.py", "tests/spark/test_iceberg_commit.py"),
}
FAST = "not zorder and not hilbert and not linear"  # one curve: the others differ on the driver alone


@dataclass(frozen=True, slots=True)
class Combination:
    """Versions that are tested together. iceberg: None where Iceberg has no jar for this Spark."""

    spark: str
    delta: str
    iceberg: str | None

    @property
    def release(self) -> versions.Release:
        known = versions.release_of(self.spark)
        assert known is not None
        return replace(known, delta=self.delta, iceberg=self.iceberg)

    @property
    def name(self) -> str:
        return f"spark-{self.spark}-delta-{self.delta}-iceberg-{self.iceberg}"

    def __str__(self) -> str:
        iceberg = f"Iceberg {self.iceberg}" if self.iceberg else "no Iceberg"
        return f"Spark {self.spark}, Delta {self.delta}, {iceberg}"

    @property
    def packages(self) -> tuple[str, ...]:
        release = self.release
        formats = (package for package in (release.delta_package, release.iceberg_package) if package)
        return *formats, *release.s3_packages, versions.JDBC_PACKAGES["sqlite"]


COMBINATIONS = (
    Combination("3.5.9", "3.3.2", "1.10.1"),
    Combination("3.5.9", "3.3.2", "1.11.0"),
    Combination("4.0.5", "4.0.1", "1.10.1"),
    Combination("4.0.5", "4.2.0", "1.11.0"),
    Combination("4.0.5", "4.3.1", "1.11.0"),
    Combination("4.0.5", "4.4.0", "1.11.0"),
    Combination("4.1.1", "4.2.0", "1.11.0"),  # Delta 4.2 needs classes that Spark 4.1.4 no longer has
    Combination("4.1.4", "4.3.1", "1.12.0"),
    Combination("4.1.4", "4.4.0", "1.12.0"),
    Combination("4.2.0", "4.4.0", None),
)
OLDEST = COMBINATIONS[1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of the tests of one suite: how many passed, and the names of those that failed."""

    passed: int
    failed: tuple[str, ...]


def environ(combination: Combination) -> dict[str, str]:
    """Install the pyspark of a combination if necessary, and return the environment in which its tests run."""
    folder = FOLDER / f"pyspark-{combination.spark}"
    if not (folder / "pyspark").exists():
        install = ["pip", "install", "--quiet", "--target", str(folder), f"pyspark=={combination.spark}"]
        subprocess.run([sys.executable, "-m", *install], check=True)
    excluded = ",".join(versions.S3_EXCLUDED)
    arguments = f"--packages {','.join(combination.packages)} --exclude-packages {excluded} pyspark-shell"
    return os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYSPARK_SUBMIT_ARGS": arguments}


def run(combination: Combination, tests: Iterable[str], chosen: str = FAST) -> Outcome:
    """Run tests with one combination.

    Args:
        combination: The versions.
        tests: The paths of the tests, from the root of the project.
        chosen: pytest's expression for the tests to run.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    report = FOLDER / f"{combination.name}.xml"
    report.unlink(missing_ok=True)
    if combination.iceberg is None:
        chosen = f"({chosen}) and not iceberg"
    command = [sys.executable, "-m", "pytest", "-q", "-k", chosen, f"--junitxml={report}", *tests]
    with (FOLDER / f"{combination.name}.log").open("a") as log:
        subprocess.run(command, cwd=ROOT, env=environ(combination), stdout=log, stderr=log, check=False)
    cases = ET.parse(report).getroot().iter("testcase")
    outcomes = {f"{case.get('classname')}.{case.get('name')}": _outcome(case) for case in cases}
    failed = tuple(sorted(name for name, outcome in outcomes.items() if outcome == "failed"))
    return Outcome(Counter(outcomes.values())["passed"], failed)


def _outcome(case: ET.Element) -> str:
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


def page(results: Mapping[str, Mapping[str, Outcome]]) -> str:
    """Return docs/support.md. results: the outcomes of the suites, by the name of the combination."""
    run = [(c, results[c.name]) for c in COMBINATIONS if c.name in results]
    rows = [
        f"| {c.spark} | {c.delta} | {c.iceberg or 'none'} | "
        + " | ".join(f"{o.passed} of {o.passed + len(o.failed)}" for o in map(found.__getitem__, SUITES))
        + " |"
        for c, found in run
    ]
    failed = [f"- {c}: `{name}`" for c, found in run for outcome in found.values() for name in outcome.failed]
    return "\n".join(
        [
            "# Supported versions",
            "",
            "`make matrix` writes this page. It runs the tests of engine zlayout and of engine native with each",
            "combination, on both formats, and counts those that passed. Iceberg has no jar for Spark 4.2 yet, so only",
            "Delta was tested there.",
            "",
            f"| Spark | Delta | Iceberg | {' | '.join(SUITES)} |",
            f"|---|---|---|{'---|' * len(SUITES)}",
            *rows,
            "",
            "## Tests that failed",
            *(failed or ["None."]),
            "",
        ]
    )


def main(chosen: Iterable[str]) -> int:
    """Run the combinations whose names contain one of the given texts, all if there are none."""
    texts = tuple(chosen)
    results = TypeAdapter(dict[str, dict[str, Outcome]])
    found = results.validate_json(RESULTS.read_bytes()) if RESULTS.exists() else {}
    for combination in COMBINATIONS:
        if not texts or any(text in combination.name for text in texts):
            found[combination.name] = {suite: run(combination, tests) for suite, tests in SUITES.items()}
            RESULTS.write_bytes(results.dump_json(found, indent=1) + b"\n")
            (ROOT / "docs" / "support.md").write_text(page(found))
    return 1 if any(outcome.failed for suites in found.values() for outcome in suites.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
