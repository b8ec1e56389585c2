"""The commands `simulate` and `advise`: options and help texts. `zlayout.cli.app` adds them to the application."""

from __future__ import annotations

from typing import Annotated

import typer

from zlayout.cli import options
from zlayout.cli.console import Color, Console


def simulate(
    table: options.Table,
    workload: options.Workload = None,
    columns: options.Layouts = None,
    curve: Annotated[options.Curve | None, typer.Option("--curve", help="Default: the declared curve, or kd.")] = None,
    files: options.Files = None,
    sample_rows: options.SampleRows = None,
    seed: options.Seed = 0,
    output: Annotated[options.AdviceFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: options.JsonOutput = False,
    out: options.AdviceOut = None,
    project: options.Project = options.HERE,
    verbose: options.AllQueries = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Simulate the given layouts and show their cost per query. Draws one sample on Spark; writes nothing."""
    from zlayout.app.advise import StudyOptions
    from zlayout.cli.advise import advise_command

    if not columns:
        raise typer.BadParameter("expected at least one layout to simulate, found none", param_hint="--columns")
    chosen = StudyOptions(tuple(columns), curve, files, sample_rows, seed, search=False)
    return advise_command(
        project, table, workload or (), chosen, Console(color, verbose=verbose), "json" if as_json else output, out
    )


def advise(
    table: options.Table,
    workload: options.Workload = None,
    columns: options.Layouts = None,
    curve: Annotated[
        options.Curve | None, typer.Option("--curve", help="The only curve to search. Default: all curves.")
    ] = None,
    files: options.Files = None,
    sample_rows: options.SampleRows = None,
    seed: options.Seed = 0,
    time_limit: options.TimeLimit = 60.0,
    output: Annotated[options.AdviceFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: options.JsonOutput = False,
    out: options.AdviceOut = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the recommended keys into the layout file of the table.")
    ] = False,
    project: options.Project = options.HERE,
    verbose: options.AllQueries = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Find columns, weights, curve and cuts with the lowest cost. Draws one sample on Spark; changes no table."""
    from zlayout.app.advise import StudyOptions
    from zlayout.cli.advise import advise_command

    chosen = StudyOptions(tuple(columns or ()), curve, files, sample_rows, seed, time_limit=time_limit)
    return advise_command(
        project,
        table,
        workload or (),
        chosen,
        Console(color, verbose=verbose),
        "json" if as_json else output,
        out,
        write=write,
    )
