"""The commands of `zlayout workload`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from zlayout.cli import options
from zlayout.cli.console import Color, Console
from zlayout.cli.group import App

MAX_PROBLEMS = 20
workload = App(name="workload", help="Write workloads from query histories.", no_args_is_help=True)


@workload.command(name="import")
def import_(
    paths: Annotated[
        list[Path], typer.Argument(help="Query histories: event logs, JSON or CSV files.", metavar="FILE")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The .sql file. Default: workloads/imported.sql; - for stdout.")
    ] = None,
    no_values: Annotated[bool, typer.Option("--no-values", help="Leave out all constants.")] = False,
    keep_values: Annotated[bool, typer.Option("--keep-values", help="Keep all constants. Default: some.")] = False,
    bins: Annotated[
        int,
        typer.Option(
            "--bins", metavar="N", min=1, max=1000, help="The number of statements to keep of each query shape."
        ),
    ] = 10,
    days: Annotated[
        float | None,
        typer.Option(
            "--days", metavar="DAYS", min=0.001, help="The number of days that the histories cover, for the pay-back."
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite the file.")] = False,
    project: options.Project = options.HERE,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List all records that cannot be read.")] = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Write a workload from query histories.

    Reads query histories of Spark, Trino, Databricks, Snowflake, Athena and BigQuery.
    """
    from zlayout.app.import_workload import import_workload
    from zlayout.app.project import load_project
    from zlayout.errors import SpecError
    from zlayout.message_text import plural
    from zlayout.report.words import printable, without_commands
    from zlayout.spec.load import shown

    if no_values and keep_values:
        raise SpecError.of("ZL079", "--no-values and --keep-values exclude each other", hint="use one of them")
    console, found = Console(color), load_project(project)
    values = "omit" if no_values else "keep" if keep_values else "bin"
    imported = import_workload(found, paths, values, bins, days)
    for problem in imported.problems[: None if verbose else MAX_PROBLEMS]:
        console.say(printable(f"not imported: {problem.location}: {problem.reason}"), "warning")
    if (more := len(imported.problems) - MAX_PROBLEMS) > 0 and not verbose:
        console.say(f"not imported: {more:,} more records that cannot be read (-v lists them)", "warning")
    for reason, count in imported.left_out.items():
        console.say(f"left out: {count:,} {reason}")
    if out == Path("-"):
        console.result(without_commands(imported.text))
        return 0
    path = imported.write(out or found.root / "workloads" / "imported.sql", replace=replace)
    statements = plural(imported.statements, "statement")
    console.result(f"wrote {shown(path)}: {statements} for {imported.executions:,.0f} executions\n")
    return 0
