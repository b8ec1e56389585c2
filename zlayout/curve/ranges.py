"""Compute range boundaries from a sample, and range ids from range boundaries. Values are given as ordinals."""

from __future__ import annotations

import numpy as np

from zlayout.curve.tree import Int64


def snap_cuts(starts: Int64, total: int, parts: int) -> Int64:
    """Cut sorted rows into at most `parts` runs of nearly equal length, but not between rows with equal values.

    Each quantile moves to the nearest row at which a value begins, or to the lower one of two equally near rows.

    Args:
        starts: int64[k], the row at which each distinct value begins, ascending, the first 0.
        total: the number of rows.
        parts: the maximum number of runs.

    Returns:
        int64[<= parts]: the indices into `starts` at which runs begin, strictly ascending, the first 0.
    """
    if len(starts) <= parts:
        return np.arange(len(starts), dtype=np.int64)
    wanted = np.arange(1, parts, dtype=np.int64) * total / parts
    above = np.minimum(np.searchsorted(starts, wanted), len(starts) - 1)
    lower_is_nearer = wanted - starts[above - 1] <= starts[above] - wanted
    return np.unique(np.concatenate(([0], above - lower_is_nearer))).astype(np.int64)


def range_boundaries(ordinals: Int64, range_ids: int) -> Int64:
    """int64[<= range_ids - 1], ascending: the range boundaries of one column, at quantiles of the sample.

    Args:
        ordinals: int64[n], -1 for null, which counts as a value.
        range_ids: the maximum number of ranges. A column with at most as many distinct values has one range per value.
    """
    counts = np.bincount(ordinals + 1)
    present = np.flatnonzero(counts)
    starts = np.cumsum(counts[present]) - counts[present]
    first = snap_cuts(starts, len(ordinals), range_ids)
    return present[first[1:]].astype(np.int64) - 1


def to_range_ids(ordinals: Int64, boundaries: Int64) -> Int64:
    """int64[n]: the range id of each ordinal. boundaries: as `range_boundaries` returns them."""
    return np.searchsorted(boundaries, ordinals, side="right").astype(np.int64)


def scale(ids: Int64, count: int, width: int) -> Int64:
    """Scale range ids 0..count-1 to coordinates 0..2**width-1.

    The coordinates of a column with 7 values then differ in the highest of 10 bits. Range ids would differ in the
    lowest three bits, which interleaving places last. If count > 2**width, neighbouring ids have the same coordinate.

    Args:
        ids: int64[n], the range ids.
        count: the number of range ids.
        width: log2 of the number of coordinates, at most 31.
    """
    return (ids << width) // count
