"""Deliberate defects of a rebase onto deletion vectors of other writers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from model import delta_backend
from model.mutant import Mutant, patched
from model.worlds import Scenario

from zlayout.formats.delta.write.rebase import Rebase
from zlayout.formats.kernel import rebase
from zlayout.rewrite import gate
from zlayout.table.state import Int64

StandIn = delta_backend.StandIn
real_marked, real_match, real_deleted_rows = StandIn.marked, rebase.match, Rebase._deleted_rows
real_current, real_find = Rebase._current, rebase.find_copies


def nothing(*_: Any) -> None:
    pass


def next_positions(self: Any, files: Any, positions: Sequence[Int64]) -> Any:
    shifted = [(rows + 1) % len(file.rows) for file, rows in zip(files, positions, strict=True)]
    return real_marked(self, files, shifted)


def first_file(_reader: Any, _new: Any, some: Any, deleted: Any) -> rebase.Copies:
    """All rows are looked for in the first new file, at the positions that they had."""
    at = np.concatenate(deleted.positions)[:1]
    return rebase.Copies(some[0].added.at[:1], np.zeros(1, np.int64), [at])


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
    pairs = [(old.deleted, new.deleted) for old, new in zip(before, after, strict=True)]
    return [np.array(sorted(new - old), np.int64) for old, new in pairs]


def missing_is_deleted(deleted_group: Int64, deleted: pa.Array, found_group: Int64, found: pa.Array) -> Int64:
    """Skips what it does not find."""
    kept = [
        n for n in range(len(deleted)) if real_match(deleted_group[n : n + 1], deleted[n : n + 1], found_group, found)
    ]
    chosen = real_match(deleted_group[kept], deleted.take(pa.array(kept, pa.int64())), found_group, found)
    return np.zeros(0, np.int64) if chosen is None else chosen


def any_group(deleted_group: Int64, deleted: pa.Array, found_group: Int64, found: pa.Array) -> Int64 | None:
    return real_match(np.zeros_like(deleted_group), deleted, np.zeros_like(found_group), found)


REFUSED = "gate refused"
DELETE = Scenario("delta", ("delete", "delete"), rewriters=1)
PAIR = Scenario("delta", ("delete_pair",), rewriters=1, lineage=False)
ONE_OF_PAIR = Scenario("delta", ("delete_one", "delete"), rewriters=1, lineage=False)
TWICE = Scenario("delta", ("delete_one+delete",), rewriters=1, lineage=False)
JOBS = Scenario("delta", ("delete",), rewriters=1, faults=1, jobs_fail=True)
RESTORED = Scenario("delta", ("restore", "delete"), rewriters=1)
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
)
