"""Reads the snapshots of a Java table: the branch that a rewrite commits to, and the scan tasks of data files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from zlayout.errors import CommitConflict, Refused
from zlayout.formats.base import Group, GroupFailed, PlannedTable
from zlayout.formats.iceberg.read.support import empty_main
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.formats.kernel.requirements import changed_files, paths_of, split_groups
from zlayout.spark.jvm import JavaClasses
from zlayout.spec.model import TableName

_ACTION = "org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction"


def head(table: Any, name: TableName) -> Any:
    """Return the newest Java snapshot of the branch of `name`; None if there is none, or no such branch."""
    return table.snapshot(name.branch) if name.branch else table.currentSnapshot()


def to_branch(change: Any, table: Any, name: TableName) -> None:
    """Direct a rewrite to the branch of `name`. Without this, Iceberg commits it to main.

    Iceberg would create a branch that does not exist, as a copy of main.

    Raises:
        CommitConflict: ZL320, if the table no longer has the branch, or has a tag of this name.
    """
    if not name.branch:
        return
    ref = table.refs().get(name.branch)
    if ref is None or not ref.isBranch():
        message = f"{name}: the branch was dropped since the plan"
        raise CommitConflict.of("ZL320", message, hint="nothing was written to the table; create the branch again")
    change.toBranch(name.branch)


def require_native(jvm: IcebergJvm, name: TableName) -> None:
    """Check that `rewrite_data_files` of the session's Iceberg can rewrite the branch of `name`.

    Raises:
        Refused: ZL229, if it rewrites main only, or if main has no snapshot, in which case it rewrites nothing.
    """
    if name.branch and "toBranch/1" not in (JavaClasses(jvm.session.sparkContext).find(_ACTION) or ()):
        found = jvm.iceberg.IcebergBuild.version()
        message = f"{name}: rewrite_data_files of Iceberg {found} rewrites main only, so engine native cannot be used"
        raise Refused.of("ZL229", message, hint="use Iceberg 1.11 or newer, or engine zlayout")
    if name.branch and jvm.load(name).currentSnapshot() is None:
        raise Refused(empty_main(str(name)))


def tasks_of(jvm: IcebergJvm, table: Any, snapshot: int, paths: pa.Array) -> Any:
    """Return the Java scan task of each path, with its delete files, null for a path that is not live in the snapshot.

    paths: string[paths], distinct.
    """
    return jvm.content.tasks(table.newScan().useSnapshot(snapshot).ignoreResiduals().planFiles(), paths)


def still_live(jvm: IcebergJvm, table: Any, work: PlannedTable) -> tuple[list[Group], list[GroupFailed]]:
    """Separate the groups whose files, with their delete files, are unchanged since the work's version.

    The commit of a changed group would be a conflict, so the group is not rewritten. `table` is the current Java table.

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
