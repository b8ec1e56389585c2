"""`zlayout doctor --spark` finds a missing jar. A process of its own, because a JVM keeps its class path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.projects import root  # noqa: F401 - fixture


@pytest.mark.long
def test_a_missing_jar_is_found_when_spark_reads_the_table(root: Path) -> None:  # noqa: F811
    jar = root / "nothing.jar"
    jar.write_bytes(b"PK\x05\x06" + bytes(18))  # a jar without classes
    done = subprocess.run(
        [sys.executable, "-m", "zlayout", "doctor", "--spark", "--timeout", "60"],
        cwd=root, text=True, capture_output=True, timeout=300,
        env=os.environ | {"PYSPARK_SUBMIT_ARGS": f"--jars {jar} pyspark-shell"},
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  ok") or "failed" in line]
    assert [line[0] for line in lines] == ["ok"] * 5 + ["failed"], done.stdout
    assert "read in Spark" in lines[-1][1]
    text = " ".join(done.stdout.split())  # without the line breaks, which depend on the length of the path
    assert "Spark lacks a jar" in text
    assert "so that zlayout requests the jars" in text
