"""Observes an Iceberg table from its metadata and manifests alone, without a JVM and without any data file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zlayout.errors import Diagnostic, TableError
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.arrow_types import arrow_type, leaf_fields
from zlayout.formats.iceberg.read.bounds import column_bounds
from zlayout.formats.iceberg.read.catalog import load_table, readable_metadata
from zlayout.formats.iceberg.read.deletes import attribute_deletes
from zlayout.formats.iceberg.read.manifests import DataColumns, read_live
from zlayout.formats.iceberg.read.metrics_config import MetricsConfig, cut_lengths
from zlayout.formats.iceberg.read.partitions import PartitionReader, spec_fields
from zlayout.formats.iceberg.read.support import features, refusals
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.state import Column, ColumnBounds, FileTable, Int32, LayoutRecord, Ordering, TableState, is_text

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.sorting import SortOrder

NO_SNAPSHOT = -1


def observe(catalog: CatalogConfig, name: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
    """Return the table now, or at snapshot `version` with its schema, with bounds for those of `columns` that exist.

    Raises TableError ZL121 to ZL125.
    """
    return observe_table(load_table(catalog, name), name, columns, version)


def observe_table(table: Table, name: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
    """As `observe`, for a table that is already loaded."""
    metadata = table.metadata
    snapshot = _snapshot(metadata, name, version)
    schema = _schema(metadata, snapshot)
    config = MetricsConfig(metadata.properties, schema, table.sort_order())
    leaves = _columns(schema, config)
    wanted = {c.name: schema.find_field(c.name).field_id for c in leaves if c.name in columns and c.orderable}
    with readable_metadata(name):
        manifests = snapshot.manifests(table.io) if snapshot else []
        data = read_live(manifests, table.io, list(wanted.values()))
    state, notes = read_state(metadata.properties)
    state = recorded.from_summaries(state, summaries(metadata))
    files = _files(data, metadata, schema, leaves, wanted, config, state)
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
        properties=dict(metadata.properties),
        features=features(metadata, data),
        refusals=refusals(metadata, data),
        files=files,
        notes=notes,
        ordering=None if (files.layout >= 0).any() else sort_ordering(table.sort_order(), schema),
    )


def _files(
    data: DataColumns,
    metadata: TableMetadata,
    schema: Schema,
    leaves: tuple[Column, ...],
    wanted: Mapping[str, int],
    config: MetricsConfig,
    state: recorded.State,
) -> FileTable:
    unpartitioned = frozenset(s.spec_id for s in metadata.partition_specs if not s.fields)
    deletes = attribute_deletes(data, unpartitioned)
    reader = PartitionReader(metadata, schema)
    layout, layouts, group = _laid_out(data, state)
    return FileTable(
        path=data.paths(),
        version_key=deletes.key,
        rows=data.int64("rows"),
        deleted=deletes.rows,
        shared_deletes=deletes.shared,
        bytes=data.int64("size"),
        partition=data.partition_index(),
        partitions=tuple(reader.partition(spec_id, raw) for spec_id, raw in data.partitions),
        layout=layout,
        layouts=layouts,
        group=group,
        bounds={c.name: _bounds(data, c, wanted[c.name], config) for c in leaves if c.name in wanted},
    )


def sort_ordering(order: SortOrder, schema: Schema) -> Ordering | None:
    """Return the columns of the sort order that it does not transform, None if there are none."""
    names = [
        name
        for field in order.fields
        if str(field.transform) == "identity"
        if (name := schema.find_column_name(field.source_id)) is not None
    ]
    return Ordering(tuple(names), "linear", "the table's sort order") if names else None


def read_state(properties: Mapping[str, str]) -> tuple[recorded.State, tuple[Diagnostic, ...]]:
    """Return the recorded state, or an empty one and a note if it cannot be read."""
    try:
        return recorded.parse(properties.get(recorded.PROPERTY)), ()
    except recorded.CorruptState as error:
        note = Diagnostic(
            "ZL421",
            f"table property {recorded.PROPERTY} cannot be read: {error}",
            "note",
            "files that only it lists count as not laid out; the next apply replaces it",
        )
        return {}, (note,)


def summaries(metadata: TableMetadata) -> list[tuple[int, Mapping[str, str]]]:
    """Return id and summary of every snapshot that has not expired."""
    return [(s.snapshot_id, s.summary.additional_properties) for s in metadata.snapshots if s.summary]


def _snapshot(metadata: TableMetadata, name: TableName, version: int | None) -> Snapshot | None:
    if version == NO_SNAPSHOT or (version is None and metadata.current_snapshot_id is None):
        return None
    snapshot = metadata.snapshot_by_id(metadata.current_snapshot_id or 0 if version is None else version)
    if snapshot is None:
        raise TableError.of(
            "ZL124",
            f"table {name} has no snapshot {version}",
            hint="it has expired or belongs to another table: plan again",
        )
    return snapshot


def _schema(metadata: TableMetadata, snapshot: Snapshot | None) -> Schema:
    """The current schema for the current snapshot, and for any other the one that it was written with."""
    current = metadata.schema()
    if snapshot is None or snapshot.snapshot_id == metadata.current_snapshot_id or snapshot.schema_id is None:
        return current
    return next((s for s in metadata.schemas if s.schema_id == snapshot.schema_id), current)


def _columns(schema: Schema, config: MetricsConfig) -> tuple[Column, ...]:
    columns = []
    for name, field in leaf_fields(schema):
        kind, orderable = arrow_type(field.field_type)
        mode = config.mode(name, field.field_id)
        stats = orderable and mode.bounds
        text = is_text(kind)
        enable = () if stats or not orderable else config.enable(name, text=text)
        longer = config.lengthen(name, field.field_id) if stats and text else ()
        columns.append(Column(name, kind, orderable, stats, enable, longer, mode.cut if text else None))
    return tuple(columns)


def _bounds(data: DataColumns, column: Column, field_id: int, config: MetricsConfig) -> ColumnBounds:
    cut = cut_lengths(config.mode(column.name, field_id))
    nulls = np.array(data.nulls[field_id], np.int64)
    return column_bounds(data.lower[field_id], data.upper[field_id], nulls, column.type, cut)


def _laid_out(data: DataColumns, state: recorded.State) -> tuple[Int32, tuple[LayoutRecord, ...], Int32]:
    """(int32[N] layout index or -1, the layouts, int32[N] group or -1); a group is one snapshot in one partition."""
    names = sorted(state)
    layouts = tuple(LayoutRecord(name, state[name].settings) for name in names)
    of_snapshot = {snapshot: i for i, name in enumerate(names) for snapshot in state[name].snapshots}
    snapshots, inverse = np.unique(data.int64("snapshot"), return_inverse=True)
    layout_of = np.array([of_snapshot.get(s, -1) for s in snapshots.tolist()], np.int32)
    layout: Int32 = layout_of[inverse] if len(layout_of) else np.zeros(0, np.int32)
    group = np.full(len(data.path), -1, np.int32)
    known = layout >= 0
    cells = inverse[known].astype(np.int64) * max(1, len(data.partitions)) + data.partition_index()[known]
    group[known] = np.unique(cells, return_inverse=True)[1]
    return layout, layouts, group


def _digest(schema: Schema) -> str:
    """SHA-256 (hex) over the fields with their ids and over the identifier fields, not over the schema's number."""
    document = schema.model_dump_json(exclude={"schema_id"})
    return hashlib.sha256(document.encode()).hexdigest()
