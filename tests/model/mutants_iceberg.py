"""Deliberate defects of an Iceberg rewrite: each replaces one function by one that is wrong."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from model import iceberg_backend
from model.iceberg_catalog import Change, Metadata
from model.iceberg_java import Content, Rewrite, StandIn, Task
from model.mutant import Mutant, patched
from model.rows import Row
from model.schedule import step
from model.worlds import Scenario

from zlayout.errors import CommitConflict, EngineError
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.write import commit, staging
from zlayout.formats.iceberg.write import jvm as prepared
from zlayout.formats.kernel import outcome
from zlayout.formats.kernel.commits import new_files

Committer = commit.Committer
real_commit, real_rewrite, real_settled, real_rows = (
    Committer.commit,
    commit.rewrite,
    outcome.settled,
    iceberg_backend.live_rows,
)
real_commit_apart = commit.commit_apart
real_validate, real_replace = Change.validate, Content.replace


def from_now(self: Rewrite, number: int) -> Rewrite:  # noqa: ARG001
    self.change.start = self._transaction.table().currentSnapshot().number
    return self


def sequence_of_now(self: Rewrite, sequence: int) -> Rewrite:  # noqa: ARG001
    self.change.data_sequence = self._transaction.table().currentSnapshot().sequence
    return self


def only_files(self: Change, base: Metadata) -> None:
    """Files must exist; whether they have new deletes is not asked, as for a delete and an append."""
    validated, self.validated = self.validated, False
    real_validate(self, base)
    self.validated = validated


def past_conflict(self: Any, some: Any) -> Any:
    try:
        return real_commit(self, some)
    except CommitConflict:
        with patch.object(Change, "validate", lambda *_: None):
            return real_commit(self, some)


def all_files_each_time(rewritten: Any, commit_groups: Any) -> Iterator[Any]:
    everything = new_files(rewritten)
    nothing = everything.take(np.zeros(0, np.int64))

    def commit_all_files(some: Any) -> Any:
        return commit_groups([replace(some[0], added=everything), *(replace(each, added=nothing) for each in some[1:])])

    return real_commit_apart(rewritten, commit_all_files)


def without_lineage(tasks: Iterable[Task]) -> tuple[Row, ...]:
    return tuple(row._replace(id=None, version=None) for row in real_rows(tasks))


def state_first(jvm: StandIn, catalog: Any, work: Any, notify: Any, files: Any) -> Iterator[Any]:
    """The planned files' snapshots are recorded as laid out, then they are laid out."""
    table = jvm.table
    step("record")
    snapshots = {file.snapshot for file in table.current.files.values()}
    state = recorded.after({}, work.layout, snapshots, snapshots)
    table.commit(Change(table.number(work.run_id, 99), properties={recorded.PROPERTY: recorded.render(state)}))
    yield from real_rewrite(jvm, catalog, work, notify, files)


def twice(doing: str, send: Any, look: Any, failures: Any) -> Any:  # noqa: ARG001
    try:
        return real_settled(doing, send, lambda: None, failures)
    except EngineError:
        with patch.object(Change, "validate", lambda *_: None):
            return real_settled(doing, send, lambda: None, failures)


def orphans_deleted(self: Any, some: Any) -> Any:
    try:
        return real_commit(self, some)
    except EngineError:
        self._pinned.table.table.storage -= set(new_files(some).path.to_pylist())
        raise


def none_found(catalog: Any, name: Any, run_id: str, earlier: Collection[int] = ()) -> tuple[()]:  # noqa: ARG001
    return ()


def of_any_run(catalog: Any, name: Any, run_id: str, earlier: Collection[int] = ()) -> Any:
    """As if run ids were used again."""
    runs = {s.properties[recorded.RUN] for s in catalog.current.history if recorded.RUN in s.properties} | {run_id}
    return [c for run in sorted(runs) for c in iceberg_backend.run_commits(catalog, name, run, earlier)]


def failed(doing: str, reason: object, failures: Any) -> Exception:  # noqa: ARG001
    return EngineError.of("ZL314", f"{doing}: {reason}")


def remove_all(self: Content, change: Rewrite, removed: Any, added: Any, *, deletes: bool) -> None:  # noqa: ARG001
    live = change._transaction.table().base.files.values()
    real_replace(self, change, [Task(file, (), ()) for file in live], added, deletes=deletes)


def residual(tasks: Iterable[Task]) -> tuple[Row, ...]:
    """The reader drops the rows that a filter on the files leaves over."""
    return tuple(row for row in real_rows(tasks) if row.key != 2)


def deleted_too(tasks: Iterable[Task]) -> tuple[Row, ...]:
    return tuple(row for task in tasks for row in task.data.rows)


def unchecked(self: prepared.Swap) -> None:
    """Iceberg applies the transaction again to newer metadata."""
    self.transaction.commitTransaction()


BELIEVED = (iceberg_backend, "is_exact", lambda _: False)
DELETES = Scenario("iceberg", ("delete", "update"))
EQUALITY = Scenario("iceberg", ("equality",), rewriters=1, lineage=False)  # which has had equality deletes before
DROPPED_DELETES = Scenario("iceberg", ("equality+update_outside",), rewriters=1, lineage=False)
ANSWERS = Scenario("iceberg", ("update",), faults=1)
JOBS = Scenario("iceberg", ("append",), rewriters=1, faults=1, jobs_fail=True)
ONE = Scenario("iceberg", ("append",), rewriters=1)
PLAIN = replace(ONE, lineage=False)
BRANCH = Scenario("iceberg", ("elsewhere", "delete"), rewriters=1, branch="audit")
DROPPED = Scenario("iceberg", ("drop", "append"), rewriters=1, faults=1, branch="audit")

MUTANTS = (
    Mutant(
        "validate-now",
        "validated from the snapshot at commit time instead of from the pinned one",
        DELETES,
        {"rows revived"},
        patched((Rewrite, "validateFromSnapshot", from_now)),
    ),
    Mutant(
        "sequence-of-now",
        "gives the new files the sequence number at commit time, which equality deletes then miss",
        EQUALITY,
        {"rows revived"},
        patched((Rewrite, "dataSequenceNumber", sequence_of_now)),
    ),
    Mutant(
        "dropped-deletes-unseen",
        "commits although Iceberg drops an equality delete that applies to the new files",
        DROPPED_DELETES,
        {"rows revived"},
        patched((Committer, "_require_equality_deletes", lambda *_: None)),
    ),
    Mutant(
        "dropped-by-a-retry",
        "lets Iceberg apply the change again to newer metadata, without the check",
        DROPPED_DELETES,
        {"rows revived"},
        patched((prepared.Swap, "commitTransaction", unchecked)),
    ),
    Mutant(
        "deletes-not-validated",
        "asks whether the files are there, not whether they have new deletes",
        DELETES,
        {"rows revived"},
        patched((Change, "validate", only_files)),
    ),
    Mutant(
        "past-a-conflict",
        "commits without validation after a conflict",
        DELETES,
        {"rows revived", "rows doubled", "rows changed"},
        patched((Committer, "commit", past_conflict)),
    ),
    Mutant(
        "halves-add-everything",
        "after a conflict each half adds the new files of all groups",
        DELETES,
        {"rows doubled"},
        patched((commit, "commit_apart", all_files_each_time)),
    ),
    Mutant(
        "no-lineage",
        "drops _row_id and _last_updated_sequence_number",
        ONE,
        {"lineage lost"},
        patched((iceberg_backend, "live_rows", without_lineage)),
    ),
    Mutant(
        "state-first",
        "records the files as laid out before the rewrite is committed",
        ANSWERS,
        {"false record"},
        patched((commit, "rewrite", state_first)),
    ),
    Mutant(
        "commit-twice",
        "commits again after a lost answer",
        ANSWERS,
        {"committed twice", "rows doubled", "rows revived", "rows changed"},
        patched((prepared, "settled", twice)),
    ),
    Mutant(
        "orphans-deleted",
        "deletes the new files when a commit fails, whatever became of it",
        ANSWERS,
        {"missing file"},
        patched((Committer, "commit", orphans_deleted)),
    ),
    Mutant(
        "errors-believed",
        "does not look into the table after an error",
        ANSWERS,
        {"false report"},
        patched((commit, "run_commits", none_found)),
    ),
    Mutant(
        "one-run-id",
        "takes any run's commit for its own, as if run ids were used again",
        ANSWERS,
        {"false report"},
        patched((commit, "run_commits", of_any_run)),
    ),
    Mutant(
        "unread-is-failed",
        "takes a catalog that cannot be read for a commit that failed",
        ANSWERS,
        {"false report"},
        patched((outcome, "unknown", failed)),
    ),
    Mutant(
        "outside-the-plan",
        "replaces all files of the snapshot",
        ONE,
        {"rows lost"},
        patched((Content, "replace", remove_all)),
    ),
    Mutant(
        "residuals",
        "reads through a filter with residuals and believes the reader's own row count",
        ONE,
        {"rows lost"},
        patched((iceberg_backend, "live_rows", residual), BELIEVED),
    ),
    Mutant(
        "deletes-not-read",
        "reads data files without their delete files and believes the reader's own row count",
        ONE,
        {"rows revived"},
        patched((iceberg_backend, "live_rows", deleted_too), BELIEVED),
    ),
    Mutant(
        "all-deletes-removed",
        "removes every delete file of a rewritten data file, those of other files too",
        PLAIN,
        {"rows revived"},
        patched((Content, "is_file_scoped", lambda *_: True)),
    ),
    Mutant(
        "files-not-required",
        "does not look for the new files right before the commit",
        JOBS,
        {"missing file"},
        patched((staging.Staged, "require_files", lambda *_: None)),
    ),
    Mutant(
        "commits-to-main",
        "does not direct the rewrite of a branch to the branch",
        BRANCH,
        {"another branch changed"},
        patched((Rewrite, "toBranch", lambda self, _: self)),
    ),
    Mutant(
        "head-of-main",
        "takes the snapshot of main for the newest one of the branch",
        BRANCH,
        {"false report", "does not converge"},
        patched((commit, "head", lambda table, _: table.currentSnapshot())),
    ),
    Mutant(
        "branch-created-again",
        "lets Iceberg apply the rewrite again after the branch was dropped",
        DROPPED,
        {"branch created again", "not refused"},
        patched((prepared.Swap, "commitTransaction", unchecked)),
    ),
)
