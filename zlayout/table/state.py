"""The observed state of a table: `TableState`, with one row for each live data file in the columnar `FileTable`.

A `TableState` is read from metadata alone and has the same form for every format. Files are rows of columns, never
objects: a table may have a million of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
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
ArrowGather = Callable[[pa.Array], pa.Array]
NumpyGather = Callable[[NDArray[Any]], NDArray[Any]]


# Characters that untruncated bounds may have: URLs and paths differ well before.
LONG_BOUND = 256


def is_text(kind: pa.DataType) -> bool:
    """Whether bounds of this type may be truncated."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


@dataclass(frozen=True, slots=True)
class LayoutRecord:
    """What the table stores about laid-out files: the layout id and, where recorded, the layout settings."""

    layout_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def are_settings(value: object) -> bool:
    """Whether a stored value has the form of `Layout.settings()`: names with plain values or lists of columns."""
    return isinstance(value, dict) and all(
        all(map(_is_column, v)) if isinstance(v, list) else _is_plain(v) for v in value.values()
    )


def _is_column(value: object) -> bool:
    return all(map(_is_plain, value.values())) if isinstance(value, dict) else _is_plain(value)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


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
    would make writers keep LONG_BOUND characters of text in a bound; empty where they keep as many already. `cut` is
    how many characters (bytes for binary) they keep now, None where they do not cut.
    """

    name: str
    type: pa.DataType
    orderable: bool
    stats: bool = True
    enable_stats: tuple[tuple[str, str], ...] = ()
    longer_bounds: tuple[tuple[str, str], ...] = ()
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Min and max of one column in each file.

    lower, upper: Arrow arrays of the column's type, length N. Null where the metadata has no bound.
    null_count: int64[N], -1 where unknown. A file whose null_count equals its rows has no value.
    truncated: bool[N], true where the lower or upper bound is a prefix (lower rounded down, upper up).
    """

    lower: pa.Array
    upper: pa.Array
    null_count: Int64
    truncated: NDArray[np.bool_]

    def gathered(self, from_arrow: ArrowGather, from_numpy: NumpyGather) -> ColumnBounds:
        """The bounds of selected files. The functions select them in Arrow arrays and in numpy arrays."""
        lower, upper = from_arrow(self.lower), from_arrow(self.upper)
        return ColumnBounds(lower, upper, from_numpy(self.null_count), from_numpy(self.truncated))


@dataclass(frozen=True, slots=True)
class FileTable:
    """The live data files, one row each, all columns of length N.

    path: as in the log or manifest, unique. version_key: what identifies the file at this version besides its path
    (deletion vector id, delete-file paths), empty string for nothing. rows: int64, physical rows; deleted: int64, the
    deleted ones of these; shared_deletes: bool, whether that is an estimate from delete files that also apply to other
    files, and so increases once these are rewritten. bytes: int64, on disk.
    partition: int32 index into `partitions`. layout: int32 index into `layouts`, -1 for a file that zlayout did
    not lay out. group: int32, equal for files written by one rewrite of one partition, -1 likewise.
    bounds: for each requested column.
    """

    path: pa.Array
    version_key: pa.Array
    rows: Int64
    deleted: Int64
    shared_deletes: NDArray[np.bool_]
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
        """int64[N]: rows minus deleted rows, at least 0, since delete counts may overlap."""
        live: Int64 = np.maximum(self.rows - self.deleted, 0)
        return live

    def take(self, index: NDArray[np.int64]) -> FileTable:
        """The files at `index` (int64), in that order; `partitions` and `layouts` stay whole."""
        if len(index) == len(self) and (index == np.arange(len(self))).all():
            return self
        rows = pa.array(index)
        return self._gathered(lambda column: column.take(rows), lambda column: column[index])

    def split(self, parts: Sequence[NDArray[np.int64]]) -> tuple[FileTable, ...]:
        """The files at each of the `parts` (int64 indices), in that order.

        All are gathered once, and each table is a view of its part, so that a thousand parts cost as much as one.
        """
        if not parts:
            return ()
        together = self.take(np.concatenate(parts))
        stops = np.cumsum([len(part) for part in parts]).tolist()
        return tuple(together._between(start, stop) for start, stop in pairwise([0, *stops]))

    def _between(self, start: int, stop: int) -> FileTable:
        length = stop - start
        return self._gathered(lambda column: column.slice(start, length), lambda column: column[start:stop])

    def _gathered(self, from_arrow: ArrowGather, from_numpy: NumpyGather) -> FileTable:
        return FileTable(
            path=from_arrow(self.path),
            version_key=from_arrow(self.version_key),
            rows=from_numpy(self.rows),
            deleted=from_numpy(self.deleted),
            shared_deletes=from_numpy(self.shared_deletes),
            bytes=from_numpy(self.bytes),
            partition=from_numpy(self.partition),
            partitions=self.partitions,
            layout=from_numpy(self.layout),
            layouts=self.layouts,
            group=from_numpy(self.group),
            bounds={name: b.gathered(from_arrow, from_numpy) for name, b in self.bounds.items()},
        )

    def identity(self) -> pa.Array:
        """large_string[N]: path and version_key joined; equal for a file as long as it is unchanged."""
        return identities((self,))


def identities(parts: Sequence[FileTable]) -> pa.Array:
    """large_string: `FileTable.identity` of all parts, concatenated."""
    return pc.binary_join_element_wise(*names(parts), pa.scalar("\x00", pa.large_string()))


def names(parts: Sequence[FileTable]) -> list[pa.Array]:
    """path and version_key of all parts, large_string each, concatenated."""
    columns = ([part.path for part in parts], [part.version_key for part in parts])
    whole = (pa.chunked_array(column, None if column else pa.string()) for column in columns)
    return [column.cast(pa.large_string()).combine_chunks() for column in whole]


@dataclass(frozen=True, slots=True)
class TableState:
    """One observation of one table.

    table: the dotted name; location: its storage location; table_id: the format's uuid; version: Delta's version or
    Iceberg's snapshot id, -1 for a table without a snapshot. schema_digest changes whenever the schema does.
    partition_fields and spec_id: how new files are partitioned. features: names of the format for enabled features
    (Delta table features, Iceberg `format-version=2`). refusals: why zlayout must not rewrite the table. notes: what
    in the observation is not exact (estimated row counts). ordering: the external ordering of a table without laid-out
    files; None if the table reports none.
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
