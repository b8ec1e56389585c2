"""Tables that live in memory: a log of immutable versions, files of Arrow rows, optimistic commits.

A commit names the files it read; it fails with CommitConflict when one of them is no longer live as it was read,
and is applied on top of whatever came in between. That is the contract of Delta and Iceberg both.
"""

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import CommitConflict, TableError
from zlayout.formats.base import RunMetrics
from zlayout.table.partition_values import transformed
from zlayout.table.state import Baseline, LayoutRecord, Partition, PartitionField


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One data file: its rows, which of them are deleted, its partition, and what laid it out."""

    path: str
    rows: pa.Table
    partition: Partition
    deleted: frozenset[int] = frozenset()
    layout: LayoutRecord | None = None
    group: str = ""
    baseline: Baseline | None = None
    written: int = 0  # milliseconds since 1970

    @property
    def live(self) -> pa.Table:
        """The rows that are not deleted."""
        if not self.deleted:
            return self.rows
        keep = np.ones(len(self.rows), dtype=bool)
        keep[list(self.deleted)] = False
        return self.rows.filter(pa.array(keep))

    @property
    def version_key(self) -> str:
        return ",".join(map(str, sorted(self.deleted)))


@dataclass(frozen=True, slots=True)
class Version:
    """The whole table at one version."""

    number: int
    schema: pa.Schema
    fields: tuple[PartitionField, ...] = ()
    spec_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    files: Mapping[str, StoredFile] = field(default_factory=dict)
    run_id: str = ""
    undoes: str = ""


class MemoryTable:
    """A table and its log. Writers append, delete, update and upsert as clients do; zlayout uses `replace_files`."""

    def __init__(self, schema: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        self.table_id = str(uuid.uuid4())
        ids = tuple(f"id-{number}" for number in range(len(schema)))
        self.log = [Version(0, schema, tuple(PartitionField(name) for name in partition_by), ids=ids)]
        self.specs = [self.log[0].fields]
        self.last_run: RunMetrics | None = None
        self._lock = threading.Lock()

    @property
    def current(self) -> Version:
        return self.log[-1]

    def rows(self) -> pa.Table:
        """All live rows."""
        return pa.concat_tables([self.current.schema.empty_table(), *(f.live for f in self.current.files.values())])

    def append(self, rows: pa.Table, files: int = 1, spec_id: int | None = None) -> None:
        """Add rows as `files` files in the order they come, each split by partition of the current or an older spec."""
        new = self._new_files(rows, files, spec_id)
        self._change(lambda v: {**v.files, **new})

    def upsert(self, rows: pa.Table, key: str, files: int = 1) -> None:
        """Add rows in one commit that marks the present rows with the same keys as deleted (merge on read)."""
        new = self._new_files(rows, files, None)
        same = pc.field(key).isin(rows[key].combine_chunks())
        self._change(lambda v: {f.path: _mark(f, same) for f in v.files.values()} | new)

    def delete(self, condition: pc.Expression) -> None:
        """Delete the rows that match, by marking them (merge on read)."""
        self._change(lambda v: {f.path: _mark(f, condition) for f in v.files.values()})

    def update(self, condition: pc.Expression, column: str, value: Any) -> None:
        """Set `column` where the condition holds; files with such rows are written anew (copy on write)."""
        self._change(
            lambda v: {new.path: new for f in v.files.values() for new in _updated(f, condition, column, value)}
        )

    def expire(self) -> None:
        """Forget all versions but the current one."""
        with self._lock:
            del self.log[:-1]

    def compact(self) -> None:
        """Replace all files of each partition by one, in no particular order, as another tool would."""
        whole, version = self.rows(), self.current
        new = [StoredFile(new_path(), rows, partition) for partition, rows in by_partition(whole, version)]
        self._change(lambda _: {f.path: f for f in new})

    def rename(self, names: Mapping[str, str]) -> None:
        """Give columns other names (by their present ones); their ids stay. Partition columns keep their names."""

        def renamed(version: Version) -> Version:
            after = [names.get(name, name) for name in version.schema.names]
            files = {path: replace(f, rows=f.rows.rename_columns(after)) for path, f in version.files.items()}
            return replace(version, schema=version.schema.empty_table().rename_columns(after).schema, files=files)

        self._append_version(renamed)

    def set_properties(self, properties: Mapping[str, str]) -> int:
        return self._append_version(lambda v: replace(v, properties={**v.properties, **properties}))

    def set_partitioning(self, fields: tuple[PartitionField, ...]) -> int:
        """New files are partitioned by `fields`; one that it had before keeps its id, as in Iceberg."""
        if fields not in self.specs:
            self.specs.append(fields)
        return self._append_version(lambda v: replace(v, fields=fields, spec_id=self.specs.index(fields)))

    def replace_files(
        self,
        read: Sequence[StoredFile],
        new: Sequence[StoredFile],
        properties: Mapping[str, str] | None = None,
        run_id: str = "",
        undoes: str = "",
    ) -> int:
        """Swap `read` for `new`, and set properties. undoes: the run that this undoes.

        Raises CommitConflict when a file of `read` changed or went away meanwhile.
        """

        def swap(version: Version) -> Version:
            live = {(f.path, f.deleted) for f in version.files.values()}
            changed = [f.path for f in read if (f.path, f.deleted) not in live]
            if changed:
                raise CommitConflict.of("ZL320", f"{len(changed)} of {len(read)} files changed meanwhile")
            gone = {f.path for f in read}
            kept = {path: f for path, f in version.files.items() if path not in gone}
            files = {**kept, **{f.path: f for f in new}}
            changed = {**version.properties, **(properties or {})}
            return replace(version, files=files, properties=changed, run_id=run_id, undoes=undoes)

        return self._append_version(swap)

    def _new_files(self, rows: pa.Table, files: int, spec_id: int | None) -> dict[str, StoredFile]:
        step = -(-len(rows) // files)
        version = self.current
        if spec_id is not None:
            version = replace(version, fields=self.specs[spec_id], spec_id=spec_id)
        new = [
            StoredFile(new_path(), part, partition, written=int(time.time() * 1000))
            for start in range(0, len(rows), max(step, 1))
            for partition, part in by_partition(rows.slice(start, step), version)
        ]
        return {f.path: f for f in new}

    def _change(self, files: Callable[[Version], dict[str, StoredFile]]) -> int:
        return self._append_version(lambda v: replace(v, files=files(v)))

    def _append_version(self, change: Callable[[Version], Version]) -> int:
        with self._lock:
            before = replace(self.current, run_id="", undoes="")
            changed = replace(change(before), number=self.current.number + 1)
            self.log.append(changed)
            return changed.number


class MemoryCatalog:
    """Tables by the dotted name inside the catalog."""

    def __init__(self, tables: Mapping[str, MemoryTable]) -> None:
        self._tables = tables

    def load(self, identifier: tuple[str, ...]) -> MemoryTable:
        name = ".".join(identifier)
        if name not in self._tables:
            raise TableError.of("ZL102", f"table {name} does not exist", hint="create it, or correct `table:`")
        return self._tables[name]


def new_path() -> str:
    return f"memory-{uuid.uuid4()}"


def by_partition(rows: pa.Table, version: Version) -> list[tuple[Partition, pa.Table]]:
    """The rows apart by partition."""
    if not len(rows):
        return []
    if not version.fields:
        return [(Partition(version.spec_id, (), ()), rows)]
    values = [transformed(rows[f.source].combine_chunks(), f.transform).to_pylist() for f in version.fields]
    order: dict[tuple[Any, ...], list[int]] = {}
    for index, key in enumerate(zip(*values, strict=True)):
        order.setdefault(key, []).append(index)
    return [(Partition(version.spec_id, version.fields, key), rows.take(index)) for key, index in order.items()]


def _mark(file: StoredFile, condition: pc.Expression) -> StoredFile:
    numbered = file.rows.append_column("__position", pa.array(np.arange(len(file.rows))))
    hit = frozenset(numbered.filter(condition)["__position"].to_pylist())
    return replace(file, deleted=file.deleted | hit) if hit - file.deleted else file


def _updated(file: StoredFile, condition: pc.Expression, column: str, value: Any) -> list[StoredFile]:
    hit = len(file.live.filter(condition))
    if not hit:
        return [file]
    at, kind = file.rows.schema.get_field_index(column), file.rows.schema.field(column).type
    same = file.live.filter(~condition)
    changed = file.live.filter(condition).set_column(at, column, pa.array([value] * hit, kind))
    return [StoredFile(new_path(), pa.concat_tables([same, changed]), file.partition)]
