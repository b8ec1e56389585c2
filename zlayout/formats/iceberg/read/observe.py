"""Observes an Iceberg table without a JVM: reads its metadata and manifests through pyiceberg.

`attribute_deletes` computes which delete files apply to each data file, and the number of rows that they delete from
it. The rules are those of the Iceberg spec under "Scan Planning". The deletes of a deletion vector, or of a position
delete file for one data file, are counted exactly. Those of a position delete file for a partition, and of an equality
delete file, are distributed over the data files to which they may apply, in proportion to their numbers of rows. This
is an estimate; its total is at most the number of deletes in the delete file. Deletes of several position delete files
for one data file are added, and two files may delete the same row, so that this is an estimate too.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.errors import Diagnostic, TableError
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import load_table, readable_metadata
from zlayout.formats.iceberg.read.history import (
    ancestors,
    distinct_counts,
    external_rewrites_of,
    head,
    summary_of,
    written_by_others,
)
from zlayout.formats.iceberg.read.maintainers import maintainers, of_location
from zlayout.formats.iceberg.read.manifests import (
    EQUALITY_DELETES,
    DataColumns,
    DeleteFile,
    PartitionKey,
    manifests_of,
    read_live,
)
from zlayout.formats.iceberg.read.outside import find_outside_files
from zlayout.formats.iceberg.read.schema import (
    arrow_type,
    column_bounds,
    decode,
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
    Int64,
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
        schema_digest=_schema_digest(schema),
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


def _schema_digest(schema: Schema) -> str:
    document = schema.model_dump_json(exclude={"schema_id"})
    return hashlib.sha256(document.encode()).hexdigest()


# Equality delete files: the data files to which they may apply, as in Iceberg's delete index.
#
# An equality delete file applies to older data files of its partition, unless the null counts or the bounds of a
# column show that they have no value in common (`canContainEqDeletesForFile` in `org.apache.iceberg.DeleteFileIndex`).
# If its partition spec has no fields, it applies to older data files of the whole table, which then count as one
# partition.
#
# The metadata does not state how many rows a delete file matches. `estimate` assumes that each row of a delete file
# deletes one row, and that the deleted rows are distributed over the data files to which the delete file may apply, in
# proportion to their numbers of rows.


Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

# The limit of compared pairs of a delete file and a data file, for each partition and each set of equality columns.
# Delete files beyond it count as if they had no bounds.
MAX_PAIRS = 50_000_000
# The limit of such pairs of a position delete file and a data file in all partitions. Iceberg compares them too.
MAX_POSITION_PAIRS = 50_000_000
MAX_KEYS = 100  # of delete files, from which the key of a data file is joined; the key of more is their digest


def estimate(
    data: DataColumns, index: Int64, deletes: Sequence[DeleteFile], fields: Mapping[int, pa.Field]
) -> tuple[Floats, Bools, list[str]]:
    """Estimate how many rows the equality delete files of one partition delete from each of its data files.

    Args:
        data: All data files, with the bounds of the equality columns.
        index: int64[N], the indices of the partition's data files in `data`.
        deletes: The equality delete files of the partition.
        fields: The equality columns with comparable bounds, by field id.

    Returns:
        float64[N], the estimated number of deleted rows, which may exceed the number of rows of a data file.
        bool[N], whether a delete file that may apply to the data file may also apply to another one.
        One key per data file, which identifies the delete files of the partition that are newer than it; '' for none.
    """
    partition = _DataFiles(data, index)
    ordered = sorted(deletes, key=lambda delete: (delete.sequence, delete.key))
    sets: dict[tuple[int, ...], list[DeleteFile]] = defaultdict(list)
    for delete in deletes:
        sets[tuple(f for f in delete.equality if f in fields)].append(delete)
    anywhere = sets.pop((), [])
    for ids, some in sets.items():
        anywhere += partition.apply_within_bounds({field: fields[field] for field in ids}, some)
    partition.apply_by_age(anywhere)
    digests = [*accumulate(reversed(ordered), lambda after, delete: _delete_digest(after, delete.key), initial="")][
        ::-1
    ]
    return partition.deleted, partition.shared, [digests[at] for at in partition.first_newer(ordered).tolist()]


def _delete_digest(after: str, key: str) -> str:
    return hashlib.sha256(f"{after}\0{key}".encode()).hexdigest()[:32]


class _DataFiles:
    """The data files of one partition, and the sum of the deletes that were estimated so far for each."""

    def __init__(self, data: DataColumns, index: Int64) -> None:
        self.rows = data.int64("rows")[index]
        self.sequence = data.int64("sequence")[index]
        self.deleted, self.shared = np.zeros(len(index)), np.zeros(len(index), np.bool_)
        self._data, self._index = data, index.tolist()

    def first_newer(self, ordered: Sequence[DeleteFile]) -> Int64:
        """Return for each data file the index of the first newer delete file. ordered: by sequence number."""
        return np.searchsorted([delete.sequence for delete in ordered], self.sequence, side="right")

    def apply_by_age(self, deletes: Sequence[DeleteFile]) -> None:
        """Add the deletes of delete files without usable bounds, which may apply to all older data files."""
        if not deletes:
            return
        ordered = sorted(deletes, key=lambda delete: (delete.sequence, delete.key))
        since = np.array([delete.sequence for delete in ordered], np.int64)
        by_age = np.argsort(self.sequence, kind="stable")
        so_far = np.concatenate(([0], np.cumsum(self.rows[by_age])))
        older = so_far[np.searchsorted(self.sequence[by_age], since, side="left")]
        share = np.minimum(np.array([delete.rows for delete in ordered]) / np.maximum(older, 1), 1.0)
        shares = np.append(np.cumsum(share[::-1])[::-1], 0.0)
        first = self.first_newer(ordered)
        self.deleted += self.rows * shares[first]
        hit = first < len(ordered)
        self.shared |= hit & (hit.sum() > 1)

    def apply_within_bounds(self, fields: Mapping[int, pa.Field], deletes: Sequence[DeleteFile]) -> list[DeleteFile]:
        """Add the deletes of delete files with these equality columns. Return those beyond MAX_PAIRS."""
        columns = [self._column(field_id, field, deletes) for field_id, field in fields.items()]
        order, ends = columns[0].order, columns[0].slices()
        left, beyond = MAX_PAIRS, []
        for number in np.argsort(ends[1] - ends[0], kind="stable").tolist():
            start, stop = int(ends[0][number]), int(ends[1][number])
            left -= max(stop - start, 0)
            if left < 0:
                beyond.append(deletes[number])
                continue
            some = order[start:stop]
            some = some[self.sequence[some] < deletes[number].sequence]
            for column in columns:
                some = some[column.may_match(number, some)]
            if len(some):
                share = min(deletes[number].rows / max(1, int(self.rows[some].sum())), 1.0)
                self.deleted[some] += share * self.rows[some]
                self.shared[some] |= len(some) > 1
        return beyond

    def _column(self, at: int, field: pa.Field, deletes: Sequence[DeleteFile]) -> _Column:
        stored = (self._data.lower, self._data.upper, self._data.nulls)
        lower, upper, nulls = ([by_field[at][i] for i in self._index] for by_field in stored)
        of_deletes = ([delete.lower.get(at) for delete in deletes], [delete.upper.get(at) for delete in deletes])
        deleted_nulls = np.array([delete.nulls.get(at, -1) for delete in deletes], np.int64)
        return _Column(
            [decode(side, field.type) for side in (lower, upper, *of_deletes)],
            _nulls(np.array(nulls, np.int64), self.rows, not field.nullable),
            _nulls(deleted_nulls, np.array([delete.rows for delete in deletes], np.int64), not field.nullable),
        )


class _Column:
    """One equality column of the data files of a partition and of E delete files. Bounds are ranks."""

    def __init__(self, sides: Sequence[pa.Array], nulls: Sequence[Bools], of_deletes: Sequence[Bools]) -> None:
        """Store the ranks of the bounds.

        Args:
            sides: Lower and upper bounds of the data files, then of the delete files.
            nulls: The result of `_nulls` for the data files.
            of_deletes: The result of `_nulls` for the delete files.
        """
        self._low, self._high, self._from, self._to = _ranks(sides)
        self._has_null, self._no_null, self._all_null = nulls
        self._of_null, self._not_of_null, self._only_of_null = of_deletes
        self.order = np.argsort(self._low, kind="stable")

    def slices(self) -> tuple[Int64, Int64]:
        """Return start and stop of a slice of `order` for each delete file, with all its matches: int64[E] each."""
        start = np.searchsorted(np.maximum.accumulate(self._high[self.order]), self._from, side="left")
        stop = np.searchsorted(self._low[self.order], self._to, side="right")
        return np.where(self._of_null, 0, start), np.where(self._of_null, len(self.order), stop)

    def may_match(self, delete: int, some: Int64) -> Bools:
        """Return whether each of `some` files may have a value of the delete file, bool[len(some)]."""
        matches: Bools = (self._low[some] <= self._to[delete]) & (self._high[some] >= self._from[delete])
        if self._not_of_null[delete]:
            matches &= ~self._all_null[some]
        if self._only_of_null[delete]:
            matches &= ~self._no_null[some]
        if self._of_null[delete]:
            matches |= self._has_null[some]
        return matches


def _ranks(sides: Sequence[pa.Array]) -> list[Int64]:
    """Return the dense ranks of the bounds `sides` of `_Column`. A file that lacks a bound gets the range of all."""
    ranks = pc.rank(pa.concat_arrays(sides), sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    parts = np.split(ranks, np.cumsum([len(side) for side in sides])[:-1])
    found = []
    for low, high in ((0, 1), (2, 3)):
        known = pc.and_(sides[low].is_valid(), sides[high].is_valid()).to_numpy(zero_copy_only=False)
        found += [np.where(known, parts[low], -1), np.where(known, parts[high], np.iinfo(np.int64).max)]
    return found


def _nulls(nulls: Int64, rows: Int64, required: bool) -> tuple[Bools, Bools, Bools]:
    """Return three arrays: whether a file may have nulls, certainly has none, and certainly has only nulls."""
    if required:
        never, always = np.zeros(len(nulls), np.bool_), np.ones(len(nulls), np.bool_)
        return never, always, never
    return nulls != 0, nulls == 0, nulls == rows


# All deletes of a snapshot.


@dataclass(frozen=True, slots=True)
class Deletes:
    """The deletes of each data file.

    Attributes:
        rows: int64[files], the number of deleted rows.
        by_position: int64[files], those of `rows` that are deleted by position. The others are deleted by equality.
        shared: bool[files], whether a delete file of the data file also applies to other data files.
        estimated: bool[files], whether `rows` is an estimate.
        key: string[files], a key of the set of delete files that apply, empty for none.
    """

    rows: Int64
    by_position: Int64
    shared: NDArray[np.bool_]
    estimated: NDArray[np.bool_]
    key: pa.Array

    def plausible(self, stored: Int64) -> Int64:
        """Return the numbers of deleted rows, int64[files], with a limit on those that are deleted by equality.

        The limit is half of the rows that are not deleted by position. An equality delete file may match no row at
        all. Without the limit, the plan could treat a full file as an empty one, and its rewrite would write files
        that are too large.

        Args:
            stored: int64[files], the numbers of rows of the data files.
        """
        half: Int64 = np.minimum(self.rows - self.by_position, (stored - self.by_position) // 2)
        return self.by_position + half


def attribute_deletes(
    data: DataColumns, unpartitioned: frozenset[int], fields: Mapping[int, pa.Field] = MappingProxyType({})
) -> Deletes:
    """Return the deletes of each data file of a snapshot.

    Raises:
        TableError: ZL125, for more than MAX_POSITION_PAIRS.

    Args:
        data: The data files and delete files.
        unpartitioned: The result of `unpartitioned_specs`.
        fields: The columns of equality delete files whose bounds can be compared, by field id.
    """
    shared = np.zeros(len(data.path), np.bool_)
    if not data.deletes:
        none = np.zeros(len(data.path), np.int64)
        return Deletes(none, none, shared, shared, pa.array([""] * len(data.path), pa.string()))
    deleted, estimated = np.zeros(len(data.path)), shared.copy()
    by_files = np.zeros(len(data.path), np.int64)
    keys: dict[int, list[str]] = defaultdict(list)
    targets = _Targets(data)
    equality: dict[PartitionKey | None, list[DeleteFile]] = defaultdict(list)
    for delete in data.deletes:
        if delete.content == EQUALITY_DELETES:
            equality[None if delete.partition[0] in unpartitioned else delete.partition].append(delete)
            continue
        index = targets.of(delete)
        share = targets.rows[index] / max(1, targets.rows[index].sum())
        counted = np.minimum(share * delete.rows, targets.rows[index])
        deleted[index] += counted if delete.vector else np.where(targets.has_vector[index], 0.0, counted)
        shared[index] |= ~targets.has_vector[index] & (len(index) > 1)
        estimated[index] |= ~targets.has_vector[index] & (delete.referenced is None)
        by_files[index] += ~targets.has_vector[index]
        for file in index.tolist():
            keys[file].append(delete.key)
    estimated |= by_files > 1
    by_position = _whole_rows(deleted, targets)
    for partition, deletes in equality.items():
        index = targets.inside(partition)
        by_equality, with_others, of_files = estimate(data, index, deletes, fields)
        deleted[index] += by_equality
        shared[index] |= with_others
        for file, key in zip(index.tolist(), of_files, strict=True):
            if key:
                keys[file].append(key)
                estimated[file] = True
    version_key = [_joined(keys.pop(file, [])) for file in range(len(data.path))]
    rows = np.maximum(_whole_rows(deleted, targets), by_position)
    return Deletes(rows, by_position, shared, estimated, pa.array(version_key, pa.string()))


def _joined(keys: list[str]) -> str:
    text = "\n".join(sorted(keys))
    return text if len(keys) <= MAX_KEYS else hashlib.sha256(text.encode()).hexdigest()


def _whole_rows(deleted: Floats, targets: _Targets) -> Int64:
    """Round the deletes of each file so that the sum stays, in all files and in each partition: not each one up."""
    deleted = np.minimum(deleted, targets.rows).round(6)  # rounded, because sums of shares are not exact
    whole = np.floor(deleted)
    fractions = np.cumsum((deleted - whole)[targets.order]).round(6)
    whole[targets.order] += np.diff(np.floor(fractions + 0.5), prepend=0.0)
    return whole.astype(np.int64)


class _Targets:
    def __init__(self, data: DataColumns) -> None:
        self.rows = data.int64("rows")
        self.sequence = data.int64("sequence")
        self._written = data.int64("written")
        self._path = data.path
        self._index_of: Mapping[str, int] = {path: file for file, path in enumerate(data.path)}
        self._partitions = data.partitions
        index = data.partition_index()
        self.order = np.argsort(index, kind="stable")
        self._starts = np.searchsorted(index[self.order], np.arange(len(data.partitions) + 1))
        self._pairs = 0
        self.has_vector = np.zeros(len(data.path), np.bool_)  # a deletion vector replaces all position delete files
        for delete in data.deletes:
            if delete.vector:
                self.has_vector[self.of(delete)] = True

    def of(self, delete: DeleteFile) -> Int64:
        """Return the data files to which a position delete file or deletion vector may apply."""
        if delete.referenced is not None:
            file = self._index_of.get(delete.referenced, -1)
            return np.array([file] if file >= 0 and self.sequence[file] <= delete.sequence else [], np.int64)
        index = self.inside(delete.partition)
        self._pairs += len(index)
        if self._pairs > MAX_POSITION_PAIRS:
            message = f"the table has more than {MAX_POSITION_PAIRS:,} pairs of a data file and a position delete file"
            hint = "combine the delete files by Iceberg's rewrite_position_delete_files, and plan again"
            raise TableError.of("ZL125", message, hint=hint)
        # a rewrite may keep a data sequence number, but a position delete never refers to a file that was written later
        index = index[(self.sequence[index] <= delete.sequence) & (self._written[index] <= delete.sequence)]
        if delete.lowest is None or delete.highest is None:
            return index
        within = [delete.lowest <= self._path[file] <= delete.highest for file in index.tolist()]
        return index[np.array(within, np.bool_)]

    def inside(self, partition: PartitionKey | None) -> Int64:
        """Return the data files of a partition, or all data files if it is None."""
        if partition is None:
            return np.arange(len(self._path), dtype=np.int64)
        at = self._partitions.get(partition)
        if at is None:
            return np.zeros(0, np.int64)
        return self.order[self._starts[at] : self._starts[at + 1]]
