"""What apply says of how the work is done."""

from collections.abc import Iterator

import pytest
from support.builders import make_layout, make_spec

from zlayout.cli.apply import Lines
from zlayout.cli.console import Console
from zlayout.cli.terminal import describe
from zlayout.errors import Diagnostic, Location
from zlayout.formats.base import Commit, Event, Notice
from zlayout.planner.model import Status, TablePlan
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.report.words import result_text
from zlayout.session.apply import apply_table
from zlayout.session.results import new_run, result_of

NOTICE = Notice(Diagnostic("ZL407", "engine native does it\x1b[2J", "warning", "take Spark 4.1.4"))


def test_a_notice_is_a_warning_on_stderr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    Lines(Console()).happened("lake.db.t", NOTICE)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    assert err.startswith("warning: ZL407 engine native does it")
    assert "\x1b" not in describe(NOTICE)


def test_a_commit_and_its_result_state_the_rebased_rows() -> None:
    plan = TablePlan("lake.db.t", "delta", Location("t.yaml"), Status.UNCHANGED)
    applied = new_run(PlannedTable(make_spec(make_layout("a")), None, plan))
    applied.commits = [
        Commit("rewrite", 7, ("g0",), 2, 1, rows=60, rebased=3),
        Commit("rewrite", 8, rows=1000),
        Commit("rewrite", 9, rows=136, rebased=1),
    ]
    assert describe(applied.commits[0]) == "commit 7: 2 -> 1 files, 0 B, 3 rows rebased"
    assert describe(applied.commits[1]) == "commit 8: 0 -> 0 files, 0 B"
    result = result_of(applied)
    assert (result.rebased_rows, result.rebased_commits) == (4, 2)
    assert ", 4 rows rebased in 2 commits (readers skip 2.0% of the new rows); run " in result_text(result)


def test_a_notice_is_kept_and_announced_once_though_the_work_is_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Backend:
        def execute(self, work: object, notify: object) -> Iterator[Event]:  # noqa: ARG002
            yield NOTICE
            yield Commit("rewrite", 1)
            yield NOTICE

    plan = TablePlan("lake.db.t", "delta", Location("t.yaml"), Status.UNCHANGED)
    planned = PlannedTable(make_spec(make_layout("a")), None, plan)
    monkeypatch.setattr("zlayout.session.apply.plan_table_in_time", lambda *_: planned)
    announced: list[Event] = []
    applied = new_run(planned)
    apply_table(
        planned,
        Backend(),  # type: ignore[arg-type]
        PlanOptions(),
        applied,
        lambda _: None,
        lambda _, outcome: announced.append(outcome),
    )
    assert applied.notices == [NOTICE]
    assert announced == [NOTICE, Commit("rewrite", 1)]
