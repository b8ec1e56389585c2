"""The Typer application: options and help. What the commands do is in the modules beside this one.

Those are imported inside the commands, so that `--help` and `validate` stay fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import zlayout
from zlayout.cli.console import Color, Console
from zlayout.cli.options import (
    HERE,
    AdviceFormat,
    AdviceOutOption,
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
    Stale,
    TableArgument,
    VerboseOption,
    Verify,
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
    folder: Annotated[Path, typer.Argument(help="Where to write; made if it does not exist.")] = HERE,
    format: Annotated[str, typer.Option("--format", help="delta or iceberg.")] = "",
    table: Annotated[str, typer.Option("--table", help="The first table: catalog.namespace.table.")] = "",
    columns: Annotated[str, typer.Option("--columns", help="Its z-order columns, comma-separated.")] = "",
    warehouse: Annotated[str, typer.Option("--warehouse", help="Where the tables are.")] = "",
    uri: Annotated[str, typer.Option("--uri", help="The Iceberg catalog: sqlite:///file or https://...")] = "",
    workflows: Annotated[bool, typer.Option(help="Write the workflows for GitHub Actions.")] = True,
    no_input: Annotated[bool, typer.Option("--no-input", help="Ask nothing, also on a terminal.")] = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Write zlayout.yaml, a first layout, schemas for editors and CI workflows. Asks for what no option says."""
    from zlayout.cli.init import InitRequest, init_command

    console = Console(color)
    given = {"format": format, "table": table, "columns": columns, "warehouse": warehouse, "uri": uri}
    return init_command(folder, InitRequest(given, workflows, ask=console.interactive and not no_input), console)


@app.command(name="import")
def import_(
    table: Annotated[str, typer.Argument(help="catalog.namespace.table; it must not have a layout yet.")],
    columns: Annotated[
        str | None, typer.Option("--columns", help="Comma-separated z-order columns; default: what the table says.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write; - for stdout.")] = None,
    project: ProjectOption = HERE,
    color: ColorOption = Color.AUTO,
) -> int:
    """Write a layout of a live table as it is. Reads metadata only; never overwrites."""
    from zlayout.cli.import_table import import_command

    return import_command(project, table, columns, out, Console(color))


@app.command()
def validate(
    paths: Annotated[list[Path] | None, typer.Argument(help="Layout files or folders. Default: the project.")] = None,
    project: ProjectOption = HERE,
    color: ColorOption = Color.AUTO,
) -> int:
    """Check zlayout.yaml and the layouts: YAML, schema, meaning. Reads no table."""
    from zlayout.cli.validate import validate_project

    return validate_project(project, paths or [], Console(color))


@app.command()
def plan(
    select: SelectArgument = None,
    exclude: ExcludeOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the plan file, for apply and show.")] = None,
    output: Annotated[PlanFormat, typer.Option("--output", help="What to print.")] = PlanFormat.TEXT,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="Exit with 2 when there are changes.")
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
    """Say how far the tables are from their layouts, and what apply would do. Reads metadata only."""
    from zlayout.cli.plan import plan_command, plan_request
    from zlayout.cli.reports import parse_reports

    reports = parse_reports(report or (), show_values)
    request = plan_request(project, select, exclude, allow_full_rewrite, parallelism, max_rewrite_bytes)
    return plan_command(request, Console(color, verbose=verbose), out, output.value, detailed_exitcode, reports)


@app.command()
def apply(
    select: SelectArgument = None,
    exclude: ExcludeOption = None,
    auto_approve: Annotated[bool, typer.Option("--auto-approve", help="Do not ask.")] = False,
    stale: Annotated[
        Stale, typer.Option("--stale", help="For a plan file: are appends since the plan fine?")
    ] = Stale.COMPATIBLE,
    verify: Annotated[Verify, typer.Option("--verify", help="full: read written files back.")] = Verify.GATE,
    output: Annotated[
        PlanFormat, typer.Option("--output", help="json: events on stdout, one a line, as they happen.")
    ] = PlanFormat.TEXT,
    allow_full_rewrite: FullRewriteOption = False,
    max_rewrite_bytes: BudgetOption = None,
    report: ReportOption = None,
    show_values: ShowValuesOption = False,
    parallelism: ParallelismOption = 8,
    project: ProjectOption = HERE,
    verbose: VerboseOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Plan, ask, and rewrite on Spark. SELECT may be one plan file that `plan --out` wrote."""
    from zlayout.cli.apply import apply_command
    from zlayout.cli.plan import plan_request
    from zlayout.cli.reports import parse_reports

    reports = parse_reports(report or (), show_values)
    request = plan_request(project, select, exclude, allow_full_rewrite, parallelism, max_rewrite_bytes)
    console = Console(color, verbose=verbose)
    return apply_command(request, console, auto_approve, stale.value, verify.value, reports, output.value)


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
    """For CI: exit with 2 when a table has drifted or decayed past its tolerance, 1 on errors. Reads metadata only."""
    from zlayout.cli.drift import drift_command
    from zlayout.cli.plan import plan_request
    from zlayout.cli.reports import parse_reports

    reports = parse_reports(report or (), show_values)
    # A change of partitioning is told as such, not refused for what only apply may be asked.
    request = plan_request(project, select, exclude, True, parallelism)
    return drift_command(request, Console(color, verbose=verbose), reports)


@app.command()
def show(
    planfile: Annotated[Path, typer.Argument(help="A plan file.")],
    output: Annotated[PlanFormat, typer.Option("--output", help="What to print.")] = PlanFormat.TEXT,
    report: ReportOption = None,
    show_values: ShowValuesOption = False,
    verbose: VerboseOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Show a plan file again, offline."""
    from zlayout.cli.plan import show_command
    from zlayout.cli.reports import parse_reports

    reports = parse_reports(report or (), show_values)
    return show_command(planfile, output.value, Console(color, verbose=verbose), reports)


@app.command()
def inspect(
    table: TableArgument,
    columns: Annotated[
        str | None, typer.Option("--columns", help="Comma-separated columns; default: the layout's.")
    ] = None,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="List files in the table's folder that no version of it names.")
    ] = False,
    project: ProjectOption = HERE,
    verbose: VerboseOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Facts of one table's layout: files, sizes, touched, depth and floor for each column."""
    from zlayout.cli.inspect import inspect_command

    return inspect_command(project, table, columns, Console(color, verbose=verbose), orphans=orphans)


@app.command()
def simulate(
    table: TableArgument,
    workload: WorkloadOption,
    columns: LayoutsOption = None,
    curve: Annotated[Curve | None, typer.Option("--curve", help="Default: the layout's, else kd.")] = None,
    files: FilesOption = None,
    sample_rows: SampleRowsOption = None,
    seed: SeedOption = 0,
    output: Annotated[AdviceFormat, typer.Option("--output", help="What to print.")] = AdviceFormat.TEXT,
    out: AdviceOutOption = None,
    project: ProjectOption = HERE,
    verbose: AllQueriesOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """What given layouts would do for a workload's queries. Draws one sample on Spark; writes nothing."""
    from zlayout.cli.advise import AdviseRequest, advise_command

    if not columns:
        raise typer.BadParameter("name at least one layout to simulate", param_hint="--columns")
    request = AdviseRequest(
        project, table, tuple(workload), tuple(columns), False, curve and curve.value, files, sample_rows, seed
    )
    return advise_command(request, Console(color, verbose=verbose), output.value, out)


@app.command()
def advise(
    table: TableArgument,
    workload: WorkloadOption,
    columns: LayoutsOption = None,
    curve: Annotated[Curve | None, typer.Option("--curve", help="Search this curve only.")] = None,
    files: FilesOption = None,
    sample_rows: SampleRowsOption = None,
    seed: SeedOption = 0,
    time_limit: Annotated[float, typer.Option("--time-limit", min=0, help="Seconds to search and measure.")] = 60.0,
    output: Annotated[AdviceFormat, typer.Option("--output", help="What to print.")] = AdviceFormat.TEXT,
    out: AdviceOutOption = None,
    project: ProjectOption = HERE,
    verbose: AllQueriesOption = False,
    color: ColorOption = Color.AUTO,
) -> int:
    """Which columns, weights and curve serve a workload best, and which queries get slower. Writes nothing."""
    from zlayout.cli.advise import AdviseRequest, advise_command

    given, only = tuple(columns or ()), curve and curve.value
    request = AdviseRequest(project, table, tuple(workload), given, True, only, files, sample_rows, seed, time_limit)
    return advise_command(request, Console(color, verbose=verbose), output.value, out)


@app.command()
def schema(
    name: Annotated[SchemaName, typer.Argument(help="Which schema.")] = SchemaName.LAYOUT,
) -> int:
    """Print a JSON Schema, for editors and other tools."""
    from zlayout.spec.schema import schema_text

    Console().result(schema_text(name.value))
    return 0
