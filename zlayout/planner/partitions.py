"""Facts of the partitions and files of a table relative to its spec, as arrays with one value for each.

`file_facts` and `partition_facts` compute them. `partition_text` writes a partition as text. `classes_of` groups files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.predicate.evaluate import answers, known
from zlayout.spec.model import Layout, LayoutSpec
from zlayout.table.metrics import NO_POINT
from zlayout.table.order import order_of
from zlayout.table.ranks import dense
from zlayout.table.state import FileTable, Int64, Partition, PartitionField, TableState, counts, sums

# Partitions as text, for example `l_month=2026-01, region=EU`.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def partition_text(partition: Partition) -> str:
    """Return `field=value` for each partition field, joined by commas; empty for an unpartitioned table."""
    named = ((f.source if f.transform == "identity" else str(f), f.transform) for f in partition.fields)
    pairs = zip(named, partition.values, strict=True)
    return ", ".join(f"{name}={_value(transform, value)}" for (name, transform), value in pairs)


def partition_names(partitions: Sequence[Partition]) -> tuple[list[str], Int64]:
    """Return the name of each of P partitions, which is its text, and its number: int64[P].

    The number is the position in the order of the names, from 1. Redacted reports show it instead of the name.
    """
    names = [partition_text(partition) for partition in partitions]
    number = np.empty(len(names), np.int64)
    number[sorted(range(len(names)), key=names.__getitem__)] = np.arange(1, len(names) + 1)
    return names, number


def _value(transform: str, value: Any) -> str:
    """Return the integer of an Iceberg time transform as a date or time, and any other value as `str` does."""
    # Strings are quoted where the text of the partition would be that of another one.
    if value is None:
        return "null"
    if isinstance(value, str) and (value == "null" or value.startswith("'") or ", " in value):
        return "'" + value.replace("'", "''") + "'"
    if not isinstance(value, int):
        return str(value)
    try:
        match transform:
            case "year":
                return str(1970 + value)
            case "month":
                return f"{1970 + value // 12:04}-{value % 12 + 1:02}"
            case "day":
                return (_EPOCH + timedelta(days=value)).strftime("%Y-%m-%d")
            case "hour":
                return (_EPOCH + timedelta(hours=value)).strftime("%Y-%m-%dT%H")
    except OverflowError:  # the year is outside of the range of datetime
        pass
    return str(value)


# The facts of partitions and files.

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


# Files grouped by class (partition, group or candidate). Columns are reduced over each class without a loop.


# The lower end of the hull of a class without points. It is above every point.
NO_LOWER_BOUND = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True)
class Classes:
    """M files sorted by class. K of the `count` classes have files.

    Attributes:
        files: int64[M], indices of files, sorted by class.
        present: int64[K], the classes that have files, ascending.
        start: int64[K], the position in `files` where each of these classes begins.
        count: The number of classes, including those without files.
    """

    files: Index
    present: Index
    start: Index
    count: int

    def of(self, member: Bools) -> Classes:
        """Return the classes with only those files for which `member` (bool[N], of all N files) is true."""
        kept = member[self.files]
        stop = np.append(self.start, len(self.files))
        before = np.concatenate(([0], np.cumsum(kept)))[stop]
        some = before[1:] > before[:-1]
        return Classes(self.files[kept], self.present[some], before[:-1][some], self.count)

    def numbers(self) -> Index:
        """Return the number of files per class, int64[count]."""
        return self._spread(np.diff(self.start, append=len(self.files)), 0)

    def sums(self, values: NDArray[Any]) -> Floats:
        """Return the sum of `values` ([N], one per file) per class, float64[count]."""
        return self._spread(self._each(np.add, values).astype(np.float64, copy=False), 0)

    def hull(self, lo: Index, hi: Index) -> tuple[Index, Index]:
        """Return the hull of each class: the smallest `lo` and the largest `hi` of its files.

        Args:
            lo, hi: int64[N], the first and the last point of each file; NO_POINT for files without a value, which are
                ignored.

        Returns:
            int64[count] each; NO_LOWER_BOUND and NO_POINT for a class without points.
        """
        first = self._each(np.minimum, np.where(lo == NO_POINT, NO_LOWER_BOUND, lo))
        return self._spread(first, NO_LOWER_BOUND), self._spread(self._each(np.maximum, hi), NO_POINT)

    def _each(self, reduce: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = reduce.reduceat(values[self.files], self.start) if len(self.start) else values[:0]
        return found

    def _spread(self, values: NDArray[Any], missing: int) -> NDArray[Any]:
        whole = np.full(self.count, missing, values.dtype)
        whole[self.present] = values
        return whole


def classes_of(of: Index, count: int, files: Index | None = None) -> Classes:
    """Group files by class.

    Args:
        of: int64[M], the class of each file, below `count`.
        count: The number of classes.
        files: int64[M], the indices of the files; None for 0..M - 1.
    """
    order = order_of(of) if (of[1:] < of[:-1]).any() else np.arange(len(of))
    ordered = of[order]
    start = np.flatnonzero(np.diff(ordered, prepend=-1))
    return Classes(order if files is None else files[order], ordered[start], start, count)
