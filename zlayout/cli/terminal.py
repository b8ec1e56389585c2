"""The ui of the command line: it prints what a session does, asks for approval, and writes plans, drift and reports.

The reports are those of `--report FORMAT=PATH`, and the step summary and the outputs for GitHub Actions.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from zlayout.cli.console import Console, ReadingShown
from zlayout.errors import Diagnostic, SpecError
from zlayout.formats.base import Event, GroupFailed, Notice, Progress, Stage
from zlayout.planner import document
from zlayout.planner.model import NOT_REVIEWED, Plan, Status
from zlayout.planner.run_report import RunReport
from zlayout.process import signal_of
from zlayout.report import markdown, text
from zlayout.report.formats import REPORTERS, check_available, seen_from, without_values
from zlayout.report.words import printable
from zlayout.session.files import append, hint_for, write_result
from zlayout.session.plan import ProjectPlan
from zlayout.session.plan_file import write_document
from zlayout.session.results import MAX_FILES_DRAWN_IN_PLAN_FILE, ApplyEvent, TableEvent, with_pictures
from zlayout.session.session import PlanRequest, Ui
from zlayout.spark.session import SparkRuntime
from zlayout.text import plural, size

# Exit codes of a plan, with `--detailed-exitcode`.
CHANGES = 2
WORSE = 5
_STAGES = {
    Stage.STARTING_SPARK: "starting Spark",
    Stage.STARTING: "starting",
    Stage.CHANGING_SETTINGS: "changing settings",
    Stage.REWRITING: "rewriting",
    Stage.COMMITTING: "committing",
    Stage.REBASING: "rebasing",
    Stage.RECORDING: "recording the layout",
    Stage.OBSERVING: "reading the table again",
    Stage.REPLAYING: "replaying queries",
}


def stage_text(progress: Progress) -> str:
    """Return the stage in words, with its detail."""
    return f"{_STAGES[progress.stage]} {progress.detail}".rstrip()


def starting_text(what: str) -> str:
    """Return what is waited for while Spark starts, as a stage."""
    return printable(f"{_STAGES[Stage.STARTING_SPARK]}: {what}")


def describe(event: Event) -> str:
    """Write an event as a line of text."""
    if isinstance(event, Notice):
        return printable(f"{event.diagnostic.severity}: {event.diagnostic}")
    if isinstance(event, GroupFailed):
        return f"{plural(len(event.groups), 'group')} dropped: {printable(str(event.error))}"
    if event.kind in ("rewrite", "rollback"):
        rebased = f", {plural(event.rebased, 'row')} rebased" if event.rebased else ""
        files = f"{event.files_removed:,} -> {event.files_added:,} files"
        return f"commit {event.version}: {files}, {size(event.bytes_added)}{rebased}"
    what = "settings changed" if event.kind == "settings" else "layout recorded"
    return f"commit {event.version}: {what}"


class Terminal(Ui):
    """Prints events as lines on stderr. A command that starts Spark names its log after an error."""

    owns_process = True

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def reading(self) -> ReadingShown:
        return ReadingShown(self.console)

    def working(self, runtime: SparkRuntime) -> AbstractContextManager[object]:
        runtime.waiting = lambda what: self.console.say(starting_text(what))
        return self._naming_log(runtime)

    def event(self, event: ApplyEvent) -> None:
        if isinstance(event, Progress):
            self.console.say(f"{stage_text(event)}: {event.table}")
        elif isinstance(event, TableEvent):
            self.console.say(describe(event.event))

    def diagnose(self, diagnostic: Diagnostic) -> None:
        self.console.diagnose(diagnostic)

    def name_log(self, log: Path | None) -> None:
        """Write the path of Spark's log, if it is kept."""
        if log is not None:
            self.console.say(f"Spark's log: {log}")

    @contextmanager
    def _naming_log(self, runtime: SparkRuntime) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if signal_of(error) is not None:
                runtime.discard_log()
            self.name_log(runtime.log_path)
            raise


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


# Reports.


STDOUT = "-"
# The formats that GitHub reads. It identifies files by their path in the repository.
FORMATS_WITH_REPOSITORY_PATHS = ("github", "sarif", "markdown")
# GitHub ignores a step summary of more than 1 MiB.
MAX_SUMMARY_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports that the user requested.

    Attributes:
        wanted: (format, path) of each report; path `-` is stdout.
        show_values: Whether reports contain the names of partitions.
    """

    wanted: tuple[tuple[str, str], ...] = ()
    show_values: bool = False

    @property
    def take_stdout(self) -> bool:
        """Whether a report goes to stdout, so that nothing else may be written there."""
        return any(path == STDOUT for _, path in self.wanted)

    @property
    def need_pictures(self) -> bool:
        """Whether a report contains pictures."""
        return any(name == "html" for name, _ in self.wanted)

    def finish(self, report: Plan | RunReport, console: Console, exit_code: int) -> None:
        """Write all reports, and in GitHub Actions the step summary and the outputs. Raises SpecError ZL061, ZL086.

        exit_code: the exit code of the command, which is an output.
        """
        self.write(report, console)
        if os.environ.keys() & {"GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"}:
            report_to_github(seen_from(self._shown(report), _below_checkout(os.environ)), exit_code, os.environ)

    def write(self, report: Plan | RunReport, console: Console) -> None:
        """Write all reports. Raises SpecError ZL061 and ZL086."""
        if not self.wanted:
            return
        shown = self._shown(report)
        for name, path in self.wanted:
            text = REPORTERS[name](
                seen_from(shown, _below_checkout(os.environ)) if name in FORMATS_WITH_REPOSITORY_PATHS else shown
            )
            if path == STDOUT:
                console.result(text)
                continue
            write_result(Path(path), text, "ZL061", f"the report {path}")
            console.say(f"{name} report written to {path}")

    def _shown(self, report: Plan | RunReport) -> RunReport:
        return RunReport.of(report) if self.show_values else without_values(report)


def _below_checkout(environ: Mapping[str, str]) -> str:
    workspace = environ.get("GITHUB_WORKSPACE")
    if not workspace:
        return ""
    relative = os.path.relpath(os.getcwd(), workspace)
    return "" if relative.startswith("..") else Path(relative).as_posix()


def parse_reports(options: Sequence[str], show_values: bool) -> Reports:
    """Parse the values of `--report`. Raises SpecError ZL060 to ZL062, before any table is read."""
    wanted = []
    for option in options:
        name, sign, path = option.partition("=")
        if not sign or not path or name not in REPORTERS:
            raise SpecError.of(
                "ZL060",
                f"expected FORMAT=PATH for --report, found {option}",
                hint=f"use one of {', '.join(REPORTERS)} as FORMAT, and a file or - (stdout) as PATH",
            )
        check_available(name)
        folder = Path(path).parent
        if path != STDOUT and not folder.is_dir():
            raise SpecError.of(
                "ZL061", f"cannot write the report {path}: no folder {folder}", hint="create the folder first"
            )
        wanted.append((name, path))
    return Reports(tuple(wanted), show_values)


def report_to_github(report: RunReport, exit_code: int, environ: Mapping[str, str]) -> None:
    """Append to the files that GITHUB_STEP_SUMMARY and GITHUB_OUTPUT name, if set. Raises SpecError ZL061, ZL086."""
    if path := environ.get("GITHUB_STEP_SUMMARY"):
        _append(path, markdown.render(report, MAX_SUMMARY_BYTES, None))
    if path := environ.get("GITHUB_OUTPUT"):
        changed = len(report.plan.with_status(Status.CHANGES))
        unseen = sum(any(d.code == NOT_REVIEWED for d in table.diagnostics) for table in report.plan.tables)
        has_changes = str(report.plan.has_changes).lower()
        not_reviewed = f"tables_not_reviewed={unseen}\n" if unseen else ""
        _append(path, f"has_changes={has_changes}\nexit_code={exit_code}\ntables_changed={changed}\n{not_reviewed}")


def _append(path: str, text: str) -> None:
    try:
        append(Path(path), text)
    except OSError as error:
        reason, hint = error.strerror or str(error), hint_for(error, "check the folder and its permissions")
        raise SpecError.of("ZL061", f"cannot write the report {path}: {reason}", hint=hint) from error
