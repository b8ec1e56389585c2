"""The commands that show one table: options and help texts. `zlayout.cli.app` adds them to the application."""

from __future__ import annotations

from typing import Annotated

import typer

from zlayout.cli.console import Color, Console
from zlayout.cli.options import HERE, AllOrphansOption, ColorOption, ProjectOption, TableArgument


def inspect(
    table: TableArgument,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Comma-separated columns to measure. Default: those of the layout.")
    ] = None,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="List orphans: files of the table's folder that no version refers to.")
    ] = False,
    project: ProjectOption = HERE,
    verbose: AllOrphansOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Show files, sizes and metrics of one table. Reads metadata only."""
    from zlayout.cli.inspect import inspect_command

    return inspect_command(project, table, columns, Console(color, verbose=verbose), orphans=orphans)


def history(
    table: TableArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="The number of records to show.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    project: ProjectOption = HERE,
    color: ColorOption = Color.AUTO,
) -> int:
    """Show what plan, drift and apply found and did before (`history` of zlayout.yaml). Reads no table."""
    from zlayout.cli.history import history_command

    return history_command(project, table, limit, Console(color), as_json=as_json)
