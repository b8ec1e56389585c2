"""spark-submit runs `zlayout/__main__.py`, whose folder has modules with the names of Python's own."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from spark.projects import QUICK, SCHEMA, make_events, make_project

import zlayout
from zlayout.spark import versions

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def submit(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    release = versions.installed()
    packages = ",".join((release.delta_package, release.iceberg_package, versions.JDBC_PACKAGES["sqlite"]))
    options = ["--master", "local[2]", "--packages", packages, "--driver-java-options", QUICK]
    command = [str(SUBMIT), *options, str(Path(zlayout.__file__).with_name("__main__.py")), *arguments]
    environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize("name", ["secrets.py", "spec"])
def test_the_package_has_what_could_hide_another_module(name: str) -> None:
    assert Path(zlayout.__file__).with_name(name).exists()


def test_plan_and_apply_run_as_a_submitted_file(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", make_events(4_000), 4, {}, target_size="1MiB")
    planned = submit(project.root, "plan", "--detailed-exitcode")
    assert planned.returncode == 2, planned.stderr[-2000:]
    assert "lake.db.events (delta, version 3)" in planned.stdout
    applied = submit(project.root, "apply", "--auto-approve")
    assert applied.returncode == 0, applied.stderr[-2000:]
    assert submit(project.root, "drift").returncode == 0
    assert project.rows("lake.db.events").schema == SCHEMA
