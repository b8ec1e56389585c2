"""The classes of the program, of its group of commands and of each command, where typer's behaviour does not suit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import typer
import typer.core
from typer.models import CommandFunctionType

from zlayout.signals import signal_of

_TYPED_ARGUMENT = re.compile(r"([A-Z]+) <(str|path|list\[\w+\])>")


class Commands(typer.core.TyperGroup):
    """Raises typer.Abort after a signal. For KeyboardInterrupt, typer would exit with 130 and print nothing."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BaseException as error:
            if signal_of(error) is None:
                raise
            raise typer.Abort from error


class Command(typer.core.TyperCommand):
    """Lists arguments by their names alone. typer adds the type in Python, for example `SELECT <list[str]>`."""

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
