"""`apply --max-minutes`: what is printed and reported of the tables that are left for a later run."""

import pytest
from support.projects import Cli, Scripted

import zlayout
from zlayout.formats.base import RunCost, RunMetrics


def test_no_time_starts_nothing_and_says_what_is_left(memory: Scripted, cli: Cli) -> None:
    memory.breaks = AssertionError("not to be begun")
    done = cli("apply", "--auto-approve", "--max-minutes", "0")
    assert done.out.splitlines()[-3:] == [
        "1 table (7.49 KiB) left for a later run by the time limit",
        "",
        "Applied: 1 as far as the time limit allows. Wrote 0 B.",
    ]
    events = cli("apply", "--auto-approve", "--max-minutes", "0", "--output", "json").out
    assert "apply_start" not in events
    assert '"outcomes": {"out_of_time": 1}, "exit_code": 0' in events
    memory.breaks = None
    assert "as declared; 1 commit" in cli("apply", "--auto-approve", "--max-minutes", "60").out


@pytest.mark.usefixtures("memory")
def test_a_report_states_the_outcome(cli: Cli) -> None:
    assert (
        "1 as far as the time limit allows"
        in cli("apply", "--auto-approve", "--max-minutes", "0", "--report", "text=-").out
    )


def test_the_rate_of_the_last_run_is_read_from_the_table(
    memory: Scripted, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte a second: 7.49 KiB take longer than an hour, and not as long as three."""
    run = RunMetrics("r", 1, (), RunCost(60, 60.0))
    monkeypatch.setattr(memory, "last_run", lambda *_: run)
    assert "left for a later run" in cli("apply", "--auto-approve", "--max-minutes", "60").out
    assert "1 commit" in cli("apply", "--auto-approve", "--max-minutes", "180").out


@pytest.mark.usefixtures("memory")
def test_programs_give_the_same_limit() -> None:
    report = zlayout.apply(zlayout.plan(zlayout.load_project(".")), max_minutes=0)
    assert report.results["lake.db.orders"].outcome == "out_of_time"
    assert report.failed == {}
