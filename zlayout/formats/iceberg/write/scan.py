"""Finds the scan tasks of certain files in a snapshot. The search runs in the JVM, because calls per file are slow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from zlayout.errors import CommitConflict
from zlayout.formats.base import Group, GroupFailed, Work
from zlayout.formats.iceberg.write.branches import head
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.formats.kernel.requirements import changed_files, split_groups
from zlayout.spark.jvm import java_class

SEPARATOR = "\0"  # no path contains it
STRING = "java.lang.String"
ICEBERG = "org.apache.iceberg"
GUAVA = "relocated.com.google.common"


def tasks_of(jvm: IcebergJvm, table: Any, snapshot: int, paths: Iterable[str]) -> dict[str, Any]:
    """Return the Java scan tasks, with their delete files, of those `paths` that are live in the snapshot, by path."""
    iceberg, java = jvm.iceberg, jvm.java
    guava = iceberg.relocated.com.google.common
    # all paths are sent by one call, and returned by another one
    wanted = java.util.HashSet(guava.base.Splitter.on(SEPARATOR).splitToList(SEPARATOR.join(paths)))
    path = _path_of_task(jvm)
    contains = _method(jvm, "java.util.Set", "contains", java.lang.Boolean.TYPE, "java.lang.Object").bindTo(wanted)
    contains = contains.asType(java.lang.invoke.MethodType.methodType(java.lang.Boolean.TYPE, _class(jvm, STRING)))
    is_wanted = java.lang.invoke.MethodHandles.filterReturnValue(path, contains)
    live = table.newScan().useSnapshot(snapshot).ignoreResiduals().planFiles()
    try:
        chosen = iceberg.io.CloseableIterable.filter(live, _as(jvm, "java.util.function.Predicate", is_wanted))
        found = guava.collect.Maps.uniqueIndex(chosen, _as(jvm, f"{ICEBERG}.{GUAVA}.base.Function", path))
    finally:
        live.close()
    names = java.lang.String.join(SEPARATOR, found.keySet())
    return {name: found.get(name) for name in names.split(SEPARATOR)} if names else {}


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
        paths = [path for group in work.groups for path in group.files.path.to_pylist()]
        before, after = (tasks_of(jvm, table, int(s.snapshotId()), paths) for s in (pinned, now))
        same = {path for path, task in after.items() if path in before and _deletes(task) == _deletes(before[path])}
    kept, changed = split_groups(work.groups, np.array([path in same for path in paths], np.bool_))
    return kept, [GroupFailed((g.id,), changed_files(work.table, count, len(g.files))) for g, count in changed]


def is_ancestor(jvm: IcebergJvm, table: Any, newest: Any, snapshot: int) -> bool:
    """Return whether a snapshot is the Java snapshot `newest` or an ancestor of it."""
    return bool(jvm.iceberg.util.SnapshotUtil.isAncestorOf(table, newest.snapshotId(), snapshot))


def _deletes(task: Any) -> frozenset[tuple[str, int | None]]:
    return frozenset((delete.location(), delete.contentOffset()) for delete in task.deletes())


def _path_of_task(jvm: IcebergJvm) -> Any:
    """Return a method handle that maps a scan task to the path of its file."""
    file = _method(jvm, f"{ICEBERG}.ContentScanTask", "file", _class(jvm, f"{ICEBERG}.ContentFile"))
    path = _method(jvm, f"{ICEBERG}.ContentFile", "location", _class(jvm, STRING))
    return jvm.java.lang.invoke.MethodHandles.filterReturnValue(file, path)


def _method(jvm: IcebergJvm, owner: str, name: str, returns: Any, *arguments: str) -> Any:
    """Return the handle of a public method. owner, arguments: names of classes. returns: a Java class."""
    kind = jvm.java.lang.invoke.MethodType.methodType(returns, *[_class(jvm, a) for a in arguments])
    return jvm.java.lang.invoke.MethodHandles.publicLookup().findVirtual(_class(jvm, owner), name, kind)


def _as(jvm: IcebergJvm, interface: str, handle: Any) -> Any:
    """Convert a method handle to an object of a functional interface."""
    return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(_class(jvm, interface), handle)


def _class(jvm: IcebergJvm, name: str) -> Any:
    return java_class(jvm.root, name)
