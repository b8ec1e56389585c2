"""How a rebase ends that is stopped, fails or is not begun: the product's own, with the stand-ins of the model."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from model.delta_backend import ModelDelta, StandIn
from model.java import JavaError, no_answer
from model.rebases import RowIndex
from model.worlds import Delta, Memory, Scenario, stand_ins

from zlayout.errors import CommitConflict, EngineError
from zlayout.formats.base import Commit, GroupFailed, Notice, Progress, Stage
from zlayout.formats.kernel import rebase
from zlayout.formats.kernel.rebase import MAX_REBASES

COMMITTING = [Stage.COMMITTING]
REBASE = [Stage.REBASING, Stage.COMMITTING]


class Stopped(BaseException):
    """What the handler of a signal raises."""


class Races:
    """A table of two groups, and another writer that deletes a row of group 0 right before the first commit."""

    def __init__(self) -> None:
        self.world = Delta(Scenario("delta", ()), Memory())
        self.client: ModelDelta = self.world.client()
        self.stages: list[Stage] = []
        self.stop_at: Stage | None = None
        self.before = len(self.world.table.log)

    def notify(self, progress: Progress) -> None:
        if self.stop_at == progress.stage and Stage.COMMITTING in self.stages:
            raise Stopped
        self.stages.append(progress.stage)

    def run(self, **changes: Any) -> list[Any]:
        commit = StandIn.commit
        waiting = ["delete"]

        def commit_after_it(*arguments: Any) -> int:
            while waiting:
                self.world.write(waiting.pop(), 1, "writer")
            return commit(*arguments)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(StandIn, "commit", commit_after_it)
            return list(self.client.execute(replace(self.client.plan("run-1"), **changes), self.notify))

    @property
    def commits(self) -> int:
        """The number of commits that the run has made."""
        return len(self.world.table.log) - self.before - 1


@pytest.fixture
def races() -> Iterator[Races]:
    with stand_ins():
        yield Races()


def failing(error: Callable[[], Exception]) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error()

    return fail


def missing() -> Exception:
    return JavaError("java.io.FileNotFoundException")


def stays_a_conflict(outcomes: list[Any]) -> list[str]:
    """Group 0 must be in conflict, and group 1 committed without a rebase. Return the notes."""
    (failed,), (commit,) = ([o for o in outcomes if isinstance(o, kind)] for kind in (GroupFailed, Commit))
    assert isinstance(failed.error, CommitConflict)
    assert (failed.groups, commit.groups, commit.rebased) == (("group-0",), ("group-1",), 0)
    notes = [o.diagnostic for o in outcomes if isinstance(o, Notice)]
    assert {(note.code, note.severity) for note in notes} <= {("ZL435", "note")}
    return [note.text for note in notes]


def test_a_rebase_is_a_stage_of_its_own_and_the_commit_another(races: Races) -> None:
    (commit,) = races.run()
    assert (commit.groups, commit.rebased) == (("group-0", "group-1"), 1)
    assert races.stages[-3:] == [*COMMITTING, *REBASE]


@pytest.mark.parametrize("error", [missing, lambda: MemoryError("too large"), lambda: ValueError("no such file")])
@pytest.mark.parametrize(
    "step", ["snapshot", "after", "newly_deleted", "read", "digests_of", "equal", "marked", "contents_of"]
)
def test_after_an_error_the_conflict_stays_and_the_other_groups_are_committed(
    races: Races, monkeypatch: pytest.MonkeyPatch, step: str, error: Callable[[], Exception]
) -> None:
    owner: Any = next(each for each in (rebase, RowIndex, StandIn) if hasattr(each, step))
    real = getattr(owner, step)

    def fails(*arguments: Any) -> Any:
        return (failing(error) if races.stages[-1] is Stage.REBASING else real)(*arguments)

    monkeypatch.setattr(owner, step, fails)
    notes = stays_a_conflict(races.run())
    assert notes
    assert all("was not rebased" in note and "rebasing the rewrite" in note for note in notes)


def test_an_error_after_the_gate_changes_nothing_of_what_is_known(
    races: Races, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = StandIn.replaced, list[int]()

    def second_fails(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise missing()
        return real(*arguments)

    monkeypatch.setattr(StandIn, "replaced", second_fails)
    note, first, second = races.run()
    assert isinstance(note, Notice)
    assert [(first.groups, first.rebased), (second.groups, second.rebased)] == [(("group-0",), 1), (("group-1",), 0)]
    assert len(calls) == 4


def test_a_lost_jvm_ends_the_run(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowIndex, "equal", failing(no_answer))
    with pytest.raises(EngineError, match="ZL305"):
        races.run()
    assert races.commits == 0


def test_a_failed_gate_ends_the_run(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    real = StandIn.marked
    monkeypatch.setattr(StandIn, "marked", lambda self, files, at: real(self, files, [rows + 1 for rows in at]))
    with pytest.raises(EngineError, match=r"ZL310 .* a rebase would delete other rows .*report this error"):
        races.run()
    assert races.commits == 0


@pytest.mark.parametrize("stage", REBASE)
def test_a_run_is_stopped_before_a_rebase_and_before_the_commit_after_it(races: Races, stage: Stage) -> None:
    races.stop_at = stage
    with pytest.raises(Stopped):
        races.run()
    assert races.commits == 0


def test_a_run_that_is_stopped_while_a_rebase_fails_commits_nothing_more(
    races: Races, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal cancels the Spark jobs."""

    def cancelled(*_: Any) -> Any:
        races.stop_at = Stage.COMMITTING
        raise JavaError("org.apache.spark.SparkException", message="Job 7 cancelled")

    monkeypatch.setattr(RowIndex, "equal", cancelled)
    with pytest.raises(Stopped):
        races.run()
    assert races.commits == 0


def test_no_rebase_begins_after_the_time_limit(races: Races) -> None:
    notes = stays_a_conflict(races.run(has_time=lambda: False))
    assert any("time limit" in note for note in notes)
    assert Stage.REBASING not in races.stages


def test_the_number_of_rebases_is_limited(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebase, "MAX_REBASES", 0)
    assert MAX_REBASES == 30
    notes = stays_a_conflict(races.run())
    assert any("rebased 0 times" in note for note in notes)
    assert Stage.REBASING not in races.stages


def test_a_rebase_that_fails_counts(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebase, "MAX_REBASES", 1)
    monkeypatch.setattr(rebase, "find_copies", lambda *_: None)
    stays_a_conflict(races.run())
    assert races.stages.count(Stage.REBASING) == 1


def test_tables_without_deletion_vectors_are_not_rebased(races: Races, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandIn, "writes_vectors", lambda *_: False)
    assert stays_a_conflict(races.run()) == []
    assert Stage.REBASING not in races.stages


@pytest.mark.parametrize("changed", [{"base_row_id": 77}, {"commit_version": 77}])
def test_files_with_other_row_ids_are_a_conflict(
    races: Races, monkeypatch: pytest.MonkeyPatch, changed: dict[str, int]
) -> None:
    """As if another writer had added a file again without its ids, beside a row that it deleted."""
    real = StandIn.after

    def with_other_ids(*arguments: Any) -> Any:
        found = real(*arguments)
        return type(found)([*found[:-1], replace(found[-1], **changed)])

    monkeypatch.setattr(StandIn, "after", with_other_ids)
    assert stays_a_conflict(races.run()) == []
