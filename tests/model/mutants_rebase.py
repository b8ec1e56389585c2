"""Deliberate defects of a rebase onto deletion vectors and position deletes of other writers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from model import delta_backend
from model.iceberg_java import Deletes, Rewrite, Task
from model.mutant import Mutant, patched
from model.worlds import Scenario

from zlayout.formats.delta.write.commit import Rebase
from zlayout.formats.iceberg.write import commit as of_iceberg
from zlayout.formats.iceberg.write.commit import Committer
from zlayout.formats.iceberg.write.commit import Rebase as IcebergRebase
from zlayout.formats.kernel import rebase
from zlayout.rewrite import gate
from zlayout.table.state import Int64

StandIn = delta_backend.StandIn
real_difference = rebase.require_same_difference
real_written, real_deleted_tasks = Deletes.marked, IcebergRebase._deleted_rows
real_newly_deleted, real_require = Deletes.newly_deleted, Committer._require_equality_deletes
real_marked, real_match, real_deleted_rows = StandIn.marked, rebase.match, Rebase._deleted_rows
real_vectors = StandIn.newly_deleted
real_current, real_new_files = Rebase._current, rebase.new_files_of


def nothing(*_: Any) -> None:
    pass


def next_positions(self: Any, files: Any, positions: Sequence[Int64]) -> Any:
    shifted = [(rows + 1) % len(file.rows) for file, rows in zip(files, positions, strict=True)]
    return real_marked(self, files, shifted)


def first_file(_index: Any, files: rebase.Located, gone: pa.Table) -> rebase.Located:
    """Takes the first rows of the first new file."""
    return rebase.Located(files.at[:1], files.owner[:1], [np.arange(len(gone))])


def all_live(some: Any, deleted: rebase.Deleted, marked: Any) -> rebase.Located:  # noqa: ARG001
    """Forgets which rows of the new files earlier rebases have deleted."""
    return real_new_files(some, deleted, {})


def of_both_sides(reader: Any, sides: Sequence[rebase.Lost]) -> None:
    if len(sides) > 1:
        real_difference(reader, sides)


def each_digest_once(deleted_group: Int64, deleted: pa.Array, found_group: Int64, found: pa.Array) -> Int64 | None:
    rows = sorted(set(zip(deleted_group.tolist(), deleted.to_pylist(), strict=True)))
    groups = np.array([group for group, _ in rows], np.int64)
    return real_match(groups, pa.array([digest for _, digest in rows], pa.string()), found_group, found)


def from_the_plan(self: Any, now: Any, some: Any) -> Any:
    """Compares with the pinned deletion vectors each time, not with those of the rebase before."""
    self._old = self._pinned.adds
    return real_deleted_rows(self, now, some)


def pinned_vectors(self: Any, groups: Any) -> Any:
    return self._delta.files.select(self._pinned.adds, self._pinned.of(groups))


def without_vectors(_self: Any, each: Any) -> Any:
    return replace(each, added=each.added)


def additional_only(_self: Any, before: Any, after: Any) -> list[Int64]:
    """Does not notice that rows were restored."""
    pairs = delta_backend.deletions(before, after)
    return [np.array(sorted(new - old), np.int64) for old, new in pairs]


def without_replaced(self: Any, before: Sequence[Any], after: Sequence[Any]) -> Any:
    """Deletes no row of the files that another writer has replaced."""
    found = real_vectors(self, before, after)
    return found and [rows if now else rows[:0] for rows, now in zip(found, after, strict=True)]


def next_rows(self: Any, tasks: Any, positions: Sequence[Int64]) -> Any:
    shifted = [(rows + 1) % len(task.data.rows) for task, rows in zip(tasks, positions, strict=True)]
    return real_written(self, tasks, shifted)


def from_the_planned_tasks(self: Any, now: Any, some: Any) -> Any:
    """Compares with the pinned deletes each time, not with those of the rebase before."""
    self._old = self._pinned.tasks
    return real_deleted_tasks(self, now, some)


def not_restored(_self: Any, before: Any, after: Any, *_: Any) -> list[Int64]:
    """Does not notice that rows were restored."""
    found = []
    for old, task in zip(before, after, strict=True):
        known, gone = (frozenset[int]().union(*(d.positions for d in each.applied)) for each in (old, task))
        found.append(np.array(sorted(gone - known), np.int64))
    return found


def by_position_only(self: Deletes, before: Any, after: Any, *others: Any) -> Any:
    """Does not compare equality deletes."""
    tasks = [
        [Task.of_new(task.data, tuple(d for d in task.applied if d.target)) for task in of] for of in (before, after)
    ]
    return real_newly_deleted(self, *tasks, *others)


def unless_rebased(self: Committer, made: Any, io: Any) -> None:
    if not self._rebase._versions:
        real_require(self, made, io)


def sequence_of_now(self: Rewrite, sequence: int) -> Rewrite:  # noqa: ARG001
    self.change.data_sequence = self._transaction.table().currentSnapshot().sequence
    return self


REFUSED = "gate refused"
DELETE = Scenario("delta", ("delete", "delete"), rewriters=1)
PAIR = Scenario("delta", ("delete_pair",), rewriters=1, lineage=False)
TWICE = Scenario("delta", ("delete_one+delete",), rewriters=1, lineage=False)
LATER_FILE = Scenario("delta", ("delete_one+delete_last",), rewriters=1, faults=1, jobs_fail=True)
EACH_OF_PAIR = Scenario("delta", ("delete_one+delete_one",), rewriters=1, lineage=False)
JOBS = Scenario("delta", ("delete",), rewriters=1, faults=1, jobs_fail=True)
LATER_JOBS = Scenario("delta", ("delete_one+delete_one",), rewriters=1, faults=1, jobs_fail=True)
RESTORED = Scenario("delta", ("restore", "delete"), rewriters=1)
REPLACED = Scenario("delta", ("delete_one+update_last",), rewriters=1)
ROWS = Scenario("iceberg", ("delete", "delete"), rewriters=1)
ROWS_PAIR = Scenario("iceberg", ("delete_pair",), rewriters=1, lineage=False)
ROWS_TWICE = Scenario("iceberg", ("delete_one+delete",), rewriters=1, lineage=False)
ROWS_JOBS = Scenario("iceberg", ("delete",), rewriters=1, faults=1, jobs_fail=True)
ROWS_LATER_JOBS = Scenario("iceberg", ("delete_one+delete_one",), rewriters=1, faults=1, jobs_fail=True)
ROWS_RESTORED = Scenario("iceberg", ("delete", "restore"), rewriters=1)
ROWS_EQUALITY = Scenario("iceberg", ("delete", "equality"), rewriters=1)
ROWS_KNOWN_EQUALITY = Scenario("iceberg", ("delete", "equality"), rewriters=1, lineage=False)
ROWS_DROPPED = Scenario("iceberg", ("delete", "equality+update_outside"), rewriters=1, lineage=False)
CLUSTERED = Scenario("delta", ("cluster+delete",), rewriters=1, unclustered=True)

MUTANTS = (
    Mutant(
        "rebase-wrong-position",
        "marks the rows behind the ones that it found",
        DELETE,
        {REFUSED},
        patched((StandIn, "marked", next_positions)),
    ),
    Mutant(
        "rebase-wrong-position-without-gate",
        "marks the rows behind the ones that it found, and compares nothing",
        DELETE,
        {"rows lost", "rows revived"},
        patched((StandIn, "marked", next_positions), (rebase, "require_same_rows", nothing)),
    ),
    Mutant(
        "rebase-wrong-file",
        "marks rows of another new file",
        DELETE,
        {REFUSED},
        patched((rebase, "find_copies", first_file)),
    ),
    Mutant(
        "rebase-duplicate-once",
        "deletes one of the equal rows, however many were deleted",
        PAIR,
        {REFUSED},
        patched((rebase, "match", each_digest_once)),
    ),
    Mutant(
        "rebase-duplicate-once-without-gate",
        "deletes one of the equal rows, however many were deleted, and compares nothing",
        PAIR,
        {"rows revived", "rows doubled"},
        patched((rebase, "match", each_digest_once), (rebase, "require_same_rows", nothing)),
    ),
    Mutant(
        "rebase-old-vectors-removed",
        "removes the files with the deletion vectors that the plan saw",
        DELETE,
        {"rows doubled", "rows revived"},
        patched((Rebase, "removed", pinned_vectors)),
    ),
    Mutant(
        "rebase-from-the-plan",
        "deletes rows once more in each rebase, if others look the same",
        TWICE,
        {"rows lost"},
        patched((Rebase, "_deleted_rows", from_the_plan)),
    ),
    Mutant(
        "rebase-without-vectors",
        "commits the new files as they were written",
        DELETE,
        {"rows revived"},
        patched((Rebase, "_current", without_vectors)),
    ),
    Mutant(
        "rebase-restored-rows",
        "does not notice that another writer restored rows",
        RESTORED,
        {REFUSED},
        patched((StandIn, "newly_deleted", additional_only)),
    ),
    Mutant(
        "rebase-restored-rows-without-gate",
        "does not notice that another writer restored rows, and compares nothing",
        RESTORED,
        {"rows lost"},
        patched((StandIn, "newly_deleted", additional_only), (rebase, "require_same_rows", nothing)),
    ),
    Mutant(
        "rebase-without-gate",
        "commits deletion vectors whatever rows they delete",
        JOBS,
        {"rows lost", "rows revived"},
        patched((rebase, "require_same_rows", nothing)),
    ),
    Mutant(
        "rebase-counting-gate",
        "compares numbers of deleted rows only",
        JOBS,
        {"rows lost", "rows revived"},
        patched((gate, "_minus", lambda before, after: gate.Content(before.rows - after.rows, 0))),
    ),
    Mutant(
        "rebase-later-unchecked",
        "compares rows after the first rebase of a commit only",
        LATER_JOBS,
        {"rows lost", "rows revived"},
        patched((rebase, "require_same_digests", nothing)),
    ),
    Mutant(
        "rebase-without-reading",
        "does not compare what the reader finds with the positions of the index",
        JOBS,
        {"rows lost", "rows revived"},
        patched((rebase, "require_same_difference", nothing)),
    ),
    Mutant(
        "rebase-first-reading-only",
        "compares what the reader finds in the first rebase of a commit only",
        LATER_FILE,
        {"rows lost", "rows revived"},
        patched((rebase, "require_same_difference", of_both_sides)),
    ),
    Mutant(
        "rebase-same-copy-twice",
        "deletes a copy that is deleted already, if another copy was deleted later",
        EACH_OF_PAIR,
        {REFUSED},
        patched((rebase, "new_files_of", all_live)),
    ),
    Mutant(
        "rebase-same-copy-twice-without-gate",
        "deletes a copy that is deleted already, if another copy was deleted later, and compares nothing",
        EACH_OF_PAIR,
        {"rows revived", "rows doubled"},
        patched((rebase, "new_files_of", all_live), (rebase, "require_same_rows", nothing)),
    ),
    Mutant(
        "rebase-replaced-file",
        "leaves the rows of a replaced file in the new files",
        REPLACED,
        {REFUSED},
        patched((StandIn, "newly_deleted", without_replaced)),
    ),
    Mutant(
        "rebase-replaced-file-without-gate",
        "leaves the rows of a replaced file in the new files, and compares nothing",
        REPLACED,
        {"rows doubled"},
        patched((StandIn, "newly_deleted", without_replaced), (rebase, "require_same_rows", nothing)),
    ),
    Mutant(
        "rebase-onto-a-clustered-table",
        "does not compare the definition of the table with the pinned one",
        CLUSTERED,
        {"rewritten though clustered"},
        patched((StandIn, "same_definition", lambda *_: True)),
    ),
    Mutant(
        "rebase-vectors-not-required",
        "does not look for the new deletion vectors right before the commit",
        JOBS,
        {"missing file"},
        patched((StandIn, "require_files", delta_backend.require_data_files)),
    ),
    Mutant(
        "rebase-iceberg-wrong-position",
        "deletes the rows behind the ones that it found",
        ROWS,
        {REFUSED},
        patched((Deletes, "marked", next_rows)),
    ),
    Mutant(
        "rebase-iceberg-wrong-position-without-gate",
        "deletes the rows behind the ones that it found, and compares nothing",
        ROWS,
        {"rows lost", "rows revived"},
        patched((Deletes, "marked", next_rows), (rebase, "require_same_rows", nothing)),
    ),
    Mutant(
        "rebase-iceberg-wrong-file",
        "deletes rows of another new file",
        ROWS,
        {REFUSED},
        patched((rebase, "find_copies", first_file)),
    ),
    Mutant(
        "rebase-iceberg-duplicate-once",
        "deletes one of the equal rows, however many were deleted",
        ROWS_PAIR,
        {REFUSED},
        patched((rebase, "match", each_digest_once)),
    ),
    Mutant(
        "rebase-iceberg-from-the-plan",
        "deletes rows once more in each rebase, if others look the same",
        ROWS_TWICE,
        {"rows lost"},
        patched((IcebergRebase, "_deleted_rows", from_the_planned_tasks)),
    ),
    Mutant(
        "rebase-iceberg-without-deletes",
        "commits the new files without their delete files",
        ROWS,
        {"rows revived"},
        patched((IcebergRebase, "add_deletes", nothing)),
    ),
    Mutant(
        "rebase-iceberg-restored-rows",
        "does not notice that another writer restored rows",
        ROWS_RESTORED,
        {REFUSED},
        patched((Deletes, "newly_deleted", not_restored)),
    ),
    Mutant(
        "rebase-iceberg-without-gate",
        "commits delete files whatever rows they delete",
        ROWS_JOBS,
        {"rows lost", "rows revived"},
        patched((rebase, "require_same_rows", nothing)),
    ),
    Mutant(
        "rebase-iceberg-later-unchecked",
        "compares rows after the first rebase of a commit only",
        ROWS_LATER_JOBS,
        {"rows lost", "rows revived"},
        patched((rebase, "require_same_digests", nothing)),
    ),
    Mutant(
        "rebase-iceberg-without-reading",
        "does not compare what the reader finds with the positions of the index",
        ROWS_JOBS,
        {"rows lost", "rows revived"},
        patched((rebase, "require_same_difference", nothing)),
    ),
    Mutant(
        "rebase-iceberg-sequence-raised",
        "gives the new files the sequence number of the newest snapshot, whose equality deletes then miss them",
        ROWS_KNOWN_EQUALITY,
        {"rows revived"},
        patched((Rewrite, "dataSequenceNumber", sequence_of_now)),
    ),
    Mutant(
        "rebase-iceberg-equality-unseen",
        "does not notice equality deletes that came before the newest snapshot",
        ROWS_EQUALITY,
        {REFUSED},
        patched((Deletes, "newly_deleted", by_position_only)),
    ),
    Mutant(
        "rebase-iceberg-dropped-deletes",
        "does not look for equality deletes that Iceberg drops with a commit after a rebase",
        ROWS_DROPPED,
        {"rows revived"},
        patched((Committer, "_require_equality_deletes", unless_rebased)),
    ),
    Mutant(
        "rebase-iceberg-deletes-not-required",
        "does not look for the new delete files right before the commit",
        ROWS_JOBS,
        {"missing file"},
        patched((of_iceberg, "require_sizes", nothing)),
    ),
)
