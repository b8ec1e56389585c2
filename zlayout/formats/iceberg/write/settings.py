"""Changes table properties and the partition spec in one Iceberg transaction, which changes no data files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zlayout.formats.base import Commit, Work
from zlayout.formats.iceberg.write.expressions import term
from zlayout.formats.iceberg.write.jvm import FAILURES, IcebergJvm, java_errors
from zlayout.formats.kernel.outcome import settled
from zlayout.table.state import PartitionField

NO_SNAPSHOT = -1


def change_settings(jvm: IcebergJvm, work: Work) -> Commit | None:
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
    table = jvm.load(work.table)
    doing = f"changing the settings of {work.table} in run {work.run_id}"
    with java_errors(doing):
        properties, removed, added = _wanted_changes(table, work)
        work.require_planned(dict(table.properties()), tuple(current_fields(table)))
        if not (properties or removed or added):
            return None
        transaction = table.newTransaction()
        if properties:
            update = transaction.updateProperties()
            for key, value in properties:
                update.set(key, value)
            update.commit()
        if removed or added:
            change_spec(jvm, transaction.updateSpec(), removed, added)
        done = Commit("settings", snapshot_id(table))

    def send() -> Commit:
        transaction.commitTransaction()
        return done

    def look() -> Commit | None:
        now = jvm.load(work.table)
        return None if any(_wanted_changes(now, work)) else Commit("settings", snapshot_id(now))

    return settled(doing, send, look, FAILURES)


def _wanted_changes(table: Any, work: Work) -> tuple[list[tuple[str, str]], list[str], list[PartitionField]]:
    """Return the properties to set, the names of partition fields to remove, and the partition fields to add."""
    properties = [(k, v) for k, v in work.properties if table.properties().get(k) != v]
    removed, added = ([], []) if work.partition_by is None else spec_difference(table, work.partition_by)
    return properties, removed, added


def snapshot_id(table: Any) -> int:
    """Return the id of the current snapshot, NO_SNAPSHOT if the table has none."""
    snapshot = table.currentSnapshot()
    return NO_SNAPSHOT if snapshot is None else int(snapshot.snapshotId())


def spec_difference(table: Any, wanted: Sequence[PartitionField]) -> tuple[list[str], list[PartitionField]]:
    """Return the names of the fields to remove from the current partition spec, and the fields to add to it."""
    current = current_fields(table)
    removed = [name for field, name in current.items() if field not in wanted]
    return removed, [field for field in wanted if field not in current]


def current_fields(table: Any) -> dict[PartitionField, str]:
    """Return the fields of the current partition spec with their names, without fields of transform void."""
    schema = table.schema()
    fields = ((f.transform().toString(), f) for f in table.spec().fields())
    return {
        PartitionField(schema.findColumnName(f.sourceId()) or f.name(), transform): f.name()
        for transform, f in fields
        if transform != "void"
    }


def change_spec(jvm: IcebergJvm, update: Any, removed: Sequence[str], added: Sequence[PartitionField]) -> None:
    """Change the partition spec. In tables of format version 1, Iceberg keeps removed fields with transform void."""
    for name in removed:
        update.removeField(name)
    for field in added:
        update.addField(term(jvm, field))
    update.commit()
