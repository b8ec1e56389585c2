"""A Delta table: files with deletion vectors, a log of versions, and transactions that check for conflicts.

After `ConflictChecker.scala` of Delta 4.4: a commit is put at the next version if absent, after it was checked against
every version since the transaction's snapshot. Checks go by path, the log's replay by path and deletion vector. New
files get base row ids and commit versions in the commit, on top of whatever won. The clustering columns are domain
metadata, which no check looks at; only the table feature that comes with the first of them can be a conflict.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from model.delta_actions import AddFile, Clustering, Key, RemoveFile
from model.java import JavaError, Seq, no_answer
from model.rows import EMPTY, NOTHING, Effect, Expected, Row, renamed
from model.schedule import Intern, Killed, Violation, learned, step

from zlayout.formats.delta.read.history import RUN
from zlayout.formats.delta.read.log import GROUP, ZCUBE_ID

_CONCURRENT = "java.util.ConcurrentModificationException"
ANSWER_LOST, REQUEST_LOST = "done, but the answer is lost", "the request is lost"
SELF_CONFLICT, KILLED_AFTER = "done, then said to conflict", "killed after it was done"
COMMIT_FAULTS = (ANSWER_LOST, REQUEST_LOST, SELF_CONFLICT, KILLED_AFTER)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version and what is true of it.

    owned: only the catalog of the table makes commits from here on. clustering: the clustering columns, None for a
    table without the feature.
    """

    number: int
    log_id: int
    files: Mapping[Key, AddFile]
    next_row_id: int
    expected: Expected
    owned: bool = False
    clustering: tuple[str, ...] | None = None

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
    """One commit. staged: below _staged_commits, not published. upgrades: adds the feature clustering."""

    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]
    tags: Mapping[str, str]
    blind_append: bool
    owned: bool = False
    staged: bool = False
    upgrades: bool = False
    clusters: bool = False


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

    def published(self) -> Snapshot:
        """What the log alone shows."""
        return next(s for s, v in zip(self.snapshots[::-1], self.log[::-1], strict=True) if not v.staged)

    def hand_over(self) -> None:
        """Commit that the catalog owns all later commits, which the log does not have until they are published."""
        self._keep(replace(self.current, number=self.current.number + 1, owned=True), "owned")
        self.log.append(Version((), (), {}, blind_append=False, owned=True))

    def publish(self) -> None:
        """Copy the staged commits to the log."""
        self.log = [replace(version, staged=False) for version in self.log]
        self._keep(self.snapshots.pop(), "published")

    def _keep(self, after: Snapshot, what: str) -> None:
        log_id = self._intern.setdefault((after.log_id, what), len(self._intern) + 1)
        self._known[log_id] = replace(after, log_id=log_id)
        self.snapshots.append(self._known[log_id])

    def put(
        self, actions: Iterable[Any], tags: Mapping[str, str], effect: Effect = NOTHING, *, staged: bool = False
    ) -> int:
        """Commit without any check. Raises Violation when the table is then not as it must be.

        staged: the catalog ratifies the commit, which is not published.
        """
        before, number = self.current, self.current.number + 1
        if before.owned != staged:
            raise Violation("catalog overridden", f"version {number} of the log, which the catalog gives to others")
        removes = tuple(action for action in actions if isinstance(action, RemoveFile))
        adds = tuple(action for action in actions if isinstance(action, AddFile))
        domains = tuple(action for action in actions if isinstance(action, Clustering))
        if RUN in tags and not self.lineage and any(add.deleted for add in adds):
            adds = _renamed(before, adds, removes)
        if domains and RUN in tags:
            raise Violation("domain metadata changed", f"by a rewrite: {domains}")
        commit = (before.log_id, tuple(map(_content, adds)), removes, tags.get(RUN), effect.content(), domains)
        log_id = self._intern.setdefault(commit, len(self._intern) + 1)
        if log_id not in self._known:
            after = self._after(before, log_id, adds, removes, effect)
            self._known[log_id] = replace(after, clustering=domains[-1].columns) if domains else after
        self.snapshots.append(self._known[log_id])
        upgrades, clusters = bool(domains) and before.clustering is None, bool(domains)
        blind_append = not removes
        self.log.append(Version(adds, removes, tags, blind_append, False, staged, upgrades, clusters))
        return number

    def _after(
        self, before: Snapshot, log_id: int, adds: Iterable[AddFile], removes: Iterable[RemoveFile], effect: Effect
    ) -> Snapshot:
        number, next_row_id, files = before.number + 1, before.next_row_id, dict(before.files)
        for remove in removes:
            files.pop(remove.key, None)
        kept = {file.name: file for file in before.files.values()}
        for add in adds:
            _require_marks(kept.get(add.name), add)
            if add.base_row_id is None:
                add = replace(add, base_row_id=next_row_id, commit_version=number)
                next_row_id += len(add.rows)
            files[add.key] = add
        after = replace(before, number=number, log_id=log_id, files=files, next_row_id=next_row_id)
        rows = after.rows(lineage=self.lineage)
        expected = before.expected.after(effect, rows)
        expected.check(rows)
        return replace(after, expected=expected)


def _renamed(before: Snapshot, adds: Sequence[AddFile], removes: Iterable[RemoveFile]) -> tuple[AddFile, ...]:
    """See `rows.renamed`."""
    gone = {remove.key for remove in removes}
    elsewhere = {row.uid for key, file in before.files.items() if key not in gone for row in file.live(lineage=False)}
    live = [(n, at) for n, add in enumerate(adds) for at in add.positions]
    rows = renamed(before.expected, elsewhere, [add.rows for add in adds], live)
    return tuple(replace(add, rows=new) for add, new in zip(adds, rows, strict=True))


def _require_marks(before: AddFile | None, after: AddFile) -> None:
    """Raise Violation if a file that stays live loses marks, or a new file of zlayout has those of OPTIMIZE."""
    if before is None:
        if GROUP in after.tags and (after.clusteringProvider or ZCUBE_ID in after.tags):
            raise Violation("false marks", f"{after.name} was not clustered by OPTIMIZE")
    elif (lost := before.tags.items() - after.tags.items()) or before.clusteringProvider != after.clusteringProvider:
        raise Violation("marks lost", f"{before.name}: {lost or before.clusteringProvider}")


def _content(file: AddFile) -> Hashable:
    marks = tuple(file.tags.items()), file.clusteringProvider
    return file.name, file.rows, file.deleted, file.base_row_id, *marks


class Transaction:
    """OptimisticTransaction.

    enforced: whether it conflicts with a table feature that is added. looked: the newest snapshot that its process has
    read directly before the commit, None if it has not.
    """

    def __init__(self, table: DeltaTable, snapshot: Snapshot) -> None:
        self._table, self._snapshot = table, snapshot
        self.read: set[str] = set()
        self.enforced = False
        self.looked: Snapshot | None = None

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
        self._require_clustering()
        version = self._table.put(actions, tags)
        learned(version)
        if fault == ANSWER_LOST:
            raise no_answer()
        if fault == SELF_CONFLICT:
            raise _conflict("ConcurrentDeleteDeleteException", "its own files")
        if fault == KILLED_AFTER:
            raise Killed
        return version

    def _require_clustering(self) -> None:
        """Raise Violation for a commit to a table that was clustered when the process looked for the last time."""
        seen, between = self.looked or self._table.current, self._table.log[self._snapshot.number + 1 :]
        if seen.clustering or any(version.upgrades for version in between):
            raise Violation("rewritten though clustered", f"by {seen.clustering}")

    def require_no_conflict(self, actions: Sequence[Any]) -> None:
        gone = self.read | {action.name for action in actions if isinstance(action, RemoveFile)}
        changes_data = any(action.dataChange for action in actions)
        reads, clusters = bool(self.read), any(isinstance(action, Clustering) for action in actions)
        for version in self._table.log[self._snapshot.number + 1 :]:
            if version.owned:
                raise _conflict("ProtocolChangedException", "the catalog owns the commits now")
            if version.upgrades and self.enforced:
                raise _conflict("ProtocolChangedException", "the table has the feature clustering now")
            if clusters and version.clusters:
                raise _conflict("ConcurrentTransactionException", "the same domain metadata")
            if any(remove.name in gone for remove in version.removes):
                raise _conflict("ConcurrentDeleteReadException", "a file that was read is gone")
            added = not version.blind_append and any(add.dataChange for add in version.adds)
            if changes_data and reads and added:
                raise _conflict("ConcurrentAppendException", "rows that should have been read")


def _conflict(name: str, message: str) -> JavaError:
    learned(name)
    return JavaError(f"org.apache.spark.sql.delta.{name}", _CONCURRENT, message=message)
