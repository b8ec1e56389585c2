"""How many commits it takes to leave out the groups in conflict, with a stand-in for the commit itself."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from zlayout.errors import CommitConflict, CommitUnknown
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.kernel.commits import BusyTable, Rewritten, commit_apart

EIGHT: list[Any] = [Rewritten(SimpleNamespace(id=number), ()) for number in range(8)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("conflicts", "committed", "attempts"),
    [
        ((), [[0, 1, 2, 3, 4, 5, 6, 7]], 1),
        ((5,), [[0, 1, 2, 3], [4], [6, 7]], 7),
        ((0, 7), [[1], [2, 3], [4, 5], [6]], 11),
        (range(8), [], 15),
    ],
)
def test_conflicts_are_halved(conflicts: Sequence[int], committed: list[list[int]], attempts: int) -> None:
    tried: list[list[int]] = []

    def commit(some: Sequence[Any]) -> Commit:
        tried.append([each.group.id for each in some])
        if set(tried[-1]) & set(conflicts):
            raise CommitConflict.of("ZL321", "taken")
        return Commit("rewrite", 1, tuple(tried[-1]))  # type: ignore[arg-type]

    done = list(commit_apart(EIGHT, commit))
    assert [list(d.groups) for d in done if isinstance(d, Commit)] == committed
    assert sorted(g for d in done if isinstance(d, GroupFailed) for g in d.groups) == sorted(conflicts)
    assert len(tried) == attempts
    alone = [groups[0] for groups in tried if len(groups) == 1]
    assert alone == sorted(alone)


def test_groups_that_lose_a_race_with_other_commits_are_not_halved() -> None:
    def commit(_some: Sequence[Any]) -> Commit:
        raise BusyTable(*CommitConflict.of("ZL321", "others commit").diagnostics)

    (failed,) = commit_apart(EIGHT, commit)
    assert isinstance(failed, GroupFailed)
    assert list(failed.groups) == list(range(8))


def test_an_unknown_outcome_ends_all() -> None:
    def commit(some: Sequence[Any]) -> Commit:
        raise CommitConflict.of("ZL321", "taken") if len(some) == 8 else CommitUnknown.of("ZL331", "no answer")

    with pytest.raises(CommitUnknown):
        list(commit_apart(EIGHT, commit))
