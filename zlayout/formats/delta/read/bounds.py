"""File bounds from Delta statistics, as Spark uses them for file skipping."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.formats.delta.read.schema import STRING_PREFIX_DEFAULT, Leaf
from zlayout.table.state import ColumnBounds

# Delta cuts statistics of timestamps to milliseconds, so its readers add one millisecond to the maximum.
_MILLISECOND = 1000
# A cut maximum ends in one of these (StatisticsCollection.truncateMaxStringAgg); a cut minimum is as long as the prefix
# or one more, where that would split a surrogate pair. The prefix is `delta.dataSkippingStringPrefixLength`, 32 unless
# changed. Which one was in force when a file was written is not recorded, so the lengths of both count as cut.
_TIE_BREAKERS = ("\x7f", "\U0010ffff")


def read_bounds(
    adds: pa.Table, wanted: Sequence[Leaf], without: Collection[str], prefix: int = STRING_PREFIX_DEFAULT
) -> dict[str, ColumnBounds]:
    """Return the bounds of leaf columns by name.

    Args:
        adds: `DeltaTable.get_add_actions(flatten=False)`, one row per file; the structs min, max and null_count have
            physical names.
        wanted: The columns.
        without: Names of columns without bounds, that is partition columns.
        prefix: Length in UTF-16 units at which the table's writers cut text now.
    """
    return {leaf.name: _bounds(adds, leaf, leaf.skippable and leaf.name not in without, prefix) for leaf in wanted}


def _bounds(adds: pa.Table, leaf: Leaf, known: bool, prefix: int) -> ColumnBounds:
    null_count = pc.fill_null(_statistic(adds, "null_count", leaf.physical, pa.int64()), -1)
    lower = _statistic(adds, "min", leaf.physical, leaf.type) if known else pa.nulls(adds.num_rows, leaf.type)
    upper = _statistic(adds, "max", leaf.physical, leaf.type) if known else pa.nulls(adds.num_rows, leaf.type)
    truncated = np.zeros(adds.num_rows, np.bool_)
    if pa.types.is_string(leaf.type):
        truncated = _cut(lower, upper, prefix)
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


def _cut(lower: pa.Array, upper: pa.Array, prefix: int) -> NDArray[np.bool_]:
    length = _utf16_length(lower)
    at_default = pc.and_(pc.greater_equal(length, STRING_PREFIX_DEFAULT), pc.less(length, STRING_PREFIX_DEFAULT + 2))
    long_lower = pc.or_(at_default, pc.greater_equal(length, prefix))
    marked = pc.or_(pc.ends_with(upper, _TIE_BREAKERS[0]), pc.ends_with(upper, _TIE_BREAKERS[1]))
    either = pc.or_(pc.fill_null(long_lower, False), pc.fill_null(marked, False))
    cut: NDArray[np.bool_] = either.to_numpy(zero_copy_only=False)
    return cut


def _utf16_length(text: pa.Array) -> pa.Array:
    """Length in UTF-16 units, in which Java counts: characters beyond the basic plane, four bytes in UTF-8, are two."""
    return pc.add(pc.utf8_length(text), pc.count_substring_regex(text, "[\U00010000-\U0010ffff]"))
