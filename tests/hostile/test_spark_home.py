"""Spark is started from where it is installed, whatever the folders around the working directory contain."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

START = """
from zlayout.app.project import load_project
from zlayout.spark.session import SparkRuntime

with SparkRuntime(load_project()) as runtime:
    runtime.session
"""
JAVA = """#!/bin/sh
case "$*" in *-version*) echo 'openjdk version "17.0.1"' >&2; exit 0 ;; esac
echo "$*" >> "{seen}"
exit 1
"""


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize("place", ["..", "."])
def test_a_distribution_in_the_checkout_is_not_started(tmp_path: Path, place: str) -> None:
    """pyspark itself runs `bin/spark-submit` of the folder above the working directory. Java is a script here."""
    project, seen, ran = tmp_path / "checkout" / "lake", tmp_path / "seen", tmp_path / "ran"
    for folder in ("jars", "conf"):
        (project / place / folder).mkdir(parents=True)
    script(project / place / "bin" / "spark-submit", f'#!/bin/sh\necho "$AWS_SECRET_ACCESS_KEY" > {ran}\nexit 1\n')
    script(project / place / "conf" / "spark-env.sh", f"touch {ran}\n")
    (project / "zlayout.yaml").write_text("version: 1\ncatalogs:\n  lake: {format: delta, warehouse: w}\n")
    script(tmp_path / "java" / "bin" / "java", JAVA.format(seen=seen))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environ |= {"JAVA_HOME": str(tmp_path / "java"), "AWS_SECRET_ACCESS_KEY": "secret"}
    run = subprocess.run(
        [sys.executable, "-c", START], cwd=project, env=environ, capture_output=True, text=True, check=False
    )
    assert "ZL304" in run.stderr
    assert not ran.exists()
    assert f"-cp {Path(pyspark.__file__).parent / 'jars'}" in seen.read_text()
