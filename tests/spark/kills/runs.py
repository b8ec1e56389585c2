"""`zlayout apply` in processes that are killed, each on a table of its own."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from spark.projects import DELTA, DiskProject, end, make_events, make_project

from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.spark.session import SparkRuntime, project_conf
from zlayout.spec.load import load_project
from zlayout.spec.model import LayoutSpec

ROWS = make_events(40_000)
DEAD = 180  # seconds that a JVM may take to notice that its Python is gone


@dataclass(frozen=True)
class KilledRun:
    """What a killed process leaves: one table, and the exit code, stdout and stderr."""

    table: str
    project: DiskProject
    code: int
    out: str
    err: str

    @property
    def folder(self) -> Path:
        return self.project.folder(self.table)

    def rewrites(self) -> int:
        """How many rewrites of zlayout the table's history has."""
        if self.table == DELTA:
            history = DeltaTable(str(self.folder)).history()
            return sum(h["operation"] == "OPTIMIZE" and "zlayout.run" in json.dumps(h) for h in history)
        snapshots = self.project.iceberg_table().metadata.snapshots
        return sum("zlayout.run" in s.summary.additional_properties for s in snapshots if s.summary)


def killed_run(table: str, point: str, victim: str, folder: Path) -> KilledRun:
    """Let a new project in the folder apply until it is killed at that point."""
    return killed(project_of(table, folder), table, "killed_apply.py", point, victim)


def killed(project: DiskProject, table: str, script: str, point: str, victim: str) -> KilledRun:
    """Let a script of this folder run in a project until it is killed at that point."""
    entry = f"import runpy; runpy.run_path({str(Path(__file__).parent / script)!r}, run_name='__main__')"
    tests = str(Path(__file__).parents[2])
    process = project.run(point, victim, str(project.folder(table)), entry=entry, PYTHONPATH=tests)
    try:
        found = project.finished(process)
        run = KilledRun(table, project, *found)
        pid = project.root / "jvm.pid"
        assert pid.exists(), f"nothing was killed {point}: {run.err}"
        _wait_for_the_end(int(pid.read_text()))
        return run
    finally:
        end(process)


def project_of(table: str, folder: Path) -> DiskProject:
    """One table that is rewritten in two groups, after a change of settings."""
    project = make_project(
        folder / "p",
        ROWS,
        4,
        {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2"}},
        target_size="120KiB",
        iceberg_properties={"write.metadata.metrics.column.b": "none", "write.delete.mode": "merge-on-read"},
    )
    DeltaTable(str(project.delta_folder)).alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "2"})
    size = sum(path.stat().st_size for path in project.files(table))
    layout = {
        "version": 1,
        "table": table,
        "zorder": {"columns": ["a", "b"]},
        "files": {"target_size": "120KiB", "max_group_size": f"{size * 3 // 5 // 1024}KiB"},
    }
    for file in (project.root / "layouts").iterdir():
        file.unlink()
    (project.root / "layouts" / "t.yaml").write_text(json.dumps(layout))
    return project


@contextmanager
def backend_in(spark: SparkSession, root: Path) -> Iterator[tuple[LayoutSpec, Backend]]:
    """The layout of a project and its backend, in a session of this process with the catalogs of the project."""
    project = load_project(root, os.environ)
    session = spark.newSession()
    for key, value in project_conf(project, submitted=True).items():
        if key.startswith("spark.sql.catalog.ice"):
            session.conf.set(key, value)
    runtime = SparkRuntime(project)
    runtime._session = session
    (spec,) = project.layouts
    active = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    active.setActiveSession(session._jsparkSession)  # Spark loads a catalog by the conf of the active session
    try:
        yield spec, backend_for(project.catalogs[spec.table.catalog], runtime)
    finally:
        active.setActiveSession(spark._jsparkSession)


def _wait_for_the_end(jvm: int) -> None:
    """A JVM whose Python is gone ends by itself; until then it might still write."""
    deadline = time.monotonic() + DEAD
    while Path(f"/proc/{jvm}").exists():
        assert time.monotonic() < deadline, "the JVM outlives its Python"
        time.sleep(0.05)
