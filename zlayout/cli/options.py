"""The options and arguments that several commands share, and the completion of table names in a shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from zlayout.cli.console import Color
from zlayout.errors import ZlayoutError


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
        "--files", metavar="N", min=1, help="The number of files after the rewrite. Default: from the target size."
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
    typer.Option("--stale", help="With a plan file: compatible accepts appends since the plan, strict does not."),
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
