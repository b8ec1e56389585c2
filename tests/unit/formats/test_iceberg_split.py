"""How many commits it takes to leave out the groups in conflict, with a stand-in for the commit itself."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from zlayout.errors import CommitConflict
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.iceberg.write import commit


@pytest.mark.parametrize(
    ("conflicts", "committed", "attempts"),
    [
        ((), [[0, 1, 2, 3, 4, 5, 6, 7]], 1),
        ((5,), [[0, 1, 2, 3], [4], [6, 7]], 7),
        ((0, 7), [[1], [2, 3], [4, 5], [6]], 11),
        (range(8), [], 15),
    ],
)
def test_conflicts_are_halved(
    monkeypatch: pytest.MonkeyPatch, conflicts: Sequence[int], committed: list[list[int]], attempts: int
) -> None:
    tried: list[list[int]] = []
    looked: list[int] = []

    def commit_one(_pinned: Any, _catalog: Any, _work: Any, groups: Any, _new: Any, dead: Any) -> Commit:
        assert dead == frozenset({1})
        tried.append([g.id for g in groups])
        if set(tried[-1]) & set(conflicts):
            raise CommitConflict.of("ZL321", "taken")
        return Commit("rewrite", 1, tuple(tried[-1]))

    def dead_snapshots(*_: Any) -> frozenset[int]:
        looked.append(1)
        return frozenset({1})

    monkeypatch.setattr(commit, "_commit", commit_one)
    monkeypatch.setattr(commit, "dead_snapshots", dead_snapshots)
    work: Any = SimpleNamespace(groups=tuple(SimpleNamespace(id=i) for i in range(8)), table="ice.db.t")
    unused: Any = SimpleNamespace(jvm=None, table=None)
    done = list(commit.commit_groups(unused, unused, work, {}))
    assert [list(d.groups) for d in done if isinstance(d, Commit)] == committed
    assert sorted(g for d in done if isinstance(d, GroupFailed) for g in d.groups) == sorted(conflicts)
    assert (len(tried), len(looked)) == (attempts, 1)
