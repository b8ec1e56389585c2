"""The others who write to a Delta table: each reads a snapshot, writes, and commits unless that conflicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from model.delta_log import AddFile, DeltaTable, RemoveFile, Snapshot, Transaction
from model.java import JavaError
from model.plans import OUTSIDE
from model.rows import NOTHING, Effect, Row
from model.schedule import step

Change = tuple[Sequence[Any], Effect]


def fill(table: DeltaTable) -> None:
    """The table as all schedules find it: one row already deleted, two rows that look the same, a file set aside."""
    contents = {
        "a": (Row(1, 1, 10), Row(2, 2, 20), Row(9, 9, 90)),
        "b": (Row(3, 3, 30), Row(4, 3, 30)),
        "c": (Row(5, 4, 40), Row(6, 2, 50)),
        OUTSIDE: (Row(7, 5, 60),),
    }
    for name, rows in contents.items():
        _write(table, name)
        table.put([AddFile(name, rows)], {}, Effect(added=rows))
    actions, effect = delete(table, table.current, 9, "")
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
        marked = replace(file, deleted=file.deleted | hit, dataChange=True)
        actions += [file.removeWithTimestamp(0, True), marked]
    return actions, Effect(removed=frozenset(gone))


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


MANAGE = "manage"  # somebody makes the table a catalog-managed one
WRITERS: Mapping[str, Callable[[DeltaTable, Snapshot, int, str], Change]] = {
    "append": append,
    "delete": delete,
    "update": update,
    "compact": compact,
}


def write(table: DeltaTable, operation: str, key: int, name: str) -> None:
    """The process: pin, write, commit; after a conflict nothing. Commits that a catalog owns are not in the log."""
    if operation == MANAGE:
        step("commit")
        table.hand_over()
        return
    if operation != "append":  # which reads nothing
        step("pin")
    snapshot = table.current
    actions, effect = WRITERS[operation](table, snapshot, key, name)
    if not actions:
        return
    step("commit")
    transaction = Transaction(table, snapshot)
    transaction.trackFilesRead([file for file in snapshot.files.values() if _removed(file, actions)])
    if table.current.owned:
        return
    try:
        transaction.require_no_conflict(actions)
    except JavaError:
        return
    table.put(actions, {}, effect)


def _removed(file: AddFile, actions: Sequence[Any]) -> bool:
    return any(isinstance(action, RemoveFile) and action.key == file.key for action in actions)


def _with_key(table: DeltaTable, snapshot: Snapshot, key: int) -> list[AddFile]:
    return [f for f in snapshot.files.values() if any(row.key == key for row in f.live(lineage=table.lineage))]


def _write(table: DeltaTable, name: str, rows: tuple[Row, ...] = ()) -> AddFile:
    table.storage.add(name)
    return AddFile(name, rows)
