"""Estimate the density of a column, the number of rows per segment, from file bounds and row counts (docs/adr/0001).

First each file's rows are distributed over its interval in proportion to the width of the segments. A few
self-consistency steps (Turnbull 1976, the EM algorithm for interval-censored data) then distribute them in proportion
to the density of all files together. One row always remains at each bound, because a bound is a value of the file.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zlayout.table.segments import PerSegment, Segments, before
from zlayout.table.state import Float64

STEPS = 4
STEPS_FOR_MANY_FILES = 2  # above MANY_FILES; a step takes about 0.1 s for a million files
MANY_FILES = 250_000
# Minimum width of an interval. For bounds that are nearer to each other, rows per width would overflow.
MIN_SPAN = 1e-280


def estimate_rows(segments: Segments, weights: Float64, steps: int | None = None) -> PerSegment:
    """The number of rows in each segment.

    Args:
        segments: of M files and R points.
        weights: float64[M], rows with a value in each file of `segments`.
        steps: the number of self-consistency steps, each O(M + R); None for STEPS, or STEPS_FOR_MANY_FILES. They do
            not end at convergence, so that the result of one partition does not depend on the files of another.
    """
    if steps is None:
        steps = STEPS if len(weights) <= MANY_FILES else STEPS_FOR_MANY_FILES
    blocks = list(segments.blocks())
    if len(blocks) == 1:
        return _estimate(segments, weights, steps)
    rows = (np.empty(len(segments.begun)), np.empty(len(segments.begun)))
    for files, points, block in blocks:
        for there, found in zip(rows, _estimate(block, weights[files], steps), strict=True):
            there[points] = found
    return rows


def _estimate(segments: Segments, weights: Float64, steps: int) -> PerSegment:
    anchored, free = _anchor(segments, weights)
    active = free > 0
    files = segments
    if not active.all():
        files = replace(segments, lo=segments.lo[active], hi=segments.hi[active], span=segments.span[active])
        free = free[active]
    limits = files.cover(free)
    rows = _spread(files, free, limits)
    points, _ = rows
    points += anchored
    shared = bool(len(free)) and int(segments.depth.max()) > 1  # else each segment belongs to one file
    for _ in range(steps if shared else 0):
        _respread(files, free, rows, limits)
        points += anchored
    return rows


def _anchor(segments: Segments, weights: Float64) -> tuple[Float64, Float64]:
    """The number of rows with a known value at each point, and the number of other rows in each file.

    If the bounds of a file are equal, the values of all its rows are known, else of one row at each bound.
    """
    half = weights / 2
    low, high = np.minimum(half, 1.0) * segments.bounded
    flat = np.flatnonzero(~(segments.span > MIN_SPAN))  # an interval without width: half of the rows at each end
    low[flat] = high[flat] = half[flat]
    single = np.flatnonzero(segments.lo == segments.hi)
    low[single], high[single] = weights[single], 0.0
    points = len(segments.begun)
    anchored = np.bincount(segments.lo, low, points).astype(np.float64, copy=False)
    anchored += np.bincount(segments.hi, high, points)
    free = np.subtract(weights, low, out=low)
    free -= high
    return anchored, np.maximum(free, 0.0, out=free)


def _spread(files: Segments, free: Float64, limits: PerSegment) -> PerSegment:
    """Distribute each file's rows over its segments in proportion to their width."""
    points, gaps = files.cover(free / files.span)
    with np.errstate(over="ignore"):  # a rate that overflows in a huge gap is limited afterwards
        points *= files.point
        gaps *= files.gap
    _clip((points, gaps), limits)
    return points, gaps


def _respread(files: Segments, free: Float64, rows: PerSegment, limits: PerSegment) -> None:
    """Distribute each file's rows, in place, in proportion to the present `rows` of its segments."""
    inside = _inside(files, rows)
    np.maximum(inside, free, out=inside)
    rate = files.cover(np.divide(free, inside, out=inside))
    _limit_points(rate)
    for there, factor in zip(rows, rate, strict=True):
        there *= factor
    _clip(rows, limits)


def _inside(files: Segments, rows: PerSegment) -> Float64:
    """float64[M]: the number of rows in each file's interval."""
    so_far = before(rows)
    inside: Float64 = so_far[files.hi]
    inside += rows[0][files.hi]
    inside -= so_far[files.lo]
    return inside


def _clip(rows: PerSegment, limits: PerSegment) -> None:
    """Limit each segment, in place, to the rows of its files, which rounding of the summed rates could exceed."""
    for there, limit in zip(rows, limits, strict=True):
        np.clip(there, 0.0, limit, out=there)


def _limit_points(rate: PerSegment) -> None:
    """Limit the rate of each point, in place, to that of the denser gap beside it.

    Without the limit, two files that share only one value would move more rows onto it with every step.
    """
    points, gaps = rate
    np.minimum(points[:1], gaps[:1], out=points[:1])
    np.minimum(points[1:], np.maximum(gaps[:-1], gaps[1:]), out=points[1:])
