"""Scan tasks of chosen files in a snapshot, picked out inside the JVM: asking it file by file would be slow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from zlayout.errors import CommitConflict
from zlayout.formats.base import GroupFailed, Work
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors

SEPARATOR = "\0"  # in no path
STRING = "java.lang.String"
ICEBERG = "org.apache.iceberg"
GUAVA = "relocated.com.google.common"


def tasks_of(jvm: IcebergJvm, table: Any, snapshot: int, paths: Iterable[str]) -> dict[str, Any]:
    """Java scan tasks by path, of those of `paths` that are live in the snapshot: whole files, with their deletes."""
    iceberg, java = jvm.iceberg, jvm.java
    guava = iceberg.relocated.com.google.common
    # one call each way for all paths
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


def lost_groups(jvm: IcebergJvm, table: Any, work: Work) -> list[GroupFailed]:
    """The groups whose files are not all in the table any more as they were in the work's version, deletes included.

    Their commit would be a conflict; so they need not be written. table: as it is now.
    """
    now = table.currentSnapshot()
    if now is not None and now.snapshotId() == work.version:
        return []
    with java_errors(f"looking for concurrent changes of {work.table}"):
        pinned = table.snapshot(work.version)
        known = now is not None and pinned is not None and _is_ancestor(jvm, table, work.version)
        if not known:
            what = f"snapshot {work.version} is no longer part of its history"
            return [GroupFailed((g.id,), _conflict(work, what)) for g in work.groups]
        paths = [path for group in work.groups for path in group.files.path.to_pylist()]
        before, after = (tasks_of(jvm, table, int(s.snapshotId()), paths) for s in (pinned, now))
        same = {path for path, task in after.items() if path in before and _deletes(task) == _deletes(before[path])}
    changed = [(g, sum(path not in same for path in g.files.path.to_pylist())) for g in work.groups]
    return [
        GroupFailed((g.id,), _conflict(work, f"{count} of its {len(g.files)} files were changed"))
        for g, count in changed
        if count
    ]


def _is_ancestor(jvm: IcebergJvm, table: Any, snapshot: int) -> bool:
    return bool(jvm.iceberg.util.SnapshotUtil.isAncestorOf(table, snapshot))


def _deletes(task: Any) -> frozenset[tuple[str, int | None]]:
    return frozenset((delete.location(), delete.contentOffset()) for delete in task.deletes())


def _conflict(work: Work, what: str) -> CommitConflict:
    error = CommitConflict.of(
        "ZL320", f"{work.table} changed since the plan: {what}", hint="nothing of this group was written; plan again"
    )
    assert isinstance(error, CommitConflict)
    return error


def _path_of_task(jvm: IcebergJvm) -> Any:
    """A method handle from a scan task to the path of its file."""
    file = _method(jvm, f"{ICEBERG}.ContentScanTask", "file", _class(jvm, f"{ICEBERG}.ContentFile"))
    path = _method(jvm, f"{ICEBERG}.ContentFile", "location", _class(jvm, STRING))
    return jvm.java.lang.invoke.MethodHandles.filterReturnValue(file, path)


def _method(jvm: IcebergJvm, owner: str, name: str, returns: Any, *arguments: str) -> Any:
    """A handle of a public method. owner, arguments: class names. returns: a Java class."""
    kind = jvm.java.lang.invoke.MethodType.methodType(returns, *[_class(jvm, a) for a in arguments])
    return jvm.java.lang.invoke.MethodHandles.publicLookup().findVirtual(_class(jvm, owner), name, kind)


def _as(jvm: IcebergJvm, interface: str, handle: Any) -> Any:
    """The method handle as an object of a functional interface."""
    return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(_class(jvm, interface), handle)


def _class(jvm: IcebergJvm, name: str) -> Any:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)
