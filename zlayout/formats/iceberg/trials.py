"""Reads, creates, publishes and drops the trials of Iceberg tables. A trial is a branch."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from pyiceberg.table.snapshots import Snapshot

from zlayout.errors import CommitConflict
from zlayout.formats import undo
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.iceberg.read.history import (
    ancestors,
    head,
    operation_of,
    reads_property,
    summary_of,
    trial_property,
)
from zlayout.formats.iceberg.read.observe import observe
from zlayout.formats.trial import Reads, Trial, TrialCommit
from zlayout.planner.selection import property_of
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import MAIN, CatalogConfig, TableName
from zlayout.table.state import TableState

if TYPE_CHECKING:
    from zlayout.formats.iceberg.write.jvm import Prepared

MIN_AGE_MS = 1000 * 365 * 24 * 60 * 60 * 1000  # the branch of a trial does not expire for so long


def _mark(snapshot: int, age: int | None) -> str:
    return f"{snapshot}:{age}"


def _reads_of(value: str, version: int) -> Reads | None:
    found = re.fullmatch(r"(\d{1,19}):(\d{1,18}):(\d{1,18})", value, re.ASCII)
    return Reads(int(found[2]), int(found[3])) if found and int(found[1]) == version else None


class IcebergTrials:
    """The trials of the tables of one catalog. Each change is one commit of the table's metadata.

    A commit succeeds only if the table's metadata has not changed since it was read. (A REST catalog compares only the
    branches that the commit sets.) If it has changed, the table is read again, and the same conditions are checked
    again. Iceberg's own `fast_forward` and `DROP BRANCH` apply themselves to newer metadata without these checks.
    """

    def __init__(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:
        self._catalog = catalog
        self._runtime = runtime

    def read(self, name: TableName) -> Trial | None:
        """Read the trial on the branch of a name without a JVM; None if there is no branch of this name.

        Raises:
            Refused: ZL238, if the name is that of a tag.
            TableError: ZL121 to ZL123 or ZL127, if the metadata cannot be read.
        """
        metadata = load_table(self._catalog, name).metadata
        if name.branch not in metadata.refs:
            return None
        newest, current = head(metadata, name), metadata.current_snapshot()
        assert newest is not None
        line, main = list(ancestors(metadata, newest)), list(ancestors(metadata, current))
        of_main = {one.snapshot_id for one in main}
        fork = next((one.snapshot_id for one in line if one.snapshot_id in of_main), None)
        marker, age = metadata.properties.get(trial_property(name), ""), metadata.refs[name.branch].max_ref_age_ms
        return Trial(
            table=name,
            format="iceberg",
            table_id=str(metadata.table_uuid),
            marked=any(_mark(one.snapshot_id, age) == marker for one in line),
            main=-1 if current is None else current.snapshot_id,
            version=newest.snapshot_id,
            commits=_since(line, fork),
            moved=_since(main, fork) if fork is not None else (),
            known=fork is not None,
            reads=_reads_of(metadata.properties.get(reads_property(name), ""), newest.snapshot_id),
        )

    def rows(self, trial: Trial) -> tuple[int, int] | None:
        """Return the number of live rows of main and that of the branch; None if one is not known exactly.

        Raises:
            TableError: ZL121 to ZL125, ZL127, ZL128.
        """
        main = observe(self._catalog, trial.table.on(""), (), trial.main)
        branch = observe(self._catalog, trial.table, (), trial.version)
        if undo.why_unknown([main, branch]):
            return None
        return int(main.files.live_rows.sum()), int(branch.files.live_rows.sum())

    def begin(self, name: TableName, state: TableState) -> None:
        """Create the branch of a name at the observed version of the table.

        Raises:
            CommitConflict: ZL320, if the table or the snapshot does not exist any more, or the branch exists; ZL321.
            CommitUnknown: ZL331.
        """
        snapshot = state.version

        def change(base: Any, transaction: Any) -> None:
            _require_table(base, name, state.table_id)
            if base.ref(name.branch) is not None or base.snapshot(snapshot) is None:
                message = f"{name}: the branch exists already, or snapshot {snapshot} has expired"
                raise CommitConflict.of("ZL320", message, hint="nothing was written; run trial again")
            # The age belongs to this branch alone: one that SQL makes later under the same name does not have it.
            age = MIN_AGE_MS + secrets.randbelow(MIN_AGE_MS)
            transaction.manageSnapshots().createBranch(name.branch, snapshot).setMaxRefAgeMs(name.branch, age).commit()
            marks = {trial_property(name): _mark(snapshot, age), reads_property(name): None, property_of(name): None}
            _set(transaction, marks)

        doing = f"creating branch {name.branch} of {name.on('')}"
        self._swap(doing, name, change, lambda now: _at(now, name) == snapshot)

    def record(self, trial: Trial, reads: Reads) -> None:
        """Store what queries read of the trial, for `publish`.

        Raises:
            CommitConflict: ZL320, if the table was replaced; ZL321.
            CommitUnknown: ZL331.
        """
        name, value = trial.table, f"{trial.version}:{reads.main}:{reads.trial}"

        def change(base: Any, transaction: Any) -> None:
            _require_table(base, name, trial.table_id)
            _set(transaction, {reads_property(name): value})

        doing = f"storing what queries read of branch {name.branch} of {name.on('')}"
        self._swap(doing, name, change, lambda now: now.properties().get(reads_property(name)) == value)

    def publish(self, trial: Trial) -> None:
        """Set main to the newest snapshot of the branch, and copy the accepted partitions of the branch to main.

        Raises:
            CommitConflict: ZL320, if main or the branch has changed since it was read; ZL321.
            CommitUnknown: ZL331.
        """
        main = trial.table.on("")

        def change(base: Any, transaction: Any) -> None:
            _require_unchanged(base, trial)
            transaction.manageSnapshots().fastForwardBranch(MAIN, trial.table.branch).commit()
            published = base.properties().get(property_of(trial.table))
            _set(transaction, {property_of(main): published or None, reads_property(trial.table): None})

        doing = f"publishing branch {trial.table.branch} of {main}"
        self._swap(doing, main, change, lambda now: _at(now, main) == trial.version)

    def drop(self, trial: Trial) -> None:
        """Remove the branch of a trial and its properties.

        Raises:
            CommitConflict: ZL320, if the branch has changed since it was read; ZL321.
            CommitUnknown: ZL331.
        """
        name = trial.table

        def change(base: Any, transaction: Any) -> None:
            _require_unchanged(base, trial)
            # A REST catalog compares the snapshot of a branch that a commit sets, but not that of one it only removes.
            transaction.manageSnapshots().setMaxRefAgeMs(name.branch, 1).commit()
            transaction.manageSnapshots().removeBranch(name.branch).commit()
            _set(transaction, {trial_property(name): None, reads_property(name): None, property_of(name): None})

        doing = f"dropping branch {name.branch} of {name.on('')}"
        self._swap(doing, name, change, lambda now: _at(now, name) is None)

    def _swap(
        self, doing: str, name: TableName, change: Callable[[Any, Any], None], done: Callable[[Any], bool]
    ) -> None:
        """Commit a change, prepared again if the metadata has changed. done: whether metadata that was read has it."""
        from zlayout.formats.iceberg.write.jvm import MAX_ATTEMPTS, IcebergJvm, Swap, commit_prepared

        jvm = IcebergJvm(self._runtime.session)

        def prepare() -> Prepared[bool]:
            swap = Swap.of(jvm.load(name))
            change(swap.base, swap.transaction)
            return swap.commitTransaction, True

        commit_prepared(
            doing, prepare, lambda _: done(jvm.load(name).operations().current()) or None, attempts=MAX_ATTEMPTS
        )


def _require_table(base: Any, name: TableName, table_id: str) -> None:
    if base.uuid() != table_id:
        raise CommitConflict.of("ZL320", f"{name}: the table was replaced", hint="nothing was written; run it again")


def _require_unchanged(base: Any, trial: Trial) -> None:
    _require_table(base, trial.table, trial.table_id)
    current = base.currentSnapshot()
    main = -1 if current is None else int(current.snapshotId())
    if (main, _at(base, trial.table)) != (trial.main, trial.version):
        message = f"{trial.table.on('')}: main or branch {trial.table.branch} has changed since it was read"
        raise CommitConflict.of("ZL320", message, hint="nothing was written; run it again and review it")


def _at(base: Any, name: TableName) -> int | None:
    ref = base.ref(name.branch or MAIN)
    return int(ref.snapshotId()) if ref is not None and ref.isBranch() else None


def _set(transaction: Any, properties: dict[str, str | None]) -> None:
    update = transaction.updateProperties()
    for key, value in properties.items():
        update.set(key, value) if value is not None else update.remove(key)
    update.commit()


def _since(newest_first: Sequence[Snapshot], fork: int | None) -> tuple[TrialCommit, ...]:
    found = []
    for one in takewhile(lambda one: one.snapshot_id != fork, newest_first):
        operation = operation_of(one)
        run_id = summary_of(one).get(recorded.RUN, "")
        found.append(TrialCommit(one.snapshot_id, operation, run_id, rewrite=operation == "replace"))
    return tuple(reversed(found))
