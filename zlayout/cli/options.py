"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from zlayout.cli.completion import complete_tables
from zlayout.cli.console import Color

ProjectOption = Annotated[
    Path, typer.Option("--project", "-p", help="The folder of zlayout.yaml, or a folder below it.", show_default=False)
]
ColorOption = Annotated[Color, typer.Option("--color", help="Colour the output.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also show unchanged tables and decay within the tolerance.")
]
SelectArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Tables: a name or glob, path:GLOB or tag:NAME. Default: all.",
        metavar="SELECT",
        autocompletion=complete_tables,
    ),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option("--exclude", help="Tables to leave out, in the notation of SELECT.", autocompletion=complete_tables),
]
FullRewriteOption = Annotated[
    bool, typer.Option("--allow-full-rewrite", help="Allow a new partition_by to rewrite a whole Delta table.")
]
BudgetOption = Annotated[
    str | None,
    typer.Option("--max-rewrite-bytes", metavar="SIZE", help="Rewrite at most this much; the best groups come first."),
]
ParallelismOption = Annotated[int, typer.Option("--parallelism", min=1, max=64, help="Tables to read at a time.")]
ReportOption = Annotated[
    list[str] | None,
    typer.Option("--report", metavar="FORMAT=PATH", help="Write a report; may be repeated. PATH - is stdout."),
]
ShowValuesOption = Annotated[
    bool, typer.Option("--show-values", help="Show partitions in reports; they contain values of rows.")
]
TableArgument = Annotated[
    str,
    typer.Argument(
        help="catalog.namespace.table, with or without a layout.", metavar="TABLE", autocompletion=complete_tables
    ),
]
WorkloadOption = Annotated[
    list[Path],
    typer.Option("--workload", "-w", metavar="FILE", help="Queries: .sql, .csv or a Spark event log; may be repeated."),
]
LayoutsOption = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="a,b=2", help="A layout to simulate, with weights; may be repeated."),
]
FilesOption = Annotated[
    int | None, typer.Option("--files", min=1, help="Files after the rewrite. Default: what the target size gives.")
]
SampleRowsOption = Annotated[
    int | None, typer.Option("--sample-rows", min=1, help="Rows to draw. Default: 2,000 per file, at most a million.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Determines which rows are drawn.")]
AllQueriesOption = Annotated[bool, typer.Option("--verbose", "-v", help="List all queries, and all unused conditions.")]
AllOrphansOption = Annotated[bool, typer.Option("--verbose", "-v", help="List all orphans.")]
AdviceOutOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="Write the result to a file.", show_default=False)
]
HERE = Path()

Verify = Literal["gate", "full"]
PlanFormat = Literal["text", "json"]
AdviceFormat = Literal["text", "json", "html"]
Curve = Literal["kd", "zorder", "hilbert", "linear"]
SchemaName = Literal["layout", "project", "plan"]
