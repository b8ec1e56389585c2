"""Compute facts of the partitions and files of a table relative to its spec, as arrays with one value for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.predicate.evaluate import answers, known
from zlayout.spec.layout import Layout
from zlayout.spec.model import LayoutSpec
from zlayout.table.axis import dense
from zlayout.table.state import FileTable, PartitionField, TableState
from zlayout.table.sums import counts, sums

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Index = NDArray[np.int64]

# Multiples of the target size above which a file is oversized, and below which it is small.
OVERSIZED_ABOVE = 1.5
SMALL_BELOW = 0.5


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Facts of each of P partitions relative to the spec.

    Attributes:
        current: bool[P], whether the partition has the partition fields to reach.
        in_scope: bool[P], whether all of its rows match `where`.
        files: int64[P], the number of live files.
        laid: int64[P], the number of laid-out files.
        outdated: int64[P], the number of outdated files.
        groups: int64[P], the number of laid-out groups.
        bytes: float64[P], the size of all files in bytes.
        unclustered: float64[P], the share of rows in unclustered files.
        deleted: float64[P], the share of deleted rows.
        small: float64[P], the share of small files.
    """

    current: Bools
    in_scope: Bools
    files: Index
    laid: Index
    outdated: Index
    groups: Index
    bytes: Floats
    unclustered: Floats
    deleted: Floats
    small: Floats

    @property
    def mixed(self) -> Bools:
        """bool[P], the partitions that are laid out only in part, or by several rewrites.

        Only these can exceed the tolerance for `touched` and `small_files`.
        """
        return (self.laid > 0) & ((self.laid < self.files) | (self.groups > 1))


@dataclass(frozen=True, slots=True)
class GroupBaselines:
    """The stored baselines of G laid-out groups.

    Attributes:
        files: int64[G], the number of files that the rewrite wrote; 0 if no baseline is stored.
        touched: float64[G, d], touched among these files; 0 if no baseline is stored.
    """

    files: Index
    touched: Floats

    def with_missing(self, count: int) -> GroupBaselines:
        """Return these baselines, followed by `count` groups without a stored baseline."""
        more = np.zeros((count, self.touched.shape[1]))
        return GroupBaselines(np.append(self.files, np.zeros(count, np.int64)), np.concatenate((self.touched, more)))


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts of each of N files relative to the spec.

    Attributes:
        laid: bool[N], whether the file is laid out.
        outdated: bool[N], whether it has a layout record and is not laid out.
        group: int64[N], the number of its laid-out group; -1 for a file without one. Without z-order columns, each file
            without a layout record of the spec is a group of its own.
        small: bool[N], whether it is a small file that another rewrite could make larger.
        baselines: The stored baselines of the laid-out groups.
    """

    laid: Bools
    outdated: Bools
    group: Index
    small: Bools
    baselines: GroupBaselines

    def take(self, index: Index) -> FileFacts:
        """Return the facts of the files at `index`, with groups numbered from 0."""
        group = self.group[index]
        present = np.zeros(int(self.group.max(initial=-1)) + 2, bool)
        present[group] = True  # the last element is for -1, no group
        number = np.cumsum(present) - 1
        number[-1] = -1
        kept = np.flatnonzero(present[:-1])
        baselines = GroupBaselines(self.baselines.files[kept], self.baselines.touched[kept])
        return FileFacts(self.laid[index], self.outdated[index], number[group], self.small[index], baselines)


def laid_out(spec: LayoutSpec, files: FileTable) -> Bools:
    """Return the files that are laid out, bool[N]: those with a layout record that the declared layout covers.

    Without z-order columns, all files are laid out, because no order is declared that they could lack.
    """
    return recorded(spec.layout, files) if spec.layout.orders else np.ones(len(files), bool)


def recorded(layout: Layout, files: FileTable) -> Bools:
    """Return the files whose layout record the layout covers, bool[N]."""
    covered = (layout.covers(record.layout_id, record.settings) for record in files.layouts)
    found: Bools = np.array([*covered, False], bool)[files.layout]
    return found


def much_deleted(files: FileTable, spec: LayoutSpec) -> Bools:
    """Return the files, bool[N], in which the share of deleted rows exceeds the tolerance."""
    much: Bools = np.minimum(files.deleted, files.rows) > spec.tolerance.deleted_rows * files.rows
    return much


def file_facts(spec: LayoutSpec, files: FileTable) -> FileFacts:
    """Compute the facts of each file.

    Files below half of the target size do not count as small in two cases. The first is a file of a laid-out group with
    several files: its rewrite used the target size and could not make it larger. The second is a file whose
    partition has besides it only laid-out files that are not small: to make it larger, a rewrite would have to include
    files that already have the declared size.
    """
    if not spec.layout.orders:
        return _compaction_facts(spec, files)
    laid = laid_out(spec, files)
    group = np.full(len(files), -1, np.int64)
    small = files.bytes < SMALL_BELOW * spec.layout.target_size
    in_layout = np.flatnonzero(laid)
    if len(in_layout):
        width = int(files.group.max()) + 2
        key = files.partition[in_layout].astype(np.int64) * width + files.group[in_layout]
        group[in_layout], _ = dense((key,))
        if small.any():
            several = np.bincount(group[in_layout]) > 1
            small[in_layout] &= ~several[group[in_layout]]
            count = len(files.partitions)
            small &= (counts(files.partition[small | ~laid], count) > 1)[files.partition]
    return FileFacts(laid, (files.layout >= 0) & ~laid, group, small, _baselines(spec, files, group, in_layout))


def _compaction_facts(spec: LayoutSpec, files: FileTable) -> FileFacts:
    group = np.arange(len(files), dtype=np.int64)
    # The files that one rewrite by this layout wrote are one group, because it could not make them larger. Every other
    # file is a group of its own.
    index = np.flatnonzero(recorded(spec.layout, files))
    if len(index):
        width = int(files.group.max()) + 2
        first = files.partition[index].astype(np.int64) * width + files.group[index]
        _, first_of, number = np.unique(first, return_index=True, return_inverse=True)
        group[index] = index[first_of][number]
        group, _ = dense((group,))
    # Small files count if at least two groups of their partition have such files.
    small = files.bytes < SMALL_BELOW * spec.layout.target_size
    one_of_each = np.unique(group[small], return_index=True)[1]
    small &= (counts(files.partition[small][one_of_each], len(files.partitions)) > 1)[files.partition]
    baselines = GroupBaselines(np.zeros(0, np.int64), np.zeros((0, 0))).with_missing(int(group.max(initial=-1)) + 1)
    return FileFacts(np.ones(len(files), bool), np.zeros(len(files), bool), group, small, baselines)


def _baselines(spec: LayoutSpec, files: FileTable, group: Index, in_layout: Index) -> GroupBaselines:
    """Return the stored baseline of each laid-out group. group: int64[N], -1 for none. in_layout: indices of files."""
    count, columns = int(group.max(initial=-1)) + 1, len(spec.layout.columns)
    found = GroupBaselines(np.zeros(count, np.int64), np.zeros((count, columns)))
    if files.baselines:
        stored = np.empty(count, np.int64)
        stored[group[in_layout]] = files.group[in_layout]
        for at, number in enumerate(stored.tolist()):
            baseline = files.baselines.get(number)
            if baseline is not None and len(baseline.touched) == columns:
                found.files[at], found.touched[at] = baseline.files, baseline.touched
    return found


def partition_facts(
    spec: LayoutSpec, state: TableState, fields: tuple[PartitionField, ...], facts: FileFacts
) -> tuple[PartitionFacts, int]:
    """Compute the facts of every partition, and count the partially matched partitions.

    Args:
        spec: The layout spec.
        state: The observed table.
        fields: The partitioning to reach.
        facts: The facts of each file.
    """
    files = state.files
    count = len(files.partitions)
    in_scope, partially_matched = scope(spec, state)
    partition = files.partition.astype(np.int64)  # converted once for all sums
    number, rows = counts(partition, count), sums(partition, count, files.rows)

    def share(chosen: Bools, values: Index) -> Floats:
        """Return the sum of `values` over the chosen files of each partition, divided by the rows of the partition."""
        return _share(sums(partition[chosen], count, values[chosen]), rows)

    laid = partition[facts.laid]
    owner = np.zeros(int(facts.group.max(initial=-1)) + 1, np.int64)
    owner[facts.group[facts.laid]] = laid
    found = PartitionFacts(
        current=np.array([p.fields == fields for p in files.partitions], dtype=bool),
        in_scope=in_scope,
        files=number,
        laid=counts(laid, count),
        outdated=counts(partition[facts.outdated], count),
        groups=counts(owner, count),
        bytes=sums(partition, count, files.bytes),
        unclustered=share(~facts.laid, files.rows),
        deleted=share(files.deleted > 0, np.minimum(files.deleted, files.rows)),
        small=_share(counts(partition[facts.small], count).astype(np.float64), number.astype(np.float64)),
    )
    return found, partially_matched


def scope(spec: LayoutSpec, state: TableState) -> tuple[Bools, int]:
    """Return the partitions in scope, bool[P], and the number of partially matched partitions."""
    partitions = state.files.partitions
    if spec.where is None:
        return np.ones(len(partitions), dtype=bool), 0
    dates = frozenset(c.name for c in state.columns if pa.types.is_date(c.type))
    found = answers(spec.where, known(partitions, dates))
    return np.array([a is True for a in found], dtype=bool), sum(a is None for a in found)


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
