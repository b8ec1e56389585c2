"""zlayout on a cluster: a standalone master and worker of the pyspark wheel, a killed executor, and spark-submit."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from spark.projects import DELTA, ICEBERG, DiskProject, end, make_events, make_project, start, wait_while_running
from support.cluster import CLUSTER_CONF, NO_PYTHON, SPARK_HOME, Cluster, standalone_cluster

from zlayout.spark import versions

ROWS = make_events(100_000)
# The command line, which also leaves a mark each time that the gate counts the source again.
COUNTING_ENTRY = """
from pathlib import Path
import zlayout.rewrite.gate as gate

real = gate.content_of

def counted_again(*arguments):
    with Path("counted.txt").open("a") as file:
        print("again", file=file)
    return real(*arguments)

gate.content_of = counted_again
from zlayout.cli.main import main
main()
"""
# What docs/clusters.md says to submit.
SUBMITTED = "from zlayout.cli.main import main\n\nmain()\n"


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with one worker."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), 1) as started:
        yield started


@pytest.mark.long
def test_a_killed_executor_costs_time_and_no_row(cluster: Cluster, tmp_path: Path) -> None:
    spark = {"master": cluster.url, "conf": CLUSTER_CONF}
    project = make_project(tmp_path / "project", ROWS, 8, spark, target_size="100KiB")
    process = project.run("apply", "--auto-approve", entry=COUNTING_ENTRY, **NO_PYTHON)
    killed = []
    try:
        for folder in _in_order(project):
            killed.append(_kill_in_the_middle(process, cluster, folder))
        code, out, err = project.finished(process)
    finally:
        end(process)
    assert code == 0, out + err
    assert len(set(killed)) == 2
    # the side before the shuffle ran twice in part, so that the gate had to count the source again, for each table
    assert (project.root / "counted.txt").read_text().splitlines() == ["again"] * 2
    for table in (DELTA, ICEBERG):
        assert project.rows(table) == ROWS, table
        assert len(project.files(table)) >= 16
    assert project.call("plan", "--detailed-exitcode")[0] == 0


@pytest.mark.long  # tests/spark/test_spark_submit.py plans and applies as a submitted file each day
def test_apply_a_plan_file_inside_spark_submit(tmp_path: Path) -> None:
    rows = make_events(4_000)
    project = make_project(
        tmp_path / "project", rows, 8, {"conf": {"spark.sql.shuffle.partitions": 2}}, target_size="16KiB"
    )
    (project.root / "run_zlayout.py").write_text(SUBMITTED)
    assert project.call("plan", "--out", "plan.json", "--detailed-exitcode")[0] == 2
    release = versions.installed()
    packages = ",".join([release.delta_package, release.iceberg_package, versions.JDBC_PACKAGES["sqlite"]])
    submit = [f"{SPARK_HOME}/bin/spark-submit", "--master", "local[2]", "--packages", packages, "run_zlayout.py"]
    code, out, err = _submit(project, [*submit, "apply", "plan.json", "--auto-approve"])
    assert code == 0, out + err
    assert out.count("as declared") == 2
    for table in (DELTA, ICEBERG):
        assert project.rows(table) == rows, table
    assert project.call("plan", "--detailed-exitcode")[0] == 0
    # the exit code of zlayout is that of spark-submit: the plan is stale now
    code, out, err = _submit(project, [*submit, "apply", "plan.json", "--auto-approve"])
    assert code == 3, out + err
    assert "ZL203" in out


def test_spark_submit_without_the_jars_is_refused_by_name(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", make_events(400), 8, {}, target_size="1KiB")
    (project.root / "run_zlayout.py").write_text(SUBMITTED)
    before = project.version(DELTA)
    submit = [f"{SPARK_HOME}/bin/spark-submit", "--master", "local[1]", "run_zlayout.py"]
    code, out, err = _submit(project, [*submit, "apply", "--auto-approve", DELTA])
    assert code == 1, out + err
    assert "ZL306 Delta is not on Spark's classpath" in out
    assert project.version(DELTA) == before


def _submit(project: DiskProject, command: list[str]) -> tuple[int, str, str]:
    """Under spark-submit (4.1) what a Python program writes to stderr comes out of stdout."""
    process = start(command, project.root, PYSPARK_PYTHON=sys.executable)
    try:
        return project.finished(process)
    finally:
        end(process)


def _in_order(project: DiskProject) -> list[Path]:
    """The data folders of the tables in the order that apply takes them."""
    return [project.iceberg_folder, project.delta_folder]


def _kill_in_the_middle(process: subprocess.Popen[str], cluster: Cluster, folder: Path) -> int:
    """Kill the executor when a few new files are there and more are to come; its id."""
    there = set(folder.rglob("*.parquet"))
    wait_while_running(process, lambda: len(set(folder.rglob("*.parquet")) - there) >= 3)
    (executor,) = cluster.workers[0].executors()
    os.kill(executor, signal.SIGKILL)
    return executor
