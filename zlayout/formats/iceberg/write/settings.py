"""Changes table metadata alone: the settings in one transaction, and the layout records.

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
from zlayout.formats.iceberg.write.jvm import MAX_ATTEMPTS, IcebergJvm, Prepared, commit_prepared, java_errors, term
from zlayout.formats.kernel.commits import BusyTable
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.state import PartitionField
from zlayout.text import dotted


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
