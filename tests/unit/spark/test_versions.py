"""The version of Scala is found without Spark, and the newest version that was tested is proposed."""

from __future__ import annotations

from pathlib import Path

import pytest

from zlayout.spark import versions


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
    by_spark = {each.spark: versions.newest_tested(each) for each in versions.RELEASES if each.iceberg}
    assert by_spark == {"3.5": "3.5.9", "4.0": "4.0.5", "4.1": "4.1.4"}
