"""Rebases rewritten groups: rows that other writers delete meanwhile are deleted from the new files too.

A table is a multiset of rows, so that to delete any equal copy of a row is to delete the row. After a conflict, the
rows that were deleted from the pinned files since the snapshot are read from these files by their positions. Equal rows
are searched for in the new files, which get deletes for exactly these rows. The commit is sent again on top of the
newest version. docs/adr/0048-rebase.md explains why the result has the rows of that version.

On Delta, a pinned file that another writer has removed or replaced has lost all of its rows. The commit no longer
removes it, and leaves the files as they are that the other writer has added.

A data file is read once, for the first rebase that needs it. The digests of its rows, and where they are, are kept in
files on the driver (`RowIndex`). The next rebases only look up the rows that were deleted since the one before them,
without a Spark job: a rebase that takes longer than the other writer's next statement is in conflict again.

What differs between the formats is in class `Rebase` of the `write/commit` module of each format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zlayout.errors import CommitConflict, Diagnostic
from zlayout.formats.base import Commit, Group, Notify, PlannedTable, Progress, Stage
from zlayout.formats.kernel.commits import NewFiles, Rewritten, positions
from zlayout.formats.kernel.outcome import JVM_LOST, Failures, translated
from zlayout.formats.kernel.requirements import changed_files
from zlayout.rewrite.engine import rewrite_conf
from zlayout.rewrite.gate import (
    DIGEST,
    DIGEST_BYTES,
    HASH,
    ROWS_DIFFER,
    Content,
    contents_of,
    digests,
    has_variant,
    require_same_rows,
)
from zlayout.rewrite.rows import FILE, GROUP, POSITION, POSITION_BITS
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spark.jvm import session_conf
from zlayout.table.state import PREFIX, Int64

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The number of rebases of one rewrite, including those that fail after rows were read. Each one has to do with the
# changes since the one before it only.
MAX_REBASES = 30
# The number of rows that one rebase deletes from the new files. The Python process needs about 600 bytes for each.
MAX_ROWS = 1_000_000
# The share of the rows of a group's new files that may be deleted after other writers have removed or replaced files of
# the group. If more are deleted, the group is better written again.
MAX_SHARE = 0.25
# The rows of an index that are read and sorted at a time. The Python process needs up to 210 bytes for each.
MAX_PART_ROWS = 4_000_000
_PLACE = f"{PREFIX}place"
_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Deleted:
    """Rows that were deleted from pinned files.

    Attributes:
        before: The files with the deletes that are known, a java.util.List (py4j) of the format's own objects.
        after: The same files with their deletes at the newest version, in the same order. null for a file that this
            version does not have.
        removed: bool[files], whether `after` has null.
        at: int64[files], the positions of these files among the pinned files.
        owner: int64[files], the group of each file, as a position among the groups of the commit.
        positions: int64[rows] for each file, the positions of the newly deleted rows; of a removed file, those of all
            rows that were live.
    """

    before: Any
    after: Any
    removed: NDArray[np.bool_]
    at: Int64
    owner: Int64
    positions: Sequence[Int64]

    @property
    def located(self) -> Located:
        """The rows, among the pinned files."""
        return Located(self.at, self.owner, self.positions)


@dataclass(frozen=True, slots=True)
class Located:
    """Rows by their positions in files.

    Attributes:
        at: int64[files], distinct positions among all pinned or among all new files.
        owner: int64[files], the group of each file, as a position among the groups of the commit.
        positions: int64[rows] for each file, the ascending positions of the rows.
    """

    at: Int64
    owner: Int64
    positions: Sequence[Int64]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(map(len, self.positions))

    def places(self) -> Int64:
        """Return int64[rows], the file and the position of each row as one number, see `RowIndex`."""
        parts = [at << POSITION_BITS | rows for at, rows in zip(self.at.tolist(), self.positions, strict=True)]
        return np.concatenate([_NO_ROWS, *parts])

    def owners(self, places: Int64) -> Int64:
        """Return int64[rows], the group of each of some rows of these files."""
        order = np.argsort(self.at)
        return self.owner[order][np.searchsorted(self.at, places >> POSITION_BITS, sorter=order)]


class Reader(Protocol):
    """Reads the files of one rewrite with the schema of the pinned snapshot.

    `files` is a java.util.List (py4j) of the format's own objects, as in `Deleted`. Frames have the live rows, with row
    ids if the table has them, and the columns FILE (see `names`) and POSITION.
    """

    @property
    def session(self) -> SparkSession:
        """The Spark session."""
        ...

    @property
    def table(self) -> str:
        """The name of the table, for messages."""
        ...

    def select(self, files: Any, at: Int64) -> Any:
        """Return the files at these positions."""
        ...

    def names(self, files: Any) -> pa.Array:
        """Return the value that rows of each file have in the column FILE: string[files]."""
        ...

    def pinned(self, files: Any) -> DataFrame:
        """Return the rows of pinned files."""
        ...

    def written(self, files: Any) -> DataFrame:
        """Return the rows of new files, which no commit contains yet."""
        ...


class Rebase(ABC):
    """What is known of the files of one rewrite: the deletes of the pinned files, and those of the new files.

    Both always belong together: the new files of a group have the live rows that its pinned files have in the version
    onto which the group was rebased.
    """

    def __init__(
        self,
        session: SparkSession,
        pinned: Any,
        work: PlannedTable,
        notify: Notify,
        failures: Failures,
        behind: Iterable[str] = (),
    ) -> None:
        """Store what the rewrite has read.

        Args:
            pinned: All pinned files with their deletes, a java.util.List (py4j).
            notify: Called with each stage.
            failures: How the format reports errors.
            behind: The ids of groups whose pinned files had other deletes already when the rewrite began. They are
                rebased before their first commit: the format may not notice each of these changes as a conflict.
        """
        self._session, self._work, self._notify, self._failures = session, work, notify, failures
        self._notes: list[Diagnostic] = []
        self._old = pinned
        self._removed = _NO_ROWS  # the positions of the pinned files that other writers have removed; `_old` has null
        self._new: Any = None  # all new files, once the first commit has failed
        self._deleted: dict[int, Int64] = {}  # the ascending positions of the rows that were deleted from a new file
        self._versions: dict[str, Any] = {}  # by group id, the newest version onto which it was rebased
        self._behind = frozenset(behind)
        self._left = MAX_REBASES
        self._kept = ExitStack()  # what is needed until a commit was made or has failed
        self._rows: tuple[Reader, RowIndex, RowIndex] | None = None  # of the pinned files, and of the new ones

    @abstractmethod
    def _is_possible(self) -> bool:
        """Return whether the table and the session allow deletes of single rows."""

    @abstractmethod
    def _newest(self) -> Any:
        """Return the newest version, as `_versions` has it."""

    @abstractmethod
    def _reader(self) -> AbstractContextManager[Reader]:
        """Return a reader for the block."""

    @abstractmethod
    def _positions(self, groups: Sequence[Group]) -> Int64:
        """Return the positions of the groups' files among the pinned files, in their order."""

    @abstractmethod
    def _deleted_rows(self, now: Any, some: Sequence[Rewritten]) -> Deleted | None:
        """Return the rows of `some` deleted up to a version; None if there are none, or if more was changed."""
        # `some` has the groups with those of their pinned files that are not removed.

    @abstractmethod
    def _written(self, handles: Any) -> Any:
        """Return all new files as a reader reads them. handles: as the rewrite has written them."""

    @abstractmethod
    def _marked(self, files: Any, copies: Located) -> Any:
        """Return the new files with deletes for further rows, which are written. None if that is not possible."""

    @abstractmethod
    def _newly_deleted(self, before: Any, after: Any) -> Sequence[Int64] | None:
        """Read which rows (int64[rows], ascending) are deleted in `after` only; None if some are in `before` only."""
        # The deletes of the new files are read from storage.

    @abstractmethod
    def _replaced(self, files: Any, at: Int64, others: Any) -> Any:
        """Return a list of files with others at these positions."""

    def added(self, some: Sequence[Rewritten]) -> list[Rewritten]:
        """Return the groups as they are to be committed: without new files that have no live rows, and without pinned
        files that other writers have removed.
        """
        return [self._current(each) for each in self._left_of(some)] if self._new is not None else list(some)

    def rows(self, some: Sequence[Rewritten]) -> int:
        """Return the number of rows that rebases have deleted from the new files of these groups."""
        return sum(len(self._deleted.get(at, ())) for each in some for at in each.added.at.tolist())

    def notes(self) -> list[Diagnostic]:
        """Return why groups were not rebased, if the user can change it: what was not returned before."""
        notes, self._notes = self._notes, []
        return notes

    def until_committed(self, some: Sequence[Rewritten], commit: Callable[[Sequence[Rewritten]], Commit]) -> Commit:
        """Make a commit of groups. After a conflict, rebase them and try again.

        Args:
            some: The groups as they were written.
            commit: Sends the commit of the groups as they are after the rebases so far.

        Raises:
            CommitConflict: The groups cannot be rebased.
            EngineError: As `onto_newest`.
        """
        try:
            if any(each.group.id in self._behind for each in some) and not self.onto_newest(some):
                files = sum(len(each.group.files) for each in some)
                raise changed_files(self._work.table, "some", files)
            while True:
                try:
                    return commit(some)
                except CommitConflict:
                    if not self.onto_newest(some):
                        raise
        finally:
            self._release()

    def _release(self) -> None:
        """Release what is kept for rebases."""
        kept, self._kept, self._rows = self._kept, ExitStack(), None
        # an error must not hide what became of the commit, and the end of the session releases the rest
        with suppress(Exception):
            kept.close()

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
        if not self._attempt(self._is_possible):
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
            with rewrite_conf(self._session):
                return step()
        except Exception as error:
            failure = translated(error, f"{self._work.table}: rebasing the rewrite", self._failures)
            reason = failure.diagnostics[0]
            if reason.code in (ROWS_DIFFER, JVM_LOST):
                raise failure from None if failure is error else error
            self._note(reason.message, reason.detail)
            return False

    def _note(self, reason: str, detail: str = "") -> None:
        message = f"{self._work.table}: the rewrite was not rebased, and its conflict stays: {reason}"
        self._notes.append(Diagnostic("ZL435", message, "note", detail=detail))

    def _rebased(self, some: Sequence[Rewritten]) -> bool:
        """Rebase groups, unless more was changed than rows deleted. Nothing is changed here before the gate."""
        now, some = self._newest(), self._left_of(some)
        deleted = self._deleted_rows(now, some)
        if deleted is None or self._removes_much(some, deleted):
            return False
        self._left -= 1
        new = self._written(some[0].added.handles) if self._new is None else self._new
        found = self._found(new, some, deleted)
        if found is None:
            return False
        copies, after = found
        new = self._replaced(new, copies.at, after)
        old = self._replaced(self._old, deleted.at, deleted.after)
        removed = np.concatenate([self._removed, deleted.at[deleted.removed]])
        marked = zip(copies.at.tolist(), copies.positions, strict=True)
        rows_of = {at: np.union1d(self._deleted.get(at, rows), rows) for at, rows in marked}
        versions = {each.group.id: now for each in some}
        # from here on without calls, which could fail between two assignments
        self._old, self._removed, self._new = old, removed, new
        self._deleted |= rows_of
        self._versions |= versions
        self._behind -= versions.keys()
        return True

    def _left_of(self, some: Sequence[Rewritten]) -> list[Rewritten]:
        """Return the groups without the pinned files that other writers have removed."""
        if not len(self._removed):
            return list(some)
        groups = [each.group for each in some]
        is_left = ~np.isin(self._positions(groups), self._removed)
        kept = np.split(is_left, np.cumsum([len(group.files) for group in groups])[:-1])
        return [
            replace(each, group=replace(each.group, files=each.group.files.take(np.flatnonzero(left))))
            for each, left in zip(some, kept, strict=True)
        ]

    def _removes_much(self, some: Sequence[Rewritten], deleted: Deleted) -> bool:
        """Return whether files of a group were removed, and nothing is left of it or more than MAX_SHARE is deleted."""
        lost = np.bincount(deleted.owner, [len(rows) for rows in deleted.positions], len(some))
        removed = np.bincount(deleted.owner[deleted.removed], minlength=len(some))
        for at in np.flatnonzero(removed).tolist():
            group, added = some[at].group, some[at].added
            if removed[at] == len(group.files) or lost[at] + self.rows([some[at]]) > MAX_SHARE * added.rows.sum():
                return True
        return False

    def _found(self, new: Any, some: Sequence[Rewritten], deleted: Deleted) -> tuple[Located, Any] | None:
        """Return the rows of new files that are equal to deleted rows, and the files of `at` with deletes for them."""
        self._rows = self._rows or self._opened(deleted)
        if self._rows is None:
            return None
        reader, old_rows, new_rows = self._rows
        searched = new_files_of(some, deleted, self._deleted)
        first_old = old_rows.read(self._old, deleted.at)
        first_new = new_rows.read(new, searched.at)
        gone = old_rows.digests_of(deleted.located)
        copies = find_copies(new_rows, searched, gone) if len(gone) == deleted.located.rows else None
        if copies is None:
            return None
        before = reader.select(new, copies.at)
        after = self._marked(before, copies)
        if after is None:
            return None
        stored = self._newly_deleted(before, after) or [_NO_ROWS for _ in copies.positions]
        marked = new_rows.digests_of(replace(copies, positions=stored))
        require_same_digests(gone, marked, reader.table)
        sides = (
            Lost(reader.pinned, deleted.before, deleted.after, deleted.at, deleted.removed, gone).of(reader, first_old),
            Lost(reader.written, before, after, copies.at, np.zeros(len(copies.at), np.bool_), marked).of(
                reader, first_new
            ),
        )
        require_same_difference(reader, [side for side in sides if len(side.at)])
        return copies, after

    def _opened(self, deleted: Deleted) -> tuple[Reader, RowIndex, RowIndex] | None:
        """Open a reader. None if the table has a column whose equal values cannot be recognized by their bytes."""
        reader = self._kept.enter_context(self._reader())
        if has_variant(reader.pinned(deleted.before).schema):
            return None
        old_rows, new_rows = (RowIndex(reader, rows_of) for rows_of in (reader.pinned, reader.written))
        return reader, self._kept.enter_context(closing(old_rows)), self._kept.enter_context(closing(new_rows))

    def _current(self, each: Rewritten) -> Rewritten:
        deleted = np.array([len(self._deleted.get(at, ())) for at in each.added.at.tolist()], np.int64)
        kept = np.flatnonzero(deleted < each.added.rows)
        added = replace(self._to_commit(each.added), rows=each.added.rows - deleted)
        written = each.written and replace(each.written, deleted=each.written.deleted + deleted).take(kept)
        return replace(each, added=added.take(kept), written=written)

    @abstractmethod
    def _to_commit(self, added: NewFiles) -> NewFiles:
        """Return new files with the handles that a commit after a rebase needs."""


def new_files_of(some: Sequence[Rewritten], deleted: Deleted, marked: Mapping[int, Int64]) -> Located:
    """Return the new files in which deleted rows must be, with the rows that earlier rebases have deleted from them.

    Args:
        some: The groups of the commit.
        deleted: The deleted rows.
        marked: The positions of the deleted rows of new files.
    """
    touched = np.unique(deleted.owner).tolist()
    at = np.concatenate([some[group].added.at for group in touched])
    owner = np.repeat(touched, [len(some[group].added) for group in touched])
    return Located(at, owner, [marked.get(file, _NO_ROWS) for file in at.tolist()])


class RowIndex:
    """Where rows are: the digest of each row of some files as it was when the file was read.

    The place of a row is one number: file << POSITION_BITS | position. A file is a position among all pinned or among
    all new files.
    """

    def __init__(self, reader: Reader, rows_of: Callable[[Any], DataFrame]) -> None:
        """Begin without files. rows_of: the method of the reader that returns the rows of files."""
        self._reader, self._rows_of, self._session = reader, rows_of, reader.session
        self._parts: list[IndexedRows] = []  # each place is in one of them
        self._at = _NO_ROWS

    def read(self, files: Any, at: Int64) -> Int64:
        """Read the files that the index does not have.

        Args:
            files: All pinned or all new files, a java.util.List.
            at: int64, the positions of those that are needed.

        Returns:
            int64, the positions of these files.
        """
        missing = np.setdiff1d(at, self._at)
        if not len(missing):
            return missing
        some = self._reader.select(files, missing)
        frame, place = self._rows_of(some), F.col(_PLACE)
        first = pa.table({FILE: self._reader.names(some), _PLACE: missing << POSITION_BITS})
        known = F.broadcast(from_arrow(self._session, first))
        rows = digests(frame, _columns(frame), FILE, POSITION).join(known, FILE)
        rows = rows.select((place + F.col(POSITION)).alias(_PLACE), HASH, DIGEST).persist()
        tasks = str(self._session.sparkContext.defaultParallelism)
        try:
            with session_conf(self._session, {"spark.sql.shuffle.partitions": tasks}):
                last = to_arrow(rows.groupBy(F.shiftright(place, POSITION_BITS)).agg(F.max(place).alias(_PLACE)))
            bounds = parts_of(np.sort(last[_PLACE].to_numpy()))
            parts = [IndexedRows.of(to_arrow(rows.where(place.between(*each)))) for each in bounds]
        finally:
            with suppress(Exception):  # as in `Rebase._release`
                rows.unpersist()
        self._parts, self._at = self._parts + parts, np.concatenate([self._at, missing])
        return missing

    def close(self) -> None:
        """Release the rows. A later garbage collection would do it, too."""
        self._parts = []

    def digests_of(self, rows: Located) -> pa.Table:
        """Return GROUP, FILE, HASH and DIGEST of rows, as many of them as the index has."""
        places = rows.places()
        tables = [_NO_INDEXED_ROWS, *(part.take(part.at(places)) for part in self._parts)]
        found = pa.concat_tables(tables)
        place = found[_PLACE].to_numpy()
        return pa.table(
            {GROUP: rows.owners(place), FILE: place >> POSITION_BITS, HASH: found[HASH], DIGEST: found[DIGEST]}
        )

    def equal(self, files: Located, gone: pa.Table) -> pa.Table:
        """Return the rows of files that are equal to deleted rows.

        Args:
            files: The files, with the rows of them that are not live any more.
            gone: The deleted rows, from `digests_of`.

        Returns:
            GROUP, DIGEST, FILE and POSITION in the order of FILE and POSITION, of each row at most as many as were
            deleted: a row may have millions of equal ones.
        """
        group = np.full(self._at.max(initial=-1) + 1, -1)  # -1 is no group of a deleted row
        group[files.at] = files.owner
        dead, hashes = files.places(), np.unique(gone[HASH].to_numpy())
        groups, deleted = gone[GROUP].to_numpy(), gone[DIGEST].combine_chunks()
        found = _NO_INDEXED_ROWS
        for part in self._parts:
            at = np.setdiff1d(part.with_hash(hashes), part.at(dead), assume_unique=True)
            found = pa.concat_tables([found, part.take(at)]).sort_by(_PLACE)
            owner = group[found[_PLACE].to_numpy() >> POSITION_BITS]
            kept = first_equal(groups, deleted, owner, found[DIGEST].combine_chunks())
            found = found.take(pa.array(kept))
        place = found[_PLACE].to_numpy()
        located = {FILE: place >> POSITION_BITS, POSITION: place & (1 << POSITION_BITS) - 1}
        return pa.table({GROUP: group[located[FILE]], DIGEST: found[DIGEST], **located})


@dataclass(frozen=True, slots=True)
class IndexedRows:
    """Some rows of an index, in the order of their places.

    Attributes:
        place: int64[rows], ascending.
        hash: int64[rows].
        digest: void[rows] of DIGEST_BYTES bytes.
        by_hash: int64[rows], the rows in the order of their hashes.
    """

    place: Int64
    hash: Int64
    digest: NDArray[np.void]
    by_hash: Int64

    @staticmethod
    def of(rows: pa.Table) -> IndexedRows:
        """Store the rows of a table with _PLACE, HASH and DIGEST in one file, so that they take no memory."""
        rows = rows.sort_by(_PLACE)
        stored = pa.concat_arrays([_NO_DIGESTS, *rows[DIGEST].cast(_NO_DIGESTS.type).chunks])
        digest = np.frombuffer(stored.buffers()[1], np.dtype((np.void, DIGEST_BYTES)), len(stored))
        hashes = rows[HASH].to_numpy()
        columns = (rows[_PLACE].to_numpy(), hashes, digest, np.argsort(hashes, kind="stable"))
        return IndexedRows(*_mapped(columns))

    def at(self, places: Int64) -> Int64:
        """Return the positions of the rows with these places, as many of them as there are, int64[<= places]."""
        at: Int64 = np.searchsorted(self.place, places)
        is_inside = at < len(self.place)
        at, places = at[is_inside], places[is_inside]
        found: Int64 = at[self.place[at] == places]
        return found

    def with_hash(self, hashes: Int64) -> Int64:
        """Return the positions of all rows with one of these hashes. hashes: int64, distinct."""
        first, end = (np.searchsorted(self.hash, hashes, side, self.by_hash) for side in ("left", "right"))
        count = end - first
        found: Int64 = self.by_hash[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
        return found

    def take(self, at: Int64) -> pa.Table:
        """Return _PLACE, HASH and DIGEST of the rows at these positions."""
        buffers = [None, pa.py_buffer(self.digest[at].tobytes())]
        digest = pa.Array.from_buffers(_NO_DIGESTS.type, len(at), buffers).cast(pa.binary())
        return pa.table({_PLACE: self.place[at], HASH: self.hash[at], DIGEST: digest})


_NO_DIGESTS = pa.array([], pa.binary(DIGEST_BYTES))
_NO_INDEXED_ROWS = pa.table({_PLACE: _NO_ROWS, HASH: _NO_ROWS, DIGEST: _NO_DIGESTS.cast(pa.binary())})


def _mapped(columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Move arrays of equal length to a file without a name, and map it into memory. It exists as long as the result."""
    size = sum(column.nbytes for column in columns)
    if not size:
        return list(columns)
    with TemporaryFile() as file:
        for column in columns:
            file.write(column.tobytes())
        file.flush()
        stored = np.memmap(file, np.uint8, "r", shape=(size,))
    ends = np.cumsum([column.nbytes for column in columns])
    return [part.view(column.dtype) for part, column in zip(np.split(stored, ends[:-1]), columns, strict=True)]


def parts_of(last: Int64) -> list[tuple[int, int]]:
    """Divide the rows of files into parts with at most MAX_PART_ROWS rows.

    Args:
        last: int64[files], ascending, the last place of each file.

    Returns:
        The first and the last place of each part.
    """
    if not len(last):
        return []
    end = np.cumsum((last & (1 << POSITION_BITS) - 1) + 1)
    cut = np.arange(0, end[-1], MAX_PART_ROWS)
    file = np.searchsorted(end, cut, side="right")
    begin = last[file] + 1 - (end[file] - cut)
    return list(zip(begin.tolist(), [*(begin[1:] - 1).tolist(), int(last[-1])], strict=True))


def find_copies(index: RowIndex, files: Located, gone: pa.Table) -> Located | None:
    """Search new files for rows that are equal to deleted ones.

    Args:
        index: The rows of the new files.
        files: The new files, with the rows of them that are not live any more.
        gone: The deleted rows, from `RowIndex.digests_of`.

    Returns:
        As many rows as were deleted; None if there are not as many.
    """
    found = index.equal(files, gone)
    groups, of_found = gone[GROUP].to_numpy(), found[GROUP].to_numpy()
    chosen = match(groups, gone[DIGEST].combine_chunks(), of_found, found[DIGEST].combine_chunks())
    if chosen is None:
        return None
    marked, number = np.unique(found[FILE].to_numpy()[chosen], return_inverse=True)
    rows = found[POSITION].to_numpy()[chosen]
    owner = files.owners(marked << POSITION_BITS)
    return Located(marked, owner, [np.sort(rows[part]) for part in positions(number, len(marked))])


def require_same_digests(gone: pa.Table, marked: pa.Table, table: str) -> None:
    """Check that the rows to delete from new files are equal to the rows that were deleted, group by group.

    Args:
        gone: The deleted rows, from `RowIndex.digests_of`.
        marked: The rows at the positions in the new deletes, as storage has these.
        table: The name of the table, for messages.

    Raises:
        EngineError: ZL310, if the rows differ.
    """
    nothing = Content(0, 0)
    require_same_rows((_content(gone), nothing), (_content(marked), nothing), table)


def _content(rows: pa.Table) -> Content:
    """Return what only tables with the same GROUP and DIGEST of the same number of rows have in common."""
    content = sha256()
    for group, digest in sorted(zip(rows[GROUP].to_pylist(), rows[DIGEST].to_pylist(), strict=True)):
        content.update(b"%d %d " % (group, len(digest)) + digest)
    return Content(len(rows), int.from_bytes(content.digest()[:8], signed=True))


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows that files lose by their deletes.

    Attributes:
        rows_of: A method of the reader, which returns the rows of the files.
        before: The files with the deletes before, a java.util.List.
        after: The files with the deletes after, without those that are removed. The table has none of their rows.
        at: int64[files], their positions among all pinned or all new files.
        removed: bool[files], whether a file is removed.
        rows: The rows that the files should lose, from `RowIndex.digests_of`.
    """

    rows_of: Callable[[Any], DataFrame]
    before: Any
    after: Any
    at: Int64
    removed: NDArray[np.bool_]
    rows: pa.Table

    def of(self, reader: Reader, some: Int64) -> Lost:
        """Return the same of those files that are at some positions among all files."""
        kept = np.flatnonzero(np.isin(self.at, some))
        left = kept[~self.removed[kept]]
        before, after = reader.select(self.before, kept), reader.select(self.after, left)
        rows = self.rows.filter(pa.array(np.isin(self.rows[FILE].to_numpy(), some)))
        return Lost(self.rows_of, before, after, self.at[kept], self.removed[kept], rows)


def require_same_difference(reader: Reader, sides: Sequence[Lost]) -> None:
    """Check that files lose the rows that they should, by reading them with their deletes before and after.

    Raises:
        EngineError: ZL310, if the rows differ.
    """
    if not sides:
        return
    frames = [side.rows_of(files) for side in sides for files in (side.before, side.after) if len(files)]
    contents = iter(contents_of(frames, _columns(frames[0])))
    for side in sides:
        before, after = (next(contents) if len(files) else Content(0, 0) for files in (side.before, side.after))
        expected = Content(len(side.rows), int(side.rows[HASH].to_numpy().sum()))  # modulo 2^64
        require_same_rows((expected, Content(0, 0)), (before, after), reader.table)


def _columns(frame: DataFrame) -> list[str]:
    return [name for name in frame.columns if name not in (FILE, POSITION)]


def match(deleted_group: Int64, deleted: pa.Array, found_group: Int64, found: pa.Array) -> Int64 | None:
    """Choose one of the found rows for each deleted row, see `first_equal`.

    Returns:
        int64[deleted], the positions of the chosen rows among the found ones. None if a deleted row has no equal row
        in its group that is left for it.
    """
    chosen = first_equal(deleted_group, deleted, found_group, found)
    return chosen if len(chosen) == len(deleted) else None


def first_equal(deleted_group: Int64, deleted: pa.Array, found_group: Int64, found: pa.Array) -> Int64:
    """Choose rows that are equal to deleted ones. If a row was deleted k times, k equal rows are chosen.

    Args:
        deleted_group: int64[deleted], the group of each deleted row.
        deleted: binary[deleted], the digest of each deleted row. Equal rows have equal digests.
        found_group: int64[found], the group of each row that may be chosen.
        found: binary[found], the digests of these rows.

    Returns:
        int64[<= deleted], the ascending positions of the chosen rows among the found ones. Of several equal rows of a
        group, the first ones are chosen.
    """
    digests = pa.concat_arrays([deleted.cast(pa.binary()), found.cast(pa.binary())]).dictionary_encode()
    rows = np.concatenate([deleted_group, found_group]) * len(digests.dictionary) + np.asarray(digests.indices)
    key = np.unique(rows, return_inverse=True)[1]
    wanted, of_found = key[: len(deleted)], key[len(deleted) :]
    count = np.bincount(wanted, minlength=int(key.max(initial=-1)) + 1)
    order = np.argsort(of_found, kind="stable")
    ordered = of_found[order]
    rank = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    return np.sort(order[rank < count[ordered]])
