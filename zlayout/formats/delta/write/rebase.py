"""Rebases rewritten groups: rows that other writers delete meanwhile are deleted from the new files too.

After a conflict, the rows that deletion vectors have deleted from the pinned files since the snapshot are read from the
old files by their positions. Equal rows are searched for in the new files, which get deletion vectors for exactly these
rows. The commit is sent again by a transaction that begins at the newest version. docs/adr/0048-rebase.md explains why
the result has the rows of that version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from zlayout.errors import Diagnostic
from zlayout.formats.base import Group, Notify, PlannedTable, Progress, Stage
from zlayout.formats.delta.write.jvm import DeltaJvm, metadata_column
from zlayout.formats.delta.write.transaction import FAILURES, PinnedFiles, add_files_at, file_uris
from zlayout.formats.kernel.commits import Rewritten, positions
from zlayout.formats.kernel.outcome import JVM_LOST, translated
from zlayout.formats.kernel.rebase import match
from zlayout.rewrite.engine import rewrite_conf
from zlayout.rewrite.gate import (
    DIGEST,
    HASH,
    ROWS_DIFFER,
    Content,
    contents_of,
    digests,
    has_variant,
    require_same_rows,
)
from zlayout.rewrite.rows import FILE, GROUP, POSITION, Constants, GroupTarget, index_arrays, index_files, with_origin
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spark.jvm import session_conf
from zlayout.table.state import PREFIX, Int64

# The number of rebases of one rewrite, including those that fail after rows were read. Each one has to do with the
# changes since the one before it only.
MAX_REBASES = 10
# The number of rows that one rebase deletes from the new files. The driver needs about 500 bytes for each of them, most
# of them for the path of its file.
MAX_ROWS = 100_000
_NUMBER, _COUNT, _RANK = (f"{PREFIX}{name}" for name in ("number", "count", "rank"))


@dataclass(frozen=True, slots=True)
class Deleted:
    """Rows that were deleted from pinned files.

    Attributes:
        before: The AddFiles with the deletion vectors that are known, a java.util.List (py4j).
        after: The AddFiles of the same files at the newest version, in the same order.
        at: int64[files], the positions of these files among the pinned files.
        owner: int64[files], the group of each file, as a position among the groups of the commit.
        positions: int64[rows] for each file, the positions of the newly deleted rows.
    """

    before: Any
    after: Any
    at: Int64
    owner: Int64
    positions: Sequence[Int64]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(map(len, self.positions))


@dataclass(frozen=True, slots=True)
class Copies:
    """The rows of the new files that are equal to deleted rows.

    Attributes:
        at: int64[files], the new files, ascending positions among all new files.
        owner: int64[files], the group of each file, as a position among the groups of the commit.
        positions: int64[rows] for each file, the positions of the rows.
    """

    at: Int64
    owner: Int64
    positions: Sequence[Int64]


class Rebase:
    """What is known of the files of one rewrite: the deletion vectors of the pinned files, and those of the new files.

    Both always belong together: the new files of a group have the live rows that its pinned files have in the snapshot
    onto which the group was rebased.
    """

    def __init__(self, delta: DeltaJvm, snapshot: Any, pinned: PinnedFiles, work: PlannedTable, notify: Notify) -> None:
        """Store what the rewrite has read. snapshot: the pinned one (py4j). notify: called with each stage."""
        self._delta, self._work, self._notify = delta, work, notify
        self._snapshot, self._pinned = snapshot, pinned
        self._notes: list[Diagnostic] = []
        self._old = pinned.adds
        self._new: Any = None  # all new files, once the first commit has failed
        self._deleted: dict[int, int] = {}  # the number of rows that were deleted from a new file
        self._snapshots: dict[str, Any] = {}  # by group id, the newest snapshot onto which it was rebased
        self._left = MAX_REBASES

    def snapshot(self, some: Sequence[Rewritten]) -> Any:
        """Return the snapshot at which the transaction for these groups begins. They were rebased together."""
        return self._snapshots.get(some[0].group.id, self._snapshot)

    def removed(self, groups: Iterable[Group]) -> Any:
        """Return the AddFiles of the groups' pinned files in that snapshot, a java.util.List."""
        return self._delta.files.select(self._old, self._pinned.of(groups))

    def added(self, some: Sequence[Rewritten]) -> list[Rewritten]:
        """Return the groups with their new files as they are to be committed. Files without live rows are omitted."""
        return [self._current(each) for each in some] if self._new is not None else list(some)

    def rows(self, some: Sequence[Rewritten]) -> int:
        """Return the number of rows that rebases have deleted from the new files of these groups."""
        return sum(self._deleted.get(at, 0) for each in some for at in each.added.at.tolist())

    def notes(self) -> list[Diagnostic]:
        """Return why groups were not rebased, if the user can change it: what was not returned before."""
        notes, self._notes = self._notes, []
        return notes

    def onto_newest(self, some: Sequence[Rewritten]) -> bool:
        """Rebase groups onto the newest version. The stage is `rebasing` meanwhile, in which a user may stop the run.

        Args:
            some: The groups as they were written. Their commit was a conflict.

        Returns:
            Whether the groups were rebased, so that the commit may be sent again. If not, the conflict stays: see
            docs/busy-tables.md for what can be rebased. An error in a rebase is a note.

        Raises:
            EngineError: ZL310, if other rows would be deleted from the new files than from the old ones; ZL305.
        """
        if not self._attempt(lambda: self._delta.writes_vectors(self._snapshot)):
            return False
        if not self._left:
            self._note(f"it was rebased {MAX_REBASES} times, and other writers went on to change the same files")
            return False
        if not self._work.has_time():
            self._note("the time limit of the run leaves no time")
            return False
        self._notify(Progress(str(self._work.table), Stage.REBASING))
        rebased = self._attempt(lambda: self._rebased(some))
        self._notify(Progress(str(self._work.table), Stage.COMMITTING))
        return rebased

    def _attempt(self, step: Callable[[], bool]) -> bool:
        """Return the result of a step, False after an error. A failed gate and a lost JVM are raised."""
        try:
            with rewrite_conf(self._delta.spark):
                return step()
        except Exception as error:
            failure = translated(error, f"{self._work.table}: rebasing the rewrite", FAILURES)
            reason = failure.diagnostics[0]
            if reason.code in (ROWS_DIFFER, JVM_LOST):
                raise failure from None if failure is error else error
            self._note(reason.message, reason.detail)
            return False

    def _note(self, reason: str, detail: str = "") -> None:
        message = f"{self._work.table}: the rewrite was not rebased, and its conflict stays: {reason}"
        self._notes.append(Diagnostic("ZL435", message, "note", detail=detail))

    def _rebased(self, some: Sequence[Rewritten]) -> bool:
        """Rebase groups, unless more was changed than deletion vectors. Nothing is changed here before the gate."""
        delta, files, like = self._delta, self._delta.files, self._pinned.adds[0]
        now = delta.snapshot()
        deleted = self._deleted_rows(now, some)
        if deleted is None:
            return False
        self._left -= 1
        new = some[0].added.handles if self._new is None else self._new
        copies = find_copies(delta, self._snapshot, new, some, deleted, like)
        if copies is None:
            return False
        before = files.select(new, copies.at)
        if pc.any(pc.equal(files.stats(before), "")).as_py():
            return False  # Delta requires the number of rows of a file with a deletion vector
        after = files.marked(before, copies.positions)
        require_same_difference(delta, self._snapshot, deleted, copies, before, after, like, str(self._work.table))
        new = files.replaced(new, copies.at, after)
        old = files.replaced(self._old, deleted.at, deleted.after)
        # from here on without calls, which could fail between two assignments
        self._old, self._new = old, new
        for at, rows in zip(copies.at.tolist(), copies.positions, strict=True):
            self._deleted[at] = self._deleted.get(at, 0) + len(rows)
        self._snapshots |= {each.group.id: now for each in some}
        return True

    def _deleted_rows(self, now: Any, some: Sequence[Rewritten]) -> Deleted | None:
        """Return the rows that were deleted up to a snapshot; None if there are none, or if more was changed."""
        delta, files = self._delta, self._delta.files
        if not (delta.same_definition(self._snapshot, now) and delta.writes_vectors(now)):
            return None
        at = self._pinned.of(each.group for each in some)
        paths = self._pinned.path.take(pa.array(at))
        live = add_files_at(delta, now, paths)
        found = pc.index_in(paths, value_set=files.paths(live))
        if found.null_count:
            return None
        before = files.select(self._old, at)
        after = files.select(live, np.asarray(found, np.int64))
        if not files.same_ids(before, after):
            return None  # Delta does not check this, because the transaction begins at the newest version
        same = pc.equal(files.vectors(before), files.vectors(after))
        changed = np.flatnonzero(~np.asarray(same.to_numpy(zero_copy_only=False), bool))
        before, after = files.select(before, changed), files.select(after, changed)
        if not len(changed) or files.deleted_since(before, after) > MAX_ROWS:
            return None
        rows = files.newly_deleted(before, after)
        if not rows or not sum(map(len, rows)):
            return None
        owner = np.repeat(np.arange(len(some)), [len(each.group.files) for each in some])
        return Deleted(before, after, at[changed], owner[changed], rows)

    def _current(self, each: Rewritten) -> Rewritten:
        deleted = np.array([self._deleted.get(at, 0) for at in each.added.at.tolist()], np.int64)
        kept = np.flatnonzero(deleted < each.added.rows)
        added = replace(each.added, handles=self._new, rows=each.added.rows - deleted)
        written = each.written and replace(each.written, deleted=each.written.deleted + deleted).take(kept)
        return replace(each, added=added.take(kept), written=written)


def find_copies(
    delta: DeltaJvm, snapshot: Any, new: Any, some: Sequence[Rewritten], deleted: Deleted, like: Any
) -> Copies | None:
    """Search the new files for rows that are equal to deleted ones.

    Args:
        snapshot: The pinned snapshot (py4j).
        new: All new files, a java.util.List of AddFile.
        some: The groups of the commit.
        deleted: The deleted rows.
        like: See `DeltaJvm.read_back`.

    Returns:
        As many rows as were deleted; None if there are not as many, or if equal rows cannot be recognized.
    """
    gone = read_deleted(delta, snapshot, deleted)
    if gone is None or len(gone) != deleted.rows:
        return None
    touched = np.unique(deleted.owner).tolist()
    at = np.concatenate([some[group].added.at for group in touched])
    owner = np.repeat(touched, [len(some[group].added) for group in touched])
    found = read_equal(delta, snapshot, delta.files.select(new, at), owner, gone, like)
    file = found[FILE].to_numpy()
    digest = found[DIGEST].combine_chunks()
    chosen = match(gone[GROUP].to_numpy(), gone[DIGEST].combine_chunks(), owner[file], digest)
    if chosen is None:
        return None
    marked, number = np.unique(file[chosen], return_inverse=True)
    rows = found[POSITION].to_numpy()[chosen]
    return Copies(at[marked], owner[marked], [np.sort(rows[part]) for part in positions(number, len(marked))])


def read_deleted(delta: DeltaJvm, snapshot: Any, deleted: Deleted) -> pa.Table | None:
    """Read the deleted rows from the old files.

    Returns:
        A table with the columns GROUP, HASH and DIGEST, one row for each deleted row. None if the table has a column
        whose equal values cannot be recognized.
    """
    frame = _with_origin(delta.data_frame(snapshot, deleted.before))
    if has_variant(frame.schema):
        return None
    counts = [len(rows) for rows in deleted.positions]
    uris = file_uris(delta.base_uri(), delta.files.paths(deleted.before).to_pylist())
    wanted = pa.table(
        {
            FILE: uris.take(pa.array(np.repeat(np.arange(len(counts)), counts))),
            POSITION: np.concatenate(deleted.positions),
            GROUP: np.repeat(deleted.owner, counts),
        }
    )
    rows = frame.join(F.broadcast(from_arrow(delta.spark, wanted)), [FILE, POSITION])
    return to_arrow(digests(rows, _columns(frame), GROUP))


def read_equal(delta: DeltaJvm, snapshot: Any, files: Any, owner: Int64, gone: pa.Table, like: Any) -> pa.Table:
    """Read the live rows of new files that are equal to deleted rows, of each row at most as many as were deleted.

    Args:
        snapshot: The pinned snapshot (py4j).
        files: The new files, a java.util.List of AddFile.
        owner: int64[files], the group of each file.
        gone: The deleted rows, from `read_deleted`.
        like: See `DeltaJvm.read_back`.

    Returns:
        A table with the columns FILE (int64, the position of the file in the list), POSITION and DIGEST, in this order.
        It has at most as many rows as `gone`. Spark selects them, because a row may have millions of equal ones.
    """
    constants = Constants(delta.spark, {HASH: pa.array(np.unique(gone[HASH].to_numpy()))})
    uris = file_uris(delta.base_uri(), delta.files.paths(files).to_pylist())
    known = from_arrow(delta.spark, pa.table({FILE: uris, _NUMBER: np.arange(len(uris)), GROUP: owner}))
    counts = gone.group_by([GROUP, DIGEST]).aggregate([(HASH, "count")])
    deleted = pa.table({GROUP: counts[GROUP], DIGEST: counts[DIGEST], _COUNT: counts[f"{HASH}_count"]})
    frame = _with_origin(delta.read_back(snapshot, files, like))
    rows = digests(frame, _columns(frame), FILE, POSITION)
    rows = rows.where(constants.search(HASH, F.col(HASH)) >= 0).join(F.broadcast(known), FILE)
    rows = rows.join(F.broadcast(from_arrow(delta.spark, deleted)), [GROUP, DIGEST])
    rank = F.row_number().over(Window.partitionBy(GROUP, DIGEST).orderBy(_NUMBER, POSITION))
    # by the constant, Spark limits the rows of each task before the shuffle
    most = F.col(_RANK) <= max(deleted[_COUNT].to_pylist())
    rows = rows.withColumn(_RANK, rank).where(most & (F.col(_RANK) <= F.col(_COUNT)))
    tasks = str(delta.spark.sparkContext.defaultParallelism)
    with session_conf(delta.spark, {"spark.sql.shuffle.partitions": tasks}):
        found = to_arrow(rows.select(F.col(_NUMBER).alias(FILE), POSITION, DIGEST))
    return found.sort_by([(FILE, "ascending"), (POSITION, "ascending")])


def require_same_difference(
    delta: DeltaJvm, snapshot: Any, deleted: Deleted, copies: Copies, before: Any, after: Any, like: Any, table: str
) -> None:
    """Check that new files lose the rows that pinned files have lost, group by group, by reading all of these files.

    Args:
        snapshot: The pinned snapshot (py4j).
        deleted: The pinned files.
        copies: The new files.
        before: The AddFiles of `copies.at`, a java.util.List.
        after: The same with their new deletion vectors.
        like: See `DeltaJvm.read_back`.
        table: The name of the table, for messages.

    Raises:
        EngineError: ZL310, if the rows differ.
    """
    lists = deleted.before, deleted.after, before, after
    old, old_now, new, new_now = read_contents(delta, snapshot, lists, deleted.owner, copies.owner, like, table)
    require_same_rows((old, old_now), (new, new_now), table)


def read_contents(
    delta: DeltaJvm, snapshot: Any, lists: Sequence[Any], owner: Int64, new_owner: Int64, like: Any, table: str
) -> list[Content]:
    """Return the content of the live rows of each of four lists of AddFiles: two of pinned and two of new files.

    Args:
        snapshot: The pinned snapshot (py4j).
        lists: The lists. The first two are of the same files, and so are the last two.
        owner: int64[files], the group of each pinned file.
        new_owner: int64[files], the group of each new file.
        like: See `DeltaJvm.read_back`.
        table: The name of the table, for messages.
    """
    owners = np.concatenate([owner, new_owner])
    paths = pa.concat_arrays([delta.files.paths(lists[0]), delta.files.paths(lists[2])])
    uris = file_uris(delta.base_uri(), paths.to_pylist())
    targets = [GroupTarget(str(g), uris.filter(pa.array(owners == g)), 0, 1) for g in np.unique(owners).tolist()]
    index = index_files(delta.spark, targets, table)
    constants = Constants(delta.spark, index_arrays(index))
    read = [delta.data_frame(snapshot, files) for files in lists[:2]]
    read += [delta.read_back(snapshot, files, like) for files in lists[2:]]
    frames = [with_origin(_with_origin(frame), index, constants) for frame in read]
    return contents_of(frames, read[0].columns, F.col(GROUP))


def _columns(frame: DataFrame) -> list[str]:
    return [name for name in frame.columns if name not in (FILE, POSITION)]


def _with_origin(frame: DataFrame) -> DataFrame:
    origin = metadata_column(frame)
    return frame.select("*", origin.getField("file_path").alias(FILE), origin.getField("row_index").alias(POSITION))
