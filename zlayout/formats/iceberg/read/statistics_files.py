"""Reads the numbers of distinct values that statistics files (Puffin) state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

THETA_SKETCH = "apache-datasketches-theta-v1"


def distinct_counts(metadata: TableMetadata, snapshot: Snapshot | None) -> Mapping[int, int]:
    """Return the number of distinct values by field id, as the statistics of the snapshot state it.

    The number is a property of the sketch in the table metadata, so that no statistics file is opened. Statistics of
    other snapshots are ignored, because values may have been added since.
    """
    found: dict[int, int] = {}
    for file in metadata.statistics if snapshot is not None else ():
        if snapshot is None or file.snapshot_id != snapshot.snapshot_id:
            continue
        for blob in file.blob_metadata:
            text = (blob.properties or {}).get("ndv", "")
            if blob.type == THETA_SKETCH and len(blob.fields) == 1 and text.isdecimal():
                found[blob.fields[0]] = int(text)
    return found
