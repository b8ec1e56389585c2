"""A real backend without Spark: the same observation, the same commits, rows in Arrow. For tests and examples."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from support.memory_format.store import MemoryCatalog, MemoryTable, StoredFile, Version, by_partition, new_path
from support.memory_format.undo import roll_back, undo_run

from zlayout.curve.layout import build_map
from zlayout.errors import CommitConflict, Diagnostic, EngineError, TableError
from zlayout.formats.base import (
    Capabilities,
    Commit,
    Group,
    GroupFailed,
    Notify,
    PlannedTable,
    Progress,
    RunColumn,
    RunMetrics,
    SampleSource,
    Stage,
)
from zlayout.formats.undo import Undo
from zlayout.planner import selection as accepted
from zlayout.spec.model import Layout, TableName
from zlayout.spec.semantics import present_records
from zlayout.table.metrics import layout_metrics, measure_baselines
from zlayout.table.samples import KeySample, RowGroups, StoredRows
from zlayout.table.state import (
    Column,
    ColumnBounds,
    FileTable,
    Int64,
    LayoutRecord,
    Partition,
    PartitionField,
    TableState,
)


class MemoryBackend:
    """Satisfies `zlayout.formats.base.Backend` over a `MemoryCatalog`."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self._catalog = catalog
        self.capabilities = Capabilities("memory", partition_evolution=True, native_by_rank=True)

    def observe(self, table: TableName, columns: Sequence[str], version: int | None = None) -> TableState:
        stored = self._catalog.load(table.identifier)
        at = self._version(table, stored.current.number if version is None else version)
        return TableState(
            table=str(table),
            format="memory",
            location=f"memory:{table}",
            table_id=stored.table_id,
            version=at.number,
            schema_digest=hashlib.sha256(str(at.schema).encode()).hexdigest(),
            columns=columns_of(at),
            partition_fields=at.fields,
            spec_id=at.spec_id,
            properties=dict(at.properties),
            features=frozenset(),
            refusals=(),
            files=_file_table(at, [c for c in (*columns, *_sources_of_moves(at)) if c in at.schema.names]),
            last_written=_last_written(at),
        )

    def list_storage(self, table: TableName) -> None:  # noqa: ARG002
        return None

    def last_run(self, table: TableName, state: TableState) -> RunMetrics | None:  # noqa: ARG002
        return self._catalog.load(table.identifier).last_run

    def undo(self, table: TableName, run: str | None) -> Undo:
        return undo_run(table, self._catalog.load(table.identifier), lambda at: self.observe(table, (), at), run)

    def roll_back(self, undo: Undo, run_id: str, properties: Mapping[str, str], notify: Notify) -> Commit:  # noqa: ARG002
        return roll_back(self._catalog.load(undo.table.identifier), undo, run_id)

    def sample_source(self, table: TableName, state: TableState, seed: int) -> SampleSource:
        raise NotImplementedError

    def _version(self, table: TableName, number: int) -> Version:
        for version in self._catalog.load(table.identifier).log:
            if version.number == number:
                return version
        raise TableError.of("ZL103", f"table {table} has no version {number}")

    def sample_keys(
        self, table: TableName, state: TableState, chosen: Int64, columns: Sequence[str], max_bytes: int, seed: int
    ) -> KeySample:
        """A file is one row group."""
        stored = self._version(table, state.version)
        random, kinds = np.random.default_rng(seed), {c.name: c.type for c in state.columns}
        read: list[tuple[int, pa.Table]] = []
        for file in random.permutation(chosen).tolist():
            if sum(rows.nbytes for _, rows in read) >= max_bytes:
                break
            read.append((file, stored.files[state.files.path[file].as_py()].rows.select(list(columns))))
        lengths = [len(rows) for _, rows in read]
        index = np.array([file for file, _ in read], np.int64)
        part = state.files.take(index)
        return KeySample(
            keys={
                c: pa.concat_arrays([pa.array([], kinds[c]), *(rows[c].combine_chunks() for _, rows in read)])
                for c in columns
            },
            file=np.repeat(index, lengths),
            row_group=np.repeat(np.arange(len(read)), lengths),
            row_groups=len(read),
            files=len(read),
            bytes_read=sum(rows.nbytes for _, rows in read),
            seed=seed,
            complete=len(read) == len(chosen),
            footers=RowGroups(index, part.rows, part.bytes, part.bounds),
        )

    def stored_rows(
        self,
        table: TableName,  # noqa: ARG002
        state: TableState,  # noqa: ARG002
        chosen: Int64,  # noqa: ARG002
        columns: Sequence[str],  # noqa: ARG002
        max_bytes: int,  # noqa: ARG002
    ) -> StoredRows | None:
        return None  # its rows are not encoded

    def native_diagnostics(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:  # noqa: ARG002
        return ()

    def native_refusals(self, work: PlannedTable, state: TableState) -> tuple[Diagnostic, ...]:  # noqa: ARG002
        return ()

    def partition_diagnostics(
        self,
        fields: tuple[PartitionField, ...],  # noqa: ARG002
        state: TableState,  # noqa: ARG002
    ) -> tuple[Diagnostic, ...]:
        return ()

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:
        table = self._catalog.load(work.table.identifier)
        pinned = table.current
        keys, groups = [column.name for column in work.layout.columns], work.groups
        if work.properties:
            yield Commit("settings", table.set_properties(dict(work.properties)))
        if work.partition_by is not None:
            yield Commit("settings", table.set_partitioning(work.partition_by))
        failed = False
        for number, group in enumerate(groups):
            notify(Progress(str(work.table), Stage.REWRITING, done=number, total=len(groups)))
            try:
                accepts = work.accepts if number == len(groups) - 1 and not failed else ""
                properties = {accepted.PROPERTY: accepts} if len(table.specs) > 1 else {}
                commit = _rewrite(table, pinned, work, group, properties)
                if number == len(groups) - 1:
                    predicted, found = work.predictions(), layout_metrics(_file_table(table.current, keys), keys)
                    columns = tuple(RunColumn(m.column, predicted.get(m.column), m.touched) for m in found)
                    table.last_run = RunMetrics(work.run_id, commit.version, columns)
                yield commit
            except CommitConflict as conflict:
                failed = True
                yield GroupFailed((group.id,), conflict)


def _sources_of_moves(version: Version) -> list[str]:
    """The source columns of the partitioning, if files of an older one would move to it."""
    old = any(f.partition.spec_id != version.spec_id for f in version.files.values())
    return [field.source for field in version.fields] if old else []


def _rewrite(
    table: MemoryTable, pinned: Version, work: PlannedTable, group: Group, properties: Mapping[str, str]
) -> Commit:
    layout = work.layout
    paths = group.files.path.to_pylist()
    read = [pinned.files[path] for path in paths if path in pinned.files]
    if len(read) < len(paths):
        raise CommitConflict.of("ZL320", f"{len(paths) - len(read)} of {len(paths)} files changed meanwhile")
    rows = pa.concat_tables(f.live for f in read)
    record = LayoutRecord(layout.layout_id, layout.recorded_settings())
    new = [
        StoredFile(new_path(), part, partition, layout=record, group=group.id)
        for partition, inside in by_partition(rows, table.current)
        for part in _cut(inside, layout, max(1, round(group.target_files * len(inside) / len(rows))))
    ]
    new = _with_baselines(new, layout, table.current)
    if sum(len(f.rows) for f in new) != len(rows):
        raise EngineError.of("ZL310", "rows written differ from rows read; nothing was committed")
    version = table.replace_files(read, new, properties, work.run_id)
    return Commit(
        "rewrite",
        version,
        (group.id,),
        files_removed=len(read),
        files_added=len(new),
        bytes_removed=sum(f.rows.nbytes for f in read),
        bytes_added=sum(f.rows.nbytes for f in new),
        rows=len(rows),
    )


def _with_baselines(new: list[StoredFile], layout: Layout, version: Version) -> list[StoredFile]:
    """The new files of one group, with what was left in each partition."""
    columns = [column.name for column in layout.columns]
    files = _file_table(replace(version, files={f.path: f for f in new}), columns)
    left = measure_baselines(files, columns, files.partition, len(files.partitions))
    owners = files.partition.tolist()
    return [replace(f, baseline=left[at], group=f"{f.group}/{at}") for f, at in zip(new, owners, strict=True)]


def _cut(rows: pa.Table, layout: Layout, files: int) -> list[pa.Table]:
    """The rows as files, each a piece of the curve."""
    if files == 1 or not len(rows):
        return [rows] if len(rows) else []
    keys = {c.name: rows[c.name].combine_chunks() for c in layout.columns}
    built = build_map(keys, layout, files)
    where = built.locate(keys, np.arange(len(rows), dtype=np.int64))
    return [rows.filter(pa.array(where == file)) for file in np.unique(where)]


def columns_of(version: Version) -> tuple[Column, ...]:
    fields = zip(version.schema, version.ids, strict=True)
    return tuple(Column(f.name, f.type, _orderable(f.type), id=known) for f, known in fields)


def _last_written(version: Version) -> Int64:
    """When files without a layout record were last written to each partition, in the order of `_file_table`."""
    latest: dict[Partition, int] = {}
    for file in version.files.values():
        latest[file.partition] = max(latest.get(file.partition, 0), 0 if file.layout else file.written)
    return np.array(list(latest.values()), np.int64)


def _file_table(version: Version, columns: list[str]) -> FileTable:
    files = list(version.files.values())
    partitions = {key: n for n, key in enumerate(dict.fromkeys(f.partition for f in files))}
    records = {str(f.layout): f.layout for f in files if f.layout}
    order = list(records)
    groups = {name: n for n, name in enumerate(dict.fromkeys(f.group for f in files if f.layout))}
    return FileTable(
        path=pa.array([f.path for f in files], pa.string()),
        version_key=pa.array([f.version_key for f in files], pa.string()),
        rows=np.array([len(f.rows) for f in files], dtype=np.int64),
        deleted=np.array([len(f.deleted) for f in files], dtype=np.int64),
        shared_deletes=np.zeros(len(files), np.bool_),
        bytes=np.array([f.rows.nbytes for f in files], dtype=np.int64),
        partition=np.array([partitions[f.partition] for f in files], dtype=np.int32),
        partitions=tuple(partitions),
        layout=np.array([order.index(str(f.layout)) if f.layout else -1 for f in files], dtype=np.int32),
        layouts=present_records(records.values(), columns_of(version)),
        group=np.array([groups[f.group] if f.layout else -1 for f in files], dtype=np.int32),
        bounds={name: _bounds(files, name, version.schema.field(name).type) for name in columns},
        baselines={groups[f.group]: f.baseline for f in files if f.layout and f.baseline},
    )


def _bounds(files: Sequence[StoredFile], column: str, kind: pa.DataType) -> ColumnBounds:
    ends = [pc.min_max(f.rows[column]).as_py() for f in files]
    return ColumnBounds(
        lower=pa.array([e["min"] for e in ends], kind),
        upper=pa.array([e["max"] for e in ends], kind),
        null_count=np.array([f.rows[column].null_count for f in files], dtype=np.int64),
        truncated=np.zeros(len(files), dtype=bool),
    )


def _orderable(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))
