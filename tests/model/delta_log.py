"""A Delta table: files with deletion vectors, a log of versions, and transactions that check for conflicts.

After `ConflictChecker.scala` of Delta 4.4: a commit is put at the next version if absent, after it was checked against
every version since the transaction's snapshot. Checks go by path, the log's replay by path and deletion vector. New
files get base row ids and commit versions in the commit, on top of whatever won.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from model.java import JavaError, Option, Seq, no_answer
from model.rows import EMPTY, NOTHING, Effect, Expected, Row
from model.schedule import Intern, Killed, Violation, learned, step

from zlayout.formats.delta.read.run_history import RUN

_CONCURRENT = "java.util.ConcurrentModificationException"
ANSWER_LOST, REQUEST_LOST = "done, but the answer is lost", "the request is lost"
SELF_CONFLICT, KILLED_AFTER = "done, then said to conflict", "killed after it was done"
COMMIT_FAULTS = (ANSWER_LOST, REQUEST_LOST, SELF_CONFLICT, KILLED_AFTER)
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AddFile:
    """The methods are those of Delta's action that the product calls; dataChange is its name in the log."""

    name: str
    rows: tuple[Row, ...]
    deleted: frozenset[int] = frozenset()
    base_row_id: int | None = None
    commit_version: int | None = None
    dataChange: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def vector(self) -> str:
        return "".join(map(str, sorted(self.deleted)))

    @property
    def key(self) -> Key:
        return self.name, self.vector

    def live(self, *, lineage: bool) -> tuple[Row, ...]:
        """The rows that are not deleted, with their row ids and commit versions where these are tracked."""
        kept = ((at, row) for at, row in enumerate(self.rows) if at not in self.deleted)
        if not lineage:
            return tuple(row for _, row in kept)
        base, version = self.base_row_id or 0, self.commit_version
        return tuple(
            row._replace(
                id=base + at if row.id is None else row.id, version=version if row.version is None else row.version
            )
            for at, row in kept
        )

    def path(self) -> str:
        return self.name

    def size(self) -> int:
        return len(self.rows)

    def getDeletionVectorUniqueId(self) -> Option:
        return Option(self.vector)

    def removeWithTimestamp(self, _timestamp: int, data_change: bool) -> RemoveFile:
        return RemoveFile(self.name, self.vector, data_change)


@dataclass(frozen=True, slots=True)
class RemoveFile:
    name: str
    vector: str
    dataChange: bool

    @property
    def key(self) -> Key:
        return self.name, self.vector


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version and what is true of it. owned: only the catalog of the table makes commits from here on."""

    number: int
    log_id: int
    files: Mapping[Key, AddFile]
    next_row_id: int
    expected: Expected
    owned: bool = False

    def version(self) -> int:
        return self.number

    def metadata(self) -> Snapshot:
        return self

    def id(self) -> str:
        return "model"

    def rows(self, *, lineage: bool) -> list[Row]:
        return [row for file in self.files.values() for row in file.live(lineage=lineage)]


@dataclass(frozen=True, slots=True)
class Version:
    """One commit in the log."""

    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]
    tags: Mapping[str, str]
    blind_append: bool
    owned: bool = False


class DeltaTable:
    """The log, and the files in storage. lineage: row tracking is on."""

    def __init__(self, intern: Intern, known: dict[int, Snapshot], *, lineage: bool) -> None:
        """known: snapshots by log id, which need not be computed and checked again."""
        self.lineage = lineage
        self.jobs_fail = False
        self.snapshots = [Snapshot(0, 0, {}, 0, EMPTY)]
        self.log: list[Version] = [Version((), (), {}, False)]
        self.storage: set[str] = set()
        self._intern, self._known = intern, known

    def copy(self) -> DeltaTable:
        """The same table, to go on with differently."""
        other = DeltaTable(self._intern, self._known, lineage=self.lineage)
        other.jobs_fail = self.jobs_fail
        other.snapshots, other.log, other.storage = list(self.snapshots), list(self.log), set(self.storage)
        return other

    @property
    def current(self) -> Snapshot:
        return self.snapshots[-1]

    @property
    def log_id(self) -> int:
        return self.current.log_id

    def hand_over(self) -> None:
        """Commit that the catalog owns all later commits, which the log does not have until they are published."""
        before = self.current
        commit = (before.log_id, "owned")
        log_id = self._intern.setdefault(commit, len(self._intern) + 1)
        self._known[log_id] = replace(before, number=before.number + 1, log_id=log_id, owned=True)
        self.snapshots.append(self._known[log_id])
        self.log.append(Version((), (), {}, blind_append=False, owned=True))

    def put(self, actions: Iterable[Any], tags: Mapping[str, str], effect: Effect = NOTHING) -> int:
        """Commit without any check. Raises Violation when the rows are then not those that they must be."""
        before, number = self.current, self.current.number + 1
        if before.owned:
            raise Violation("catalog overridden", f"version {number} of the log, which the catalog gives to others")
        removes = tuple(action for action in actions if isinstance(action, RemoveFile))
        adds = tuple(action for action in actions if isinstance(action, AddFile))
        commit = (before.log_id, tuple(map(_content, adds)), removes, tags.get(RUN), effect.content())
        log_id = self._intern.setdefault(commit, len(self._intern) + 1)
        if log_id not in self._known:
            self._known[log_id] = self._after(before, log_id, adds, removes, effect)
        self.snapshots.append(self._known[log_id])
        self.log.append(Version(adds, removes, tags, not removes))
        return number

    def _after(
        self, before: Snapshot, log_id: int, adds: Iterable[AddFile], removes: Iterable[RemoveFile], effect: Effect
    ) -> Snapshot:
        number, next_row_id, files = before.number + 1, before.next_row_id, dict(before.files)
        for remove in removes:
            files.pop(remove.key, None)
        for add in adds:
            if add.base_row_id is None:
                add = replace(add, base_row_id=next_row_id, commit_version=number)
                next_row_id += len(add.rows)
            files[add.key] = add
        after = Snapshot(number, log_id, files, next_row_id, before.expected)
        rows = after.rows(lineage=self.lineage)
        expected = before.expected.after(effect, rows)
        expected.check(rows)
        return replace(after, expected=expected)


def _content(file: AddFile) -> Hashable:
    return file.name, file.rows, file.deleted, file.base_row_id, tuple(file.tags.items())


class Transaction:
    """OptimisticTransaction. whole: it has read all files; data_changes: those of winners to conflict with."""

    def __init__(self, table: DeltaTable, snapshot: Snapshot) -> None:
        self._table, self._snapshot = table, snapshot
        self.read: set[str] = set()

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def trackFilesRead(self, files: Iterable[AddFile]) -> None:
        self.read |= {file.name for file in files}

    def trackReadPredicates(self, filters: Seq, partition_only: bool, rewrite: bool) -> None:
        """Of no effect: a commit that changes no data is not checked against appended files (SnapshotIsolation)."""

    def commit(self, actions: Sequence[Any], _operation: object, tags: Mapping[str, str]) -> int:
        """Raises a Java ConcurrentModificationException, or whatever a fault makes of it."""
        fault = step("commit", COMMIT_FAULTS, reads=False)
        if fault == REQUEST_LOST:
            raise JavaError("java.io.IOException")
        self.require_no_conflict(actions)
        version = self._table.put(actions, tags)
        learned(version)
        if fault == ANSWER_LOST:
            raise no_answer()
        if fault == SELF_CONFLICT:
            raise _conflict("ConcurrentDeleteDeleteException", "its own files")
        if fault == KILLED_AFTER:
            raise Killed
        return version

    def require_no_conflict(self, actions: Sequence[Any]) -> None:
        gone = self.read | {action.name for action in actions if isinstance(action, RemoveFile)}
        changes_data = any(action.dataChange for action in actions)
        reads = bool(self.read)
        for version in self._table.log[self._snapshot.number + 1 :]:
            if version.owned:
                raise _conflict("ProtocolChangedException", "the catalog owns the commits now")
            if any(remove.name in gone for remove in version.removes):
                raise _conflict("ConcurrentDeleteReadException", "a file that was read is gone")
            added = not version.blind_append and any(add.dataChange for add in version.adds)
            if changes_data and reads and added:
                raise _conflict("ConcurrentAppendException", "rows that should have been read")


def _conflict(name: str, message: str) -> JavaError:
    learned(name)
    return JavaError(f"org.apache.spark.sql.delta.{name}", _CONCURRENT, message=message)
