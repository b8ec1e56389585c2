"""Build the default curve `kd`: split the sample at conditional quantiles until every part is one file.

The curve is z-order with quantiles that adapt to the data. Z-order over quantile ranges also halves the data on one
column after the other, but at quantiles of the whole table. If columns are correlated or skewed, the cells have
different numbers of rows, and the files have overlapping bounding boxes, because the curve is cut by rows. Splitting
each part at the quantiles of this part results in files with disjoint boxes and equal numbers of rows.

Bound: N disjoint boxes over d independent columns that cut column i into k_i slices have prod k_i = N, and an equality
query on column i opens N / k_i files. With equal weights the mean is minimal for k_i = N^(1/d): N^((d-1)/d) files. In
general the product of the d numbers of files is at least N^(d-1). Correlated columns need fewer files.

Choice of the column: let p_i be the share of the queries on column i, and m_i the share of the table's rows in the
extent of a part on column i. A part of f files costs f * sum(p_i * m_i), and cutting column i into k slices divides its
term by k. The part is therefore split on the column with the largest p_i * m_i. For independent columns the result is
b_i = log2(k_i) = log2(N)/d + log2(p_i) - mean log2(p_j) bits, limited to 0..log2(NDV_i). For correlated columns the
result is different, because m_i is measured in each part. There is no grid: thresholds are values of the sample.

All parts of one level are split at once, by numpy: `zlayout.curve.sorted_parts` keeps the rows of each part sorted by
every column, so that minimum, maximum and quantiles of a part are look-ups. Logarithms are those of `math`, because
numpy's differ between processors in the last bit, and equal settings must result in equal cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, log2

import numpy as np

from zlayout.curve.cuts import NO_CUTS, Cuts, divide_by_cuts
from zlayout.curve.marginal import Marginal
from zlayout.curve.sorted_parts import SortedParts, sort_parts
from zlayout.curve.tree import Bool, Float64, Int32, Int64, KdTree, Level, join_levels
from zlayout.table.joint_optimum import fill

# A split is balanced if the rows per file of each side differ from those of the part by at most the factor exp(0.1).
MAX_IMBALANCE = 0.1
# With more files than this, the tree may have one level more than a balanced tree. A column can then be cut into any
# number of slices, for example into ten for a thousand files and three columns, instead of eight or sixteen. Touched is
# then 1.00 instead of 1.035 times the joint optimum. With fewer files, this is not worth one more comparison per row.
MIN_FILES_FOR_EXTRA_LEVEL = 256


@dataclass(frozen=True, slots=True)
class Goal:
    """The criteria by which the splits of all parts are chosen.

    Attributes:
        weights: The weight of each column, above 0.
        marginals: The distribution of each column in the table.
        large: The number of rows of two files. A key with more rows is spread over files or oversized.
        noise, depth_within, cuts: As in `build_kd`.
    """

    weights: Sequence[float]
    marginals: Sequence[Marginal]
    noise: bool
    large: float
    depth_within: int
    cuts: Cuts = NO_CUTS


@dataclass(slots=True)
class _Parts:
    """The parts of one level that may be split further. Arrays have one item per part.

    Attributes:
        pieces: The number of files to split each into; the number of leaves if it is in one file.
        levels: The maximum number of further levels.
        in_file: Whether the part is a file or a part of one file.
        cut: The first declared cut to try.
    """

    rows: SortedParts
    pieces: Int64
    levels: Int64
    in_file: Bool
    cut: Int64


@dataclass(frozen=True, slots=True)
class _Splits:
    """One possible split of each of n parts.

    Attributes:
        column: int64[n], -1 for no split.
        imbalance: float64[n], the log of the larger factor by which a side's rows per piece differ from the part's.
        cut: int64[n], the declared cut that the part is split at, -1 for a quantile.
    """

    column: Int64
    left_rows: Int64
    left_pieces: Int64
    imbalance: Float64
    cut: Int64


def build_kd(
    ordinals: Sequence[Int64],
    weights: Sequence[float],
    n_files: int,
    noise: bool,
    depth_within: int = 0,
    cuts: Cuts = NO_CUTS,
) -> KdTree:
    """The kd tree of a sample, in O(n * columns * log n_files). It does not depend on the order of the rows.

    Args:
        ordinals: for each column int64[n], dense, -1 for null.
        weights: the weight of each column, above 0.
        n_files: the wanted number of files. There are fewer if there are fewer distinct keys, or if a key with more
            rows than two files must stay in one file, because `noise` is False.
        noise: distribute the rows of a key with more rows than two files over several files.
        depth_within: the number of levels by which each file is split further into leaves, so that rows sorted by leaf
            follow the curve inside the file.
        cuts: the declared cuts, at which parts are split first.
    """
    n_rows = len(ordinals[0])
    n_files = max(1, min(n_files, n_rows))
    goal = Goal(weights, [Marginal.of(o) for o in ordinals], noise, 2 * n_rows / n_files, depth_within, cuts)
    return grow(sort_parts(ordinals), np.array([n_files], np.int64), goal)[0]


def grow(rows: SortedParts, files: Int64, goal: Goal) -> tuple[KdTree, Int32]:
    """Grow one tree for each part of `rows`, all at the same time.

    files: int64[parts], the wanted number of files of each part. The result is that of `join_levels`.
    """
    levels = _levels(files) + (files > MIN_FILES_FOR_EXTRA_LEVEL)
    parts = _Parts(rows, files, levels, np.zeros(len(files), np.bool_), np.zeros(len(files), np.int64))
    grown: list[Level] = []
    while len(parts.pieces):
        new_file = ~parts.in_file & (parts.pieces == 1)
        parts.pieces = np.where(new_file, 1 << goal.depth_within, parts.pieces)
        parts.levels = np.where(new_file, goal.depth_within, parts.levels)
        parts.in_file = parts.in_file | new_file
        splits = _choose(parts, goal)
        grown.append(_level(parts, splits, new_file, goal))
        parts = _divide(parts, splits)
    return join_levels(grown)


def _level(parts: _Parts, splits: _Splits, new_file: Bool, goal: Goal) -> Level:
    rows, split = parts.rows, splits.column >= 0
    is_key = ~parts.in_file & ~split  # one key that cannot be split, or no row
    is_large = is_key & (rows.sizes > goal.large)
    spread = np.where(is_large & goal.noise, parts.pieces, 1)
    at = np.flatnonzero(new_file | is_key)
    low, high = rows.boxes(at)
    column = splits.column[split]
    threshold = rows.at(column, rows.start[:-1][split] + splits.left_rows[split])
    by_cut = splits.cut[split] >= 0
    threshold[by_cut] = goal.cuts.threshold[splits.cut[split][by_cut]]
    return Level(
        split=split,
        column=column,
        threshold=threshold,
        spread=spread,
        begins=at,
        files=spread[at],
        rows=rows.sizes[at] / spread[at],
        low=low,
        high=high,
        is_oversized=is_large[at] & (not goal.noise),
    )


def _divide(parts: _Parts, splits: _Splits) -> _Parts:
    """The parts of the next level: the left sides of all split parts, then their right sides."""
    split = splits.column >= 0
    left = splits.left_pieces[split]
    return _Parts(
        rows=parts.rows.divide(splits.column, splits.left_rows),
        pieces=np.concatenate((left, parts.pieces[split] - left)),
        levels=np.tile(parts.levels[split] - 1, 2),
        in_file=np.tile(parts.in_file[split], 2),
        cut=np.tile(parts.cut[split], 2),
    )


def _choose(parts: _Parts, goal: Goal) -> _Splits:
    """The first declared cut that divides a part; else the balanced split of highest cost; else the most balanced."""
    found = _by_cuts(parts, goal)
    lowest, highest = parts.rows.extents()
    several = (lowest < highest) & ((parts.pieces > 1) & (found.column < 0))[:, None]
    open_parts = np.flatnonzero(several.any(axis=1))
    if not len(open_parts):
        return found
    several, lowest, highest = several[open_parts], lowest[open_parts], highest[open_parts]
    costs = _costs(several, lowest, highest, goal)
    wanted = _wanted(parts.pieces[open_parts], parts.levels[open_parts], costs, several, highest - lowest)
    # Costs are rounded, so that the order of nearly equal ones does not depend on chance.
    rounded = _each(lambda cost: round(cost, 2), costs)
    preference = np.argsort(np.where(several, -rounded, np.inf), axis=1, kind="stable")
    pending = np.arange(len(open_parts))
    for choice in range(preference.shape[1]):
        column = preference[pending, choice]
        is_possible = several[pending, column]
        pending, column = pending[is_possible], column[is_possible]
        at = open_parts[pending]
        split = _split(parts, at, column, wanted[pending, column])
        is_better = (split.imbalance < found.imbalance[at]) | (split.imbalance <= MAX_IMBALANCE)
        for name in ("column", "left_rows", "left_pieces", "imbalance"):
            getattr(found, name)[at[is_better]] = getattr(split, name)[is_better]
        pending = pending[split.imbalance > MAX_IMBALANCE]
    return found


def _by_cuts(parts: _Parts, goal: Goal) -> _Splits:
    pieces = np.where(parts.in_file, 1, parts.pieces)  # parts of a single file are not split
    cut, left_rows, left_pieces = divide_by_cuts(parts.rows, pieces, parts.cut, goal.large / 2, goal.cuts)
    column = np.append(goal.cuts.column, -1)[cut]
    return _Splits(column, left_rows, left_pieces, np.full(len(cut), np.inf), cut)


def _costs(several: Bool, lowest: Int64, highest: Int64, goal: Goal) -> Float64:
    """float64[n, columns]: log2(weight * share of the table's rows in the extent of a part); 0 where not `several`."""
    costs = np.zeros(several.shape)
    for i, (weight, rows) in enumerate(zip(goal.weights, goal.marginals, strict=True)):
        at = several[:, i]
        costs[at, i] = _each(log2, weight * rows.between(lowest[at, i], highest[at, i]) / rows.total)
    return costs


def _wanted(pieces: Int64, levels: Int64, costs: Float64, several: Bool, extent: Int64) -> Int64:
    """int64[n, columns]: the wanted number of pieces on the left side: those in the left half of a column's slices."""
    # At least so many that the remaining levels can divide the pieces on the right side.
    min_left = np.maximum(1, pieces - (np.int64(1) << (np.maximum(levels, _levels(pieces)) - 1)))
    wanted = np.repeat(min_left[:, None], several.shape[1], axis=1)
    is_free = min_left < np.rint(pieces / 2)
    subsets = several @ (1 << np.arange(several.shape[1]))  # parts with the same columns are computed together
    for subset in np.unique(subsets[is_free]).tolist():
        at = np.flatnonzero(is_free & (subsets == subset))
        columns = np.flatnonzero(several[at[0]])
        here = np.ix_(at, columns)
        # As ordinals are dense, the extent is a limit of the number of distinct values.
        bits = fill(_each(log2, pieces[at]), costs[here], _each(log2, extent[here] + 1))
        slices = _each(lambda b: 2.0**b, bits)
        whole = np.maximum(2, np.rint(slices)).astype(np.int64)
        half = np.rint(pieces[at][:, None] * (whole // 2) / whole).astype(np.int64)
        wanted[here] = np.maximum(min_left[at][:, None], half)
    return wanted


def _split(parts: _Parts, at: Int64, column: Int64, wanted: Int64) -> _Splits:
    """Split near the `wanted` number of left pieces. Both sides receive pieces in proportion to their actual rows."""
    rows, pieces = parts.rows, parts.pieces[at]
    size = rows.sizes[at]
    rank = np.clip(np.rint(size * wanted / pieces).astype(np.int64), 1, size - 1)
    below, up_to = rows.run(at, column, rank)
    is_upper = (up_to < size) & ((below == 0) | (np.abs(up_to - rank) < np.abs(below - rank)))
    left_rows = np.where(is_upper, up_to, below)
    share = left_rows / size
    left = np.clip(np.rint(pieces * share).astype(np.int64), 1, pieces - 1)
    of_left, of_right = _each(log, share * pieces / left), _each(log, (1 - share) * pieces / (pieces - left))
    imbalance = np.maximum(np.abs(of_left), np.abs(of_right))
    return _Splits(column, left_rows, left, imbalance, np.full(len(at), -1, np.int64))


def _levels(pieces: Int64) -> Int64:
    """log2 of the number of pieces, rounded up: the depth of a balanced tree with this number of leaves."""
    return np.frexp((pieces - 1).astype(np.float64))[1].astype(np.int64)


def _each(function: Callable[[float], float], values: Int64 | Float64) -> Float64:
    return np.array([function(v) for v in values.ravel().tolist()], np.float64).reshape(values.shape)
