"""The commands `simulate` and `advise`: options and help texts, and how a study is printed or written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zlayout.cli import options
from zlayout.cli.console import Color, Console, spark_of
from zlayout.message_text import plural
from zlayout.report.words import number, printable

if TYPE_CHECKING:
    from zlayout.advisor.model import Study
    from zlayout.app.advise import AdviceEvent, StudyOptions


def simulate(
    table: options.Table,
    workload: options.Workload = None,
    columns: options.Layouts = None,
    curve: Annotated[
        options.Curve | None,
        typer.Option("--curve", help="The curve of the layouts. Default: the declared curve, or kd."),
    ] = None,
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

    if not columns:
        raise typer.BadParameter("expected at least one layout to simulate, found none", param_hint="--columns")
    chosen = StudyOptions(tuple(columns), curve, files, sample_rows, seed, search=False)
    return _study(
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
    from zlayout.app.advise import make_study, own_layout, write_advice
    from zlayout.app.files import write_result
    from zlayout.app.project import load_project

    render = _renderer(output, console)
    loaded = load_project(project)
    if write:
        own_layout(loaded, table)  # raises errors before the search, which takes a minute
    with spark_of(loaded, console) as runtime:
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
        from zlayout.advisor.document import to_json

        return to_json
    if output == "html":
        from zlayout.advisor.page import render as as_page
        from zlayout.report.formats import check_available

        check_available("html")
        return as_page
    from zlayout.advisor.text import render as as_text

    width = console.text_options().width
    return lambda found: as_text(found, width, verbose=console.verbose)


def _report(event: AdviceEvent, console: Console) -> None:
    from zlayout.app.advise import SampleStarted

    if isinstance(event, SampleStarted):
        total = plural(event.total, "row")
        console.say(f"drawing {event.rows:,} of {total} of {event.table} on Spark, seed {event.seed}")
        return
    best = event.best
    so_far = f", best so far {number(best.costs.mean_files)} files with {best.title}" if best else ""
    console.say(f"searching, {event.stage}: {plural(event.tried, 'layout')} tried{printable(so_far)}")
