"""Build the file map of very many files in two levels: boxes from a sample, then files from a larger sample of each.

The larger sample is used for some boxes at a time, so that its size does not matter for memory. The boxes are the files
of an ordinary kd tree, and each is the root of a kd tree of its own. Boxes are disjoint, and so are the files of one
box: all files are disjoint, and the file of a row is a function of its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from zlayout.curve.kd import Goal, Marginal, grow
from zlayout.curve.layout import FileMap, build, join_trees, keep_used
from zlayout.curve.order import Ranked, rank
from zlayout.curve.ranges import range_boundaries
from zlayout.curve.sorted_parts import sort_parts
from zlayout.curve.tree import Float64, Int32, Int64, KdTree

# With fewer than 64 files in nearly every box, the tree of a box has six levels.
FILES_PER_BOX = 48
# The distribution of a column is known to this resolution when a box is split: a hundredth of the extent of a file in
# two columns of a table of 400,000 files.
MARGINAL_RANGES = 1 << 16

Keys = Mapping[str, pa.Array | pa.ChunkedArray]


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of one column in the table.

    starts: the lowest value of each range but the first, ascending. below: float64[ranges + 1], the share of the rows
    below each range, nulls included, then 1. The first range has the values below all of `starts`. nulls: the share of
    the rows that are null.
    """

    starts: pa.Array
    below: Float64
    nulls: float

    def of(self, distinct: pa.Array) -> Marginal:
        """The marginal of a column with these distinct values, by the ranges that they are in."""
        joint = rank(pa.concat_arrays([self.starts, distinct])).ordinals
        at = np.searchsorted(joint[: len(self.starts)], joint[len(self.starts) :], side="right")
        below = np.maximum(self.below[at], self.nulls)
        return Marginal(np.concatenate(([0.0], below)), np.concatenate(([self.nulls], self.below[at + 1])), 1.0)


@dataclass(frozen=True, slots=True)
class Boxes:
    """The first level: a file map whose files are the boxes, and the distribution of each key column.

    touched: float64[boxes, columns], the share of the rows without nulls whose value is in the extent of the box.
    file_rows: the number of rows of the sample for each wanted file.
    """

    map: FileMap
    distributions: tuple[Distribution, ...]
    touched: Float64
    file_rows: float

    @property
    def single_keys(self) -> Int32:
        """The boxes of one key with more rows than two boxes. They need no second sample."""
        return self.map.tree.oversized


@dataclass(frozen=True, slots=True)
class Refined:
    """The files of consecutive boxes.

    boundaries, tree: as in `FileMap`; the trees of all boxes one after another. roots: int32[boxes], the node at which
    each begins, or ~leaf. touched: for each column the expected number of these files that contain a value of the
    table.
    """

    boundaries: tuple[pa.Array, ...]
    tree: KdTree
    roots: Int32
    touched: tuple[float, ...]


def build_boxes(sample: Keys, weights: Mapping[str, float], n_files: int) -> Boxes:
    """Build the boxes of about FILES_PER_BOX of `n_files` files from a sample of at least some rows for each box."""
    boxes = max(1, round(n_files / FILES_PER_BOX))
    built = build(sample, weights, "kd", 0, boxes, noise=False)
    tree = built.tree
    ranked = [rank(values) for values in sample.values()]
    touched = [_touched(tree, c, Marginal.of(r.ordinals)) for c, r in enumerate(ranked)]
    file_rows = float(tree.rows.sum()) / n_files
    return Boxes(built, tuple(map(_distribution, ranked)), np.stack(touched, axis=1), file_rows)


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
    """Build the files of consecutive boxes from a sample of them.

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
    shares = [float(weights.get(name, 1.0)) for name in sample]
    rows = np.bincount(box, minlength=count)
    files = np.maximum(1, np.rint(rows / file_rows)).astype(np.int64)
    goal = Goal(shares, marginals, noise, 2 * file_rows, depth_within)
    tree, roots = grow(sort_parts(ordinals, box, count), files, goal)
    touched = tuple(float(_touched(tree, c, m).sum()) for c, m in enumerate(marginals))
    boundaries, compact = keep_used(tree, [r.distinct for r in ranked])
    return Refined(boundaries, compact, roots, touched)


def join(boxes: Boxes, refined: Sequence[Refined], file_rows: float, noise: bool) -> FileMap:
    """The file map of all boxes. refined: their files, in the order of the boxes; the rest as in `refine`."""
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
    touched = np.array([r.touched for r in refined]).sum(axis=0)
    keys = boxes.single_keys
    if len(keys):
        wanted = first.tree.rows[keys] / boxes.file_rows
        leaf = ~root[keys]  # a box of one key is one leaf, and one file
        whole = _with_large_keys(whole, leaf, wanted * file_rows, np.rint(wanted).astype(np.int32) if noise else None)
        touched += boxes.touched[keys].T @ (np.rint(wanted) if noise else np.ones(len(keys)))
    return FileMap(first.columns, "kd", (), tuple(s.distinct for s in shared), whole, tuple(touched.tolist()))


def _with_large_keys(tree: KdTree, leaf: Int32, rows: Float64, spread: Int32 | None) -> KdTree:
    """Distribute the rows of leaves that are one file each over several files, or report these files as oversized.

    leaf: int32[n]. rows: float64[n], the number of their rows. spread: int32[n], the number of files, None for one.
    """
    file = tree.file[leaf]
    of_file = tree.rows.copy()
    of_file[file] = rows
    if spread is None:
        oversized = np.sort(np.concatenate((tree.oversized, file))).astype(np.int32)
        return replace(tree, rows=of_file, oversized=oversized)
    of_leaf, count = tree.spread.copy(), np.ones(tree.files, np.int64)
    of_leaf[leaf], count[file] = spread, spread
    number = (np.cumsum(count) - count).astype(np.int32)
    return replace(tree, file=number[tree.file], spread=of_leaf, rows=np.repeat(of_file / count, count))


def _touched(tree: KdTree, column: int, rows: Marginal) -> Float64:
    """float64[files]: the share of the rows without nulls whose value is in the extent of each file."""
    inside = rows.between(tree.low[:, column], tree.high[:, column])
    return inside / rows.filled if rows.filled else inside


def _distribution(ranked: Ranked) -> Distribution:
    starts = range_boundaries(ranked.ordinals, MARGINAL_RANGES)
    rows = Marginal.of(ranked.ordinals)
    below = np.concatenate(([0.0], rows.below[starts + 1], [rows.total])) / max(rows.total, 1.0)
    return Distribution(ranked.distinct.take(pa.array(starts)), below, float(rows.up_to[0]) / max(rows.total, 1.0))
