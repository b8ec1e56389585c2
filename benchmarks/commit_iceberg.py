"""Measures the commit of a rewrite on Iceberg without its Spark job, with hard links to one small file as data files.

The search for the planned files and all steps after the write of the new files run as in a rewrite: scan tasks, bounds,
baseline of the group, the check that the files exist, the commit.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
from commit import LAYOUT, ROWS_PER_FILE, commit_result, count_calls, link_all
from support.builders import make_group, make_work

from zlayout.errors import Location
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.write.commit import Committer, written_files
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.formats.iceberg.write.staging import staged
from zlayout.formats.kernel.commits import Measurement, Rewritten
from zlayout.spark.jvm import java_object
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

# Copies of a DataFile at other paths. By py4j, each would take several calls.
_COPIES = r"""
package io.zlayout.benchmarks;

import java.util.HashSet;
import java.util.Set;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.PartitionSpec;

public class Copies {
    public Set of(DataFile file, PartitionSpec spec, String paths) {
        Set copies = new HashSet();
        String[] each = paths.split("\n");
        for (int at = 0; at < each.length; at++) {
            copies.add(((DataFiles.Builder) DataFiles.builder(spec).copy(file)).withPath(each[at]).build());
        }
        return copies;
    }

    public void append(AppendFiles change, Set files) {
        Object[] each = files.toArray();
        for (int at = 0; at < each.length; at++) {
            change.appendFile((DataFile) each[at]);
        }
    }
}
"""


def iceberg_commit(files: int) -> dict[str, Any]:
    """Commit a rewrite that replaces `files` files by as many, and return time, memory and calls."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        conf = {"spark.driver.memory": "3g", "spark.ui.showConsoleProgress": "false"}
        options = {"uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}"}
        catalog = CatalogConfig("ice", "iceberg", "sql", options, Location("zlayout.yaml"))
        runtime = SparkRuntime(Project(root, {"ice": catalog}, SparkConfig("local[2]", conf), ()))
        try:
            return _measured(runtime, IcebergBackend(catalog, runtime), catalog, files)
        finally:
            runtime.stop()


def _measured(runtime: SparkRuntime, backend: IcebergBackend, catalog: CatalogConfig, files: int) -> dict[str, Any]:
    name = TableName("ice", ("db",), "t")
    runtime.session.sql("create namespace ice.db")
    runtime.session.range(0, ROWS_PER_FILE, 1, 1).selectExpr("id", "id a", "-id b").writeTo(str(name)).using(
        "iceberg"
    ).create()
    jvm = IcebergJvm(runtime.session)
    copies = java_object(runtime.session, "io.zlayout.benchmarks.Copies", _COPIES)
    table = jvm.load(name)
    (task,) = jvm.content.tasks(table.newScan().planFiles(), backend.observe(name, ()).files.path)
    change = table.newFastAppend()
    copies.append(change, copies.of(task.file(), table.spec(), _links(task.file().location(), files - 1)))
    change.commit()
    new = copies.of(task.file(), table.spec(), _links(task.file().location(), files))
    state = backend.observe(name, ("a", "b"))
    group = make_group("g", state.files, files)
    work = make_work(LAYOUT, name, groups=(group,), version=state.version, covers_table=True)
    with count_calls(runtime) as calls:
        began, cpu = time.perf_counter(), time.process_time()
        with staged(jvm, jvm.load(name), work) as pinned:
            jvm.iceberg.spark.FileRewriteCoordinator.get().stageRewrite(pinned.table, pinned.id, new)
            _, found = pinned.new_files()
            (added,) = found.split(np.zeros(len(found), np.int64), 1)
            rewritten = Rewritten(group, added, written=written_files(pinned, group, added))
            done = Committer(pinned, catalog, work, Measurement(state.files, work)).commit([rewritten])
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert (done.files_added, done.files_removed) == (files, files)
    return commit_result(runtime, files, seconds, cpu, calls[0])


def _links(original: str, count: int) -> str:
    """Make hard links to a file, and return their URLs, one on each line. The names are those of Iceberg's writer."""
    folder = original.rpartition("/")[0]
    query = uuid.uuid4()
    urls = [f"{folder}/{n:05}-{n}-{query}-0-00001.parquet" for n in range(count)]
    link_all(Path(urlsplit(original).path), [Path(urlsplit(url).path) for url in urls])
    return "\n".join(urls)
