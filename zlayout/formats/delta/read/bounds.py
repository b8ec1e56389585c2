"""Reads file bounds from Delta statistics, with the meaning that they have for Spark's file skipping."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.formats.delta.read.schema import STRING_PREFIX_DEFAULT, Leaf
from zlayout.table.state import ColumnBounds

# Delta truncates timestamps in statistics to milliseconds, so its readers add one millisecond to the maximum.
_MILLISECOND = 1000
# A maximum that Spark truncated ends in one of these characters (StatisticsCollection.truncateMaxStringAgg). A
# truncated minimum has the length `delta.dataSkippingStringPrefixLength` (default 32), or one more if that would split
# a surrogate pair. Values that are not truncated may have it too, so it counts only if some maximum of the column is
# truncated. The log does not store the length that was set when a file was written; the default length counts too.
_TIE_BREAKERS = ("\x7f", "\U0010ffff")
# Writers that copy the statistics of Parquet files, such as delta-rs, truncate both bounds to this number of bytes and
# round the maximum up, without a mark.
_PARQUET_LENGTH = 64


def read_bounds(
    adds: pa.Table, wanted: Sequence[Leaf], without: Collection[str], prefix: int = STRING_PREFIX_DEFAULT
) -> dict[str, ColumnBounds]:
    """Return the bounds of leaf columns by name.

    Args:
        adds: The result of `DeltaTable.get_add_actions(flatten=False)`, one row per file. The structs min, max and
            null_count have physical names.
        without: Names of partition columns, which have no bounds.
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
        later = pc.add(upper.cast(pa.int64()), _MILLISECOND)
        upper = later.cast(leaf.type)
    return ColumnBounds(lower, upper, null_count.to_numpy(zero_copy_only=False), truncated)


def _statistic(adds: pa.Table, name: str, path: Sequence[str], kind: pa.DataType) -> pa.Array:
    if name not in adds.column_names:
        return pa.nulls(adds.num_rows, kind)
    column = adds[name].combine_chunks()
    for part in path:
        names = [field.name for field in column.type] if pa.types.is_struct(column.type) else []
        if part not in names:
            return pa.nulls(adds.num_rows, kind)
        column = pc.struct_field(column, [names.index(part)])
    return column.cast(kind)


def _truncated(lower: pa.Array, upper: pa.Array, prefix: int) -> NDArray[np.bool_]:
    marked = pc.or_(pc.ends_with(upper, _TIE_BREAKERS[0]), pc.ends_with(upper, _TIE_BREAKERS[1]))
    parts = [marked, *(pc.equal(pc.binary_length(side), _PARQUET_LENGTH) for side in (lower, upper))]
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
