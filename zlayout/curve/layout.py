"""File maps: `build` makes that of a sample for any curve, and `FileMap` computes the files of rows.

`leaf_order` decides in which order the rows inside a leaf are. `simulated_bounds` computes the bounds of files from a
sample.

A file map of very many files is built in two levels: `build_boxes` makes boxes from a sample, and `refine` the files of
each box from a larger sample, of which only the rows of some boxes are in memory at a time. The boxes are the files of
an ordinary kd tree, and each is the root of a kd tree of its own. Boxes are disjoint, and so are the files of one box.
All files are therefore disjoint, and the file of a row is a function of its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.curve.kd import NO_CUTS, Goal, build_kd, grow, rank_with_cuts, sort_parts
from zlayout.curve.tree import (
    NULL,
    Float64,
    Int32,
    Int64,
    KdTree,
    Marginal,
    Ranked,
    locate,
    ordinals_among,
    range_boundaries,
    rank,
    scale,
    to_range_ids,
)
from zlayout.curve.zorder import LONG_BITS, BitOrder, Curve, HilbertCurve, build_on_curve, round_robin, width_that_fits
from zlayout.predicate.model import Compare
from zlayout.spec.model import CURVES, WORKLOAD_CURVE, Layout
from zlayout.table.state import ColumnBounds, is_text

# `scale` shifts a range id left by this number of bits, and the result must fit into an int64.
MAX_BITS_PER_COLUMN = 31


@dataclass(frozen=True, slots=True)
class FileMap:
    """The function from the keys of a row to its file. For every curve it is computed in three steps:

    1. The range id of each column is the number of `boundaries[column]` that are <= the key in the order of
       `zlayout.curve.tree`. It is 0 for null.
    2. The range ids lead from the root of `tree` to a leaf. At each node, the row goes left if the column's range id is
       below the threshold. This is the case if the key is null or below boundaries[column][threshold - 1].
    3. The file is tree.file[leaf]. If tree.spread[leaf] is above 1, pmod(hash of the row, spread) is added: with noise
       for all rows of the leaf, else for rows whose keys are all null.

    Rows of one file that are sorted by their leaf follow the curve inside the file.

    Attributes:
        columns: The z-order columns.
        boundaries: The range boundaries of each column: distinct values, ascending.
        tree: A kd tree with range ids as thresholds.
    """

    columns: tuple[str, ...]
    boundaries: tuple[pa.Array, ...]
    tree: KdTree

    @property
    def files(self) -> int:
        return self.tree.files

    def leaves(self, keys: Mapping[str, pa.Array | pa.ChunkedArray]) -> Int32:
        """int32[n]: the leaf of each row. keys: by column, one array of length n for each of `columns`."""
        bounds = zip(self.columns, self.boundaries, strict=True)
        return locate(self.tree, [ordinals_among(edges, keys[name]) + 1 for name, edges in bounds])

    def locate(self, keys: Mapping[str, pa.Array | pa.ChunkedArray], row_hash: Int64 | None = None) -> Int32:
        """int32[n]: the file of each row. The placement by Spark must have the same result.

        Args:
            keys: by column, one array of length n for each of `columns`.
            row_hash: int64[n], a hash of each row, by which the rows of a leaf with several files are distributed; 0
                for rows that are not distributed. None: all of these rows go to the first of the files.
        """
        leaf = self.leaves(keys)
        file = self.tree.file[leaf]
        if row_hash is None:
            return file
        return (file + row_hash % self.tree.spread[leaf]).astype(np.int32)


def build(
    sample: Mapping[str, pa.Array | pa.ChunkedArray],
    weights: Mapping[str, float],
    curve: str,
    range_ids: int,
    n_files: int,
    noise: bool,
    depth_within: int = 0,
    cuts: Sequence[Compare] = (),
    *,
    spread_nulls: bool = True,
) -> FileMap:
    """The file map of a sample. It does not depend on the order of the rows.

    Args:
        sample: by column, in the order of the spec, one array of length n. An empty sample results in a map to one
            file.
        weights: by column, 1 for missing columns. `hilbert` and `linear` ignore them.
        curve: `kd`, `zorder`, `hilbert`, `linear` or `workload`.
        range_ids: the maximum number of ranges per column for `zorder` and `hilbert`. The other curves use the values
            of the sample.
        n_files: the wanted number of files. `FileMap.files` is the actual number.
        noise: distribute the rows of a key with more rows than two files over several files.
        depth_within: each file has up to 2**depth_within leaves.
        cuts: the declared cuts of curve `workload`, in their order: comparisons of the columns by `<` or `<=`.
        spread_nulls: as in `build_kd`. Only kd trees can be built without it.

    Raises:
        TableError: ZL109 for a column type without an order.
        ValueError: for an unknown curve.
    """
    ranked, at = rank_with_cuts(sample, cuts) if cuts else ([rank(values) for values in sample.values()], NO_CUTS)
    ordinals = [r.ordinals for r in ranked]
    column_weights = [float(weights.get(name, 1.0)) for name in sample]
    if curve not in (*CURVES, WORKLOAD_CURVE):
        raise ValueError(f"expected one of {', '.join(CURVES)} or {WORKLOAD_CURVE}, found {curve!r}")
    if curve in ("kd", WORKLOAD_CURVE) or len(ranked) == 1 or not len(ordinals[0]):
        # Every curve over one column is the order of this column, for which a kd tree needs the fewest comparisons.
        tree = build_kd(ordinals, column_weights, n_files, noise, depth_within, at, spread_nulls=spread_nulls)
    else:
        line, grid = _grid(curve, ranked, column_weights, range_ids)
        coordinates = [g.coordinates(o) for g, o in zip(grid, ordinals, strict=True)]
        tree = build_on_curve(line, coordinates, [g.thresholds() for g in grid], ordinals, n_files, noise, depth_within)
    boundaries, compact = keep_used(tree, [r.distinct for r in ranked])
    return FileMap(tuple(sample), boundaries, compact)


def build_map(
    sample: Mapping[str, pa.Array | pa.ChunkedArray], layout: Layout, n_files: int, depth_within: int = 0
) -> FileMap:
    """The file map of a sample by a declared layout. sample: the z-order columns of the layout; see `build`."""
    curve, cuts = layout.curve, layout.cuts
    return build(sample, layout.weights, curve, layout.range_ids, n_files, layout.noise, depth_within, cuts)


# The order of the rows inside a leaf.


# A column with more values has few equal values in a leaf, and sorting by it would separate rows that arrived together.
MAX_LEAF_VALUES = 1 << 12
MIN_ROWS_PER_VALUE = 2  # in the sample; with fewer, it is unknown whether the values of the column are repeated


@dataclass(frozen=True, slots=True)
class LeafOrder:
    """The column by which the rows inside a leaf are ordered. Rows with equal value ids keep their present order.

    Attributes:
        column: The column.
        values: Its distinct values in the sample without null, ascending.
    """

    column: str
    values: pa.Array

    @property
    def count(self) -> int:
        """The number of value ids, at most MAX_LEAF_VALUES."""
        return len(self.values) + 1

    def value_ids(self, keys: pa.Array | pa.ChunkedArray) -> Int64:
        """int64[n]: for each key the number of `values` that are <= the key, 0 for null. keys: of the column."""
        return ordinals_among(self.values, keys) + 1


def leaf_order(sample: Mapping[str, pa.Array | pa.ChunkedArray], layout: Layout) -> LeafOrder | None:
    """Choose the column that orders the rows inside a leaf, for all groups of a rewrite by engine zlayout.

    It is the column with the most values among those with few values. Equal values in consecutive rows take almost no
    bytes in a file, and the more values a column has, the more bytes its rows take in another order. Of columns with
    equally many values, it is the one with the highest weight, and of these the first one.

    Args:
        sample: by column, one array of length n for each z-order column of the layout.
        layout: the layout.

    Returns:
        The order, None if the rows keep their present order: no column has few values and more than one, or the layout
        does not order the rows inside a file, or another engine writes them.

    Raises:
        TableError: ZL109 for a column type without an order.
    """
    if not (layout.sort_within and layout.orders and layout.engine == "zlayout"):
        return None
    chosen, most = None, 1
    for name in sorted(layout.weights, key=lambda column: -layout.weights[column]):
        keys = sample[name]
        order, known = LeafOrder(name, rank(keys).distinct), len(keys) - keys.null_count
        values = len(order.values) + (keys.null_count > 0)
        is_few = order.count <= MAX_LEAF_VALUES and known >= MIN_ROWS_PER_VALUE * len(order.values)
        if is_few and values > most:
            chosen, most = order, values
    return chosen


@dataclass(frozen=True, slots=True)
class _Axis:
    """One column of the grid. boundaries: ordinals, ascending. width: log2 of the number of coordinates."""

    boundaries: Int64
    width: int

    def coordinates(self, ordinals: Int64) -> Int64:
        """int64[n]: the coordinate of each ordinal, int64[n]."""
        return scale(to_range_ids(ordinals, self.boundaries), len(self.boundaries) + 1, self.width)

    def thresholds(self) -> Int64:
        """int64[2**width + 1]: for each coordinate x the lowest ordinal whose coordinate is at least x.

        If no range has such a coordinate, it is the lowest ordinal of the last range.
        """
        ranges = len(self.boundaries) + 1
        starts = np.concatenate(([NULL], self.boundaries))
        first = np.searchsorted(scale(np.arange(ranges), ranges, self.width), np.arange((1 << self.width) + 1))
        thresholds: Int64 = starts[np.minimum(first, ranges - 1)]
        return thresholds


def _grid(curve: str, ranked: Sequence[Ranked], weights: Sequence[float], range_ids: int) -> tuple[Curve, list[_Axis]]:
    if curve == "linear":
        return _linear_grid(ranked)
    edges = [range_boundaries(r.ordinals, range_ids) for r in ranked]
    width = width_that_fits(len(ranked), max(len(e) for e in edges).bit_length())
    grid = [_Axis(e, width) for e in edges]
    if curve == "hilbert":
        return HilbertCurve(len(grid), width), grid
    widths = (width,) * len(grid)
    return BitOrder(widths, round_robin(widths, weights)), grid


def _linear_grid(ranked: Sequence[Ranked]) -> tuple[Curve, list[_Axis]]:
    widths = linear_widths([len(r.distinct) for r in ranked])
    grid = [_Axis(np.arange(len(r.distinct), dtype=np.int64), w) for r, w in zip(ranked, widths, strict=True)]
    return BitOrder(widths, tuple(c for c, width in enumerate(widths) for _ in range(width))), grid


def linear_widths(distinct: Sequence[int]) -> tuple[int, ...]:
    """The number of bits of each column in linear order, from the number of its distinct values.

    If 63 bits are too few for all columns, later columns have fewer bits.
    """
    widths: list[int] = []
    for count in distinct:
        widths.append(min(count.bit_length(), LONG_BITS - sum(widths), MAX_BITS_PER_COLUMN))
    return tuple(widths)


def join_trees(
    boundaries: Sequence[Sequence[pa.Array]], trees: Sequence[KdTree], roots: Sequence[Int32]
) -> tuple[tuple[Ranked, ...], KdTree, Int32]:
    """Concatenate the arrays of trees. Their thresholds become range ids among the boundaries of all trees.

    Args:
        boundaries: for each tree one array for each column, as in `FileMap`.
        trees: the trees, with range ids as thresholds. Each may have several roots.
        roots: for each tree int32[k], its roots: a node, or ~leaf.

    Returns:
        For each column the merged boundaries of all trees; the joined tree; and its roots.
    """
    shared = tuple(rank(pa.concat_arrays(list(of_column))) for of_column in zip(*boundaries, strict=True))
    taken = [0] * len(shared)
    joined: dict[str, list[Any]] = {field.name: [] for field in fields(KdTree)} | {"roots": []}
    nodes = leaves = files = 0
    for edges, tree, root in zip(boundaries, trees, roots, strict=True):
        threshold = tree.threshold.copy()
        for c, ranked in enumerate(shared):
            nodes_of_column = tree.column == c
            threshold[nodes_of_column] = ranked.ordinals[taken[c] + tree.threshold[nodes_of_column] - 1] + 1
            taken[c] += len(edges[c])
        left, right, root = (
            np.where(child < 0, child - leaves, child + nodes).astype(np.int32)
            for child in (tree.left, tree.right, root)
        )
        moved = {"threshold": threshold, "left": left, "right": right, "roots": root}
        moved |= {"file": tree.file + files, "oversized": tree.oversized + files}
        for name, parts in joined.items():
            parts.append(moved[name] if name in moved else getattr(tree, name))
        nodes, leaves, files = nodes + len(tree.column), leaves + len(tree.file), files + tree.files
    arrays = {name: np.concatenate(parts) for name, parts in joined.items()}
    root = arrays.pop("roots")
    return shared, KdTree(**arrays), root


def keep_used(tree: KdTree, distinct: Sequence[pa.Array]) -> tuple[tuple[pa.Array, ...], KdTree]:
    """The values that nodes compare with, as range boundaries; and the tree with range ids as thresholds.

    Args:
        tree: a tree with ordinals as thresholds.
        distinct: for each column the distinct values that the ordinals are indices of.
    """
    threshold = np.zeros_like(tree.threshold)
    boundaries: list[pa.Array] = []
    for column, values in enumerate(distinct):
        nodes = tree.column == column
        used = np.unique(tree.threshold[nodes])
        threshold[nodes] = np.searchsorted(used, tree.threshold[nodes]) + 1
        boundaries.append(values.take(pa.array(used)))
    return tuple(boundaries), replace(tree, threshold=threshold)


# The bounds of simulated files: those that a writer would store for the sampled rows of each file.


# This character is appended to a truncated upper bound, so that the bound is above all values with the same prefix.
LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Unseen:
    """What is known of the rows of simulated files that are not sampled.

    Attributes:
        rows: float64[files], the number of these rows for each sampled row of the file.
        limits: int64[2, files], the lowest and the highest ordinal that a row of the file can have.
        random: float64[2, files], a number from 0 to 1 for each end of the range of a file.
        part: int64[files], the part of the table that each file belongs to.
        ends: the lowest and the highest value in each part, null if unknown.
    """

    rows: Float64
    limits: Int64
    random: Float64
    part: Int64
    ends: tuple[pa.Array, pa.Array]


def simulated_bounds(
    ranked: Ranked,
    file: Int32 | Int64,
    files: int,
    bound_length: int | None = None,
    unseen: Unseen | None = None,
) -> ColumnBounds:
    """The bounds of each of `files` files. A file without sampled rows has none.

    Args:
        ranked: the column of n sampled rows.
        file: int32[n], the file of each row, below `files`.
        files: the number of files.
        bound_length: the bound length of strings and binary; None if writers do not truncate bounds.
        unseen: the rows that are not sampled, by which the bounds are extended; None if there are none.
    """
    low = np.full(files, len(ranked.distinct), np.int64)
    high = np.full(files, -1, np.int64)
    valid = ranked.ordinals >= 0
    np.minimum.at(low, file[valid], ranked.ordinals[valid])
    np.maximum.at(high, file[valid], ranked.ordinals[valid])
    nulls = np.bincount(file[~valid], minlength=files)
    if unseen is not None and len(ranked.distinct):
        low, high = _extended(ranked, low, high, np.bincount(file[valid], minlength=files), unseen)
    lower = ranked.distinct.take(pa.array(low, mask=high < 0))
    upper = ranked.distinct.take(pa.array(high, mask=high < 0))
    if unseen is not None:
        lower = _up_to(unseen.ends[0], unseen.part, lower, low, 1)
        upper = _up_to(unseen.ends[1], unseen.part, upper, high, -1)
    if bound_length is None or not is_text(lower.type):
        return ColumnBounds(lower, upper, nulls, np.zeros(len(low), bool))
    return _truncated(lower, upper, nulls, bound_length)


# Of sets of rows with the same density everywhere, one in exp(3) = 20 has no row where this many are expected.
MAX_MISSED = 3.0


def reach(count: Int64, low: Int64, high: Int64, rows: Int64) -> Int64:
    """int64[2, n]: the lowest and the highest ordinal that the rows of each of n parts of a table can have.

    The axis is all sampled rows in the order of the column. The sampled rows of a part are a share of those in its
    range, and its other rows are assumed to have the same share beyond the range: up to the distance in which one more
    sampled row is expected, or up to the end of the axis if at most MAX_MISSED are expected there.

    Args:
        count: int64[distinct], the number of sampled rows of each ordinal.
        low, high: int64[n], the range of the sampled rows of each part.
        rows: int64[n], their number, at least 1.
    """
    last, distance = len(count) - 1, _distance(count, low, high, rows)

    def highest(high: Int64, ends: Int64) -> Int64:
        farthest = _farthest(ends, high, np.full_like(high, last), distance)
        found: Int64 = np.maximum(np.searchsorted(ends, farthest, side="right") - 1, high)
        return found

    return np.stack((last - highest(last - low, np.cumsum(count[::-1])), highest(high, np.cumsum(count))))


def _distance(count: Int64, low: Int64, high: Int64, rows: Int64) -> Float64:
    """The distance from one of the `rows` sampled rows with a range to the next one, in rows of the axis."""
    ends = np.cumsum(count)
    return (ends[high] - ends[low] + count[low]) / rows


def _farthest(ends: Int64, high: Int64, limit: Int64, distance: Float64) -> Float64:
    """The place on the axis up to which rows are assumed. ends: the place of the last sampled row of each ordinal."""
    rest = ends[limit] - ends[high]
    found: Float64 = np.where(rest <= MAX_MISSED * distance, ends[limit], ends[high] + distance)
    return found


def _extended(ranked: Ranked, low: Int64, high: Int64, rows: Int64, unseen: Unseen) -> tuple[Int64, Int64]:
    """Extend the range of each file to the extreme values of its rows that are not sampled.

    They are assumed to be as far beyond the range as in `reach`, within the limits. The distance of the extreme one
    from the farthest place is exponentially distributed. A value of which more than MAX_MISSED sampled rows are
    expected in the file is not its extreme value, because the file has none of them.
    """
    count, last, filled = np.bincount(ranked.ordinals[ranked.ordinals >= 0]), len(ranked.distinct) - 1, rows > 0
    low, high = np.where(filled, low, 0), np.where(filled, high, last)
    distance = _distance(count, low, high, np.maximum(rows, 1))
    spread = distance / np.maximum(unseen.rows, 1e-9)  # from one other row to the next

    def highest(high: Int64, limit: Int64, count: Int64, random: Float64) -> Int64:
        ends = np.cumsum(count)
        found = np.searchsorted(ends, _farthest(ends, high, limit, distance) + np.log(random) * spread)
        found = np.minimum(found, last)
        extended: Int64 = np.maximum(found - (count[found] > MAX_MISSED * distance), high)
        return extended

    low = last - highest(last - low, last - unseen.limits[0], count[::-1], unseen.random[0])
    high = highest(high, unseen.limits[1], count, unseen.random[1])
    return np.where(filled, low, last + 1), np.where(filled, high, -1)


def _up_to(ends: pa.Array, part: Int64, bounds: pa.Array, ordinals: Int64, sign: int) -> pa.Array:
    """Extend the outermost bounds of the files of each part to its end. sign: 1 for lower and -1 for upper bounds."""
    filled = np.flatnonzero(bounds.is_valid())
    order = filled[np.lexsort((sign * ordinals[filled], part[filled]))[::-1]]
    outermost = np.full(len(ends), -1, np.int64)
    outermost[part[order]] = order
    parts = np.flatnonzero(outermost >= 0)
    compared = rank(pa.concat_arrays([bounds.take(pa.array(outermost[parts])), ends.take(pa.array(parts))]))
    own, end = sign * compared.ordinals.reshape(2, -1)
    farther = parts[(end != sign * NULL) & (end < own)]
    index = np.arange(len(bounds))
    index[outermost[farther]] = len(bounds) + farther
    return pa.concat_arrays([bounds, ends]).take(pa.array(index))


def file_limits(built: FileMap, distinct: Sequence[pa.Array]) -> Int64:
    """int64[columns, 2, files]: the lowest and the highest ordinal that a row of each file can have.

    Args:
        built: the file map.
        distinct: the distinct values of each column of the sample that it was built from, ascending.
    """
    tree = built.tree
    last = np.array([len(values) - 1 for values in distinct], np.int64)
    # The lowest ordinal that is not below each boundary. A boundary of a declared cut need not occur in the sample.
    starts = [
        np.searchsorted(ordinals_among(edges, values), np.arange(len(edges)))
        for values, edges in zip(distinct, built.boundaries, strict=True)
    ]
    found = np.empty((len(distinct), 2, tree.files), np.int64)
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


# Mean number of files per box. Nearly every box then has at most 64 files, so that its tree has six levels.
FILES_PER_BOX = 48
# Number of ranges with which the distribution of a column is known when a box is split. In a layout of 400,000 files by
# two columns, a file extends over about 100 of these ranges.
MARGINAL_RANGES = 1 << 16

Keys = Mapping[str, pa.Array | pa.ChunkedArray]


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of one column in the table, as the shares of rows in ranges of values.

    Attributes:
        starts: The lowest value of each range but the first, ascending. The first range has the values below them.
        below: float64[ranges + 1], the share of the rows below each range, nulls included, then 1.
        nulls: The share of the rows that are null.
    """

    starts: pa.Array
    below: Float64
    nulls: float

    def of(self, distinct: pa.Array) -> Marginal:
        """The distribution of the column over these distinct values, estimated from the ranges that contain them."""
        joint = rank(pa.concat_arrays([self.starts, distinct])).ordinals
        at = np.searchsorted(joint[: len(self.starts)], joint[len(self.starts) :], side="right")
        below = np.maximum(self.below[at], self.nulls)
        return Marginal(np.concatenate(([0.0], below)), np.concatenate(([self.nulls], self.below[at + 1])), 1.0)


@dataclass(frozen=True, slots=True)
class Boxes:
    """The first level.

    Attributes:
        map: A file map whose files are the boxes.
        distributions: The distribution of each key column.
        file_rows: The number of rows of the sample for each wanted file.
        has_null_key: Whether all keys of a row of the sample are null. Such rows are in box 0.
    """

    map: FileMap
    distributions: tuple[Distribution, ...]
    file_rows: float
    has_null_key: bool

    @property
    def single_keys(self) -> Int32:
        """The boxes that are one key with more rows than two boxes. They need no second sample."""
        return self.map.tree.oversized


@dataclass(frozen=True, slots=True)
class Refined:
    """The files of consecutive boxes.

    Attributes:
        boundaries: The range boundaries of each column, as in `FileMap`.
        tree: The trees of all boxes, one after another.
        roots: int32[boxes], the root of the tree of each box: a node, or ~leaf.
    """

    boundaries: tuple[pa.Array, ...]
    tree: KdTree
    roots: Int32


def build_boxes(sample: Keys, weights: Mapping[str, float], n_files: int) -> Boxes:
    """Build the boxes of a table with `n_files` files from a sample.

    Args:
        sample: the key columns. It should have several rows for each box.
        weights: by column, 1 for missing columns.
        n_files: the wanted number of files of the table.
    """
    boxes = max(1, round(n_files / FILES_PER_BOX))
    built = build(sample, weights, "kd", 0, boxes, noise=False, spread_nulls=False)
    ranked = [rank(values) for values in sample.values()]
    has_null_key = bool(np.logical_and.reduce([r.ordinals < 0 for r in ranked]).any())
    return Boxes(built, tuple(map(_distribution, ranked)), float(built.tree.rows.sum()) / n_files, has_null_key)


def refine(
    boxes: Boxes,
    sample: Keys,
    box: Int64,
    count: int,
    weights: Mapping[str, float],
    file_rows: float,
    noise: bool,
    depth_within: int,
) -> Refined:
    """Build the files of consecutive boxes from a sample of the rows in these boxes.

    Args:
        boxes: the first level.
        sample: the key columns of n rows.
        box: int64[n], the box of each row, counted from the first of these boxes.
        count: the number of these boxes. A box without rows becomes one file.
        weights: by column, 1 for missing columns.
        file_rows: the number of rows of the sample for each wanted file.
        noise, depth_within: as in `build`.
    """
    ranked = [rank(values) for values in sample.values()]
    ordinals = [r.ordinals for r in ranked]
    marginals = [d.of(r.distinct) for d, r in zip(boxes.distributions, ranked, strict=True)]
    column_weights = [float(weights.get(name, 1.0)) for name in sample]
    rows = np.bincount(box, minlength=count)
    files = np.maximum(1, np.rint(rows / file_rows)).astype(np.int64)
    goal = Goal(column_weights, marginals, noise, 2 * file_rows, depth_within)
    tree, roots = grow(sort_parts(ordinals, box, count), files, goal)
    boundaries, compact = keep_used(tree, [r.distinct for r in ranked])
    return Refined(boundaries, compact, roots)


def join(boxes: Boxes, refined: Sequence[Refined], file_rows: float, noise: bool) -> FileMap:
    """Join the files of all boxes to one file map.

    Args:
        boxes: the first level.
        refined: the files of all boxes, in their order.
        file_rows, noise: as in `refine`.
    """
    first = boxes.map
    no_leaf: dict[str, Any] = {name: getattr(first.tree, name)[:0] for name in ("file", "spread", "rows", "oversized")}
    top, no_root = replace(first.tree, **no_leaf), np.zeros(0, np.int32)
    shared, whole, root = join_trees(
        [first.boundaries, *(r.boundaries for r in refined)],
        [top, *(r.tree for r in refined)],
        [no_root, *(r.roots for r in refined)],
    )
    for child in (whole.left[: len(top.column)], whole.right[: len(top.column)]):
        is_box = child < 0
        child[is_box] = root[first.tree.file[~child[is_box]]]
    keys = boxes.single_keys
    if len(keys):
        wanted = first.tree.rows[keys] / boxes.file_rows
        leaf = ~root[keys]  # a box of one key is one leaf, and one file
        is_divided = noise | (boxes.has_null_key & (keys == 0))
        spread = np.where(is_divided, np.rint(wanted), 1).astype(np.int32)
        whole = _with_large_keys(whole, leaf, wanted * file_rows, spread)
    return FileMap(first.columns, tuple(s.distinct for s in shared), whole)


def _with_large_keys(tree: KdTree, leaf: Int32, rows: Float64, spread: Int32) -> KdTree:
    """Distribute leaves that are one file each over `spread` files, and mark files that stay one as oversized."""
    file = tree.file[leaf]
    rows_of_file = tree.rows.copy()
    rows_of_file[file] = rows
    spread_of_leaf, count = tree.spread.copy(), np.ones(tree.files, np.int64)
    spread_of_leaf[leaf], count[file] = spread, spread
    number = (np.cumsum(count) - count).astype(np.int32)
    rows_of_file = np.repeat(rows_of_file / count, count)
    oversized = number[np.sort(np.concatenate((tree.oversized, file[spread == 1])))]
    return replace(tree, file=number[tree.file], spread=spread_of_leaf, rows=rows_of_file, oversized=oversized)


def _distribution(ranked: Ranked) -> Distribution:
    starts = range_boundaries(ranked.ordinals, MARGINAL_RANGES)
    rows = Marginal.of(ranked.ordinals)
    below = np.concatenate(([0.0], rows.below[starts + 1], [rows.total])) / max(rows.total, 1.0)
    return Distribution(ranked.distinct.take(pa.array(starts)), below, float(rows.up_to[0]) / max(rows.total, 1.0))
