"""Compute the bounds of simulated files: those that a writer would store for the sampled rows of each file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.curve.layout import FileMap
from zlayout.curve.order import Ranked, ordinals_among
from zlayout.table.state import ColumnBounds, Int32, Int64, is_text

# This character is appended to a truncated upper bound, so that the bound is above all values with the same prefix.
LAST_CHARACTER = "\U0010ffff"


def simulated_bounds(
    ranked: Ranked,
    file: Int32,
    files: int,
    unknown: int = 0,
    bound_length: int | None = None,
    limits: Int64 | None = None,
) -> ColumnBounds:
    """The bounds of each of `files` files, followed by those of `unknown` files, which have no bounds.

    Args:
        ranked: the column of n sampled rows.
        file: int32[n], the file of each row, below `files`.
        files: the number of files with sampled rows.
        unknown: the number of files without bounds.
        bound_length: the bound length of strings and binary; None if writers do not truncate bounds.
        limits: int64[2, files], the lowest and the highest ordinal that a file can contain. The range of the sampled
            rows of a file is narrower than that of all its rows, by about `range / (rows - 1)` at each end. It is
            extended by this amount within the limits. None: it is not extended.
    """
    low = np.full(files + unknown, len(ranked.distinct), np.int64)
    high = np.full(files + unknown, -1, np.int64)
    valid = ranked.ordinals >= 0
    np.minimum.at(low, file[valid], ranked.ordinals[valid])
    np.maximum.at(high, file[valid], ranked.ordinals[valid])
    nulls = np.concatenate([np.bincount(file[~valid], minlength=files), np.full(unknown, -1)]).astype(np.int64)
    if limits is not None:
        rows = np.bincount(file[valid], minlength=files)
        low[:files], high[:files] = _extended(low[:files], high[:files], rows, limits)
    lower = ranked.distinct.take(pa.array(low, mask=high < 0))
    upper = ranked.distinct.take(pa.array(high, mask=high < 0))
    if bound_length is None or not is_text(lower.type):
        return ColumnBounds(lower, upper, nulls, np.zeros(len(low), bool))
    return _truncated(lower, upper, nulls, bound_length)


def _extended(low: Int64, high: Int64, rows: Int64, limits: Int64) -> tuple[Int64, Int64]:
    """Extend the ranges of files with rows by the mean distance of these sampled `rows`, within the limits."""
    filled = high >= low
    more = np.rint((high - low) / np.maximum(rows - 1, 1)).astype(np.int64)
    lower = np.where(filled, np.maximum(low - more, limits[0]), low)
    upper = np.where(filled, np.minimum(high + more, limits[1]), high)
    return lower, upper


def file_limits(built: FileMap, ranked: list[Ranked]) -> Int64:
    """int64[columns, 2, files]: the lowest and the highest ordinal that a row of each file can have.

    Args:
        built: the file map.
        ranked: the columns of the sample that it was built from.
    """
    tree = built.tree
    last = np.array([len(r.distinct) - 1 for r in ranked], np.int64)
    # The lowest ordinal that is not below each boundary. A boundary of a declared cut need not occur in the sample.
    starts = [
        np.searchsorted(ordinals_among(edges, r.distinct), np.arange(len(edges)))
        for r, edges in zip(ranked, built.boundaries, strict=True)
    ]
    found = np.empty((len(ranked), 2, tree.files), np.int64)
    found[:, 0], found[:, 1] = last[:, None] + 1, -1
    boxes = [(0 if len(tree.column) else ~0, np.zeros_like(last), last)]
    while boxes:
        node, low, high = boxes.pop()
        if node < 0:
            files = slice(tree.file[~node], tree.file[~node] + tree.spread[~node])
            found[:, 0, files] = np.minimum(found[:, 0, files], low[:, None])
            found[:, 1, files] = np.maximum(found[:, 1, files], high[:, None])
            continue
        column = tree.column[node]
        at = starts[column][tree.threshold[node] - 1]
        left_high, right_low = high.copy(), low.copy()
        left_high[column], right_low[column] = min(high[column], at - 1), max(low[column], at)
        boxes += [(int(tree.left[node]), low, left_high), (int(tree.right[node]), right_low, high)]
    return found


def _truncated(lower: pa.Array, upper: pa.Array, nulls: Int64, length: int) -> ColumnBounds:
    """Truncate bounds as the writers of both formats do: the lower bound is rounded down and the upper bound up."""
    is_string = pa.types.is_string(lower.type)
    size = pc.utf8_length if is_string else pc.binary_length
    head = pc.utf8_slice_codeunits if is_string else pc.binary_slice
    last = pa.scalar(LAST_CHARACTER) if is_string else pa.scalar(b"\xff" * 8, lower.type)
    empty = pa.scalar("" if is_string else b"", lower.type)
    long = pc.greater(size(upper), length)
    above = pc.binary_join_element_wise(head(upper, 0, length), last, empty)
    truncated = pc.or_(pc.greater(size(lower), length), long)
    return ColumnBounds(
        head(lower, 0, length),
        pc.if_else(long, above, upper),
        nulls,
        np.asarray(pc.fill_null(truncated, False).to_numpy(zero_copy_only=False), bool),
    )
