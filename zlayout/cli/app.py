"""The Typer application: the options of all commands and their help.

The modules that carry them out are imported inside the commands, so that `--help` and `validate` stay fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import zlayout
from zlayout.cli.console import Color, Console
from zlayout.cli.options import (
    HERE,
    AdviceFormat,
    AdviceOutOption,
    AllOrphansOption,
    AllQueriesOption,
    BudgetOption,
    ColorOption,
    Curve,
    ExcludeOption,
    FilesOption,
    FullRewriteOption,
    LayoutsOption,
    ParallelismOption,
    PlanFormat,
    ProjectOption,
    ReportOption,
    SampleRowsOption,
    SchemaName,
    SeedOption,
    SelectArgument,
    ShowValuesOption,
    TableArgument,
    VerboseOption,
    WorkloadOption,
)

app = typer.Typer(
    name="zlayout",
    help="Terraform for table layout: declare how Delta Lake and Apache Iceberg tables are laid out.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        Console().result(f"zlayout {zlayout.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where to write; created if missing.", metavar="FOLDER")] = HERE,
    format: Annotated[str, typer.Option("--format", help="delta or iceberg.")] = "",
    table: Annotated[str, typer.Option("--table", help="The first table: catalog.namespace.table.")] = "",
    columns: Annotated[str, typer.Option("--columns", help="Its z-order columns, comma-separated.")] = "",
    warehouse: Annotated[str, typer.Option("--warehouse", help="The folder or URL below which the tables are.")] = "",
    uri: Annotated[str, typer.Option("--uri", help="The Iceberg catalog: sqlite:///file or https://...")] = "",
    workflows: Annotated[bool, typer.Option(help="Write the workflows for GitHub Actions.")] = True,
    no_input: Annotated[bool, typer.Option("--no-input", help="Do not ask, even on a terminal.")] = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Write zlayout.yaml, a first layout, schemas for editors and CI workflows. Asks for what no option gives."""
    from zlayout.cli.init import init_command

    console = Console(color)
    given = {"format": format, "table": table, "columns": columns, "warehouse": warehouse, "uri": uri}
    return init_command(folder, given, workflows, console.interactive and not no_input, console)


@app.command(name="import")
def import_(
    table: Annotated[str, typer.Argument(help="catalog.namespace.table, without a layout.", metavar="TABLE")],
    columns: Annotated[
        str | None, typer.Option("--columns", help="Comma-separated z-order columns. Default: the order of the table.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write; - for stdout.")] = None,
    project: ProjectOption = HERE,
    color: ColorOption = Color.AUTO,
) -> int:
    """Write a layout that describes an existing table. Reads metadata only; never overwrites a file."""
    from zlayout.cli.import_ import import_command

    return import_command(project, table, columns, out, Console(color))


@app.command(name="validate")
def validate_(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Layout files or folders. Default: all.", metavar="PATH")
    ] = None,
    project: ProjectOption = HERE,
    color: ColorOption = Color.AUTO,
) -> int:
    """Check zlayout.yaml and the layouts: YAML, schema, semantics. Reads no table."""
    from zlayout.app.validate import validate
    from zlayout.report.words import plural

    Console(color).result(f"{plural(len(validate(project, paths or ())), 'layout')} valid\n")
    return 0


@app.command()
def plan(
    select: SelectArgument = None,
    exclude: ExcludeOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a plan file for apply and show.")] = None,
    output: Annotated[PlanFormat, typer.Option("--output", help="What to print.")] = "text",
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 if there are changes.")
    ] = False,
    allow_full_rewrite: FullRewriteOption = False,
    max_rewrite_bytes: BudgetOption = None,
    report: ReportOption = None,
    show_values: ShowValuesOption = False,
    parallelism: ParallelismOption = 8,
    project: ProjectOption = HERE,
    verbose: VerboseOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Show how the tables differ from their layouts, and what apply would do. Reads metadata only."""
    from zlayout.cli.plan import PlanRequest, parse_budget, plan_command
    from zlayout.cli.reports import parse_reports

    reports, budget = parse_reports(report or (), show_values), parse_budget(max_rewrite_bytes)
    request = PlanRequest(project, select or (), exclude or (), parallelism, allow_full_rewrite, budget)
    return plan_command(request, Console(color, verbose=verbose), out, output, detailed_exitcode, reports)


@app.command()
def apply(
    select: SelectArgument = None,
    exclude: ExcludeOption = None,
    auto_approve: Annotated[bool, typer.Option("--auto-approve", help="Do not ask.")] = False,
    stale: Annotated[
        Literal["compatible", "strict"],
        typer.Option("--stale", help="For a plan file: compatible accepts appends since the plan, strict does not."),
    ] = "compatible",
    verify: Annotated[
        Literal["gate", "full"], typer.Option("--verify", help="full: also read the new files back.")
    ] = "gate",
    output: Annotated[
        PlanFormat, typer.Option("--output", help="json: events on stdout, one per line, as they happen.")
    ] = "text",
    allow_full_rewrite: FullRewriteOption = False,
    max_rewrite_bytes: BudgetOption = None,
    report: ReportOption = None,
    show_values: ShowValuesOption = False,
    parallelism: ParallelismOption = 8,
    project: ProjectOption = HERE,
    verbose: VerboseOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Plan, ask for approval, and rewrite on Spark. SELECT may be one plan file written by `plan --out`."""
    from zlayout.cli.apply import apply_command
    from zlayout.cli.plan import PlanRequest, parse_budget
    from zlayout.cli.reports import parse_reports

    reports, budget = parse_reports(report or (), show_values), parse_budget(max_rewrite_bytes)
    request = PlanRequest(project, select or (), exclude or (), parallelism, allow_full_rewrite, budget)
    console = Console(color, verbose=verbose)
    return apply_command(request, console, auto_approve, stale, verify, reports, output)


@app.command()
def drift(
    select: SelectArgument = None,
    exclude: ExcludeOption = None,
    report: ReportOption = None,
    show_values: ShowValuesOption = False,
    parallelism: ParallelismOption = 8,
    project: ProjectOption = HERE,
    verbose: VerboseOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """For CI: exit with 2 if a table has drifted or decayed above its tolerance, 1 on errors. Reads metadata only."""
    from zlayout.cli.plan import PlanRequest, drift_command
    from zlayout.cli.reports import parse_reports

    reports = parse_reports(report or (), show_values)
    request = PlanRequest(project, select or (), exclude or (), parallelism)
    return drift_command(request, Console(color, verbose=verbose), reports)


@app.command()
def show(
    planfile: Annotated[Path, typer.Argument(help="A plan file.", metavar="PLANFILE")],
    output: Annotated[PlanFormat, typer.Option("--output", help="What to print.")] = "text",
    report: ReportOption = None,
    show_values: ShowValuesOption = False,
    verbose: VerboseOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Show a plan file. Reads no table."""
    from zlayout.cli.plan import show_command
    from zlayout.cli.reports import parse_reports

    reports = parse_reports(report or (), show_values)
    return show_command(planfile, output, Console(color, verbose=verbose), reports)


@app.command()
def inspect(
    table: TableArgument,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Comma-separated columns. Default: those of the layout.")
    ] = None,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="List files in the table's folder that no version refers to.")
    ] = False,
    project: ProjectOption = HERE,
    verbose: AllOrphansOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Show the layout of one table: files, sizes, and touched, depth and floor of each column."""
    from zlayout.cli.inspect import inspect_command

    return inspect_command(project, table, columns, Console(color, verbose=verbose), orphans=orphans)


@app.command()
def simulate(
    table: TableArgument,
    workload: WorkloadOption,
    columns: LayoutsOption = None,
    curve: Annotated[Curve | None, typer.Option("--curve", help="Default: that of the layout, else kd.")] = None,
    files: FilesOption = None,
    sample_rows: SampleRowsOption = None,
    seed: SeedOption = 0,
    output: Annotated[AdviceFormat, typer.Option("--output", help="What to print.")] = "text",
    out: AdviceOutOption = None,
    project: ProjectOption = HERE,
    verbose: AllQueriesOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Show what layouts would do for the queries of a workload. Draws one sample on Spark; writes nothing."""
    from zlayout.app.advise import StudyOptions
    from zlayout.cli.advise import advise_command

    if not columns:
        raise typer.BadParameter("name at least one layout to simulate", param_hint="--columns")
    options = StudyOptions(tuple(columns), curve, files, sample_rows, seed, search=False)
    return advise_command(project, table, workload, options, Console(color, verbose=verbose), output, out)


@app.command()
def advise(
    table: TableArgument,
    workload: WorkloadOption,
    columns: LayoutsOption = None,
    curve: Annotated[Curve | None, typer.Option("--curve", help="Search only this curve.")] = None,
    files: FilesOption = None,
    sample_rows: SampleRowsOption = None,
    seed: SeedOption = 0,
    time_limit: Annotated[float, typer.Option("--time-limit", min=0, help="Seconds to search and to measure.")] = 60.0,
    output: Annotated[AdviceFormat, typer.Option("--output", help="What to print.")] = "text",
    out: AdviceOutOption = None,
    project: ProjectOption = HERE,
    verbose: AllQueriesOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Find the columns, weights and curve that serve a workload best, and which queries get slower. Writes nothing."""
    from zlayout.app.advise import StudyOptions
    from zlayout.cli.advise import advise_command

    options = StudyOptions(tuple(columns or ()), curve, files, sample_rows, seed, time_limit=time_limit)
    return advise_command(project, table, workload, options, Console(color, verbose=verbose), output, out)


@app.command()
def schema(
    name: Annotated[SchemaName, typer.Argument(help="Which schema.")] = "layout",
) -> int:
    """Print a JSON Schema, for editors and other tools."""
    from zlayout.spec.schema import schema_text

    Console().result(schema_text(name))
    return 0
