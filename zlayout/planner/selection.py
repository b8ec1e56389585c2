"""The selection: the files to rewrite, in groups, as `zlayout.planner.select` determines them.

The first part determines whether partitions are accepted as the last complete run left them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.planner.actions import Reason
from zlayout.planner.model import Decay
from zlayout.planner.partitions import Bools, Index, PartitionFacts, classes_of
from zlayout.spec.model import LayoutSpec, TableName
from zlayout.table.state import FileTable

# Acceptance of partitions as the last complete run left them, until files are added to them.
#
# A plan cannot predict everything that a rewrite leaves. Only the rewrite shows to which partitions the rows of a moved
# file go, and how large the new files there are. If a run did everything that its plan contained, a partition without
# new files is therefore accepted, even if it now exceeds a tolerance. It is measured again when files are added to it.
# The table stores a digest of the settings under which it was accepted. With other settings, all partitions are
# measured again.


PROPERTY = "zlayout.accepted"
_DIGEST_CHARACTERS = 16
_SEPARATOR = "@"


def property_of(table: TableName) -> str:
    """Return the name of the table property with the acceptance. Each branch of a table has its own property."""
    return f"{PROPERTY}.{table.branch}" if table.branch else PROPERTY


def acceptance(spec: LayoutSpec) -> str:
    """Return the acceptance: a digest of the settings that decide whether a laid-out partition is rewritten."""
    content = repr((spec.tolerance, spec.where))
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]


def is_accepted(spec: LayoutSpec, properties: Mapping[str, str]) -> bool:
    """Return whether the last run accepted the table under the settings of the spec.

    Args:
        spec: The layout spec.
        properties: The table properties, in which the acceptance is as `in_effect` returns it.
    """
    return properties.get(property_of(spec.table)) == acceptance(spec)


def stored(digest: str, commit: int) -> str:
    """Return the value of the property.

    Args:
        digest: The acceptance; empty to accept nothing, for which the value is empty too.
        commit: The last commit of the run, an Iceberg snapshot id.
    """
    return f"{digest}{_SEPARATOR}{commit}" if digest else ""


def in_effect(value: str, live: Collection[int]) -> str:
    """Return the acceptance that is stored in the property; empty if its run was undone.

    A catalog or a user may set a branch back to an older snapshot. This does not change the table properties.

    Args:
        value: The value of the property. Older versions of zlayout stored no commit in it.
        live: The commits that added live files.
    """
    digest, _, commit = value.partition(_SEPARATOR)
    return digest if not commit or (commit.isdecimal() and int(commit) in live) else ""


@dataclass(frozen=True, slots=True)
class SelectedFiles:
    """The files of one group, and the reason for their rewrite.

    Attributes:
        files: int64, the indices of the files in the file table.
        reason: The reason for the rewrite.
    """

    files: Index
    reason: Reason

    def partition_in(self, files: FileTable) -> int:
        """Return the partition of the first file."""
        return int(files.partition[self.files[0]])


def partitions_of(groups: Sequence[SelectedFiles], files: FileTable) -> Index:
    """Return the partitions that contain files of at least one group, int64 in ascending order."""
    return np.unique(files.partition[np.concatenate([group.files for group in groups])]).astype(np.int64)


def totals(groups: Sequence[SelectedFiles], files: FileTable) -> tuple[int, int, int]:
    """Return the number of groups, the number of their files, and the size of these files in bytes."""
    size = sum(int(files.bytes[group.files].sum()) for group in groups)
    return len(groups), sum(len(group.files) for group in groups), size


@dataclass(frozen=True, slots=True)
class FileSelection:
    """The files to rewrite, and why others are not.

    Attributes:
        groups: The groups of files.
        decay: The decay measures, each with its highest value in any partition.
        out_of_scope: The number of partitions that are out of scope.
        partially_matched: The number of these that are partially matched.
        moves: Whether files of another partitioning are rewritten, so that rows change their partition.
        adopted: The number of adopted files that are not rewritten.
        adopted_partitions: The number of partitions that contain these files.
        left_out: The groups on which no budget is spent, because their rewrite gains nothing.
        hot: The groups of files that wait, because their partitions are hot.
        refused: The groups of files that are not rewritten, because their partitions must not be.
        rarely_read: The groups of files that wait, because the workload rarely reads their partitions. They count as
            within tolerance: neither `decay` nor `every_group` contains them.
    """

    groups: tuple[SelectedFiles, ...]
    decay: tuple[Decay, ...]
    out_of_scope: int
    partially_matched: int
    moves: bool = False
    adopted: int = 0
    adopted_partitions: int = 0
    left_out: tuple[SelectedFiles, ...] = ()
    hot: tuple[SelectedFiles, ...] = ()
    refused: tuple[SelectedFiles, ...] = ()
    rarely_read: tuple[SelectedFiles, ...] = ()

    @property
    def every_group(self) -> tuple[SelectedFiles, ...]:
        """The groups of files to rewrite now, or when their partitions are no longer hot."""
        return (*self.groups, *self.hot)


def moved_group(files: FileTable, index: Index) -> SelectedFiles:
    """Return the group of the files at `index`, which are moved to another partitioning."""
    is_first = (files.layout < 0).all()
    return SelectedFiles(index, Reason.NOT_LAID_OUT if is_first else Reason.PARTITIONING_CHANGED)


def by_partition(
    files: FileTable, chosen: Bools, facts: PartitionFacts, spec: LayoutSpec, indistinct: Bools
) -> list[SelectedFiles]:
    """Return one group for each partition with chosen files.

    Args:
        files: The N files of the table.
        chosen: bool[N], the files to rewrite.
        facts: The facts of the P partitions.
        spec: The layout spec.
        indistinct: bool[P], the partitions with indistinct bounds.
    """
    has_layout = bool((files.layout >= 0).any())
    parts = each_partition(files, np.flatnonzero(chosen))
    return [SelectedFiles(index, _reason(p, facts, spec, indistinct, has_layout)) for p, index in parts]


def each_partition(files: FileTable, index: Index) -> Iterator[tuple[int, Index]]:
    """Yield each partition that contains files at `index` (int64), and the indices of these files."""
    if not len(index):
        return
    chosen = classes_of(files.partition[index].astype(np.int64), len(files.partitions), index)
    yield from zip(chosen.present.tolist(), np.split(chosen.files, chosen.start[1:]), strict=True)


def divided(group: SelectedFiles, files: FileTable, spec: LayoutSpec, max_bytes: int) -> list[SelectedFiles]:
    """Divide a group into parts of at most `max_bytes`, in the order of `first_column_rank`.

    A group for engine native is not divided, because the formats' own rewrites process whole partitions.
    """
    if int(files.bytes[group.files].sum()) <= max_bytes or spec.layout.engine != "zlayout":
        return [group]
    order = np.argsort(first_column_rank(spec, files, group.files))
    return in_parts(group.files[order], group.reason, files, max_bytes)


def first_column_rank(spec: LayoutSpec, files: FileTable, index: Index) -> Index:
    """Return the rank of each file at `index` by its lower bound of the first z-order column, int64.

    Files without a bound are last. Without z-order columns, files are ranked by path, the order in which a rewrite
    combines them.
    """
    by = files.bounds[spec.column_names[0]].lower if spec.layout.orders else files.path
    rank = np.empty(len(index), np.int64)
    rank[pc.array_sort_indices(by.take(pa.array(index))).to_numpy()] = np.arange(len(index))
    return rank


def in_parts(ordered: Index, reason: Reason, files: FileTable, max_bytes: int) -> list[SelectedFiles]:
    """Divide the files at `ordered`, in that order, into parts of at most `max_bytes`. A larger file is one part."""
    parts, start = [], 0
    so_far = np.concatenate(([0], np.cumsum(files.bytes[ordered])))
    while start < len(ordered):
        stop = max(int(np.searchsorted(so_far, so_far[start] + max_bytes, side="right")) - 1, start + 1)
        parts.append(SelectedFiles(np.sort(ordered[start:stop]), reason))
        start = stop
    return parts


def _reason(partition: int, facts: PartitionFacts, spec: LayoutSpec, indistinct: Bools, has_layout: bool) -> Reason:
    if facts.outdated[partition]:
        return Reason.LAYOUT_CHANGED
    if facts.laid[partition] == 0:
        # If other partitions have layout records, a partition without laid-out files is decay, and not a first layout.
        return Reason.PARTITION_NOT_LAID_OUT if has_layout else Reason.NOT_LAID_OUT
    if indistinct[partition]:
        return Reason.BOUNDS_TRUNCATED
    return Reason.DELETED_ROWS if facts.deleted[partition] > spec.tolerance.deleted_rows else Reason.DECAYED
