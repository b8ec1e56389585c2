"""The density of a column: rows per segment, estimated from file bounds and row counts alone (docs/adr/0001).

Each file's rows are spread over its interval in proportion to the width of the segments. A few self-consistency steps
(Turnbull 1976, the EM for interval-censored data) then spread them in proportion to the density of all files together.
One row stays on each bound, since a bound is a value in the file.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zlayout.table.segments import Float64, PerSegment, Segments, before

STEPS = 4
STEPS_FOR_MANY_FILES = 2  # above MANY_FILES; a step takes about 0.1 s for a million files
MANY_FILES = 250_000
# Width of an interval. Floats may be nearer to each other than this: rows per width would overflow.
MIN_SPAN = 1e-280


def estimate_rows(segments: Segments, weights: Float64, steps: int | None = None) -> PerSegment:
    """The number of rows in each segment.

    Args:
        segments: of M files and R points.
        weights: float64[M], rows with a value in each file of `segments`.
        steps: of O(M + R) each; None for 4, or 2 above MANY_FILES. The number is fixed, so that the result of one
            partition never depends on the files of another.
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
    most = files.cover(free)
    rows = _spread(files, free, most)
    points, _ = rows
    points += anchored
    shared = bool(len(free)) and int(segments.depth.max()) > 1  # else every cell is some file's own: nothing to move
    for _ in range(steps if shared else 0):
        _respread(files, free, rows, most)
        points += anchored
    return rows


def _anchor(segments: Segments, weights: Float64) -> tuple[Float64, Float64]:
    """Rows whose value is known, by point, and the rest, by file.

    Known are all rows of a file whose bounds are equal, else one row on each bound.
    """
    half = weights / 2
    low, high = np.minimum(half, 1.0) * segments.bounded
    flat = np.flatnonzero(~(segments.span > MIN_SPAN))  # an interval without width: half of the rows on each end
    low[flat] = high[flat] = half[flat]
    single = np.flatnonzero(segments.lo == segments.hi)
    low[single], high[single] = weights[single], 0.0
    points = len(segments.begun)
    anchored = np.bincount(segments.lo, low, points).astype(np.float64, copy=False)
    anchored += np.bincount(segments.hi, high, points)
    free = np.subtract(weights, low, out=low)
    free -= high
    return anchored, np.maximum(free, 0.0, out=free)


def _spread(files: Segments, free: Float64, most: PerSegment) -> PerSegment:
    """Each file's rows over its segments in proportion to their width."""
    points, gaps = files.cover(free / files.span)
    with np.errstate(over="ignore"):  # a rate that overflows in a huge gap is limited to `most` in any case
        points *= files.point
        gaps *= files.gap
    _clip((points, gaps), most)
    return points, gaps


def _respread(files: Segments, free: Float64, rows: PerSegment, most: PerSegment) -> None:
    """Distribute each file's rows, in place, in proportion to the present `rows`."""
    inside = _inside(files, rows)
    np.maximum(inside, free, out=inside)
    rate = files.cover(np.divide(free, inside, out=inside))
    _level(rate)
    for there, factor in zip(rows, rate, strict=True):
        there *= factor
    _clip(rows, most)


def _inside(files: Segments, rows: PerSegment) -> Float64:
    """float64[M]: the number of rows in each file's interval."""
    so_far = before(rows)
    inside: Float64 = so_far[files.hi]
    inside += rows[0][files.hi]
    inside -= so_far[files.lo]
    return inside


def _clip(rows: PerSegment, most: PerSegment) -> None:
    """Limit, in place, each segment to the rows of its files: sums of rates lose digits next to much larger ones."""
    for there, limit in zip(rows, most, strict=True):
        np.clip(there, 0.0, limit, out=there)


def _level(rate: PerSegment) -> None:
    """Limit, in place, the rate of a point to that of the denser gap beside it.

    Without the limit, two files that share only one value would move more rows onto it with every step.
    """
    points, gaps = rate
    np.minimum(points[:1], gaps[:1], out=points[:1])
    np.minimum(points[1:], np.maximum(gaps[:-1], gaps[1:]), out=points[1:])
