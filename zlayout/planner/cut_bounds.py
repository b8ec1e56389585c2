"""Finds text bounds that are truncated so much that they do not distinguish files: docs/adr/0004-cut-bounds.md

A truncated lower bound is a prefix of the smallest value, a truncated upper bound lies just above a prefix of the
largest. Where values agree in as many characters as writers keep, all files have equal bounds: they are indistinct, and
no layout lets queries skip files by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.planner.actions import CutBounds
from zlayout.spec.model import LayoutSpec
from zlayout.table.distinct_rows import distinct_rows
from zlayout.table.state import Column, ColumnBounds, FileTable, Int64, TableState, is_text

Bools = NDArray[np.bool_]

# Share of files with equal truncated bounds from which on truncation is what prevents skipping.
SHARED = 0.25
# Share of a bound in which values may agree; if they agree in more, too little is left to order them by.
AGREE = 0.25
# A layout by several columns gives equal bounds to N^((d-1)/d) files; only more than that is due to truncation.
BEYOND_LAYOUT = 1.5


def examine(files: FileTable, column: str) -> CutBounds | None:
    """How the bounds of a column are truncated in these files; None where they are not, or enough is left.

    Enough is left when most truncated bounds differ and the values have no long common prefix, as with hashes. Bounds
    of files that are not laid out say little about the values between them, so that a doubt counts as too little.
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
    alike = _common_prefix(bounds, cut) >= max(1, AGREE * length)
    equal = _sharing(files.partition, bounds.lower, _one_prefix(bounds))
    if repeated < SHARED * len(files) and not alike:
        return None
    return CutBounds(column, length, equal, len(files), same=equal >= SHARED * len(files) and equal > 1)


def blind_partitions(spec: LayoutSpec, state: TableState) -> Bools:
    """bool[P]: partitions with indistinct bounds, where longer bounds would let queries skip.

    Only columns whose bounds the plan can make longer count. Files written after that are as good as they can be, so
    that a rewrite for this reason is never planned twice.
    """
    blind = np.zeros(len(state.files.partitions), bool)
    for column in _columns(spec, state):
        if column.longer_bounds and column.name in state.files.bounds:
            blind |= _blind(state.files, column.name, len(spec.layout.columns))
    return blind


def worth_longer(spec: LayoutSpec, state: TableState, chosen: Sequence[Int64]) -> tuple[CutBounds, ...]:
    """The columns whose bounds should be longer in the rewritten files; chosen: int64 indices of these, by group."""
    columns = [column.name for column in _columns(spec, state) if column.longer_bounds]
    if not chosen or not columns:
        return ()
    files = state.files.take(np.concatenate(chosen))
    keys = len(spec.layout.columns)
    found = (examine(files, name) or _examine_blind(files, name, keys) for name in columns)
    return tuple(cut for cut in found if cut is not None)


def _examine_blind(files: FileTable, column: str, keys: int) -> CutBounds | None:
    """As `examine`, for only the partitions with indistinct bounds, which others with more files would hide."""
    if column not in files.bounds:
        return None
    inside = np.flatnonzero(_blind(files, column, keys)[files.partition])
    return examine(files.take(inside), column) if len(inside) else None


def hopeless(spec: LayoutSpec, state: TableState) -> tuple[CutBounds, ...]:
    """Columns with indistinct bounds although the table keeps long bounds already."""
    found = []
    for column in _columns(spec, state):
        if column.longer_bounds or column.name not in state.files.bounds:
            continue
        cut = examine(state.files, column.name)
        if cut is not None and cut.same and _blind(state.files, column.name, len(spec.layout.columns)).any():
            found.append(cut)
    return tuple(found)


def _columns(spec: LayoutSpec, state: TableState) -> list[Column]:
    found = (state.column(name) for name in spec.column_names)
    return [c for c in found if c is not None and c.stats and is_text(c.type)]


def _blind(files: FileTable, column: str, keys: int) -> Bools:
    """bool[P]: where at least SHARED of the files have one and the same truncated prefix, more than a layout leaves."""
    bounds = files.bounds[column]
    count = len(files.partitions)
    number = np.bincount(files.partition, minlength=count)
    narrow = np.flatnonzero(_one_prefix(bounds))
    codes = _codes(bounds.lower.take(pa.array(narrow)))
    pairs, group = distinct_rows([files.partition[narrow], codes])
    limit = np.maximum(1.0, BEYOND_LAYOUT * number ** ((keys - 1) / keys))
    many = np.bincount(group) > limit[pairs[:, 0]]
    hit = np.bincount(files.partition[narrow][many[group]], minlength=count)
    blind: Bools = (hit > 1) & (hit >= SHARED * number)
    return blind


def _one_prefix(bounds: ColumnBounds) -> Bools:
    """bool[N]: files whose two bounds are one truncated prefix, except for the last character of the upper one."""
    one = np.zeros(len(bounds.lower), bool)
    cut = _cut(bounds)
    lengths = _length(bounds.lower)
    for length in np.unique(lengths[cut & (lengths > 1)]).tolist():
        rows = np.flatnonzero(cut & (lengths == length))
        index = pa.array(rows)
        low, high = (_head(side.take(index), length - 1) for side in (bounds.lower, bounds.upper))
        one[rows] = pc.fill_null(pc.equal(low, high), False).to_numpy(zero_copy_only=False)
    return one & (_length(bounds.upper) >= lengths)


def _cut(bounds: ColumnBounds) -> Bools:
    """bool[N]: truncated bounds that differ. (Equal ones mean that the file has one value, whole.)"""
    if not is_text(bounds.lower.type):
        return np.zeros(len(bounds.lower), bool)
    differ = pc.fill_null(pc.not_equal(bounds.lower, bounds.upper), True).to_numpy(zero_copy_only=False)
    return np.asarray(bounds.truncated & differ, bool)


def _sharing(partition: NDArray[np.int32], side: pa.Array, cut: Bools) -> int:
    """How many of the truncated bounds of one side another file of the partition has too."""
    rows = np.flatnonzero(cut)
    sizes = np.bincount(distinct_rows([partition[rows], _codes(side.take(pa.array(rows)))])[1])
    return int(sizes[sizes > 1].sum())


def _common_prefix(bounds: ColumnBounds, cut: Bools) -> int:
    """The length (characters or bytes) of the common prefix of the smallest and the largest truncated bound."""
    index = pa.array(np.flatnonzero(cut))
    low = pc.min_max(bounds.lower.take(index))["min"].as_py()
    high = pc.min_max(bounds.upper.take(index))["max"].as_py()
    if low is None or high is None:
        return 0
    return next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))


def _length(side: pa.Array) -> Int64:
    """int64[N]: characters (bytes for binary), -1 for no bound."""
    lengths = pc.utf8_length(side) if pa.types.is_string(side.type) else pc.binary_length(side)
    found: Int64 = pc.fill_null(lengths, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _head(side: pa.Array, length: int) -> pa.Array:
    if pa.types.is_string(side.type):
        return pc.utf8_slice_codeunits(side, 0, length)
    return pc.binary_slice(side, 0, length)


def _codes(side: pa.Array) -> Int64:
    codes: Int64 = pc.fill_null(side.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
