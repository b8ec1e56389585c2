"""The kd tree from keys to files (`KdTree`), to which every curve is converted, and the numbers that it compares.

`join_levels` assembles trees from levels. Keys are compared as ordinals (`rank`) or as range ids (`to_range_ids`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.table.ranks import axis_and_ranks

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KdTree:
    """A kd tree. Each node compares one column with one threshold, and each leaf belongs to a file.

    Node 0 is the root. A tree without nodes is the single leaf 0. Several cells of a z-order or Hilbert curve may share
    a leaf. Leaves are numbered along the curve, so that the leaves of one file are adjacent.

    Attributes:
        column: int32[nodes], the column that the node compares.
        threshold: int64[nodes], an ordinal of this column. A row goes left if its ordinal is below the threshold, so
            that null (-1) always goes left.
        left: int32[nodes], the left child: a later node, or ~leaf, which is negative.
        right: int32[nodes], the right child, in the same form.
        file: int32[leaves], the file of the leaf, or the first one of several.
        spread: int32[leaves], the number of consecutive files over which the rows of the leaf are distributed by a hash
            of the row. It is 1 unless the leaf is one key with more rows than two files, and either noise is on or all
            columns of this key are null. Without noise, only rows whose keys are all null are distributed; other rows
            of the leaf, which the sample lacks, go to its first file.
        rows: float64[files], the number of rows of the sample in each file.
        oversized: int32[k], the files with one indivisible key that has more rows than two files.
    """

    column: Int32
    threshold: Int64
    left: Int32
    right: Int32
    file: Int32
    spread: Int32
    rows: Float64
    oversized: Int32

    @property
    def files(self) -> int:
        return len(self.rows)

    @property
    def depth(self) -> int:
        """The number of comparisons on the longest path from the root to a leaf."""
        level, depth = np.zeros(min(1, len(self.column)), np.int32), 0
        while len(level):
            children = np.concatenate((self.left[level], self.right[level]))
            level, depth = children[children >= 0], depth + 1
        return depth


def locate(tree: KdTree, ordinals: Sequence[Int64]) -> Int32:
    """int32[n]: the leaf of each row. ordinals: int64[n] for each column of the tree, -1 for null."""
    table = np.stack(ordinals)
    leaf = np.zeros(table.shape[1], np.int32)
    if not len(tree.column):
        return leaf
    rows, node = np.arange(table.shape[1]), np.zeros(table.shape[1], np.int32)
    while len(rows):
        goes_left = table[tree.column[node], rows] < tree.threshold[node]
        node = np.where(goes_left, tree.left[node], tree.right[node])
        arrived = node < 0
        leaf[rows[arrived]] = ~node[arrived]
        rows, node = rows[~arrived], node[~arrived]
    return leaf


@dataclass(frozen=True, slots=True)
class Level:
    """The parts of one level of growing trees. The next level has the left sides of all split parts, then the right.

    Attributes:
        split: bool[parts], whether the part is split. The other parts are leaves.
        column: int64[split parts], as in `KdTree`.
        threshold: int64[split parts], as in `KdTree`.
        spread: int64[parts], as in `KdTree`.
        begins: int64[n], the parts at which files begin: those that are one file, and those that are one key.
        files: int64[n], the number of files of each.
        rows: float64[n], the number of rows in each of these files.
        is_oversized: bool[n], whether the file is oversized.
    """

    split: Bool
    column: Int64
    threshold: Int64
    spread: Int64
    begins: Int64
    files: Int64
    rows: Float64
    is_oversized: Bool


def join_levels(levels: Sequence[Level]) -> tuple[KdTree, Int32]:
    """Assemble the trees whose levels, beginning with the roots, are given.

    Returns:
        The arrays of all trees, one after another, each in depth-first order; and int32[trees], the root of each tree:
        a node, or ~leaf.
    """

    def joined(name: str) -> Any:
        return np.concatenate([getattr(level, name) for level in levels])

    numbers = _numbers(levels)
    references = [np.where(s.split, n[:, 0], ~n[:, 1]).astype(np.int32) for s, n in zip(levels, numbers, strict=True)]
    sides = np.concatenate([np.zeros((2, 0), np.int32), *(r.reshape(2, -1) for r in references[1:])], axis=1)
    number, split = np.concatenate(numbers), joined("split")
    by_node, by_leaf = np.argsort(number[split, 0]), np.argsort(number[~split, 1])
    file = np.concatenate([n[level.begins, 2] for level, n in zip(levels, numbers, strict=True)])
    by_file = np.argsort(file)
    tree = KdTree(
        column=joined("column")[by_node].astype(np.int32),
        threshold=joined("threshold")[by_node],
        left=sides[0][by_node],
        right=sides[1][by_node],
        file=number[~split, 2][by_leaf].astype(np.int32),
        spread=joined("spread")[~split][by_leaf].astype(np.int32),
        rows=np.repeat(joined("rows")[by_file], joined("files")[by_file]),
        oversized=np.sort(file[joined("is_oversized")]).astype(np.int32),
    )
    return tree, references[0]


def _numbers(levels: Sequence[Level]) -> list[Int64]:
    """int64[parts, 3] for each level: the numbers of the first node, leaf and file in the subtree of each part."""
    counts: list[Int64] = []
    for level in reversed(levels):
        count = np.stack((level.split, ~level.split, np.zeros_like(level.split)), axis=1).astype(np.int64)
        count[level.begins, 2] = level.files
        if level.split.any():
            left, right = np.split(counts[-1], 2)
            count[level.split] += left + right
        counts.append(count)
    first = [np.cumsum(counts[-1], axis=0) - counts[-1]]
    for level, count in zip(levels[:-1], reversed(counts[:-1]), strict=True):
        begin = first[-1][level.split] + np.array([1, 0, 0])
        first.append(np.concatenate((begin, begin + count[: len(begin)])))
    return first


# Range boundaries, computed from a sample, and range ids. Values are given as ordinals.


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


@dataclass(frozen=True, slots=True)
class Marginal:
    """The distribution of one column, whose nulls have the ordinal -1.

    Attributes:
        below: float64[distinct + 1]; entry k + 1 is the number of rows whose ordinal is below k.
        up_to: float64[distinct + 1]; entry k + 1 is the number of rows whose ordinal is at most k.
        total: The number of rows.
    """

    below: Float64
    up_to: Float64
    total: float

    @staticmethod
    def of(ordinals: Int64) -> Marginal:
        """The distribution of n rows. ordinals: int64[n], dense, -1 for null."""
        rows = np.cumsum(np.bincount(ordinals + 1, minlength=1)).astype(np.float64)
        return Marginal(np.concatenate(([0.0], rows[:-1])), rows, float(rows[-1]))

    def between(self, low: Int64, high: Int64) -> Float64:
        """float64[n]: the number of rows from the ordinal `low` to the ordinal `high`, int64[n]; 0 if low > high."""
        inside, some = np.zeros(len(low)), low <= high
        inside[some] = self.up_to[high[some] + 1] - self.below[low[some] + 1]
        return inside


# Ordinals. They have the total order of every column type: null, then the values, then NaN; -0.0 equals 0.0; strings by
# UTF-8 bytes.
#
# All curves use ordinals, and so do not depend on the type of a column. Spark has the same order of values, so that a
# threshold has the same meaning there. Only a comparison with null must be written as `c IS NULL OR c < v`.


NULL = -1


@dataclass(frozen=True, slots=True)
class Ranked:
    """The n values of one column as ordinals.

    Attributes:
        ordinals: int64[n], the index of each value in `distinct`, -1 for null.
        distinct: The distinct values without null, ascending.
    """

    ordinals: Int64
    distinct: pa.Array


def rank(values: pa.Array | pa.ChunkedArray) -> Ranked:
    """Rank the values: equal values have the same ordinal, and a < b exactly if ordinal(a) < ordinal(b).

    Raises:
        TableError: ZL109 for a type without an order (lists, structs, maps, intervals).
    """
    flat = _canonical(values)
    ordered = flat.is_valid().to_numpy(zero_copy_only=False)
    nan = np.zeros(len(flat), bool)
    if pa.types.is_floating(flat.type):
        nan = pc.fill_null(pc.is_nan(flat), False).to_numpy(zero_copy_only=False)
        ordered = ordered & ~nan
    axis, ranks = axis_and_ranks(flat.filter(pa.array(ordered)))
    ordinals = np.full(len(flat), NULL, np.int64)
    ordinals[ordered] = ranks
    ordinals[nan] = len(axis)
    example = np.zeros(len(axis) + int(nan.any()), np.int64)
    example[ordinals[ordinals >= 0]] = np.flatnonzero(ordinals >= 0)
    return Ranked(ordinals, flat.take(pa.array(example)))


def ordinals_among(distinct: pa.Array, values: pa.Array | pa.ChunkedArray) -> Int64:
    """int64[n]: the index of the last element of `distinct` that is <= each value, -1 for null and if there is none.

    `value < distinct[k]` is equivalent to `index < k`.

    Args:
        distinct: distinct values, ascending.
        values: n values, which need not occur in `distinct`.
    """
    flat = _canonical(values)
    joint = rank(pa.concat_arrays([_canonical(distinct).cast(flat.type), flat])).ordinals
    return np.searchsorted(joint[: len(distinct)], joint[len(distinct) :], side="right").astype(np.int64) - 1


def _canonical(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Convert to one array of a type that `pyarrow.Array.take` supports, with equal representations of equal values."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(flat.type):
        return _canonical(flat.dictionary_decode())
    if pa.types.is_float16(flat.type):
        flat = flat.cast(pa.float32())
    if pa.types.is_floating(flat.type):
        # 0.0 + -0.0 is 0.0
        return pc.if_else(pc.is_nan(flat), pa.scalar(float("nan"), flat.type), pc.add(flat, pa.scalar(0.0, flat.type)))
    if pa.types.is_decimal32(flat.type) or pa.types.is_decimal64(flat.type):
        return flat.cast(pa.decimal128(flat.type.precision, flat.type.scale))
    if pa.types.is_string_view(flat.type):
        return flat.cast(pa.large_string())
    return flat.cast(pa.large_binary()) if pa.types.is_binary_view(flat.type) else flat
