"""Reads the snapshots of an Iceberg table: its branches, and the changes of other writers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import numpy as np
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Snapshot

from zlayout.errors import Refused
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.manifests import EQUALITY_DELETES, DataColumns
from zlayout.formats.iceberg.read.schema import unpartitioned_specs
from zlayout.formats.trial import TRIAL
from zlayout.message_text import first_of, quote_value
from zlayout.spec.model import MAIN, TableName
from zlayout.table.external import MAX_CLOCK_SKEW, ExternalRewrite, external_rewrites, instant_of_milliseconds
from zlayout.table.state import Int64, maxima

MAX_NAMED = 5  # branches that a message names
MAX_SNAPSHOTS = 1000  # that are searched for rewrites by other writers
# The operations of snapshots that remove data files, as shown to users.
_REMOVALS = {"replace": "replace (a rewrite of data files)", "overwrite": "overwrite", "delete": "delete"}
_THETA_SKETCH = "apache-datasketches-theta-v1"


def head(metadata: TableMetadata, name: TableName) -> Snapshot | None:
    """Return the newest snapshot of the branch of `name`, None for a table without a snapshot.

    Raises:
        Refused: ZL238, if the table has no such branch, or a tag of this name.
    """
    if not name.branch:
        return metadata.current_snapshot()
    ref = metadata.refs.get(name.branch)
    if ref is None or not is_branch(ref):
        found = "no such branch" if ref is None else "a tag of this name"
        branches = [MAIN, *sorted(other for other, it in metadata.refs.items() if other != MAIN and is_branch(it))]
        message = f"expected branch {quote_value(name.branch)} of {name.on('')}, found {found}"
        hint = f"use a branch of the table: {first_of(branches, MAX_NAMED)}"
        hint += "" if ref else "; or create it with ALTER TABLE ... CREATE BRANCH"
        raise Refused.of("ZL238", message, hint=hint)
    return metadata.snapshot_by_id(ref.snapshot_id)


def heads(metadata: TableMetadata) -> list[Snapshot]:
    """Return the newest snapshots of all branches, each once."""
    ids = {ref.snapshot_id for ref in metadata.refs.values() if is_branch(ref)} | {metadata.current_snapshot_id}
    return [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in ids]


def is_branch(ref: SnapshotRef) -> bool:
    """Return whether a reference is a branch, and not a tag."""
    return str(ref.snapshot_ref_type.value) == "branch"


def ancestors(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """Yield a snapshot and its ancestors, the newest first, as far as they have not expired."""
    by_id = {s.snapshot_id: s for s in metadata.snapshots}
    while snapshot is not None:
        yield snapshot
        by_id.pop(snapshot.snapshot_id, None)  # so that a cycle in invalid metadata ends
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else by_id.get(parent)


def summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the summary of a snapshot, empty if it has none."""
    return snapshot.summary.additional_properties if snapshot.summary else {}


def operation_of(snapshot: Snapshot) -> str:
    """Return the operation of a snapshot, as Iceberg names it."""
    return str(snapshot.summary.operation.value) if snapshot.summary else "unknown operation"


def trial_property(table: TableName) -> str:
    """Return the table property that marks the branch of a trial, for the snapshot at which the branch was created."""
    return f"{TRIAL}.{table.branch}"


def reads_property(table: TableName) -> str:
    """Return the table property with what queries read of a trial: its version, and the bytes of `Reads`."""
    return f"{TRIAL}-reads.{table.branch}"


def external_rewrites_of(
    metadata: TableMetadata, snapshot: Snapshot | None, *, known: bool
) -> tuple[ExternalRewrite, ...]:
    """Return what other writers rewrote between the last snapshot by zlayout and a snapshot.

    Args:
        metadata: The metadata of the table, whose snapshots may have expired in part.
        snapshot: The newest snapshot to consider.
        known: Whether the table has layout records, so that zlayout has rewritten it.
    """
    found: list[ExternalRewrite] = []
    for number, one in enumerate(ancestors(metadata, snapshot)):
        summary = summary_of(one)
        if recorded.LAYOUT_ID in summary or recorded.RUN in summary:
            return external_rewrites(found)
        if number >= MAX_SNAPSHOTS:
            break
        removed = summary.get("deleted-data-files", "0")
        if (operation := _REMOVALS.get(operation_of(one))) and removed.isdecimal() and int(removed):
            time = instant_of_milliseconds(one.timestamp_ms)
            maintains = operation_of(one) == "replace"
            found.append(ExternalRewrite(operation, one.snapshot_id, _engine(summary), time, maintenance=maintains))
    return external_rewrites(found) if known else ()


def _engine(summary: Mapping[str, str]) -> str:
    """Return the engine that made a snapshot, with its version if known. Trino stores an id of its own, but no name."""
    name, version = summary.get("engine-name", ""), summary.get("engine-version", "")
    if not name:
        return "Trino" if "trino_query_id" in summary else ""
    return f"{name} {version}".strip()


def _commit_times(metadata: TableMetadata) -> tuple[dict[int, int], int]:
    """Return the time of each snapshot in milliseconds since 1970, and how many have times in the future."""
    # A snapshot was not committed later than the next one, and none in the future. The time is 0 if it is unknown.
    latest = int(time.time() * 1000) + MAX_CLOCK_SKEW
    times: dict[int, int] = {}
    future = 0
    limit = 0
    for one in sorted(metadata.snapshots, key=lambda s: (s.sequence_number or 0, s.timestamp_ms), reverse=True):
        known = bool(np.int64(one.timestamp_ms) <= latest)  # OverflowError for a number that is no time at all
        future += not known
        limit = one.timestamp_ms if known else limit
        times[one.snapshot_id] = limit
    return times, future


def written_by_others(data: DataColumns, metadata: TableMetadata, state: recorded.State) -> tuple[Int64, int]:
    """Return the time of the last write to each partition of `data.partitions`, int64[P], in milliseconds since 1970.

    A data file, or a delete file for files of the partition, was written when its snapshot was committed. Snapshots
    that have expired and those of zlayout do not count. The time is 0 if none counts. A snapshot with a time in the
    future was committed before the next one. The second result is the number of such snapshots.
    """
    own = {s.snapshot_id for s in metadata.snapshots if recorded.RUN in summary_of(s)} | recorded.listed(state)
    committed, future = _commit_times(metadata)
    times = {snapshot: at for snapshot, at in committed.items() if snapshot not in own}
    snapshots, inverse = np.unique(data.int64("snapshot"), return_inverse=True)
    of_files = np.array([times.get(snapshot, 0) for snapshot in snapshots.tolist()], np.int64)[inverse]
    latest = maxima(data.partition_index(), len(data.partitions), of_files)
    unpartitioned = unpartitioned_specs(metadata)
    for delete in data.deletes:
        written = times.get(delete.snapshot, 0)
        if delete.content == EQUALITY_DELETES and delete.partition[0] in unpartitioned:  # applies to all partitions
            latest = np.maximum(latest, written)
        elif (at := data.partitions.get(delete.partition)) is not None:
            latest[at] = max(latest[at], written)
    return latest, future


def distinct_counts(metadata: TableMetadata, snapshot: Snapshot | None) -> Mapping[int, int]:
    """Return the number of distinct values by field id, from the statistics of the snapshot.

    The table metadata has this number as a property of each sketch, so that no statistics file (Puffin) is opened.
    Statistics of other snapshots are ignored, because values may have been added since.
    """
    found: dict[int, int] = {}
    if snapshot is None:
        return found
    for file in metadata.statistics:
        for blob in file.blob_metadata if file.snapshot_id == snapshot.snapshot_id else ():
            text = (blob.properties or {}).get("ndv", "")
            if blob.type == _THETA_SKETCH and len(blob.fields) == 1 and text.isdecimal():
                found[blob.fields[0]] = int(text)
    return found
