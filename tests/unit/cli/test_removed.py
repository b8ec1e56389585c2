"""Commands, options and keys of earlier versions: the error names what takes their place."""

import pytest
from support.projects import Cli

from zlayout.cli.app import REMOVED_COMMANDS, REMOVED_OPTIONS


@pytest.mark.parametrize(("command", "replacement"), REMOVED_COMMANDS.items())
def test_a_removed_command_names_its_replacement(command: str, replacement: str, cli: Cli) -> None:
    said = " ".join(cli(command, "--any", "thing", code=64).err.split())
    assert f"The command '{command}' has been removed: {replacement}." in said


@pytest.mark.parametrize(("removed", "replacement"), REMOVED_OPTIONS.items())
def test_a_removed_option_names_its_replacement(removed: tuple[str, str], replacement: str, cli: Cli) -> None:
    command, option = removed
    for given in ((option, "thing"), (f"{option}=thing",)):
        said = " ".join(cli(command, "lake.db.orders", *given, code=64).err.split())
        assert f"The option '{option}' has been removed: {replacement}." in said
