"""Reads from snapshots when writers other than zlayout last wrote to each partition of an Iceberg table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.manifests import EQUALITY_DELETES, DataColumns
from zlayout.formats.undo import ROLLBACK
from zlayout.table.last_written import last_written
from zlayout.table.state import Int64

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def written_by_others(data: DataColumns, metadata: TableMetadata, state: recorded.State) -> Int64:
    """Return the time of the last write to each partition of `data.partitions`, int64[P], in milliseconds since 1970.

    A data file, or a delete file for files of the partition, was written when its snapshot was committed. Snapshots
    that have expired and those of zlayout are not counted.
    """
    own = {s.snapshot_id for s in metadata.snapshots if s.summary and _is_own(s.summary.additional_properties)}
    own |= recorded.listed(state)
    times = {s.snapshot_id: s.timestamp_ms for s in metadata.snapshots if s.snapshot_id not in own}
    snapshots, inverse = np.unique(data.int64("snapshot"), return_inverse=True)
    of_files = np.array([times.get(snapshot, 0) for snapshot in snapshots.tolist()], np.int64)[inverse]
    latest = last_written(of_files, data.partition_index(), len(data.partitions))
    unpartitioned = {spec.spec_id for spec in metadata.partition_specs if not spec.fields}
    for delete in data.deletes:
        time = times.get(delete.snapshot, 0)
        if delete.content == EQUALITY_DELETES and delete.partition[0] in unpartitioned:  # applies to all partitions
            latest = np.maximum(latest, time)
        elif (at := data.partitions.get(delete.partition)) is not None:
            latest[at] = max(latest[at], time)
    return latest


def _is_own(summary: dict[str, str]) -> bool:
    return recorded.RUN in summary or ROLLBACK in summary
