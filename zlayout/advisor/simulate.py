"""Simulate a layout: apply it to a sample, to obtain the bounds of the files that a rewrite would write, and the costs.

The simulation uses the code of the rewrite (`zlayout.curve.layout`), so that both assign rows to files in the same way.
The floor of a query is its lowest cost in any layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zlayout.advisor.model import Bools, Costs, FileSet, Float64, KeySample, TableQuery, Target
from zlayout.curve.layout import build_map
from zlayout.curve.order import Ranked, rank
from zlayout.curve.simulate import simulated_bounds
from zlayout.predicate.model import Predicate
from zlayout.predicate.prune import may_match
from zlayout.spec.layout import Layout
from zlayout.table.state import ColumnBounds, Int32, Int64


@dataclass(frozen=True, slots=True)
class Ranks:
    """A sample prepared for many simulations.

    Attributes:
        columns: The key columns as ordinals, by name.
        bound_lengths: The bound length of each column whose bounds are truncated.
        partitions: For each partition, int64[k], the indices of its sampled rows.
    """

    columns: Mapping[str, Ranked]
    bound_lengths: Mapping[str, int]
    partitions: Sequence[Int64]


def rank_sample(sample: KeySample, bound_lengths: Mapping[str, int], partitions: int) -> Ranks:
    """Rank the values of each column, and group the rows by partition.

    Args:
        sample: The sample.
        bound_lengths: The bound length of each column whose bounds are truncated.
        partitions: The number of partitions of the table.

    Raises:
        TableError: ZL109 for a column type without an order.
    """
    ends = np.cumsum(np.bincount(sample.partition, minlength=partitions))
    rows = np.argsort(sample.partition, kind="stable").astype(np.int64)
    columns = {name: rank(values) for name, values in sample.keys.items()}
    return Ranks(columns, bound_lengths, np.split(rows, ends[:-1]))


def simulate(sample: KeySample, ranks: Ranks, layout: Layout, target: Target) -> tuple[FileSet, dict[str, float]]:
    """Simulate a rewrite of the whole table by a layout, of each partition on its own.

    Args:
        sample, ranks: The sample, and the same sample prepared by `rank_sample`.
        layout: The layout.
        target: The size of the rewrite.

    Returns:
        The files after the rewrite, of which those of a partition without sampled rows have no bounds; and touched of
        each z-order column, summed over the partitions.
    """
    weights = layout.weights
    place = np.empty(len(sample), np.int32)
    partition: list[Int32] = []
    share: list[Float64] = []
    touched = dict.fromkeys(weights, 0.0)
    first = 0
    missed = []
    for p, (wanted, rows) in enumerate(zip(target.files.tolist(), ranks.partitions, strict=True)):
        if not len(rows):
            missed += [p] * wanted
            continue
        keys = {name: sample.keys[name].take(pa.array(rows)) for name in weights}
        built = build_map(keys, layout, wanted)
        # The index of the row replaces its hash, by which the rewrite distributes rows with equal keys.
        place[rows] = built.locate(keys, np.arange(len(rows), dtype=np.int64)) + first
        first += built.files
        partition.append(np.full(built.files, p, np.int32))
        share.append(np.bincount(place[rows] - (first - built.files), minlength=built.files) / len(rows))
        for name, files in built.predict_touched().items():
            touched[name] += files
    lost = np.array(missed, np.int32)
    owner = np.concatenate([*partition, lost])
    part = np.concatenate([*share, 1.0 / np.maximum(target.files[lost], 1)])
    rows_in_file = np.concatenate([np.bincount(place, minlength=first), np.ones(len(lost), np.int64)])
    bounds = {
        name: simulated_bounds(r, place, first, len(lost), ranks.bound_lengths.get(name))
        for name, r in ranks.columns.items()
    }
    return FileSet(bounds, rows_in_file.astype(np.int64), part * target.bytes[owner], owner), touched


def point_files(sample: KeySample) -> FileSet:
    """Return each sampled row as a file of one row, so that pruning decides for which rows a predicate is true."""
    n = len(sample)
    bounds = {
        name: ColumnBounds(v, v, v.is_null().to_numpy(zero_copy_only=False).astype(np.int64), np.zeros(n, bool))
        for name, v in sample.keys.items()
    }
    return FileSet(bounds, np.ones(n, np.int64), np.zeros(n), sample.partition)


def costs(queries: Sequence[TableQuery], files: FileSet, *, sampled: bool = False) -> Costs:
    """Return the cost of each query. A query with two scans of the table opens its files twice.

    Args:
        queries: The queries.
        files: The files.
        sampled: Whether the bounds of the files are those of sampled rows only. A scan then opens at least one file if
            present files may have matching rows, because the sample may contain none of these rows.
    """
    known: dict[Predicate, Bools] = {}

    def of_scan(predicate: Predicate, partitions: Bools) -> tuple[float, float]:
        if predicate not in known:
            known[predicate] = may_match(predicate, files.bounds, files.rows)
        within = partitions[files.partition]
        hit = known[predicate] & within
        if sampled and within.any() and not hit.any():
            return 1.0, files.bytes[within].mean()
        return hit.sum(), files.bytes[hit].sum()

    return _summed(queries, of_scan)


def lowest(queries: Sequence[TableQuery], sample: KeySample, target: Target) -> Costs:
    """Return the floor of each query: its cost if the table were laid out for it alone, with the same number of files.

    The matching rows are then in as few files as possible. This is at least one file in each partition with matching
    sampled rows. It is at least one file in total if present files may have matching rows, because the sample may
    contain none of these rows.
    """
    points = point_files(sample)
    count = len(target.files)
    drawn = np.maximum(np.bincount(sample.partition, minlength=count), 1)
    size = target.bytes / np.maximum(target.files, 1)

    def of_scan(predicate: Predicate, partitions: Bools) -> tuple[float, float]:
        match = may_match(predicate, points.bounds, points.rows) & partitions[sample.partition]
        share = np.bincount(sample.partition[match], minlength=count) / drawn
        files = np.where(share > 0, np.clip(share * target.files, 1.0, target.files), 0.0)
        if not files.any() and partitions.any():
            files[np.argmax(partitions & (target.files > 0))] = 1.0
        return files.sum(), (files * size).sum()

    return _summed(queries, of_scan)


def _summed(queries: Sequence[TableQuery], of_scan: Callable[[Predicate, Bools], tuple[float, float]]) -> Costs:
    """Return the cost of each query. of_scan: returns the files and bytes of a scan by predicate and bool[P]."""
    opened = np.zeros((len(queries), 2))
    for number, query in enumerate(queries):
        for scan in zip(query.predicates, query.partitions, strict=True):
            opened[number] += of_scan(*scan)
    return Costs(opened[:, 0], opened[:, 1], np.array([q.weight for q in queries]))
