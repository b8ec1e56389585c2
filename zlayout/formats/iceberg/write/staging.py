"""Stages the pinned files of a rewrite for Spark's reader, and collects the new files that Spark writes.

`staged` stages whole files of the pinned snapshot, without filters and without splits. Therefore the frame has exactly
their live rows. In tables of format version 3, the frame has the columns `_row_id` and `_last_updated_sequence_number`,
which the writer stores again.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zlayout.errors import CommitConflict, EngineError, Refused
from zlayout.formats.base import Group, GroupFailed, PlannedTable
from zlayout.formats.iceberg.read.support import empty_main, unreadable_row_ids
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.formats.kernel.commits import NewFiles, positions_among, require_sizes, spark_partitions
from zlayout.formats.kernel.requirements import changed_files, paths_of, planned_paths, split_groups
from zlayout.rewrite.engine import min_tasks
from zlayout.rewrite.rows import FILE, POSITION
from zlayout.spark import versions
from zlayout.spark.jvm import JavaClasses, find_class, frame_of, has_class, jvm_of, scala_items, scala_seq
from zlayout.spec.model import TableName
from zlayout.table.state import Int64
from zlayout.text import quote_identifier

# Tables that the session's Iceberg cannot read, or whose row ids or sequence numbers it reads wrongly, are refused.


ROW_ID = "_row_id"  # a column of staged files in tables of format version 3
_ONLY_SINCE_SPARK_4_1 = "org.apache.iceberg.spark.source.SparkRewriteTable"


def require_types(jvm: IcebergJvm, name: TableName) -> None:
    """Check that Iceberg can convert the type of each column to a type of Spark.

    Old versions of Iceberg can convert fewer types than a plan allows.

    Raises:
        Refused: ZL227, with the columns.
    """
    schema = jvm.load(name).schema()
    if _has_spark_type(jvm, schema):
        return
    unread = [f"{c.name()} ({c.type().toString()})" for c in schema.columns() if not _has_spark_type(jvm, c.type())]
    raise Refused.of(
        "ZL227",
        f"the Iceberg {jvm.iceberg.IcebergBuild.version()} of this session cannot read these columns of {name}: "
        f"{', '.join(unread)}",
        hint="use Spark 4.1 with Iceberg 1.12, or rewrite the table with the engine that writes it",
    )


def _has_spark_type(jvm: IcebergJvm, of: Any) -> bool:
    try:
        with java_errors("converting a type"):
            jvm.iceberg.spark.SparkSchemaUtil.convert(of)
    except EngineError:
        return False
    return True


def require_row_ids_of_orc(jvm: IcebergJvm, table: TableName) -> None:
    """Check that Iceberg can read the row ids of ORC files.

    Raises:
        Refused: ZL228, for Spark 4.0 and earlier.
    """
    # before, both readers of Iceberg give all rows of an ORC file the same row id, which a rewrite would store
    if not has_class(jvm.root, _ONLY_SINCE_SPARK_4_1):
        raise Refused(unreadable_row_ids(str(table)))


def require_row_id_column(name: object, snapshot: Any, frame: DataFrame) -> None:
    """Check that staged files are read with their row ids, which a rewrite would lose otherwise.

    Args:
        name: The name for messages.
        snapshot: The Java snapshot of the files.
        frame: The staged files.

    Raises:
        Refused: ZL228.
    """
    if snapshot.firstRowId() is not None and ROW_ID not in frame.columns:
        raise Refused.of("ZL228", f"Iceberg reads {name} without its row ids", hint="use Spark 4.1")


def require_sequence_numbers(jvm: IcebergJvm, name: TableName, table: Any, tasks: Callable[[], Any]) -> None:
    """Check that Iceberg reads the right sequence number for the last update of each row.

    Rows without a stored number inherit the data sequence number of their file. Before version 1.12, Iceberg uses the
    file sequence number instead. The two differ in files of an earlier rewrite. This has no effect if the table
    had row ids at that time, because the rewrite then stored the numbers of the rows.

    Args:
        name: The name for messages.
        table: The Java table.
        tasks: Returns the Java scan tasks of the files. It is called only if their numbers are needed.

    Raises:
        Refused: ZL228, if the two numbers of a file differ, and no known snapshot shows that the table had row ids when
            the file was added. An unknown file sequence number (-1) counts as different.
    """
    found = versions.minor(str(jvm.iceberg.IcebergBuild.version()))
    if versions.numbers(found) >= (1, 12):
        return
    with_row_ids = [int(each.sequenceNumber()) for each in table.snapshots() if each.firstRowId() is not None]
    if not with_row_ids:
        return
    files = jvm.content.files(tasks())
    added, of_rows = (jvm.content.numbers(files, field) for field in ("file sequence number", "data sequence number"))
    if ((added != of_rows) & (added < min(with_row_ids))).any():
        message = (
            f"{name} has files that were rewritten before it had row ids; Iceberg {found} would change the sequence "
            "numbers of their rows"
        )
        raise Refused.of("ZL228", message, hint="use Iceberg 1.12 with Spark 4.1")


# The staged files, and the new files.


UNLIMITED_FILE_BYTES = 2**62  # more than any task writes, so a task writes one file per output partition
DEFAULT_SPLIT_BYTES = 128 * 2**20  # Iceberg's default
MIN_SPLIT_BYTES = 16 * 2**20
OPEN_COST_BYTES = 4 * 2**20  # the size as which Iceberg counts a smaller file when it combines files to tasks
_log = logging.getLogger(__name__)
# <Spark partition>-<task>-<query>-<epoch>-<number of the file in the task>; some location providers add a prefix.
FILE_NAME = r"(?P<partition>\d{5,})-\d+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+-\d{5,}(?:\.\w+)+$"
_FILE_NAME_PARTS = "<number>-<task>-<uuid>-<number>-<number>.<format>"
TABLE_CACHE = "org.apache.iceberg.spark.SparkTableCache"


@dataclass(frozen=True, slots=True)
class Staged:
    """The staged files of one rewrite.

    Attributes:
        table: The Java table, as it was loaded before the files were staged.
        snapshot: The pinned Java snapshot.
        tasks: The Java scan tasks of the files.
        path: string[files], the paths of the files.
        id: The table name under which Spark reads the staged files and writes new ones.
        has_deletes: Whether the snapshot has delete files.
        bytes: int64[files], the sizes of the staged files.
    """

    jvm: IcebergJvm
    table: Any
    snapshot: Any
    tasks: Any
    path: pa.Array
    id: str
    has_deletes: bool
    bytes: NDArray[np.int64]

    @property
    def frame(self) -> DataFrame:
        """The live rows of the staged files. The metadata columns `_file` and `_pos` can be selected."""
        return self._selectable(_read(self.jvm, self.id, **self._splits()))

    def _selectable(self, frame: DataFrame) -> DataFrame:
        require_row_id_column(self.table.name(), self.snapshot, frame)
        return _with_origin(frame) if ROW_ID in frame.columns else frame

    def with_positions(self, stack: ExitStack, tasks: Any) -> DataFrame:
        """Return the live rows of scan tasks, with their file and position as the columns FILE and POSITION.

        Args:
            stack: Closed when the frame is no longer needed.
            tasks: A Java list of scan tasks of pinned or of new files.
        """
        key = str(uuid.uuid4())
        stage(stack, self.jvm, self.table, key, tasks)
        frame = self._selectable(_read(self.jvm, key))
        return frame.select("*", F.col("_file").alias(FILE), F.col("_pos").alias(POSITION))

    def _splits(self) -> dict[str, str]:
        weight = int(np.maximum(self.bytes, OPEN_COST_BYTES).sum())
        fair = max(weight // min_tasks(self.jvm.session) + 1, MIN_SPLIT_BYTES)
        return {"split-size": str(fair)} if fair < DEFAULT_SPLIT_BYTES else {}

    def exact_deletes(self) -> bool:
        """Return whether all deletes are deletion vectors, so that the metadata has the exact number of live rows."""
        return not self.has_deletes or self.jvm.content.have_only_vectors(self.tasks)

    def tasks_of(self, groups: Sequence[Group]) -> Any:
        """Return the Java scan tasks of the groups' files, in their order."""
        return self.jvm.content.select(self.tasks, self.positions_of(groups))

    def positions_of(self, groups: Sequence[Group]) -> Int64:
        """Return the positions of the groups' files among the staged files, in their order: int64[files]."""
        return positions_among(self.path, paths_of(groups))

    def format_version(self) -> int:
        """Return the format version of the table."""
        return int(self.table.operations().current().formatVersion())

    def has_definition_of(self, table: Any) -> bool:
        """Return whether a newer Java table is the same table with the same schema, partition spec and version."""
        old, now = (each.operations().current() for each in (self.table, table))
        return all(
            getattr(old, name)() == getattr(now, name)()
            for name in ("uuid", "formatVersion", "currentSchemaId", "defaultSpecId")
        )

    def lacks_row_ids_of(self, newest: Any) -> bool:
        """Return whether the rows of a newer Java snapshot have row ids, but not those of the pinned snapshot.

        The new files would then get other row ids than the rows have. newest: None for an empty branch.
        """
        return newest is not None and newest.firstRowId() is not None and self.snapshot.firstRowId() is None

    def write(self, frame: DataFrame) -> None:
        """Write the placed frame without a commit: one file per Spark partition and output partition."""
        options = {
            "use-table-distribution-and-ordering": "false",
            "output-spec-id": str(self.table.spec().specId()),
            "target-file-size-bytes": str(UNLIMITED_FILE_BYTES),
            "fanout-enabled": "false",
            **_staged_as(self.id),
        }
        with java_errors(f"writing new files of {self.table.name()}"):
            frame.write.format("iceberg").options(**options).mode("append").save(self.id)

    def new_files(self) -> tuple[NDArray[np.int64], NewFiles]:
        """Return the number of the Spark partition that wrote each new file, and the files, ordered by this number."""
        coordinator = self.jvm.iceberg.spark.FileRewriteCoordinator.get()
        with java_errors(f"collecting new files of {self.table.name()}"):
            handles = self.jvm.java.util.ArrayList(coordinator.fetchNewFiles(self.table, self.id))
            content = self.jvm.content
            paths, sizes, rows = (
                content.paths(handles),
                content.numbers(handles, "bytes"),
                content.numbers(handles, "rows"),
            )
        files = NewFiles(handles, np.arange(len(paths)), paths, sizes, rows)
        by_path = np.asarray(pc.sort_indices(paths), np.int64)
        partitions = spark_partitions(paths, FILE_NAME, _FILE_NAME_PARTS, "report this error")
        order = by_path[np.argsort(partitions[by_path], kind="stable")]
        return partitions[order], files.take(order)

    @contextmanager
    def written(self, files: NewFiles) -> Iterator[DataFrame]:
        """Yield the rows of new files, read by Iceberg with the schema of the table."""
        if not len(files):
            yield self.frame.limit(0)
            return
        with ExitStack() as stack, java_errors(f"reading new files of {self.table.name()} back"):
            key = str(uuid.uuid4())
            stage(stack, self.jvm, self.table, key, self.new_tasks(self.handles_of(files)))
            yield _read(self.jvm, key)

    def new_tasks(self, handles: Any) -> Any:
        """Return a Java list of scan tasks that read new files. handles: a Java list of their DataFiles."""
        row_ids = self.snapshot.firstRowId() is not None
        return self.jvm.content.new_tasks(handles, *self.task_arguments(), row_ids=row_ids)

    def task_arguments(self) -> tuple[str, str, Any]:
        """Return the schema and the partition spec as JSON, and a ResidualEvaluator that selects every row."""
        iceberg = self.jvm.iceberg
        every_row = iceberg.expressions.ResidualEvaluator.unpartitioned(iceberg.expressions.Expressions.alwaysTrue())
        schema = iceberg.SchemaParser.toJson(self.table.schema())
        return schema, iceberg.PartitionSpecParser.toJson(self.table.spec()), every_row

    def handles_of(self, files: NewFiles) -> Any:
        """Return a Java list of the DataFiles of new files, in their order."""
        return self.jvm.content.select(files.handles, files.at)

    def require_files(self, files: NewFiles, io: Any) -> None:
        """See `zlayout.formats.kernel.commits.require_sizes`.

        Args:
            io: A new Java FileIO. The credentials of the staged table's FileIO may have expired during the write.
        """
        require_sizes(files.path, files.bytes, self.jvm.content.stored(files.path, io))


def require_row_ids(jvm: IcebergJvm, work: PlannedTable) -> None:
    """Check before any write that the rewrites of the plan would keep row ids and sequence numbers.

    Raises:
        CommitConflict: ZL320, if the version of the work has expired or does not have all the files.
        Refused: ZL228, see `require_row_id_column` and `require_sequence_numbers`.
    """
    table = jvm.load(work.table)
    snapshot = table.snapshot(work.version)
    with ExitStack() as stack, java_errors(f"checking the row ids of {work.table}"):
        if snapshot is not None and snapshot.firstRowId() is not None:
            key = str(uuid.uuid4())
            _cache(stack, jvm, table, key)
            require_row_id_column(work.table, snapshot, _read(jvm, key))
        require_sequence_numbers(jvm, work.table, table, lambda: _pinned_tasks(jvm, table, work, planned_paths(work)))


def _pinned_tasks(jvm: IcebergJvm, table: Any, work: PlannedTable, paths: pa.Array) -> Any:
    with java_errors(f"searching for the files of {work.table}"):
        tasks = None if table.snapshot(work.version) is None else tasks_of(jvm, table, work.version, paths)
        missing = len(paths) if tasks is None else jvm.content.missing(tasks)
    if missing:
        message = (
            f"expected {len(paths)} planned files in snapshot {work.version} of {work.table}, "
            f"found {len(paths) - missing}"
        )
        raise CommitConflict.of("ZL320", message, hint="plan again; nothing was written")
    return tasks


@contextmanager
def staged(jvm: IcebergJvm, table: Any, work: PlannedTable) -> Iterator[Staged]:
    """Stage the files of the work's groups at the work's version for the block. table: the result of `jvm.load`.

    Raises:
        CommitConflict: ZL320, if the version has expired or does not have all the files.
    """
    snapshot = table.snapshot(work.version)
    path = paths_of(work.groups)
    tasks = _pinned_tasks(jvm, table, work, path)
    with ExitStack() as stack:
        with java_errors(f"staging the files of {work.table}"):
            has_deletes = not snapshot.deleteManifests(table.io()).isEmpty()
            sizes = np.concatenate([group.files.bytes for group in work.groups])
            pinned = Staged(jvm, table, snapshot, tasks, path, str(uuid.uuid4()), has_deletes, sizes)
            stage(stack, jvm, table, pinned.id, tasks)
        yield pinned


def stage(stack: ExitStack, jvm: IcebergJvm, table: Any, key: str, tasks: Any) -> None:
    """Register a Java list of scan tasks as table `key`, which Spark can read and write, until the stack is closed."""
    sets, written = jvm.iceberg.spark.ScanTaskSetManager.get(), jvm.iceberg.spark.FileRewriteCoordinator.get()
    for name, release in (
        ("written files", lambda: written.clearRewrite(table, key)),
        ("tasks", lambda: sets.removeTasks(table, key)),
    ):
        stack.callback(_release, f"releasing the {name} of {key}", release)
    _cache(stack, jvm, table, key)
    sets.stageTasks(table, key, tasks)


def _cache(stack: ExitStack, jvm: IcebergJvm, table: Any, key: str) -> None:
    """Let Spark find a Java table as table `key` until the stack is closed."""
    # by reflection, because py4j confuses the static method with its overload
    get = find_class(jvm.root, TABLE_CACHE).getMethod("get", jvm.gateway.new_array(jvm.java.lang.Class, 0))
    cache = get.invoke(None, jvm.gateway.new_array(jvm.java.lang.Object, 0))
    stack.callback(_release, f"releasing the table of {key}", lambda: cache.remove(key))
    cache.add(key, table)


def _read(jvm: IcebergJvm, key: str, **options: str) -> DataFrame:
    return jvm.session.read.format("iceberg").options(**_staged_as(key), **options).load(key)


def _staged_as(key: str) -> dict[str, str]:
    """Without these options, Iceberg for Spark 4.0 and earlier reads the whole table and commits an append."""
    # Iceberg for Spark 4.1 recognizes staged files by the table's name. `jvm.INTERNALS` requires either.
    return {"scan-task-set-id": key, "rewritten-file-scan-task-set-id": key}


def _release(doing: str, release: Callable[[], Any]) -> None:
    """Log errors of `release`, because raising them would hide the outcome of a commit."""
    try:
        with java_errors(doing):
            release()
    except EngineError as error:
        _log.warning("%s", error)


# The Spark schema of the metadata columns `_file` and `_pos`.
ORIGIN = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": type_, "nullable": True, "metadata": {"__metadata_col": name}}
            for name, type_ in (("_file", "string"), ("_pos", "long"))
        ],
    }
)


def _with_origin(frame: DataFrame) -> DataFrame:
    """Return the frame with `_file` and `_pos` as hidden columns, which can be selected."""
    # In a staged table of format version 3, the row lineage columns are ordinary columns. Spark (4.1) then assumes that
    # all metadata columns are ordinary columns, and does not resolve `_file` and `_pos`. Therefore they are added to
    # the output of the relation, and a projection hides them again.
    java = jvm_of(frame.sparkSession)
    relation = frame._jdf.queryExecution().analyzed()
    origin = java.org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes(
        java.org.apache.spark.sql.types.DataType.fromJson(ORIGIN)
    )
    output = scala_seq(java, [*scala_items(relation.output()), *scala_items(origin)])
    # the fields of the relation after its output; Spark has the last one since 4.1
    fields = ("catalog", "identifier", "options", "timeTravelSpec")[: int(relation.productArity()) - 2]
    exposed = relation.copy(relation.table(), output, *(getattr(relation, field)() for field in fields))
    return frame_of(frame.sparkSession, exposed).select(*[F.col(quote_identifier(name)) for name in frame.columns])


# The branch that a rewrite commits to, and the scan tasks of data files.


_ACTION = "org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction"


def head(table: Any, name: TableName) -> Any:
    """Return the newest Java snapshot of the branch of `name`; None if there is none, or no such branch."""
    return table.snapshot(name.branch) if name.branch else table.currentSnapshot()


def to_branch(change: Any, table: Any, name: TableName) -> None:
    """Direct a rewrite to the branch of `name`. Without this, Iceberg commits it to main.

    Iceberg would create a branch that does not exist, as a copy of main.

    Raises:
        CommitConflict: ZL320, if the table no longer has the branch, or has a tag of this name.
    """
    if not name.branch:
        return
    ref = table.refs().get(name.branch)
    if ref is None or not ref.isBranch():
        message = f"{name}: the branch was dropped since the plan"
        raise CommitConflict.of("ZL320", message, hint="nothing was written to the table; create the branch again")
    change.toBranch(name.branch)


def require_native(jvm: IcebergJvm, name: TableName) -> None:
    """Check that `rewrite_data_files` of the session's Iceberg can rewrite the branch of `name`.

    Raises:
        Refused: ZL229, if it rewrites main only, or if main has no snapshot, in which case it rewrites nothing.
    """
    if name.branch and "toBranch/1" not in (JavaClasses(jvm.session.sparkContext).find(_ACTION) or ()):
        found = jvm.iceberg.IcebergBuild.version()
        message = f"{name}: rewrite_data_files of Iceberg {found} rewrites main only, so engine native cannot be used"
        raise Refused.of("ZL229", message, hint="use Iceberg 1.11 or newer, or engine zlayout")
    if name.branch and jvm.load(name).currentSnapshot() is None:
        raise Refused(empty_main(str(name)))


def tasks_of(jvm: IcebergJvm, table: Any, snapshot: int, paths: pa.Array) -> Any:
    """Return the Java scan task of each path, with its delete files, null for a path that is not live in the snapshot.

    paths: string[paths], distinct.
    """
    return jvm.content.tasks(table.newScan().useSnapshot(snapshot).ignoreResiduals().planFiles(), paths)


def still_live(
    jvm: IcebergJvm, table: Any, work: PlannedTable
) -> tuple[list[Group], frozenset[str], list[GroupFailed]]:
    """Separate the groups whose files are unchanged since the work's version.

    The commit of a changed group would be a conflict, so the group is not rewritten. If the rewrite can be rebased, a
    live file may have other delete files than planned. `table` is the current Java table.

    Returns:
        The groups to rewrite, the ids of those of them whose files have other delete files, and a failure for each
        other group.
    """
    now = head(table, work.table)
    if now is not None and now.snapshotId() == work.version:
        return list(work.groups), frozenset(), []
    with java_errors(f"searching for concurrent changes of {work.table}"):
        pinned = table.snapshot(work.version)
        if now is None or pinned is None or not is_ancestor(jvm, table, now, work.version):
            message = f"{work.table} changed since the plan: snapshot {work.version} is not in its history"
            conflict = CommitConflict.of("ZL320", message, hint="plan again")
            return [], frozenset(), [GroupFailed((group.id,), conflict) for group in work.groups]
        before, after = (tasks_of(jvm, table, int(s.snapshotId()), paths_of(work.groups)) for s in (pinned, now))
        same = jvm.content.same_deletes(before, after)
        live = jvm.content.same_deletes(after, after)  # where there is a task
    kept, changed = split_groups(work.groups, live if work.plan.rebases else same)
    behind = {group.id for group, _ in split_groups(work.groups, same)[1]} & {group.id for group in kept}
    failed = [GroupFailed((g.id,), changed_files(work.table, count, len(g.files))) for g, count in changed]
    return kept, frozenset(behind), failed


def is_ancestor(jvm: IcebergJvm, table: Any, newest: Any, snapshot: int) -> bool:
    """Return whether a snapshot is the Java snapshot `newest` or an ancestor of it."""
    return bool(jvm.iceberg.util.SnapshotUtil.isAncestorOf(table, newest.snapshotId(), snapshot))
