"""Where a column's rows are, estimated from file bounds and row counts alone (docs/adr/0001 says why it is done so).

Each file's rows are spread over its interval by the measure of the cells; then a few self-consistency steps (Turnbull
1976, the EM for interval-censored data) spread them again in proportion to what all files together put there. One
row stays on each bound, since a bound is a value that the file holds.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zlayout.table.cells import Cells, Float64, PerCell, before

STEPS = 4
STEPS_OF_MANY = 2  # beyond MANY files: a step takes about 0.1 s for a million files
MANY = 250_000
# Floats may be nearer to each other than that: rows by measure would overflow.
THINNEST = 1e-280


def estimate_rows(cells: Cells, weights: Float64, steps: int | None = None) -> PerCell:
    """float64: how many rows lie in each cell. `weights`: float64[M], rows with a value, of the cells' files.

    `steps` steps of O(M + R) (None: 4, or 2 for very many files). Their number does not depend on how the estimate
    moves, so that one partition's result never depends on another's files.
    """
    if steps is None:
        steps = STEPS if len(weights) <= MANY else STEPS_OF_MANY
    blocks = list(cells.blocks())
    if len(blocks) == 1:
        return _estimate(cells, weights, steps)
    rows = (np.empty(len(cells.begun)), np.empty(len(cells.begun)))
    for files, points, block in blocks:
        for there, found in zip(rows, _estimate(block, weights[files], steps), strict=True):
            there[points] = found
    return rows


def _estimate(cells: Cells, weights: Float64, steps: int) -> PerCell:
    anchored, free = _anchor(cells, weights)
    active = free > 0
    files = cells
    if not active.all():
        files = replace(cells, lo=cells.lo[active], hi=cells.hi[active], span=cells.span[active])
        free = free[active]
    most = files.cover(free)
    rows = _spread(files, free, most)
    points, _ = rows
    points += anchored
    shared = bool(len(free)) and int(cells.depth.max()) > 1  # else every cell is some file's own: nothing to move
    for _ in range(steps if shared else 0):
        _respread(files, free, rows, most)
        points += anchored
    return rows


def _anchor(cells: Cells, weights: Float64) -> tuple[Float64, Float64]:
    """Rows whose place is known, by point: all of a file whose bounds are equal, else one on each bound.

    And the rest, by file.
    """
    half = weights / 2
    low, high = np.minimum(half, 1.0) * cells.bounded
    flat = np.flatnonzero(~(cells.span > THINNEST))  # an interval without measure: half on either end
    low[flat] = high[flat] = half[flat]
    single = np.flatnonzero(cells.lo == cells.hi)
    low[single], high[single] = weights[single], 0.0
    points = len(cells.begun)
    anchored = np.bincount(cells.lo, low, points).astype(np.float64, copy=False)
    anchored += np.bincount(cells.hi, high, points)
    free = np.subtract(weights, low, out=low)
    free -= high
    return anchored, np.maximum(free, 0.0, out=free)


def _spread(files: Cells, free: Float64, most: PerCell) -> PerCell:
    """By measure."""
    points, gaps = files.cover(free / files.span)
    with np.errstate(over="ignore"):  # what is lost of a huge rate, in a huge gap: no more than `most` in any case
        points *= files.point
        gaps *= files.gap
    _clip((points, gaps), most)
    return points, gaps


def _respread(files: Cells, free: Float64, rows: PerCell, most: PerCell) -> None:
    """In place: `rows` in proportion to what is there."""
    inside = _inside(files, rows)
    np.maximum(inside, free, out=inside)
    rate = files.cover(np.divide(free, inside, out=inside))
    _level(rate)
    for there, factor in zip(rows, rate, strict=True):
        there *= factor
    _clip(rows, most)


def _inside(files: Cells, rows: PerCell) -> Float64:
    """float64[M]: how many rows lie in each file's interval."""
    so_far = before(rows)
    inside: Float64 = so_far[files.hi]
    inside += rows[0][files.hi]
    inside -= so_far[files.lo]
    return inside


def _clip(rows: PerCell, most: PerCell) -> None:
    """In place: no cell gets more rows than its files have. Sums of rates lose digits beside much larger ones."""
    for there, limit in zip(rows, most, strict=True):
        np.clip(there, 0.0, limit, out=there)


def _level(rate: PerCell) -> None:
    """In place: hold the rate of a point to that of the better gap beside it.

    Two files that merely meet in a value would else pull their rows onto it, more with every step.
    """
    points, gaps = rate
    np.minimum(points[:1], gaps[:1], out=points[:1])
    np.minimum(points[1:], np.maximum(gaps[:-1], gaps[1:]), out=points[1:])
