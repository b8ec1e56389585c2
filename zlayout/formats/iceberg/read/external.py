"""Reads from the snapshots of an Iceberg table what other writers rewrote since the last rewrite by zlayout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.table.state import ExternalRewrite, external_rewrites, instant_of_milliseconds

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

MAX_SNAPSHOTS = 1000
# The operations of snapshots that remove data files, as shown to users.
_OPERATIONS = {
    "replace": "replace (a rewrite of data files)",
    "overwrite": "overwrite",
    "delete": "delete",
}


def external_rewrites_of(
    metadata: TableMetadata, snapshot: Snapshot | None, *, known: bool
) -> tuple[ExternalRewrite, ...]:
    """Return the rewrites since the last snapshot by zlayout, up to a snapshot.

    Args:
        metadata: The metadata of the table, whose snapshots may have expired in part.
        snapshot: The newest snapshot to consider.
        known: Whether the table has layout records, so that zlayout has rewritten it.
    """
    found: list[ExternalRewrite] = []
    for number, one in enumerate(ancestors(metadata, snapshot)):
        summary = {} if one.summary is None else dict(one.summary.additional_properties)
        if recorded.LAYOUT_ID in summary or recorded.RUN in summary:
            return external_rewrites(found)
        if number >= MAX_SNAPSHOTS:
            break
        operation = "" if one.summary is None else str(one.summary.operation.value)
        if operation in _OPERATIONS and _count(summary, "deleted-data-files") > 0:
            time = instant_of_milliseconds(one.timestamp_ms)
            found.append(ExternalRewrite(_OPERATIONS[operation], one.snapshot_id, _engine(summary), time))
    return external_rewrites(found) if known else ()


def ancestors(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """Yield a snapshot and its ancestors, the newest first, as far as they have not expired."""
    by_id = {s.snapshot_id: s for s in metadata.snapshots}
    seen: set[int] = set()
    while snapshot is not None and snapshot.snapshot_id not in seen:
        yield snapshot
        seen.add(snapshot.snapshot_id)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else by_id.get(parent)


def _count(summary: Mapping[str, str], key: str) -> int:
    text = summary.get(key, "0")
    return int(text) if text.isdecimal() else 0


def _engine(summary: Mapping[str, str]) -> str:
    """Return the engine that made a snapshot, with its version. Trino writes its name in no property."""
    name, version = summary.get("engine-name", ""), summary.get("engine-version", "")
    if not name:
        return "Trino" if "trino_query_id" in summary else ""
    return f"{name} {version}".strip()
