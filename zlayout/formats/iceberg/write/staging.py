"""The pinned files of a rewrite, staged so that Spark reads them, and the new files that Spark writes for them.

Whole files of the pinned snapshot are staged, without residual filters and unsplit, so the frame has exactly their live
rows, with `_row_id` and `_last_updated_sequence_number` on version 3, which must reach the writer.
"""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zlayout.errors import CommitConflict, EngineError
from zlayout.formats.base import Work
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.formats.iceberg.write.scan import tasks_of
from zlayout.formats.kernel.commits import NewFile
from zlayout.formats.kernel.new_files import require_files
from zlayout.rewrite.engine import min_tasks
from zlayout.spark.jvm import jvm_of
from zlayout.sql_text import quoted

ONE_FILE = 2**62  # bytes; no task writes so much, so it writes one file per output partition
USUAL_SPLIT = 128 * 2**20  # Iceberg's default, in bytes
SMALLEST_SPLIT = 16 * 2**20
OPEN_COST = 4 * 2**20  # bytes that Iceberg counts at least for a file when it packs files into tasks
UNASSIGNED = 2**40  # a row id and sequence number that a row of a new file gets only if it has none of its own
_log = logging.getLogger(__name__)
TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"


@dataclass(frozen=True, slots=True)
class Staged:
    """Staged files.

    table, snapshot: pinned Java objects. tasks: Java scan tasks by path. id: the table name for Spark.

    has_deletes: whether any delete file is in the snapshot. bytes: int64[files], of the staged files.
    """

    jvm: IcebergJvm
    table: Any
    snapshot: Any
    tasks: Mapping[str, Any]
    id: str
    has_deletes: bool
    bytes: NDArray[np.int64]

    @property
    def frame(self) -> DataFrame:
        """Return the live rows of the staged files; `_file` and `_pos` can be selected."""
        frame = self.jvm.session.read.format("iceberg").options(**self._splits()).load(self.id)
        return _with_origin(frame) if "_row_id" in frame.columns else frame

    def _splits(self) -> dict[str, str]:
        """Read options for smaller splits, if those of Iceberg would leave cores idle behind the largest task."""
        weight = int(np.maximum(self.bytes, OPEN_COST).sum())
        fair = max(weight // min_tasks(self.jvm.session) + 1, SMALLEST_SPLIT)
        return {"split-size": str(fair)} if fair < USUAL_SPLIT else {}

    def exact_deletes(self) -> bool:
        """Return whether the metadata has the exact number of live rows: all delete files are deletion vectors."""
        if not self.has_deletes:
            return True
        is_vector = self.jvm.iceberg.util.ContentFileUtil.isDV
        return all(is_vector(delete) for task in self.tasks.values() for delete in task.deletes())

    def write(self, frame: DataFrame) -> None:
        """Write the placed frame, one file per Spark partition (and output partition). Nothing is committed."""
        options = {
            "use-table-distribution-and-ordering": "false",
            "output-spec-id": str(self.table.spec().specId()),
            "target-file-size-bytes": str(ONE_FILE),
            "fanout-enabled": "false",
        }
        with java_errors(f"writing new files of {self.table.name()}"):
            frame.write.format("iceberg").options(**options).mode("append").save(self.id)

    def new_files(self) -> list[tuple[int, NewFile]]:
        """Return each new file with the number of the Spark partition that wrote it, in that order."""
        coordinator = self.jvm.iceberg.spark.FileRewriteCoordinator.get()
        with java_errors(f"collecting new files of {self.table.name()}"):
            files = [
                NewFile(f, f.location(), int(f.fileSizeInBytes()), int(f.recordCount()))
                for f in coordinator.fetchNewFiles(self.table, self.id)
            ]
        return sorted(((_partition_number(f.path), f) for f in files), key=lambda item: (item[0], item[1].path))

    @contextmanager
    def written(self, files: Sequence[NewFile]) -> Iterator[DataFrame]:
        """Yield the rows of new files, read by Iceberg as files of the table, that is with columns by id."""
        if not files:
            yield self.frame.limit(0)
            return
        table, iceberg = self.table, self.jvm.iceberg
        with ExitStack() as stack, java_errors(f"reading new files of {table.name()} back"):
            schema = iceberg.SchemaParser.toJson(table.schema())
            spec = iceberg.PartitionSpecParser.toJson(table.spec())
            every_row = iceberg.expressions.ResidualEvaluator.unpartitioned(
                iceberg.expressions.Expressions.alwaysTrue()
            )
            tasks = [iceberg.BaseFileScanTask(self._readable(f), None, schema, spec, every_row) for f in files]
            key = str(uuid.uuid4())
            stage(stack, self.jvm, table, key, self.jvm.list(tasks))
            yield self.jvm.session.read.format("iceberg").load(key)

    def _readable(self, file: NewFile) -> Any:
        """The Java DataFile for the reader, which ignores row ids in a file without numbers of its own."""
        if self.snapshot.firstRowId() is None:
            return file.handle
        readable = file.handle.copy()
        readable.setFirstRowId(UNASSIGNED)
        readable.setDataSequenceNumber(UNASSIGNED)
        return readable

    def require_files(self, files: Sequence[NewFile], io: Any) -> None:
        """Check that each file is on storage with its size. Raises EngineError ZL316.

        io: the Java FileIO to use. That of the staged table may have credentials that expired during the write.
        """

        def stored(path: str) -> int | None:
            file = io.newInputFile(path)
            return int(file.getLength()) if file.exists() else None

        require_files({file.path: file.bytes for file in files}, stored)


@contextmanager
def staged(jvm: IcebergJvm, table: Any, work: Work) -> Iterator[Staged]:
    """Stage the files of the work's groups as they are in its version. table: from `jvm.load`.

    Raises CommitConflict ZL320 if the version has expired or does not have all of them.
    """
    snapshot = table.snapshot(work.version)
    wanted = [path for group in work.groups for path in group.files.path.to_pylist()]
    with java_errors(f"looking up the files of {work.table}"):
        tasks = {} if snapshot is None else tasks_of(jvm, table, work.version, wanted)
    if tasks.keys() != set(wanted):
        raise CommitConflict.of(
            "ZL320",
            f"snapshot {work.version} of {work.table} holds {len(tasks)} of the {len(wanted)} files to rewrite",
            hint="nothing was written; plan again",
        )
    with ExitStack() as stack:
        with java_errors(f"staging the files of {work.table}"):
            has_deletes = not snapshot.deleteManifests(table.io()).isEmpty()
            sizes = np.concatenate([group.files.bytes for group in work.groups])
            pinned = Staged(jvm, table, snapshot, tasks, str(uuid.uuid4()), has_deletes, sizes)
            stage(stack, jvm, table, pinned.id, jvm.list(list(tasks.values())))
        yield pinned


def stage(stack: ExitStack, jvm: IcebergJvm, table: Any, key: str, tasks: Any) -> None:
    """Let Spark read a Java list of tasks as table `key`, and write new files to it, until the stack is left."""
    cache, sets = jvm.static(TABLE_CACHE, "get"), jvm.iceberg.spark.ScanTaskSetManager.get()
    written = jvm.iceberg.spark.FileRewriteCoordinator.get()
    for name, release in (
        ("written files", lambda: written.clearRewrite(table, key)),
        ("tasks", lambda: sets.removeTasks(table, key)),
        ("table", lambda: cache.remove(key)),
    ):
        stack.callback(_release, f"releasing the {name} of {key}", release)
    cache.add(key, table)
    sets.stageTasks(table, key, tasks)


def _release(doing: str, release: Callable[[], Any]) -> None:
    """Run one clean-up. It never raises, since it only frees memory and must not hide the outcome of a commit."""
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

    A staged table of version 3 has its lineage columns among the plain ones. Spark (4.1) then assumes that all metadata
    columns are exposed and resolves none, so they are added to the relation, and a projection hides them again.
    """
    java = jvm_of(frame.sparkSession)
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


# <Spark partition>-<task>-<query>-<epoch>-<file of the task>; some location providers add a prefix.
_FILE_NAME = re.compile(r"(\d{5,})-\d+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+-\d{5,}(?:\.\w+)+$")


def _partition_number(location: str) -> int:
    found = _FILE_NAME.search(location)
    if not found:
        raise EngineError.of(
            "ZL318",
            f"expected a new file named <number>-<task>-<uuid>-<number>-<number>.<format>, found {location}",
            hint="nothing was committed; use a write.location-provider.impl that keeps the names of files",
        )
    return int(found[1])
