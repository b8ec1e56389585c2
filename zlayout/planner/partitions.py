"""What the files of each partition look like beside the spec: one row for each partition, no loop over files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.predicate.evaluate import answers, known
from zlayout.spec.model import LayoutSpec
from zlayout.table.axis import dense
from zlayout.table.state import FileTable, PartitionField, TableState
from zlayout.table.sums import counts, sums

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Index = NDArray[np.int64]

# A file this many times the target is split; below half the target it counts as small.
OVERSIZE = 1.5
SMALL = 0.5


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One row for each partition (length P): what its files look like beside the spec.

    current: partitioned as declared. laid, stale: how many of its `files` carry the spec's layout id, or another.
    groups: how many rewrites the laid-out files come from. Shares are of rows (unclustered, deleted) or files (small).
    """

    current: Bools
    in_scope: Bools
    files: Index
    laid: Index
    stale: Index
    groups: Index
    bytes: Floats
    unclustered: Floats
    deleted: Floats
    small: Floats

    @property
    def mixed(self) -> Bools:
        """bool[P]: laid out in part, or by several rewrites. Only these can decay in touched and small files."""
        return (self.laid > 0) & ((self.laid < self.files) | (self.groups > 1))


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One row for each file (length N).

    laid: carries the spec's layout id. group: int64, equal for the laid-out files of one rewrite in one partition, -1
    for the others. small: far below the target size, and another rewrite would mend that.
    """

    laid: Bools
    stale: Bools
    group: Index
    small: Bools


def laid_out(spec: LayoutSpec, files: FileTable) -> Bools:
    """bool[N]: the files that carry the spec's layout id."""
    ours = np.array([record.layout_id == spec.layout.layout_id for record in files.layouts] + [False], dtype=bool)
    laid: Bools = ours[files.layout]
    return laid


def file_facts(spec: LayoutSpec, files: FileTable) -> FileFacts:
    """What each file is beside the spec.

    A small file counts unless it is one of several of its rewrite: that rewrite knew the target and could do no better.
    """
    laid = laid_out(spec, files)
    group = np.full(len(files), -1, np.int64)
    small = files.bytes < SMALL * spec.layout.target_size
    ours = np.flatnonzero(laid)
    if len(ours):
        width = int(files.group.max()) + 2
        key = files.partition[ours].astype(np.int64) * width + files.group[ours] + 1
        group[ours], _ = dense((key,))
        if small.any():
            several = np.bincount(group[ours]) > 1
            small[ours] &= ~several[group[ours]]
    return FileFacts(laid, (files.layout >= 0) & ~laid, group, small)


def partition_facts(
    spec: LayoutSpec, state: TableState, fields: tuple[PartitionField, ...], facts: FileFacts
) -> tuple[PartitionFacts, int]:
    """The facts of every partition, and how many partitions `where` cuts through (those are out of scope)."""
    files = state.files
    count = len(files.partitions)
    in_scope, straddling = scope(spec, state)
    partition = files.partition.astype(np.int64)  # once for all sums
    number, rows = counts(partition, count), sums(partition, count, files.rows)

    def among(chosen: Bools) -> tuple[Index, Index]:
        """Some of the files, and the partition of each."""
        index = np.flatnonzero(chosen)
        return index, partition[index]

    def share(chosen: Bools, values: NDArray[np.int64]) -> Floats:
        """Of the partition's rows, those that the chosen files have as `values`."""
        index, owner = among(chosen)
        return _share(sums(owner, count, values[index]), rows)

    laid, stale, small = (among(chosen)[1] for chosen in (facts.laid, facts.stale, facts.small))
    owner = np.zeros(int(facts.group.max(initial=-1)) + 1, np.int64)
    owner[facts.group[facts.laid]] = laid
    found = PartitionFacts(
        current=np.array([p.fields == fields for p in files.partitions], dtype=bool),
        in_scope=in_scope,
        files=number,
        laid=counts(laid, count),
        stale=counts(stale, count),
        groups=counts(owner, count),
        bytes=sums(partition, count, files.bytes),
        unclustered=share(~facts.laid, files.rows),
        deleted=share(files.deleted > 0, np.minimum(files.deleted, files.rows)),
        small=_share(counts(small, count).astype(np.float64), number.astype(np.float64)),
    )
    return found, straddling


def scope(spec: LayoutSpec, state: TableState) -> tuple[Bools, int]:
    """bool[P]: the partitions all of whose rows satisfy `where`; and how many it cuts through or cannot tell."""
    partitions = state.files.partitions
    if spec.where is None:
        return np.ones(len(partitions), dtype=bool), 0
    dates = frozenset(c.name for c in state.columns if pa.types.is_date(c.type))
    found = answers(spec.where, known(partitions, dates))
    return np.array([a is True for a in found], dtype=bool), sum(a is None for a in found)


def target_files(files: FileTable, target_size: int) -> int:
    """How many files of target_size bytes hold the live rows of `files`; at least one."""
    rows = int(files.rows.sum())
    live = int(files.live_rows.sum()) / rows if rows else 1.0
    return max(1, round(int(files.bytes.sum()) * live / target_size))


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
