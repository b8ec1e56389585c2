"""Commits a rollback on Iceberg: returns the branch main to the snapshot before a run, and cherry-picks later appends.

The commit succeeds only if the table's metadata has not changed since it was read. Iceberg's own `rollback_to_snapshot`
and `Transaction.commitTransaction` try again on newer metadata, and would then drop a concurrent append.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zlayout.errors import CommitConflict
from zlayout.formats.base import Commit
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.write.jvm import IcebergJvm, Prepared, Swap, commit_prepared
from zlayout.formats.iceberg.write.settings import known_state
from zlayout.formats.kernel.execute import rollback_commit
from zlayout.formats.undo import ROLLBACK, Undo, changed_table
from zlayout.planner.selection import PROPERTY
from zlayout.spec.model import MAIN


def roll_back(jvm: IcebergJvm, undo: Undo, run_id: str) -> Commit:
    """Commit a rollback.

    Args:
        undo: The rollback. The snapshot from which it was determined must still be the current one.
        run_id: The id of the rollback.

    Raises:
        Refused: ZL234.
        CommitConflict: ZL321, if the table has changed.
        EngineError: ZL314.
        CommitUnknown: ZL331.
    """

    def prepare() -> Prepared[Commit]:
        table = jvm.load(undo.table)
        swap = Swap.of(table)
        _require_current(swap.base, undo)
        manager = swap.transaction.manageSnapshots().rollbackTo(undo.before)
        for snapshot in undo.kept:
            manager.cherrypick(snapshot)
        manager.commit()
        properties = swap.transaction.updateProperties()
        for key, value in _properties(jvm, swap.base, table.io(), undo, run_id).items():
            properties.set(key, value) if value is not None else properties.remove(key)
        properties.commit()
        return swap.commitTransaction, rollback_commit(undo, int(swap.wanted.currentSnapshot().snapshotId()))

    def look(done: Commit) -> Commit | None:
        now = jvm.load(undo.table)
        found = any(entry.get("rollback") == run_id for entry in recorded.rollbacks(dict(now.properties())))
        return done if found else None

    return commit_prepared(f"committing rollback {run_id} of {undo.table}", prepare, look)


def _require_current(base: Any, undo: Undo) -> None:
    if base.uuid() != undo.table_id or base.currentSnapshot().snapshotId() != undo.version:
        message = f"{undo.table}: another commit was made since snapshot {undo.version} was read"
        raise CommitConflict.of("ZL321", message, hint="run rollback again; the other commit stays")
    if base.currentSnapshot().firstRowId() is not None and base.snapshot(undo.before).firstRowId() is None:
        raise changed_table(undo.table, "it has row ids now, which the replaced files do not have")


def _properties(jvm: IcebergJvm, base: Any, io: Any, undo: Undo, run_id: str) -> dict[str, str | None]:
    """Return the table properties to set (None: remove): records and acceptance of before the run, and the rollback."""
    now = dict(base.properties())
    # the records of other branches stay; a branch may contain snapshots of the run
    others = recorded.drop_dead(known_state(jvm, base), frozenset(undo.commits) - _on_branches(jvm, base))
    found = _properties_at(jvm, base, io, undo.before)
    if found is None:  # metadata files are missing: the records that the run dropped stay lost
        before = {recorded.PROPERTY: recorded.render(others)} if others else {}
    else:
        before = dict(found)
        try:
            state = recorded.parse(before.get(recorded.PROPERTY))
        except recorded.CorruptState:  # it was corrupt before the run too; `plan` reports it (ZL421)
            state = {}
        if recorded.listed(others) - recorded.listed(state):
            before[recorded.PROPERTY] = recorded.render(recorded.joined(state, others))
    known = {int(snapshot.snapshotId()) for snapshot in base.snapshots()}
    entries = [entry for entry in recorded.rollbacks(now) if not known.isdisjoint(entry["snapshots"])]
    entries.append({"run": undo.run_id, "rollback": run_id, "snapshots": list(undo.commits)})
    changed = {key: before.get(key) for key in (recorded.PROPERTY, PROPERTY) if before.get(key) != now.get(key)}
    return changed | {ROLLBACK: json.dumps(entries, separators=(",", ":"))}


def _on_branches(jvm: IcebergJvm, base: Any) -> frozenset[int]:
    document = json.loads(jvm.iceberg.TableMetadataParser.toJson(base))  # one call of the JVM, not one per snapshot
    parents = {one["snapshot-id"]: one.get("parent-snapshot-id") for one in document["snapshots"]}
    found: set[int] = set()
    for name, ref in document["refs"].items():
        at: int | None = ref["snapshot-id"] if ref["type"] == "branch" and name != MAIN else None
        while at is not None and at in parents and at not in found:
            found.add(at)
            at = parents[at]
    return frozenset(found)


def _properties_at(jvm: IcebergJvm, base: Any, io: Any, snapshot: int) -> Mapping[str, str] | None:
    """Return the newest properties with this current snapshot. None if a metadata file to read no longer exists."""
    read = jvm.iceberg.TableMetadataParser.read
    for entry in reversed(list(base.previousFiles())):
        if not io.newInputFile(entry.file()).exists():
            return None
        metadata = read(io, entry.file())
        current = metadata.currentSnapshot()
        if current is not None and int(current.snapshotId()) == snapshot:
            return dict(metadata.properties())
    return None
