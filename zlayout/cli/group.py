"""The group of all commands, which does not hide an interrupt."""

from __future__ import annotations

from typing import Any

import typer
import typer.core


class Commands(typer.core.TyperGroup):
    """Raises typer.Abort after Ctrl-C. For KeyboardInterrupt, typer would exit with 130 and print nothing."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort from error
