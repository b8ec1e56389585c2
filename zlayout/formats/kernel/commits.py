"""Checks new files and commits them: all rewritten groups in one commit, or in several commits after a conflict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import CommitConflict, EngineError, ZlayoutError
from zlayout.formats.base import (
    COST,
    QUERY_COST,
    TOUCHED,
    Commit,
    Group,
    GroupFailed,
    PlannedTable,
    RunColumn,
    RunCost,
    render_cost,
    render_query_cost,
    render_touched,
)
from zlayout.formats.kernel.requirements import paths_of
from zlayout.spec.model import Layout
from zlayout.table.metrics import layout_metrics, measure_baselines
from zlayout.table.state import Baseline, ColumnBounds, FileTable, Int64, Partition, replaced


class BusyTable(CommitConflict):
    """A conflict with commits that change none of this commit's files. A commit of fewer groups would fail as well."""


@dataclass(frozen=True, slots=True)
class NewFiles:
    """New data files that are not committed yet.

    Attributes:
        handles: A java.util.List (py4j) of the format's own objects. It may contain further new files.
        at: int64[files], the positions of these files in `handles`.
        path: string[files], the paths in the form that the format uses.
        bytes: int64[files], the sizes on storage.
        rows: int64[files], the numbers of rows.
    """

    handles: Any
    at: Int64
    path: pa.Array
    bytes: Int64
    rows: Int64

    def __len__(self) -> int:
        return len(self.at)

    def take(self, chosen: Int64) -> NewFiles:
        """Return the files at the positions `chosen` (int64)."""
        chosen = np.asarray(chosen, np.int64)
        path = self.path.take(pa.array(chosen))
        return replace(self, at=self.at[chosen], path=path, bytes=self.bytes[chosen], rows=self.rows[chosen])

    def split(self, owner: Int64, count: int) -> list[NewFiles]:
        """Divide the files among `count` owners and keep their order. owner: int64[files], below `count`."""
        return [self.take(chosen) for chosen in positions(owner, count)]


def positions(owner: Int64, count: int) -> list[Int64]:
    """Return the ascending positions of the items of each owner. owner: int64[items], the owners, below `count`."""
    ends = np.cumsum(np.bincount(owner, minlength=count))
    return np.split(np.argsort(owner, kind="stable"), ends[:-1])


def positions_among(known: pa.Array, paths: pa.Array) -> Int64:
    """Return the position of each path in `known`: int64[paths]. Raises ValueError if a path is not in `known`."""
    at = pc.index_in(paths, value_set=known)
    if at.null_count:
        raise ValueError(f"{at.null_count} of {len(paths)} files are unknown")
    return np.asarray(at.cast(pa.int64()), np.int64)


def spark_partitions(paths: pa.Array, pattern: str, expected: str, hint: str) -> Int64:
    """Return the number of the Spark partition that wrote each new file.

    Args:
        paths: string[files].
        pattern: A regular expression (RE2), whose group `partition` matches the number in the name of a file.
        expected: How the error message describes the names.
        hint: The hint of the error.

    Raises:
        EngineError: ZL318, for another name.
    """
    found = pc.extract_regex(paths, pattern)
    if found.null_count:
        path = paths[pc.index(found.is_null(), True).as_py()]
        message = f"expected a new file named {expected}, found {path}"
        raise EngineError.of("ZL318", message, hint=f"{hint}; nothing was committed")
    return np.asarray(found.field("partition").cast(pa.int64()), np.int64)


def require_sizes(paths: pa.Array, recorded: Int64, stored: Int64) -> None:
    """Check that each new file is on storage with its recorded size. VACUUM or an orphan removal may have deleted it.

    Args:
        paths: string[files].
        recorded: int64[files], the sizes in bytes that the commit will record.
        stored: int64[files], the sizes in bytes on storage, -1 for a missing file.

    Raises:
        EngineError: ZL316, if a file is missing or has another size.
    """
    for at in np.flatnonzero(recorded != stored)[:1].tolist():
        found = f"found {stored[at]}" if stored[at] >= 0 else "found no file"
        raise EngineError.of(
            "ZL316",
            "a new file is missing on storage, or has another size",
            detail=f"{paths[at].as_py()}: expected {recorded[at]} bytes, {found}",
            hint="stop what removes files of this table (VACUUM without retention, orphan removal), then run again; "
            "nothing was committed",
        )


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A group whose new files have been written and have passed the gate.

    Attributes:
        written: The new files with the bounds of the z-order columns, for metrics; None if they are unknown.
    """

    group: Group
    added: NewFiles
    written: FileTable | None = None


def commit_apart(
    rewritten: Sequence[Rewritten], commit: Callable[[Sequence[Rewritten]], Commit]
) -> Iterator[Commit | GroupFailed]:
    """Commit all groups in one commit. After a conflict, split them into halves and commit each half in the same way.

    If k of n groups are in conflict, about k log2 n commits are tried. Here no set of groups is tried twice, so that a
    commit never overrides the change that it is in conflict with. A `commit` that tries the same groups again must
    include that change itself, as a rebase does.

    Args:
        rewritten: At least one group.
        commit: Makes one commit for some of the groups. Raises CommitConflict if another commit changed their files,
            and BusyTable if the groups are to fail together.

    Yields:
        The commits in the order of the groups, and GroupFailed for each group in conflict.
    """
    waiting = [rewritten]
    while waiting:
        some = waiting.pop()
        outcome: Commit | GroupFailed
        try:
            outcome = commit(some)
        except CommitConflict as conflict:
            if len(some) > 1 and not isinstance(conflict, BusyTable):
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
                continue
            outcome = GroupFailed(tuple(each.group.id for each in some), conflict)
        yield outcome


def file_table(
    files: NewFiles,
    partition: Sequence[int] | Int64,
    partitions: tuple[Partition, ...],
    bounds: Mapping[str, ColumnBounds],
) -> FileTable:
    """Return new files as a file table without layout records.

    Args:
        files: The new files.
        partition: The index of each file's partition in `partitions`.
        partitions: The partitions.
        bounds: The bounds of the files, by column.
    """
    zeros = np.zeros(len(files), np.int64)
    none = np.full(len(files), -1, np.int32)
    return FileTable(
        path=files.path,
        version_key=pa.repeat(pa.scalar("", pa.string()), len(files)),
        rows=files.rows,
        deleted=zeros,
        shared_deletes=zeros.astype(bool),
        bytes=files.bytes,
        partition=np.array(partition, np.int32),
        partitions=partitions,
        layout=none,
        layouts=(),
        group=none,
        bounds=bounds,
    )


def new_files(rewritten: Iterable[Rewritten]) -> NewFiles:
    """Return the new files of at least one group. The files of all groups have the same `handles`."""
    parts = [each.added for each in rewritten]
    return NewFiles(
        parts[0].handles,
        np.concatenate([part.at for part in parts]),
        pa.concat_arrays([part.path for part in parts]),
        np.concatenate([part.bytes for part in parts]),
        np.concatenate([part.rows for part in parts]),
    )


def require_paths(table: object, rewritten: Sequence[Rewritten], added: pa.Array, removed: pa.Array) -> None:
    """Check that the files of a commit, which are chosen by positions in Java lists, are those of its groups.

    Args:
        table: The table, for the message.
        rewritten: The groups of the commit.
        added: string[files], the paths of the added files, read from the objects that are committed.
        removed: string[files], those of the removed files.

    Raises:
        EngineError: ZL310.
    """
    pinned = paths_of(each.group for each in rewritten)
    if not (added.equals(new_files(rewritten).path) and removed.equals(pinned)):
        message = f"{table}: the files of the commit are not those of its groups"
        raise EngineError.of("ZL310", message, hint="nothing was committed; report this error")


def rewrite_commit(version: int, rewritten: Sequence[Rewritten]) -> Commit:
    """Return the event for a commit that replaced the files of these groups."""
    added = new_files(rewritten)
    return Commit(
        "rewrite",
        version,
        tuple(each.group.id for each in rewritten),
        files_removed=sum(len(each.group.files) for each in rewritten),
        files_added=len(added),
        bytes_removed=sum(int(each.group.files.bytes.sum()) for each in rewritten),
        bytes_added=int(added.bytes.sum()),
        rows=int(added.rows.sum()),
    )


# Measures the result of a rewrite before it is committed, so that the commit can store the metrics.


# If measuring touched raises one of these errors, touched is not stored. A rewrite must not fail for this reason.
_UNKNOWN = (ValueError, KeyError, TypeError, ArithmeticError, pa.ArrowException, ZlayoutError)


def baseline_of(written: FileTable | None, layout: Layout) -> Baseline | None:
    """Return the baseline of a group, given its new files; None if they are unknown or are in several partitions."""
    if written is None or len(written.partitions) != 1 or not len(written):
        return None
    names = [column.name for column in layout.columns]
    try:
        return measure_baselines(written, names, np.zeros(len(written), np.int32), 1)[0]
    except _UNKNOWN:
        return None


class Measurement:
    """Measures touched and the cost of the rewrites for each commit of one plan."""

    def __init__(self, files: FileTable, work: PlannedTable) -> None:
        """Start the clock. files: the live files before the rewrite, with the bounds of the z-order columns."""
        self._files = files
        self._work = work
        self._done: list[Rewritten] = []
        self._started = time.monotonic()

    def properties(self, some: Sequence[Rewritten]) -> dict[str, str]:
        """Return the properties to store with the commit of these groups. They also cover the earlier commits."""
        touched = self._touched(some)
        size = sum(int(each.group.files.bytes.sum()) for each in (*self._done, *some))
        cost = render_cost(RunCost(size, time.monotonic() - self._started))
        workload = self._work.plan.workload
        predicted = workload.predicted if workload else None
        query = {} if predicted is None else {QUERY_COST: render_query_cost(predicted)}
        return {COST: cost} | query | ({} if touched is None else {TOUCHED: touched})

    def _touched(self, some: Sequence[Rewritten]) -> str | None:
        """Return the text of TOUCHED for the table after the commit of these groups; None if a value is unknown."""
        done = [*self._done, *some]
        written = [each.written for each in done if each.written is not None]
        if (
            len(written) < len(done)
            or not self._work.layout.orders
            or any(c.name not in self._files.bounds for c in self._work.layout.columns)
        ):
            return None
        predicted = self._work.predictions()
        try:
            files = replaced(self._files, [each.group.files.path for each in done], written)
            found = layout_metrics(files, self._work.layout.weights)
        except _UNKNOWN:
            return None
        return render_touched(tuple(RunColumn(m.column, predicted.get(m.column), m.touched) for m in found))

    def committed(self, some: Sequence[Rewritten]) -> None:
        """Count these groups as committed."""
        self._done += some
