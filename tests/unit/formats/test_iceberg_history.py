"""What a run finds of itself when it works in several attempts under one run id."""

from types import SimpleNamespace
from typing import Any

import pytest
from support.builders import make_file_table, make_group

from zlayout.errors import CommitUnknown
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.iceberg.read import history
from zlayout.formats.iceberg.read.manifests import Change
from zlayout.formats.iceberg.write import native

GROUP = make_group("g", make_file_table([1] * 4, path=["f1", "f2", "f3", "f4"]), 1)


def snapshot(number: int, run: str) -> Any:
    return SimpleNamespace(
        snapshot_id=number,
        parent_snapshot_id=number - 1,
        sequence_number=number,
        summary=SimpleNamespace(additional_properties={"zlayout.run": run}),
    )


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A table with snapshot 1 of run r and 2 of another; its manifests say that each removed file `f<id>`."""
    table = SimpleNamespace(metadata=SimpleNamespace(snapshots=[snapshot(1, "r"), snapshot(2, "other")]), io=None)
    monkeypatch.setattr(history, "load_table", lambda *_: table)
    monkeypatch.setattr(history, "manifests_of", lambda *_: [])
    monkeypatch.setattr(
        history, "read_change", lambda _m, _i, number: Change(frozenset({f"f{number}"}), frozenset(), 1, 0, 0)
    )
    return table


def attempt(monkeypatch: pytest.MonkeyPatch, table: Any, commits: int | None) -> list[Commit | GroupFailed]:
    """One attempt whose action makes a commit of this id, then loses its JVM."""

    def action(*_: Any) -> Any:
        if commits is not None:
            table.metadata.snapshots.append(snapshot(commits, "r"))
        raise ConnectionResetError("gone")

    monkeypatch.setattr(native, "action", action)
    monkeypatch.setattr(native, "record", lambda *_: iter(()))
    work: Any = SimpleNamespace(
        table="ice.db.t", run_id="r", groups=(GROUP,), layout=SimpleNamespace(curve="zorder", orders=True)
    )
    unused: Any = None
    return list(native.rewrite(unused, unused, work, lambda _: None, unused, unused))


def test_commits_of_an_earlier_attempt_are_not_counted_again(monkeypatch: pytest.MonkeyPatch, table: Any) -> None:
    assert [c.version for c in attempt(monkeypatch, table, 3) if isinstance(c, Commit)] == [3]
    assert [c.version for c in attempt(monkeypatch, table, 4) if isinstance(c, Commit)] == [4]


def test_commits_of_an_earlier_attempt_do_not_settle_this_one(monkeypatch: pytest.MonkeyPatch, table: Any) -> None:
    with pytest.raises(CommitUnknown, match="run r"):
        attempt(monkeypatch, table, None)


def test_a_property_names_the_run_of_rewrites_only() -> None:
    """Whoever may alter the table can write it, and a rollback of a delete would bring rows back."""

    def made(number: int, operation: str, **summary: str) -> Any:
        kind = SimpleNamespace(operation=SimpleNamespace(value=operation), additional_properties=summary)
        return SimpleNamespace(snapshot_id=number, summary=kind)

    snapshots = [
        made(1, "replace"),
        made(2, "delete"),
        made(3, "overwrite"),
        made(4, "replace", **{"zlayout.run": "own"}),
        SimpleNamespace(snapshot_id=5, summary=None),
    ]
    metadata: Any = SimpleNamespace(snapshots=snapshots, properties={"zlayout.runs": '{"by sql":[1,2,3,4,5,6]}'})
    assert history._run_ids(metadata) == {1: "by sql", 4: "own"}
