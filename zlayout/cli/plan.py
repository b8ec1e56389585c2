"""The commands `plan`, `show` and `drift`: print a plan, write reports, and return the exit code."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from zlayout.cli.console import Console, ReadingShown
from zlayout.cli.options import HERE
from zlayout.cli.reports import Reports
from zlayout.message_text import plural
from zlayout.planner import document
from zlayout.planner.run_report import RunReport
from zlayout.records.history import Command
from zlayout.report import text
from zlayout.session.concurrent_reads import Reading
from zlayout.session.history import append_to_history, with_trends
from zlayout.session.plan import DriftReport, ProjectPlan, compare, options_of, plan_project
from zlayout.session.plan_file import write_document
from zlayout.session.project import load_project
from zlayout.session.results import MAX_FILES_DRAWN_IN_PLAN_FILE, with_pictures

CHANGES = 2
WORSE = 5


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The options of the commands that plan."""

    project: Path
    select: Sequence[str]
    exclude: Sequence[str]
    reading: Reading
    allow_full_rewrite: bool = False
    max_rewrite_bytes: int | None = None
    sample: bool | None = None
    branch: str | None = None
    avoid_hot: timedelta | None = None
    include_rarely_read: bool = False

    def command(self, name: str, planfile: Path | None = None) -> list[str]:
        """Return the command line of the command `name` with these options, or with the plan file if there is one."""
        where = [] if self.branch is None else ["--branch", self.branch]
        where += [] if self.project == HERE else ["--project", str(self.project)]
        if planfile is not None:
            return ["zlayout", name, str(planfile), *where]
        excluded = [part for name in self.exclude for part in ("--exclude", name)]
        full = ["--allow-full-rewrite"] if self.allow_full_rewrite else []
        budget = [] if self.max_rewrite_bytes is None else ["--max-rewrite-bytes", str(self.max_rewrite_bytes)]
        hot = [] if self.avoid_hot is None else ["--avoid-hot", f"{int(self.avoid_hot.total_seconds()) // 60}m"]
        rarely_read = ["--include-rarely-read"] if self.include_rarely_read else []
        return ["zlayout", name, *self.select, *excluded, *full, *budget, *hot, *rarely_read, *where]

    def plan(self, console: Console) -> ProjectPlan:
        """Load the project and plan. Raises the errors of `zlayout.load_project` and `zlayout.plan`."""
        with ReadingShown(console) as shown:
            reading = replace(self.reading, on_progress=shown)
            project = load_project(self.project)
            limits = (self.allow_full_rewrite, self.max_rewrite_bytes, self.avoid_hot, self.include_rarely_read)
            options = options_of(project, *limits)
            return plan_project(project, self.select, self.exclude, options, reading, self.sample, self.branch)


def plan_command(
    request: PlanRequest,
    console: Console,
    out: Path | None,
    output: str,
    reports: Reports,
    *,
    detailed_exitcode: bool = False,
    allow_worse: bool = False,
) -> int:
    """Write the plan file and the reports, print the plan, and return the exit code.

    With `detailed_exitcode`, the exit code is CHANGES if there are changes. It is WORSE if queries would read more
    bytes after them, unless `allow_worse` is set. out: the plan file, None for none.
    """
    planned = request.plan(console)
    report = add_to_history(run_report(planned, reports), planned, Command.PLAN, reports, console)
    if out is not None:
        if not reports.need_pictures:
            report = with_pictures(planned.document, planned.planned, MAX_FILES_DRAWN_IN_PLAN_FILE)
        write_document(report, out)
        console.say(f"plan written to {out}")
    _print(report, heading(planned), output, console, reports)
    if planned.has_changes and not planned.document.only_waits and output == "text" and not reports.take_stdout:
        console.say(f"To apply: {shlex.join(request.command('apply', out))}")
    code = planned.document.exit_code
    if not code and detailed_exitcode and planned.has_changes:
        code = WORSE if planned.document.reads_more and not allow_worse else CHANGES
        if code == WORSE:
            console.say(
                "Queries would read more bytes than now (ZL440). If this is intended, use --allow-worse.", "warning"
            )
    reports.finish(report, console, code)
    return code


def show_command(planfile: Path, output: str, console: Console, reports: Reports) -> int:
    """Print a saved plan and write its reports."""
    report = document.read(planfile)
    _print(report, f"zlayout {report.plan.zlayout_version}  plan file {planfile}", output, console, reports)
    reports.write(report, console)
    return 0


def drift_command(request: PlanRequest, console: Console, output: str, reports: Reports) -> int:
    """Print the tables that are not as declared, or whose layout no longer fits the workload.

    Returns:
        1 if a table cannot be planned; else 2 if a table is not as declared or its layout no longer fits; else 0.
    """
    with ReadingShown(console) as shown:
        project = load_project(request.project)
        reading = replace(request.reading, on_progress=shown)
        planned = compare(project, request.select, request.exclude, reading, request.sample, request.branch)
    found = DriftReport(planned.document)
    report = replace(run_report(planned, reports), drift=True)
    report = add_to_history(report, planned, Command.DRIFT, reports, console)
    code = 1 if found.failed else CHANGES if found.drifted or found.unfit else 0
    _print(report, heading(planned, "drift"), output, console, reports)
    if found.drifted and output == "text" and not reports.take_stdout:
        console.say(f"To plan: {shlex.join(request.command('plan'))}")
    reports.finish(report, console, code)
    return code


def run_report(planned: ProjectPlan, reports: Reports) -> RunReport:
    """Return a run report with the plan, and with pictures if a requested report shows them."""
    return with_pictures(planned.document, planned.planned) if reports.need_pictures else RunReport(planned.document)


def add_to_history(
    report: RunReport, planned: ProjectPlan, command: Command, reports: Reports, console: Console
) -> RunReport:
    """Append to the history of the project. Return the report, with trends if a requested report shows them."""
    problems = append_to_history(planned.project, planned.planned, report, command)
    if reports.need_pictures and not problems:
        report, problems = with_trends(planned.project, report)
    for diagnostic in problems:
        console.diagnose(diagnostic)
    return report


def heading(planned: ProjectPlan, command: str = "") -> str:
    """Return the first line of the text report. command: the command to name, '' for plan and apply."""
    project = planned.project
    layouts, tables = plural(len(project.layouts) + len(project.rules), "layout"), plural(len(planned.planned), "table")
    name = f"zlayout {planned.document.zlayout_version}{command and f' {command}'}"
    return f"{name}  {layouts}, {tables} read in {planned.seconds:.1f}s"


def _print(report: RunReport, heading: str, output: str, console: Console, reports: Reports) -> None:
    if not reports.take_stdout:
        as_json = output == "json"
        shown = document.to_json(report) if as_json else text.render(report, console.text_options(), heading=heading)
        console.result(shown)
