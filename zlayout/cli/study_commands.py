"""The commands `simulate` and `advise`: options and help texts. `zlayout.cli.app` adds them to the application."""

from __future__ import annotations

from typing import Annotated

import typer

from zlayout.cli.console import Color, Console
from zlayout.cli.options import (
    HERE,
    AdviceFormat,
    AdviceOutOption,
    AllQueriesOption,
    ColorOption,
    Curve,
    FilesOption,
    LayoutsOption,
    ProjectOption,
    SampleRowsOption,
    SeedOption,
    TableArgument,
    TimeLimitOption,
    WorkloadOption,
)


def simulate(
    table: TableArgument,
    workload: WorkloadOption = None,
    columns: LayoutsOption = None,
    curve: Annotated[Curve | None, typer.Option("--curve", help="Default: the declared curve, or kd.")] = None,
    files: FilesOption = None,
    sample_rows: SampleRowsOption = None,
    seed: SeedOption = 0,
    output: Annotated[AdviceFormat, typer.Option("--output", help="What to print.")] = "text",
    out: AdviceOutOption = None,
    project: ProjectOption = HERE,
    verbose: AllQueriesOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Simulate the given layouts and show their cost per query. Draws one sample on Spark; writes nothing."""
    from zlayout.app.advise import StudyOptions
    from zlayout.cli.advise import advise_command

    if not columns:
        raise typer.BadParameter("expected at least one layout to simulate, found none", param_hint="--columns")
    options = StudyOptions(tuple(columns), curve, files, sample_rows, seed, search=False)
    return advise_command(project, table, workload or (), options, Console(color, verbose=verbose), output, out)


def advise(
    table: TableArgument,
    workload: WorkloadOption = None,
    columns: LayoutsOption = None,
    curve: Annotated[
        Curve | None, typer.Option("--curve", help="The only curve to search. Default: all curves.")
    ] = None,
    files: FilesOption = None,
    sample_rows: SampleRowsOption = None,
    seed: SeedOption = 0,
    time_limit: TimeLimitOption = 60.0,
    output: Annotated[AdviceFormat, typer.Option("--output", help="What to print.")] = "text",
    out: AdviceOutOption = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the recommended keys into the layout file of the table.")
    ] = False,
    project: ProjectOption = HERE,
    verbose: AllQueriesOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Find the columns, weights, curve and cuts with the lowest cost. Draws one sample on Spark; changes no table."""
    from zlayout.app.advise import StudyOptions
    from zlayout.cli.advise import advise_command

    options = StudyOptions(tuple(columns or ()), curve, files, sample_rows, seed, time_limit=time_limit)
    return advise_command(
        project, table, workload or (), options, Console(color, verbose=verbose), output, out, write=write
    )
