"""Finds the newest snapshot of a branch of an Iceberg table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlayout.errors import Refused
from zlayout.message_text import quote_value
from zlayout.spec.model import MAIN, TableName

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot

MAX_NAMED = 5  # branches that a message names


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
        more = f" and {len(branches) - MAX_NAMED} more" if len(branches) > MAX_NAMED else ""
        raise Refused.of(
            "ZL238",
            f"expected branch {quote_value(name.branch)} of {name.on('')}, found {found}",
            hint=f"use a branch of the table: {', '.join(branches[:MAX_NAMED])}{more}",
        )
    return metadata.snapshot_by_id(ref.snapshot_id)


def heads(metadata: TableMetadata) -> list[Snapshot]:
    """Return the newest snapshots of all branches, each once."""
    ids = {ref.snapshot_id for ref in metadata.refs.values() if is_branch(ref)} | {metadata.current_snapshot_id}
    return [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in ids]


def is_branch(ref: SnapshotRef) -> bool:
    """Return whether a reference is a branch, and not a tag."""
    return str(ref.snapshot_ref_type.value) == "branch"
