"""What the commands `plan`, `show` and `drift` print and write."""

from __future__ import annotations

import shlex
from pathlib import Path

from zlayout.cli.console import Console
from zlayout.cli.reports import Reports
from zlayout.cli.terminal import Terminal
from zlayout.planner import document
from zlayout.planner.model import Status
from zlayout.planner.run_report import RunReport
from zlayout.report import text
from zlayout.session.plan import ProjectPlan
from zlayout.session.plan_file import write_document
from zlayout.session.results import MAX_FILES_DRAWN_IN_PLAN_FILE, with_pictures
from zlayout.session.session import PlanRequest
from zlayout.text import plural

CHANGES = 2
WORSE = 5


def command_line(name: str, request: PlanRequest, project: Path, planfile: Path | None = None) -> str:
    """Return the command line of the command `name` with these options, or with the plan file if there is one."""
    where = [] if request.branch is None else ["--branch", request.branch]
    where += [] if project == Path() else ["--project", str(project)]
    if planfile is not None:
        return shlex.join(["zlayout", name, str(planfile), *where])
    excluded = [part for pattern in request.exclude for part in ("--exclude", pattern)]
    full = ["--allow-full-rewrite"] if request.options.allow_full_rewrite else []
    size = request.options.max_rewrite_bytes
    budget = [] if size is None else ["--max-rewrite-bytes", str(size)]
    avoided = [] if request.avoid_hot is None else ["--avoid-hot", f"{int(request.avoid_hot.total_seconds()) // 60}m"]
    rarely_read = ["--include-rarely-read"] if request.options.include_rarely_read else []
    decay = ["--only-decay"] if request.options.only_decay else []
    limits = [*full, *budget, *avoided, *rarely_read, *decay]
    return shlex.join(["zlayout", name, *request.select, *excluded, *limits, *where])


class PlanTerminal(Terminal):
    """Prints a plan, and writes the plan file and the reports.

    code: The exit code. With `detailed_exitcode`, it is CHANGES if there are changes. It is WORSE if queries would read
    more bytes after them, unless `allow_worse` is set.
    """

    def __init__(
        self,
        console: Console,
        output: str,
        reports: Reports,
        out: Path | None = None,
        next_command: str = "",
        *,
        detailed_exitcode: bool = False,
        allow_worse: bool = False,
    ) -> None:
        """Store the options. out: The plan file, None for none. next_command: The one to run next."""
        super().__init__(console)
        self.needs_pictures = reports.need_pictures
        self.code = 0
        self._output, self._reports = output, reports
        self._out, self._next_command = out, next_command
        self._detailed_exitcode, self._allow_worse = detailed_exitcode, allow_worse

    def show(self, planned: ProjectPlan, done: RunReport | None = None) -> None:
        assert done is not None
        plan, console = planned.document, self.console
        if self._out is not None:
            if not self.needs_pictures:
                done = with_pictures(plan, planned.planned, MAX_FILES_DRAWN_IN_PLAN_FILE)
            write_document(done, self._out)
            console.say(f"plan written to {self._out}")
        self.print(done, heading(planned))
        if planned.has_changes and not plan.only_waits:
            self.say_next(f"To apply: {self._next_command}")
        self.code = plan.exit_code
        if not self.code and self._detailed_exitcode and planned.has_changes:
            self.code = WORSE if plan.reads_more and not self._allow_worse else CHANGES
            if self.code == WORSE:
                console.say(
                    "Queries would read more bytes than now (ZL440). If this is intended, use --allow-worse.", "warning"
                )
        self._reports.finish(done, console, self.code)

    def print(self, report: RunReport, heading: str) -> None:
        """Print a report, unless another one goes to stdout."""
        if not self._reports.take_stdout:
            options = self.console.text_options()
            as_json = self._output == "json"
            self.console.result(document.to_json(report) if as_json else text.render(report, options, heading=heading))

    def say_next(self, line: str) -> None:
        """Write which command comes next, if people read the output."""
        if self._output == "text" and not self._reports.take_stdout:
            self.console.say(line)


class DriftTerminal(PlanTerminal):
    """Prints a drift report.

    code: 1 if a table cannot be planned; else 2 if a table is not as declared or its layout no longer fits; else 0.
    """

    def show(self, planned: ProjectPlan, done: RunReport | None = None) -> None:
        assert done is not None
        plan = planned.document
        failed, drifted = plan.with_status(Status.ERROR), plan.not_as_declared
        self.code = 1 if failed else CHANGES if drifted or plan.unfit else 0
        self.print(done, heading(planned, "drift"))
        if drifted:
            self.say_next(f"To plan: {self._next_command}")
        self._reports.finish(done, self.console, self.code)


def show_command(planfile: Path, output: str, console: Console, reports: Reports) -> int:
    """Print a saved plan and write its reports."""
    report = document.read(planfile)
    heading = f"zlayout {report.plan.zlayout_version}  plan file {planfile}"
    PlanTerminal(console, output, reports).print(report, heading)
    reports.write(report, console)
    return 0


def heading(planned: ProjectPlan, command: str = "") -> str:
    """Return the first line of the text report. command: the command to name, '' for plan and apply."""
    project = planned.project
    layouts, tables = plural(len(project.layouts) + len(project.rules), "layout"), plural(len(planned.planned), "table")
    name = f"zlayout {planned.document.zlayout_version}{command and f' {command}'}"
    return f"{name}  {layouts}, {tables} read in {planned.seconds:.1f}s"
