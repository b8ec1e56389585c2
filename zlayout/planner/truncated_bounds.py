"""Find string and binary bounds that are truncated so much that they do not distinguish files.

A truncated lower bound is a prefix of the smallest value. A truncated upper bound is slightly above a prefix of the
largest value. If values agree in as many characters as writers keep, all files have equal bounds. Such bounds are
indistinct: no layout lets queries skip files by them (docs/adr/0004-cut-bounds.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.planner.actions import TruncatedBounds
from zlayout.spec.model import LayoutSpec
from zlayout.table.order import common_length, distinct_rows
from zlayout.table.state import Bools, Column, ColumnBounds, FileTable, Int64, TableState, is_text

# The share of files with equal truncated bounds above which truncation prevents skipping.
MIN_SHARE_EQUAL = 0.25
# The share of a bound that may be a common prefix. If it is longer, too few characters are left to order files by.
MAX_SHARE_AGREEING = 0.25
# A layout by d columns gives equal bounds to N^((d-1)/d) of N files; truncation is the cause only above this multiple.
MAX_FACTOR_OF_LAYOUT = 1.5


def examine(files: FileTable, column: str, *, in_doubt: bool = True) -> TruncatedBounds | None:
    """Describe how the bounds of a column are truncated; None if they are not truncated or still distinguish files.

    Bounds distinguish files if most of them differ and the values have no long common prefix, as with hashes. Bounds of
    files that are not laid out show little of the values in between, so bounds with a long common prefix are reported
    too. in_doubt: false for a table whose length was chosen, for example by a sample, which is not doubted.
    """
    bounds = files.bounds.get(column)
    if bounds is None or not len(files):
        return None
    cut = _cut(bounds)
    if not cut.any():
        return None
    lengths = _length(bounds.lower)
    length = int(np.bincount(np.maximum(lengths[cut], 0)).argmax())
    repeated = max(
        _sharing(files.partition, side, cut & (_length(side) >= length)) for side in (bounds.lower, bounds.upper)
    )
    alike = _common_prefix(bounds, cut) >= max(1, MAX_SHARE_AGREEING * length)
    equal = _sharing(files.partition, bounds.lower, _one_prefix(bounds))
    if repeated < MIN_SHARE_EQUAL * len(files) and not (alike and in_doubt):
        return None
    return TruncatedBounds(column, length, equal, len(files), same=equal >= MIN_SHARE_EQUAL * len(files) and equal > 1)


def indistinct_partitions(spec: LayoutSpec, state: TableState) -> Bools:
    """Return the partitions, bool[P], whose bounds are indistinct and can be made longer.

    Columns whose bounds cannot be made longer are ignored. A rewrite for this reason is therefore never planned twice.
    """
    indistinct = np.zeros(len(state.files.partitions), bool)
    for column in _columns(spec, state):
        if column.longer_bounds:
            indistinct |= _indistinct(state.files, column.name, len(spec.layout.columns))
    return indistinct


def worth_longer(spec: LayoutSpec, state: TableState, chosen: Sequence[Int64]) -> tuple[TruncatedBounds, ...]:
    """Return the columns whose bounds should be longer in the rewritten files.

    chosen: for each group, int64 indices of its files.
    """
    columns = [column for column in _columns(spec, state) if column.longer_bounds]
    if not chosen or not columns:
        return ()
    files, found = state.files.take(np.concatenate(chosen)), []
    for column in columns:
        length_chosen = any(key in state.properties for key, _ in column.longer_bounds)
        cut = examine(files, column.name, in_doubt=not length_chosen)
        if cut is None:  # `examine` misses partitions with indistinct bounds if other partitions have more files
            indistinct = _indistinct(files, column.name, len(spec.layout.columns))
            cut = examine(files.take(np.flatnonzero(indistinct[files.partition])), column.name)
        found += [cut] if cut else []
    return tuple(found)


def indistinct_anyway(spec: LayoutSpec, state: TableState) -> tuple[TruncatedBounds, ...]:
    """Return the columns whose bounds are indistinct although the table already keeps long bounds."""
    found = []
    for column in _columns(spec, state):
        cut = None if column.longer_bounds else examine(state.files, column.name)
        if cut is not None and cut.same and _indistinct(state.files, column.name, len(spec.layout.columns)).any():
            found.append(cut)
    return tuple(found)


def _columns(spec: LayoutSpec, state: TableState) -> list[Column]:
    """Return the z-order columns with bounds that may be truncated."""
    found = (state.column(name) for name in spec.column_names)
    return [c for c in found if c and c.stats and is_text(c.type) and c.name in state.files.bounds]


def _indistinct(files: FileTable, column: str, keys: int) -> Bools:
    """Return the partitions, bool[P], in which too many files have the same truncated prefix.

    The limits are MIN_SHARE_EQUAL of the files, and MAX_FACTOR_OF_LAYOUT times the number that a layout leaves.
    """
    bounds = files.bounds[column]
    count = len(files.partitions)
    number = np.bincount(files.partition, minlength=count)
    narrow = np.flatnonzero(_one_prefix(bounds))
    codes = _codes(bounds.lower.take(pa.array(narrow)))
    pairs, group = distinct_rows([files.partition[narrow], codes])
    limit = np.maximum(1.0, MAX_FACTOR_OF_LAYOUT * number ** ((keys - 1) / keys))
    many = np.bincount(group) > limit[pairs[:, 0]]
    hit = np.bincount(files.partition[narrow][many[group]], minlength=count)
    indistinct: Bools = (hit > 1) & (hit >= MIN_SHARE_EQUAL * number)
    return indistinct


def _one_prefix(bounds: ColumnBounds) -> Bools:
    """Return the files, bool[N], whose two bounds are the same truncated prefix up to its last character."""
    one = np.zeros(len(bounds.lower), bool)
    cut = _cut(bounds)
    lengths = _length(bounds.lower)
    head = pc.utf8_slice_codeunits if pa.types.is_string(bounds.lower.type) else pc.binary_slice
    for length in np.unique(lengths[cut & (lengths > 1)]).tolist():
        rows = np.flatnonzero(cut & (lengths == length))
        index = pa.array(rows)
        low, high = (head(side.take(index), 0, length - 1) for side in (bounds.lower, bounds.upper))
        one[rows] = pc.fill_null(pc.equal(low, high), False).to_numpy(zero_copy_only=False)
    return one & (_length(bounds.upper) >= lengths)


def _cut(bounds: ColumnBounds) -> Bools:
    """Return the files, bool[N], with a truncated bound. Equal bounds are a single value that is not truncated."""
    if not is_text(bounds.lower.type):
        return np.zeros(len(bounds.lower), bool)
    differ = pc.fill_null(pc.not_equal(bounds.lower, bounds.upper), True).to_numpy(zero_copy_only=False)
    return np.asarray(bounds.truncated & differ, bool)


def _sharing(partition: NDArray[np.int32], side: pa.Array, cut: Bools) -> int:
    """Count the truncated bounds of one side that another file of the same partition has too."""
    rows = np.flatnonzero(cut)
    sizes = np.bincount(distinct_rows([partition[rows], _codes(side.take(pa.array(rows)))])[1])
    return int(sizes[sizes > 1].sum())


def _common_prefix(bounds: ColumnBounds, cut: Bools) -> int:
    """Return the length (characters or bytes) of the common prefix of the smallest and the largest truncated bound."""
    index = pa.array(np.flatnonzero(cut))
    low = pc.min_max(bounds.lower.take(index))["min"].as_py()
    high = pc.min_max(bounds.upper.take(index))["max"].as_py()
    return 0 if low is None or high is None else common_length(low, high)


def _length(side: pa.Array) -> Int64:
    """Return the length of each bound in characters (bytes of a binary column), int64[N]; -1 for no bound."""
    lengths = pc.utf8_length(side) if pa.types.is_string(side.type) else pc.binary_length(side)
    found: Int64 = pc.fill_null(lengths, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _codes(side: pa.Array) -> Int64:
    codes: Int64 = pc.fill_null(side.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
