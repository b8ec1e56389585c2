"""Measures rewrites of small tables on a standalone cluster of one and two workers, with 1, 4 and 16 times the rows.

For each number of workers, a process first rewrites a table that is not counted, and then one table of each size, in
ascending order, because the peak memory of a process never falls. Each worker has one core and one executor.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from peak import peak_mb
from support.builders import make_group, make_work
from support.cluster import Cluster, standalone_cluster

from zlayout.errors import Location
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Layout, Project, SparkConfig, TableName, ZorderColumn

WORKERS, FACTORS = (1, 2), (1, 4, 16)
ROWS, FILES = 250_000, 4  # of the smallest table
LAYOUT = Layout((ZorderColumn("a"), ZorderColumn("b")), "kd", 1000, False, 1 << 27, True, "zlayout")
_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.showConsoleProgress": "false",
}


def cluster_cases(workers: int) -> list[dict[str, Any]]:
    """Rewrite tables of all sizes on a cluster with `workers` workers. Returns a result for each."""
    # the options of Java that tests set would leave out the second compiler
    with (
        tempfile.TemporaryDirectory() as folder,
        standalone_cluster(Path(folder), workers, JDK_JAVA_OPTIONS="") as cluster,
    ):
        root = Path(folder)
        catalog = CatalogConfig("lake", "delta", "path", {"warehouse": f"{folder}/lake"}, Location("zlayout.yaml"))
        with SparkRuntime(Project(root, {"lake": catalog}, SparkConfig(cluster.url, _CONF), ())) as runtime:
            backend = DeltaBackend(catalog, runtime)
            _rewrite(runtime, backend, root, "first", 1, cluster)
            return [
                {"workers": workers, **_rewrite(runtime, backend, root, f"t{factor}", factor, cluster)}
                for factor in FACTORS
            ]


def slopes(results: Sequence[dict[str, Any]], field: str) -> dict[int, float]:
    """Return by number of workers the exponent of growth between the smallest and the largest table: 1 is linear."""
    found = {}
    for workers in sorted({each["workers"] for each in results}):
        by_rows = {each["rows"]: each[field] for each in results if each["workers"] == workers}
        low, high = min(by_rows), max(by_rows)
        found[workers] = round(math.log(by_rows[high] / by_rows[low]) / math.log(high / low), 2)
    return found


def _rewrite(
    runtime: SparkRuntime, backend: DeltaBackend, root: Path, table: str, factor: int, cluster: Cluster
) -> dict[str, Any]:
    session, rows, files = runtime.session, ROWS * factor, FILES * factor
    path = root / "lake" / "db" / table
    frame = session.range(0, rows, 1, files).selectExpr(
        "id", "id * 7919 % 1000003 a", "id * 104729 % 1000033 b", "repeat(sha2(cast(id as string), 256), 2) text"
    )
    frame.write.format("delta").save(str(path))
    name = TableName("lake", ("db",), table)
    state = backend.observe(name, ("a", "b"))
    group = make_group("g", state.files, files)
    work = make_work(LAYOUT, name, groups=(group,), version=state.version, covers_table=True)
    before, load = _stages(session), round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)
    began = time.perf_counter()
    (done,) = backend.execute(work, lambda _: None)
    seconds = time.perf_counter() - began
    assert (done.files_added, done.rows) == (files, rows)
    shuffled, cpu = np.array(_stages(session)) - before
    java: Any = session.sparkContext._jvm
    executors = [peak_mb(each) for worker in cluster.workers for each in worker.executors()]
    return {
        "rows": rows,
        "files": files,
        "mb": round(int(state.files.bytes.sum()) / 1e6, 1),
        "seconds": round(seconds, 1),
        "executor_cpu_seconds": round(float(cpu) / 1e9, 1),
        "load": load,
        "shuffle_mb": round(float(shuffled) / 1e6, 1),
        "driver_mb": peak_mb() + peak_mb(int(java.java.lang.ProcessHandle.current().pid())),
        "executor_mb": max(executors),
    }


def _stages(session: Any) -> tuple[int, int]:
    """Return the bytes of shuffles and the CPU nanoseconds of all tasks so far."""
    time.sleep(1)  # events of the last tasks arrive later
    context = session.sparkContext
    none = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, none, None)
    each = [stages.apply(at) for at in range(stages.size())]
    return sum(s.shuffleWriteBytes() for s in each), sum(s.executorCpuTime() for s in each)
