"""Deliberate defects of a Delta rewrite: each replaces one function of the product by one that is wrong."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from model import delta_backend
from model.delta_actions import AddFile
from model.delta_writers import MANAGE
from model.java import Seq
from model.mutant import Mutant, patched
from model.rows import Row
from model.schedule import learned
from model.worlds import Scenario

from zlayout.errors import CommitConflict, Diagnostic, EngineError
from zlayout.formats.delta.read.history import RUN
from zlayout.formats.delta.write import commit, transaction
from zlayout.formats.kernel import outcome as kernel
from zlayout.formats.kernel.commits import new_files
from zlayout.table.state import TableState

Committer = commit.Committer
real_begin, real_write_groups, real_commit_apart = commit.begin, delta_backend.write_groups, commit.commit_apart
real_send, real_log_commit, real_run = Committer.send, transaction.Log.commit, commit.run_zlayout


def send_now(self: Any, transaction: Any, added: Any, removed: Any, *tags: Any) -> int:
    delta = self._delta
    transaction = real_begin(delta, delta.snapshot(), Seq(removed))
    return real_send(self, transaction, added, removed, *tags)


def send_unchecked(self: Any, transaction: Any, added: Any, removed: Any, *tags: Any) -> int:
    """No conflict check at all, as `commitLarge` has none."""
    transaction.require_no_conflict = lambda _: None
    return real_send(self, transaction, added, removed, *tags)


def same_paths(work: Any, live: Any) -> tuple[list[Any], list[Any]]:
    there = set(live.path.to_pylist())
    kept = [g for g in work.groups if there.issuperset(g.files.path.to_pylist())]
    return kept, [(g, 1) for g in work.groups if g not in kept]


def planned_rows(delta: Any, snapshot: Any, table: str, groups: Any, live: int) -> Any:  # noqa: ARG001
    """The rows that the plan saw, found by path."""
    wanted = {
        key
        for group in groups
        for key in zip(group.files.path.to_pylist(), group.files.version_key.to_pylist(), strict=True)
    }
    every = {key: file for old in delta.table.snapshots for key, file in old.files.items()}
    adds = Seq(every[key] for key in sorted(wanted))
    return transaction.PinnedFiles(adds, delta.paths(adds))


def past_conflict(rewritten: Any, commit_groups: Any) -> Iterator[Any]:
    """Commits the same groups again, from the newest snapshot."""
    try:
        yield commit_groups(rewritten)
    except CommitConflict:
        committer = commit_groups.__self__
        committer._rebase._snapshot = committer._delta.table.current
        yield commit_groups(rewritten)


def all_files_each_time(rewritten: Any, commit_groups: Any) -> Iterator[Any]:
    everything = new_files(rewritten)
    return real_commit_apart(
        rewritten,
        lambda some: commit_groups(
            some if len(some) == len(rewritten) else [replace(some[0], added=everything), *some[1:]]
        ),
    )


def without_lineage(_delta: Any, files: Any) -> tuple[Row, ...]:
    return tuple(row for file in files for row in file.live(lineage=False))


def tags_first(delta: Any, log: Any, snapshot: Any, state: Any, work: Any, notify: Any) -> Iterator[Any]:
    """The files are tagged as laid out, then they are laid out."""
    live = {file.name: file for file in snapshot.files.values()}
    paths = [path for group in work.groups for path in group.files.path.to_pylist()]
    tagged = [replace(live[p], tags=commit.layout_tags(work.layout), dataChange=False) for p in paths if p in live]
    transaction = delta.begin(snapshot)
    transaction.trackFilesRead(tagged)
    transaction.commit(Seq(tagged), "ComputeStats", {})
    yield from real_run(delta, log, delta.table.current, state, work, notify)


def twice(self: Any, transaction: Any, actions: Any, operation: Any, doing: str, *tags: Any) -> int:
    try:
        return real_log_commit(self, transaction, actions, operation, doing, *tags)
    except Exception:
        transaction.require_no_conflict = lambda _: None
        return real_log_commit(self, transaction, actions, operation, doing, *tags)


def orphans_deleted(self: Any, transaction: Any, actions: Any, operation: Any, doing: str, *tags: Any) -> int:
    try:
        return real_log_commit(self, transaction, actions, operation, doing, *tags)
    except Exception:
        self.open_storage().storage -= {action.name for action in actions if isinstance(action, AddFile)}
        raise


def never_found(storage: Any, mark: str, after: int) -> None:  # noqa: ARG001
    return None


def by_run(storage: Any, mark: str, after: int) -> int | None:  # noqa: ARG001
    """The newest commit with the only run id that there is."""
    found = next((v for v in range(len(storage.log) - 1, after, -1) if RUN in storage.log[v].tags), None)
    learned(found)
    return found


def all_removed(self: Any, transaction: Any, added: Any, removed: Any, *tags: Any) -> int:  # noqa: ARG001
    return real_send(self, transaction, added, list(transaction.snapshot().files.values()), *tags)


def residual(delta: Any, files: Any) -> tuple[Row, ...]:
    """The reader drops the rows that a filter on the files leaves over."""
    return tuple(row for file in files for row in file.live(lineage=delta.table.lineage) if row.key != 2)


def counted_by_the_reader(delta: Any, storage: Any, snapshot: Any, state: TableState, *others: Any) -> Any:
    return real_write_groups(
        delta, storage, snapshot, replace(state, notes=(Diagnostic("ZL400", "not known"),)), *others
    )


def failed(doing: str, reason: str, failures: Any) -> EngineError:  # noqa: ARG001
    return EngineError.of("ZL314", f"{doing}: {reason}")


TWO_WRITERS = Scenario("delta", ("delete", "update"))
ANSWERS = Scenario("delta", ("update",), faults=1)
JOBS = Scenario("delta", ("append",), rewriters=1, faults=1, jobs_fail=True)
ONE = Scenario("delta", ("append",), rewriters=1)
MANAGED = Scenario("delta", (MANAGE, "append"), rewriters=1, faults=1)

MUTANTS = (
    Mutant(
        "validate-now",
        "checked for conflicts from the snapshot at commit time instead of from the pinned one",
        TWO_WRITERS,
        {"rows revived", "rows doubled", "rows changed"},
        patched((Committer, "send", send_now)),
    ),
    Mutant(
        "no-conflict-check",
        "commits with commitLarge, which checks for no conflict",
        TWO_WRITERS,
        {"rows revived", "rows doubled", "rows changed"},
        patched((Committer, "send", send_unchecked)),
    ),
    Mutant(
        "paths-without-vectors",
        "compares files by path, without their deletion vectors, and reads the rows that the plan saw",
        TWO_WRITERS,
        {"rows revived", "rows doubled"},
        patched((commit, "still_live", same_paths), (commit, "pinned_files", planned_rows)),
    ),
    Mutant(
        "past-a-conflict",
        "tries again on the newest snapshot after a conflict",
        TWO_WRITERS,
        {"rows revived", "rows doubled", "rows changed"},
        patched((commit, "commit_apart", past_conflict)),
    ),
    Mutant(
        "halves-add-everything",
        "after a conflict each half adds the new files of all groups",
        Scenario("delta", ("update",), rewriters=1),
        {"rows doubled"},
        patched((commit, "commit_apart", all_files_each_time)),
    ),
    Mutant(
        "no-lineage",
        "reads the rows without their row ids and commit versions",
        ONE,
        {"lineage lost"},
        patched((delta_backend, "live_rows", without_lineage)),
    ),
    Mutant(
        "tags-first",
        "tags the files as laid out before the rewrite is committed",
        ANSWERS,
        {"false record"},
        patched((commit, "run_zlayout", tags_first)),
    ),
    Mutant(
        "commit-twice",
        "commits again after a lost answer",
        ANSWERS,
        {"rows doubled", "committed twice", "lineage lost", "false report"},
        patched((transaction.Log, "commit", twice)),
    ),
    Mutant(
        "orphans-deleted",
        "deletes the new files when a commit fails, whatever became of it",
        ANSWERS,
        {"missing file"},
        patched((transaction.Log, "commit", orphans_deleted)),
    ),
    Mutant(
        "errors-believed",
        "does not look into the log after an error",
        ANSWERS,
        {"false report"},
        patched((transaction, "version_with_marker", never_found)),
    ),
    Mutant(
        "one-run-id",
        "takes any commit with a run id for its own, as if run ids were used again",
        ANSWERS,
        {"false report"},
        patched((transaction, "version_with_marker", by_run)),
    ),
    Mutant(
        "outside-the-plan",
        "replaces all files of the snapshot",
        ONE,
        {"rows lost"},
        patched((Committer, "send", all_removed)),
    ),
    Mutant(
        "residuals",
        "reads through a filter with residuals and believes the reader's own row count",
        ONE,
        {"rows lost"},
        patched((delta_backend, "live_rows", residual), (commit, "write_groups", counted_by_the_reader)),
    ),
    Mutant(
        "unread-is-failed",
        "takes a log that cannot be read for a commit that failed",
        ANSWERS,
        {"false report"},
        patched((kernel, "unknown", failed)),
    ),
    Mutant(
        "files-not-required",
        "does not look for the new files right before the commit",
        JOBS,
        {"missing file"},
        patched((delta_backend.StandIn, "require_files", lambda *_: None)),
    ),
    Mutant(
        "past-the-catalog",
        "commits with commitLarge to a table that became a catalog-managed one after the snapshot was pinned",
        MANAGED,
        {"catalog overridden"},
        patched((Committer, "send", send_unchecked)),
    ),
    Mutant(
        "past-the-change-of-protocol",
        # each of the two alone is harmless, because the other refuses the commit
        "reads no snapshot directly before a commit, and after the conflict with the change to a catalog-managed table "
        "tries again on the newest one",
        MANAGED,
        {"catalog overridden"},
        patched((commit, "commit_apart", past_conflict), (commit, "require_no_silent_change", lambda *_: None)),
    ),
    Mutant(
        "managed-not-refused",
        "refuses no catalog-managed table, in a Delta that does not either",
        Scenario("delta", (MANAGE,), rewriters=1),
        {"catalog overridden"},
        patched(
            (delta_backend, "refusals", lambda *_: ()),
            (delta_backend.StandIn, "snapshot", lambda self: self.table.published()),
        ),
    ),
)
