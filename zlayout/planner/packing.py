"""Select files for compaction alone: layouts without z-order columns. Pure functions without a loop over files.

Every file counts as laid out, because no order is declared that it could lack. If a partition exceeds the tolerance for
small files or for deleted rows, only the files that cause this are rewritten: its small files, or its files with many
deleted rows. They become files of about the target size, and all other files stay. The small files that a rewrite
leaves are not selected again until other small files are added (`zlayout.planner.partitions.file_facts`), so that the
next plan is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zlayout.planner.actions import Reason
from zlayout.planner.partitions import (
    SMALL_BELOW,
    Bools,
    FileFacts,
    Floats,
    Index,
    PartitionFacts,
    much_deleted,
)
from zlayout.planner.selection import Group, divided, each_partition
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable, counts, sums


def pack(
    spec: LayoutSpec,
    files: FileTable,
    each_file: FileFacts,
    facts: PartitionFacts,
    planned: Bools,
    max_bytes: int | None,
) -> list[Group]:
    """Group the files to combine by partition, in groups of at most `max_bytes` where possible.

    Args:
        spec: The layout spec.
        files: The files of the table.
        each_file: The facts of the files.
        facts: The facts of the P partitions.
        planned: bool[P], the partitions that may be rewritten.
        max_bytes: The limit of a group in bytes; None for no limit.
    """
    much = much_deleted(files, spec)
    exceeds = planned & (facts.deleted > spec.tolerance.deleted_rows)
    exceeds &= spec.layout.engine == "zlayout"  # zlayout configures OPTIMIZE so that it selects files by size alone
    owner = files.partition.astype(np.int64)
    deleted = exceeds[owner] & (much | shared(files, owner, len(exceeds), much, spec))
    small = each_file.small & (planned & (facts.small > spec.tolerance.small_files))[owner]
    # The file that replaces one with deleted rows may be small. The next plan would combine it with other small files
    # of the partition. Therefore this plan already does.
    small |= (files.bytes < SMALL_BELOW * spec.layout.target_size) & (counts(owner[deleted], len(exceeds)) > 0)[owner]
    groups = []
    for partition, index in each_partition(files, np.flatnonzero(deleted | small)):
        whole = Group(index, Reason.DELETED_ROWS if exceeds[partition] else Reason.SMALL_FILES)
        parts = [whole] if max_bytes is None else divided(whole, files, spec, max_bytes)
        groups += [part for part in parts if len(part.index) > 1 or bool(deleted[part.index].any())]
    return groups


def shared(files: FileTable, partition: Index, count: int, pending: Bools, spec: LayoutSpec) -> Bools:
    """Return the files with shared delete files, in partitions that would still exceed the tolerance for deleted rows.

    After the pending files are rewritten, the deleted rows of such files still count (see `FileTable.shared_deletes`),
    so that the next plan would rewrite these files.

    Args:
        files: N files.
        partition: int64[N], the partition of each file.
        count: The number of partitions.
        pending: bool[N], the files that are rewritten.
        spec: The layout spec.

    Returns:
        bool[N].
    """
    if not files.shared_deletes.any():
        return files.shared_deletes
    deleted = np.minimum(files.deleted, files.rows)
    left = sums(partition, count, np.where(pending & ~files.shared_deletes, 0, deleted))
    rows = sums(partition, count, np.where(pending, files.live_rows, files.rows))
    again = left > spec.tolerance.deleted_rows * rows
    found: Bools = files.shared_deletes & again[partition]
    return found


def gains(spec: LayoutSpec, files: FileTable, groups: Sequence[Group]) -> Floats:
    """Return the gain of a rewrite of each of G groups, by which a budget ranks them.

    The gain is the number of files that a full scan no longer opens, plus the bytes of deleted rows that it no longer
    reads, as a multiple of the target size.

    Returns:
        float64[G, 1].
    """
    size = spec.layout.target_size
    parts = files.split([group.index for group in groups])
    fewer = [len(part) - part.target_files(size) + float((part.bytes - part.live_bytes).sum()) / size for part in parts]
    return np.array(fewer, np.float64).reshape(-1, 1)
