"""The cost of each query in a set of files, and its floor: the lowest cost in any layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zlayout.advisor.model import Bools, Costs, FileSet, KeySample, TableQuery, Target
from zlayout.advisor.simulate import point_files
from zlayout.predicate.model import Predicate
from zlayout.predicate.prune import may_match


def costs(queries: Sequence[TableQuery], files: FileSet, *, sampled: bool = False) -> Costs:
    """The cost of each query in the files. A query with two scans of the table opens its files twice.

    sampled: whether the files have the bounds of a sample. A scan then opens at least one file if present files may
    have matching rows, because the rows that match need not be in the sample.
    """
    known: dict[Predicate, Bools] = {}
    opened, read = np.zeros(len(queries)), np.zeros(len(queries))
    for number, query in enumerate(queries):
        for predicate, partitions in zip(query.predicates, query.partitions, strict=True):
            if predicate not in known:
                known[predicate] = may_match(predicate, files.bounds, files.rows)
            within = partitions[files.partition]
            hit = known[predicate] & within
            if sampled and within.any() and not hit.any():
                opened[number] += 1
                read[number] += files.bytes[within].mean()
            opened[number] += hit.sum()
            read[number] += files.bytes[hit].sum()
    return Costs(opened, read, np.array([q.weight for q in queries]))


def lowest(queries: Sequence[TableQuery], sample: KeySample, target: Target) -> Costs:
    """The floor of each query: its cost if the table were laid out for it alone, with the same number of files.

    The matching rows are then in as few files as possible. This is at least one file in each partition with matching
    sample rows, and at least one file in total if present files may have matching rows, because the sample may contain
    none of them.
    """
    points = point_files(sample)
    count = len(target.files)
    drawn = np.maximum(np.bincount(sample.partition, minlength=count), 1)
    size = target.bytes / np.maximum(target.files, 1)
    opened, read = np.zeros(len(queries)), np.zeros(len(queries))
    for number, query in enumerate(queries):
        for predicate, partitions in zip(query.predicates, query.partitions, strict=True):
            match = may_match(predicate, points.bounds, points.rows) & partitions[sample.partition]
            share = np.bincount(sample.partition[match], minlength=count) / drawn
            files = np.where(share > 0, np.clip(share * target.files, 1.0, target.files), 0.0)
            if not files.any() and partitions.any():
                files[np.argmax(partitions & (target.files > 0))] = 1.0
            opened[number] += files.sum()
            read[number] += (files * size).sum()
    return Costs(opened, read, np.array([q.weight for q in queries]))
