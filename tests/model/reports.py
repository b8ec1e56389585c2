"""What a rewriter says of its run, against what the table's history says of it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from model.schedule import Violation

from zlayout.errors import CommitUnknown, ZlayoutError
from zlayout.formats.base import Backend, Commit, GroupFailed, PlannedTable


class RunCommit(NamedTuple):
    """A commit as a fresh reader finds it by its run id."""

    version: int
    groups: frozenset[str]
    removed: frozenset[str]


class Planner(Backend, Protocol):
    def plan(self, run_id: str) -> PlannedTable: ...


@dataclass(slots=True)
class Report:
    """ended: the rewriter lived to say how it went."""

    run_id: str
    work: PlannedTable | None = None
    commits: list[Commit] = field(default_factory=list)
    failures: list[GroupFailed] = field(default_factory=list)
    error: ZlayoutError | None = None
    ended: bool = False

    @property
    def refused(self) -> bool:
        """Whether the gate found that rows were changed."""
        return self.error is not None and any(d.code == "ZL310" for d in self.error.diagnostics)

    def run(self, backend: Planner) -> None:
        """Plan once and carry it out."""
        work = self.work = backend.plan(self.run_id)
        try:
            for outcome in backend.execute(work, lambda _: None):
                if isinstance(outcome, Commit):
                    self.commits.append(outcome)
                elif isinstance(outcome, GroupFailed):
                    self.failures.append(outcome)
        except ZlayoutError as error:
            self.error = error
        self.ended = True

    def content(self) -> Hashable:
        """All that `check` looks at."""
        if self.work is None:
            return None
        error = f"{type(self.error).__name__} {self.refused}" if self.error else ""
        pinned = tuple(path for group in self.work.groups for path in group.files.path.to_pylist())
        return pinned, tuple((c.version, c.groups) for c in self.commits), error, self.ended

    def check(self, found: Sequence[RunCommit]) -> None:
        """Raise Violation unless the history and the report agree. found: the run's commits, by its id."""
        if self.work is None:
            return
        pinned = {path for group in self.work.groups for path in group.files.path.to_pylist()}
        done = [group for commit in found for group in commit.groups]
        if len(done) > len(set(done)):
            raise Violation("committed twice", f"{self.run_id}: {done}")
        if outside := {path for commit in found for path in commit.removed} - pinned:
            raise Violation("outside the plan", f"{self.run_id} replaced {sorted(outside)}")
        if self.ended:
            self._check_words(found)

    def _check_words(self, found: Sequence[RunCommit]) -> None:
        reported = {(commit.version, frozenset(commit.groups)) for commit in self.commits}
        made = {(commit.version, commit.groups) for commit in found}
        if said := reported - made:
            raise Violation("false report", f"{self.run_id} says committed, and is not: {said}")
        unsaid = made - reported
        if isinstance(self.error, CommitUnknown):
            if len(unsaid) > 1:
                raise Violation("unresolved", f"{self.run_id}: one commit is unknown, but {unsaid} are there")
        elif unsaid:
            raise Violation("false report", f"{self.run_id} says not committed, and is: {unsaid}")
