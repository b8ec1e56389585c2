"""`apply` inside and outside of the maintenance windows of the project."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.projects import Cli, Scripted

import zlayout


def declare(start: timedelta, end: timedelta) -> None:
    """Add the window from now + `start` to now + `end`, on every day."""
    now = datetime.now(UTC)
    window = f"{now + start:%H:%M}-{now + end:%H:%M}"
    with Path("zlayout.yaml").open("a") as file:
        file.write(f'maintenance: {{windows: ["{window}"]}}\n')


def test_outside_of_the_window_nothing_is_begun(memory: Scripted, cli: Cli) -> None:
    declare(timedelta(hours=2), timedelta(hours=3))
    memory.breaks = AssertionError("not to be begun")
    done = cli("apply", "--auto-approve")
    assert "Outside of the maintenance windows. The next one begins at " in done.out + done.err
    assert "\n1 table (7.49 KiB) left for a later run by the time limit\n\nApplied: " in done.out
    assert zlayout.apply(zlayout.plan(zlayout.load_project("."))).results["lake.db.orders"].outcome == "out_of_time"
    memory.breaks = None
    assert "as declared; 1 commit" in cli("apply", "--auto-approve", "--ignore-window").out


@pytest.mark.usefixtures("memory")
def test_inside_of_the_window_tables_are_rewritten(cli: Cli) -> None:
    declare(timedelta(hours=-1), timedelta(hours=2))
    assert "as declared; 1 commit" in cli("apply", "--auto-approve").out


@pytest.mark.usefixtures("memory")
def test_programs_can_ignore_the_window() -> None:
    declare(timedelta(hours=2), timedelta(hours=3))
    report = zlayout.apply(zlayout.plan(zlayout.load_project(".")), ignore_window=True)
    assert report.results["lake.db.orders"].outcome == "as_declared"


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ('windows: ["22-5"]', "ZL053 expected days and times, found '22-5'"),
        ('windows: ["22:00-05:00"], timezone: Berlin', "ZL053 expected the IANA name of a time zone, found 'Berlin'"),
        ("windows: []", "maintenance.windows"),
        ("timezone: UTC", "ZL011 key 'windows' is missing"),
        ("avoid_hot: an hour", "expected a duration such as 30m, 1h or 2d"),
    ],
)
def test_a_wrong_declaration_is_an_error_with_its_place(cli: Cli, entry: str, text: str) -> None:
    with Path("zlayout.yaml").open("a") as file:
        file.write(f"maintenance: {{{entry}}}\n")
    done = cli("validate", code=1)
    assert text in done.out + done.err
    assert "zlayout.yaml:" in done.out + done.err
