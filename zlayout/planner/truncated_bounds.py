"""Find string and binary bounds that are truncated so much that they do not distinguish files.

A truncated lower bound is a prefix of the smallest value. A truncated upper bound is slightly above a prefix of the
largest value. If values have a common prefix that is longer than the bounds which writers keep, the bounds of all files
are equal. Such bounds are indistinct: no layout lets queries skip files by them (docs/adr/0004-cut-bounds.md).
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

# Truncation prevents skipping if at least this share of the files has equal truncated bounds.
MIN_SHARE_EQUAL = 0.25
# If the common prefix of all bounds has at least this share of the length of a bound, too few characters are left to
# distinguish files.
MIN_SHARE_COMMON_PREFIX = 0.25
# A layout by d columns gives equal bounds to N^((d-1)/d) of N files. Only above this multiple of that number is
# truncation the cause.
MAX_FACTOR_OF_LAYOUT = 1.5


def examine(files: FileTable, column: str, *, in_doubt: bool = True) -> TruncatedBounds | None:
    """Describe how the bounds of a column are truncated; None if they are not truncated, or distinguish files.

    Truncated bounds distinguish files if most of them differ and have no long common prefix, as those of hashes. If
    they have a long common prefix, they may be too short even if most of them differ, because bounds of files that are
    not laid out do not show the values between them.

    Args:
        files: The files.
        column: The name of the column.
        in_doubt: Whether bounds with a long common prefix count as too short. False for a table with a chosen bound
            length, for example from a sample.
    """
    bounds = files.bounds.get(column)
    if bounds is None or not len(files):
        return None
    truncated = _truncated(bounds)
    if not truncated.any():
        return None
    lengths = _length(bounds.lower)
    length = int(np.bincount(np.maximum(lengths[truncated], 0)).argmax())
    repeated = max(
        _repeated(files.partition, side, truncated & (_length(side) >= length)) for side in (bounds.lower, bounds.upper)
    )
    alike = _common_prefix(bounds, truncated) >= max(1, MIN_SHARE_COMMON_PREFIX * length)
    equal = _repeated(files.partition, bounds.lower, _one_prefix(bounds))
    if repeated < MIN_SHARE_EQUAL * len(files) and not (alike and in_doubt):
        return None
    return TruncatedBounds(column, length, equal, len(files), same=equal >= MIN_SHARE_EQUAL * len(files) and equal > 1)


def indistinct_partitions(spec: LayoutSpec, state: TableState) -> Bools:
    """Return the partitions, bool[P], whose bounds are indistinct and can be made longer.

    Columns for which the table already keeps long bounds are ignored, so that no second rewrite is planned for this
    reason.
    """
    indistinct = np.zeros(len(state.files.partitions), bool)
    for column in _columns(spec, state):
        if column.longer_bounds:
            indistinct |= _indistinct(state.files, column.name, len(spec.layout.columns))
    return indistinct


def worth_longer(spec: LayoutSpec, state: TableState, chosen: Sequence[Int64]) -> tuple[TruncatedBounds, ...]:
    """Return the columns whose bounds should be longer in the rewritten files.

    Args:
        spec: The layout spec.
        state: The observed table.
        chosen: int64, the indices of the files of each group to rewrite.
    """
    columns = [column for column in _columns(spec, state) if column.longer_bounds]
    if not chosen or not columns:
        return ()
    files, found = state.files.take(np.concatenate(chosen)), []
    for column in columns:
        length_chosen = any(key in state.properties for key, _ in column.longer_bounds)
        truncated = examine(files, column.name, in_doubt=not length_chosen)
        if truncated is None:  # a few partitions may have indistinct bounds although most files are distinguished
            indistinct = _indistinct(files, column.name, len(spec.layout.columns))
            truncated = examine(files.take(np.flatnonzero(indistinct[files.partition])), column.name)
        found += [truncated] if truncated else []
    return tuple(found)


def indistinct_anyway(spec: LayoutSpec, state: TableState) -> tuple[TruncatedBounds, ...]:
    """Return the columns whose bounds are indistinct although the table already keeps long bounds."""
    found = []
    for column in _columns(spec, state):
        truncated = None if column.longer_bounds else examine(state.files, column.name)
        if truncated and truncated.same and _indistinct(state.files, column.name, len(spec.layout.columns)).any():
            found.append(truncated)
    return tuple(found)


def _columns(spec: LayoutSpec, state: TableState) -> list[Column]:
    """Return the z-order columns whose bounds may be truncated."""
    found = (state.column(name) for name in spec.column_names)
    return [c for c in found if c and c.stats and is_text(c.type) and c.name in state.files.bounds]


def _indistinct(files: FileTable, column: str, keys: int) -> Bools:
    """Return the partitions in which too many files have equal truncated bounds. keys: number of z-order columns."""
    bounds = files.bounds[column]
    count = len(files.partitions)
    number = np.bincount(files.partition, minlength=count)
    narrow = np.flatnonzero(_one_prefix(bounds))
    codes = _codes(bounds.lower.take(pa.array(narrow)))
    pairs, group = distinct_rows([files.partition[narrow], codes])
    # A layout by several z-order columns gives some files equal bounds even without truncation.
    limit = np.maximum(1.0, MAX_FACTOR_OF_LAYOUT * number ** ((keys - 1) / keys))
    many = np.bincount(group) > limit[pairs[:, 0]]
    hit = np.bincount(files.partition[narrow][many[group]], minlength=count)
    indistinct: Bools = (hit > 1) & (hit >= MIN_SHARE_EQUAL * number)
    return indistinct


def _one_prefix(bounds: ColumnBounds) -> Bools:
    """Return the files whose two truncated bounds are equal before the last character of the lower bound."""
    one = np.zeros(len(bounds.lower), bool)
    truncated = _truncated(bounds)
    lengths = _length(bounds.lower)
    head = pc.utf8_slice_codeunits if pa.types.is_string(bounds.lower.type) else pc.binary_slice
    for length in np.unique(lengths[truncated & (lengths > 1)]).tolist():
        rows = np.flatnonzero(truncated & (lengths == length))
        index = pa.array(rows)
        low, high = (head(side.take(index), 0, length - 1) for side in (bounds.lower, bounds.upper))
        one[rows] = pc.fill_null(pc.equal(low, high), False).to_numpy(zero_copy_only=False)
    return one & (_length(bounds.upper) >= lengths)


def _truncated(bounds: ColumnBounds) -> Bools:
    """Return the files with a truncated bound. Bounds that are equal to each other are not truncated."""
    if not is_text(bounds.lower.type):
        return np.zeros(len(bounds.lower), bool)
    differ = pc.fill_null(pc.not_equal(bounds.lower, bounds.upper), True).to_numpy(zero_copy_only=False)
    return np.asarray(bounds.truncated & differ, bool)


def _repeated(partition: NDArray[np.int32], side: pa.Array, chosen: Bools) -> int:
    """Return the number of chosen files whose bound another chosen file of the same partition has too."""
    rows = np.flatnonzero(chosen)
    sizes = np.bincount(distinct_rows([partition[rows], _codes(side.take(pa.array(rows)))])[1])
    return int(sizes[sizes > 1].sum())


def _common_prefix(bounds: ColumnBounds, chosen: Bools) -> int:
    """Return the length (characters or bytes) of the common prefix of all bounds of the files."""
    index = pa.array(np.flatnonzero(chosen))
    low = pc.min_max(bounds.lower.take(index))["min"].as_py()
    high = pc.min_max(bounds.upper.take(index))["max"].as_py()
    return 0 if low is None or high is None else common_length(low, high)


def _length(side: pa.Array) -> Int64:
    """Return the length of each bound in characters (bytes of a binary column); -1 for a missing bound."""
    lengths = pc.utf8_length(side) if pa.types.is_string(side.type) else pc.binary_length(side)
    found: Int64 = pc.fill_null(lengths, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _codes(side: pa.Array) -> Int64:
    """Return a number for each bound that is equal for equal bounds; -1 for a missing bound."""
    codes: Int64 = pc.fill_null(side.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
