"""The others who write to a Delta table: each reads a snapshot, writes, and commits unless that conflicts."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from model.delta_actions import AddFile, Clustering, RemoveFile
from model.delta_log import DeltaTable, Snapshot, Transaction
from model.java import JavaError
from model.plans import OUTSIDE
from model.rows import NOTHING, Effect, Row
from model.schedule import step

from zlayout.formats.delta.read.log import ZCUBE_COLUMNS, ZCUBE_ID
from zlayout.formats.delta.read.observe import LIQUID

Change = tuple[Sequence[Any], Effect]
COLUMNS = ("key",)
PAIR = 3  # the key of two rows that look the same
LAST = 4  # the key of a row in the last file
DELETED = 9  # the key and the uid of the row that is deleted from the start
CUBE = {ZCUBE_ID: "cube", ZCUBE_COLUMNS: json.dumps(COLUMNS)}


def fill(table: DeltaTable, *, unclustered: bool) -> None:
    """The table as all schedules find it: one row already deleted, two rows that look the same, a file set aside.

    unclustered: it was clustered, and two of its files were so by OPTIMIZE, until CLUSTER BY NONE.
    """
    if unclustered:
        table.put([Clustering(COLUMNS)], {})
    contents = {
        "a": (Row(1, 1, 10), Row(2, 2, 20), Row(9, 9, 90)),
        "b": (Row(3, 3, 30), Row(4, 3, 30), Row(8, 6, 80)),
        "c": (Row(5, 4, 40), Row(6, 2, 50)),
        OUTSIDE: (Row(7, 5, 60),),
    }
    for name, rows in contents.items():
        file = _write(table, name, rows)
        marked = unclustered and name in ("c", OUTSIDE)
        table.put([_clustered(file) if marked else file], {}, Effect(added=rows))
    if unclustered:
        table.put([Clustering(())], {})
    actions, effect = delete(table, table.current, DELETED, "")
    table.put(actions, {}, effect)


def append(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    rows = (Row(100 + key, key, 70),)
    return [_write(table, name, rows)], Effect(added=rows)


def delete(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    """By deletion vectors."""
    actions: list[Any] = []
    gone = set()
    for file in _with_key(table, snapshot, key):
        hit = {at for at, row in enumerate(file.rows) if row.key == key and at not in file.deleted}
        gone |= {file.rows[at].uid for at in hit}
        actions += _with_vector(table, file, file.deleted | hit)
    return actions, Effect(removed=frozenset(gone))


def delete_pair(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    """Of two rows that look the same, both."""
    return delete(table, snapshot, PAIR, name)


def delete_one(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    """Of two rows that look the same, the second, or the one that is left."""
    for file in _with_key(table, snapshot, PAIR):
        at = max(at for at in file.positions if file.rows[at].key == PAIR)
        return _with_vector(table, file, file.deleted | {at}), Effect(removed=frozenset({file.rows[at].uid}))
    return [], NOTHING


def delete_last(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    """From another file of the group that has the pair."""
    return delete(table, snapshot, LAST, name)


def update_last(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    """Replace one of the two files of the group that has the pair."""
    return update(table, snapshot, LAST, name)


def restore(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    """Bring back the row that was deleted before all schedules, as RESTORE to an older version does."""
    for file in snapshot.files.values():
        for at in file.deleted:
            if file.rows[at].uid == DELETED:
                rows = replace(file, deleted=frozenset()).live(lineage=table.lineage)
                return _with_vector(table, file, file.deleted - {at}), Effect(added=(rows[at],))
    return [], NOTHING


def _with_vector(table: DeltaTable, file: AddFile, deleted: frozenset[int]) -> list[Any]:
    """The actions that give a file another deletion vector. As in Delta, a file without live rows is removed."""
    if len(deleted) == len(file.rows):
        return [file.removeWithTimestamp(0, True)]
    marked = replace(file, deleted=deleted, dataChange=True)
    table.storage |= set(marked.stored)
    return [file.removeWithTimestamp(0, True), marked]


def update(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:
    """Copy on write: row ids stay, the changed rows get the commit's version."""
    actions: list[Any] = []
    values = {}
    for number, file in enumerate(_with_key(table, snapshot, key)):
        rows = []
        for row in file.live(lineage=table.lineage):
            if row.key == key:
                values[row.uid] = row.value + 1
                row = row._replace(value=row.value + 1, version=None)
            rows.append(row)
        actions += [file.removeWithTimestamp(0, True), _write(table, f"{name}-{number}", tuple(rows))]
    return actions, Effect(values=values)


def compact(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:
    """OPTIMIZE by somebody else: the files with the key become one."""
    files = _with_key(table, snapshot, key)
    rows = tuple(row for file in files for row in file.live(lineage=table.lineage))
    removes = [file.removeWithTimestamp(0, False) for file in files]
    return ([*removes, replace(_write(table, name, rows), dataChange=False)] if rows else []), NOTHING


def cluster(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    """ALTER TABLE CLUSTER BY."""
    return [Clustering(COLUMNS)], NOTHING


def uncluster(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    """ALTER TABLE CLUSTER BY NONE, which does nothing without the feature."""
    return ([] if snapshot.clustering is None else [Clustering(())]), NOTHING


def optimize(table: DeltaTable, snapshot: Snapshot, key: int, name: str) -> Change:  # noqa: ARG001
    """OPTIMIZE of a clustered table: the unclustered files become a new ZCube, with what small ZCubes there are."""
    files = list(snapshot.files.values())
    if not snapshot.clustering or all(file.clusteringProvider for file in files):
        return [], NOTHING
    rows = tuple(row for file in files for row in file.live(lineage=table.lineage))
    added = replace(_clustered(_write(table, name, rows)), dataChange=False)
    return [*(file.removeWithTimestamp(0, False) for file in files), added], NOTHING


MANAGE = "manage"  # somebody makes the table a catalog-managed one, and commits to it
WRITERS: Mapping[str, Callable[[DeltaTable, Snapshot, int, str], Change]] = {
    "append": append,
    "delete": delete,
    "update": update,
    "compact": compact,
}
REBASED: Mapping[str, Callable[[DeltaTable, Snapshot, int, str], Change]] = {
    "delete_pair": delete_pair,
    "delete_one": delete_one,
    "delete_last": delete_last,
    "update_last": update_last,
    "restore": restore,
}
CLUSTERING: Mapping[str, Callable[[DeltaTable, Snapshot, int, str], Change]] = {
    "cluster": cluster,
    "uncluster": uncluster,
    "optimize": optimize,
}


def write(table: DeltaTable, operations: str, key: int, name: str) -> None:
    """The process: one or more operations, joined by "+"."""
    for number, operation in enumerate(operations.split("+")):
        if operation == MANAGE:
            _manage(table, key, f"{name}-{number}")
        else:
            _write_once(table, operation, key, f"{name}-{number}")


def _manage(table: DeltaTable, key: int, name: str) -> None:
    step("commit")
    table.hand_over()
    step("stage")
    actions, effect = append(table, table.current, key, name)
    table.put(actions, {}, effect, staged=True)
    step("publish")
    table.publish()


def _write_once(table: DeltaTable, operation: str, key: int, name: str) -> None:
    """Pin, write, commit; after a conflict nothing. If a catalog owns the commits, it ratifies this one."""
    if operation != "append":  # which reads nothing
        step("pin")
    snapshot = table.current
    actions, effect = (WRITERS | REBASED | CLUSTERING)[operation](table, snapshot, key, name)
    if not actions:
        return
    step("commit")
    transaction = Transaction(table, snapshot)
    transaction.trackFilesRead([file for file in snapshot.files.values() if _removed(file, actions)])
    try:
        transaction.require_no_conflict(actions)
    except JavaError:
        return
    table.put(actions, {}, effect, staged=table.current.owned)


def _removed(file: AddFile, actions: Sequence[Any]) -> bool:
    return any(isinstance(action, RemoveFile) and action.key == file.key for action in actions)


def _with_key(table: DeltaTable, snapshot: Snapshot, key: int) -> list[AddFile]:
    return [f for f in snapshot.files.values() if any(row.key == key for row in f.live(lineage=table.lineage))]


def _write(table: DeltaTable, name: str, rows: tuple[Row, ...] = ()) -> AddFile:
    table.storage.add(name)
    return AddFile(name, rows)


def _clustered(file: AddFile) -> AddFile:
    """With the marks of OPTIMIZE of a clustered table."""
    return replace(file, clusteringProvider=LIQUID, tags={**file.tags, **CUBE})
