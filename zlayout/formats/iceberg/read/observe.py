"""Observes an Iceberg table without a JVM: reads its metadata and manifests through pyiceberg."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from zlayout.errors import Diagnostic, TableError
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import load_table, readable_metadata
from zlayout.formats.iceberg.read.deletes import Deletes, attribute_deletes
from zlayout.formats.iceberg.read.history import (
    ancestors,
    distinct_counts,
    external_rewrites_of,
    head,
    summary_of,
    written_by_others,
)
from zlayout.formats.iceberg.read.maintainers import maintainers, of_location
from zlayout.formats.iceberg.read.manifests import DataColumns, manifests_of, read_live
from zlayout.formats.iceberg.read.outside import find_outside_files
from zlayout.formats.iceberg.read.schema import (
    arrow_type,
    column_bounds,
    leaf_fields,
    leaf_names,
    read_partitions,
    schema_with,
    spec_fields,
    unpartitioned_specs,
)
from zlayout.formats.iceberg.read.support import (
    EMPTY_MAIN,
    MetricsConfig,
    can_rebase,
    features,
    refusals,
    truncated_lengths,
)
from zlayout.planner.selection import in_effect, property_of
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.spec.semantics import present_records
from zlayout.table.external import Ordering
from zlayout.table.state import (
    Baseline,
    Column,
    ColumnBounds,
    FileTable,
    Int32,
    LayoutRecord,
    Partition,
    PartitionRefusal,
    TableState,
    is_text,
    null_values,
    reserved_refusals,
)
from zlayout.text import dotted

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.types import NestedField

NO_SNAPSHOT = -1


def observe(catalog: CatalogConfig, name: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
    """Return the table state of an Iceberg table.

    Args:
        columns: The columns whose bounds are read. Names of columns that do not exist are ignored.
        version: The id of a snapshot, whose schema is used too; None for the newest snapshot of the branch and the
            current schema.

    Raises:
        TableError: ZL121 to ZL125, ZL127, ZL128.
        Refused: ZL238, ZL242.
    """
    table = load_table(catalog, name)
    state = observe_table(table, name, columns, version, catalog.file_locations(name))
    return state if version is not None else replace(state, maintainers=maintainers(table))


def observe_table(
    table: Table, name: TableName, columns: Sequence[str], version: int | None = None, permitted: Sequence[str] = ()
) -> TableState:
    """Return the table state of a table that is loaded already. See `observe`.

    permitted: The locations outside of the table's own location in which it may have files.
    """
    metadata = table.metadata
    newest = head(metadata, name)
    snapshot = newest if version is None else _snapshot(metadata, name, version)
    schema = _schema(metadata, snapshot, newest)
    config = MetricsConfig(metadata.properties, schema, table.sort_order())
    leaves = _columns(schema, config, distinct_counts(metadata, snapshot))
    with readable_metadata(table, name):
        manifests = manifests_of(snapshot, table.io) if snapshot else []
        needed = {*columns, *_sources_of_moves(manifests, table.spec(), schema)}
        wanted = {c.name: int(c.id) for c in leaves if c.name in needed and c.orderable}
        required = [
            field
            for field in schema.fields
            if field.required and field.field_type.is_primitive and field.initial_default is None
        ]
        data = read_live(manifests, table.io, list(wanted.values()), [field.field_id for field in required])
    state, notes = _read_state(metadata.properties)
    summaries = [(s.snapshot_id, summary_of(s)) for s in metadata.snapshots]
    state = recorded.from_summaries(state, summaries, recorded.undone(metadata.properties))
    of_others = {s.snapshot_id for s in metadata.snapshots} - {s.snapshot_id for s in ancestors(metadata, snapshot)}
    deletes = attribute_deletes(data, unpartitioned_specs(metadata), _equality_fields(data, metadata, schema))
    files = _files(data, metadata, schema, leaves, wanted, config, state, deletes)
    outside = find_outside_files(data, metadata, name, permitted)
    last_written, future = written_by_others(data, metadata, state)
    return TableState(
        table=str(name),
        format="iceberg",
        location=metadata.location,
        table_id=str(metadata.table_uuid),
        version=snapshot.snapshot_id if snapshot else NO_SNAPSHOT,
        schema_digest=_digest(schema),
        columns=leaves,
        partition_fields=spec_fields(table.spec(), schema),
        spec_id=metadata.default_spec_id,
        properties=_properties(metadata, name, data),
        features=features(metadata, data) | ({EMPTY_MAIN} if metadata.current_snapshot_id is None else set()),
        refusals=(*refusals(metadata, data), *reserved_refusals(c.name for c in leaves), *outside.refusals),
        files=files,
        notes=notes,
        maintainers=of_location(metadata.location),
        ordering=None if (files.layout >= 0).any() else _sort_ordering(table.sort_order(), schema),
        rewrites=external_rewrites_of(
            metadata, snapshot, recorded.listed(state), known=bool(recorded.listed(state) - of_others)
        ),
        last_written=last_written,
        future_times=future,
        files_outside=outside.number,
        partition_refusals=tuple(_null_refusals(data, required, deletes)),
        required=tuple(dotted([field.name]) for field in required),
        estimated_deletes=bool(deletes.estimated.any()),
        can_rebase=can_rebase(metadata),
    )


def _properties(metadata: TableMetadata, name: TableName, data: DataColumns) -> dict[str, str]:
    properties, key = dict(metadata.properties), property_of(name)
    if key in properties:
        properties[key] = in_effect(properties[key], set(data.snapshot))
    return properties


def _sources_of_moves(manifests: Sequence[ManifestFile], spec: PartitionSpec, schema: Schema) -> frozenset[str]:
    """Return the columns whose bounds show to which partitions a rewrite moves rows of files with other specs."""
    if all(m.partition_spec_id == spec.spec_id for m in manifests):
        return frozenset()
    return frozenset(field.source for field in spec_fields(spec, schema))


def _files(
    data: DataColumns,
    metadata: TableMetadata,
    schema: Schema,
    leaves: tuple[Column, ...],
    wanted: Mapping[str, int],
    config: MetricsConfig,
    state: recorded.State,
    deletes: Deletes,
) -> FileTable:
    rows = data.int64("rows")
    partitions = read_partitions(data.partitions, metadata, schema)
    layout, layouts, group, baselines = _laid_out(data, partitions, state)
    return FileTable(
        path=data.paths(),
        version_key=deletes.key,
        rows=rows,
        deleted=deletes.plausible(rows),
        shared_deletes=deletes.shared,
        bytes=data.int64("size"),
        partition=data.partition_index(),
        partitions=partitions,
        layout=layout,
        layouts=present_records(layouts, leaves),
        group=group,
        bounds={c.name: _bounds(data, c, wanted[c.name], config) for c in leaves if c.name in wanted},
        baselines=baselines,
    )


def _null_refusals(data: DataColumns, required: Sequence[NestedField], deletes: Deletes) -> Iterator[PartitionRefusal]:
    """Yield ZL245 for columns that must not be null, of which files have more nulls than rows that may be deleted."""
    for field in required:
        nulls = np.array(data.nulls[field.field_id], np.int64)
        if (found := (nulls > deletes.rows) & ~deletes.estimated).any():
            # Spark also takes `a IS NULL` for false, so that neither UPDATE nor DELETE finds these rows
            hint = (
                f"ALTER TABLE ... ALTER COLUMN {field.name} DROP NOT NULL; until then, Spark reads other values there"
            )
            yield replace(null_values(field.name), files=found, hint=hint)


def _equality_fields(data: DataColumns, metadata: TableMetadata, schema: Schema) -> dict[int, pa.Field]:
    fields = {}
    for field_id in sorted({i for delete in data.deletes for i in delete.equality if i in data.lower}):
        if (known := schema_with(field_id, schema, metadata)) is not None:
            field = known.find_field(field_id)
            type_, orderable = arrow_type(field.field_type)
            if orderable and str(field.field_type) != "uuid":  # Iceberg versions differ in the order of uuids
                fields[field_id] = pa.field(field.name, type_, nullable=not field.required)
    return fields


def _sort_ordering(order: SortOrder, schema: Schema) -> Ordering | None:
    known = leaf_names(schema)
    names = [
        known[field.source_id]
        for field in order.fields
        if str(field.transform) == "identity" and field.source_id in known
    ]
    return Ordering(tuple(names), "linear", "the table's sort order") if names else None


def _read_state(properties: Mapping[str, str]) -> tuple[recorded.State, tuple[Diagnostic, ...]]:
    try:
        return recorded.parse(properties.get(recorded.PROPERTY)), ()
    except recorded.CorruptState as error:
        note = Diagnostic(
            "ZL421",
            f"table property {recorded.PROPERTY} cannot be read: {error}",
            "note",
            "run zlayout apply, which replaces it; until then, files may count as not laid out",
        )
        return {}, (note,)


def _snapshot(metadata: TableMetadata, name: TableName, version: int) -> Snapshot | None:
    if version == NO_SNAPSHOT:
        return None
    snapshot = metadata.snapshot_by_id(version)
    if snapshot is None:
        message = f"table {name} has no snapshot {version}"
        raise TableError.of("ZL124", message, hint="plan again; the snapshot has expired or belongs to another table")
    return snapshot


def _schema(metadata: TableMetadata, snapshot: Snapshot | None, newest: Snapshot | None) -> Schema:
    current = metadata.schema()
    if snapshot is None or snapshot.schema_id is None or (newest and newest.snapshot_id == snapshot.snapshot_id):
        return current
    return next((s for s in metadata.schemas if s.schema_id == snapshot.schema_id), current)


def _columns(schema: Schema, config: MetricsConfig, distinct: Mapping[int, int]) -> tuple[Column, ...]:
    columns = []
    for name, field in leaf_fields(schema.fields):
        type_, orderable = arrow_type(field.field_type)
        mode = config.mode(field.field_id)
        stats = orderable and mode.bounds
        truncatable = is_text(type_)
        enable = () if stats or not orderable else config.enable(field.field_id, long=truncatable)
        longer = config.lengthen(field.field_id) if stats and truncatable else ()
        length, distinct_values = mode.length if truncatable else None, distinct.get(field.field_id)
        columns.append(
            Column(name, type_, orderable, stats, enable, longer, length, str(field.field_id), distinct_values)
        )
    return tuple(columns)


def _bounds(data: DataColumns, column: Column, field_id: int, config: MetricsConfig) -> ColumnBounds:
    lengths = truncated_lengths(config.mode(field_id))
    nulls = np.array(data.nulls[field_id], np.int64)
    return column_bounds(data.lower[field_id], data.upper[field_id], nulls, column.type, lengths)


def _laid_out(
    data: DataColumns, partitions: Sequence[Partition], state: recorded.State
) -> tuple[Int32, tuple[LayoutRecord, ...], Int32, dict[int, Baseline]]:
    """Return layout and laid-out group of each file (int32[files], -1 for none), records, and baselines by group."""
    names = sorted(state)
    layouts = tuple(LayoutRecord(recorded.layout_id(name), state[name].settings) for name in names)
    of_snapshot = {snapshot: i for i, name in enumerate(names) for snapshot in state[name].snapshots}
    snapshots, inverse = np.unique(data.int64("snapshot"), return_inverse=True)
    layout_of = np.array([of_snapshot.get(s, -1) for s in snapshots.tolist()], np.int32)
    layout: Int32 = layout_of[inverse] if len(layout_of) else np.zeros(0, np.int32)
    group = np.full(len(data.path), -1, np.int32)
    known = layout >= 0
    width = max(1, len(partitions))
    # a laid-out group has the files that one snapshot added to one partition
    pairs = inverse[known].astype(np.int64) * width + data.partition_index()[known]
    groups, group[known] = np.unique(pairs, return_inverse=True)
    stored = {at: baseline for entry in state.values() for at, baseline in entry.baselines.items()}
    baselines: dict[int, Baseline] = {}
    if stored:
        digests = [recorded.partition_digest(partition) for partition in partitions]
        for number, pair in enumerate(groups.tolist()):
            snapshot, partition = divmod(pair, width)
            if (baseline := stored.get((int(snapshots[snapshot]), digests[partition]))) is not None:
                baselines[number] = baseline
    return layout, layouts, group, baselines


def _digest(schema: Schema) -> str:
    document = schema.model_dump_json(exclude={"schema_id"})
    return hashlib.sha256(document.encode()).hexdigest()
