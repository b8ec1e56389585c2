"""Build kd trees: `build_kd` splits a sample until every part is one file, at declared cuts or conditional quantiles.

Without declared cuts, the result is curve `kd`. Curve `workload` divides parts by its declared cuts first (`Cuts`).

Curve `kd`, the default, is z-order with quantiles that adapt to the data. Z-order over quantile ranges also halves the
data on one column after the other, but at quantiles of the whole table. If columns are correlated or skewed, the cells
have different numbers of rows, and the files have overlapping bounding boxes, because the curve is cut by rows.
Splitting each part at the quantiles of this part results in files with disjoint boxes and equal numbers of rows.

Bound: N disjoint boxes over d independent columns that cut column i into k_i slices have prod k_i = N, and an equality
query on column i opens N / k_i files. With equal weights the mean is minimal for k_i = N^(1/d): N^((d-1)/d) files. In
general the product of the d numbers of files is at least N^(d-1). Correlated columns need fewer files.

Choice of the column: let p_i be the share of the queries on column i, and m_i the share of the table's rows in the
extent of a part on column i. A part of f files costs f * sum(p_i * m_i), and cutting column i into k slices divides its
term by k. The part is therefore split on the column with the largest p_i * m_i. For independent columns the result is
b_i = log2(k_i) = log2(N)/d + log2(p_i) - mean log2(p_j) bits, limited to 0..log2(NDV_i). For correlated columns the
result is different, because m_i is measured in each part. There is no grid: thresholds are values of the sample.

All parts of one level are split at once, by numpy (`SortedParts`). Logarithms are those of `math`, because numpy's
differ between processors in the last bit, and equal settings must result in equal cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import ceil, floor, log, log2
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from zlayout.curve.tree import Bool, Float64, Int32, Int64, KdTree, Level, Marginal, Ranked, join_levels, rank
from zlayout.curve.zorder import LONG_BITS
from zlayout.predicate.coercion import coerced, instant_of
from zlayout.predicate.model import Compare
from zlayout.table.metrics import fill

# The rows of parts, sorted by every column, so that minimum, maximum and quantiles of a part are look-ups.
#
# Every column is sorted once. All parts are divided at once, in O(rows * columns), and every column stays sorted.


# What happens to a row if parts are divided: it goes to a side of its part, it is dropped with its part, or its part is
# divided in the order of another column.
LEFT, RIGHT, DROPPED, OTHER_COLUMN = range(4)


@dataclass(frozen=True, slots=True)
class SortedParts:
    """The n rows of consecutive parts, sorted by each column. A row is identified by its position in the first column.

    Attributes:
        values: For each column int32[n], the ordinals (-1 for null), ascending within each part.
        rows: For each column but the first int32[n], the row of each ordinal.
        start: int64[parts + 1], the position at which each part begins, in every column, then n.
    """

    values: list[Int32]
    rows: list[Int32]
    start: Int64

    @property
    def sizes(self) -> Int64:
        """int64[parts]: the number of rows of each part."""
        return np.diff(self.start)

    def at(self, column: Int64, position: Int64) -> Int64:
        """int64[k]: the ordinal of a column at a position. column, position: int64[k]."""
        found = np.empty(len(column), np.int64)
        for c, values in enumerate(self.values):
            of_column = column == c
            found[of_column] = values[position[of_column]]
        return found

    def extents(self) -> tuple[Int64, Int64]:
        """int64[parts, columns] twice: the lowest and the highest ordinal, -1 for null; 0 and -1 for an empty part."""
        filled = self.sizes > 0
        lowest = np.zeros((len(filled), len(self.values)), np.int64)
        highest = np.full_like(lowest, -1)
        for c, values in enumerate(self.values):
            lowest[filled, c] = values[self.start[:-1][filled]]
            highest[filled, c] = values[self.start[1:][filled] - 1]
        return lowest, highest

    def run(self, parts: Int64, column: Int64, rank: Int64) -> tuple[Int64, Int64]:
        """Find the run of rows that have the same ordinal as the row at position `rank` of a part.

        Args:
            parts: int64[k], the parts.
            column: int64[k], the column in each part.
            rank: int64[k], positions from the first row of each part.

        Returns:
            int64[k] twice: the number of rows of the part that are below this ordinal, and of those that are at most
            this ordinal.
        """
        below, up_to = np.empty(len(parts), np.int64), np.empty(len(parts), np.int64)
        for c, values in enumerate(self.values):
            at = np.flatnonzero(column == c)
            first, end = self.start[parts[at]], self.start[parts[at] + 1]
            middle = first + rank[at]
            pivot = values[middle].astype(np.int64)
            below[at] = _first_position(values, first, middle, pivot) - first
            up_to[at] = _first_position(values, middle, end, pivot + 1) - first
        return below, up_to

    def below(self, parts: Int64, column: int, ordinal: int) -> Int64:
        """int64[k]: the number of rows of each of `parts`, int64[k], that are below an ordinal of one column."""
        first, end = self.start[parts], self.start[parts + 1]
        return _first_position(self.values[column], first, end, np.full(len(parts), ordinal, np.int64)) - first

    def divide(self, column: Int64, left: Int64) -> SortedParts:
        """Divide parts. The result has the left sides of all divided parts, then their right sides.

        Args:
            column: int64[parts], the column by which each part is divided, -1 to drop the part.
            left: int64[parts], the number of rows on the left side: the first ones in the order of this column.
        """
        sizes, split = self.sizes, column >= 0
        side = self._sides(np.where(split, column, 0), np.where(split, left, 0), split)
        kept = _left_then_right(side)
        number = np.empty(len(side), np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        values = [self.values[0].take(kept)]
        rows: list[Int32] = []
        for own, old in zip(self.values[1:], self.rows, strict=True):
            kept = _left_then_right(side.take(old))
            values.append(own.take(kept))
            rows.append(number.take(old.take(kept)))
        counts = np.concatenate((left[split], sizes[split] - left[split]))
        return SortedParts(values, rows, _starts(counts))

    def _sides(self, column: Int64, left: Int64, split: Bool) -> NDArray[np.uint8]:
        """uint8[n]: LEFT, RIGHT or DROPPED for each row, in the order of the first column."""
        counts = np.stack((left, self.sizes - left), axis=1).ravel()
        side = np.empty(0, np.uint8)
        for c in range(len(self.values)):
            parts = column == c
            if c and not parts.any():
                continue
            codes = np.where(split & parts, [[LEFT], [RIGHT]], np.where(split, OTHER_COLUMN, DROPPED)).T
            own = np.repeat(codes.astype(np.uint8).ravel(), counts)
            if c == 0:
                side = own
                continue
            known = np.flatnonzero(own < DROPPED)
            side[self.rows[c - 1].take(known)] = own.take(known)
        return side


def sort_parts(ordinals: Sequence[Int64], part: Int64 | None = None, parts: int = 1) -> SortedParts:
    """Sort rows by every column within their parts.

    Args:
        ordinals: for each column int64[n], below 2**31, -1 for null.
        part: int64[n], the part of each row; None if all rows are in one part.
        parts: the number of parts.
    """
    n = len(ordinals[0])
    values: list[Int32] = []
    rows: list[Int32] = []
    number = np.empty(n, np.int32)
    for c, own in enumerate(ordinals):
        order = _order(own if part is None else part * (int(own.max(initial=0)) + 2) + own)
        values.append(own.take(order).astype(np.int32))
        if c == 0:
            number[order] = np.arange(n, dtype=np.int32)
        else:
            rows.append(number.take(order))
    counts = np.array([n], np.int64) if part is None else np.bincount(part, minlength=parts)
    return SortedParts(values, rows, _starts(counts))


def _order(key: Int64) -> Int64:
    """The indices of a stable sort of keys of at least -1. Sorting packed words is ten times as fast as an argsort."""
    bits = len(key).bit_length()
    if int(key.max(initial=0)).bit_length() + bits >= LONG_BITS:
        return np.argsort(key, kind="stable")
    packed = (key + 1) << bits | np.arange(len(key))
    packed.sort()
    return packed & ((1 << bits) - 1)


def _left_then_right(side: NDArray[np.uint8]) -> Int64:
    return np.concatenate((np.flatnonzero(side == LEFT), np.flatnonzero(side == RIGHT)))


def _starts(counts: Int64) -> Int64:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _first_position(values: Int32, first: Int64, end: Int64, wanted: Int64) -> Int64:
    """The first position from `first` to `end` - 1 whose value is at least `wanted`, else `end`."""
    low, high = first.copy(), end.copy()
    while True:
        searching = low < high
        if not searching.any():
            return low
        middle = (low + high) >> 1
        is_above = np.ones(len(low), np.bool_)
        is_above[searching] = values[middle[searching]] >= wanted[searching]
        high = np.where(searching & is_above, middle, high)
        low = np.where(is_above, low, middle + 1)


# Declared cuts. They divide parts in the first levels of a tree, so that files end at the constants of queries.
#
# A quantile of the sample is rarely the constant of a query. The queries on both sides of the constant then open the
# file that has values on both sides. Cuts follow qd-trees (Z. Yang et al., "Qd-tree: Learning Data Layouts for Big Data
# Analytics", SIGMOD 2020, arXiv 2004.10898), restricted to comparisons of one column with one value, because readers
# skip files by the min and max of single columns. The order of the cuts is declared, too: a part is divided by the
# first cut whose sides both have enough rows for whole files. If there is none, it is split at a quantile.


# The number of rows of a file may differ by this factor from that of an average file of the table.
MAX_FACTOR = 1.5
_WIDE = Context(prec=80)  # Arrow's decimals have up to 76 digits


@dataclass(frozen=True, slots=True)
class Cuts:
    """k declared cuts in their order.

    Attributes:
        column: int64[k], the column of each cut.
        threshold: int64[k], an ordinal of this column. Rows with lower ordinals are on the left side.
    """

    column: Int64
    threshold: Int64

    def __len__(self) -> int:
        return len(self.column)


NO_CUTS = Cuts(np.zeros(0, np.int64), np.zeros(0, np.int64))


def rank_with_cuts(
    sample: Mapping[str, pa.Array | pa.ChunkedArray], cuts: Sequence[Compare]
) -> tuple[list[Ranked], Cuts]:
    """Rank the columns of a sample together with the values of cuts, so that cuts have ordinals too.

    Args:
        sample: by column, one array of length n.
        cuts: comparisons of columns of the sample by `<` or `<=`. Those for which `first_on_the_right` returns None
            are left out.

    Returns:
        For each column the n ordinals and the distinct values, which include the values of cuts; and the cuts.
    """
    firsts = [(cut.column, first_on_the_right(cut, sample[cut.column].type)) for cut in cuts]
    known = [(name, first.as_py()) for name, first in firsts if first is not None]
    ranked, at = [], np.zeros((2, len(known)), np.int64)
    for number, (name, column) in enumerate(sample.items()):
        own = [position for position, (of, _) in enumerate(known) if of == name]
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        added = pa.array([known[position][1] for position in own], column.type)
        joint = rank(pa.chunked_array([*chunks, added], column.type))
        ranked.append(Ranked(joint.ordinals[: len(column)], joint.distinct))
        at[0, own], at[1, own] = number, joint.ordinals[len(column) :]
    return ranked, Cuts(at[0], at[1])


def divide_files(left: Int64, rows: Int64 | int, files: Int64 | int, file_rows: float) -> tuple[Int64, Bool]:
    """Distribute the files of parts over the sides of a cut, in proportion to the rows.

    Args:
        left: int64[n], the number of rows on the left side of the cut.
        rows: int64[n] or one number, the number of rows of the part.
        files: int64[n] or one number, the number of files of the part, at least two.
        file_rows: the number of rows of an average file.

    Returns:
        int64[n], the number of files on the left side, at least one on each side; and bool[n], whether both sides have
        enough rows for whole files.
    """
    found = np.clip(np.rint(files * (left / np.maximum(rows, 1))), 1, files - 1).astype(np.int64)
    return found, _is_whole(left, found, file_rows) & _is_whole(rows - left, files - found, file_rows)


def _is_whole(rows: Int64, files: Int64, file_rows: float) -> Bool:
    return (rows * MAX_FACTOR >= files * file_rows) & (rows <= files * file_rows * MAX_FACTOR)


def first_on_the_right(cut: Compare, type_: pa.DataType) -> pa.Scalar | None:
    """The lowest value of a type that is on the right side of a cut: that does not satisfy the comparison.

    Args:
        cut: a comparison by `<` or `<=`.
        type_: the type of its column.

    Returns:
        The value; None if the constant of the cut cannot be compared with the type, or is beyond its values, so that
        the cut does not divide them.
    """
    value, above = coerced(cut.value, type_), cut.operator == "<="
    try:
        found = None if value is None else _first(value, type_, above)
        return None if found is None else pa.scalar(found, type_)
    except (pa.ArrowInvalid, ArithmeticError, ValueError):
        return None  # beyond the values of the type


def _first(value: Any, type_: pa.DataType, above: bool) -> Any:
    if pt.is_boolean(type_):
        return True if value is not above else None
    if pt.is_integer(type_):
        return floor(value) + 1 if above else ceil(value)
    if pt.is_decimal(type_):
        unit = Decimal(1).scaleb(-type_.scale)
        whole = Decimal(value).quantize(unit, ROUND_FLOOR if above else ROUND_CEILING, _WIDE)
        return _WIDE.add(whole, unit) if above else whole
    if pt.is_floating(type_):
        scalar = type_.to_pandas_dtype()
        near = scalar(value)
        return np.nextafter(near, scalar(np.inf)) if float(near) < value or (above and float(near) == value) else near
    if pt.is_date(type_):
        day = value.date() if isinstance(value, datetime) else value
        later = above or (isinstance(value, datetime) and value > datetime(day.year, day.month, day.day))
        return day + timedelta(days=1) if later else day
    if pt.is_timestamp(type_):
        return instant_of(value) + timedelta(microseconds=1) if above else instant_of(value)
    return value + "\0" if above else value


# The kd tree. It is grown level by level, from one part with all rows.

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
        noise, depth_within, cuts, spread_nulls: As in `build_kd`.
    """

    weights: Sequence[float]
    marginals: Sequence[Marginal]
    noise: bool
    large: float
    depth_within: int
    cuts: Cuts = NO_CUTS
    spread_nulls: bool = True


@dataclass(slots=True)
class _Parts:
    """The parts of one level that may be split further. Arrays have one item per part."""

    rows: SortedParts
    pieces: Int64  # the number of files to split each into; the number of leaves if it is in one file
    levels: Int64  # the maximum number of further levels
    in_file: Bool  # whether the part is a file or a part of one file
    cut: Int64  # the first declared cut to try


@dataclass(frozen=True, slots=True)
class _Splits:
    """One possible split of each of n parts."""

    column: Int64  # -1 for no split
    left_rows: Int64
    left_pieces: Int64
    imbalance: Float64  # the log of the larger factor by which a side's rows per piece differ from the part's
    cut: Int64  # the declared cut that the part is split at, -1 for a quantile


def build_kd(
    ordinals: Sequence[Int64],
    weights: Sequence[float],
    n_files: int,
    noise: bool,
    depth_within: int = 0,
    cuts: Cuts = NO_CUTS,
    *,
    spread_nulls: bool = True,
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
        spread_nulls: distribute the key whose columns are all null like any key with noise, even without `noise`: no
            equality and no range matches it.
    """
    n_rows = len(ordinals[0])
    n_files = max(1, min(n_files, n_rows))
    marginals = [Marginal.of(o) for o in ordinals]
    goal = Goal(weights, marginals, noise, 2 * n_rows / n_files, depth_within, cuts, spread_nulls)
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
    at = np.flatnonzero(new_file | is_key)
    is_null = (rows.extents()[1] < 0).all(axis=1)
    is_divided = goal.noise | (goal.spread_nulls & is_null)
    spread = np.where(is_large & is_divided, parts.pieces, 1)
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
        is_oversized=(is_large & ~is_divided)[at],
    )


def _divide(parts: _Parts, splits: _Splits) -> _Parts:
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
    """The first cut of each part, of those not yet tried, whose sides both are whole files. Changes `parts.cut`."""
    # It is changed to the first cut that has not been tried: cuts that do not divide a part do not divide its sides
    # either.
    rows, cuts = parts.rows, goal.cuts
    found = np.full(len(parts.pieces), -1, np.int64)
    left_rows, left_pieces = found.copy(), found.copy()
    parts.cut[parts.in_file | (parts.pieces < 2)] = len(cuts)  # parts of a single file are not split
    for number in range(int(parts.cut.min(initial=len(cuts))), len(cuts)):
        at = np.flatnonzero((parts.cut == number) & (found < 0))
        parts.cut[at] += 1
        below = rows.below(at, int(cuts.column[number]), int(cuts.threshold[number]))
        left, valid = divide_files(below, rows.sizes[at], parts.pieces[at], goal.large / 2)
        found[at[valid]] = number
        left_rows[at[valid]], left_pieces[at[valid]] = below[valid], left[valid]
    column = np.append(cuts.column, -1)[found]
    return _Splits(column, left_rows, left_pieces, np.full(len(found), np.inf), found)


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
