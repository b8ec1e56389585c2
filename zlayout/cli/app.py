"""The Typer application: all commands with their options and help texts, and the completion of table names.

The modules that carry out a command are imported inside it, so that `--help` and `validate` stay fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
import typer.core
from typer.models import CommandFunctionType

import zlayout
from zlayout.cli.console import Color, Console
from zlayout.errors import SpecError, ZlayoutError
from zlayout.process import signal_of
from zlayout.report.words import number, printable, without_commands
from zlayout.session.concurrent_reads import PARALLELISM, TIMEOUT, Reading
from zlayout.session.project import MAX_NEW_FILES
from zlayout.text import plural
from zlayout.workload.model import Dialect

if TYPE_CHECKING:
    from zlayout.advisor.model import Study
    from zlayout.session.advise import AdviceEvent, StudyOptions

# Classes of the program, of its group of commands and of each command, which change some of typer's behaviour.


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

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _keep_defaults(self.get_params(ctx))
        return super().parse_args(ctx, args)

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
        _keep_defaults(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, type_ in (("Arguments", "argument"), ("Options", "option")):
            records = [p.get_help_record(ctx) for p in self.get_params(ctx) if p.param_type_name == type_]
            if rows := [(_TYPED_ARGUMENT.sub(r"\1", record[0]), record[1]) for record in records if record]:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _keep_defaults(parameters: Sequence[Any]) -> None:
    for parameter in parameters:
        parameter.process_value = partial(_processed, parameter, parameter.process_value)


def _processed(parameter: Any, process: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    """Return a default as it is declared: typer would import pydantic to convert it, a tenth of the time of a plan."""
    declared = ctx.get_parameter_source(parameter.name).name == "DEFAULT"
    if not declared or parameter.required:
        return process(ctx, value)
    if value is None and (parameter.multiple or parameter.nargs == -1):
        value = ()
    return value if parameter.callback is None else parameter.callback(ctx, parameter, value)


class App(typer.Typer):
    """A program whose commands are of the class `Command`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        def register(function: CommandFunctionType) -> CommandFunctionType:
            named = name or function.__name__.replace("_", "-")
            return super(App, self).command(named, cls=Command, **settings)(function)

        return register

    def with_command(self, name: str) -> App:
        """Return the program with this command alone, or the whole program if it has no such command.

        typer makes all options of all commands of a program before it runs one.
        """
        chosen = copy(self)
        chosen.registered_commands = [c for c in self.registered_commands if c.name == name]
        chosen.registered_groups = []
        return chosen if chosen.registered_commands else self


# The options and arguments that several commands share, and the completion of table names in a shell.


def complete_tables(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Yield (word, help) for the table names and `tag:NAME` that start with `incomplete`; nothing after an error."""
    from zlayout.session.project import load_project

    try:
        project = load_project(context.params.get("project") or Path())
    except ZlayoutError:
        return
    layouts = (*project.layouts, *(rule.spec for rule in project.rules))
    words = {str(spec.table): spec.description or spec.location.path for spec in layouts}
    words |= {f"tag:{tag}": "tables with this tag" for spec in layouts for tag in spec.tags}
    yield from ((word, note) for word, note in sorted(words.items()) if word.startswith(incomplete))


HERE = Path()


def _named(context: typer.Context, project: Path) -> Path:
    """Return the working directory as a full path if it is given with --project, so that it is not searched for."""
    source = context.get_parameter_source("project")
    return Path.cwd() if project == HERE and source is not None and source.name == "COMMANDLINE" else project


Project = Annotated[
    Path,
    typer.Option(
        "--project",
        "-p",
        help="The folder of zlayout.yaml, or a folder below it.",
        show_default=False,
        callback=_named,
    ),
]
ColorMode = Annotated[Color, typer.Option("--color", help="Colour the output.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also show unchanged tables and decay within the tolerance.")
]
Summary = Annotated[
    bool, typer.Option("--summary", help="Show one line for each table; those that need attention are last.")
]
Select = Annotated[
    list[str] | None,
    typer.Argument(
        help="Tables: a name or glob, path:GLOB of the layout file, tag:NAME, or changed:REV for those that differ "
        "from the Git revision. Default: all.",
        metavar="SELECT",
        autocompletion=complete_tables,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude", metavar="SELECT", help="Tables to leave out, as in SELECT.", autocompletion=complete_tables
    ),
]
Branch = Annotated[
    str | None,
    typer.Option(
        "--branch",
        metavar="NAME",
        help="The branch of Iceberg tables. Default: ref of the layout, or main.",
        show_default=False,
    ),
]
TrialBranch = Annotated[
    str | None,
    typer.Option("--branch", metavar="NAME", help="The branch of the trial.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")]
AutoApprove = Annotated[bool, typer.Option("--auto-approve", help="Do not ask for approval.")]
JsonOutput = Annotated[bool, typer.Option("--json", help="The same as --output json.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FullRewrite = Annotated[
    bool, typer.Option("--allow-full-rewrite", help="Allow a partitioning change to rewrite a whole Delta table.")
]
AllOrNothing = Annotated[
    bool, typer.Option("--all-or-nothing", help="Write nothing if a table is refused or cannot be planned.")
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--max-rewrite-bytes",
        metavar="SIZE",
        help="The limit on rewritten bytes, such as 100GiB. Groups with the largest gain per byte are rewritten first.",
    ),
]
IgnoreWindow = Annotated[
    bool, typer.Option("--ignore-window", help="Rewrite tables outside of the maintenance windows too.")
]
AvoidHot = Annotated[
    str | None,
    typer.Option(
        "--avoid-hot",
        metavar="TIME",
        help="Leave partitions that another writer wrote to within this time, such as 1h, for a later run. "
        "Default: maintenance.avoid_hot of zlayout.yaml; 0m for none.",
        show_default=False,
    ),
]
IncludeRarelyRead = Annotated[
    bool,
    typer.Option("--include-rarely-read", help="Also rewrite partitions that wait because of tolerance.rarely_read."),
]
OnlyDecay = Annotated[
    bool, typer.Option("--only-decay", help="Leave out tables whose declared layout was not applied yet.")
]
MaxMinutes = Annotated[
    float | None,
    typer.Option(
        "--max-minutes",
        min=0,
        metavar="MINUTES",
        help="Start no rewrite that is expected to end after this time. A later run does the rest.",
    ),
]
Sample = Annotated[
    bool | None,
    typer.Option(
        "--sample/--no-sample",
        help="Read key columns of some row groups to forecast the result. Default: defaults.sample of zlayout.yaml.",
        show_default=False,
    ),
]
Parallelism = Annotated[
    int,
    typer.Option(
        "--parallelism",
        metavar="N",
        min=1,
        max=64,
        help="The number of tables of one catalog to read at the same time.",
    ),
]
ConcurrentTables = Annotated[
    int,
    typer.Option(
        "--concurrent-tables", metavar="N", min=1, max=64, help="The number of tables to rewrite at the same time."
    ),
]
Remote = Annotated[
    str,
    typer.Option(
        "--remote",
        metavar="URL",
        help="Use this Spark Connect server, for layouts with engine: native: "
        "sc://HOST:PORT/;token=TOKEN. Default: SPARK_REMOTE, else a Spark on this machine.",
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="The limit on reading one table, in seconds.")
]
Report = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FORMAT=PATH",
        help="Write a report: text, json, markdown, github, sarif, junit, html or prometheus. Can be repeated. "
        "PATH - is stdout.",
    ),
]
ShowValues = Annotated[
    bool, typer.Option("--show-values", help="Show the names of partitions in reports, which contain values of rows.")
]
Table = Annotated[
    str,
    typer.Argument(
        help="A table with or without a layout, as catalog.namespace.table.",
        metavar="TABLE",
        autocompletion=complete_tables,
    ),
]
Workload = Annotated[
    list[Path] | None,
    typer.Option(
        "--workload",
        "-w",
        metavar="FILE",
        help="Queries: .sql, .csv or a Spark event log; can be repeated. Default: the workload of the layout.",
        show_default=False,
    ),
]
Layouts = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="a,b=2", help="Columns and weights of a layout to simulate; can be repeated."),
]
Files = Annotated[
    int | None,
    typer.Option(
        "--files",
        metavar="N",
        min=1,
        max=MAX_NEW_FILES,
        help="The number of files after the rewrite. Default: from the target size.",
    ),
]
SampleRows = Annotated[
    int | None,
    typer.Option(
        "--sample-rows",
        metavar="N",
        min=1,
        help="The number of rows to draw. Default: 2,000 per file, at most 1,000,000.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, max=2**63 - 1, help="The seed of the sample.")]
AllQueries = Annotated[bool, typer.Option("--verbose", "-v", help="List all queries, and all unused conditions.")]
AdviceOut = Annotated[Path | None, typer.Option("--out", "-o", help="Write the result to a file.", show_default=False)]
Stale = Annotated[
    Literal["compatible", "strict"],
    typer.Option(
        "--stale",
        help="With a plan file: compatible accepts appends since the plan, and deletes that can be rebased; "
        "strict does not.",
    ),
]
Reviewed = Annotated[
    Path | None,
    typer.Option(
        "--reviewed",
        metavar="PATH",
        help="A reviewed plan file, or a folder of them. Tables whose reviewed plan is not stale keep it.",
        show_default=False,
    ),
]
Verify = Annotated[
    Literal["gate", "full"],
    typer.Option("--verify", help="full: also read the written files back before the commit."),
]
TimeLimit = Annotated[
    float,
    typer.Option("--time-limit", metavar="SECONDS", min=0, help="The limit on search and measurement, in seconds."),
]
Uri = Annotated[
    str, typer.Option("--uri", metavar="URI", help="The Iceberg catalog: sqlite:///FILE, https://... or thrift://...")
]
CatalogType = Annotated[
    str,
    typer.Option(
        "--catalog-type",
        metavar="TYPE",
        help="Delta: path, hive, glue or unity. Iceberg: sql, rest, hive or glue. Default: the type that fits --uri.",
    ),
]

Ci = Literal["github", "gitlab"]
PlanFormat = Literal["text", "json"]
AdviceFormat = Literal["text", "json", "html"]
Curve = Literal["kd", "zorder", "hilbert", "linear"]
SchemaName = Literal["layout", "project", "plan"]


# The commands of `zlayout workload`.


MAX_PROBLEMS = 20
workload = App(name="workload", help="Write workloads from query histories.", no_args_is_help=True)


@workload.command(name="import")
def import_queries(
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
    dialect: Annotated[Dialect, typer.Option("--dialect", help="The SQL dialect of workload files.")] = Dialect.SPARK,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite the file.")] = False,
    project: Project = HERE,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List all records that cannot be read.")] = False,
    color: ColorMode = Color.AUTO,
) -> int:
    """Write a workload from query histories.

    Reads query histories of Spark, Trino, Databricks, Snowflake, Athena and BigQuery.
    """
    from zlayout.session.import_ import import_workload
    from zlayout.session.project import load_project
    from zlayout.spec.load import shown

    if no_values and keep_values:
        raise SpecError.of("ZL079", "--no-values and --keep-values exclude each other", hint="use one of them")
    console, found = Console(color), load_project(project)
    values = "omit" if no_values else "keep" if keep_values else "bin"

    def on_progress(done: int, total: int) -> None:
        if console.live:
            console.status(f"{done:,} of {plural(total, 'statement')} read ...")

    imported = import_workload(found, paths, values, bins, days, dialect, on_progress=on_progress)
    if console.live:
        console.status("")
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


# The commands `simulate` and `advise`, and how a study is printed or written.


def simulate(
    table: Table,
    workload: Workload = None,
    columns: Layouts = None,
    curve: Annotated[
        Curve | None,
        typer.Option("--curve", help="The curve of the layouts. Default: the declared curve, or kd."),
    ] = None,
    files: Files = None,
    sample_rows: SampleRows = None,
    seed: Seed = 0,
    output: Annotated[AdviceFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: JsonOutput = False,
    out: AdviceOut = None,
    project: Project = HERE,
    verbose: AllQueries = False,
    color: ColorMode = Color.AUTO,
) -> int:
    """Simulate the given layouts and show their cost per query. Writes nothing.

    Draws one sample, on Spark unless the table is small.
    """
    from zlayout.session.advise import StudyOptions

    if not columns:
        raise typer.BadParameter("expected at least one layout to simulate, found none", param_hint="--columns")
    chosen = StudyOptions(tuple(columns), curve, files, sample_rows, seed, search=False)
    return _study(
        project, table, workload or (), chosen, Console(color, verbose=verbose), "json" if as_json else output, out
    )


def advise(
    table: Table,
    workload: Workload = None,
    columns: Layouts = None,
    curve: Annotated[
        Curve | None, typer.Option("--curve", help="The only curve to search. Default: all curves.")
    ] = None,
    files: Files = None,
    sample_rows: SampleRows = None,
    seed: Seed = 0,
    time_limit: TimeLimit = 60.0,
    output: Annotated[AdviceFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: JsonOutput = False,
    out: AdviceOut = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the recommended keys into the layout file of the table.")
    ] = False,
    project: Project = HERE,
    verbose: AllQueries = False,
    color: ColorMode = Color.AUTO,
) -> int:
    """Find columns, weights, curve and cuts with the lowest cost. Changes no table.

    Draws one sample, on Spark unless the table is small.
    """
    from zlayout.session.advise import StudyOptions

    chosen = StudyOptions(tuple(columns or ()), curve, files, sample_rows, seed, time_limit=time_limit)
    return _study(
        project,
        table,
        workload or (),
        chosen,
        Console(color, verbose=verbose),
        "json" if as_json else output,
        out,
        write=write,
    )


def _study(
    project: Path,
    table: str,
    workload: Sequence[Path],
    options: StudyOptions,
    console: Console,
    output: str,
    out: Path | None,
    *,
    write: bool = False,
) -> int:
    from zlayout.cli.terminal import Terminal
    from zlayout.session.advise import make_study, own_layout, write_advice
    from zlayout.session.files import write_result
    from zlayout.session.project import load_project
    from zlayout.spark.session import SparkRuntime

    render = _renderer(output, console)
    loaded = load_project(project)
    if write:
        own_layout(loaded, table)  # raises errors before the search, which takes a minute
    runtime = SparkRuntime(loaded)
    with Terminal(console).working(runtime):
        found = make_study(loaded, table, workload, options, runtime, lambda event: _report(event, console))
    if out is None:
        console.result(render(found))
    else:
        write_result(out, render(found), "ZL061", f"the report {out}")
        console.say(f"{output} report written to {out}")
    if write:
        changed = write_advice(loaded, found)
        console.say(f"layout written to {changed}" if changed else "layout file unchanged: no other layout recommended")
    return 0


def _renderer(output: str, console: Console) -> Callable[[Study], str]:
    if output == "json":
        from zlayout.advisor.compare import to_json

        return to_json
    if output == "html":
        from zlayout.advisor.reports import render_page as as_page
        from zlayout.report.formats import check_available

        check_available("html")
        return as_page
    from zlayout.advisor.reports import render as as_text

    width = console.text_options().width
    return lambda found: as_text(found, width, verbose=console.verbose)


def _report(event: AdviceEvent, console: Console) -> None:
    from zlayout.session.advise import SampleStarted

    if isinstance(event, SampleStarted):
        total = plural(event.total, "row")
        console.say(f"drawing {event.rows:,} of {total} of {event.table}, seed {event.seed}")
        return
    best = event.best
    so_far = f", best so far {number(best.costs.mean_files)} files with {best.title}" if best else ""
    console.say(f"searching, {event.stage}: {plural(event.tried, 'layout')} tried{printable(so_far)}")


# The commands for one table.


def import_(
    table: Annotated[
        str | None,
        typer.Argument(
            help="A table without a layout, as catalog.namespace.table, or a pattern such as 'glue.sales.*'. "
            "Optional with --dbt.",
            metavar="TABLE",
        ),
    ] = None,
    dbt: Annotated[
        Path | None,
        typer.Option(
            "--dbt",
            metavar="FILE",
            help="The target/manifest.json of a dbt project: write the layouts that its models declare. No table "
            "is read.",
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="COLUMNS",
            help="Comma-separated z-order columns. Default: the present ordering of the table.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; - for stdout. Default: a file in layouts/.")
    ] = None,
    parallelism: Parallelism = PARALLELISM,
    timeout: Timeout = TIMEOUT,
    project: Project = HERE,
    color: ColorMode = Color.AUTO,
) -> int:
    """Write layouts that describe existing tables. Reads metadata only, and overwrites no file."""
    from zlayout.cli.setup import import_command, import_dbt_command

    if dbt is not None:
        return import_dbt_command(project, dbt, table, columns, out, Console(color))
    if table is None:
        raise typer.BadParameter("expected a table, a pattern, or --dbt", param_hint="TABLE")
    return import_command(project, table, columns, out, Console(color), Reading(parallelism, timeout))


def inspect(
    table: Table,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="COLUMNS", help="Comma-separated columns to measure. Default: those of the layout."
        ),
    ] = None,
    as_json: Json = False,
    branch: Branch = None,
    timeout: Timeout = TIMEOUT,
    project: Project = HERE,
    color: ColorMode = Color.AUTO,
) -> int:
    """Show files, sizes and metrics of one table. Reads metadata only."""
    from zlayout.cli.inspect import inspect_command

    return inspect_command(project, table, columns, Console(color, as_json=as_json), branch=branch, timeout=timeout)


def history(
    table: Table,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="The number of records to show.")
    ] = 30,
    as_json: Json = False,
    branch: Branch = None,
    project: Project = HERE,
    color: ColorMode = Color.AUTO,
) -> int:
    """Show what earlier commands found in a table and did to it. Needs `history` in zlayout.yaml. Reads no table."""
    from zlayout.history_records import touched_trend
    from zlayout.report.text import render_history
    from zlayout.session.history import history
    from zlayout.session.project import load_project

    console, found = Console(color, as_json=as_json), history(load_project(project), table, limit=limit, branch=branch)
    if as_json:
        records = [record.row() | {"time": record.time.isoformat(timespec="milliseconds")} for record in found.records]
        console.document(
            {"table": found.table, "records": records, "growing": [asdict(each) for each in found.growing]}
        )
    else:
        trend = touched_trend(found.records)
        console.result(render_history(found.table, found.records, trend, found.growing))
    return 0


def rollback(
    table: Table,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="The run to undo. Default: the last one in effect.")
    ] = None,
    dry_run: DryRun = False,
    auto_approve: AutoApprove = False,
    as_json: Json = False,
    timeout: Timeout = TIMEOUT,
    project: Project = HERE,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List all files.")] = False,
    color: ColorMode = Color.AUTO,
) -> int:
    """Undo a run of apply in a table, by default the last one. Refused if other writers have changed its new files."""
    from zlayout.cli.changes import RollbackTerminal
    from zlayout.session.session import Session

    console = Console(color, verbose=verbose, as_json=as_json)
    session = Session(project, RollbackTerminal(console, auto_approve, dry_run))
    session.rollback(session.plan_rollback(table, run, timeout))
    return 0


def trial(
    table: Table,
    branch: TrialBranch = None,
    workload: Workload = None,
    dry_run: DryRun = False,
    auto_approve: AutoApprove = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    ignore_window: IgnoreWindow = False,
    timeout: Timeout = TIMEOUT,
    project: Project = HERE,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List all queries.")] = False,
    color: ColorMode = Color.AUTO,
) -> int:
    """Try the layout on a branch. Replays the queries of the workload on the trial and on the table."""
    from zlayout.cli.changes import TrialTerminal
    from zlayout.session.session import Session
    from zlayout.session.trial import plan_trial

    console = Console(color, verbose=verbose, as_json=as_json)
    session = Session(project, TrialTerminal(console, auto_approve, dry_run))
    planned = plan_trial(session.project, table, branch=branch, workload=workload or (), timeout=timeout)
    session.trial(planned, ignore_window=ignore_window)
    return 0


def publish(
    table: Table,
    branch: TrialBranch = None,
    dry_run: DryRun = False,
    auto_approve: AutoApprove = False,
    allow_worse: Annotated[
        bool, typer.Option("--allow-worse", help="Also if queries read more of the trial than of the table.")
    ] = False,
    as_json: Json = False,
    timeout: Timeout = TIMEOUT,
    project: Project = HERE,
    color: ColorMode = Color.AUTO,
) -> int:
    """Fast-forward main of an Iceberg table to a trial. Refused if main has changed since the trial was made."""
    from zlayout.cli.changes import PublishTerminal
    from zlayout.session.session import Session
    from zlayout.session.trial import plan_publish

    session = Session(project, PublishTerminal(Console(color, as_json=as_json), auto_approve, dry_run))
    found = plan_publish(session.project, table, branch, allow_worse=allow_worse, timeout=timeout)
    session.publish(found, allow_worse=allow_worse)
    return 0


def drop_trial(
    table: Table,
    branch: TrialBranch = None,
    dry_run: DryRun = False,
    auto_approve: AutoApprove = False,
    as_json: Json = False,
    timeout: Timeout = TIMEOUT,
    project: Project = HERE,
    color: ColorMode = Color.AUTO,
) -> int:
    """Remove the branch that a trial made. The table itself is not changed."""
    from zlayout.cli.changes import DropTerminal
    from zlayout.session.session import Session
    from zlayout.session.trial import plan_drop_trial

    session = Session(project, DropTerminal(Console(color, as_json=as_json), auto_approve, dry_run))
    session.drop_trial(plan_drop_trial(session.project, table, branch=branch, timeout=timeout))
    return 0


# The application, to which the commands above are added, and the other commands.


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
    ] = HERE,
    format: Annotated[str, typer.Option("--format", metavar="FORMAT", help="delta or iceberg.")] = "",
    table: Annotated[
        str,
        typer.Option(
            "--table", metavar="TABLE", help="The tables: catalog.namespace.table, or a pattern such as 'lake.sales.*'."
        ),
    ] = "",
    all_tables: Annotated[bool, typer.Option("--all", help="Propose layouts for all tables of the catalog.")] = False,
    columns: Annotated[
        str,
        typer.Option(
            "--columns",
            metavar="COLUMNS",
            help="The comma-separated z-order columns of all tables. Default: the order that a table has, or else what "
            "the workload or the statistics suggest.",
            show_default=False,
        ),
    ] = "",
    workload: Annotated[
        list[Path] | None,
        typer.Option(
            "--workload",
            "-w",
            metavar="FILE",
            help="A query history, or a file with queries, by which `advise` finds columns on Spark; can be repeated.",
            show_default=False,
        ),
    ] = None,
    warehouse: Annotated[
        str, typer.Option("--warehouse", metavar="LOCATION", help="The root folder or URL of the tables.")
    ] = "",
    uri: Uri = "",
    catalog_type: CatalogType = "",
    ci: Annotated[Ci, typer.Option("--ci", help="The CI whose workflows or jobs to write.")] = "github",
    workflows: Annotated[bool, typer.Option(help="Write the files for CI.")] = True,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Do not connect: write what --table and --columns name, unchecked."),
    ] = False,
    no_input: Annotated[bool, typer.Option("--no-input", help="Ask no questions, even on a terminal.")] = False,
    parallelism: Parallelism = PARALLELISM,
    timeout: Timeout = TIMEOUT,
    color: ColorMode = Color.AUTO,
) -> int:
    """Write a new project with layouts for existing tables.

    Reads metadata only, overwrites no file, and ends with the plan. The project also has schemas for editors and
    workflows for CI. On a terminal, init asks for missing options, and lists the tables of the catalog to choose from.
    """
    console = Console(color)
    with console.starting():
        from zlayout.cli.setup import init_command
        from zlayout.session.import_ import split_columns
        from zlayout.session.init import Request

    answers = {"format": format, "table": table, "catalog": "", "warehouse": warehouse}
    answers |= {"uri": uri, "type": catalog_type}
    reading = Reading(parallelism, timeout)
    request = Request(folder, answers, split_columns(columns), workload or (), ci if workflows else "", reading)
    ask = console.interactive and not no_input
    return init_command(request, console, ask=ask, choose_all=all_tables, offline=offline)


@app.command()
def doctor(
    catalogs: Annotated[
        list[str] | None, typer.Argument(help="Names of catalogs. Default: all.", metavar="CATALOG")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark, and read the tables with it.")] = False,
    iam: Annotated[
        bool, typer.Option("--iam", help="Print the IAM policies of AWS that plan and apply need, as JSON.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="The limit for each step, in seconds.")
    ] = 20.0,
    project: Project = HERE,
    color: ColorMode = Color.AUTO,
) -> int:
    """Check whether catalogs and their storage can be reached. Prints the result of each step, and writes nothing."""
    from zlayout.cli.setup import doctor_command, iam_command

    if iam:
        return iam_command(project, catalogs or (), Console(color), Reading(timeout=timeout))
    return doctor_command(project, catalogs or (), Console(color), spark=spark, timeout=timeout)


app.command(name="import")(import_)


@app.command(name="validate")
def validate_(
    paths: Annotated[list[Path] | None, typer.Argument(help="Files or folders. Default: all.", metavar="PATH")] = None,
    project: Project = HERE,
    color: ColorMode = Color.AUTO,
) -> int:
    """Check zlayout.yaml and the layouts for errors. Reads no table."""
    from zlayout.session.project import validate

    Console(color).result(f"{plural(len(validate(project, paths or ())), 'layout')} valid\n")
    return 0


@app.command()
def plan(
    select: Select = None,
    exclude: Exclude = None,
    branch: Branch = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a plan file, for apply and show.")] = None,
    reviewed: Reviewed = None,
    output: Annotated[PlanFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: JsonOutput = False,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode", help="Exit with 2 if there are changes, with 5 if queries would read more bytes."
        ),
    ] = False,
    allow_worse: Annotated[
        bool, typer.Option("--allow-worse", help="With --detailed-exitcode: exit with 2 instead of 5.")
    ] = False,
    allow_full_rewrite: FullRewrite = False,
    max_rewrite_bytes: Budget = None,
    avoid_hot: AvoidHot = None,
    include_rarely_read: IncludeRarelyRead = False,
    only_decay: OnlyDecay = False,
    sample: Sample = None,
    report: Report = None,
    show_values: ShowValues = False,
    parallelism: Parallelism = PARALLELISM,
    timeout: Timeout = TIMEOUT,
    project: Project = HERE,
    summary: Summary = False,
    verbose: Verbose = False,
    color: ColorMode = Color.AUTO,
) -> int:
    """Show how tables differ from their layouts. States what apply would do, and starts no JVM."""
    with Console().starting():
        from zlayout.cli.terminal import PlanTerminal, command_line, parse_reports
        from zlayout.planner.work import PlanOptions
        from zlayout.session.project import parse_budget, parse_duration
        from zlayout.session.session import PlanRequest, Session

    reports, budget = parse_reports(report or (), show_values), parse_budget(max_rewrite_bytes)
    limits = PlanOptions(allow_full_rewrite, budget, include_rarely_read=include_rarely_read, only_decay=only_decay)
    avoided, reading = parse_duration(avoid_hot), Reading(parallelism, timeout)
    request = PlanRequest(select or (), exclude or (), reading, limits, sample, branch, avoided, reviewed=reviewed)
    terminal = PlanTerminal(
        Console(color, verbose=verbose, summary=summary),
        "json" if as_json else output,
        reports,
        out,
        command_line("apply", request, project, out),
        detailed_exitcode=detailed_exitcode,
        allow_worse=allow_worse,
    )
    Session(project, terminal).plan(request)
    return terminal.code


@app.command()
def apply(
    select: Select = None,
    exclude: Exclude = None,
    branch: Branch = None,
    auto_approve: AutoApprove = False,
    stale: Stale = "compatible",
    verify: Verify = "gate",
    all_or_nothing: AllOrNothing = False,
    concurrent_tables: ConcurrentTables = 1,
    output: Annotated[
        PlanFormat, typer.Option("--output", help="json: print events, one JSON object per line.")
    ] = "text",
    as_json: JsonOutput = False,
    allow_full_rewrite: FullRewrite = False,
    max_rewrite_bytes: Budget = None,
    avoid_hot: AvoidHot = None,
    include_rarely_read: IncludeRarelyRead = False,
    only_decay: OnlyDecay = False,
    max_minutes: MaxMinutes = None,
    ignore_window: IgnoreWindow = False,
    remote: Remote = "",
    report: Report = None,
    show_values: ShowValues = False,
    parallelism: Parallelism = PARALLELISM,
    timeout: Timeout = TIMEOUT,
    project: Project = HERE,
    verbose: Verbose = False,
    color: ColorMode = Color.AUTO,
) -> int:
    """Plan, ask for approval, and rewrite on Spark. SELECT can be one plan file that `plan --out` wrote."""
    with Console().starting():
        from zlayout.cli.apply import ApplyTerminal, EventsTerminal, apply_command
        from zlayout.cli.terminal import parse_reports
        from zlayout.planner.work import PlanOptions
        from zlayout.session.project import parse_budget, parse_duration
        from zlayout.session.session import ApplyOptions, PlanRequest

    reports, budget = parse_reports(report or (), show_values), parse_budget(max_rewrite_bytes)
    limits = PlanOptions(allow_full_rewrite, budget, include_rarely_read=include_rarely_read, only_decay=only_decay)
    avoided, reading = parse_duration(avoid_hot), Reading(parallelism, timeout)
    request = PlanRequest(select or (), exclude or (), reading, limits, None, branch, avoided, stale=stale)
    settings = ApplyOptions(verify, all_or_nothing, concurrent_tables, max_minutes, ignore_window, remote)
    as_events = (as_json or output == "json") and not reports.take_stdout
    kind = EventsTerminal if as_events else ApplyTerminal
    terminal = kind(Console(color, verbose=verbose), auto_approve, reports, settings)
    return apply_command(project, request, settings, terminal)


@app.command()
def drift(
    select: Select = None,
    exclude: Exclude = None,
    branch: Branch = None,
    output: Annotated[PlanFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: JsonOutput = False,
    sample: Sample = None,
    report: Report = None,
    show_values: ShowValues = False,
    parallelism: Parallelism = PARALLELISM,
    timeout: Timeout = TIMEOUT,
    project: Project = HERE,
    summary: Summary = False,
    verbose: Verbose = False,
    color: ColorMode = Color.AUTO,
) -> int:
    """Check in CI whether tables are as declared.

    Exits with 2 if a table is not as declared or its layout no longer fits, with 1 on errors.
    """
    with Console().starting():
        from zlayout.cli.terminal import DriftTerminal, command_line, parse_reports
        from zlayout.session.session import PlanRequest, Session

    reports = parse_reports(report or (), show_values)
    request = PlanRequest(select or (), exclude or (), Reading(parallelism, timeout), sample=sample, branch=branch)
    terminal = DriftTerminal(
        Console(color, verbose=verbose, summary=summary),
        "json" if as_json else output,
        reports,
        next_command=command_line("plan", request, project),
    )
    Session(project, terminal).drift(request)
    return terminal.code


@app.command()
def show(
    planfile: Annotated[Path, typer.Argument(help="A plan file.", metavar="PLANFILE")],
    output: Annotated[PlanFormat, typer.Option("--output", help="What to print.")] = "text",
    as_json: JsonOutput = False,
    report: Report = None,
    show_values: ShowValues = False,
    summary: Summary = False,
    verbose: Verbose = False,
    color: ColorMode = Color.AUTO,
) -> int:
    """Show a saved plan. Reads no table."""
    from zlayout.cli.terminal import parse_reports, show_command

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
        SchemaName, typer.Argument(help="The document that the schema describes.", metavar="NAME")
    ] = "layout",
) -> int:
    """Print a JSON Schema for editors and other tools."""
    from zlayout.spec.check import schema_text

    Console().result(schema_text(name))
    return 0
