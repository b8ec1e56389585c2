"""The observed state of a table: `TableState`, and its live data files in the columnar `FileTable`.

A `TableState` is read from metadata alone and has the same form for every format. A file is a row of columns and not a
Python object, because a table may have a million files. The functions at the end count, join and replace files.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.errors import Diagnostic
from zlayout.table.external import ExternalRewrite, Ordering
from zlayout.table.partition import Partition as Partition
from zlayout.table.partition import PartitionField as PartitionField

# The reserved names: those of the columns that engine zlayout adds to rows during a rewrite.


PREFIX = "__zlayout_"


def reserved_refusals(names: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return ZL260 if some of these columns have reserved names, in any letter case; empty if none has.

    Spark could not distinguish such a column from the one that zlayout adds.
    """
    if not (found := sorted({name for name in names if name.lower().startswith(PREFIX)})):
        return ()
    message = f"columns whose names begin with {PREFIX}, which a rewrite uses itself: {', '.join(found)}"
    return (Diagnostic("ZL260", message, "refused", "rename them by ALTER TABLE ... RENAME COLUMN"),)


Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Bools = NDArray[np.bool_]
Float64 = NDArray[np.float64]
ArrowGather = Callable[[pa.Array], pa.Array]
NumpyGather = Callable[[NDArray[Any]], NDArray[Any]]
# The bound length, in characters, that zlayout requests for a column with indistinct bounds. URLs and file paths differ
# within this length.
LONG_BOUND = 256
# The fields of `FileTable` with one value per file, by the library that stores them.
ARROW_COLUMNS = ("path", "version_key")
NUMPY_COLUMNS = ("rows", "deleted", "shared_deletes", "bytes", "partition", "layout", "group")


def is_text(type_: pa.DataType) -> bool:
    """Whether writers may truncate bounds of this type: string or binary, not large or a view."""
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))


@dataclass(frozen=True, slots=True)
class LayoutRecord:
    """What the table stores about laid-out files.

    `zlayout.spec.semantics` converts id and settings to the present names of the columns.

    Attributes:
        layout_id: The layout id.
        settings: The layout settings; empty if they are not recorded.
        renamed: For each z-order column that was renamed after the files were laid out, its present name by its former
            name.
    """

    layout_id: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)


def are_settings(value: object) -> bool:
    """Whether a stored value has the form of `Layout.settings`: plain values or lists of columns, by name."""
    return isinstance(value, dict) and all(
        all(map(_is_column, v)) if isinstance(v, list) else _is_plain(v) for v in value.values()
    )


def _is_column(value: object) -> bool:
    return all(map(_is_plain, value.values())) if isinstance(value, dict) else _is_plain(value)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


SIGNIFICANT_DIGITS = 4
# A stored baseline that exceeds one of these limits is ignored.
MAX_BASELINE_LENGTH = 512  # characters
MAX_BASELINE_FILES = 1 << 40


@dataclass(frozen=True, slots=True)
class Baseline:
    """What one rewrite wrote for one group.

    The table stores it as text: the number of files and touched of each z-order column, for example `60 3.52 2.94`.

    Attributes:
        files: The number of files.
        touched: Touched among these files for each z-order column, in the order of the layout.
    """

    files: int
    touched: tuple[float, ...]

    def __str__(self) -> str:
        return " ".join((str(self.files), *(f"{value:.{SIGNIFICANT_DIGITS}g}" for value in self.touched)))


def parse_baseline(text: object) -> Baseline | None:
    """Parse a stored baseline. Return None for anything that is not a valid baseline."""
    if not isinstance(text, str) or len(text) > MAX_BASELINE_LENGTH or not text.isascii():
        return None
    first, *others = text.split(" ")
    try:
        files, touched = int(first), tuple(map(float, others))
    except ValueError:
        return None
    if not touched or not 0 < files <= MAX_BASELINE_FILES:
        return None
    # touched is rounded, so that it may be slightly above the number of files
    if not all(math.isfinite(value) and 0 <= value <= 1.001 * files for value in touched):
        return None
    return Baseline(files, touched)


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf column.

    Attributes:
        name: The dotted name.
        type: The Arrow type of its bounds.
        orderable: Whether values of the type have an order, so that it can be a z-order column.
        stats: Whether writers collect min and max of it.
        enable_stats: If they do not, the table properties (name, value) that make them do so.
        longer_bounds: The table properties that make writers keep LONG_BOUND characters of a bound; empty if they
            already do.
        bound_length: The number of characters (bytes for binary) to which writers truncate bounds; None if they do not.
        id: The column id, '' if unknown.
        distinct: The number of distinct values that the table's statistics state for the observed version; None if
            they state none.
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
    """The bounds of one column in N files.

    Attributes:
        lower: The lower bounds: N values of the column's type, null where the metadata has no bound.
        upper: The upper bounds, likewise.
        null_count: int64[N], -1 where unknown. A file whose null_count equals its rows has no value.
        truncated: bool[N], whether the lower or the upper bound is truncated.
    """

    lower: pa.Array
    upper: pa.Array
    null_count: Int64
    truncated: NDArray[np.bool_]

    def gathered(self, from_arrow: ArrowGather, from_numpy: NumpyGather) -> ColumnBounds:
        """The bounds of some files, which the two functions select from an Arrow array and from a numpy array."""
        lower, upper = from_arrow(self.lower), from_arrow(self.upper)
        return ColumnBounds(lower, upper, from_numpy(self.null_count), from_numpy(self.truncated))


@dataclass(frozen=True, slots=True)
class FileTable:
    """N live data files in columns of length N.

    Attributes:
        path: string, as in the log or manifest. Each path is unique.
        version_key: string, what identifies the deletes of the file at this version (the id of its deletion vector, or
            the paths of its delete files); '' if it has none.
        rows: int64, the number of rows, including deleted rows.
        deleted: int64, the number of deleted rows.
        shared_deletes: bool, whether `deleted` is an estimate from delete files that also apply to other files. It
            increases when those files are rewritten.
        bytes: int64, the size on storage.
        partition: int32, the index into `partitions`.
        partitions: The partitions.
        layout: int32, the index into `layouts`, -1 for a file without a layout record.
        layouts: The layout records.
        group: int32, equal for the files of one laid-out group, -1 for a file without a layout record.
        bounds: By name, the bounds of each requested column.
        baselines: By number of the laid-out group, where the table stores a baseline.
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
        """int64[N]: rows minus deleted rows, at least 0: a row that is deleted twice is counted twice in `deleted`."""
        live: Int64 = np.maximum(self.rows - self.deleted, 0)
        return live

    @property
    def live_bytes(self) -> Float64:
        """float64[N]: the size of the live rows, if all rows of a file have the same size.

        They are whole numbers, so that sums do not depend on their order.
        """
        live = self.bytes.astype(np.float64)
        some = np.flatnonzero((self.deleted > 0) & (self.rows > 0))
        live[some] = np.rint(live[some] * (self.live_rows[some] / self.rows[some]))
        return live

    def target_files(self, target_size: int) -> int:
        """The number of files that a rewrite of all these files writes: see `target_files`."""
        return int(target_files(self.live_bytes.sum(), target_size))

    def rows_with_value(self, column: str) -> Float64:
        """float64[N]: live rows minus nulls of a column, at least 0: a deleted row may be counted as a null, too."""
        nulls = np.maximum(self.bounds[column].null_count, 0)
        return np.maximum(self.live_rows - nulls, 0).astype(np.float64)

    def take(self, index: NDArray[np.int64]) -> FileTable:
        """The files at the indices, in that order. `partitions` and `layouts` stay complete."""
        if len(index) == len(self) and (index == np.arange(len(self))).all():
            return self
        rows = pa.array(index)
        return self._gathered(lambda column: column.take(rows), lambda column: column[index])

    def split(self, parts: Sequence[NDArray[np.int64]]) -> tuple[FileTable, ...]:
        """The files at the indices of each part.

        All files are copied once, and each result is a view of the copy, so that a thousand parts take the time of one.
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
        """large_string[N]: path and version_key, joined. It changes exactly if the file or its deletes change."""
        return identities((self,))


# A file table without files.
NO_FILES = FileTable(
    path=pa.array([], pa.string()),
    version_key=pa.array([], pa.string()),
    rows=np.zeros(0, np.int64),
    deleted=np.zeros(0, np.int64),
    shared_deletes=np.zeros(0, np.bool_),
    bytes=np.zeros(0, np.int64),
    partition=np.zeros(0, np.int32),
    partitions=(),
    layout=np.zeros(0, np.int32),
    layouts=(),
    group=np.zeros(0, np.int32),
    bounds={},
)


def target_files(live_bytes: NDArray[Any] | np.float64, target_size: float) -> Int64:
    """Return the number of files of `target_size` bytes that each of G groups of files becomes; at least one.

    The rewrite writes as many, and plan, budget, decay, merging, simulation, pictures and advice state them.

    Args:
        live_bytes: float64[G], the sum of `FileTable.live_bytes` of each group.
        target_size: The declared size of a file in bytes.
    """
    number: Int64 = np.maximum(np.rint(live_bytes / target_size), 1).astype(np.int64)
    return number


def identities(parts: Sequence[FileTable]) -> pa.Array:
    """large_string: `FileTable.identity` of all parts, concatenated."""
    return pc.binary_join_element_wise(*identity_columns(parts), pa.scalar("\x00", pa.large_string()))


def identity_columns(parts: Sequence[FileTable]) -> list[pa.Array]:
    """path and version_key of all parts, large_string each, concatenated."""
    columns = ([part.path for part in parts], [part.version_key for part in parts])
    whole = (pa.chunked_array(column, None if column else pa.string()) for column in columns)
    return [column.cast(pa.large_string()).combine_chunks() for column in whole]


@dataclass(frozen=True, slots=True)
class PartitionRefusal:
    """Why some partitions of a table must not be rewritten, although the others may be.

    Attributes:
        found: What their files have, for messages.
        files: bool[N], the files of the table for which this holds. Their partitions must not be rewritten.
        column: The partition column whose values are the reason; empty if it is another one, which also holds if rows
            are moved to another partitioning.
        zone: Whether the reason is a time zone that is not known, which `partition_timezone` of the layout spec states.
    """

    code: str
    found: str
    hint: str
    files: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    column: str = ""
    zone: bool = False


# What helps if the metadata of a table has wrong numbers of rows.
WRONG_ROW_COUNTS = (
    "compare the footers of the files with the metadata; rewrite the files by the format's own command, OPTIMIZE or "
    "rewrite_data_files, which writes the right numbers"
)


def null_values(column: str) -> PartitionRefusal:
    """Return ZL245 for files with nulls in a column that must not have any."""
    found = f"null in the column {column}, which must not be null"
    hint = f"replace the nulls by UPDATE, or ALTER TABLE ... ALTER COLUMN {column} DROP NOT NULL"
    return PartitionRefusal("ZL245", found, hint)


@dataclass(frozen=True, slots=True)
class TableState:
    """One observation of one table.

    Attributes:
        table: The dotted name.
        format: The name of the format.
        location: The storage location.
        table_id: The unique id that the format gives the table.
        version: The version of a Delta table, or the snapshot id of an Iceberg table; -1 for one without a snapshot.
        schema_digest: A digest of the schema.
        columns: The leaf columns.
        partition_fields: The partitioning.
        spec_id: The id of the partitioning among the partition specs of the table.
        properties: The table properties.
        features: The table features that are switched on, as the format names them (Delta's table features, and
            `format-version=2` for Iceberg).
        refusals: The reasons why zlayout must not rewrite the table.
        files: The live data files.
        notes: What is not exact in the observation, for example estimated row counts.
        maintainers: The services that rewrite files of the table by themselves, as warnings (ZL433).
        ordering: The external ordering of a table without laid-out files; None if the table reports none.
        rewrites: The external rewrites; empty if the history does not show that zlayout has rewritten the table.
        from_catalog: Whether a catalog returned the location for the name, so that the name may lead to another
            location later.
        clustering: The clustering columns of a table with liquid clustering, empty after CLUSTER BY NONE; None for
            another table.
        last_written: int64[P], when another writer last wrote to each partition, in milliseconds since 1970 (0 if
            unknown); int64[0] if no time is known.
        future_times: The number of files or commits whose times are in the future, so that `last_written` has another.
        files_outside: The number of live files, including those with deletes, that are outside of `location`.
        estimated_deletes: Whether the number of deleted rows of any file is an estimate.
        partition_refusals: The reasons why zlayout must not rewrite some partitions.
        required: The names of the top-level columns that every file must have, because they must not be null.
        can_rebase: Whether a rewrite can be rebased onto DELETE, UPDATE and MERGE: according to the table properties,
            these mark rows as deleted and leave the files in place, and equal rows can be recognized.
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
    maintainers: tuple[Diagnostic, ...] = ()
    ordering: Ordering | None = None
    rewrites: tuple[ExternalRewrite, ...] = ()
    from_catalog: bool = False
    clustering: tuple[str, ...] | None = None
    last_written: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    future_times: int = 0
    files_outside: int = 0
    estimated_deletes: bool = False
    partition_refusals: tuple[PartitionRefusal, ...] = ()
    required: tuple[str, ...] = ()
    can_rebase: bool = False

    def columns_of(self, names: Iterable[str]) -> tuple[Column, ...]:
        """The columns of these names. Raises KeyError for an unknown one; `zlayout.spec.semantics` finds it first."""
        known = {column.name: column for column in self.columns}
        return tuple(known[name] for name in names)

    def column(self, name: str) -> Column | None:
        """The column of this name, None if it does not exist."""
        return next((c for c in self.columns if c.name == name), None)


# Counts, sums and maxima per class, for example over the files of each partition.
#
# In every function, `of` is the class of each item, an integer from 0 to `number` - 1.


def counts(of: NDArray[np.integer[Any]], number: int) -> Int64:
    """int64[number]: the number of items of each class."""
    if number == 1:
        return np.array([len(of)])
    return np.bincount(of, minlength=number)


def sums(of: NDArray[np.integer[Any]], number: int, values: NDArray[Any]) -> Float64:
    """float64[number]: the sum of `values`, one for each item, in each class.

    For a single class, `sum` is ten times as fast as `bincount`, in which each addition depends on the previous one.
    """
    if number == 1:
        return np.array([values.sum()], np.float64)
    return np.bincount(of, values, number).astype(np.float64, copy=False)  # without values it returns integers


def maxima(of: NDArray[np.integer[Any]], number: int, values: Int64) -> Int64:
    """int64[number]: the largest of `values`, one for each item, in each class. It is 0 if none is above 0."""
    largest = np.zeros(number, np.int64)
    np.maximum.at(largest, of, values)
    return largest


# Computations in threads, where this is faster, because numpy, Arrow and hashlib release the interpreter lock.


K = TypeVar("K")
S = TypeVar("S")
T = TypeVar("T")

MIN_FILES_FOR_THREADS = 50_000
# More threads than cores save no time, and each needs about 0.4 GB for a million files.
MAX_THREADS = max(os.cpu_count() or 1, 2)


def side_by_side(measure: Callable[[K], T], items: Sequence[K], files: int) -> list[T]:
    """The result of `measure` for each item, in order. Threads are used for at least MIN_FILES_FOR_THREADS files."""
    if files < MIN_FILES_FOR_THREADS or len(items) < 2:
        return [measure(item) for item in items]
    with ThreadPoolExecutor(min(len(items), MAX_THREADS)) as pool:
        return list(pool.map(measure, items))


def both(one: Callable[[], S], other: Callable[[], T], files: int) -> tuple[S, T]:
    """The results of both functions. One runs in a thread under the condition of `side_by_side`."""
    if files < MIN_FILES_FOR_THREADS:
        return one(), other()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(other)
        return one(), second.result()


def pieces(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    """The start and the end of each piece of the range from `start` to `stop`, in order.

    Every piece has the length `size`, except for the last one, which may be shorter.
    """
    return list(pairwise([*range(start, stop, size), stop]))


# Concatenation of file tables and bounds, and the file table after a rewrite.


def joined(parts: Sequence[FileTable]) -> FileTable:
    """The files of all parts, in order.

    Args:
        parts: At least one file table. Each has the bounds of the columns of the first one. The indices `partition` and
            `layout` of each refer to the partitions and layouts of the last one. A group has the same number in all.
    """
    first = parts[0]
    columns: dict[str, Any] = {
        name: _joined([getattr(part, name) for part in parts], getattr(first, name).type) for name in ARROW_COLUMNS
    }
    columns |= {name: np.concatenate([getattr(part, name) for part in parts]) for name in NUMPY_COLUMNS}
    return replace(
        parts[-1],
        **columns,
        bounds={name: joined_bounds([part.bounds[name] for part in parts]) for name in first.bounds},
        baselines={number: baseline for part in parts for number, baseline in part.baselines.items()},
    )


def joined_bounds(parts: Sequence[ColumnBounds]) -> ColumnBounds:
    """The bounds of all parts, in order, cast to the type of the first part."""
    type_ = parts[0].lower.type
    return ColumnBounds(
        _joined([part.lower for part in parts], type_),
        _joined([part.upper for part in parts], type_),
        np.concatenate([part.null_count for part in parts]),
        np.concatenate([part.truncated for part in parts]),
    )


def _joined(columns: Sequence[pa.Array | pa.ChunkedArray], type_: pa.DataType) -> pa.Array:
    flat = (c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns)
    return pa.concat_arrays([column if column.type == type_ else column.cast(type_) for column in flat])


def replaced(files: FileTable, removed: Sequence[pa.Array], added: Sequence[FileTable]) -> FileTable:
    """Return the live files after a rewrite: `files` that were not removed, then the new files.

    The result has no layout records and no baselines.

    Args:
        files: The live files before the rewrite, with the bounds of some columns.
        removed: The paths of the removed files, in one or several arrays.
        added: The new files, with the bounds of the same columns.
    """
    gone = pa.chunked_array([paths.cast(pa.large_string()) for paths in removed], pa.large_string())
    kept = pc.invert(pc.is_in(files.path.cast(pa.large_string()), value_set=gone)).to_numpy(zero_copy_only=False)
    number = {partition: at for at, partition in enumerate(files.partitions)}
    parts = [files.take(np.flatnonzero(kept))]
    for part in added:
        own = np.array([number.setdefault(p, len(number)) for p in part.partitions], np.int32)
        parts.append(replace(part, partition=own[part.partition]))
    none = np.full(sum(map(len, parts)), -1, np.int32)
    return replace(joined(parts), partitions=tuple(number), layout=none, layouts=(), group=none, baselines={})
