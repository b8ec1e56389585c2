"""`IcebergBackend` over the model's catalog: its own `execute`, with a stand-in for the JVM and for the Spark job.

All that decides is the product's: which groups still stand, what is validated and from where, sequence numbers,
which delete files go, the state property, halves after a conflict, what an error means and what the table says of it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from model import rebases, spark_job
from model.iceberg_catalog import DataFile, IcebergTable, Metadata
from model.iceberg_java import METADATA, Deletes, Loaded, StandIn, Task
from model.java import Seq
from model.plans import COLUMNS, LAYOUT, NAME, state_of, work_of
from model.reports import RunCommit
from model.rows import Row
from model.schedule import OK, learned, step

from zlayout.formats.base import PlannedTable
from zlayout.formats.iceberg import backend as product
from zlayout.formats.iceberg.read import history, manifests
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.write import commit, jvm, settings, staging
from zlayout.formats.iceberg.write.settings import known_state
from zlayout.formats.kernel.commits import NewFiles, Rewritten
from zlayout.spec.model import TableName
from zlayout.table.state import TableState

JVM = SimpleNamespace(iceberg=SimpleNamespace(TableMetadataParser=METADATA))


class ModelIceberg(product.IcebergBackend):
    """One client with its own session; satisfies `zlayout.formats.base.Backend`."""

    def __init__(self, table: IcebergTable, works: dict[int, PlannedTable], states: dict[int, TableState]) -> None:
        """works, states: by log id, from which they follow."""
        self.session = SimpleNamespace(table=table, name="", sparkContext=None)
        super().__init__(cast(Any, table), cast(Any, SimpleNamespace(session=self.session, has_jvm=True)))
        self.table, self._works, self._states = table, works, states

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:  # noqa: ARG002
        base = self.table.current
        if version is not None:
            base = self.table.as_of(base.history[base.by_version[version]])
        if base.log_id not in self._states:
            self._states[base.log_id] = _state(base)
        return self._states[base.log_id]

    def plan(self, run_id: str) -> PlannedTable:
        """What to rewrite: all files that are not laid out yet."""
        step("plan")
        self.session.name = run_id
        if self.table.log_id not in self._works:
            self._works[self.table.log_id] = work_of(self.observe(NAME, COLUMNS))
        work = self._works[self.table.log_id]
        return replace(work, run_id=run_id, spec=replace(work.spec, table=NAME.on(self.table.branch)))


def laid_out(base: Metadata) -> set[str]:
    """Live files that the table says have the layout: by the property and the snapshots' summaries."""
    state = known_state(cast(Any, JVM), base)
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


def tasks_of(client: StandIn, table: Loaded, snapshot: int, paths: pa.Array) -> Seq:
    """Stands in for `snapshots.tasks_of`."""
    base = client.table.as_of(table.base.history[table.base.by_version[snapshot]])
    found = (base.files.get(path) for path in paths.to_pylist())
    lineage = client.table.lineage
    return Seq(
        f and Task(f, tuple(base.deletes_of(f)), base.live(f, lineage=lineage), base.positions(f)) for f in found
    )


def numbered(reader: commit.Reader, files: Sequence[Task]) -> rebases.Rows:  # noqa: ARG001
    """Stands in for the frames of `rebase.Reader`."""
    return rebases.Rows(
        (number, position, row)
        for number, task in enumerate(files)
        for position, row in zip(task.positions, task.live, strict=True)
    )


def live_rows(tasks: Iterable[Task]) -> tuple[Row, ...]:
    """The live rows of staged files, with row ids and sequence numbers."""
    return tuple(row for task in tasks for row in task.live)


def is_exact(pinned: staging.Staged) -> bool:
    return pinned.exact_deletes()


def write_groups(pinned: staging.Staged, work: PlannedTable) -> tuple[list[Rewritten], tuple[()]]:
    """Stands in for `commit.write_groups`: the Spark job and the gate."""
    client = cast(StandIn, pinned.jvm)
    source = {g.id: live_rows(pinned.tasks_of([g])) for g in work.groups}
    exact = is_exact(pinned)
    expected = {g.id: int(g.files.live_rows.sum()) if exact else len(source[g.id]) for g in work.groups}
    rows, vacuumed = spark_job.rewrite(source, expected, may_fail=client.table.jobs_fail)
    written, owner = [], []
    for number, group in enumerate(work.groups):
        client.written += 1
        name = f"{work.run_id}-{client.written}"
        if not vacuumed:
            client.table.write([name])
        new = DataFile(name, rows[group.id])
        if new.rows:
            written.append(new)
            owner.append(number)
    counts = np.array([len(new.rows) for new in written], np.int64)
    paths = pa.array([new.name for new in written], pa.string())
    files = NewFiles(written, np.arange(len(written)), paths, np.ones_like(counts), counts)
    of_groups = files.split(np.array(owner, np.int64), len(work.groups))
    return [Rewritten(group, added) for group, added in zip(work.groups, of_groups, strict=True)], ()


def live_snapshots(table: IcebergTable, name: object) -> frozenset[int]:  # noqa: ARG001
    step("live snapshots")
    return frozenset(file.snapshot for file in table.current.files.values())


def run_commits(
    table: IcebergTable, name: object, run_id: str, earlier: Collection[int] = ()
) -> tuple[history.RunCommit, ...]:
    """Stands in for `history.run_commits`."""
    assert name == NAME.on(table.branch)
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
    """Replace what needs a JVM; the rest of `zlayout.formats.iceberg` stays as it is."""
    with ExitStack() as stack:
        for module, name, value in (
            (jvm, "IcebergJvm", StandIn),
            (jvm, "time", SimpleNamespace(sleep=lambda _: None)),  # before the next attempt of a swap
            (staging, "require_types", lambda *_: None),
            (staging, "is_ancestor", lambda *_: True),
            (staging, "tasks_of", tasks_of),
            (staging, "require_row_ids", lambda *_: None),
            (staging, "stage", lambda *_: None),
            (commit, "write_groups", write_groups),
            (staging.Staged, "new_tasks", lambda _, handles: Seq(Task.of_new(file) for file in handles)),
            (commit, "JavaClasses", lambda _: SimpleNamespace(missing=lambda _: "")),
            (commit, "DeleteFiles", Deletes),
            (commit, "is_ancestor", lambda *_: True),
            (commit, "tasks_of", tasks_of),
            (commit.Reader, "pinned", numbered),
            (commit.Reader, "written", numbered),
            (settings, "live_snapshots", live_snapshots),
            (commit, "run_commits", run_commits),
        ):
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(spark_job.stand_in())
        yield


def commits_of(table: IcebergTable, run_id: str, work: PlannedTable | None) -> list[RunCommit]:
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
