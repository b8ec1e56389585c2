"""SIGKILL to the JVM, to Python or to both while `apply` runs: the table is as it was or has whole commits more.

Each case is a process of its own on a table of its own, two at a time; then the rows are read without Spark, what the
run left behind is looked for, and `apply` runs again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from reliability import count
from spark.kills.killed_apply import POINTS
from spark.projects import DELTA, ICEBERG, DiskProject, end, make_events, make_project

from zlayout.applying import Applied, apply_table, new_run
from zlayout.backends.orphans import find_orphans
from zlayout.backends.registry import backend_for
from zlayout.backends.spark import SparkRuntime, session_conf
from zlayout.plan.decision import PlanOptions
from zlayout.planning import plan_table
from zlayout.spec.load import load_project

ROWS = make_events(40_000)
AT_ONCE = 2  # processes, each with a JVM
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"  # a JVM that lives for seconds
VICTIMS = ("jvm", "python", "both")
# Ten points in `make test`; these and each point with all victims in `make test-long`.
MORE = ("before settings", "placed", "after the gate", "1 ms into the commit", "80 ms into the commit", "looking again")
DAILY = {
    (table, point, VICTIMS[(number + shift) % 3])
    for table, shift in ((DELTA, 2), (ICEBERG, 1))
    for number, point in enumerate(point for point in POINTS if point not in MORE)
}
CASES = [
    pytest.param(*case, marks=() if case in DAILY else pytest.mark.long)
    for case in product((DELTA, ICEBERG), POINTS, VICTIMS)
]
# How many of its two rewrites a run may have committed when it was killed. Its settings are one commit more.
COMMITTED = {point: {0, 1} if "into the commit" in point else {0} for point in POINTS} | {
    "answer lost": {1},
    "second group written": {1},
    "second answer lost": {2},
    "looking again": {2},
}
# Here files have been written that no commit names.
LITTERED = ("while writing", "before the gate", "after the gate", "before the commit", "second group written")
DEAD = 60  # seconds that a JVM may take to notice that its Python is gone


@dataclass(frozen=True)
class Case:
    """One table and the process that is to be killed on it: a future of (exit code, stdout, stderr)."""

    table: str
    point: str
    victim: str
    project: DiskProject
    killed: Future[tuple[int, str, str]]

    @property
    def folder(self) -> Path:
        return self.project.delta_folder if self.table == DELTA else self.project.iceberg_folder

    def rewrites(self) -> int:
        """How many rewrites of zlayout the table's history has."""
        if self.table == DELTA:
            history = DeltaTable(str(self.folder)).history()
            return sum(h["operation"] == "OPTIMIZE" and "zlayout.run" in json.dumps(h) for h in history)
        snapshots = self.project.iceberg_table().metadata.snapshots
        return sum("zlayout.run" in s.summary.additional_properties for s in snapshots if s.summary)


@pytest.fixture(scope="module")
def cases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[tuple[str, str, str], Case]]:
    """The processes of all selected tests, two running at a time from now on."""
    tests = [item for item in request.session.items if item.path == request.path]
    selected = [tuple(item.callspec.params[name] for name in ("table", "point", "victim")) for item in tests]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        started = {case: _start(case, tmp_path_factory.mktemp("killed"), pool) for case in selected}
        yield started
        for case in started.values():
            case.killed.cancel()


def _start(case: tuple[str, str, str], root: Path, pool: ThreadPoolExecutor) -> Case:
    table, point, victim = case
    project = make_project(
        root / "p",
        ROWS,
        4,
        {"master": "local[2]", "conf": {"spark.sql.shuffle.partitions": "2"}},
        target_size="120KiB",
        iceberg_properties={"write.metadata.metrics.column.b": "none"},
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
    folder = project.delta_folder if table == DELTA else project.iceberg_folder
    return Case(table, point, victim, project, pool.submit(_run, project, point, victim, folder))


def _run(project: DiskProject, point: str, victim: str, folder: Path) -> tuple[int, str, str]:
    entry = f"import runpy; runpy.run_path({str(Path(__file__).parent / 'killed_apply.py')!r}, run_name='__main__')"
    process = project.run(point, victim, str(folder), entry=entry, JDK_JAVA_OPTIONS=QUICK)
    try:
        found = project.finished(process)
        _wait_for_the_end(int((project.root / "jvm.pid").read_text()))
        return found
    finally:
        end(process)


def _wait_for_the_end(jvm: int) -> None:
    """A JVM whose Python is gone ends by itself; until then it might still write."""
    deadline = time.monotonic() + DEAD
    while Path(f"/proc/{jvm}").exists():
        assert time.monotonic() < deadline, "the JVM outlives its Python"
        time.sleep(0.05)


@pytest.mark.parametrize(("table", "point", "victim"), CASES)
def test_a_killed_run_leaves_whole_commits_only(
    table: str, point: str, victim: str, cases: dict[tuple[str, str, str], Case], spark: SparkSession
) -> None:
    case = cases[table, point, victim]
    code, out, err = case.killed.result()
    count("kills")

    assert "Traceback" not in err, err[-3000:]
    if victim == "jvm":
        last = json.loads(out.splitlines()[-1])
        assert last["type"] == "change_summary", out[-2000:]
        # looking at a table needs no JVM: a run that has committed all ends well without it
        assert (code, "ZL3" in out) == ((0, False) if COMMITTED[point] == {2} else (1, True)), out[-2000:]
    else:
        assert code == -9

    done = case.rewrites()
    assert done in COMMITTED[point]
    assert case.project.rows(table).equals(ROWS)
    assert all(path.exists() for path in case.project.files(table))
    project = load_project(case.project.root, os.environ)
    orphans = find_orphans(project.catalogs[table.partition(".")[0]], project.layouts[0].table)
    if point in LITTERED:
        assert any(orphan.path.endswith(".parquet") for orphan in orphans.files)
    live = {path.resolve() for path in case.project.files(table)}
    root = case.folder if table == DELTA else case.folder.parent
    assert not live & {(root / orphan.path).resolve() for orphan in orphans.files}

    again = _apply(case, spark)
    assert again.error is None
    assert again.after is not None
    assert again.after.status == "unchanged", (again.after.decay, again.after.groups, again.failures)
    assert case.rewrites() == 2
    assert case.project.rows(table).equals(ROWS)
    left = find_orphans(project.catalogs[table.partition(".")[0]], project.layouts[0].table)
    assert {orphan.path for orphan in orphans.files} <= {orphan.path for orphan in left.files}, "none was deleted"


def _apply(case: Case, spark: SparkSession) -> Applied:
    """Plan and apply in this process, in a session with the case's catalogs."""
    project = load_project(case.project.root, os.environ)
    session = spark.newSession()
    for key, value in session_conf(project, submitted=True).items():
        if key.startswith("spark.sql.catalog.ice"):
            session.conf.set(key, value)
    runtime = SparkRuntime(project)
    runtime._session = session
    (spec,) = project.layouts
    backend = backend_for(project.catalogs[spec.table.catalog], runtime)
    planned = plan_table(spec, backend, PlanOptions())
    applied = new_run(planned)
    active = spark._jvm.org.apache.spark.sql.classic.SparkSession
    active.setActiveSession(session._jsparkSession)  # Spark loads a catalog by the conf of the active session
    try:
        apply_table(planned, backend, PlanOptions(), applied, lambda _: None, lambda *_: None)
    finally:
        active.setActiveSession(spark._jsparkSession)
    return applied
