"""Range ids: the rank of a column value among quantile ranges of a sample. Every boundary is a distinct value."""

from __future__ import annotations

import numpy as np

from zlayout.curve.tree import Int64


def snap_cuts(starts: Int64, total: int, parts: int) -> Int64:
    """Cut `total` sorted rows into at most `parts` runs of nearly equal length, never inside a run of equal values.

    Each wanted cut moves to the nearest start of a value, or to the lower of two equally near ones. A value with more
    rows than a part is therefore a run of its own.

    starts: int64[k], the row at which each distinct value begins, ascending, the first 0.

    Returns:
        int64[<= parts]: indices into `starts` where a run begins, strictly ascending, the first 0.
    """
    if len(starts) <= parts:
        return np.arange(len(starts), dtype=np.int64)
    wanted = np.arange(1, parts, dtype=np.int64) * total / parts
    above = np.searchsorted(starts, wanted).clip(1, len(starts) - 1)
    lower_is_nearer = wanted - starts[above - 1] <= starts[above] - wanted
    return np.unique(np.concatenate(([0], above - lower_is_nearer))).astype(np.int64)


def range_boundaries(ordinals: Int64, range_ids: int) -> Int64:
    """int64[<= range_ids - 1], ascending: the ordinals at which the ranges 1, 2, ... of one column begin.

    A column with at most `range_ids` distinct values has one range per value. ordinals: int64[n], -1 for null, which
    counts as a value.
    """
    counts = np.bincount(ordinals + 1)
    present = np.flatnonzero(counts)
    starts = np.cumsum(counts[present]) - counts[present]
    first = snap_cuts(starts.astype(np.int64), len(ordinals), range_ids)
    return present[first[1:]].astype(np.int64) - 1


def to_range_ids(ordinals: Int64, boundaries: Int64) -> Int64:
    """int64[n]: the number of boundaries that are <= each ordinal, 0..len(boundaries)."""
    return np.searchsorted(boundaries, ordinals, side="right").astype(np.int64)


def scale(ids: Int64, count: int, width: int) -> Int64:
    """Scale the ids 0..count-1 to the range 0..2**width-1. width: at most 31.

    A column with 7 values then differs in the highest bits of its 10-bit coordinate. Unscaled ids would differ in the
    lowest three, which interleaving places last. If count > 2**width, neighbouring ids have the same coordinate.
    """
    return (ids << width) // count
