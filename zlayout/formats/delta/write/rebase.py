"""Rebases groups of a Delta table onto the deletion vectors of other writers: see `zlayout.formats.kernel.rebase`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from zlayout.formats.base import Group, Notify, PlannedTable
from zlayout.formats.delta.write.jvm import DeltaJvm, metadata_column
from zlayout.formats.delta.write.transaction import FAILURES, PinnedFiles, file_uris
from zlayout.formats.kernel import rebase
from zlayout.formats.kernel.commits import NewFiles, Rewritten
from zlayout.formats.kernel.rebase import Deleted, Located
from zlayout.rewrite.rows import FILE, POSITION
from zlayout.table.state import Int64

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads lists of AddFile with their deletion vectors; satisfies `kernel.rebase.Reader`.

    Attributes:
        snapshot: The pinned snapshot (py4j).
        like: See `DeltaJvm.read_back`.
    """

    delta: DeltaJvm
    snapshot: Any
    like: Any
    table: str

    @property
    def session(self) -> SparkSession:
        return self.delta.spark

    def select(self, files: Any, at: Int64) -> Any:
        return self.delta.files.select(files, at)

    def names(self, files: Any) -> pa.Array:
        return file_uris(self.delta.base_uri(), self.delta.files.paths(files).to_pylist())

    def pinned(self, files: Any) -> DataFrame:
        return _with_origin(self.delta.data_frame(self.snapshot, files))

    def written(self, files: Any) -> DataFrame:
        return _with_origin(self.delta.read_back(self.snapshot, files, self.like))


def _with_origin(frame: DataFrame) -> DataFrame:
    origin = metadata_column(frame)
    return frame.select("*", origin.getField("file_path").alias(FILE), origin.getField("row_index").alias(POSITION))


class Rebase(rebase.Rebase):
    """The deletion vectors of the pinned files and of the new files of one rewrite, all of them lists of AddFile.

    A version is a snapshot (py4j).
    """

    def __init__(self, delta: DeltaJvm, snapshot: Any, pinned: PinnedFiles, work: PlannedTable, notify: Notify) -> None:
        """Store what the rewrite has read. snapshot: the pinned one (py4j). notify: called with each stage."""
        super().__init__(delta.spark, pinned.adds, work, notify, FAILURES)
        self._delta, self._snapshot, self._pinned = delta, snapshot, pinned

    def snapshot(self, some: Sequence[Rewritten]) -> Any:
        """Return the snapshot at which the transaction for these groups begins. They were rebased together."""
        return self._versions.get(some[0].group.id, self._snapshot)

    def removed(self, groups: Iterable[Group]) -> Any:
        """Return the AddFiles of the groups' pinned files in that snapshot, a java.util.List."""
        return self._delta.files.select(self._old, self._pinned.of(groups))

    def _is_possible(self) -> bool:
        return self._delta.writes_vectors(self._snapshot)

    def _newest(self) -> Any:
        return self._delta.snapshot()

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        yield Reader(self._delta, self._snapshot, self._pinned.adds[0], str(self._work.table))

    def _deleted_rows(self, now: Any, some: Sequence[Rewritten]) -> Deleted | None:
        delta, files = self._delta, self._delta.files
        if not (delta.same_definition(self._snapshot, now) and delta.writes_vectors(now)):
            return None
        groups = [each.group for each in some]
        at = self._positions(groups)
        before = files.select(self._old, at)
        after = files.after(before, self.snapshot(some).version(), now.version())
        if after is None:
            return None
        if not files.same_ids(before, after):
            return None  # Delta does not check this, because the transaction begins at the newest version
        removed = files.missing(after)
        same = pc.equal(files.vectors(before), files.vectors(after))
        changed = np.flatnonzero(removed | ~np.asarray(same.to_numpy(zero_copy_only=False), bool))
        before, after = files.select(before, changed), files.select(after, changed)
        if not len(changed) or files.deleted_since(before, after) > rebase.MAX_ROWS:
            return None
        rows = files.newly_deleted(before, after)
        if not rows or not sum(map(len, rows)):
            return None
        owner = np.repeat(np.arange(len(some)), [len(group.files) for group in groups])
        return Deleted(before, after, removed[changed], at[changed], owner[changed], rows)

    def _positions(self, groups: Sequence[Group]) -> Int64:
        return self._pinned.of(groups)

    def _written(self, handles: Any) -> Any:
        return handles

    def _marked(self, files: Any, copies: Located) -> Any:
        if pc.any(pc.equal(self._delta.files.stats(files), "")).as_py():
            return None  # Delta requires the number of rows of a file with a deletion vector
        return self._delta.files.marked(files, copies.positions)

    def _newly_deleted(self, before: Any, after: Any) -> Sequence[Int64] | None:
        return self._delta.files.newly_deleted(before, after)

    def _replaced(self, files: Any, at: Int64, others: Any) -> Any:
        return self._delta.files.replaced(files, at, others)

    def _to_commit(self, added: NewFiles) -> NewFiles:
        return replace(added, handles=self._new)
