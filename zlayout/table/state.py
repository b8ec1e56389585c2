"""What a table is right now: `TableState`, with one columnar row for each live data file in `FileTable`.

A `TableState` is read from metadata alone and is the same for every format. Nothing here opens a data file.
Files are columns, never objects: a table may have a million of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.errors import Diagnostic
from zlayout.table.partition import Partition as Partition
from zlayout.table.partition import PartitionField as PartitionField

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


# Characters that a bound must be able to have for zlayout to call it long: URLs and paths differ well before.
LONG_BOUND = 256


@dataclass(frozen=True, slots=True)
class LayoutRecord:
    """What the table itself says about laid-out files: the layout's id and, where recorded, its settings."""

    layout_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ordering:
    """How the table itself says that others ordered its files. source: where it says so, in plain words."""

    columns: tuple[str, ...]
    curve: str
    source: str


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf column under its dotted name. `type` is the Arrow type that its bounds have.

    `stats` says whether the table's settings make writers collect min and max for it; where they do not,
    `enable_stats` are the table properties (name, value) that would turn them on. `longer_bounds` are those that
    would make writers keep LONG_BOUND characters of text in a bound; empty where they keep as many already.
    """

    name: str
    type: pa.DataType
    orderable: bool
    stats: bool = True
    enable_stats: tuple[tuple[str, str], ...] = ()
    longer_bounds: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Min and max of one column in each file.

    lower, upper: Arrow arrays of the column's type, length N. Null where the metadata has no bound.
    null_count: int64[N], -1 where unknown. A file whose null_count equals its rows holds no value to find.
    truncated: bool[N], true where the lower or upper bound is a cut prefix (lower rounded down, upper up).
    """

    lower: pa.Array
    upper: pa.Array
    null_count: Int64
    truncated: NDArray[np.bool_]

    def take(self, index: NDArray[np.int64]) -> ColumnBounds:
        return ColumnBounds(
            self.lower.take(pa.array(index)),
            self.upper.take(pa.array(index)),
            self.null_count[index],
            self.truncated[index],
        )


@dataclass(frozen=True, slots=True)
class FileTable:
    """The live data files, one row each, all columns of length N.

    path: as the log or manifest has it, unique. version_key: what else makes up the file's identity at this
    version (deletion vector id, delete-file paths), empty string for none. rows: int64, physical rows;
    deleted: int64, of those how many are deleted; bytes: int64, on disk.
    partition: int32 index into `partitions`. layout: int32 index into `layouts`, -1 for a file that zlayout did
    not lay out. group: int32, equal for files written by one rewrite of one partition, -1 likewise.
    bounds: for each requested column.
    """

    path: pa.Array
    version_key: pa.Array
    rows: Int64
    deleted: Int64
    bytes: Int64
    partition: Int32
    partitions: tuple[Partition, ...]
    layout: Int32
    layouts: tuple[LayoutRecord, ...]
    group: Int32
    bounds: Mapping[str, ColumnBounds]

    def __len__(self) -> int:
        return len(self.path)

    @property
    def live_rows(self) -> Int64:
        """int64[N]: rows less deleted rows, never below 0 (delete counts may overlap)."""
        live: Int64 = np.maximum(self.rows - self.deleted, 0)
        return live

    def take(self, index: NDArray[np.int64]) -> FileTable:
        """The files at `index` (int64), in that order; `partitions` and `layouts` stay whole."""
        rows = pa.array(index)
        return FileTable(
            path=self.path.take(rows),
            version_key=self.version_key.take(rows),
            rows=self.rows[index],
            deleted=self.deleted[index],
            bytes=self.bytes[index],
            partition=self.partition[index],
            partitions=self.partitions,
            layout=self.layout[index],
            layouts=self.layouts,
            group=self.group[index],
            bounds={name: b.take(index) for name, b in self.bounds.items()},
        )

    def identity(self) -> pa.Array:
        """large_string[N]: path and version_key in one; equal for a file exactly as long as it is unchanged."""
        parts = (column.cast(pa.large_string()) for column in (self.path, self.version_key))
        return pc.binary_join_element_wise(*parts, pa.scalar("\x00", pa.large_string()))

    def digest(self) -> str:
        """SHA-256 (hex) of the set of (path, version_key): equal sets of files have equal digests in any order."""
        return digest_of((self,))


def digest_of(parts: Iterable[FileTable]) -> str:
    """SHA-256 (hex) of a set of files that is given in parts, in any order (see `FileTable.digest`)."""
    keys = pa.concat_arrays([pa.array([], pa.large_string()), *(part.identity() for part in parts)])
    ordered = keys.take(pc.sort_indices(keys))
    sizes = pc.binary_length(ordered).to_numpy(zero_copy_only=False).astype("<i8")
    whole = hashlib.sha256(sizes.tobytes())
    whole.update("".join(ordered.to_pylist()).encode())
    return whole.hexdigest()


@dataclass(frozen=True, slots=True)
class TableState:
    """One observation of one table.

    table: the dotted name; location: where it lives; table_id: the format's own uuid; version: Delta's version or
    Iceberg's snapshot id, -1 for a table that has no snapshot yet. schema_digest changes whenever the schema does.
    partition_fields and spec_id: how new files are partitioned. features: the format's names of what is switched
    on (Delta table features, Iceberg `format-version=2`). refusals: why zlayout must not rewrite it, by name.
    notes: what in the observation is less than exact (row counts that had to be estimated). ordering: of a table of
    which zlayout laid out nothing, how others ordered it; None where nothing says so.
    """

    table: str
    format: str
    location: str
    table_id: str
    version: int
    schema_digest: str
    columns: tuple[Column, ...]
    partition_fields: tuple[PartitionField, ...]
    spec_id: int
    properties: Mapping[str, str]
    features: frozenset[str]
    refusals: tuple[Diagnostic, ...]
    files: FileTable
    notes: tuple[Diagnostic, ...] = ()
    ordering: Ordering | None = None

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)
