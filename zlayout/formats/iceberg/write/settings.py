"""Changes table metadata alone: the settings in one transaction, the layout records, and rollbacks.

The table property `zlayout.state` stores the layout records. A change of the property keeps the records
of concurrent runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from zlayout.errors import CommitConflict, TableError
from zlayout.formats.base import Commit, PlannedTable
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.history import live_snapshots
from zlayout.formats.iceberg.read.observe import NO_SNAPSHOT
from zlayout.formats.iceberg.write.jvm import (
    MAX_ATTEMPTS,
    IcebergJvm,
    Prepared,
    Swap,
    commit_prepared,
    java_errors,
    term,
)
from zlayout.formats.kernel.commits import BusyTable
from zlayout.formats.kernel.execute import rollback_commit
from zlayout.formats.undo import ROLLBACK, Undo, changed_table
from zlayout.planner.selection import PROPERTY
from zlayout.spec.model import MAIN, CatalogConfig, TableName
from zlayout.sql_text import dotted
from zlayout.table.state import PartitionField


def change_settings(jvm: IcebergJvm, work: PlannedTable) -> Commit | None:
    """Set the properties and the partitioning of the work.

    Returns:
        The commit, None if the table has these properties and this partitioning already.

    Raises:
        CommitConflict: ZL320, if another writer changed one of them since the plan; ZL321.
        EngineError: ZL314.
        CommitUnknown: ZL331.
    """
    if not work.properties and work.partition_by is None:
        return None

    def prepare() -> Prepared[Commit | None]:
        table = jvm.load(work.table)
        properties, removed, added = _wanted_changes(jvm, table, work)
        work.require_planned(dict(table.properties()), tuple(current_fields(jvm, table)))
        if not (properties or removed or added):
            return lambda: None, None
        transaction = table.newTransaction()
        if properties:
            update = transaction.updateProperties()
            for key, value in properties:
                update.set(key, value)
            update.commit()
        if removed or added:
            change_spec(jvm, transaction.updateSpec(), removed, added)
        return transaction.commitTransaction, Commit("settings", snapshot_id(table))

    def look(_: object) -> Commit | None:
        now = jvm.load(work.table)
        return None if any(_wanted_changes(jvm, now, work)) else Commit("settings", snapshot_id(now))

    return commit_prepared(f"changing the settings of {work.table} in run {work.run_id}", prepare, look)


def _wanted_changes(
    jvm: IcebergJvm, table: Any, work: PlannedTable
) -> tuple[list[tuple[str, str]], list[str], list[PartitionField]]:
    """Return properties to set, names of partition fields to remove, and partition fields to add."""
    properties = [(k, v) for k, v in work.properties if table.properties().get(k) != v]
    removed, added = ([], []) if work.partition_by is None else spec_difference(jvm, table, work.partition_by)
    return properties, removed, added


def snapshot_id(table: Any) -> int:
    """Return the id of the current snapshot, NO_SNAPSHOT if the table has none."""
    snapshot = table.currentSnapshot()
    return NO_SNAPSHOT if snapshot is None else int(snapshot.snapshotId())


def spec_difference(
    jvm: IcebergJvm, table: Any, wanted: Sequence[PartitionField]
) -> tuple[list[str], list[PartitionField]]:
    """Return the names of the fields to remove from the current partition spec, and the fields to add to it."""
    current = current_fields(jvm, table)
    removed = [name for field, name in current.items() if field not in wanted]
    return removed, [field for field in wanted if field not in current]


def current_fields(jvm: IcebergJvm, table: Any) -> dict[PartitionField, str]:
    """Return the fields of the current partition spec with their names, without fields of transform void."""
    schema = table.schema()
    parents = jvm.iceberg.types.TypeUtil.indexParents(schema.asStruct())

    def source(field: Any) -> str:
        path: list[str] = []
        at = field.sourceId()
        while at is not None and (column := schema.findField(at)) is not None:
            path.insert(0, str(column.name()))
            at = parents.get(at)
        return dotted(path or [str(field.name())])

    fields = ((f.transform().toString(), f) for f in table.spec().fields())
    return {PartitionField(source(f), transform): f.name() for transform, f in fields if transform != "void"}


def change_spec(jvm: IcebergJvm, update: Any, removed: Sequence[str], added: Sequence[PartitionField]) -> None:
    """Change the partition spec. In tables of format version 1, Iceberg keeps removed fields with transform void."""
    for name in removed:
        update.removeField(name)
    for field in added:
        update.addField(term(jvm, field))
    update.commit()


def write_state(jvm: IcebergJvm, name: TableName, change: Callable[[recorded.State], recorded.State]) -> bool:
    """Change the layout records of a table (compare and set).

    The commit fails if the table's metadata has changed since the layout records were read. Then they are read and
    changed again. A REST catalog compares only the table's id. There, one of two simultaneous changes may be lost, but
    the summaries of the snapshots have the layout ids too.

    Args:
        change: A function that returns the new layout records, given the current ones.

    Returns:
        Whether a commit was made. No commit is made if the records do not change.

    Raises:
        CommitConflict: ZL323, if the table changes during each attempt.
        CommitUnknown: ZL331.
    """

    def prepare() -> Prepared[str | None]:
        operations = jvm.load(name).operations()
        base = operations.current()
        wanted = recorded.render(change(known_state(jvm, base)))
        if wanted == base.properties().get(recorded.PROPERTY):
            return lambda: None, None
        properties = jvm.java.util.HashMap(base.properties())
        properties.put(recorded.PROPERTY, wanted)
        # A transaction would reject invalid properties of other writers, but the rewrite is committed already.
        changed = base.replaceProperties(properties)
        return lambda: operations.commit(base, changed), wanted

    def look(wanted: str | None) -> str | None:
        return wanted if jvm.load(name).properties().get(recorded.PROPERTY) == wanted else None

    doing = f"recording the layout of {name}"
    try:
        return commit_prepared(doing, prepare, look, attempts=MAX_ATTEMPTS) is not None
    except BusyTable as conflict:
        failed = f"the layout of {name} could not be recorded"
        message = f"{failed}: the table changed during each of {MAX_ATTEMPTS} attempts"
        hint = "apply again to record the layout; the rewrite is committed"
        raise CommitConflict.of("ZL323", message, hint=hint) from conflict


def dead_snapshots(jvm: IcebergJvm, catalog: CatalogConfig, name: TableName, table: Any) -> frozenset[int]:
    """Return the snapshots in the layout records of a loaded Java table that added no live file.

    Snapshots that were recorded after the table was loaded do not count as dead. If the manifests of a branch cannot be
    read, no snapshot counts as dead: the rewrite continues, and a later one removes the records of dead snapshots.
    """
    with java_errors(f"reading the layout records of {name}"):
        known = recorded.listed(known_state(jvm, table.operations().current()))
    try:
        return known - live_snapshots(catalog, name) if known else known
    except TableError:
        return frozenset()


def known_state(jvm: IcebergJvm, base: Any) -> recorded.State:
    """Return the layout records in table metadata, from the property and from the summaries of snapshots."""
    return recorded.known(dict(base.properties()), _summaries(jvm, base))


def _summaries(jvm: IcebergJvm, base: Any) -> Iterable[tuple[int, Mapping[str, str]]]:
    document = json.loads(jvm.iceberg.TableMetadataParser.toJson(base))  # one call of the JVM, not one per snapshot
    return [(s["snapshot-id"], s.get("summary", {})) for s in document["snapshots"]]


# The rollback: returns the branch main to the snapshot before a run, and cherry-picks later appends.
#
# The commit succeeds only if the table's metadata has not changed since it was read. Iceberg's own
# `rollback_to_snapshot` and `Transaction.commitTransaction` try again on newer metadata, and would then drop a
# concurrent append.


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
