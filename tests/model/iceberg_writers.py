"""The others who write to an Iceberg table: each reads a snapshot, writes, and commits unless that conflicts."""

from collections.abc import Callable, Mapping

from model.iceberg_catalog import Change, DataFile, DeleteFile, IcebergTable
from model.java import JavaError
from model.plans import OUTSIDE
from model.rows import NOTHING, Effect, Row
from model.schedule import step

PAIR = 3  # the key of two rows that look the same
DELETED = 9  # the key and the uid of the row that is deleted from the start


def fill(table: IcebergTable) -> None:
    """As `delta_writers.fill`; in a table of version 2 an equality delete has been there, too."""
    contents = {
        "a": (Row(1, 1, 10), Row(2, 2, 20), Row(9, 9, 90)),
        "b": (Row(3, 3, 30), Row(4, 3, 30)),
        "c": (Row(5, 4, 40), Row(6, 2, 50), Row(8, 8, 80)),
        OUTSIDE: (Row(7, 5, 60), Row(10, 8, 81)),
    }
    for count, (name, rows) in enumerate(contents.items()):
        table.write([name])
        table.commit(Change(table.number("fill", count), added=[DataFile(name, rows)], effect=Effect(added=rows)))
    for key, operation in ((9, delete), (8, delete if table.lineage else equality_delete)):
        table.commit(operation(table, key, f"fill-{key}"))


def append(table: IcebergTable, key: int, name: str) -> Change:
    rows = (Row(100 + key, key, 70),)
    table.write([name])
    return Change(table.number(name, 0), added=[DataFile(name, rows)], effect=Effect(added=rows))


def delete(table: IcebergTable, key: int, name: str) -> Change:
    """Merge on read: one deletion vector for each file (version 3), or one more position delete file (version 2)."""
    base = table.current
    change = Change(table.number(name, 0), start=base.current.number)
    gone = set()
    for file in _with_key(table, key):
        hit = {at for at, row in enumerate(file.rows) if row.key == key}
        gone |= {file.rows[at].uid for at in hit}
        change.added_deletes.append(_deleting(table, change, file, hit, name))
    change.effect = Effect(removed=frozenset(gone))
    return change


def delete_pair(table: IcebergTable, key: int, name: str) -> Change:  # noqa: ARG001
    """Of two rows that look the same, both."""
    return delete(table, PAIR, name)


def delete_one(table: IcebergTable, key: int, name: str) -> Change:  # noqa: ARG001
    """Of two rows that look the same, the second, or the one that is left."""
    base = table.current
    change = Change(table.number(name, 0), start=base.current.number)
    for file in _with_key(table, PAIR)[:1]:
        at = max(at for at in base.positions(file) if file.rows[at].key == PAIR)
        change.added_deletes.append(_deleting(table, change, file, {at}, name))
        change.effect = Effect(removed=frozenset({file.rows[at].uid}))
    return change


def restore(table: IcebergTable, key: int, name: str) -> Change:  # noqa: ARG001
    """Remove the deletes of the row that was deleted before all schedules."""
    base = table.current
    change = Change(table.number(name, 0), start=base.current.number)
    for file in base.files.values():
        for gone in [d for d in base.deletes_of(file) if d.target and file.rows[min(d.positions)].uid == DELETED]:
            change.removed_deletes.append(gone)
            change.effect = Effect(added=(file.rows[min(gone.positions)],))
    return change


def _deleting(table: IcebergTable, change: Change, file: DataFile, hit: set[int], name: str) -> DeleteFile:
    """The deletes of further rows of a file; a vector replaces the one before it, which the change removes."""
    if table.lineage:
        old = [d for d in table.current.deletes_of(file) if d.target]
        hit |= {at for d in old for at in d.positions}
        change.removed_deletes += old
    return DeleteFile(f"{name}-{file.name}", file.name, frozenset(hit), vector=table.lineage)


def equality_delete(table: IcebergTable, key: int, name: str) -> Change:
    """As Flink does it: all rows with the key that were committed before, unseen."""
    deletes = [DeleteFile(name, key=key)]
    return Change(table.number(name, 0), added_deletes=deletes, effect=Effect(keys=frozenset({key})))


def update(table: IcebergTable, key: int, name: str) -> Change:
    """Copy on write (OverwriteFiles): row ids stay, the changed rows get the commit's sequence number."""
    change = Change(table.number(name, 0), start=table.current.current.number)
    values = {}
    for file in _with_key(table, key):
        rows = []
        for row in table.current.live(file, lineage=table.lineage):
            if row.key == key:
                values[row.uid] = row.value + 1
                row = row._replace(value=row.value + 1, version=None)
            rows.append(row)
        table.write([f"{name}-{file.name}"])
        change.removed.append(file)
        change.added.append(DataFile(f"{name}-{file.name}", tuple(rows)))
    change.effect = Effect(values=values)
    return change


def compact(table: IcebergTable, key: int, name: str) -> Change:
    """`rewrite_data_files` by somebody else: the files with the key become one."""
    pinned = table.current
    files = _with_key(table, key)
    rows = tuple(row for file in files for row in pinned.live(file, lineage=table.lineage))
    table.write([name])
    return Change(
        table.number(name, 0),
        removed=files,
        added=[DataFile(name, rows)] if rows else [],
        start=pinned.current.number,
        data_sequence=pinned.current.sequence,
        effect=NOTHING,
    )


def update_outside(table: IcebergTable, _key: int, name: str) -> Change:
    """Replace the only file that the rewrites leave alone."""
    return update(table, 5, name)


WRITERS: Mapping[str, Callable[[IcebergTable, int, str], Change]] = {
    "append": append,
    "delete": delete,
    "equality": equality_delete,
    "update": update,
    "compact": compact,
}


REBASED = {"delete_pair": delete_pair, "delete_one": delete_one, "restore": restore}


def elsewhere(table: IcebergTable, key: int, name: str) -> None:
    """Somebody commits to another branch, after which the metadata is another one."""
    step("commit")
    table.commit(Change(table.number(name, 0), properties={name: str(key)}))


def drop(table: IcebergTable, key: int, name: str) -> None:
    """Somebody drops the branch."""
    elsewhere(table, key, name)
    table.dropped = True


OTHERS = {"update_outside": update_outside}
ON_BRANCHES = {"elsewhere": elsewhere, "drop": drop}


def write(table: IcebergTable, operation: str, key: int, name: str) -> None:
    """The process: pin, write, commit; after a conflict nothing. Several operations are separated by +."""
    for number, one in enumerate(operation.split("+")):
        _write(table, one, key, f"{name}-{number}" if number else name)


def _write(table: IcebergTable, operation: str, key: int, name: str) -> None:
    if operation in ON_BRANCHES:
        return ON_BRANCHES[operation](table, key, name)
    if operation not in ("append", "equality"):  # which read nothing
        step("pin")
    change = (WRITERS | OTHERS | REBASED)[operation](table, key, name)
    if not (change.added or change.added_deletes or change.removed_deletes):
        return None
    step("commit")
    try:
        table.commit(change)
    except JavaError:
        return None


def _with_key(table: IcebergTable, key: int) -> list[DataFile]:
    base = table.current
    return [f for f in base.files.values() if any(row.key == key for row in base.live(f, lineage=table.lineage))]
