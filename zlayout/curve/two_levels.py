"""Build a file map of very many files in two levels: boxes from a sample, and files of each box from a larger sample.

Of the larger sample, only the rows of some boxes are in memory at a time. The boxes are the files of an ordinary kd
tree, and each is the root of a kd tree of its own. Boxes are disjoint, and so are the files of one box. All files are
therefore disjoint, and the file of a row is a function of its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from zlayout.curve.kd import Goal, grow, sort_parts
from zlayout.curve.layout import FileMap, build, join_trees, keep_used
from zlayout.curve.tree import Float64, Int32, Int64, KdTree, Marginal, Ranked, range_boundaries, rank

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
        noise, depth_within: as in `zlayout.curve.layout.build`.
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
