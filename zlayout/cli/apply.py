"""The command `apply`: print the plan, ask for approval, show progress, and print the results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from zlayout import signals
from zlayout.app.apply import Run, carry_out
from zlayout.app.interrupts import Interrupts, cancel_in_background, ending
from zlayout.app.plan import ProjectPlan
from zlayout.app.plan_file import review
from zlayout.app.project import load_project
from zlayout.app.results import Applied, exit_code, result_of, with_results
from zlayout.app.rewrites import Verify
from zlayout.app.time_limit import NOTHING_LEFT, TimeLimit, left_of_window
from zlayout.cli.console import Approval, Console, name_log
from zlayout.cli.events import Events
from zlayout.cli.plan import PlanRequest, add_to_history, heading, run_report
from zlayout.cli.reports import Reports
from zlayout.cli.views import ApplyProgress, Bars, Lines, View
from zlayout.errors import CommitUnknown, Diagnostic, SpecError
from zlayout.message_text import plural
from zlayout.planner import document
from zlayout.planner.decision import PlanOptions
from zlayout.planner.model import Plan, Status, summary
from zlayout.planner.result import ResultStatus
from zlayout.planner.run_report import RunReport
from zlayout.planner.stale import Staleness
from zlayout.records.model import Command
from zlayout.report import closing, text
from zlayout.report.phrases import result_text
from zlayout.report.text import TextOptions
from zlayout.report.words import printable, size, wrapped
from zlayout.spark.session import SparkRuntime, check_pyspark
from zlayout.spec.maintenance import Maintenance


class TextShown:
    """Prints text, unless a report goes to stdout."""

    def __init__(self, console: Console, reports: Reports) -> None:
        self.console = console
        self._reports = reports

    def plan(self, report: RunReport, heading: str) -> None:
        """Print the plan, before apply asks for approval."""
        if not self._reports.take_stdout:
            self.console.result(text.render(report, self.console.text_options(), heading=heading))

    def view(self) -> View:
        """Return the view that shows the progress."""
        return Bars() if self.console.live else Lines(self.console)

    def end(self, report: RunReport, code: int, results: str = "", problems: Sequence[Diagnostic] = ()) -> int:
        """Print the results and below them the problems of the run, write the reports and return the exit code.

        Args:
            report: The plan with the results.
            code: The exit code.
            results: The results as text.
            problems: The problems of the run.
        """
        if not self._reports.take_stdout:
            self.console.result(results)
        self._diagnose(problems)
        self._reports.finish(report, self.console, code)
        return code

    def _diagnose(self, problems: Sequence[Diagnostic]) -> None:
        for diagnostic in problems:
            self.console.diagnose(diagnostic)


class JsonShown(TextShown):
    """Prints events for programs, and nothing else on stdout."""

    def __init__(self, console: Console, reports: Reports) -> None:
        super().__init__(console, reports)
        self._events = Events(console)
        self._planned = False

    def plan(self, report: RunReport, heading: str) -> None:  # noqa: ARG002 - events have no heading
        self._events.planned(report.plan)
        self._planned = True

    def view(self) -> View:
        return self._events

    def end(
        self,
        report: RunReport,
        code: int,
        results: str = "",  # noqa: ARG002 - events contain the results
        problems: Sequence[Diagnostic] = (),
    ) -> int:
        self._diagnose(problems)
        if not self._planned:
            self._events.planned(report.plan)
        try:
            self._reports.finish(report, self.console, code)
        except SpecError:
            self._events.summary(report, SpecError.exit_code)
            raise
        self._events.summary(report, code)
        return code


MAX_NAME_WIDTH = 40  # of the column with the names of tables in the results
BRIEF_BYTES = 64 * 2**20  # a rewrite of fewer bytes ends before Java's optimising compiler makes it faster
_STOPPING = "Stopping: a running commit is completed, a running rewrite is abandoned. Another signal stops at once."


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """The options of `apply` besides those of the plan.

    Attributes:
        stale: `compatible` accepts a plan file after appends to its tables, `strict` does not.
        verify: Whether the new files are read back before the commit.
        all_or_nothing: Whether one table that is refused or cannot be planned withholds all changes.
        concurrent_tables: The number of tables to rewrite at the same time.
        max_minutes: The time limit of the run, which starts with the command.
        ignore_window: Whether to rewrite tables outside of the maintenance windows of the project too.
    """

    stale: Staleness
    verify: Verify
    all_or_nothing: bool
    concurrent_tables: int
    max_minutes: float | None
    ignore_window: bool


def apply_command(
    request: PlanRequest, options: ApplyOptions, console: Console, approval: Approval, reports: Reports, output: str
) -> int:
    """Plan or read a plan file, ask for approval, carry out the plan and print the results.

    Args:
        request: The options of the plan. If SELECT is one file, this is the plan file.
        options: The other options.
        console: Where to write.
        approval: Asks whether to apply the plan.
        reports: The reports to write.
        output: `text` or `json`.

    Returns:
        The exit code: 0 if all tables are as declared, or as far as the budget and the time limit allow; 1 after a
        failure or without approval; 3 if the plan was refused before any write; 4 if some tables were refused and
        others written; 128 plus the number of the signal if one ended the run.
    """
    start = time.monotonic()
    as_events = output == "json" and not reports.take_stdout
    shown = JsonShown(console, reports) if as_events else TextShown(console, reports)
    approval.require_possible("apply")
    if len(request.select) == 1 and Path(request.select[0]).is_file():
        _refuse_options_of_plan(request)
        saved = document.read(Path(request.select[0]))
        if not saved.plan.has_changes:
            return shown.end(saved, saved.plan.exit_code, f"{closing.last_line(saved.plan)}\n")
        planned = _reviewed(request, saved.plan, options.stale)
    else:
        planned = request.plan(console)
    report, plan = run_report(planned, reports), planned.document
    shown.plan(report, heading(planned))
    if not _begins(plan, console, all_or_nothing=options.all_or_nothing):
        return shown.end(add_to_history(report, planned, Command.APPLY, reports, console), plan.exit_code)
    maintenance = None if options.ignore_window else planned.project.maintenance
    check_pyspark()
    if maintenance and left_of_window(maintenance) == NOTHING_LEFT:
        console.say(_outside(maintenance))
    elif (code := approval.declined("Apply these changes?")) is not None:
        return shown.end(report, code)
    limit = TimeLimit.of(options.max_minutes, start, left_of_window(maintenance))
    runtime = SparkRuntime(planned.project, brief=summary(plan.tables).rewrite_bytes <= BRIEF_BYTES)
    run, signalled = _carry_out(planned, options, runtime, shown, limit)
    problems = [diagnostic for applied in run.done for diagnostic in result_of(applied).problems]
    if not problems:
        runtime.discard_log()
    code = signalled or exit_code(plan, run.done)
    report = add_to_history(with_results(report, run.done), planned, Command.APPLY, reports, console)
    shown.end(report, code, _results(report, run.done, console.text_options()), problems)
    name_log(runtime, console)
    if not problems and any(r.outcome is ResultStatus.NOT_YET for r in report.results.values()):
        console.say("`zlayout plan` shows what is left, such as files that were added since the plan.")
    if undo := [result.rollback for result in report.results.values() if result.rollback]:
        console.say(f"To undo: {undo[0] if len(undo) == 1 else 'zlayout rollback TABLE --run RUN, for each table'}")
    return code


def _reviewed(request: PlanRequest, saved: Plan, stale: Staleness) -> ProjectPlan:
    options = PlanOptions(request.allow_full_rewrite, request.max_rewrite_bytes)
    project = load_project(request.project)
    return review(project, saved, tuple(request.exclude), stale, options, request.reading, request.branch)


def _begins(plan: Plan, console: Console, *, all_or_nothing: bool) -> bool:
    if plan.withheld(all_or_nothing=all_or_nothing):
        console.say(
            "Refused: nothing was written. Fix the problems above, or leave these tables out with --exclude.", "error"
        )
        return False
    if plan.only_waits:
        console.say("Nothing to apply now: all changes wait for a later run, see above.")
        return False
    if plan.has_changes and (left_out := plan.with_status(Status.REFUSED, Status.ERROR)):
        console.say(f"{plural(len(left_out), 'table')} left unchanged because of the problems above.", "error")
    return plan.has_changes


def _refuse_options_of_plan(request: PlanRequest) -> None:
    for option, given in (
        ("--include-rarely-read", request.include_rarely_read),
        ("--avoid-hot", request.avoid_hot is not None),
    ):
        if given:
            message = f"{option} cannot change the plan file {request.select[0]}"
            hint = f"leave it out, or write a new plan file: zlayout plan {option} ... --out FILE"
            raise SpecError.of("ZL085", message, hint=hint)


def _carry_out(
    plan: ProjectPlan,
    options: ApplyOptions,
    runtime: SparkRuntime,
    shown: TextShown,
    limit: TimeLimit,
) -> tuple[Run, int]:
    """Return also the exit code of a signal, 0 without one."""
    tables = len(plan.document.with_status(Status.CHANGES))
    interrupts = Interrupts(lambda: _stop(shown.console, runtime))
    progress = ApplyProgress(shown.view(), runtime, tables)
    with runtime, interrupts, progress:  # progress reads from the runtime, so it must end first
        follow = ending(interrupts, progress)
        tables_at_once, stop = options.concurrent_tables, lambda: interrupts.requested
        run = carry_out(plan, runtime, follow, options.verify, stop, tables_at_once, limit)
    if not run.interrupted:
        return run, 0
    shown.console.say(_interrupted(run, interrupts), "error")
    return run, signals.exit_code(interrupts.number)


def _interrupted(run: Run, interrupts: Interrupts) -> str:
    commits = sum(len(applied.commits) for applied in run.done)
    done = f"{plural(commits, 'commit')} made before {'remains' if commits == 1 else 'remain'}"
    if interrupts.at_once or any(isinstance(applied.error, CommitUnknown) for applied in run.done):
        done = f"{plural(commits, 'commit')} known, and a commit that was running may be in its table"
    elif not commits:
        done = "nothing was committed"
    return f"Interrupted by {signals.signal_name(interrupts.number)}: {done}. To continue, plan and apply again."


def _outside(maintenance: Maintenance) -> str:
    begins = f"{maintenance.next_start(datetime.now(UTC)):%Y-%m-%d %H:%M}"
    return f"Outside of the maintenance windows. The next one begins at {begins} ({maintenance.timezone})."


def _stop(console: Console, runtime: SparkRuntime) -> None:
    with suppress(OSError, RuntimeError):  # the terminal is closed; or the signal has interrupted another write
        console.say(f"\n{_STOPPING}", "error")
    cancel_in_background(runtime)


def _results(report: RunReport, done: Sequence[Applied], options: TextOptions) -> str:
    begun = sorted((applied for applied in done if applied.begun), key=lambda a: not result_of(a).succeeded)
    width = min(max((len(printable(applied.table)) for applied in begun), default=0), MAX_NAME_WIDTH)
    lines = [f"{printable(applied.table):<{width}}  {result_text(result_of(applied))}" for applied in begun]
    if deferred := [applied for applied in done if not applied.begun]:
        bytes_left = sum(group.bytes for applied in deferred for group in applied.deferred)
        lines.append(f"{plural(len(deferred), 'table')} ({size(bytes_left)}) left for a later run by the time limit")
    pieces = [piece for line in lines for piece in wrapped(line, options.width, 6)]
    last = [options.style("title", piece) for piece in wrapped(closing.last_line(report), options.width, 0)]
    return "\n" + "".join(f"{line}\n" for line in (*pieces, "", *last))
