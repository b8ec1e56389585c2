"""Files of a checkout that Python, pyspark, Spark's scripts or the JVM could load run no code in zlayout's commands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.projects import LAYOUT, root, write_project

__all__ = ["root"]

BIN = Path(sys.executable).parent
LOCKED = re.findall(r"^([a-z0-9_.-]+)==", (Path(__file__).parents[2] / "requirements.lock").read_text(), re.M)
# Names under which packages are imported that are not the names of their distributions.
OTHERS = ("yaml", "psycopg2", "dateutil", "google", "delta")
STANDARD = ("json", "secrets", "typing", "contextlib", "subprocess", "sitecustomize", "usercustomize", "zlayout")


def plant(folder: Path, canary: Path, *names: str) -> None:
    """Write modules that append their name to `canary` when they are imported."""
    for name in names:
        (folder / f"{name}.py").write_text(f"open({str(canary)!r}, 'a').write({name + chr(10)!r})\n")


def loaded(canary: Path) -> list[str]:
    return canary.read_text().split() if canary.exists() else []


def packages() -> tuple[str, ...]:
    return (*(name.replace("-", "_").replace(".", "_") for name in LOCKED), *OTHERS)


@pytest.mark.parametrize(
    "start", [[str(BIN / "zlayout")], [sys.executable, "-I", "-m", "zlayout"]], ids=["script", "-I"]
)
def test_modules_of_the_project_are_not_imported(
    root: Path, tmp_path_factory: pytest.TempPathFactory, start: list[str]
) -> None:
    canary = tmp_path_factory.mktemp("canary") / "loaded"
    plant(root, canary, *packages(), *STANDARD)
    command = [*start, "plan", "--report", f"html={canary.parent / 'plan.html'}"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, loaded(canary)) == (0, []), done.stderr
    assert "Plan: 1 to rewrite" in done.stdout


def test_with_m_alone_no_package_is_imported_from_the_project(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Before zlayout's own code runs, Python itself imports standard modules from there: docs/clusters.md."""
    canary = tmp_path_factory.mktemp("canary") / "loaded"
    plant(root, canary, *packages())
    done = subprocess.run(
        [sys.executable, "-m", "zlayout", "plan"], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, loaded(canary)) == (0, []), done.stderr


@pytest.mark.spark
def test_spark_starts_from_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyspark searches the folder above the working directory for `bin/spark-submit`, before its own folder."""
    canary = tmp_path / "loaded"
    checkout = tmp_path / "checkout"
    project = checkout / "project"
    project.mkdir(parents=True)
    write_project(project, monkeypatch, LAYOUT)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    for folder in (checkout, project):
        for name in ("bin", "conf", "jars"):
            (folder / name).mkdir()
        for script in (
            "bin/spark-submit",
            "bin/spark-class",
            "bin/load-spark-env.sh",
            "conf/spark-env.sh",
            "pyspark-shell",
        ):
            (folder / script).write_text(f'#!/bin/sh\necho "$0" >> {canary}\nexit 1\n')
            (folder / script).chmod(0o755)
        (folder / "conf/spark-defaults.conf").write_text("spark.sql.extensions planted.Extension\n")
        (folder / "spark-defaults.conf").write_text("spark.sql.extensions planted.Extension\n")
        (folder / "core-site.xml").write_text(
            "<configuration><property><name>fs.file.impl</name><value>planted.FileSystem</value></property></configuration>"
        )
        (folder / "derby.properties").write_text("derby.module.planted=planted.Module\n")
        (folder / ".hotspotrc").write_text(
            f'OnError="touch {canary}"\n-XX:OnError="touch {canary}"\n+CrashGCForDumpingJavaThread\n'
        )
        plant(folder, canary, "pyspark", "py4j", "find_spark_home", "types")
    for _ in range(2):
        rows = pa.table({"a": pa.array(range(100), pa.int64()), "b": pa.array(["x"] * 100)})
        write_deltalake(str(project / "tables/db/orders"), rows, mode="append")
    command = [str(BIN / "zlayout"), "doctor", "--spark", "--timeout", "240"]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=500, check=False, env=dict(os.environ)
    )
    assert (done.returncode, loaded(canary)) == (0, []), done.stdout + done.stderr
    assert re.search(r"ok\s+read in Spark", done.stdout)
