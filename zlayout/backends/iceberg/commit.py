"""Engine `zlayout` on Iceberg: one Spark job for all groups, the gate, and one Iceberg transaction.

The transaction replaces the pinned files, validated from the pinned snapshot, and sets `zlayout.state`. Concurrent
appends stay; a concurrent delete or rewrite of the same files is a conflict. If the one transaction conflicts, each
group is tried in one of its own, so that only the groups in conflict are dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from zlayout.backends.base import Commit, Group, GroupFailed, Notify, Progress, Work
from zlayout.backends.iceberg import state_property as recorded
from zlayout.backends.iceberg.expressions import argument, transform_name
from zlayout.backends.iceberg.history import live_snapshots, run_commits
from zlayout.backends.iceberg.jvm import IcebergJvm, java_errors
from zlayout.backends.iceberg.record import known_state
from zlayout.backends.iceberg.settings import current_fields
from zlayout.backends.iceberg.staging import Staged, staged
from zlayout.errors import CommitConflict, CommitUnknown, EngineError
from zlayout.rewrite.engine import place, settings
from zlayout.rewrite.rows import GroupTarget, Source, quoted
from zlayout.spec.model import CatalogConfig

Files = dict[str, list[Any]]


def rewrite(jvm: IcebergJvm, catalog: CatalogConfig, work: Work, notify: Notify) -> Iterator[Commit | GroupFailed]:
    """Rewrite the work's groups and commit them. Raises EngineError (nothing committed), CommitUnknown ZL331."""
    with staged(jvm, work) as pinned:
        notify(Progress(str(work.table), f"rewriting {len(work.groups)} groups"))
        new = write_groups(pinned, work)
        notify(Progress(str(work.table), "committing"))
        yield from commit_groups(pinned, catalog, work, new)


def write_groups(pinned: Staged, work: Work) -> Files:
    """Write all groups in one Spark job and pass the gate; new Java DataFiles by group id. Commits nothing."""
    with settings(pinned.jvm.session):
        frame = pinned.frame
        source = Source(frame, F.col("_file"), F.col("_pos"), _output_partition(pinned, work))
        placed = place(source, work.layout, _targets(pinned, work.groups))
        pinned.write(placed.frame)
        placed.gate.check()
        files: Files = defaultdict(list)
        for number, file in pinned.new_files():
            files[work.groups[placed.group_of[number]].id].append(file)
        if work.verify == "full":
            written = [f for group in files.values() for f in group]
            placed.gate.verify(_read_back(pinned, written))
    return files


def commit_groups(pinned: Staged, catalog: CatalogConfig, work: Work, new: Files) -> Iterator[Commit | GroupFailed]:
    """Commit all groups in one transaction, or, when that conflicts, each in its own."""
    try:
        yield _commit(pinned, catalog, work, work.groups, new)
        return
    except CommitConflict as conflict:
        if len(work.groups) == 1:
            yield GroupFailed((work.groups[0].id,), conflict)
            return
    for group in work.groups:
        try:
            yield _commit(pinned, catalog, work, (group,), new)
        except CommitConflict as conflict:
            yield GroupFailed((group.id,), conflict)


def _commit(pinned: Staged, catalog: CatalogConfig, work: Work, groups: Sequence[Group], new: Files) -> Commit:
    live = live_snapshots(catalog, work.table)
    try:
        with java_errors(f"committing {work.table}", committing=True):
            _transaction(pinned, work, groups, new, live)
    except CommitUnknown:
        if _finished(catalog, work, groups) is None:
            raise
    done = _finished(catalog, work, groups)
    if done is None:
        raise EngineError.of(
            "ZL317",
            f"the commit of {work.table} succeeded, but no snapshot of run {work.run_id} is in the table",
            hint="the table may have been rolled back meanwhile: look at its snapshots, then plan again",
        )
    return done


def _transaction(pinned: Staged, work: Work, groups: Sequence[Group], new: Files, live: frozenset[int]) -> None:
    table = pinned.jvm.load(work.table)
    transaction = table.newTransaction()
    change = transaction.newRewrite().validateFromSnapshot(work.version)
    change.dataSequenceNumber(pinned.snapshot.sequenceNumber())
    content = pinned.jvm.iceberg.util.ContentFileUtil
    gone = set()
    for group in groups:
        for path in group.files.path.to_pylist():
            task = pinned.tasks[path]
            change.deleteFile(task.file())
            for delete in task.deletes():
                key = (delete.location(), delete.contentOffset())
                if content.isFileScoped(delete) and key not in gone:
                    gone.add(key)
                    change.deleteFile(delete)
        for file in new.get(group.id, ()):
            change.addFile(file)
    change.set(recorded.RUN, work.run_id)
    change.set(recorded.LAYOUT_ID, work.layout.layout_id)
    change.commit()
    mine = int(transaction.table().currentSnapshot().snapshotId())
    state = recorded.after(known_state(table.operations().current()), work.layout, [mine], live)
    transaction.updateProperties().set(recorded.PROPERTY, recorded.render(state)).commit()
    transaction.commitTransaction()


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
    return [GroupTarget(g.id, g.files.path.cast(pa.string()), g.files.rows, live[g.id], g.target_files) for g in groups]


def _output_partition(pinned: Staged, work: Work) -> tuple[Column, ...]:
    """The current spec's values of a row, where some files are of an older spec; else a group is in one partition."""
    spec_id = int(pinned.table.spec().specId())
    if all(g.files.partitions[i].spec_id == spec_id for g in work.groups for i in set(g.files.partition.tolist())):
        return ()
    values = []
    for field in current_fields(pinned.table):
        column = ".".join(quoted(part) for part in field.source.split("."))
        name, width = transform_name(field), argument(field)
        if name == "identity":
            values.append(F.col(column))
        else:
            function = name if width is not None else f"{name}s"
            arguments = column if width is None else f"{width}, {column}"
            values.append(F.expr(f"{quoted(work.table.catalog)}.system.{function}({arguments})"))
    return tuple(values)


def _read_back(pinned: Staged, files: Sequence[Any]) -> Any:
    paths = [f.location() for f in files]
    return pinned.jvm.session.read.format(str(files[0].format().name()).lower()).load(paths)
