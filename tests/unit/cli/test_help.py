"""The help of every command fits a terminal of 80 columns without cutting anything off."""

from __future__ import annotations

import json
import re

import pytest
import typer.main
from support.projects import Cli

from zlayout.cli.app import app

ROOT = typer.main.get_command(app)
COMMANDS = [[]] + [[name] for name in ROOT.commands] + [["workload", "import"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nothing_is_cut_off_at_80_columns(command: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = cli(*command, "--help").out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert not re.search(r"\w\.\.\.$", shown, re.M)  # of a description that is too long for the list of commands


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
    events = [json.loads(line)["type"] for line in cli("apply", "--auto-approve", "--json").out.splitlines()]
    assert (events[0], events[-1]) == ("version", "change_summary")


def test_every_command_with_output_has_json_too() -> None:
    for name, command in ROOT.commands.items():  # type: ignore[attr-defined]
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--json" in options or "--output" not in options, name
