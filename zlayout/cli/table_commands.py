"""The commands for one table: options and help texts. `zlayout.cli.app` adds them to the application."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from zlayout.app.concurrent_reads import PARALLELISM, TIMEOUT, Reading
from zlayout.cli import options
from zlayout.cli.console import Approval, Color, Console


def import_(
    table: Annotated[
        str,
        typer.Argument(
            help="A table without a layout, as catalog.namespace.table, or a pattern such as 'glue.sales.*'.",
            metavar="TABLE",
        ),
    ],
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
    parallelism: options.Parallelism = PARALLELISM,
    timeout: options.Timeout = TIMEOUT,
    project: options.Project = options.HERE,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Write layouts that describe existing tables. Reads metadata only, and overwrites no file."""
    from zlayout.cli.import_ import import_command

    return import_command(project, table, columns, out, Console(color), Reading(parallelism, timeout))


def inspect(
    table: options.Table,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="COLUMNS", help="Comma-separated columns to measure. Default: those of the layout."
        ),
    ] = None,
    as_json: options.Json = False,
    branch: options.Branch = None,
    timeout: options.Timeout = TIMEOUT,
    project: options.Project = options.HERE,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Show files, sizes and metrics of one table. Reads metadata only."""
    from zlayout.cli.inspect import inspect_command

    return inspect_command(project, table, columns, Console(color, as_json=as_json), branch=branch, timeout=timeout)


def history(
    table: options.Table,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="The number of records to show.")
    ] = 30,
    as_json: options.Json = False,
    branch: options.Branch = None,
    project: options.Project = options.HERE,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Show what earlier commands found in a table and did to it. Needs `history` in zlayout.yaml. Reads no table."""
    from zlayout.app.history import history
    from zlayout.app.project import load_project
    from zlayout.records.trend import touched_trend
    from zlayout.report import history_text

    console, found = Console(color, as_json=as_json), history(load_project(project), table, limit=limit, branch=branch)
    if as_json:
        records = [record.row() | {"time": record.time.isoformat(timespec="milliseconds")} for record in found.records]
        console.document(
            {"table": found.table, "records": records, "growing": [asdict(each) for each in found.growing]}
        )
    else:
        trend = touched_trend(found.records)
        console.result(history_text.render(found.table, found.records, trend, found.growing))
    return 0


def rollback(
    table: options.Table,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="The run to undo. Default: the last one in effect.")
    ] = None,
    dry_run: options.DryRun = False,
    auto_approve: options.AutoApprove = False,
    as_json: options.Json = False,
    timeout: options.Timeout = TIMEOUT,
    project: options.Project = options.HERE,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List all files.")] = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Undo a run of apply in a table, by default the last one. Refused if other writers have changed its new files."""
    from zlayout.cli.rollback import rollback_command

    console = Console(color, verbose=verbose, as_json=as_json)
    return rollback_command(project, table, run, console, Approval(console, auto_approve, dry_run), timeout)


def trial(
    table: options.Table,
    branch: options.TrialBranch = None,
    workload: options.Workload = None,
    dry_run: options.DryRun = False,
    auto_approve: options.AutoApprove = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    ignore_window: options.IgnoreWindow = False,
    timeout: options.Timeout = TIMEOUT,
    project: options.Project = options.HERE,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List all queries.")] = False,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Try the layout on a branch. Replays the queries of the workload on the trial and on the table."""
    from zlayout.cli.trial import trial_command

    console = Console(color, verbose=verbose, as_json=as_json)
    return trial_command(
        project,
        table,
        branch,
        workload or (),
        console,
        Approval(console, auto_approve, dry_run),
        ignore_window=ignore_window,
        timeout=timeout,
    )


def publish(
    table: options.Table,
    branch: Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch to publish.")],
    dry_run: options.DryRun = False,
    auto_approve: options.AutoApprove = False,
    as_json: options.Json = False,
    timeout: options.Timeout = TIMEOUT,
    project: options.Project = options.HERE,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Fast-forward main of an Iceberg table to a trial. Refused if main has changed since the trial was made."""
    from zlayout.cli.publish import publish_command

    console = Console(color, as_json=as_json)
    return publish_command(project, table, branch, console, Approval(console, auto_approve, dry_run), timeout)


def drop_trial(
    table: options.Table,
    branch: options.TrialBranch = None,
    dry_run: options.DryRun = False,
    auto_approve: options.AutoApprove = False,
    as_json: options.Json = False,
    timeout: options.Timeout = TIMEOUT,
    project: options.Project = options.HERE,
    color: options.ColorMode = Color.AUTO,
) -> int:
    """Remove the branch that a trial made. The table itself is not changed."""
    from zlayout.cli.publish import drop_trial_command

    console = Console(color, as_json=as_json)
    return drop_trial_command(project, table, branch, console, Approval(console, auto_approve, dry_run), timeout)
