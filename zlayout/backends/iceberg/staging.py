"""The pinned files of a rewrite, staged for Spark to read, and the files that Spark wrote for them.

Whole files of the pinned snapshot are staged (no residual filter, nothing split off), so the frame holds exactly
their live rows, with `_row_id` and `_last_updated_sequence_number` on version 3, which must reach the writer.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zlayout.backends.base import Group, Work
from zlayout.backends.iceberg.jvm import IcebergJvm, java_errors
from zlayout.errors import CommitConflict, EngineError
from zlayout.rewrite.rows import quoted

ONE_FILE = 2**62  # bytes; no task reaches it, so a task writes one file for each output partition
_log = logging.getLogger(__name__)
TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"


@dataclass(frozen=True, slots=True)
class Staged:
    """table, snapshot: Java objects, pinned. tasks: Java scan tasks by path. id: what Spark reads and writes by."""

    jvm: IcebergJvm
    table: Any
    snapshot: Any
    tasks: Mapping[str, Any]
    id: str

    @property
    def frame(self) -> DataFrame:
        """The live rows of the staged files; `_file` and `_pos` can be selected."""
        frame = self.jvm.session.read.format("iceberg").load(self.id)
        return _with_origin(frame) if "_row_id" in frame.columns else frame

    def exact_deletes(self) -> bool:
        """Whether the metadata tells the live rows exactly: no delete files but deletion vectors."""
        is_vector = self.jvm.iceberg.util.ContentFileUtil.isDV
        return all(is_vector(delete) for task in self.tasks.values() for delete in task.deletes())

    def write(self, frame: DataFrame) -> None:
        """Write the placed frame: one file for each Spark partition (and output partition). Nothing is committed."""
        options = {
            "use-table-distribution-and-ordering": "false",
            "output-spec-id": str(self.table.spec().specId()),
            "target-file-size-bytes": str(ONE_FILE),
            "fanout-enabled": "false",
        }
        with java_errors(f"writing new files of {self.table.name()}"):
            frame.write.format("iceberg").options(**options).mode("append").save(self.id)

    def new_files(self) -> list[tuple[int, Any]]:
        """(number of the Spark partition that wrote it, Java DataFile) of each new file, each found on storage.

        Raises EngineError ZL316 when one is missing or has another size than its metadata says.
        """
        coordinator = self.jvm.iceberg.spark.FileRewriteCoordinator.get()
        with java_errors(f"collecting new files of {self.table.name()}"):
            found = [(_partition_number(f.location()), f) for f in coordinator.fetchNewFiles(self.table, self.id)]
            found.sort(key=lambda item: (item[0], item[1].location()))
            for _, file in found:
                stored = self.table.io().newInputFile(file.location())
                size = stored.getLength() if stored.exists() else -1
                if size != file.fileSizeInBytes():
                    raise EngineError.of(
                        "ZL316",
                        f"{file.location()}: expected {file.fileSizeInBytes()} bytes, "
                        + ("found no file" if size < 0 else f"found {size}"),
                        hint="nothing was committed; something removes files of this table: stop it, then run again",
                    )
        return found


@contextmanager
def staged(jvm: IcebergJvm, work: Work) -> Iterator[Staged]:
    """Stage the files of the work's groups as they are in its version.

    Raises CommitConflict ZL320 when the version has expired or does not hold all of them.
    """
    table = jvm.load(work.table)
    snapshot = table.snapshot(work.version)
    tasks = {} if snapshot is None else _tasks(table, work.version, work.groups)
    wanted = sum(len(g.files) for g in work.groups)
    if len(tasks) != wanted:
        raise CommitConflict.of(
            "ZL320",
            f"snapshot {work.version} of {work.table} holds {len(tasks)} of the {wanted} files to rewrite",
            hint="nothing was written; plan again",
        )
    pinned = Staged(jvm, table, snapshot, tasks, str(uuid.uuid4()))
    with ExitStack() as stack:
        with java_errors(f"staging the files of {work.table}"):
            stage(stack, jvm, table, pinned.id, jvm.list(list(tasks.values())))
        yield pinned


def stage(stack: ExitStack, jvm: IcebergJvm, table: Any, key: str, tasks: Any) -> None:
    """Let Spark read the Java list of tasks as table `key`, and take what it writes there, until the stack is left."""
    cache, sets = jvm.static(TABLE_CACHE, "get"), jvm.iceberg.spark.ScanTaskSetManager.get()
    written = jvm.iceberg.spark.FileRewriteCoordinator.get()
    for name, release in (
        ("written files", lambda: written.clearRewrite(table, key)),
        ("tasks", lambda: sets.removeTasks(table, key)),
        ("table", lambda: cache.remove(key)),
    ):
        stack.callback(_release, f"forgetting the {name} of {key}", release)
    cache.add(key, table)
    sets.stageTasks(table, key, tasks)


def _release(doing: str, release: Callable[[], Any]) -> None:
    """Run one clean-up. It never raises: the outcome of the commit is what counts, and only memory is at stake."""
    try:
        with java_errors(doing):
            release()
    except EngineError as error:
        _log.warning("%s", error)


# `_file` and `_pos` as Spark types, marked as metadata columns.
ORIGIN = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {"__metadata_col": name}}
            for name, kind in (("_file", "string"), ("_pos", "long"))
        ],
    }
)


def _with_origin(frame: DataFrame) -> DataFrame:
    """The same frame, from which `_file` and `_pos` can be selected though they are not among its columns.

    A staged table of version 3 has its lineage columns among the plain ones. Spark then takes all metadata columns
    for exposed and resolves none (4.1), so the relation is given them, and a projection hides them again.
    """
    java: Any = frame.sparkSession.sparkContext
    java = java._jvm
    relation = frame._jdf.queryExecution().analyzed()
    origin = java.org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(
        java.org.apache.spark.sql.types.DataType.fromJson(ORIGIN)
    )
    output = relation.output().appendedAll(origin).toSeq()
    exposed = relation.copy(
        relation.table(),
        output,
        relation.catalog(),
        relation.identifier(),
        relation.options(),
        relation.timeTravelSpec(),
    )
    session: Any = frame.sparkSession
    plan = java.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, exposed)
    return DataFrame(plan, frame.sparkSession).select(*[F.col(quoted(name)) for name in frame.columns])


def _tasks(table: Any, version: int, groups: Sequence[Group]) -> dict[str, Any]:
    wanted = {path for group in groups for path in group.files.path.to_pylist()}
    scan = table.newScan().useSnapshot(version).ignoreResiduals().planFiles()
    try:
        by_path = ((task.file().location(), task) for task in _iterate(scan))
        return {path: task for path, task in by_path if path in wanted}
    finally:
        scan.close()


def _iterate(iterable: Any) -> Iterator[Any]:
    iterator = iterable.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _partition_number(location: str) -> int:
    """Iceberg names files 00012-5-<uuid>-00001.parquet: Spark partition, task, write, file of the task."""
    return int(location.rpartition("/")[2].partition("-")[0])
