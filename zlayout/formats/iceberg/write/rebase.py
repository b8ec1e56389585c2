"""Rebases groups of an Iceberg table onto position deletes and deletion vectors of other writers.

See `zlayout.formats.kernel.rebase`. The new delete files get the data sequence number of the commit. Position deletes
apply to files with the same or an older number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from zlayout.formats.base import Group, Notify, PlannedTable
from zlayout.formats.iceberg.write.jvm import FAILURES, IcebergJvm, calls_of
from zlayout.formats.iceberg.write.staging import Staged, head, is_ancestor, tasks_of
from zlayout.formats.kernel import rebase
from zlayout.formats.kernel.commits import NewFiles, Rewritten, require_sizes
from zlayout.formats.kernel.rebase import Deleted, Located
from zlayout.formats.undo import MAX_CONCURRENT_REQUESTS
from zlayout.spark.arrow import from_bytes, to_bytes
from zlayout.spark.jvm import JavaClasses, java_object
from zlayout.table.state import Int64

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELETE_FILES = "io.zlayout.iceberg.DeleteFiles"
# The further methods that `DeleteFiles.java` calls. Where one is missing, no rewrite is rebased.
_CALLS = calls_of(
    {
        "MetricsConfig": "fromProperties/1",
        "Table": "specs/0 encryption/0",
        "data.BaseDeleteLoader": "new/1 loadPositionDeletes/2",
        "deletes.BaseDVFileWriter": "new/2 delete/4 close/0 result/0",
        "deletes.PositionDelete": "create/0 set/2",
        "deletes.PositionDeleteIndex": "isDeleted/1 forEach/1 cardinality/0",
        "deletes.PositionDeleteWriter": "write/1 close/0 toDeleteFile/0",
        "encryption.EncryptingFileIO": "combine/2 newInputFile/1",
        "io.DeleteWriteResult": "deleteFiles/0",
        "io.OutputFileFactory": "builderFor/3 newOutputFile/0 newOutputFile/2",
        "io.OutputFileFactory$Builder": "format/1 suffix/1 build/0",
        "parquet.Parquet": "writeDeletes/1",
        "parquet.Parquet$DeleteWriteBuilder": "setAll/1 metricsConfig/1 withSpec/1 withPartition/1 withKeyMetadata/1 "
        "overwrite/0 buildPositionWriter/0",
    }
)


@dataclass(frozen=True, slots=True)
class Version:
    """A snapshot of the table, and the Java table that has it."""

    table: Any
    snapshot: int


class DeleteFiles:
    """Operations on the deletes of scan tasks. `tasks` is a java.util.List of FileScanTask (py4j)."""

    def __init__(self, pinned: Staged) -> None:
        """Compile the Java class, once for each application."""
        source = resources(__package__).joinpath("DeleteFiles.java").read_text(encoding="utf-8")
        self._java = java_object(pinned.jvm.session, _DELETE_FILES, source)
        self._pinned = pinned
        self._known = pinned.jvm.java.util.concurrent.ConcurrentHashMap()

    def newly_deleted(self, before: Any, after: Any, table: Any, limit: int) -> list[Int64] | None:
        """Compare the position deletes of files at two versions.

        Args:
            before: The tasks of the files at the first version.
            after: The tasks of the same files at the second version, in the same order.
            table: The Java table that has both versions.
            limit: The maximal number of rows.

        Returns:
            int64[rows] for each file, the ascending positions of the rows that are deleted in `after` only. None if
            there is no such row, or more than the limit; if a row is deleted in `before` only; if other equality
            deletes apply to a file; or if a file with such rows has no deletes for itself alone in `after`.
        """
        numbers = from_bytes(self._java.newlyDeleted(before, after, table, limit, self._known, MAX_CONCURRENT_REQUESTS))
        found, start = [], 0
        while start < len(numbers):
            end = start + 1 + int(numbers[start])
            found.append(numbers[start + 1 : end])
            start = end
        return found or None

    def marked(self, tasks: Any, positions: Sequence[Int64]) -> Any:
        """Write deletes for new files, and return their tasks with these deletes only.

        Args:
            tasks: The tasks of the files.
            positions: int64[rows] for each file, the ascending positions of its deleted rows.
        """
        pinned = self._pinned
        numbers = [part for rows in positions for part in (np.array([len(rows)], np.int64), rows)]
        vectors = pinned.format_version() > 2
        return self._java.marked(
            tasks, to_bytes(np.concatenate(numbers)), pinned.table, vectors, *pinned.task_arguments()
        )

    def replaced(self, tasks: Any, at: Int64, others: Any) -> Any:
        """Return a list of tasks with others at these positions."""
        return self._java.replaced(tasks, to_bytes(at), others)

    def of(self, tasks: Any) -> Any:
        """Return the delete files of all tasks, a java.util.List."""
        return self._java.deletes(tasks)

    def add(self, change: Any, deletes: Any) -> None:
        """Add delete files to a Java RewriteFiles."""
        self._java.add(change, deletes)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads lists of scan tasks with their deletes; satisfies `kernel.rebase.Reader`.

    Attributes:
        stack: Closed when the frames are no longer needed.
    """

    files: Staged
    stack: ExitStack
    table: str

    @property
    def session(self) -> SparkSession:
        return self.files.jvm.session

    def select(self, files: Any, at: Int64) -> Any:
        return self.files.jvm.content.select(files, at)

    def names(self, files: Any) -> pa.Array:
        content = self.files.jvm.content
        return content.paths(content.files(files))

    def pinned(self, files: Any) -> DataFrame:
        return self.files.with_positions(self.stack, files)

    def written(self, files: Any) -> DataFrame:
        return self.files.with_positions(self.stack, files)


class Rebase(rebase.Rebase):
    """The deletes of the pinned files and of the new files of one rewrite, all of them lists of scan tasks."""

    def __init__(self, pinned: Staged, work: PlannedTable, notify: Notify, behind: Iterable[str]) -> None:
        """Store what the rewrite has read. notify, behind: see `kernel.rebase.Rebase`."""
        super().__init__(pinned.jvm.session, pinned.tasks, work, notify, FAILURES, behind)
        self._pinned = pinned
        self._planned: tuple[int, Any] | None = None  # the newest snapshot that was planned, and its tasks

    @cached_property
    def _deletes(self) -> DeleteFiles:
        return DeleteFiles(self._pinned)

    @property
    def _jvm(self) -> IcebergJvm:
        return self._pinned.jvm

    def snapshot(self, some: Sequence[Rewritten]) -> int:
        """Return the snapshot from which the commit of these groups is validated. They were rebased together."""
        known = self._versions.get(some[0].group.id)
        return self._work.version if known is None else known.snapshot

    def removed(self, groups: Sequence[Group]) -> Any:
        """Return the scan tasks of the groups' pinned files in that snapshot, a java.util.List."""
        return self._jvm.content.select(self._old, self._pinned.positions_of(groups))

    def require_deletes(self, some: Sequence[Rewritten], io: Any) -> None:
        """Check that the delete files of new files are on storage.

        Args:
            some: The groups with their new files as they are to be committed.
            io: A Java FileIO.

        Raises:
            EngineError: ZL316.
        """
        marked, content = self._marked_files(some), self._jvm.content
        if len(marked):
            deletes = self._deletes.of(marked)
            paths = content.paths(deletes)
            require_sizes(paths, content.numbers(deletes, "bytes"), content.stored(paths, io))

    def add_deletes(self, change: Any, some: Sequence[Rewritten]) -> None:
        """Add the delete files of new files to a Java RewriteFiles. some: as for `require_deletes`."""
        marked = self._marked_files(some)
        if len(marked):
            self._deletes.add(change, self._deletes.of(marked))

    def _marked_files(self, some: Sequence[Rewritten]) -> Any:
        """Return the scan tasks of the new files that have deletes, a list."""
        at = [n for each in some for n in each.added.at.tolist() if n in self._deleted]
        return self._jvm.content.select(self._new, np.array(at, np.int64)) if at else []

    def _is_possible(self) -> bool:
        return self._pinned.format_version() > 1 and not JavaClasses(self._session.sparkContext).missing(_CALLS)

    def _newest(self) -> Version | None:
        table = self._jvm.load(self._work.table)
        snapshot = head(table, self._work.table)
        return None if snapshot is None else Version(table, int(snapshot.snapshotId()))

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        with ExitStack() as stack:
            yield Reader(self._pinned, stack, str(self._work.table))

    def _deleted_rows(self, now: Version | None, some: Sequence[Rewritten]) -> Deleted | None:
        content, groups = self._jvm.content, [each.group for each in some]
        if now is None or not self._pinned.has_definition_of(now.table):
            return None
        newest = now.table.snapshot(now.snapshot)
        if self._pinned.lacks_row_ids_of(newest):
            return None
        if not is_ancestor(self._jvm, now.table, newest, self.snapshot(some)):
            return None  # the branch was moved backwards
        at = self._positions(groups)
        before, after = content.select(self._old, at), content.select(self._tasks(now), at)
        # Files that are gone stay a conflict: Iceberg refuses a rewrite that adds more rows than it removes.
        if content.missing(after) or not content.same_sequence_numbers(before, after):
            return None
        changed = np.flatnonzero(~content.same_deletes(before, after))
        if not len(changed):
            return None
        before, after = content.select(before, changed), content.select(after, changed)
        rows = self._deletes.newly_deleted(before, after, now.table, rebase.MAX_ROWS)
        if rows is None:
            return None
        owner = np.repeat(np.arange(len(some)), [len(group.files) for group in groups])
        removed = np.zeros(len(changed), np.bool_)
        return Deleted(before, after, removed, at[changed], owner[changed], rows)

    def _positions(self, groups: Sequence[Group]) -> Int64:
        return self._pinned.positions_of(groups)

    def _tasks(self, now: Version) -> Any:
        """Return the scan tasks of all pinned files in a version, null for a file that it does not have."""
        if self._planned is None or self._planned[0] != now.snapshot:  # several sets of groups may be in conflict
            self._planned = now.snapshot, tasks_of(self._jvm, now.table, now.snapshot, self._pinned.path)
        return self._planned[1]

    def _written(self, handles: Any) -> Any:
        return self._pinned.new_tasks(handles)

    def _marked(self, files: Any, copies: Located) -> Any:
        nothing = np.zeros(0, np.int64)
        positions = [
            np.union1d(self._deleted.get(at, nothing), rows)
            for at, rows in zip(copies.at.tolist(), copies.positions, strict=True)
        ]
        return self._deletes.marked(files, positions)

    def _newly_deleted(self, before: Any, after: Any) -> Sequence[Int64] | None:
        return self._deletes.newly_deleted(before, after, self._pinned.table, rebase.MAX_ROWS)

    def _replaced(self, files: Any, at: Int64, others: Any) -> Any:
        return self._deletes.replaced(files, at, others)

    def _to_commit(self, added: NewFiles) -> NewFiles:
        return added
