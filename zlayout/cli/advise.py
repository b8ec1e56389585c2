"""The commands `simulate` and `advise`: print or write a study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from zlayout.advisor.model import Study
from zlayout.app.advise import AdviceEvent, SampleStarted, StudyOptions, make_study, own_layout, write_advice
from zlayout.app.files import write_result
from zlayout.app.project import load_project
from zlayout.cli.console import Console, spark_of
from zlayout.report.words import number, plural, printable


def advise_command(
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
    """Print the study, or write it to `out`; with `write`, also change the layout file.

    Raises:
        SpecError: ZL061, ZL062, ZL076; and the errors of `zlayout.advise`.
    """
    render = _renderer(output, console)
    loaded = load_project(project)
    if write:
        own_layout(loaded, table)  # before the search, which takes a minute
    with spark_of(loaded, console) as runtime:
        found = make_study(loaded, table, workload, options, runtime, lambda event: _report(event, console))
    _show(render(found), output, out, console)
    if write:
        changed = write_advice(loaded, found)
        console.say(f"layout written to {changed}" if changed else "the layout file stays as it is")
    return 0


def _show(text: str, output: str, out: Path | None, console: Console) -> None:
    if out is None:
        console.result(text)
        return
    write_result(out, text, "ZL061", f"the report {out}")
    console.say(f"{output} report written to {out}")


def _renderer(output: str, console: Console) -> Callable[[Study], str]:
    """Return the function that renders a study. Raises SpecError ZL062 if packages for html are missing."""
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
    if isinstance(event, SampleStarted):
        total = plural(event.total, "row")
        console.say(f"drawing {event.rows:,} of {total} of {event.table} on Spark, seed {event.seed}")
        return
    best = event.best
    so_far = f", best so far {number(best.costs.mean_files)} files with {best.title}" if best else ""
    console.say(f"searching, {event.stage}: {plural(event.tried, 'layout')} tried{printable(so_far)}")
