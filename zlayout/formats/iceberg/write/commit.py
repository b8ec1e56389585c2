"""Engine `zlayout` on Iceberg: rewrites all groups in one Spark job and commits them in one Iceberg transaction.

The transaction replaces the pinned files and sets the table property `zlayout.state`. Iceberg validates it against all
commits since the pinned snapshot: a concurrent append is kept, a concurrent delete or rewrite of the same files is a
conflict. After a conflict, the groups are divided among several commits, so that only those in conflict are dropped.

Groups are rebased onto position deletes and deletion vectors of other writers (`Rebase`; see
`zlayout.formats.kernel.rebase`). The new delete files get the data sequence number of the commit. Position deletes
apply to files with the same or an older number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from zlayout.errors import CommitConflict, Diagnostic, EngineError
from zlayout.formats.base import Commit, Event, Group, Notice, Notify, PlannedTable, Progress, Stage
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.history import commits_to, run_commits
from zlayout.formats.iceberg.read.outside import deletes_former_files, require_own_former_files
from zlayout.formats.iceberg.read.schema import argument, column_bounds, iceberg_name, transform_name
from zlayout.formats.iceberg.write.jvm import (
    FAILURES,
    MAX_ATTEMPTS,
    IcebergJvm,
    Prepared,
    Swap,
    calls_of,
    commit_prepared,
    java_errors,
    keeps_sequence_number,
)
from zlayout.formats.iceberg.write.settings import current_fields, dead_snapshots, known_state
from zlayout.formats.iceberg.write.staging import Staged, head, is_ancestor, staged, still_live, tasks_of, to_branch
from zlayout.formats.kernel import rebase
from zlayout.formats.kernel.commits import (
    Measurement,
    NewFiles,
    Rewritten,
    baseline_of,
    commit_apart,
    file_table,
    new_files,
    require_paths,
    require_sizes,
    rewrite_commit,
)
from zlayout.formats.kernel.rebase import Deleted, Located
from zlayout.formats.kernel.requirements import partitions_of
from zlayout.formats.undo import MAX_CONCURRENT_REQUESTS
from zlayout.planner.selection import property_of, stored
from zlayout.rewrite.engine import place, rewrite_conf
from zlayout.rewrite.gate import require_rows
from zlayout.rewrite.rows import GroupTarget, Source, key_column
from zlayout.spark.arrow import from_bytes, to_arrow, to_bytes
from zlayout.spark.jvm import JavaClasses, java_object
from zlayout.spec.model import CatalogConfig
from zlayout.table.state import FileTable, Int64, Partition
from zlayout.text import quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The bounds of new files, for baselines and metrics, from their Java objects.


def written_files(pinned: Staged, group: Group, files: NewFiles) -> FileTable | None:
    """Return the new files of one group with the bounds of the z-order columns.

    If the group has files of an older partition spec, the values of its new partitions are JSON strings.

    Returns:
        The files; None if the Java objects cannot be read. A rewrite must not fail because of its metrics.
    """
    content, types = pinned.jvm.content, {name: bounds.lower.type for name, bounds in group.files.bounds.items()}
    try:
        with java_errors(f"reading the bounds of new files of {pinned.table.name()}"):
            schema, handles = pinned.table.schema(), pinned.handles_of(files)
            ids = {name: int(schema.findField(iceberg_name(name)).fieldId()) for name in types}
            bounds = {
                name: column_bounds(
                    content.bounds(handles, ids[name], upper=False),
                    content.bounds(handles, ids[name], upper=True),
                    content.null_counts(handles, ids[name]),
                    type_,
                    frozenset(),
                )
                for name, type_ in types.items()
            }
            owners, partitions = _partitions(pinned, group, handles)
    except (EngineError, ValueError, TypeError, KeyError, AttributeError, pa.ArrowException):
        return None
    return file_table(files, owners, partitions, bounds)


def _partitions(pinned: Staged, group: Group, handles: Any) -> tuple[Int64, tuple[Partition, ...]]:
    """Return the partition of each new file as an index, and the partitions. handles: the Java DataFiles."""
    before, spec = partitions_of([group]), pinned.table.spec()
    spec_id = int(spec.specId())
    if len(before) == 1 and before[0].spec_id == spec_id:
        return np.zeros(len(handles), np.int64), (before[0],)
    documents = map(json.loads, pinned.jvm.content.documents(handles, spec))
    texts = pa.array([json.dumps(document.get("partition"), sort_keys=True) for document in documents], pa.string())
    numbers = texts.dictionary_encode()
    found = tuple(Partition(spec_id, (), (text,)) for text in numbers.dictionary.to_pylist())
    return np.asarray(numbers.indices, np.int64), found


# The rewrite and its commits.


PAUSE_SECONDS = 0.5  # the mean pause between two attempts of a compare-and-set


def rewrite(
    jvm: IcebergJvm, catalog: CatalogConfig, work: PlannedTable, notify: Notify, files: FileTable
) -> Iterator[Event]:
    """Rewrite the groups of the work and commit them. Groups that have changed since the plan are dropped.

    files: the live files at the work's version with the bounds of the z-order columns, for metrics.

    Raises:
        Refused: ZL228. No data file was written.
        EngineError: If the rewrite failed. Nothing was committed.
        CommitUnknown: ZL331.
    """
    table = jvm.load(work.table)
    groups, behind, dropped = still_live(jvm, table, work)
    yield from dropped
    if not groups:
        return
    kept = {group.id for group in groups}
    work = work.with_rewrites(rewrite for rewrite in work.plan.groups if rewrite.id in kept)
    work = replace(work, completes=work.completes and not dropped)
    measurement = Measurement(files, work)
    with staged(jvm, table, work) as pinned:
        notify(Progress(str(work.table), Stage.REWRITING))
        rewritten, notes = write_groups(pinned, work)
        work.predictions()  # wait for the sample here, because a commit should be short and is not interrupted
        notify(Progress(str(work.table), Stage.COMMITTING))
        yield from map(Notice, notes)
        committer = Committer(pinned, catalog, work, measurement, notify, behind)
        for outcome in commit_apart(rewritten, committer.commit):
            yield from map(Notice, committer.notes())
            yield outcome


def write_groups(pinned: Staged, work: PlannedTable) -> tuple[list[Rewritten], tuple[Diagnostic, ...]]:
    """Place and write the rows of all groups in one Spark job and check the gate, without a commit.

    Returns:
        The groups with their new files, and notes for the user.
    """
    groups = work.groups
    with java_errors(f"rewriting {work.table}"), rewrite_conf(pinned.jvm.session):
        frame = pinned.frame
        deletes = any(bool(group.files.deleted.any()) for group in groups)
        partition = _output_partition(pinned, work)
        source = Source(frame, F.col("_file"), F.col("_pos"), partition, str(work.table), deletes)
        targets = _targets(pinned, groups, work.layout.target_size)
        placed = place(source, work.layout, targets)
        pinned.write(placed.frame)
        placed.gate.check()
        numbers, new = pinned.new_files()
        files = new.split(placed.group_of.astype(np.int64)[numbers], len(groups))
        counts = {t.id: (t.rows, int(added.rows.sum())) for t, added in zip(targets, files, strict=True)}
        require_rows(counts, str(work.table), has_deletes=deletes)
        if work.verify == "full":
            with pinned.written(new) as written:
                placed.gate.verify(written)
    rewritten = [
        Rewritten(group, added, written=written_files(pinned, group, added))
        for group, added in zip(groups, files, strict=True)
    ]
    return rewritten, placed.notes(work.table)


class Committer:
    """Commits groups whose new files were written from one staged snapshot, all of them or some."""

    def __init__(
        self,
        pinned: Staged,
        catalog: CatalogConfig,
        work: PlannedTable,
        measurement: Measurement,
        notify: Notify = lambda _: None,
        behind: Iterable[str] = (),
    ) -> None:
        """Find the dead snapshots in the layout records. measurement: measures the commits. behind: see `Rebase`."""
        self._pinned = pinned
        self._catalog = catalog
        self._work = work
        self._measurement = measurement
        self._rebase = Rebase(pinned, work, notify, behind)
        self._committed = 0
        self._dead = dead_snapshots(pinned.jvm, catalog, work.table, pinned.table)

    def notes(self) -> list[Diagnostic]:
        """Return why groups were not rebased: see `Rebase.notes`."""
        return self._rebase.notes()

    def commit(self, some: Sequence[Rewritten]) -> Commit:
        """Make one commit. After a conflict with position deletes of other writers, rebase the groups and try again.

        A compare-and-set is prepared again if another commit was made at the same time.

        Raises:
            CommitConflict: ZL320, ZL321; BusyTable if other commits were made during each attempt of a compare-and-set.
            EngineError: ZL305, ZL310, ZL314, ZL316.
            CommitUnknown: ZL331.
        """
        return self._rebase.until_committed(some, self._commit)

    def _commit(self, some: Sequence[Rewritten]) -> Commit:
        rebased, start = self._rebase.rows(some), self._rebase.snapshot(some)
        some = self._rebase.added(some)

        def prepare() -> Prepared[Commit]:
            change, snapshot = self.prepare(some, start)
            return change.commitTransaction, rewrite_commit(snapshot, some)

        doing = f"committing run {self._work.run_id} to {self._work.table}"
        attempts = MAX_ATTEMPTS if self._swaps(some, start) else 1  # Iceberg itself applies other commits again
        commit = commit_prepared(doing, prepare, lambda _: self.finished(some), attempts=attempts, pause=PAUSE_SECONDS)
        self._committed += len(some)
        self._measurement.committed(some)
        return replace(commit, rebased=rebased)

    def _keeps_number(self, some: Sequence[Rewritten]) -> bool:
        spec_id = int(self._pinned.table.spec().specId())
        return keeps_sequence_number(self._pinned.snapshot, partitions_of([each.group for each in some]), spec_id)

    def _swaps(self, some: Sequence[Rewritten], start: int) -> bool:
        """Return whether a commit is a compare-and-set, because it needs checks that Iceberg does not repeat."""
        return start != self._work.version or self._keeps_number(some) or bool(self._work.table.branch)

    def prepare(self, some: Sequence[Rewritten], start: int) -> tuple[Any, int]:
        """Return a transaction to be committed (a Swap for a compare-and-set) and the id of its snapshot.

        Args:
            some: The groups with their new files as they are to be committed.
            start: The snapshot from which Iceberg validates the commit.

        Raises:
            CommitConflict: ZL320, ZL321.
            EngineError: ZL316.
            Refused: ZL242, if the commit would delete files outside of the table's location.
        """
        pinned, work, content = self._pinned, self._work, self._pinned.jvm.content
        groups, added = [each.group for each in some], new_files(some)
        swaps = self._swaps(some, start)
        new, old = pinned.handles_of(added), self._rebase.removed(groups)
        require_paths(work.table, some, content.paths(new), content.paths(content.files(old)))
        table = pinned.jvm.load(work.table)
        if swaps:  # check before the final read: a commit during the check would cost an attempt
            pinned.require_files(added, table.io())
            self._rebase.require_deletes(some, table.io())
            table = pinned.jvm.load(work.table)
        swap = Swap.of(table)  # reads the table once more; the checks are of what the swap compares
        if pinned.lacks_row_ids_of(head(table, work.table)):
            raise CommitConflict.of("ZL320", f"{work.table}: row ids were added since the plan", hint="plan again")
        if start != work.version and not pinned.has_definition_of(table):  # which the new delete files are written for
            raise CommitConflict.of(
                "ZL320", f"{work.table}: its definition was changed since the plan", hint="plan again"
            )
        self._require_own_former_files(swap.base)
        transaction = swap.transaction
        change = transaction.newRewrite().validateFromSnapshot(start)
        to_branch(change, table, work.table)
        keeps_number = self._keeps_number(some)
        if keeps_number:
            change.dataSequenceNumber(pinned.snapshot.sequenceNumber())
        content.replace(change, old, new, deletes=pinned.has_deletes or start != work.version)
        self._rebase.add_deletes(change, some)
        for key, value in work.spec.commit_properties.items():
            change.set(key, value)
        change.set(recorded.RUN, work.run_id)
        change.set(recorded.LAYOUT_ID, work.layout.layout_id)
        for key, value in self._measurement.properties(some).items():
            change.set(key, value)
        change.commit()
        made = head(transaction.table(), work.table)
        if keeps_number:
            self._require_equality_deletes(made, table.io())
        snapshot = int(made.snapshotId())
        state = known_state(pinned.jvm, swap.base)
        state = recorded.after(state, work.layout, [snapshot], self._dead, _baselines(snapshot, some, work))
        properties = transaction.updateProperties().set(recorded.PROPERTY, recorded.render(state))
        if pinned.table.specs().size() > 1:  # rows may move between partitions: see `zlayout.planner.selection`
            complete = self._committed + len(some) == len(work.plan.groups)
            value = stored(work.accepts if complete else "", snapshot)
            properties.set(property_of(work.table), value)
        properties.commit()
        if not swaps:
            pinned.require_files(added, table.io())
        return swap if swaps else transaction, snapshot

    def _require_equality_deletes(self, made: Any, io: Any) -> None:
        """Check that a commit (a Java snapshot) removes no equality delete that came after the pinned snapshot."""
        # Iceberg removes delete files that are older than all data files, but does not count those that the commit adds
        # (https://github.com/apache/iceberg/pull/10962). The rows of such a delete would be live again.
        newest = self._pinned.jvm.content.newest_equality_delete(made.removedDeleteFiles(io))
        if newest > int(self._pinned.snapshot.sequenceNumber()):
            message = f"{self._work.table}: Iceberg would remove an equality delete that other writers have just added"
            raise CommitConflict.of("ZL321", message, hint="plan again")

    def _require_own_former_files(self, base: Any) -> None:
        """See `read.outside.require_own_former_files`. base: the metadata that the commit replaces."""
        # Another writer may have changed it since the table was observed.
        if deletes_former_files(base.properties()):
            former = [entry.file() for entry in base.previousFiles()]
            permitted = self._catalog.file_locations(self._work.table)
            require_own_former_files(former, str(base.location()), self._work.table, permitted)

    def finished(self, some: Sequence[Rewritten]) -> Commit | None:
        """Read the table again. Return the commit of the run that completed these groups, None if there is none."""
        wanted = {each.group.id for each in some}
        commits = commits_to(self._work.groups, run_commits(self._catalog, self._work.table, self._work.run_id))
        return next((commit for commit in commits if wanted <= set(commit.groups)), None)


def _baselines(snapshot: int, some: Sequence[Rewritten], work: PlannedTable) -> recorded.Baselines:
    """Return the baselines of groups whose new files are in one partition with known values."""
    found = {}
    for each in some:
        baseline = baseline_of(each.written, work.layout)
        if each.written is not None and baseline is not None:
            found[snapshot, recorded.partition_digest(each.written.partitions[0])] = baseline
    return found


def _targets(pinned: Staged, groups: Sequence[Group], target_size: int) -> list[GroupTarget]:
    """If the planned deletes may be estimates, count the live rows. A group may then get more files than planned."""
    if pinned.exact_deletes():
        return [_target(g, int(g.files.live_rows.sum()), g.target_files) for g in groups]
    counted = to_arrow(pinned.frame.groupBy("_file").count())
    paths, rows = (counted[name].combine_chunks() for name in ("_file", "count"))
    targets = []
    for group in groups:
        at = pc.index_in(group.files.path.cast(pa.string()), value_set=paths)
        live = np.asarray(rows.take(at).fill_null(0), np.int64)
        files = replace(group.files, deleted=group.files.rows - live)
        wanted = max(group.target_files, files.target_files(target_size))
        targets.append(_target(group, int(live.sum()), wanted))
    return targets


def _target(group: Group, live: int, files: int) -> GroupTarget:
    return GroupTarget(group.id, group.files.path.cast(pa.string()), live, files)


def _output_partition(pinned: Staged, work: PlannedTable) -> tuple[Column, ...]:
    """Return a row's output partition values, none if each group has one: files of older specs may have several."""
    spec_id = int(pinned.table.spec().specId())
    if all(partition.spec_id == spec_id for partition in partitions_of(work.groups)):
        return ()
    functions = f"{quote_identifier(work.table.catalog)}.system"
    values = []
    for field in current_fields(pinned.jvm, pinned.table):
        column = key_column(field.source)
        name, width = transform_name(field), argument(field)
        if name == "identity":
            values.append(column)
        elif width is None:
            values.append(F.call_function(f"{functions}.{name}s", column))
        else:
            if name == "bucket" and _is_uuid(pinned.table, field.source):
                # a uuid is a string in Spark, and Iceberg hashes its 16 bytes
                column = F.unhex(F.replace(column, F.lit("-")))
            values.append(F.call_function(f"{functions}.{name}", F.lit(width), column))
    return tuple(values)


def _is_uuid(table: Any, column: str) -> bool:
    return str(table.schema().findType(iceberg_name(column))) == "uuid"


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
