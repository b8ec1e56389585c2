"""`DeltaBackend` over the model's log: its own `execute`, with a stand-in for the JVM and for the Spark job.

All that decides is the product's: which groups still stand, what the transaction has read, what is committed and
removed, halves after a conflict, what an error means and what the log says of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from model import rebases, spark_job
from model.delta_actions import AddFile
from model.delta_log import DeltaTable, Snapshot, Transaction
from model.java import JavaError, Seq
from model.plans import COLUMNS, LAYOUT, NAME, state_of, work_of
from model.reports import RunCommit
from model.rows import Row
from model.schedule import OK, learned, step

from zlayout.errors import EngineError, Location
from zlayout.formats.base import PlannedTable
from zlayout.formats.delta import backend as product
from zlayout.formats.delta.read.features import refusals
from zlayout.formats.delta.read.history import COMMIT_MARKER, RUN
from zlayout.formats.delta.read.log import GROUP, LAYOUT_ID
from zlayout.formats.delta.write import commit, jvm, transaction
from zlayout.formats.kernel.commits import NewFiles, Rewritten
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.state import FileTable, Int64, TableState

ENFORCE = "spark.databricks.delta.conflictChecker.enforceConcurrentFeatureEnablement.enabled"


class Conf(dict[str, str]):
    """The configuration of one session."""

    set, unset, contains = dict.__setitem__, dict.__delitem__, dict.__contains__


class StandIn:
    """The methods of `zlayout.formats.delta.write.jvm.DeltaJvm` that a rewrite uses."""

    def __init__(self, spark: Any, location: str) -> None:  # noqa: ARG002
        self.spark = spark
        self.table: DeltaTable = spark.table
        self.written = 0
        self._looked: Snapshot | None = None
        self._failed = False  # whether the last call was a commit that failed

    def snapshot(self) -> Snapshot:
        """As Delta refuses a table by location whose catalog owns the commits: tests/spark/test_catalog_managed.py.

        Directly after a conflict, others need no turn: what they commit now, they could have committed before it.
        """
        if self._failed:
            self._failed = False
            learned(self.table.log_id)
        else:
            step("pin")
        if self.table.current.owned:
            raise JavaError("org.apache.spark.sql.delta.DeltaIllegalStateException")
        self._looked = self.table.current
        return self._looked

    def begin(self, snapshot: Snapshot) -> Transaction:
        return Transaction(self.table, snapshot)

    def seq(self, items: Iterable[Any]) -> Seq:
        return Seq(items)

    def live_files(self, snapshot: Snapshot) -> Seq:
        return Seq(snapshot.files.values())

    @property
    def files(self) -> StandIn:
        return self

    def paths(self, files: Iterable[AddFile]) -> pa.Array:
        return pa.array([file.name for file in files], pa.string())

    def vectors(self, files: Iterable[AddFile | None]) -> pa.Array:
        return pa.array([file.vector if file else "" for file in files], pa.string())

    def stats(self, files: Iterable[AddFile]) -> pa.Array:
        return pa.array([f"{len(file.rows)} rows" for file in files], pa.string())

    def select(self, files: Sequence[AddFile], at: Iterable[int]) -> Seq:
        return Seq(files[n] for n in at)

    def changed(self, files: Iterable[AddFile], changes: pa.Array, owner: Iterable[int]) -> Seq:
        made = []
        for file, at in zip(files, owner, strict=True):
            fields = json.loads(changes[at].as_py())
            made.append(replace(file, tags={**file.tags, **fields.pop("tags")}, **fields))
        return Seq(made)

    def replacing(self, added: Iterable[AddFile], removed: Iterable[AddFile], now: int, *, data_change: bool) -> Seq:
        return Seq([*added, *(file.removeWithTimestamp(now, data_change) for file in removed)])

    def optimize(self, columns: Iterable[str]) -> str:
        return f"OPTIMIZE {list(columns)}"

    def register_metrics(self, transaction: Transaction, metrics: Mapping[str, int]) -> None:
        pass

    def require_files(self, files: Iterable[AddFile]) -> None:
        """What was read before this is not directly before the commit."""
        self._looked = None
        if not self.table.storage.issuperset(name for file in files for name in file.stored):
            raise EngineError.of("ZL316", "a new file is gone")

    def same_definition(self, before: Snapshot, now: Snapshot) -> bool:
        return (before.owned, before.clustering) == (now.owned, now.clustering)

    def writes_vectors(self, snapshot: Snapshot) -> bool:  # noqa: ARG002
        return True

    def replaced(self, files: Iterable[AddFile], at: Iterable[int], others: Iterable[AddFile]) -> Seq:
        changed = dict(zip(at, others, strict=True))
        return Seq(changed.get(number, file) for number, file in enumerate(files))

    def after(self, files: Iterable[AddFile], version: int, last: int) -> Seq | None:
        """The files of a version, by their paths."""
        assert version <= last
        live = {file.name: file for file in self.table.snapshots[last].files.values()}
        return Seq(live.get(file.name) for file in files)

    def missing(self, files: Iterable[AddFile | None]) -> Any:
        return np.array([file is None for file in files], np.bool_)

    def same_ids(self, before: Iterable[AddFile], after: Iterable[AddFile | None]) -> bool:
        left = [(old, new) for old, new in zip(before, after, strict=True) if new]
        return all((old.base_row_id, old.commit_version) == (new.base_row_id, new.commit_version) for old, new in left)

    def deleted_since(self, before: Iterable[AddFile], after: Iterable[AddFile | None]) -> int:
        return sum(max(0, len(new) - len(old)) for old, new in deletions(before, after))

    def newly_deleted(self, before: Iterable[AddFile], after: Iterable[AddFile | None]) -> list[Int64] | None:
        pairs = deletions(before, after)
        if any(old - new for old, new in pairs):
            return None
        return [np.array(sorted(new - old), np.int64) for old, new in pairs]

    def marked(self, files: Iterable[AddFile], positions: Iterable[Int64]) -> Seq:
        """A fault of the JVM marks other rows, or a VACUUM without retention removes the vectors at once."""
        fault = step("mark", (rebases.OTHER_ROW, spark_job.VACUUM) if self.table.jobs_fail else (), visible=False)
        found = []
        for file, rows in zip(files, positions, strict=True):
            gone = set(rows.tolist())
            left = sorted(set(range(len(file.rows))) - file.deleted - gone)
            if fault == rebases.OTHER_ROW and left:
                gone = {*sorted(gone)[1:], left[0]}
            found.append(replace(file, deleted=file.deleted | gone))
        if fault != spark_job.VACUUM:
            self.table.storage |= {name for file in found for name in file.stored}
        return Seq(found)

    def tracks_rows(self, snapshot: Snapshot) -> bool:  # noqa: ARG002
        return self.table.lineage

    def clustering(self, snapshot: Snapshot) -> str | None:
        return None if snapshot.clustering is None else str(snapshot.clustering)

    def commit(self, transaction: Transaction, actions: Seq, operation: object, tags: Mapping[str, str]) -> int:
        transaction.enforced = self.spark.conf.get(ENFORCE) == "true"
        transaction.looked = self._looked
        self._failed = True
        version = transaction.commit(actions, operation, tags)
        self._failed = False
        return version


def deletions(
    before: Iterable[AddFile], after: Iterable[AddFile | None]
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """The deleted positions of each file before and after. Of a file that is gone, all are."""
    pairs = zip(before, after, strict=True)
    return [(old.deleted, new.deleted if new else frozenset(range(len(old.rows)))) for old, new in pairs]


def require_data_files(delta: StandIn, files: Iterable[AddFile]) -> None:
    """As `StandIn.require_files`, without the deletion vectors."""
    delta._looked = None
    if any(file.name not in delta.table.storage for file in files):
        raise EngineError.of("ZL316", "a new file is gone")


class ModelDelta(product.DeltaBackend):
    """One client with its own session; satisfies `zlayout.formats.base.Backend`."""

    def __init__(self, table: DeltaTable, works: dict[int, PlannedTable], states: dict[int, TableState]) -> None:
        """works, states: by log id, from which they follow."""
        conf = Conf()
        session = SimpleNamespace(table=table, conf=conf, _jsparkSession=SimpleNamespace(conf=lambda: conf))
        catalog = CatalogConfig("model", "delta", "path", {}, Location("zlayout.yaml"))
        super().__init__(catalog, cast(Any, SimpleNamespace(session=session, has_jvm=True)))
        self.table, self._works, self._states = table, works, states

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:  # noqa: ARG002
        snapshot = self.table.published() if version is None else self.table.snapshots[version]
        if snapshot.log_id not in self._states:
            self._states[snapshot.log_id] = _state(snapshot)
        return self._states[snapshot.log_id]

    def _observe_at(
        self,
        location: str,  # noqa: ARG002
        table: TableName,
        columns: Sequence[str],
        version: int | None = None,
    ) -> TableState:
        return self.observe(table, columns, version)

    def _storage(self, table: TableName, location: str) -> Any:  # noqa: ARG002
        return self.table

    def plan(self, run_id: str) -> PlannedTable:
        """What to rewrite: all files that are not laid out yet."""
        step("plan")
        if self.table.log_id not in self._works:
            self._works[self.table.log_id] = work_of(self.observe(NAME, COLUMNS))
        return replace(self._works[self.table.log_id], run_id=run_id)


def _state(snapshot: Snapshot) -> TableState:
    files = sorted(snapshot.files.values(), key=lambda file: file.key)
    state = state_of(
        version=snapshot.number,
        paths=[f.name for f in files],
        keys=[f.vector for f in files],
        rows=[len(f.rows) for f in files],
        deleted=[len(f.deleted) for f in files],
        laid_out=[f.tags.get(LAYOUT_ID) == LAYOUT.layout_id for f in files],
    )
    refused = tuple(refusals(frozenset({"catalogManaged"} if snapshot.owned else ()), {}))
    return replace(state, refusals=refused, clustering=snapshot.clustering)


def live_rows(delta: StandIn, files: Iterable[AddFile]) -> tuple[Row, ...]:
    """`DeltaJvm.data_frame`: the live rows with row ids and row commit versions."""
    return tuple(row for file in files for row in file.live(lineage=delta.table.lineage))


def write_groups(
    delta: StandIn,
    storage: object,  # noqa: ARG001
    snapshot: object,  # noqa: ARG001
    state: TableState,
    transaction: object,  # noqa: ARG001
    files: transaction.PinnedFiles,
    groups: Sequence[Any],
    work: PlannedTable,
) -> tuple[list[Rewritten], tuple[()]]:
    """Stands in for `commit.write_groups`: the Spark job and the gate."""
    source = {group.id: live_rows(delta, delta.select(files.adds, files.of([group]))) for group in groups}
    expected = {g.id: len(source[g.id]) if state.notes else int(g.files.live_rows.sum()) for g in groups}
    rows, vacuumed = spark_job.rewrite(source, expected, may_fail=delta.table.jobs_fail)
    adds = []
    for group in groups:
        delta.written += 1
        name = f"{work.run_id}-{delta.written}"
        if not vacuumed:
            delta.table.storage.add(name)
        adds.append(AddFile(name, rows[group.id]))
    owner = np.arange(len(groups))
    tagged = commit.tagged(cast(Any, delta), adds, work, groups, owner, [None] * len(groups))
    counts = np.array([len(add.rows) for add in adds], np.int64)
    new = NewFiles(tagged, owner, delta.paths(adds), np.ones_like(counts), counts)
    return [Rewritten(g, of) for g, of in zip(groups, new.split(owner, len(groups)), strict=True)], ()


def numbered(reader: commit.Reader, files: Seq) -> rebases.Rows:
    """Stands in for the frames of `rebase.Reader`."""
    lineage = cast(StandIn, reader.delta).table.lineage
    return rebases.Rows(
        (number, position, row)
        for number, file in enumerate(files)
        for position, row in zip(file.positions, file.live(lineage=lineage), strict=True)
    )


def version_with_marker(storage: DeltaTable, mark: str, after: int) -> int | None:
    if step("look", free=("the log cannot be read",), reads=False) != OK:
        raise OSError("the log cannot be read")
    versions = range(after + 1, len(storage.log))
    found = next((v for v in versions if storage.log[v].tags.get(COMMIT_MARKER) == mark), None)
    learned(found)
    return found


def chosen_adds(delta: StandIn, snapshot: Snapshot, paths: pa.Array) -> Seq:  # noqa: ARG001
    wanted = set(paths.to_pylist())
    return Seq(file for file in snapshot.files.values() if file.name in wanted)


@contextmanager
def stand_in() -> Iterator[None]:
    """Replace what needs a JVM; the rest of `zlayout.formats.delta` stays as it is."""
    identities: dict[int, tuple[FileTable, Any]] = {}
    identity = FileTable.identity

    def identity_once(files: FileTable) -> Any:
        """Files are the same objects in all runs of a search, and Arrow is slow for so few."""
        if id(files) not in identities:
            identities[id(files)] = files, identity(files)
        return identities[id(files)][1]

    with ExitStack() as stack:
        for module, name, value in (
            (FileTable, "identity", identity_once),
            (jvm, "DeltaJvm", StandIn),
            (commit, "write_groups", write_groups),
            (commit, "layout_tags", cache(commit.layout_tags)),
            (transaction, "version_with_marker", version_with_marker),
            (transaction, "add_files_at", chosen_adds),
            (commit.Reader, "pinned", numbered),
            (commit.Reader, "written", numbered),
        ):
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(spark_job.stand_in())
        yield


def commits_of(table: DeltaTable, run_id: str) -> list[RunCommit]:
    """The commits of a run as a fresh reader finds them in the log."""
    return [
        RunCommit(
            number,
            frozenset(add.tags[GROUP].partition("/")[2] for add in version.adds if GROUP in add.tags),
            frozenset(remove.name for remove in version.removes),
        )
        for number, version in enumerate(table.log)
        if version.tags.get(RUN) == run_id
    ]
