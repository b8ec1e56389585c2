"""`plan` and `show`: read tables, print the plan."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import zlayout
from zlayout.app.pictures import CHEAP_FILES, with_pictures
from zlayout.app.plan import Planned, as_plan, plan_tables
from zlayout.cli.console import Console
from zlayout.cli.files import write_whole
from zlayout.cli.project import open_project
from zlayout.cli.reports import Reports
from zlayout.cli.select import named_layouts, select_layouts
from zlayout.errors import SpecError
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.planner import document
from zlayout.planner.diff import PlanOptions
from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport
from zlayout.report import text
from zlayout.report.words import plural
from zlayout.spark.session import SparkRuntime
from zlayout.spec.layouts import size_in_bytes
from zlayout.spec.model import LayoutSpec, Project

CHANGES = 2


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the user asked to plan."""

    project: Path
    select: tuple[str, ...]
    exclude: tuple[str, ...]
    allow_full_rewrite: bool
    parallelism: int
    max_rewrite_bytes: int | None = None

    @property
    def options(self) -> PlanOptions:
        return PlanOptions(self.allow_full_rewrite, self.max_rewrite_bytes)


@dataclass(frozen=True, slots=True)
class Planning:
    """A finished round of planning, with what is needed to go on and apply it."""

    project: Project
    runtime: SparkRuntime
    backends: Mapping[str, Backend]
    planned: tuple[Planned, ...]
    seconds: float

    @property
    def plan(self) -> Plan:
        return as_plan(self.planned)

    def document(self, *, pictures: bool, out: bool = False) -> RunReport:
        """The plan, with what the HTML report draws if `pictures`; for a plan file (`out`), if it is cheap to draw."""
        if pictures:
            return with_pictures(self.plan, self.planned)
        return with_pictures(self.plan, self.planned, CHEAP_FILES) if out else RunReport(self.plan)

    def heading(self) -> str:
        count = len(self.planned)
        read = f"{plural(count, 'table')} read in {self.seconds:.1f}s"
        return f"zlayout {zlayout.__version__}  {plural(len(self.project.layouts), 'layout')}, {read}"


def plan_request(
    project: Path,
    select: Sequence[str] | None,
    exclude: Sequence[str] | None,
    allow_full_rewrite: bool,
    parallelism: int,
    max_rewrite_bytes: str | None = None,
) -> PlanRequest:
    """The options of the command line as a request. Raises SpecError ZL050."""
    budget = parse_budget(max_rewrite_bytes)
    return PlanRequest(project, tuple(select or ()), tuple(exclude or ()), allow_full_rewrite, parallelism, budget)


def parse_budget(text: str | None) -> int | None:
    """`100GiB` or a number of bytes; None for none. Raises SpecError ZL050."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        return size_in_bytes(text)
    except (KeyError, ArithmeticError) as error:
        raise SpecError.of(
            "ZL050", f"expected a size for --max-rewrite-bytes, found {text!r}", hint="such as 100GiB"
        ) from error


def make_plan(request: PlanRequest, tables: Collection[str] | None = None) -> Planning:
    """Load the project and plan the selected tables; `tables` are taken by their names instead of `request.select`."""
    project = open_project(request.project)
    if tables is None:
        specs = select_layouts(project.layouts, request.select, request.exclude)
    else:
        named = named_layouts(project.layouts, tables)
        specs = tuple(spec for spec in select_layouts(project.layouts, (), request.exclude) if spec in named)
    runtime = SparkRuntime(project)
    backends = backends_of(project, runtime, specs)
    start = time.monotonic()
    planned = plan_tables(specs, backends, request.options, request.parallelism)
    return Planning(project, runtime, backends, planned, time.monotonic() - start)


def backends_of(project: Project, runtime: SparkRuntime, specs: tuple[LayoutSpec, ...]) -> dict[str, Backend]:
    names = sorted({spec.table.catalog for spec in specs})
    return {name: backend_for(project.catalogs[name], runtime) for name in names}


def plan_command(
    request: PlanRequest, console: Console, out: Path | None, output: str, detailed_exitcode: bool, reports: Reports
) -> int:
    planning = make_plan(request)
    report = planning.document(pictures=reports.need_pictures, out=out is not None)
    plan = report.plan
    code = plan.exit_code or (CHANGES if detailed_exitcode and plan.has_changes else 0)
    if out is not None:
        write_plan(out, report)
        console.say(f"plan written to {out}")
    _show(report, planning.heading(), output, console, reports)
    reports.finish(report, console, code)
    return code


def show_command(planfile: Path, output: str, console: Console, reports: Reports) -> int:
    report = document.read(planfile)
    _show(report, f"zlayout {report.plan.zlayout_version}  plan file {planfile}", output, console, reports)
    reports.write(report, console)
    return 0


def _show(report: RunReport, heading: str, output: str, console: Console, reports: Reports) -> None:
    """Print the plan, unless a report takes its place on stdout."""
    if reports.take_stdout:
        return
    console.result(
        document.to_json(report) if output == "json" else text.render(report, console.text_options(), heading=heading)
    )


def write_plan(path: Path, report: RunReport) -> None:
    """Write the plan file whole or not at all. Raises SpecError ZL043."""
    if str(path) == "-":
        raise SpecError.of("ZL043", "expected a file for --out, found -", hint="--output json prints the plan")
    text = document.to_json(report)
    if len(text) > document.MAX_BYTES:
        message = f"the plan is larger than {document.MAX_BYTES} bytes, which no command reads"
        raise SpecError.of("ZL043", message, hint="plan fewer tables at once, or less with --max-rewrite-bytes")
    try:
        write_whole(path, text)
    except OSError as error:
        raise SpecError.of("ZL043", f"cannot write the plan to {path}: {error.strerror}") from error
