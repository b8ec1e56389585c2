"""Creates, publishes and drops the branch of a trial, each in one commit of the table's metadata.

A commit succeeds only if the table's metadata has not changed since it was read. (A REST catalog compares only the
branches that the commit sets.) If it has changed, the table is read again, and the same conditions are checked again.
Iceberg's own `fast_forward` and `DROP BRANCH` apply themselves to newer metadata without these checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zlayout.errors import CommitConflict
from zlayout.formats.iceberg.read.snapshots import trial_property
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.formats.iceberg.write.prepared import MAX_ATTEMPTS, Prepared, Swap, commit_prepared
from zlayout.formats.trial import Trial
from zlayout.planner import accepted
from zlayout.spec.model import MAIN, TableName


def begin(jvm: IcebergJvm, name: TableName, table_id: str, snapshot: int) -> None:
    """Create the branch of `name` at a snapshot of main.

    Raises:
        CommitConflict: ZL320, if the table or the snapshot does not exist any more, or the branch exists; ZL321.
        CommitUnknown: ZL331.
    """

    def change(base: Any, transaction: Any) -> None:
        _require_table(base, name, table_id)
        if base.ref(name.branch) is not None or base.snapshot(snapshot) is None:
            message = f"{name}: the branch exists already, or snapshot {snapshot} has expired"
            raise CommitConflict.of("ZL320", message, hint="nothing was written; run trial again")
        transaction.manageSnapshots().createBranch(name.branch, snapshot).commit()
        _set(transaction, {trial_property(name): str(snapshot), accepted.property_of(name): None})

    _swap(jvm, f"creating branch {name.branch} of {name.on('')}", name, change, lambda now: _at(now, name) == snapshot)


def publish(jvm: IcebergJvm, trial: Trial) -> None:
    """Set main to the newest snapshot of the branch, and copy the accepted partitions of the branch to main.

    Raises:
        CommitConflict: ZL320, if main or the branch has changed since it was read; ZL321.
        CommitUnknown: ZL331.
    """
    main = trial.table.on("")

    def change(base: Any, transaction: Any) -> None:
        _require_unchanged(base, trial)
        transaction.manageSnapshots().fastForwardBranch(MAIN, trial.table.branch).commit()
        published = base.properties().get(accepted.property_of(trial.table))
        _set(transaction, {accepted.property_of(main): published or None})

    doing = f"publishing branch {trial.table.branch} of {main}"
    _swap(jvm, doing, main, change, lambda now: _at(now, main) == trial.version)


def drop(jvm: IcebergJvm, trial: Trial) -> None:
    """Remove the branch of a trial and its properties.

    Raises:
        CommitConflict: ZL320, if the branch has changed since it was read; ZL321.
        CommitUnknown: ZL331.
    """
    name = trial.table

    def change(base: Any, transaction: Any) -> None:
        _require_unchanged(base, trial)
        # A REST catalog compares the snapshot of a branch that a commit sets, but not that of a branch it only removes.
        transaction.manageSnapshots().setMaxRefAgeMs(name.branch, 1).commit()
        transaction.manageSnapshots().removeBranch(name.branch).commit()
        _set(transaction, {trial_property(name): None, accepted.property_of(name): None})

    _swap(jvm, f"dropping branch {name.branch} of {name.on('')}", name, change, lambda now: _at(now, name) is None)


def _swap(
    jvm: IcebergJvm, doing: str, name: TableName, change: Callable[[Any, Any], None], done: Callable[[Any], bool]
) -> None:
    """Commit a change, prepared again if the metadata has changed. done: whether metadata that was read has it."""

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
