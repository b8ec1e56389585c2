"""Engine `zlayout` on Delta: rewrites the pinned files and commits them with conflict checks.

One transaction, pinned to one snapshot, reads and writes the files of all groups and commits them together. After a
conflict, the groups are committed separately, each by a new transaction that is pinned to the same snapshot. The new
files of a dropped group remain as orphans for VACUUM.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs

from zlayout.errors import Diagnostic
from zlayout.formats.base import Commit, Group, GroupFailed, Notice, Notify, Progress, Stage, Work
from zlayout.formats.delta.read.observe import read_bounds
from zlayout.formats.delta.read.schema import Leaf, leaves
from zlayout.formats.delta.read.tags import BASELINE, GROUP
from zlayout.formats.delta.write.jvm import DeltaJvm, metadata_column
from zlayout.formats.delta.write.optimize import layout_tags
from zlayout.formats.delta.write.outcome import Log, spark_errors
from zlayout.formats.delta.write.source_files import (
    PinnedFiles,
    begin,
    file_uris,
    operation_metrics,
    pinned_files,
    require_no_silent_change,
    still_live,
)
from zlayout.formats.delta.write.writing import write_with_stats
from zlayout.formats.kernel.commits import (
    NewFiles,
    Rewritten,
    commit_apart,
    file_table,
    new_files,
    positions,
    require_paths,
    rewrite_commit,
    spark_partitions,
)
from zlayout.formats.kernel.measured import Measurement, baseline_of
from zlayout.formats.kernel.requirements import changed_files
from zlayout.rewrite.engine import place, rewrite_conf
from zlayout.rewrite.gate import require_rows
from zlayout.rewrite.rows import GroupTarget, Source
from zlayout.spark.arrow import to_arrow
from zlayout.table.baseline import Baseline
from zlayout.table.state import FileTable, Int64, Partition, TableState

# The bounds of new files, for baselines and metrics, from the statistics that are about to be committed.


# The names of statistics in the log, and the names that deltalake gives them.
_STATISTICS = (("minValues", "min"), ("maxValues", "max"), ("nullCount", "null_count"))
_FILES_AT_ONCE = 2000  # the number of files whose values are Python objects at the same time


def written_files(
    files: NewFiles, stats: pa.Array, wanted: Sequence[Leaf], partition: Partition, prefix: int
) -> FileTable | None:
    """Return the new files of one group with the bounds of the z-order columns.

    Args:
        stats: string[files], the statistics as in the log.
        wanted: The leaf columns that are z-order columns.
        partition: The partition of the group.
        prefix: The length in UTF-16 units to which writers truncate string bounds.

    Returns:
        The files; None if the statistics cannot be read, because a rewrite must not fail for this reason.
    """
    try:
        starts = range(0, len(stats), _FILES_AT_ONCE)
        parts = [_values(stats[start : start + _FILES_AT_ONCE], wanted) for start in starts]
        found = [pa.concat_tables(tables) for tables in zip(_values(stats[:0], wanted), *parts, strict=True)]
        bounds = {
            leaf.name: read_bounds(table, [leaf], (), prefix)[leaf.name]
            for leaf, table in zip(wanted, found, strict=True)
        }
    except (ValueError, TypeError, ArithmeticError, AttributeError, pa.ArrowException):
        return None
    return file_table(files, np.zeros(len(files), np.int64), (partition,), bounds)


def _values(stats: pa.Array, wanted: Sequence[Leaf]) -> list[pa.Table]:
    """Return one table per column with its statistics, in the form of `DeltaTable.get_add_actions`."""
    found: list[dict[str, list[Any]]] = [{name: [] for name, _ in _STATISTICS} for _ in wanted]
    for text in stats:
        # one at a time, because the statistics of a wide table are large
        document = json.loads(text.as_py(), parse_float=Decimal)
        for leaf, values in zip(wanted, found, strict=True):
            for name, _ in _STATISTICS:
                values[name].append(_value(document.get(name), leaf.physical))
    return [_table(leaf, values) for leaf, values in zip(wanted, found, strict=True)]


def _table(leaf: Leaf, values: Mapping[str, Sequence[Any]]) -> pa.Table:
    columns = {}
    for name, short in _STATISTICS:
        column = _typed(values[name], pa.int64() if short == "null_count" else leaf.type)
        for part in reversed(leaf.physical):
            column = pa.StructArray.from_arrays([column], [part])
        columns[short] = column
    return pa.table(columns)


def _value(document: Any, path: Sequence[str]) -> Any:
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _typed(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(type_):
        return pa.array(values, pa.string()).cast(type_)
    if pa.types.is_floating(type_):
        return pa.array([None if v is None else float(v) for v in values], type_)
    return pa.array([Decimal(v) if pa.types.is_decimal(type_) and v is not None else v for v in values], type_)


# The rewrite and its commits.


# DelayedCommitProtocol puts the number of the Spark partition into the name of a file.
FILE_NAME = r"(?:^|/)part-(?P<partition>\d{5,})-[^/]*$"


def run_zlayout(
    delta: DeltaJvm, log: Log, snapshot: Any, state: TableState, work: Work, notify: Notify
) -> Iterator[Commit | GroupFailed | Notice]:
    """Rewrite the groups of the work order and commit them.

    Args:
        log: Makes the commits of the run.
        snapshot: The snapshot that is read, and from which conflicts are checked (py4j).
        state: The table state of the snapshot. Groups whose files have changed since the plan are dropped.
        notify: Called with each stage.

    Raises:
        EngineError: ZL310 to ZL314, ZL316, ZL318. Only the commits that were yielded were made.
        CommitUnknown: ZL331.
    """
    table = str(work.table)
    groups, changed = still_live(work.groups, state.files)
    if changed:
        failed = tuple(group.id for group, _ in changed)
        files = sum(len(group.files) for group, _ in changed)
        yield GroupFailed(failed, changed_files(table, sum(count for _, count in changed), files))
    if not groups:
        return
    measurement = Measurement(state.files, work)
    with spark_errors(table, "rewriting"):
        pinned = pinned_files(delta, snapshot, table, groups, len(state.files))
        transaction = begin(delta, snapshot, pinned.adds)
        notify(Progress(table, Stage.REWRITING))
        rewritten, notes = write_groups(delta, log.storage, snapshot, state, transaction, pinned, groups, work)
        work.predictions()  # wait for the sample here, because a commit should be short and is not interrupted
        notify(Progress(table, Stage.COMMITTING))
    yield from map(Notice, notes)
    yield from commit_apart(rewritten, Committer(delta, log, snapshot, pinned, transaction, work, measurement).commit)


class Committer:
    """Commits groups that one transaction has written: first all of them and, after a conflict, some of them."""

    def __init__(
        self,
        delta: DeltaJvm,
        log: Log,
        snapshot: Any,
        pinned: PinnedFiles,
        transaction: Any,
        work: Work,
        measurement: Measurement,
    ) -> None:
        """Store the transaction that wrote the files. It is used for the first commit, which contains all groups."""
        self._delta = delta
        self._log = log
        self._snapshot = snapshot
        self._pinned = pinned
        self._transactions = [transaction]
        self._work = work
        self._measurement = measurement

    def commit(self, some: Sequence[Rewritten]) -> Commit:
        """Make one commit.

        Raises:
            CommitConflict: ZL321.
            EngineError: ZL310, ZL314, ZL316.
            CommitUnknown: ZL331.
        """
        new = new_files(some)
        with spark_errors(str(self._work.table), "committing"):
            added = self._delta.files.select(new.handles, new.at)
            removed = self._delta.files.select(self._pinned.adds, np.concatenate([each.removed for each in some]))
            require_paths(self._work.table, some, self._delta.files.paths(added), self._delta.files.paths(removed))
            if self._transactions:
                transaction = self._transactions.pop()
            else:
                transaction = begin(self._delta, self._snapshot, removed)
        with spark_errors(str(self._work.table), "measuring the rewrite"):
            self._delta.register_metrics(transaction, operation_metrics(some))
        tags = self._measurement.properties(some)
        version = self.send(transaction, added, removed, tags)
        # Nothing after the commit may fail, even if the JVM dies.
        self._measurement.committed(some)
        return rewrite_commit(version, some)

    def send(self, transaction: Any, added: Any, removed: Any, tags: Mapping[str, str] | None = None) -> int:
        """Commit the replacement of AddFiles by others, both in Java lists, and return the version.

        Raises the errors of `commit`.
        """
        with spark_errors(str(self._work.table), "committing"):
            now = int(time.time() * 1000)
            actions = self._delta.seq(self._delta.files.replacing(added, removed, now, data_change=False))
            operation = self._delta.optimize([column.name for column in self._work.layout.columns])
            self._delta.require_files(added)  # directly before each commit, not only before the first
            require_no_silent_change(self._delta, transaction, str(self._work.table), "plan again")
            return self._log.commit(transaction, actions, operation, "committing", tags)


def write_groups(
    delta: DeltaJvm,
    storage: pa_fs.FileSystem,
    snapshot: Any,
    state: TableState,
    transaction: Any,
    files: PinnedFiles,
    groups: Sequence[Group],
    work: Work,
) -> tuple[list[Rewritten], tuple[Diagnostic, ...]]:
    """Place and write the rows of all groups in one Spark job and check the gate, without a commit.

    Returns:
        The groups with their new files, and notes for the user.
    """
    frame = delta.data_frame(snapshot, files.adds)
    origin = metadata_column(frame)
    source = Source(frame, origin.getField("file_path"), origin.getField("row_index"))
    with rewrite_conf(delta.spark):
        targets = _targets(delta, groups, source if state.notes else None)
        placed = place(source, work.layout, targets)
        new = write_with_stats(delta, storage, snapshot, transaction, placed.frame, files.adds[0])
        placed.gate.check()
        hint = "use a version of Delta that zlayout was tested with"
        numbers = spark_partitions(new.path, FILE_NAME, "part-<number>-...", hint)
        owner = placed.group_of.astype(np.int64)[numbers]
        if work.verify == "full" or _records_other_values(delta, files, groups, new, owner, state):
            placed.gate.verify(delta.read_back(snapshot, new.handles, files.adds[0]))
    added = new.split(owner, len(groups))
    require_rows({t.id: (t.rows, int(of_group.rows.sum())) for t, of_group in zip(targets, added, strict=True)})
    written = _written(delta, snapshot, work, groups, new, owner)
    baselines = [baseline_of(measured, work.layout) for measured in written]
    handles = tagged(delta, new.handles, work, groups, owner, baselines)
    rewritten = [
        Rewritten(group, replace(of_group, handles=handles), files.of(group), measured)
        for group, of_group, measured in zip(groups, added, written, strict=True)
    ]
    return rewritten, placed.notes(work.table)


def _written(
    delta: DeltaJvm, snapshot: Any, work: Work, groups: Sequence[Group], new: NewFiles, owner: Int64
) -> list[FileTable | None]:
    """Return the new files by group, None if bounds cannot be read. owner: int64[files], the position of the group."""
    names = {column.name for column in work.layout.columns}
    wanted = [leaf for leaf in leaves(json.loads(delta.schema(snapshot))) if leaf.name in names]
    prefix, stats = delta.string_prefix(snapshot), delta.files.stats(new.handles)
    found = []
    for group, chosen in zip(groups, positions(owner, len(groups)), strict=True):
        partition = group.files.partitions[group.files.partition[0]]
        of_group = stats.take(pa.array(chosen))
        found.append(written_files(new.take(chosen), of_group, wanted, partition, prefix))
    return found


def _records_other_values(
    delta: DeltaJvm, files: PinnedFiles, groups: Sequence[Group], new: NewFiles, owner: Int64, state: TableState
) -> bool:
    """Needed because the gate compares rows before their partition values become strings in the log."""
    if not state.partition_fields:
        return False
    before = np.array([files.of(group)[0] for group in groups], np.int64)
    return not delta.files.partitioned_as(new.handles, files.adds, before[owner])


def _targets(delta: DeltaJvm, groups: Sequence[Group], uncounted: Source | None) -> list[GroupTarget]:
    """uncounted: the rows to count if the log lacks exact row counts, else None."""
    base = delta.base_uri()
    uris = [file_uris(base, group.files.path.to_pylist()) for group in groups]
    rows = [int(group.files.live_rows.sum()) for group in groups]
    if uncounted is not None:
        found = to_arrow(uncounted.frame.groupBy(uncounted.file.alias("file")).count())
        counted = dict(zip(found["file"].to_pylist(), found["count"].to_pylist(), strict=True))
        rows = [sum(counted.get(uri, 0) for uri in paths.to_pylist()) for paths in uris]
    return [
        GroupTarget(group.id, paths, live, group.target_files)
        for group, paths, live in zip(groups, uris, rows, strict=True)
    ]


def tagged(
    delta: DeltaJvm, adds: Any, work: Work, groups: Sequence[Group], owner: Int64, baselines: Sequence[Baseline | None]
) -> Any:
    """Return copies of new AddFiles with the file tags of their layout records. `dataChange` is false, as in OPTIMIZE.

    Args:
        adds: The new AddFiles, a java.util.List.
        owner: int64[files], the position of the group of each new file.
        baselines: The baseline of each group, None if it is not known.
    """
    changes = []
    for group, baseline in zip(groups, baselines, strict=True):
        tags = {**layout_tags(work.layout), GROUP: f"{work.run_id}/{group.id}"}
        if baseline is not None:
            tags[BASELINE] = str(baseline)
        changes.append(json.dumps({"dataChange": False, "tags": tags}))
    return delta.files.changed(adds, pa.array(changes, pa.string()), owner)
