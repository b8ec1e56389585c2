"""Select files for compaction alone: layouts without z-order columns. Pure functions without a loop over files.

Every file is laid out, since there is no order that it could lack. A partition is rewritten if it exceeds the tolerance
for small files or for deleted rows, and then only the files that cause it: its small files, and the files with many
deleted rows. They become files of about the target size, and all others stay. The small files that one rewrite leaves
are not selected again until others are added (`zlayout.planner.partitions.file_facts`), so that the next plan is empty.
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
    target_files,
)
from zlayout.planner.selection import SelectedFiles, divided, each_partition
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable
from zlayout.table.sums import counts, sums


def pack(
    spec: LayoutSpec,
    files: FileTable,
    each_file: FileFacts,
    facts: PartitionFacts,
    planned: Bools,
    max_bytes: int | None,
) -> list[SelectedFiles]:
    """Group the files to combine by partition, in groups of at most `max_bytes` where possible.

    Args:
        planned: bool[P], the partitions that may be rewritten.
        max_bytes: The limit of a group in bytes; None for no limit.
    """
    much = much_deleted(files, spec)
    past = planned & (facts.deleted > spec.tolerance.deleted_rows)
    past &= spec.layout.engine == "zlayout"  # OPTIMIZE rewrites no file because of deleted rows alone
    owner = files.partition.astype(np.int64)
    deleted = past[owner] & (much | shared(files, owner, len(past), much, spec))
    small = each_file.small & (planned & (facts.small > spec.tolerance.small_files))[owner]
    # What remains of a file with deleted rows may be small, and would be combined with the only small file later.
    small |= (files.bytes < SMALL_BELOW * spec.layout.target_size) & (counts(owner[deleted], len(past)) > 0)[owner]
    groups = []
    for partition, index in each_partition(files, np.flatnonzero(deleted | small)):
        whole = SelectedFiles(index, Reason.DELETED_ROWS if past[partition] else Reason.SMALL_FILES)
        parts = [whole] if max_bytes is None else divided(whole, files, spec, max_bytes)
        groups += [part for part in parts if len(part.files) > 1 or bool(deleted[part.files].any())]
    return groups


def shared(files: FileTable, partition: Index, count: int, pending: Bools, spec: LayoutSpec) -> Bools:
    """Return the files, bool[N], with shared delete files whose partition would still exceed the tolerance.

    Their deleted rows remain after the pending files are rewritten, so the next plan would rewrite them.
    """
    if not files.shared_deletes.any():
        return files.shared_deletes
    deleted = np.minimum(files.deleted, files.rows)
    left = sums(partition, count, np.where(pending & ~files.shared_deletes, 0, deleted))
    rows = sums(partition, count, np.where(pending, files.live_rows, files.rows))
    again = left > spec.tolerance.deleted_rows * rows
    found: Bools = files.shared_deletes & again[partition]
    return found


def gains(spec: LayoutSpec, files: FileTable, groups: Sequence[SelectedFiles]) -> Floats:
    """Return what a budget is spent on: by how many files of the target size a full scan opens and reads less.

    Returns:
        float64[G, 1].
    """
    size = spec.layout.target_size
    parts = files.split([group.files for group in groups])
    fewer = [
        len(part) - target_files(part, size) + float((part.bytes - part.live_bytes).sum()) / size for part in parts
    ]
    return np.array(fewer, np.float64).reshape(-1, 1)
