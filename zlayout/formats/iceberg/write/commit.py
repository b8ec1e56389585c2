"""Engine `zlayout` on Iceberg: one Spark job for all groups, the gate, and one Iceberg transaction.

The transaction replaces the pinned files, validated from the pinned snapshot, and sets `zlayout.state`. Concurrent
appends stay; a concurrent delete or rewrite of the same files is a conflict. If the one transaction conflicts, each
group is tried in one of its own, so that only the groups in conflict are dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from zlayout.errors import CommitConflict, Diagnostic
from zlayout.formats.base import Commit, Group, GroupFailed, Notice, Notify, Outcome, Progress, Work
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.history import run_commits
from zlayout.formats.iceberg.read.partitions import argument, transform_name
from zlayout.formats.iceberg.write.expressions import leaves_deletes_behind
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.formats.iceberg.write.outcome import settled
from zlayout.formats.iceberg.write.record import dead_snapshots, known_state
from zlayout.formats.iceberg.write.scan import lost_groups
from zlayout.formats.iceberg.write.settings import current_fields
from zlayout.formats.iceberg.write.staging import NewFile, Staged, staged
from zlayout.rewrite.engine import place, settings
from zlayout.rewrite.gate import require_rows
from zlayout.rewrite.rows import GroupTarget, Source, key_column
from zlayout.spec.model import CatalogConfig
from zlayout.sql_text import quoted
from zlayout.table.state import Partition

Files = dict[str, list[NewFile]]
Ids = frozenset[int]


def rewrite(jvm: IcebergJvm, catalog: CatalogConfig, work: Work, notify: Notify) -> Iterator[Outcome]:
    """Rewrite the work's groups and commit them. Raises EngineError (nothing committed), CommitUnknown ZL331.

    A group whose files have changed since the work's version fails with CommitConflict ZL320, the others go on.
    """
    table = jvm.load(work.table)
    lost = lost_groups(jvm, table, work)
    yield from lost
    failed = {group for failure in lost for group in failure.groups}
    work = replace(work, groups=tuple(g for g in work.groups if g.id not in failed))
    if not work.groups:
        return
    with staged(jvm, table, work) as pinned:
        notify(Progress(str(work.table), "rewriting"))
        new, notes = write_groups(pinned, work)
        notify(Progress(str(work.table), "committing"))
        yield from map(Notice, notes)
        yield from commit_groups(pinned, catalog, work, new)


def write_groups(pinned: Staged, work: Work) -> tuple[Files, tuple[Diagnostic, ...]]:
    """Write all groups in one Spark job and pass the gate. Commits nothing.

    Returns the new Java DataFiles by group id, and what the user should know.
    """
    with java_errors(f"rewriting {work.table}"), settings(pinned.jvm.session):
        frame = pinned.frame
        source = Source(frame, F.col("_file"), F.col("_pos"), _output_partition(pinned, work))
        targets = _targets(pinned, work.groups)
        placed = place(source, work.layout, targets)
        pinned.write(placed.frame)
        placed.gate.check()
        files: Files = defaultdict(list)
        for number, file in pinned.new_files():
            files[work.groups[placed.group_of[number]].id].append(file)
        require_rows({t.id: (t.rows, sum(file.rows for file in files[t.id])) for t in targets})
        if work.verify == "full":
            with pinned.written([f for group in files.values() for f in group]) as written:
                placed.gate.verify(written)
    return files, placed.notes(work.table)


def commit_groups(pinned: Staged, catalog: CatalogConfig, work: Work, new: Files) -> Iterator[Commit | GroupFailed]:
    """Commit all groups in one transaction; when that conflicts, halve them until the groups in conflict are alone."""
    dead = dead_snapshots(pinned.jvm, catalog, work.table, pinned.table)
    waiting = [work.groups]
    while waiting:
        groups = waiting.pop()
        try:
            outcome: Commit | GroupFailed = _commit(pinned, catalog, work, groups, new, dead)
        except CommitConflict as conflict:
            if len(groups) > 1:
                half = len(groups) // 2
                waiting += [groups[half:], groups[:half]]
                continue
            outcome = GroupFailed((groups[0].id,), conflict)
        yield outcome


def _commit(
    pinned: Staged, catalog: CatalogConfig, work: Work, groups: Sequence[Group], new: Files, dead: Ids
) -> Commit:
    doing = f"committing run {work.run_id} to {work.table}"
    with java_errors(doing):  # nothing is sent to the catalog here
        transaction, snapshot = _prepared(pinned, work, groups, new, dead)

    def send() -> Commit:
        transaction.commitTransaction()
        return _made(snapshot, groups, new)

    return settled(doing, send, lambda: _finished(catalog, work, groups))


def _prepared(pinned: Staged, work: Work, groups: Sequence[Group], new: Files, dead: Ids) -> tuple[Any, int]:
    """The transaction, ready to be sent, and the id that its snapshot will have. Raises CommitConflict, ZL316."""
    table = pinned.jvm.load(work.table)
    if pinned.snapshot.firstRowId() is None and table.currentSnapshot().firstRowId() is not None:
        # only the rows of a newer snapshot have them
        raise CommitConflict.of("ZL320", f"{work.table} got row ids since the plan", hint="plan again")
    transaction = table.newTransaction()
    change = transaction.newRewrite().validateFromSnapshot(work.version)
    if not leaves_deletes_behind(_partitions(groups), int(pinned.table.spec().specId())):
        change.dataSequenceNumber(pinned.snapshot.sequenceNumber())
    _remove(pinned, groups, change)
    added = _of(groups, new)
    for file in added:
        change.addFile(file.java)
    change.set(recorded.RUN, work.run_id)
    change.set(recorded.LAYOUT_ID, work.layout.layout_id)
    change.commit()
    snapshot = int(transaction.table().currentSnapshot().snapshotId())
    state = known_state(pinned.jvm, table.operations().current())
    state = recorded.after(state, work.layout, [snapshot], dead)
    transaction.updateProperties().set(recorded.PROPERTY, recorded.render(state)).commit()
    pinned.require_files(added, table.io())
    return transaction, snapshot


def _remove(pinned: Staged, groups: Sequence[Group], change: Any) -> None:
    """Take out the groups' files, with the delete files that are about a single one of them."""
    is_file_scoped = pinned.jvm.iceberg.util.ContentFileUtil.isFileScoped
    gone = set()
    for group in groups:
        for path in group.files.path.to_pylist():
            task = pinned.tasks[path]
            change.deleteFile(task.file())
            for delete in task.deletes() if pinned.has_deletes else ():
                key = (delete.location(), delete.contentOffset())
                if key not in gone and is_file_scoped(delete):
                    gone.add(key)
                    change.deleteFile(delete)


def _of(groups: Sequence[Group], new: Files) -> list[NewFile]:
    return [file for group in groups for file in new.get(group.id, ())]


def _made(snapshot: int, groups: Sequence[Group], new: Files) -> Commit:
    added = _of(groups, new)
    return Commit(
        "rewrite",
        snapshot,
        tuple(g.id for g in groups),
        files_removed=sum(len(g.files) for g in groups),
        files_added=len(added),
        bytes_removed=sum(int(g.files.bytes.sum()) for g in groups),
        bytes_added=sum(f.bytes for f in added),
        rows=sum(f.rows for f in added),
    )


def _finished(catalog: CatalogConfig, work: Work, groups: Sequence[Group]) -> Commit | None:
    """The run's commit that finished these groups, from a fresh reader."""
    wanted = {g.id for g in groups}
    commits = (c.commit(work.groups) for c in run_commits(catalog, work.table, work.run_id))
    return next((c for c in commits if wanted <= set(c.groups)), None)


def _targets(pinned: Staged, groups: Sequence[Group]) -> list[GroupTarget]:
    live = {g.id: int(g.files.live_rows.sum()) for g in groups}
    if not pinned.exact_deletes():
        found = pinned.frame.groupBy("_file").count().toArrow()
        counted = dict(zip(found["_file"].to_pylist(), found["count"].to_pylist(), strict=True))
        live = {g.id: int(sum(counted.get(p, 0) for p in g.files.path.to_pylist())) for g in groups}
    return [GroupTarget(g.id, g.files.path.cast(pa.string()), live[g.id], g.target_files) for g in groups]


def _partitions(groups: Sequence[Group]) -> list[Partition]:
    return [g.files.partitions[at] for g in groups for at in set(g.files.partition.tolist())]


def _output_partition(pinned: Staged, work: Work) -> tuple[Column, ...]:
    """The current spec's values of a row, where some files are of an older spec; else a group is in one partition."""
    spec_id = int(pinned.table.spec().specId())
    if all(partition.spec_id == spec_id for partition in _partitions(work.groups)):
        return ()
    functions = f"{quoted(work.table.catalog)}.system"
    values = []
    for field in current_fields(pinned.table):
        column = key_column(pinned.frame, field.source)
        name, width = transform_name(field), argument(field)
        if name == "identity":
            values.append(column)
        elif width is None:
            values.append(F.call_function(f"{functions}.{name}s", column))
        else:
            if name == "bucket" and _is_uuid(pinned.table, field.source):
                # Spark has a uuid as text; Iceberg hashes its 16 bytes
                column = F.unhex(F.replace(column, F.lit("-")))
            values.append(F.call_function(f"{functions}.{name}", F.lit(width), column))
    return tuple(values)


def _is_uuid(table: Any, column: str) -> bool:
    return str(table.schema().findType(column)) == "uuid"
