"""`simulate` and `advise`: one sample of a table's key columns, and what layouts of it would do for a workload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from zlayout.advisor.cut import cuts
from zlayout.advisor.declared import declared_layout, fitting, searched
from zlayout.advisor.model import Asked, Study
from zlayout.advisor.queries import asked_of, column_shares, in_partitions
from zlayout.advisor.search import Progress
from zlayout.advisor.study import Question, rewrite_target, study, with_workload
from zlayout.app.import_ import target_size
from zlayout.cli.advise_columns import asked_layouts, parse_columns
from zlayout.cli.console import Console
from zlayout.cli.files import write_whole
from zlayout.cli.project import known_table, open_project
from zlayout.cli.spark_log import tell_log
from zlayout.errors import Location, SpecError
from zlayout.formats.registry import backend_for
from zlayout.report.words import number, plural, printable
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Layout, LayoutSpec, Project, TableName
from zlayout.table.state import TableState
from zlayout.tuning import give_back_freed_memory
from zlayout.workload import Workload, read_workload

ROWS_A_FILE = 2_000  # as the rewrite samples
LEAST_SAMPLE, MOST_SAMPLE = 50_000, 1_000_000
MOST_COLUMNS = 32


@dataclass(frozen=True, slots=True)
class AdviseRequest:
    """What the user asked. search False: only simulate `columns`, each `a,b` or `a=2,b` with weights."""

    project: Path
    table: str
    workload: tuple[Path, ...]
    columns: tuple[str, ...]
    search: bool
    curve: str | None = None
    files: int | None = None
    sample_rows: int | None = None
    seed: int = 0
    seconds: float = 60.0


def advise_command(request: AdviseRequest, console: Console, output: str, out: Path | None) -> int:
    """Print or write the study.

    Raises SpecError ZL012, ZL020, ZL021, ZL033 to ZL036, ZL061, ZL062, ZL073 to ZL075, and what reading and
    sampling raise.
    """
    render = _renderer(output, console)
    found = make_study(request, console)
    text = render(found)
    if out is None:
        console.result(text)
        return 0
    try:
        write_whole(out, text)
    except OSError as error:
        raise SpecError.of(
            "ZL061", f"cannot write the report {out}: {error.strerror}", hint="check folder and permissions"
        ) from error
    console.say(f"{output} report written to {out}")
    return 0


def _renderer(output: str, console: Console) -> Callable[[Study], str]:
    """Raises SpecError ZL062 for html without its packages, before anything is read."""
    if output == "json":
        from zlayout.advisor.document import to_json

        return to_json
    if output == "html":
        from zlayout.advisor.page import render as as_page
        from zlayout.report.html import check_available

        check_available()
        return as_page
    from zlayout.advisor.text import render as as_text

    width = console.text_options().width
    return lambda found: as_text(found, width, verbose=console.verbose)


def make_study(request: AdviseRequest, console: Console) -> Study:
    """Read the workload and the table's metadata, draw the sample on Spark, simulate and search."""
    project = open_project(request.project)
    name = known_table(project, request.table)
    catalog = project.catalogs[name.catalog]
    wanted = [parse_columns(text) for text in request.columns]
    runtime = SparkRuntime(project)
    backend = backend_for(catalog, runtime)
    schema = backend.observe(name, ())
    spec = fitting(_spec(project, name, schema), schema)
    declared, notes = declared_layout(spec, schema, backend.capabilities)
    layouts = asked_layouts(wanted, request.curve, searched(spec), schema)
    workload = read_workload(request.workload, {name.name: _names(schema)})
    asked, reading_all = _asked(workload, name, schema)
    columns = _columns(asked, [*layouts, *([declared] if declared else [])], schema)
    state = backend.observe(name, columns, schema.version)
    target = rewrite_target(state, spec.layout.target_size, request.files)
    files = int(target.files.sum())
    if not files:
        raise SpecError.of("ZL075", f"{name} holds no rows to lay out", hint="load it first")
    rows = request.sample_rows or min(max(ROWS_A_FILE * files, LEAST_SAMPLE), MOST_SAMPLE)
    total = int(state.files.live_rows.sum())
    console.say(f"drawing {min(rows, total):,} of {plural(total, 'row')} of {name} on Spark, seed {request.seed}")
    from zlayout.advisor.spark_sample import draw_sample

    give_back_freed_memory()  # what reading left: Spark's JVM needs it from here on
    try:
        sample = draw_sample(runtime, catalog, name, state, columns, rows, request.seed)
        runtime.discard_log()
    finally:
        runtime.stop()
        tell_log(runtime, console)
    if not len(sample):
        raise SpecError.of("ZL075", f"the sample of {name} is empty", hint="a larger --sample-rows, or another --seed")
    question = Question(
        layouts,
        declared,
        searched(spec),
        request.search,
        request.curve,
        request.seconds,
    )
    cut = cuts(spec, state, columns)
    found = study(
        state, in_partitions(asked, state), sample, target, cut, question, lambda progress: _tell(progress, console)
    )
    read = {q.query for q in asked}
    unused = tuple((u.query.place, u.text, u.reason) for u in workload.unused if u.query in read)
    found = replace(found, notes=notes)
    return with_workload(found, tuple(map(str, request.workload)), workload.queries, reading_all, unused)


def _spec(project: Project, name: TableName, state: TableState) -> LayoutSpec:
    """The table's spec; for a table without one a spec of no columns, with the file size that the table has."""
    spec = next((s for s in project.layouts if s.table == name), None)
    if spec is not None:
        return spec
    layout = Layout((), "kd", 1000, False, target_size(state), True, "zlayout")
    return LayoutSpec(name, layout, Location(str(name)))


def _names(state: TableState) -> list[str]:
    names = [c.name for c in state.columns] + [f.source for f in state.partition_fields]
    return list(dict.fromkeys(part for name in names for part in (name, name.partition(".")[0])))


def _asked(workload: Workload, name: TableName, state: TableState) -> tuple[tuple[Asked, ...], int]:
    """Raises SpecError ZL073 when the workload asks nothing of the table."""
    asked, reading_all = asked_of(workload, name, state)
    if asked:
        return asked, reading_all
    others = sorted({s.table for s in workload.scans})
    if reading_all:
        hint = "; ".join(f"{count} of: {reason}" for reason, count in list(workload.reasons().items())[:3])
        raise SpecError.of(
            "ZL073",
            f"no query of the workload has a condition that files of {name} can be skipped by",
            hint=hint or "conditions compare a column with a constant",
        )
    hint = f"they read {printable(', '.join(others))[:200]}" if others else "no query could be read"
    raise SpecError.of("ZL073", f"no query of the workload reads {name}", hint=hint)


def _columns(queries: Sequence[Asked], layouts: Sequence[Layout], state: TableState) -> tuple[str, ...]:
    """Columns to sample: those of the layouts, which fit the table, and the most asked for that one could be by."""
    given = [c.name for layout in layouts for c in layout.columns]
    asked = list(column_shares(queries))[:MOST_COLUMNS]
    partitioned = {f.source for f in state.partition_fields if f.transform == "identity"}
    known = {c.name: c.orderable for c in state.columns}
    return tuple(dict.fromkeys([*given, *(n for n in asked if known.get(n) and n not in partitioned)]))


def _tell(progress: Progress, console: Console) -> None:
    best = progress.best
    so_far = f", best so far {number(best.costs.mean_files)} files with {best.title}" if best else ""
    console.say(f"searching, {progress.stage}: {plural(progress.tried, 'layout')} tried{printable(so_far)}")
