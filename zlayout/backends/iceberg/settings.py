"""Changes of table properties and of the partition spec: one Iceberg transaction, no data file is touched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zlayout.backends.base import Commit, Work
from zlayout.backends.iceberg.expressions import argument, transform_name
from zlayout.backends.iceberg.jvm import IcebergJvm, java_errors
from zlayout.table.state import PartitionField

NO_SNAPSHOT = -1


def change_settings(jvm: IcebergJvm, work: Work) -> Commit | None:
    """Make the table's properties and partitioning those of `work`; None where there is nothing to change."""
    table = jvm.load(work.table)
    properties = [(k, v) for k, v in work.properties if table.properties().get(k) != v]
    removed, added = ([], []) if work.partition_by is None else spec_difference(table, work.partition_by)
    if not (properties or removed or added):
        return None
    with java_errors(f"changing the settings of {work.table}", committing=True):
        transaction = table.newTransaction()
        if properties:
            update = transaction.updateProperties()
            for key, value in properties:
                update.set(key, value)
            update.commit()
        if removed or added:
            change_spec(jvm, transaction.updateSpec(), removed, added)
        transaction.commitTransaction()
    return Commit("settings", snapshot_id(jvm.load(work.table)))


def snapshot_id(table: Any) -> int:
    """The current snapshot's id, -1 for a table without one."""
    snapshot = table.currentSnapshot()
    return NO_SNAPSHOT if snapshot is None else int(snapshot.snapshotId())


def spec_difference(table: Any, wanted: Sequence[PartitionField]) -> tuple[list[str], list[PartitionField]]:
    """(names of partition fields to remove, fields to add) that turn the current spec into `wanted`."""
    current = current_fields(table)
    removed = [name for field, name in current.items() if field not in wanted]
    return removed, [field for field in wanted if field not in current]


def current_fields(table: Any) -> dict[PartitionField, str]:
    """The current spec's fields without void ones, each with its name in the spec."""
    schema = table.schema()
    fields = ((f.transform().toString(), f) for f in table.spec().fields())
    return {
        PartitionField(schema.findColumnName(f.sourceId()), transform): f.name()
        for transform, f in fields
        if transform != "void"
    }


def change_spec(jvm: IcebergJvm, update: Any, removed: Sequence[str], added: Sequence[PartitionField]) -> None:
    """Iceberg itself keeps removed fields of a version 1 table as void ones."""
    for name in removed:
        update.removeField(name)
    for field in added:
        update.addField(_term(jvm, field))
    update.commit()


def _term(jvm: IcebergJvm, field: PartitionField) -> Any:
    make = jvm.iceberg.expressions.Expressions
    name = transform_name(field)
    if name == "identity":
        return make.ref(field.source)
    width = argument(field)
    return getattr(make, name)(field.source) if width is None else getattr(make, name)(field.source, width)
