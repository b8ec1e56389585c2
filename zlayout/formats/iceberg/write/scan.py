"""Finds the scan tasks of certain files in a snapshot."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from zlayout.errors import CommitConflict
from zlayout.formats.base import Group, GroupFailed, Work
from zlayout.formats.iceberg.write.branches import head
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.formats.kernel.requirements import changed_files, paths_of, split_groups


def tasks_of(jvm: IcebergJvm, table: Any, snapshot: int, paths: pa.Array) -> Any:
    """Return the Java scan task of each path, with its delete files, null for a path that is not live in the snapshot.

    paths: string[paths], distinct.
    """
    return jvm.content.tasks(table.newScan().useSnapshot(snapshot).ignoreResiduals().planFiles(), paths)


def still_live(jvm: IcebergJvm, table: Any, work: Work) -> tuple[list[Group], list[GroupFailed]]:
    """Separate the groups whose files, with their delete files, are unchanged since the work's version.

    The commit of another group would be a conflict, so the group is not written. `table` is the current Java table.

    Returns:
        The unchanged groups, and a failure for each other group.
    """
    now = head(table, work.table)
    if now is not None and now.snapshotId() == work.version:
        return list(work.groups), []
    with java_errors(f"searching for concurrent changes of {work.table}"):
        pinned = table.snapshot(work.version)
        if now is None or pinned is None or not is_ancestor(jvm, table, now, work.version):
            message = f"{work.table} changed since the plan: snapshot {work.version} is not in its history"
            conflict = CommitConflict.of("ZL320", message, hint="plan again")
            return [], [GroupFailed((group.id,), conflict) for group in work.groups]
        before, after = (tasks_of(jvm, table, int(s.snapshotId()), paths_of(work.groups)) for s in (pinned, now))
        same = jvm.content.same_deletes(before, after)
    kept, changed = split_groups(work.groups, same)
    return kept, [GroupFailed((g.id,), changed_files(work.table, count, len(g.files))) for g, count in changed]


def is_ancestor(jvm: IcebergJvm, table: Any, newest: Any, snapshot: int) -> bool:
    """Return whether a snapshot is the Java snapshot `newest` or an ancestor of it."""
    return bool(jvm.iceberg.util.SnapshotUtil.isAncestorOf(table, newest.snapshotId(), snapshot))
