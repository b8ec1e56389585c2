"""The default curve, `kd`: split the sample at conditional quantiles until every part is one file.

It is z-order with locally adaptive range ids. Z-order over quantile ranges also halves the data on one column after
the other, but at quantiles of the whole table. If columns are correlated or skewed, its cells have unequal numbers of
rows, and cutting the curve by rows results in files with overlapping bounding boxes. Splitting each part at quantiles
of that part results in files with disjoint boxes and equal numbers of rows.

Bound: N disjoint boxes over d independent columns that cut column i into k_i slices have prod k_i = N, and an equality
query on column i opens N / k_i files. With equal weights the mean is minimal for k_i = N^(1/d): N^((d-1)/d) files. In
general the product of the d numbers of files is at least N^(d-1). Correlated columns need fewer files.

Choice of the column: let p_i be the share of the queries on column i, and m_i the share of the table's rows in the
extent of a part on column i. A part of f files costs f * sum(p_i * m_i), and cutting column i into k slices divides its
term by k. The part is therefore split on the column with the largest p_i * m_i. For independent columns the result is
b_i = log2(k_i) = log2(N)/d + log2(p_i) - mean log2(p_j) bits, limited to 0..log2(NDV_i). For correlated columns it
adapts, because m_i is measured in each part. Range ids are not used: the thresholds are values of the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log, log2

import numpy as np
from numpy.typing import NDArray

from zlayout.curve.tree import KdTree
from zlayout.table.water_filling import fill

Int64 = NDArray[np.int64]
# Natural logarithm of the maximum factor by which the rows per file of a side may differ from those of the whole part.
MAX_IMBALANCE = 0.1
# Above this number of files the tree may have one level more than a balanced tree. The number of slices can then be
# exact (ten per column for a thousand files, instead of eight or sixteen): 1.00 instead of 1.035 times the floor for
# d=3, N=1000. For fewer files this is not worth one more comparison per row.
MIN_FILES_FOR_EXTRA_LEVEL = 256


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the sample that may be split further.

    columns: int64[d, n], ordinals. pieces: the number of files to split it into, or of leaves if `file` is known.
    levels: the maximum number of further levels. parent: the node above (-1: none), on whose right or left side it is.
    """

    columns: Int64
    pieces: int
    levels: int
    parent: int
    is_right: bool
    file: int = -1


@dataclass(frozen=True, slots=True)
class _Split:
    """A possible split: column, threshold, number of pieces on the left, and the imbalance of the rows per piece."""

    column: int
    threshold: int
    left_pieces: int
    imbalance: float


@dataclass(slots=True)
class _Growth:
    """The tree under construction, with lists instead of the final arrays."""

    nodes: list[list[int]] = field(default_factory=list)  # column, threshold, left, right
    leaf_file: list[int] = field(default_factory=list)
    leaf_spread: list[int] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)
    low: list[list[int]] = field(default_factory=list)
    high: list[list[int]] = field(default_factory=list)
    oversized: list[int] = field(default_factory=list)

    def attach(self, part: _Part, child: int) -> None:
        if part.parent >= 0:
            self.nodes[part.parent][3 if part.is_right else 2] = child

    def add_files(self, part: _Part, spread: int) -> int:
        first, rows = len(self.rows), part.columns.shape[1]
        low, high = _box(part.columns)
        self.rows += [rows / spread] * spread
        self.low += [low] * spread
        self.high += [high] * spread
        return first

    def add_leaf(self, part: _Part, file: int, spread: int) -> None:
        self.attach(part, ~len(self.leaf_file))
        self.leaf_file.append(file)
        self.leaf_spread.append(spread)

    def finish(self, width: int) -> KdTree:
        nodes = np.array(self.nodes, np.int64).reshape(-1, 4)
        return KdTree(
            column=nodes[:, 0].astype(np.int32),
            threshold=nodes[:, 1],
            left=nodes[:, 2].astype(np.int32),
            right=nodes[:, 3].astype(np.int32),
            file=np.array(self.leaf_file, np.int32),
            spread=np.array(self.leaf_spread, np.int32),
            rows=np.array(self.rows, np.float64),
            low=np.array(self.low, np.int64).reshape(-1, width),
            high=np.array(self.high, np.int64).reshape(-1, width),
            oversized=np.array(self.oversized, np.int32),
        )


def build_kd(
    ordinals: Sequence[Int64], weights: Sequence[float], n_files: int, noise: bool, depth_within: int = 0
) -> KdTree:
    """The kd tree of a sample, in O(n * columns * log n_files). It does not depend on the order of the rows.

    Args:
        ordinals: int64[n] for each column, dense ranks, -1 for null.
        weights: of each column, above 0.
        n_files: the wanted number of files. There are fewer if a key larger than two files must stay in one file
            (noise False), or if there are fewer distinct keys.
        noise: distribute the rows of a key larger than two files over several files.
        depth_within: levels by which each file is split further into leaves, so that rows sorted by leaf follow the
            curve inside the file.
    """
    columns = np.array(ordinals, np.int64)
    n_rows = columns.shape[1]
    n_files = max(1, min(n_files, n_rows))
    large = 2 * n_rows / n_files
    cumulative = [_cumulative(c) for c in columns]
    levels = _levels(n_files) + (n_files > MIN_FILES_FOR_EXTRA_LEVEL)
    tree = _Growth()
    stack = [_Part(columns, n_files, levels, -1, False)]
    while stack:
        part = stack.pop()
        if part.file < 0 and part.pieces == 1:
            part = _Part(
                part.columns,
                1 << depth_within,
                depth_within,
                part.parent,
                part.is_right,
                tree.add_files(part, 1),
            )
        split = _choose(part, cumulative, weights) if part.pieces > 1 and part.columns.size else None
        if split is None:
            _end(tree, part, noise, large)
            continue
        tree.attach(part, len(tree.nodes))
        stack += _children(part, split, len(tree.nodes))
        tree.nodes.append([split.column, split.threshold, 0, 0])
    return tree.finish(len(columns))


def _end(tree: _Growth, part: _Part, noise: bool, large: float) -> None:
    """Add a leaf for a part that is one file or a piece of one, or that is one key and cannot be split."""
    if part.file >= 0:
        tree.add_leaf(part, part.file, 1)
        return
    is_large = part.columns.shape[1] > large
    spread = part.pieces if is_large and noise else 1
    file = tree.add_files(part, spread)
    if is_large and not noise:
        tree.oversized.append(file)
    tree.add_leaf(part, file, spread)


def _children(part: _Part, split: _Split, node: int) -> list[_Part]:
    """The right and the left side. The left one is then popped first, so that leaves are numbered in order."""
    goes_left = part.columns[split.column] < split.threshold
    return [
        _Part(part.columns.compress(side, axis=1), pieces, part.levels - 1, node, is_right, part.file)
        for side, pieces, is_right in (
            (~goes_left, part.pieces - split.left_pieces, True),
            (goes_left, split.left_pieces, False),
        )
    ]


def _choose(part: _Part, cumulative: Sequence[Int64], weights: Sequence[float]) -> _Split | None:
    """The balanced split with the largest gain, or else the most balanced split; None if the part is one key."""
    lowest, highest = part.columns.min(axis=1).tolist(), part.columns.max(axis=1).tolist()
    extents = [*zip(lowest, highest, strict=True)]
    costs = {
        i: log2(weights[i] * float(cumulative[i][high + 2] - cumulative[i][low + 1]) / float(cumulative[i][-1]))
        for i, (low, high) in enumerate(extents)
        if low < high
    }
    if not costs:
        return None
    # A column is cut in its middle or left of it. Where no fewer pieces may be left, any number of slices does.
    least = _least_left(part)
    if least >= round(part.pieces / 2):
        wanted = dict.fromkeys(costs, least)
    else:
        # dense ordinals: the extent bounds the number of distinct values, exactly so for a column with few of them
        caps = [log2(extents[i][1] - extents[i][0] + 1) for i in costs]
        bits = fill(np.array([log2(part.pieces)]), np.array([[*costs.values()]]), np.array([caps]))[0].tolist()
        wanted = {i: max(least, _wanted_left(part.pieces, 2.0**b)) for i, b in zip(costs, bits, strict=True)}
    best: _Split | None = None
    # costs within a hundredth of a bit count as equal, so that sampling noise does not decide
    for i in sorted(costs, key=lambda i: (-round(costs[i], 2), i)):
        split = _split(part, i, wanted[i])
        if split.imbalance <= MAX_IMBALANCE:
            return split
        if best is None or split.imbalance < best.imbalance:
            best = split
    return best


def _least_left(part: _Part) -> int:
    """The minimum number of pieces on the left, so that the remaining levels suffice for those on the right."""
    return max(1, part.pieces - (1 << (max(part.levels, _levels(part.pieces)) - 1)))


def _wanted_left(pieces: int, slices: float) -> int:
    """The number of pieces on the left with which the column can be cut into `slices` equal slices."""
    whole = max(2, round(slices))
    return round(pieces * (whole // 2) / whole)


def _split(part: _Part, column: int, wanted: int) -> _Split:
    """The split of a column with at least two values that is nearest to the wanted number of pieces on the left.

    Both sides receive pieces in proportion to their actual rows.
    """
    values, pieces = part.columns[column], part.pieces
    n = len(values)
    rank = min(max(round(n * wanted / pieces), 1), n - 1)
    pivot = int(np.partition(values, rank)[rank])
    below, up_to = int(np.count_nonzero(values < pivot)), int(np.count_nonzero(values <= pivot))
    cuts = [(below, pivot)] if below else []
    if up_to < n and (not below or abs(up_to - rank) < abs(below - rank)):
        cuts = [(up_to, int(values[values > pivot].min()))]
    left_rows, threshold = cuts[0]
    share = left_rows / n
    left = min(max(round(pieces * share), 1), pieces - 1)
    imbalance = max(abs(log(share * pieces / left)), abs(log((1 - share) * pieces / (pieces - left))))
    return _Split(column, threshold, left, imbalance)


def _levels(pieces: int) -> int:
    return ceil(log2(pieces))


def _cumulative(values: Int64) -> Int64:
    """int64[distinct + 2]: entry k + 1 is the number of rows whose ordinal is below k; nulls (-1) are first."""
    return np.concatenate(([0], np.cumsum(np.bincount(values + 1, minlength=1)))).astype(np.int64)


def _box(columns: Int64) -> tuple[list[int], list[int]]:
    """The lowest and the highest ordinal of each column without nulls (0 and -1 if there are only nulls)."""
    high = columns.max(axis=1, initial=-1)
    low = columns.min(axis=1, where=columns >= 0, initial=np.iinfo(np.int64).max)
    return np.where(high < 0, 0, low).tolist(), high.tolist()
