"""The classes of the program, of its group of commands and of each command, where typer's behaviour does not suit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import typer
import typer.core
from typer.models import CommandFunctionType

from zlayout.signals import signal_of

# Commands and options of earlier versions, and what takes their place.
REMOVED_COMMANDS = {"job": "copy the file of your platform from examples/jobs"}
_CLONE = "tables of Delta have no trials; plan --sample forecasts the result, and rollback undoes an apply"
_ORPHANS = "run VACUUM ... DRY RUN (Delta) or remove_orphan_files(..., dry_run => true) (Iceberg) in Spark"
REMOVED_OPTIONS = {
    ("inspect", "--orphans"): _ORPHANS,
    ("trial", "--clone"): _CLONE,
    ("drop-trial", "--clone"): _CLONE,
}
_TYPED_ARGUMENT = re.compile(r"([A-Z]+) <(str|path|list\[\w+\])>")


class Commands(typer.core.TyperGroup):
    """Names what replaces a removed command, and raises typer.Abort after a signal.

    For KeyboardInterrupt, typer would exit with 130 and print nothing.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in REMOVED_COMMANDS:
            ctx.fail(f"The command '{args[0]}' has been removed: {REMOVED_COMMANDS[args[0]]}.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BaseException as error:
            if signal_of(error) is None:
                raise
            raise typer.Abort from error


class Command(typer.core.TyperCommand):
    """Names what replaces a removed option, and lists arguments by their names alone.

    typer adds the type in Python, for example `SELECT <list[str]>`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for name in (argument.partition("=")[0] for argument in args):
            if replacement := REMOVED_OPTIONS.get((str(self.name), name)):
                ctx.fail(f"The option '{name}' has been removed: {replacement}.")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, type_ in (("Arguments", "argument"), ("Options", "option")):
            records = [p.get_help_record(ctx) for p in self.get_params(ctx) if p.param_type_name == type_]
            if rows := [(_TYPED_ARGUMENT.sub(r"\1", record[0]), record[1]) for record in records if record]:
                with formatter.section(title):
                    formatter.write_dl(rows)


class App(typer.Typer):
    """A program whose commands are of the class `Command`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        return super().command(name, cls=Command, **settings)
