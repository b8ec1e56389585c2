"""Measures the commit of a rewrite on Delta without its Spark job, with hard links to one small file as data files.

All steps after the write of the new files run as in a rewrite: footers, statistics, file tags, baseline of the group,
the check that the files exist, the commit. The calls to the JVM through py4j are counted.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MethodType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import pyarrow as pa
from peak import peak_mb
from support.builders import make_group, make_work

from zlayout.errors import Location
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.delta.read.log import table_files
from zlayout.formats.delta.write import commit
from zlayout.formats.delta.write.commit import write_with_stats
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.transaction import Log, pinned_files
from zlayout.formats.kernel.commits import Measurement, Rewritten, baseline_of
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Layout, Project, SparkConfig, TableName, ZorderColumn

ROWS_PER_FILE, LINKS_PER_COPY = 10, 30_000
LAYOUT = Layout((ZorderColumn("a"), ZorderColumn("b")), "kd", 1000, False, 1 << 27, True, "zlayout")


def delta_commit(files: int) -> dict[str, Any]:
    """Commit a rewrite that replaces `files` files by as many, and return time, memory and calls."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        conf = {"spark.driver.memory": "3g", "spark.ui.showConsoleProgress": "false"}
        catalog = CatalogConfig("lake", "delta", "path", {"warehouse": folder}, Location("zlayout.yaml"))
        runtime = SparkRuntime(Project(root, {"lake": catalog}, SparkConfig("local[2]", conf), ()))
        try:
            return _measured(runtime, DeltaBackend(catalog, runtime), root / "db" / "t", files)
        finally:
            runtime.stop()


def _measured(runtime: SparkRuntime, backend: DeltaBackend, path: Path, files: int) -> dict[str, Any]:
    runtime.session.range(0, ROWS_PER_FILE, 1, 1).selectExpr("id", "id a", "-id b").write.format("delta").save(
        str(path)
    )
    original = _linked_table(path, files)
    name = TableName("lake", ("db",), "t")
    state = backend.observe(name, ("a", "b"))
    group = make_group("g", state.files, files)
    work = make_work(LAYOUT, name, groups=(group,), version=state.version, covers_table=True)
    delta = DeltaJvm(runtime.session, str(path))
    storage = table_files(str(path), {})
    snapshot, new = delta.snapshot(), _links(path, original, "part-{:05}-new.parquet", files)
    one = delta.files.select(delta.live_files(snapshot), np.zeros(files, np.int64))
    paths = pa.array([json.dumps({"path": name, "stats": None}) for name in new])
    added = delta.files.changed(one, paths, np.arange(files))
    delta.write_files = MethodType(lambda *_, **__: added, delta)  # type: ignore[method-assign]
    with count_calls(runtime) as calls:
        began, cpu = time.perf_counter(), time.process_time()
        pinned = pinned_files(delta, snapshot, "t", [group], files)
        transaction = commit.begin(delta, snapshot, pinned.adds)
        frame = delta.data_frame(snapshot, pinned.adds)
        found = write_with_stats(delta, storage, snapshot, transaction, frame, pinned.adds[0])
        owner = np.zeros(len(found), np.int64)
        (written,) = commit._written(delta, snapshot, work, [group], found, owner)
        handles = commit.tagged(delta, found.handles, work, [group], owner, [baseline_of(written, LAYOUT)])
        rewritten = Rewritten(group, replace(found, handles=handles), written)
        log = Log(delta, storage, "t", "run")
        measurement = Measurement(state.files, work)
        done = commit.Committer(delta, log, snapshot, pinned, transaction, work, measurement).commit([rewritten])
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert (done.files_added, done.files_removed) == (files, files)
    return commit_result(runtime, files, seconds, cpu, calls[0])


def commit_result(runtime: SparkRuntime, files: int, seconds: float, cpu: float, calls: int) -> dict[str, Any]:
    """Return the result of a commit. cpu: CPU seconds of the Python process."""
    java = peak_mb(int(runtime.session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()))
    return {
        "rows": ROWS_PER_FILE * files,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "driver_mb": peak_mb(),
        "executor_mb": java,
        "calls": calls,
    }


def _linked_table(path: Path, files: int) -> Path:
    """Replace the only file of a table by hard links to it, and return the file."""
    log = path / "_delta_log" / "00000000000000000000.json"
    (add,) = (a["add"] for a in map(json.loads, log.read_text().splitlines()) if "add" in a)
    original = path / add["path"]
    remove = {"path": add["path"], "deletionTimestamp": add["modificationTime"], "dataChange": True}
    names = _links(path, original, "part-{:05}-old.parquet", files)
    actions = [{"remove": remove}, *({"add": {**add, "path": name}} for name in names)]
    log.with_name("00000000000000000001.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
    return original


def _links(path: Path, original: Path, pattern: str, files: int) -> list[str]:
    names = [pattern.format(n) for n in range(files)]
    link_all(original, [path / name for name in names])
    return names


def link_all(original: Path, links: Sequence[Path]) -> None:
    """Make hard links to a file, and some copies of it, because a file can have at most 65,000 links."""
    for at, link in enumerate(links):
        if at % LINKS_PER_COPY == 0:
            shutil.copy(original, link)
        else:
            os.link(links[at - at % LINKS_PER_COPY], link)


@contextmanager
def count_calls(runtime: SparkRuntime) -> Iterator[list[int]]:
    """Count the calls to the JVM, without those that release objects."""
    client: Any = type(runtime.session.sparkContext._gateway._gateway_client)
    send, count = client.send_command, [0]

    def counted(self: Any, command: str, *others: Any, **named: Any) -> Any:
        count[0] += not command.startswith("m\n")
        return send(self, command, *others, **named)

    client.send_command = counted
    try:
        yield count
    finally:
        client.send_command = send
