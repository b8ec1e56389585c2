"""The observed state of a table: `TableState`, and its live data files in the columnar `FileTable`.

A `TableState` is read from metadata alone and has the same form for every format. Files are rows in columns and not
Python objects, because a table may have a million of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.errors import Diagnostic
from zlayout.table.baseline import Baseline
from zlayout.table.partition import Partition as Partition
from zlayout.table.partition import PartitionField as PartitionField

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Bools = NDArray[np.bool_]
Float64 = NDArray[np.float64]
ArrowGather = Callable[[pa.Array], pa.Array]
NumpyGather = Callable[[NDArray[Any]], NDArray[Any]]
# Length in characters of the bounds that a rewrite requests for columns with indistinct bounds. URLs and file paths
# differ within this length.
LONG_BOUND = 256
# The fields of `FileTable` with one value per file, by the library that stores them.
ARROW_COLUMNS = ("path", "version_key")
NUMPY_COLUMNS = ("rows", "deleted", "shared_deletes", "bytes", "partition", "layout", "group")
MAX_HISTORY_TEXT = 100  # characters of an operation or an engine in the history of a table
MAX_MILLISECONDS = 253_402_300_799_000  # the end of the year 9999


def is_text(kind: pa.DataType) -> bool:
    """Whether bounds of this type may be truncated."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


@dataclass(frozen=True, slots=True)
class LayoutRecord:
    """What the table stores about laid-out files: the layout id and, if they are recorded, the layout settings.

    Both are in terms of the present column names (`zlayout.spec.renames`). renamed: the present name of each z-order
    column that had another name when the files were laid out, by the former name.
    """

    layout_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)


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
    """The external ordering of a table. source: the text that names where the table records it."""

    columns: tuple[str, ...]
    curve: str
    source: str


@dataclass(frozen=True, slots=True)
class ExternalRewrite:
    """Rewrites of files by another writer since the last rewrite by zlayout.

    operation: as the table's history names it. version: of the newest commit. engine: what made it; may be empty.
    time: of the newest commit (UTC, naive), None if it is not recorded. commits: their number.
    """

    operation: str
    version: int
    engine: str
    time: datetime | None
    commits: int = 1


def external_rewrites(newest_first: Iterable[ExternalRewrite]) -> tuple[ExternalRewrite, ...]:
    """Merge the rewrites with the same operation and engine. The newest come first."""
    found: dict[tuple[str, str], ExternalRewrite] = {}
    for one in newest_first:
        key = (one.operation[:MAX_HISTORY_TEXT], one.engine[:MAX_HISTORY_TEXT])
        known = found.get(key, replace(one, operation=key[0], engine=key[1], commits=0))
        found[key] = replace(known, commits=known.commits + one.commits)
    return tuple(found.values())


def instant_of_milliseconds(value: object) -> datetime | None:
    """The time (UTC, naive) that milliseconds since 1970 are; None for another value."""
    if type(value) is not int or not 0 <= value < MAX_MILLISECONDS:
        return None
    return datetime(1970, 1, 1) + timedelta(milliseconds=value)


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf column under its dotted name.

    type: the Arrow type of its bounds. stats: whether writers collect min and max for it. enable_stats: if they do not,
    the table properties (name, value) that make them do so. longer_bounds: the table properties that make writers keep
    LONG_BOUND characters of a bound; empty if they already do. bound_length: the number of characters (bytes for
    binary) to which writers truncate bounds, None if they do not. id: the column id, which does not change when the
    column is renamed (Iceberg's field id, Delta's physical name); empty if unknown. distinct: the number of distinct
    values that the table's statistics state for the observed version, None if they state none.
    """

    name: str
    type: pa.DataType
    orderable: bool
    stats: bool = True
    enable_stats: tuple[tuple[str, str], ...] = ()
    longer_bounds: tuple[tuple[str, str], ...] = ()
    bound_length: int | None = None
    id: str = ""
    distinct: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """The file bounds of one column, of N files.

    lower, upper: Arrow arrays of the column's type, length N, null where the metadata has no bound.
    null_count: int64[N], -1 where unknown. A file whose null_count equals its rows has no value.
    truncated: bool[N], true where the lower or the upper bound is truncated.
    """

    lower: pa.Array
    upper: pa.Array
    null_count: Int64
    truncated: NDArray[np.bool_]

    def gathered(self, from_arrow: ArrowGather, from_numpy: NumpyGather) -> ColumnBounds:
        """The bounds of selected files. The two functions select them from an Arrow array and from a numpy array."""
        lower, upper = from_arrow(self.lower), from_arrow(self.upper)
        return ColumnBounds(lower, upper, from_numpy(self.null_count), from_numpy(self.truncated))


@dataclass(frozen=True, slots=True)
class FileTable:
    """The live data files, one row each, in columns of length N.

    path: string, as in the log or manifest, unique. version_key: string, identifies the deletes of the file at this
    version (deletion vector id or paths of delete files); empty if there are none.
    rows: int64, rows in the file, including deleted rows. deleted: int64, the deleted rows. shared_deletes: bool,
    whether `deleted` is an estimate from delete files that also apply to other files; it increases when those files are
    rewritten. bytes: int64, on disk.
    partition: int32, index into `partitions`. layout: int32, index into `layouts`, -1 for a file without a layout
    record. group: int32, equal for the files of one laid-out group, -1 for a file without a layout record.
    bounds: by name, for each requested column. baselines: by number of the group, where the table stores one.
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
    baselines: Mapping[int, Baseline] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.path)

    @property
    def live_rows(self) -> Int64:
        """int64[N]: rows minus deleted rows. It is at least 0, because a row may be deleted more than once."""
        live: Int64 = np.maximum(self.rows - self.deleted, 0)
        return live

    @property
    def live_bytes(self) -> Float64:
        """float64[N]: bytes in proportion to the live rows."""
        live = self.bytes.astype(np.float64)
        some = np.flatnonzero((self.deleted > 0) & (self.rows > 0))
        live[some] *= self.live_rows[some] / self.rows[some]
        return live

    def rows_with_value(self, column: str) -> Float64:
        """float64[N]: live rows minus nulls of a column. It is at least 0, because deleted rows may also be null."""
        nulls = np.maximum(self.bounds[column].null_count, 0)
        return np.maximum(self.live_rows - nulls, 0).astype(np.float64)

    def take(self, index: NDArray[np.int64]) -> FileTable:
        """The files at the indices, in that order. `partitions` and `layouts` are not reduced."""
        if len(index) == len(self) and (index == np.arange(len(self))).all():
            return self
        rows = pa.array(index)
        return self._gathered(lambda column: column.take(rows), lambda column: column[index])

    def split(self, parts: Sequence[NDArray[np.int64]]) -> tuple[FileTable, ...]:
        """The files at the indices of each part.

        The files are gathered once, and each result is a view, so that a thousand parts cost as much as one.
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
        columns: dict[str, Any] = {name: from_arrow(getattr(self, name)) for name in ARROW_COLUMNS}
        columns |= {name: from_numpy(getattr(self, name)) for name in NUMPY_COLUMNS}
        return replace(self, **columns, bounds={n: b.gathered(from_arrow, from_numpy) for n, b in self.bounds.items()})

    def identity(self) -> pa.Array:
        """large_string[N]: path and version_key joined. It does not change as long as the file does not change."""
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

    table: the dotted name. location: its storage location. from_catalog: whether a catalog was asked for the location,
    so that the name can lead to another one later. table_id: the format's uuid. version: Delta's version or
    Iceberg's snapshot id, -1 for a table without a snapshot. schema_digest: changes whenever the schema changes.
    partition_fields, spec_id: the partitioning. features: the enabled table features, under the names of the format
    (Delta table features, Iceberg `format-version=2`). refusals: the reasons why zlayout must not rewrite the table.
    notes: what is not exact in the observation (estimated row counts). ordering: the external ordering of a table
    without laid-out files; None if the table reports none. rewrites: what other writers rewrote since the last rewrite
    by zlayout; empty if zlayout has not rewritten the table, as far as its history shows. clustering: the clustering
    columns of a table that its format clusters, empty after CLUSTER BY NONE; None for another table. last_written:
    int64[P], when another writer last wrote to each partition, in milliseconds since 1970 (0 if unknown); empty if no
    time is known.
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
    rewrites: tuple[ExternalRewrite, ...] = ()
    from_catalog: bool = False
    clustering: tuple[str, ...] | None = None
    last_written: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def columns_of(self, names: Iterable[str]) -> tuple[Column, ...]:
        """The columns of these names. Raises KeyError for one that does not exist, which `semantics.check` reports."""
        known = {column.name: column for column in self.columns}
        return tuple(known[name] for name in names)

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name == name), None)
