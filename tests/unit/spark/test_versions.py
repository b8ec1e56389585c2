"""The versions that zlayout calls tested are those that `make matrix` ran, and its page shows what was found."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.jars import newest_tested
from support.matrix import COMBINATIONS, OLDEST, ROOT, stored, support_page
from support.matrix_suites import SUITES
from support.support_page import CAPABILITIES

from zlayout.formats.delta.write.jvm import INTERNALS as DELTA
from zlayout.formats.iceberg.write.jvm import INTERNALS as ICEBERG
from zlayout.spark import versions

RUN = [each for each in COMBINATIONS if each.name in stored()]


def test_every_tested_version_was_run_by_the_matrix() -> None:
    assert {each.spark for each in RUN if not each.scala} == versions.TESTED_SPARK
    assert {versions.minor(each.delta) for each in RUN} == DELTA.tested
    assert {versions.minor(each.iceberg) for each in RUN if each.iceberg} == ICEBERG.tested
    run = {(versions.minor(each.spark), each.delta, each.iceberg) for each in RUN}
    assert {(each.spark, each.delta, each.iceberg) for each in versions.RELEASES} <= run
    assert (OLDEST.spark, OLDEST.iceberg) == ("3.5.9", versions.RELEASES[0].iceberg)


def test_the_page_shows_the_stored_results() -> None:
    assert (ROOT / "docs" / "support.md").read_text() == support_page()
    assert stored().keys() <= {each.name for each in COMBINATIONS}
    for result in stored().values():
        assert result.answers.keys() <= CAPABILITIES.keys()
        assert result.suites.keys() <= SUITES.keys()


def test_every_test_of_the_matrix_exists() -> None:
    tests = [test for tests in SUITES.values() for test in tests]
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", *tests]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("version", ["2.12.18", "2.13.16"])
def test_the_version_of_scala_is_that_of_the_jars(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert versions.scala_of(tmp_path) is None
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"scala-library-{version}.jar").touch()
    (tmp_path / "jars" / "scala-reflect-2.11.1.jar").touch()
    assert versions.scala_of(tmp_path) == version[:4]
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    found = versions.installed.__wrapped__()
    assert found.delta_package.startswith(f"io.delta:delta-spark_{found.spark}_{version[:4]}:")


def test_the_newest_patch_of_a_minor_version_is_used() -> None:
    by_spark = {each.spark: newest_tested(each) for each in versions.RELEASES if each.iceberg}
    assert by_spark == {"3.5": "3.5.9", "4.0": "4.0.5", "4.1": "4.1.4"}
