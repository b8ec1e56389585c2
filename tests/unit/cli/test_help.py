"""The help of every command fits a terminal of 80 columns without cutting anything off."""

from __future__ import annotations

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
