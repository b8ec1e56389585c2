"""Reads the bounds and the row counts of files from Delta statistics.

Bounds have the meaning that they have for Spark's file skipping. Row counts that the log lacks are read from Parquet
footers or, for many files, estimated.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zlayout.errors import Diagnostic
from zlayout.formats.delta.read.schema import STRING_PREFIX_DEFAULT, Leaf
from zlayout.table.state import Bools, ColumnBounds, Int64

# Delta truncates timestamps in statistics to milliseconds, so its readers add one millisecond to the maximum.
_MICROSECONDS_PER_MILLISECOND = 1000
# A maximum that Spark truncated ends in one of these characters (StatisticsCollection.truncateMaxStringAgg). A
# truncated minimum has the length `delta.dataSkippingStringPrefixLength` (default 32), or one more if that would split
# a surrogate pair. A minimum that is not truncated may have this length too. So the length is considered only if some
# maximum of the column is truncated. The log does not store the property as it was when a file was written. Therefore
# a minimum of the default length counts as truncated too.
_TIE_BREAKERS = ("\x7f", "\U0010ffff")
# Writers that copy the statistics of Parquet files, such as delta-rs, truncate both bounds to this number of bytes and
# round the maximum up. They append no character that marks a truncated maximum.
_PARQUET_LENGTH_BYTES = 64
# Reading a footer takes one or two requests. If more files than this have no row count, row counts are estimated.
_MAX_FOOTERS = 64
_FOOTER_THREADS = 8


def read_bounds(
    adds: pa.Table, wanted: Sequence[Leaf], without: Collection[str], prefix: int
) -> dict[str, ColumnBounds]:
    """Return the bounds of leaf columns by name.

    Args:
        adds: The result of `DeltaTable.get_add_actions(flatten=False)`, one row per file. The structs min, max and
            null_count have physical names.
        without: The names of partition columns, whose bounds are null.
        prefix: The length in UTF-16 units to which the table's writers now truncate string bounds.
    """
    return {leaf.name: _bounds(adds, leaf, leaf.skippable and leaf.name not in without, prefix) for leaf in wanted}


def recorded_columns(adds: pa.Table, leaves: Sequence[Leaf]) -> frozenset[str] | None:
    """Return the names of the leaf columns of which a file has a minimum; None if there are no files."""
    if not adds.num_rows:
        return None
    known = (leaf for leaf in leaves if leaf.skippable)
    return frozenset(
        leaf.name for leaf in known if _statistic(adds, "min", leaf.physical, leaf.type).null_count < adds.num_rows
    )


def _bounds(adds: pa.Table, leaf: Leaf, known: bool, prefix: int) -> ColumnBounds:
    null_count = pc.fill_null(_statistic(adds, "null_count", leaf.physical, pa.int64()), -1)
    lower = _statistic(adds, "min", leaf.physical, leaf.type) if known else pa.nulls(adds.num_rows, leaf.type)
    upper = _statistic(adds, "max", leaf.physical, leaf.type) if known else pa.nulls(adds.num_rows, leaf.type)
    truncated = np.zeros(adds.num_rows, np.bool_)
    if pa.types.is_string(leaf.type):
        truncated = _truncated(lower, upper, prefix)
    elif pa.types.is_timestamp(leaf.type):
        later = pc.add(upper.cast(pa.int64()), _MICROSECONDS_PER_MILLISECOND)
        upper = later.cast(leaf.type)
    return ColumnBounds(lower, upper, null_count.to_numpy(zero_copy_only=False), truncated)


def _statistic(adds: pa.Table, name: str, path: Sequence[str], type_: pa.DataType) -> pa.Array:
    """Return one statistic (min, max or null_count) of the leaf column with this physical path, null if missing."""
    if name not in adds.column_names:
        return pa.nulls(adds.num_rows, type_)
    column = adds[name].combine_chunks()
    for part in path:
        names = [field.name for field in column.type] if pa.types.is_struct(column.type) else []
        if part not in names:
            return pa.nulls(adds.num_rows, type_)
        column = pc.struct_field(column, [names.index(part)])
    return column.cast(type_)


def _truncated(lower: pa.Array, upper: pa.Array, prefix: int) -> NDArray[np.bool_]:
    """Return for each file whether one of its two string bounds may be truncated. See `_TIE_BREAKERS`."""
    marked = pc.or_(pc.ends_with(upper, _TIE_BREAKERS[0]), pc.ends_with(upper, _TIE_BREAKERS[1]))
    parts = [marked, *(pc.equal(pc.binary_length(side), _PARQUET_LENGTH_BYTES) for side in (lower, upper))]
    if pc.any(marked).as_py():
        length = _utf16_length(lower)
        lengths = {n for start in (STRING_PREFIX_DEFAULT, prefix) for n in (start, start + 1)}
        parts.append(pc.is_in(length, pa.array(sorted(lengths), length.type)))
    truncated: NDArray[np.bool_] = np.logical_or.reduce(
        [pc.fill_null(part, False).to_numpy(zero_copy_only=False) for part in parts]
    )
    return truncated


def _utf16_length(text: pa.Array) -> pa.Array:
    """Return lengths in UTF-16 units, as in Java: a character beyond the basic multilingual plane counts as two."""
    return pc.add(pc.utf8_length(text), pc.count_substring_regex(text, "[\U00010000-\U0010ffff]"))


def complete_row_counts(
    storage: pa_fs.FileSystem, path: pa.Array, num_records: pa.ChunkedArray, sizes: Int64, outside: Bools
) -> tuple[Int64, tuple[Diagnostic, ...]]:
    """Complete the row counts that the log lacks, from Parquet footers or, for many files, from file sizes.

    Args:
        storage: The file system, rooted at the table.
        path: string[files], the paths as in the log.
        num_records: int64[files], the row counts in the log, null if missing.
        sizes: int64[files], the file sizes in bytes.
        outside: bool[files], the files outside of the location of the table, whose footers are not read.

    Returns:
        int64[files], the row counts, and a note ZL411 if some are estimates.
    """
    rows = pc.fill_null(num_records, -1).to_numpy().astype(np.int64)
    unknown = np.flatnonzero(rows < 0)
    if not len(unknown):
        return rows, ()
    rows = rows.copy()
    if len(unknown) <= _MAX_FOOTERS:
        readable = unknown[~outside[unknown]]
        names = path.take(pa.array(readable)).to_pylist()
        with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
            rows[readable] = list(pool.map(lambda name: _footer_rows(storage, name), names))
        unknown = np.flatnonzero(rows < 0)
    if not len(unknown):
        return rows, ()
    known = rows >= 0
    rows_per_byte = rows[known].sum() / max(int(sizes[known].sum()), 1) if known.any() else 0.01
    rows[unknown] = np.maximum(1, np.rint(sizes[unknown] * rows_per_byte)).astype(np.int64)
    note = Diagnostic(
        "ZL411",
        f"{len(unknown)} of {len(rows)} files have no row count in the log; it is estimated from the file size",
        "note",
        "run zlayout apply, which writes statistics for the files that it rewrites",
    )
    return rows, (note,)


def _footer_rows(storage: pa_fs.FileSystem, name: str) -> int:
    try:
        with storage.open_input_file(unquote(name)) as source:
            return int(pq.ParquetFile(source).metadata.num_rows)
    except (OSError, pa.ArrowException):
        return -1
