"""`IcebergBackend` over the model's catalog: its own `execute`, with a stand-in for the JVM and for the Spark job.

All that decides is the product's: which groups still stand, what is validated and from where, sequence numbers,
which delete files go, the state property, halves after a conflict, what an error means and what the table says of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from model import spark_job
from model.delta_log import ANSWER_LOST, COMMIT_FAULTS, KILLED_AFTER, REQUEST_LOST, SELF_CONFLICT
from model.iceberg_catalog import Change, DataFile, DeleteFile, IcebergTable, Metadata, Snapshot, invalid, state_unknown
from model.java import Seq, no_answer
from model.plans import COLUMNS, LAYOUT, NAME, state_of, work_of
from model.reports import RunCommit
from model.rows import Row
from model.schedule import OK, Killed, learned, step

from zlayout.backends.base import Work
from zlayout.backends.iceberg import backend as product
from zlayout.backends.iceberg import commit, history, jvm, manifests, scan, staging
from zlayout.backends.iceberg import state_property as recorded
from zlayout.backends.iceberg.record import known_state
from zlayout.spec.model import TableName
from zlayout.table.state import TableState


@dataclass(frozen=True, slots=True)
class Task:
    """A scan task: a data file of a snapshot, with the deletes that apply to it and its live rows."""

    data: DataFile
    applied: tuple[DeleteFile, ...]
    live: tuple[Row, ...]

    def file(self) -> DataFile:
        return self.data

    def deletes(self) -> tuple[DeleteFile, ...]:
        return self.applied


class Loaded:
    """An Iceberg table as one client has loaded it; also its operations and its file IO."""

    def __init__(self, table: IcebergTable, base: Metadata, client: StandIn) -> None:
        self.table, self.base, self.client = table, base, client

    def currentSnapshot(self) -> Snapshot:
        return self.base.current

    def snapshot(self, number: int) -> Snapshot | None:
        return next((s for s in self.base.history if s.number == number), None)

    def operations(self) -> Any:
        return SimpleNamespace(current=lambda: self.base)

    def newTransaction(self) -> Transaction:
        return Transaction(self)

    def io(self) -> Loaded:
        return self

    def newInputFile(self, path: str) -> Any:
        return SimpleNamespace(exists=lambda: path in self.table.storage, getLength=lambda: 1)


class Transaction:
    """BaseTransaction: a rewrite and an update of properties, sent as one."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded, self._now = loaded, loaded.base
        loaded.client.changes += 1
        self.change = Change(loaded.table.number(loaded.client.name, loaded.client.changes))

    def newRewrite(self) -> Rewrite:
        return Rewrite(self)

    def updateProperties(self) -> Update:
        return Update(self)

    def table(self) -> Loaded:
        return Loaded(self._loaded.table, self._now, self._loaded.client)

    def apply(self) -> None:
        """Validate against what was loaded, and show the result."""
        self.change.validate(self._loaded.base)
        self._now = self._loaded.table.prepared(self._loaded.base, self.change)

    def commitTransaction(self) -> None:
        fault = step("commit", COMMIT_FAULTS, reads=False)
        if fault == REQUEST_LOST:
            raise no_answer()
        self._loaded.table.commit(self.change)
        learned("committed")
        if fault == ANSWER_LOST:
            raise state_unknown()
        if fault == SELF_CONFLICT:
            raise invalid("its own files are missing")
        if fault == KILLED_AFTER:
            raise Killed


class Rewrite:
    """RewriteFiles."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.change = transaction.change

    def validateFromSnapshot(self, number: int) -> Rewrite:
        self.change.start = number
        return self

    def dataSequenceNumber(self, sequence: int) -> Rewrite:
        self.change.data_sequence = sequence
        return self

    def deleteFile(self, file: DataFile | DeleteFile) -> None:
        if isinstance(file, DataFile):
            self.change.removed.append(file)
        else:
            self.change.removed_deletes.append(file)

    def addFile(self, file: DataFile) -> None:
        self.change.added.append(file)

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


class StandIn:
    """The methods of `zlayout.backends.iceberg.jvm.IcebergJvm` that a rewrite uses."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.table: IcebergTable = session.table
        self.name: str = session.name
        self.changes = self.written = 0
        kinds = SimpleNamespace(isFileScoped=lambda delete: bool(delete.target), isDV=lambda delete: delete.vector)
        self.iceberg = SimpleNamespace(util=SimpleNamespace(ContentFileUtil=kinds))

    def load(self, name: TableName) -> Loaded:  # noqa: ARG002
        step("load")
        return Loaded(self.table, self.table.current, self)

    def list(self, values: Iterable[Any]) -> Seq:
        return Seq(values)


class ModelIceberg(product.IcebergBackend):
    """One client with its own session; satisfies `zlayout.backends.base.Backend`."""

    def __init__(self, table: IcebergTable, works: dict[int, Work], states: dict[int, TableState]) -> None:
        """works, states: by log id, from which they follow."""
        self.session = SimpleNamespace(table=table, name="")
        super().__init__(cast(Any, table), cast(Any, SimpleNamespace(session=self.session)))
        self.table, self._works, self._states = table, works, states

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:  # noqa: ARG002
        base = self.table.current
        if version is not None:
            base = self.table.as_of(base.history[base.by_version[version]])
        if base.log_id not in self._states:
            self._states[base.log_id] = _state(base)
        return self._states[base.log_id]

    def plan(self, run_id: str) -> Work:
        """What to rewrite: all files that are not laid out yet."""
        step("plan")
        self.session.name = run_id
        if self.table.log_id not in self._works:
            self._works[self.table.log_id] = work_of(self.observe(NAME, COLUMNS))
        return replace(self._works[self.table.log_id], run_id=run_id)


def laid_out(base: Metadata) -> set[str]:
    """Live files that the table says have the layout: by the property and the snapshots' summaries."""
    state = known_state(base)
    snapshots = state[LAYOUT.layout_id].snapshots if LAYOUT.layout_id in state else ()
    return {file.name for file in base.files.values() if file.snapshot in snapshots}


def _state(base: Metadata) -> TableState:
    files = sorted(base.files.values(), key=lambda file: file.name)
    done = laid_out(base)
    return state_of(
        version=base.current.number,
        paths=[f.name for f in files],
        keys=["\n".join(sorted(d.name for d in base.deletes_of(f))) for f in files],
        rows=[len(f.rows) for f in files],
        deleted=[len(f.rows) - len(base.live(f, lineage=False)) for f in files],
        laid_out=[f.name in done for f in files],
    )


def tasks_of(client: StandIn, table: Loaded, snapshot: int, paths: Iterable[str]) -> dict[str, Task]:
    """Stands in for `scan.tasks_of`."""
    base = client.table.as_of(table.base.history[table.base.by_version[snapshot]])
    found = (base.files[path] for path in paths if path in base.files)
    return {f.name: Task(f, tuple(base.deletes_of(f)), base.live(f, lineage=client.table.lineage)) for f in found}


def live_rows(tasks: Iterable[Task]) -> tuple[Row, ...]:
    """The live rows of staged files, with row ids and sequence numbers."""
    return tuple(row for task in tasks for row in task.live)


def is_exact(pinned: staging.Staged) -> bool:
    return pinned.exact_deletes()


def write_groups(pinned: staging.Staged, work: Work) -> commit.Files:
    """Stands in for `commit.write_groups`: the Spark job and the gate."""
    client = cast(StandIn, pinned.jvm)
    source = {g.id: live_rows(pinned.tasks[path] for path in g.files.path.to_pylist()) for g in work.groups}
    exact = is_exact(pinned)
    expected = {g.id: int(g.files.live_rows.sum()) if exact else len(source[g.id]) for g in work.groups}
    rows, vacuumed = spark_job.rewrite(source, expected, may_fail=client.table.jobs_fail)
    files = {}
    for group in work.groups:
        client.written += 1
        name = f"{work.run_id}-{client.written}"
        if not vacuumed:
            client.table.write([name])
        new = DataFile(name, rows[group.id])
        files[group.id] = [staging.NewFile(new, name, 1, len(new.rows))] if new.rows else []
    return files


def live_snapshots(table: IcebergTable, name: object) -> frozenset[int]:  # noqa: ARG001
    step("live snapshots")
    return frozenset(file.snapshot for file in table.current.files.values())


def run_commits(
    table: IcebergTable, name: object, run_id: str, earlier: Collection[int] = ()
) -> tuple[history.RunCommit, ...]:
    """Stands in for `history.run_commits`."""
    assert name is NAME
    assert not earlier
    if step("look", free=("the catalog cannot be read",), reads=False) != OK:
        raise OSError("the catalog cannot be read")
    found = tuple(
        history.RunCommit(s.number, manifests.Change(frozenset(s.removed), frozenset(f.name for f in s.added), 0, 0, 0))
        for s in table.current.history
        if s.properties.get(recorded.RUN) == run_id
    )
    learned(tuple(commit.snapshot for commit in found))
    return found


@contextmanager
def stand_in() -> Iterator[None]:
    """Replace what needs a JVM; the rest of `zlayout.backends.iceberg` stays as it is."""
    with ExitStack() as stack:
        for module, name, value in (
            (product, "fallback_reason", lambda *_: None),
            (jvm, "IcebergJvm", StandIn),
            (scan, "tasks_of", tasks_of),
            (scan, "_is_ancestor", lambda *_: True),
            (staging, "tasks_of", tasks_of),
            (staging, "stage", lambda *_: None),
            (commit, "write_groups", write_groups),
            (commit, "live_snapshots", live_snapshots),
            (commit, "run_commits", run_commits),
        ):
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(spark_job.stand_in())
        yield


def commits_of(table: IcebergTable, run_id: str, work: Work | None) -> list[RunCommit]:
    """The commits of a run as a fresh reader finds them in the snapshots."""
    groups = work.groups if work else ()
    return [
        RunCommit(
            s.number,
            frozenset(g.id for g in groups if set(g.files.path.to_pylist()) <= set(s.removed)),
            frozenset(s.removed),
        )
        for s in table.current.history
        if s.properties.get(recorded.RUN) == run_id
    ]
