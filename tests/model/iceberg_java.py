"""Stand-ins for the Java objects of an Iceberg table that a rewrite talks to: table, transaction, rewrite, session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from model.delta_log import ANSWER_LOST, COMMIT_FAULTS, KILLED_AFTER, REQUEST_LOST, SELF_CONFLICT
from model.iceberg_catalog import (
    Change,
    DataFile,
    DeleteFile,
    IcebergTable,
    Metadata,
    Snapshot,
    invalid,
    overtaken,
    state_unknown,
)
from model.java import Seq, no_answer
from model.rebases import OTHER_ROW
from model.rows import Row
from model.schedule import Killed, Violation, learned, step
from model.spark_job import VACUUM

from zlayout.spec.model import TableName


@dataclass(frozen=True, slots=True)
class Task:
    """A scan task: a data file of a snapshot, with the deletes that apply to it and its live rows."""

    data: DataFile
    applied: tuple[DeleteFile, ...]
    live: tuple[Row, ...]
    positions: tuple[int, ...] = ()

    @classmethod
    def of_new(cls, file: DataFile, deletes: tuple[DeleteFile, ...] = ()) -> Task:
        """A task of a file that no snapshot has."""
        gone = frozenset[int]().union(*(delete.positions for delete in deletes))
        kept = tuple(at for at in range(len(file.rows)) if at not in gone)
        return cls(file, deletes, tuple(file.rows[at] for at in kept), kept)


class Content:
    """The methods of `zlayout.formats.iceberg.write.jvm.ContentFiles` that a rewrite uses."""

    def missing(self, tasks: Sequence[Task | None]) -> int:
        return tasks.count(None)

    def files(self, tasks: Iterable[Task]) -> Seq:
        return Seq(task.data for task in tasks)

    def same_deletes(self, before: Iterable[Task | None], after: Iterable[Task | None]) -> Any:
        pairs = zip(before, after, strict=True)
        return np.array([bool(old and task) and old.applied == task.applied for old, task in pairs], np.bool_)

    def same_sequence_numbers(self, before: Iterable[Task], after: Iterable[Task]) -> bool:
        return [task.data.sequence for task in before] == [task.data.sequence for task in after]

    def numbers(self, files: Sequence[DeleteFile], field: str) -> Any:  # noqa: ARG002
        return np.ones(len(files), np.int64)

    def have_only_vectors(self, tasks: Iterable[Task]) -> bool:
        return all(delete.vector for task in tasks for delete in task.applied)

    def select(self, items: Sequence[Any], at: Iterable[int]) -> Seq:
        return Seq(items[n] for n in at)

    def paths(self, files: Iterable[DataFile]) -> pa.Array:
        return pa.array([file.name for file in files], pa.string())

    def newest_equality_delete(self, deletes: Iterable[DeleteFile]) -> int:
        return max((delete.sequence for delete in deletes if not delete.target), default=0)

    def is_file_scoped(self, delete: DeleteFile) -> bool:
        return bool(delete.target)

    def replace(self, change: Rewrite, removed: Iterable[Task], added: Iterable[DataFile], *, deletes: bool) -> None:
        for task in removed:
            change.deleteFile(task.data)
        scoped = (d for task in removed for d in task.applied if deletes and self.is_file_scoped(d))
        for delete in dict.fromkeys(scoped):
            change.deleteFile(delete)
        for file in added:
            change.addFile(file)

    def stored(self, paths: pa.Array, io: Loaded) -> Any:
        return np.array([1 if path in io.table.storage else -1 for path in paths.to_pylist()], np.int64)


class Deletes:
    """Stands in for `zlayout.formats.iceberg.write.commit.DeleteFiles`."""

    def __init__(self, pinned: Any) -> None:
        self._client: StandIn = pinned.jvm

    def newly_deleted(
        self,
        before: Iterable[Task],
        after: Iterable[Task],
        table: object,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> list[Any] | None:
        found = []
        for old, task in zip(before, after, strict=True):
            equality = [{d for d in of.applied if not d.target} for of in (old, task)]
            known, gone = (frozenset[int]().union(*(d.positions for d in of.applied)) for of in (old, task))
            if equality[0] != equality[1] or known - gone or not any(d.target for d in task.applied):
                return None
            found.append(np.array(sorted(gone - known), np.int64))
        return found if sum(map(len, found)) else None

    def marked(self, tasks: Iterable[Task], positions: Iterable[Any]) -> Seq:
        """A fault of the JVM marks other rows, or a removal of orphans without retention removes the files at once."""
        table = self._client.table
        fault = step("mark", (OTHER_ROW, VACUUM) if table.jobs_fail else (), visible=False)
        found = []
        for task, rows in zip(tasks, positions, strict=True):
            gone = set(rows.tolist())
            left = sorted(set(range(len(task.data.rows))) - gone)
            if fault == OTHER_ROW and left:
                gone = {*sorted(gone)[1:], left[0]}
            self._client.written += 1
            name = f"{self._client.name}-{self._client.written}-deletes"
            if fault != VACUUM:
                table.write([name])
            delete = DeleteFile(name, task.data.name, frozenset(gone), vector=table.lineage)
            found.append(Task.of_new(task.data, (delete,)))
        return Seq(found)

    def replaced(self, tasks: Iterable[Task], at: Iterable[int], others: Iterable[Task]) -> Seq:
        changed = dict(zip(at, others, strict=True))
        return Seq(changed.get(number, task) for number, task in enumerate(tasks))

    def of(self, tasks: Iterable[Task]) -> Seq:
        return Seq(delete for task in tasks for delete in task.applied)

    def add(self, change: Rewrite, deletes: Iterable[DeleteFile]) -> None:
        for delete in deletes:
            change.addFile(delete)


def send(commit: Callable[[], None]) -> None:
    """The request of a commit, and whatever a fault makes of it."""
    fault = step("commit", COMMIT_FAULTS, reads=False)
    if fault == REQUEST_LOST:
        raise no_answer()
    commit()
    learned("committed")
    if fault == ANSWER_LOST:
        raise state_unknown()
    if fault == SELF_CONFLICT:
        raise invalid("its own files are missing")
    if fault == KILLED_AFTER:
        raise Killed


class Loaded:
    """An Iceberg table as one client has loaded it; also its operations and its file IO."""

    def __init__(self, table: IcebergTable, base: Metadata, client: StandIn) -> None:
        self.table, self.base, self.client = table, base, client

    def currentSnapshot(self) -> Snapshot | None:
        return self.snapshot(self.table.fork) if self.table.branch else self.base.current

    def snapshot(self, of: int | str) -> Snapshot | None:
        if isinstance(of, str):
            return self.base.current if of in self.refs() else None
        return next((s for s in self.base.history if s.number == of), None)

    def refs(self) -> dict[str, Any]:
        exists = self.table.branch and not self.table.dropped
        return {self.table.branch: SimpleNamespace(isBranch=lambda: True)} if exists else {}

    def operations(self) -> Any:
        return SimpleNamespace(current=lambda: self.base, commit=self._swap)

    def _swap(self, base: Metadata, wanted: Metadata) -> None:
        def swap() -> None:
            if self.table.current is not base or self.table.dropped:
                raise overtaken()
            self.table.current = wanted.committed()

        send(swap)

    def spec(self) -> Any:
        return SimpleNamespace(specId=lambda: 0)

    def specs(self) -> Any:
        return SimpleNamespace(size=lambda: 1)

    def newTransaction(self) -> Transaction:
        return Transaction(self)

    def io(self) -> Loaded:
        return self


class Transaction:
    """BaseTransaction: a rewrite and an update of properties, sent as one."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded, self._now = loaded, loaded.base
        loaded.client.changes += 1
        self.branch = ""
        self.change = Change(loaded.table.number(loaded.client.name, loaded.client.changes))

    def newRewrite(self) -> Rewrite:
        return Rewrite(self)

    def updateProperties(self) -> Update:
        return Update(self)

    def table(self) -> Loaded:
        return Loaded(self._loaded.table, self._now, self._loaded.client)

    def apply(self) -> None:
        """Validate against what was loaded, and show the result."""
        if self.branch != self._loaded.table.branch:
            raise Violation("another branch changed", f"{self.branch or 'main'} instead of {self._loaded.table.branch}")
        self.change.validate(self._loaded.base)
        self._now = self._loaded.table.prepared(self._loaded.base, self.change)

    def commitTransaction(self) -> None:
        """As Iceberg does, apply the changes again to newer metadata, and create a branch that does not exist."""

        def commit() -> None:
            table = self._loaded.table
            if table.dropped:
                raise Violation("branch created again", f"{table.branch} was dropped")
            table.commit(self.change)

        send(commit)


class Rewrite:
    """RewriteFiles."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.change = transaction.change

    def validateFromSnapshot(self, number: int) -> Rewrite:
        self.change.start = number
        return self

    def toBranch(self, name: str) -> Rewrite:
        self._transaction.branch = name
        return self

    def dataSequenceNumber(self, sequence: int) -> Rewrite:
        self.change.data_sequence = sequence
        return self

    def deleteFile(self, file: DataFile | DeleteFile) -> None:
        if isinstance(file, DataFile):
            self.change.removed.append(file)
        else:
            self.change.removed_deletes.append(file)

    def addFile(self, file: DataFile | DeleteFile) -> None:
        if isinstance(file, DataFile):
            self.change.added.append(file)
        else:
            self.change.added_deletes.append(file)

    def set(self, key: str, value: str) -> None:
        self.change.summary[key] = value

    def commit(self) -> None:
        self._transaction.apply()


class Update:
    """UpdateProperties."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def set(self, key: str, value: str) -> Update:
        self._transaction.change.properties[key] = value
        return self

    def commit(self) -> None:
        pass


def to_json(base: Metadata) -> str:
    """As `TableMetadataParser.toJson`, as far as it is read."""
    return json.dumps({"snapshots": [{"snapshot-id": s.number, "summary": dict(s.properties)} for s in base.history]})


METADATA = SimpleNamespace(toJson=to_json)


class StandIn:
    """The methods of `zlayout.formats.iceberg.write.jvm.IcebergJvm` that a rewrite uses."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.table: IcebergTable = session.table
        self.name: str = session.name
        self.changes = self.written = 0
        self.iceberg = SimpleNamespace(TableMetadataParser=METADATA)
        self.content = Content()

    def load(self, name: TableName) -> Loaded:  # noqa: ARG002
        step("load")
        return Loaded(self.table, self.table.current, self)
