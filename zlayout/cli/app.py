"""The Typer application: all commands with their options and help texts.

The modules that carry out a command are imported inside it, so that `--help` and `validate` stay fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import zlayout
from zlayout.app.concurrent_reads import PARALLELISM, TIMEOUT, Reading
from zlayout.cli import options
from zlayout.cli.console import Approval, Color, Console
from zlayout.cli.group import App, Commands
from zlayout.cli.study_commands import advise, simulate
from zlayout.cli.table_commands import drop_trial, history, import_, inspect, publish, rollback, trial
from zlayout.cli.workload import workload

app = App(
    name="zlayout",
    cls=Commands,
    help="Terraform for table layout: declare how Delta Lake and Apache Iceberg tables are laid out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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
    folder: Annotated[
        Path, typer.Argument(help="The folder of the project; created if missing.", metavar="FOLDER")
    ] = options.HERE,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="delta or iceberg.")] = "",
    table: Annotated[
        str, typer.Option("--table", metavar="TABLE", help="The first table, as catalog.namespace.table.")
    ] = "",
    columns: Annotated[
        str, typer.Option("--columns", metavar="COLUMNS", help="The comma-separated z-order columns of the table.")
    ] = "",
    warehouse: Annotated[
        str, typer.Option("--warehouse", metavar="LOCATION", help="The root folder or URL of the tables.")
    ] = "",
    uri: options.Uri = "",
    catalog_type: options.CatalogType = "",
    workflows: Annotated[bool, typer.Option(help="Write the workflows for GitHub Actions.")] = True,
    no_input: Annotated[bool, typer.Option("--no-input", help="Ask no questions, even on a terminal.")] = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Write a new project with a first layout.

    The project also has schemas for editors and workflows for CI. On a terminal, init asks for missing options.
    """
    from zlayout.cli.init import init_command

    console = Console(color)
    given = {"format": format, "table": table, "columns": columns, "warehouse": warehouse}
    given |= {"uri": uri, "type": catalog_type}
    return init_command(folder, given, workflows, console.interactive and not no_input, console)


@app.command()
def doctor(
    catalogs: Annotated[
        list[str] | None, typer.Argument(help="Names of catalogs. Default: all.", metavar="CATALOG")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark, and read the tables with it.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="The limit for each step, in seconds.")
    ] = 20.0,
    project: options.Project = options.HERE,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Check whether catalogs and their storage can be reached. Prints the result of each step, and writes nothing."""
    from zlayout.cli.doctor import doctor_command

    return doctor_command(project, catalogs or (), Console(color), spark=spark, timeout=timeout)


app.command(name="import")(import_)


@app.command(name="validate")
def validate_(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders. Default: all.", metavar="PATH")] = None,
    project: options.Project = options.HERE,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Check zlayout.yaml and the layouts for errors. Reads no table."""
    from zlayout.app.project import validate
    from zlayout.message_text import plural

    Console(color).result(f"{plural(len(validate(project, paths or ())), 'layout')} valid\n")
    return 0


@app.command()
def plan(
    select: options.Select = None,
    exclude: options.Exclude = None,
    branch: options.Branch = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a plan file, for apply and show.")] = None,
    output: Annotated[options.PlanFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: options.JsonOutput = False,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode", help="Exit with 2 if there are changes, with 5 if queries would read more bytes."
        ),
    ] = False,
    allow_worse: Annotated[
        bool, typer.Option("--allow-worse", help="With --detailed-exitcode: exit with 2 instead of 5.")
    ] = False,
    allow_full_rewrite: options.FullRewrite = False,
    max_rewrite_bytes: options.Budget = None,
    avoid_hot: options.AvoidHot = None,
    include_rarely_read: options.IncludeRarelyRead = False,
    sample: options.Sample = None,
    report: options.Report = None,
    show_values: options.ShowValues = False,
    parallelism: options.Parallelism = PARALLELISM,
    timeout: options.Timeout = TIMEOUT,
    project: options.Project = options.HERE,
    summary: options.Summary = False,
    verbose: options.Verbose = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Show how tables differ from their layouts. States what apply would do, and starts no JVM."""
    with Console().starting():
        from zlayout.app.arguments import parse_budget, parse_duration
        from zlayout.cli.plan import PlanRequest, plan_command
        from zlayout.cli.reports import parse_reports

    reports, budget = parse_reports(report or (), show_values), parse_budget(max_rewrite_bytes)
    reading = Reading(parallelism, timeout)
    limits = (allow_full_rewrite, budget, sample, branch, parse_duration(avoid_hot), include_rarely_read)
    request = PlanRequest(project, select or (), exclude or (), reading, *limits)
    console = Console(color, verbose=verbose, summary=summary)
    return plan_command(
        request,
        console,
        out,
        "json" if as_json else output,
        reports,
        detailed_exitcode=detailed_exitcode,
        allow_worse=allow_worse,
    )


@app.command()
def apply(
    select: options.Select = None,
    exclude: options.Exclude = None,
    branch: options.Branch = None,
    auto_approve: options.AutoApprove = False,
    stale: options.Stale = "compatible",
    verify: options.Verify = "gate",
    all_or_nothing: options.AllOrNothing = False,
    concurrent_tables: options.ConcurrentTables = 1,
    output: Annotated[
        options.PlanFormat, typer.Option("--output", help="json: print events, one JSON object per line.")
    ] = "text",
    as_json: options.JsonOutput = False,
    allow_full_rewrite: options.FullRewrite = False,
    max_rewrite_bytes: options.Budget = None,
    avoid_hot: options.AvoidHot = None,
    include_rarely_read: options.IncludeRarelyRead = False,
    max_minutes: options.MaxMinutes = None,
    ignore_window: options.IgnoreWindow = False,
    report: options.Report = None,
    show_values: options.ShowValues = False,
    parallelism: options.Parallelism = PARALLELISM,
    timeout: options.Timeout = TIMEOUT,
    project: options.Project = options.HERE,
    verbose: options.Verbose = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Plan, ask for approval, and rewrite on Spark. SELECT can be one plan file that `plan --out` wrote."""
    with Console().starting():
        from zlayout.app.arguments import parse_budget, parse_duration
        from zlayout.cli.apply import ApplyOptions, apply_command
        from zlayout.cli.plan import PlanRequest
        from zlayout.cli.reports import parse_reports

    reports, budget = parse_reports(report or (), show_values), parse_budget(max_rewrite_bytes)
    reading = Reading(parallelism, timeout)
    limits = (allow_full_rewrite, budget, None, branch, parse_duration(avoid_hot), include_rarely_read)
    request = PlanRequest(project, select or (), exclude or (), reading, *limits)
    console = Console(color, verbose=verbose)
    settings = ApplyOptions(stale, verify, all_or_nothing, concurrent_tables, max_minutes, ignore_window)
    approval = Approval(console, auto_approve)
    return apply_command(request, settings, console, approval, reports, "json" if as_json else output)


@app.command()
def drift(
    select: options.Select = None,
    exclude: options.Exclude = None,
    branch: options.Branch = None,
    output: Annotated[options.PlanFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: options.JsonOutput = False,
    sample: options.Sample = None,
    report: options.Report = None,
    show_values: options.ShowValues = False,
    parallelism: options.Parallelism = PARALLELISM,
    timeout: options.Timeout = TIMEOUT,
    project: options.Project = options.HERE,
    summary: options.Summary = False,
    verbose: options.Verbose = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Check in CI whether tables are as declared.

    Exits with 2 if a table is not as declared or its layout no longer fits, with 1 on errors.
    """
    with Console().starting():
        from zlayout.cli.plan import PlanRequest, drift_command
        from zlayout.cli.reports import parse_reports

    reports = parse_reports(report or (), show_values)
    reading = Reading(parallelism, timeout)
    request = PlanRequest(project, select or (), exclude or (), reading, sample=sample, branch=branch)
    console = Console(color, verbose=verbose, summary=summary)
    return drift_command(request, console, "json" if as_json else output, reports)


@app.command()
def show(
    planfile: Annotated[Path, typer.Argument(help="A plan file.", metavar="PLANFILE")],
    output: Annotated[options.PlanFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: options.JsonOutput = False,
    report: options.Report = None,
    show_values: options.ShowValues = False,
    summary: options.Summary = False,
    verbose: options.Verbose = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Show a saved plan. Reads no table."""
    from zlayout.cli.plan import show_command
    from zlayout.cli.reports import parse_reports

    reports = parse_reports(report or (), show_values)
    return show_command(
        planfile, "json" if as_json else output, Console(color, verbose=verbose, summary=summary), reports
    )


app.command()(inspect)
app.command()(history)
app.command()(rollback)
app.command()(trial)
app.command()(publish)
app.command(name="drop-trial")(drop_trial)
app.command()(simulate)
app.command()(advise)
app.add_typer(workload)


@app.command()
def schema(
    name: Annotated[
        options.SchemaName, typer.Argument(help="The document that the schema describes.", metavar="NAME")
    ] = "layout",
) -> int:
    """Print a JSON Schema for editors and other tools."""
    from zlayout.spec.schema import schema_text

    Console().result(schema_text(name))
    return 0
