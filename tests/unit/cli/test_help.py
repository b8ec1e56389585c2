"""The help of every command fits a terminal of 80 columns without cutting anything off."""

import json
import re
from pathlib import Path

import pytest
import typer.main
from support.projects import Cli

from zlayout.cli.app import app

REPORTS = Path(__file__).parents[3] / "docs/reports.md"
ROOT = typer.main.get_command(app)
COMMANDS = [[]] + [[name] for name in ROOT.commands] + [["workload", "import"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nothing_is_cut_off_at_80_columns(command: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli(*command, "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert not re.search(r"\w\.\.\.$", shown, re.M)  # of a description that is too long for the list of commands


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_arguments_have_no_python_types(command: list[str], cli: Cli) -> None:
    assert not re.search(r"^  [A-Z]+ +<(str|path|list)", cli(*command, "--help").out, re.M)


def test_options_are_named_in_full_and_what_they_accept_in_words(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli("apply", "--help").out
    for option in ("--max-rewrite-bytes SIZE", "--allow-full-rewrite", "--concurrent-tables N", "--exclude SELECT"):
        assert f"  {option}" in shown
    assert not re.search(r"--\S+ <(str|int|float|list)", shown)


@pytest.mark.usefixtures("memory")
def test_json_is_short_for_output_json(cli: Cli) -> None:
    assert json.loads(cli("plan", "--out", "plan.json", "--json").out)["has_changes"]
    assert json.loads(cli("show", "plan.json", "--json").out)["has_changes"]
    drift = cli("drift", "--json", code=2)
    assert [table["status"] for table in json.loads(drift.out)["tables"]] == ["changes"]
    assert "To plan" not in drift.err
    events = [json.loads(line)["type"] for line in cli("apply", "--auto-approve", "--json").out.splitlines()]
    assert (events[0], events[-1]) == ("version", "change_summary")


@pytest.mark.usefixtures("root")
def test_inspect_prints_json_with_the_keys_that_the_page_lists(cli: Cli) -> None:
    shown = cli("inspect", "lake.db.orders", "--json")
    found = json.loads(shown.out)
    assert (found["table"], found["version"], found["files"], found["rows"]) == ("lake.db.orders", 1, 2, 200)
    assert [(c["column"], c["touched"], c["floor"]) for c in found["columns"]] == [("a", 2, None)]
    assert (found["layouts"], found["files_not_laid_out"]) == ([], 2)
    assert "  rows            200" in shown.err
    section = REPORTS.read_text().partition("## JSON of inspect")[2].partition("\n## ")[0]
    names = re.findall(r"^\| (`.*?) \|", section, re.M)
    assert {key for each in names for key in re.findall(r"`(\w+)`", each)} == set(found)


def test_every_command_with_output_has_json_too() -> None:
    for name, command in ROOT.commands.items():  # type: ignore[attr-defined]
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options or "--output" not in options, name
