"""Engine `zlayout` on Delta: rows of the pinned files, placed by `zlayout.rewrite`, committed with conflict checks.

One transaction pinned to one snapshot reads and writes for all groups. It commits the groups together; only when a
concurrent change wins against that are they committed in halves, and so on, so that just the groups it touched are
dropped. A commit is never retried past a conflict, and files of a dropped group stay behind as orphans for VACUUM.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as pa_fs

from zlayout.errors import CommitConflict, Diagnostic, EngineError
from zlayout.formats.base import Commit, Group, GroupFailed, Notice, Notify, Progress, Work
from zlayout.formats.delta.read.tags import GROUP
from zlayout.formats.delta.write.failures import spark_errors
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.outcome import Log
from zlayout.formats.delta.write.source_files import PinnedFiles, changed_meanwhile, file_uris, pinned_files, still_live
from zlayout.formats.delta.write.stamp import layout_tags
from zlayout.formats.delta.write.writing import NewFile, write_with_stats
from zlayout.rewrite.engine import place, settings
from zlayout.rewrite.gate import require_rows
from zlayout.rewrite.rows import GroupTarget, Source
from zlayout.table.state import TableState

# DelayedCommitProtocol names a file after the Spark partition that wrote it.
_PART = re.compile(r"(?:^|/)part-(\d{5,})-[^/]*$")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One group after the write: its new AddFiles and the pinned ones they replace."""

    group: Group
    added: tuple[Any, ...]
    removed: tuple[Any, ...]


def run_zlayout(
    delta: DeltaJvm, storage: pa_fs.FileSystem, snapshot: Any, state: TableState, work: Work, notify: Notify
) -> Iterator[Commit | GroupFailed | Notice]:
    """Rewrite the groups of `work`. state: what the snapshot holds, to drop groups that changed since the plan.

    Raises EngineError ZL310 to ZL314, ZL316, ZL318 (nothing committed), CommitUnknown ZL331.
    """
    table = str(work.table)
    groups, changed = still_live(work.groups, state.files)
    if changed:
        yield GroupFailed(tuple(group.id for group in changed), changed_meanwhile(table, changed))
    if not groups:
        return
    with spark_errors(table, "rewriting"):
        files = pinned_files(delta, snapshot, table, groups, len(state.files))
        transaction = _begin(delta, snapshot, files.adds)
        notify(Progress(table, "rewriting"))
        rewritten, notes = _rewrite(delta, storage, snapshot, state, transaction, files, groups, work)
        notify(Progress(table, "committing"))
    yield from map(Notice, notes)
    commit = _Committer(delta, storage, work)

    def begin(some: Sequence[Rewritten]) -> Any:
        """A transaction for some of the groups, pinned to the snapshot that their rows came from."""
        with spark_errors(table, "committing"):
            return _begin(delta, snapshot, delta.seq([file for each in some for file in each.removed]))

    yield from _commit_apart(transaction, rewritten, commit, begin)


def _commit_apart(
    transaction: Any,
    rewritten: Sequence[Rewritten],
    commit: Callable[[Any, Sequence[Rewritten]], Commit],
    begin: Callable[[Sequence[Rewritten]], Any],
) -> Iterator[Commit | GroupFailed]:
    """One commit for all, or on a conflict the same for each half: k groups in conflict cost about k log2 n commits."""
    try:
        yield commit(transaction, rewritten)
    except CommitConflict as conflict:
        if len(rewritten) == 1:
            yield GroupFailed((rewritten[0].group.id,), conflict)
            return
        middle = len(rewritten) // 2
        for half in (rewritten[:middle], rewritten[middle:]):
            yield from _commit_apart(begin(half), half, commit, begin)


def _begin(delta: DeltaJvm, snapshot: Any, adds: Any) -> Any:
    """A transaction that has read just these files: a change to one of them conflicts, an append does not."""
    transaction = delta.begin(snapshot)
    transaction.trackFilesRead(adds)
    transaction.trackReadPredicates(delta.seq([]), False, True)
    return transaction


def _rewrite(
    delta: DeltaJvm,
    storage: pa_fs.FileSystem,
    snapshot: Any,
    state: TableState,
    transaction: Any,
    files: PinnedFiles,
    groups: Sequence[Group],
    work: Work,
) -> tuple[list[Rewritten], tuple[Diagnostic, ...]]:
    """Place and write the rows, and pass the gate. Also returns what the user should know."""
    frame = delta.data_frame(snapshot, files.adds)
    origin = frame.metadataColumn("_metadata")  # by name it would be a column of the table's own, where it has one
    source = Source(frame, origin.getField("file_path"), origin.getField("row_index"))
    with settings(delta.spark):
        targets = _targets(delta, groups, source if state.notes else None)
        placed = place(source, work.layout, targets)
        written = write_with_stats(delta, storage, snapshot, transaction, placed.frame, files.adds.head())
        placed.gate.check()
        added: list[list[NewFile]] = [[] for _ in groups]
        for new in written:
            added[int(placed.group_of[_spark_partition(new.add.path())])].append(new)
        if work.verify == "full" or _says_otherwise(files, groups, added, state):
            placed.gate.verify(delta.read_back(snapshot, [new.add for new in written], files.adds.head()))
    require_rows({t.id: (t.rows, sum(new.rows for new in mine)) for t, mine in zip(targets, added, strict=True)})
    rewritten = [
        Rewritten(group, tuple(_tagged(delta, new.add, work, group) for new in mine), tuple(files.of(group)))
        for group, mine in zip(groups, added, strict=True)
    ]
    return rewritten, placed.notes(work.table)


def _says_otherwise(
    files: PinnedFiles, groups: Sequence[Group], added: Sequence[Sequence[NewFile]], state: TableState
) -> bool:
    """Whether the log would say partition values of a group in other words than it does: maybe other values.

    The gate cannot tell. It sees rows, and a partition value becomes text only when its file is written.
    """
    if not state.partition_fields:
        return False
    said = [files.of(group)[0].partitionValues() for group in groups]
    return any(new.add.partitionValues() != text for text, mine in zip(said, added, strict=True) for new in mine)


def _targets(delta: DeltaJvm, groups: Sequence[Group], count: Source | None) -> list[GroupTarget]:
    """The groups as the rewrite sees them. count: where the log does not know the live rows, the rows to count."""
    base = delta.base_uri()
    uris = [file_uris(base, group.files.path.to_pylist()) for group in groups]
    rows = [int(group.files.live_rows.sum()) for group in groups]
    if count is not None:
        found = count.frame.groupBy(count.file.alias("file")).count().toArrow()
        counted = dict(zip(found["file"].to_pylist(), found["count"].to_pylist(), strict=True))
        rows = [sum(counted.get(uri, 0) for uri in mine.to_pylist()) for mine in uris]
    return [
        GroupTarget(group.id, mine, live, group.target_files)
        for group, mine, live in zip(groups, uris, rows, strict=True)
    ]


def _spark_partition(path: str) -> int:
    found = _PART.search(path)
    if not found:
        raise EngineError.of(
            "ZL318",
            f"expected a new file named part-<number>-..., found {path}",
            hint="nothing was committed; is the Delta version one that zlayout was tested with?",
        )
    return int(found[1])


def _tagged(delta: DeltaJvm, file: Any, work: Work, group: Group) -> Any:
    """The new file as its group's, with dataChange false as OPTIMIZE has it: no row changed, they only moved."""
    tags = {**layout_tags(work.layout), GROUP: f"{work.run_id}/{group.id}"}
    return delta.changed(file, dataChange=False, tags=tags)


class _Committer:
    """Commits rewritten groups."""

    def __init__(self, delta: DeltaJvm, storage: pa_fs.FileSystem, work: Work) -> None:
        self._delta = delta
        self._log = Log(delta, storage, str(work.table), work.run_id)
        self._work = work

    def __call__(self, transaction: Any, rewritten: Sequence[Rewritten]) -> Commit:
        """One commit for all of `rewritten`. Raises CommitConflict ZL321, CommitUnknown ZL331, EngineError ZL316."""
        added = [file for each in rewritten for file in each.added]
        removed = [file for each in rewritten for file in each.removed]
        with spark_errors(str(self._work.table), "committing"):
            size = sum(file.size() for file in added)  # once it is committed nothing may fail, were the JVM to die
        return Commit(
            kind="rewrite",
            version=self._version(transaction, added, removed),
            groups=tuple(each.group.id for each in rewritten),
            files_removed=len(removed),
            files_added=len(added),
            bytes_removed=sum(int(each.group.files.bytes.sum()) for each in rewritten),
            bytes_added=size,
            rows=sum(int(each.group.files.live_rows.sum()) for each in rewritten),
        )

    def _version(self, transaction: Any, added: Sequence[Any], removed: Sequence[Any]) -> int:
        with spark_errors(str(self._work.table), "committing"):
            now = int(time.time() * 1000)
            actions = self._delta.seq([*added, *(file.removeWithTimestamp(now, False) for file in removed)])
            operation = self._delta.optimize([column.name for column in self._work.layout.columns])
            self._delta.require_files(added)  # right before each commit, also a later one of some groups
            if self._delta.rows_got_ids(transaction):
                # Delta sees no conflict in it, and would give the rows other ids than they have by now
                message = f"{self._work.table} tracks rows since the rewrite began"
                raise CommitConflict.of("ZL321", message, hint="plan again")
            return self._log.commit(transaction, actions, operation, "committing")
