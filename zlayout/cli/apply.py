"""`apply`: plan, ask, execute, look again."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from zlayout.app.apply import ATTEMPTS, Applied, apply_table, check_saved, exit_code, new_run
from zlayout.app.results import result_of, with_results
from zlayout.cli.console import Console
from zlayout.cli.interrupts import MESSAGE, Interrupts
from zlayout.cli.plan import Planning, PlanRequest, make_plan
from zlayout.cli.progress import ApplyProgress
from zlayout.cli.reports import Reports
from zlayout.cli.select import select_layouts
from zlayout.cli.shown import JsonShown, Shown, TextShown
from zlayout.cli.spark_log import tell_log
from zlayout.errors import Refused, SpecError
from zlayout.planner import document
from zlayout.planner.decision import Decision
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.stale import Staleness
from zlayout.report import text
from zlayout.report.text import result_text
from zlayout.report.words import printable
from zlayout.spark.session import SparkRuntime

INTERRUPTED = 130


def apply_command(
    request: PlanRequest,
    console: Console,
    auto_approve: bool,
    stale: Staleness,
    verify: Literal["gate", "full"],
    reports: Reports,
    output: str = "text",
) -> int:
    """Exit code: 0 all as declared now, 1 something failed, 3 refused before any write, 130 interrupted."""
    as_events = output == "json" and not reports.take_stdout
    shown = JsonShown(console, reports) if as_events else TextShown(console, reports)
    if not auto_approve and not console.interactive:
        raise SpecError.of(
            "ZL046",
            "apply asks before it writes, and there is no terminal to ask on",
            hint="pass --auto-approve",
        )
    reviewed = _is_plan_file(request)
    if reviewed:
        read = document.read(Path(request.select[0]))
        saved = read.plan
        if not saved.has_changes:
            return shown.end(read, saved.exit_code, f"{text.last_line(saved)}\n")
        planning = _check_saved(saved, request, stale)
    else:
        planning = make_plan(request)
    report = planning.document(pictures=reports.need_pictures)
    if reviewed:
        tables = (*report.plan.tables, *_not_changing(saved, planning, request))
        report = replace(report, plan=replace(report.plan, tables=tables))
    plan = report.plan
    shown.plan(report, planning.heading())
    if plan.with_status(Status.REFUSED):
        console.say(
            "Refused; nothing was written. Correct the above, or leave those tables out with --exclude.", "error"
        )
        return shown.end(report, plan.exit_code)
    if not plan.has_changes:
        return shown.end(report, plan.exit_code)
    if not auto_approve and console.ask("\nApply these changes? Only 'yes' is accepted: ") != "yes":
        console.say("Not applied; nothing was written.")
        return shown.end(report, 1)
    done, code = _execute(planning, request, shown, verify, 1 if reviewed else ATTEMPTS)
    problems = [diagnostic for applied in done for diagnostic in result_of(applied).problems]
    for diagnostic in problems:
        console.diagnose(diagnostic)
    if not problems:
        planning.runtime.discard_log()
    tell_log(planning.runtime, console)
    finished = with_results(report, done)
    code = code if code == INTERRUPTED else plan.exit_code or code
    return shown.end(finished, code, _outcomes(done, console.text_options().width))


def _is_plan_file(request: PlanRequest) -> bool:
    return len(request.select) == 1 and Path(request.select[0]).is_file()


def _check_saved(saved: Plan, request: PlanRequest, stale: Staleness) -> Planning:
    """The saved plan's tables; one that is not as the plan says any more as it is now, refused (ZL203)."""
    changing = {t.table: t for t in saved.with_status(Status.CHANGES)}
    planning = make_plan(request, changing)
    checked = []
    for planned in planning.planned:
        table = planned.spec.table
        backend = planning.backends[table.catalog]
        try:
            checked.append(check_saved(changing[str(table)], planned, backend, request.options, stale))
        except Refused as why:
            now = replace(planned.decision.plan, status=Status.REFUSED, diagnostics=why.diagnostics)
            checked.append(replace(planned, decision=Decision(now)))
    return replace(planning, planned=tuple(checked))


def _not_changing(saved: Plan, planning: Planning, request: PlanRequest) -> tuple[TablePlan, ...]:
    """What the saved plan could not read, or refused: as told then, unless left out now."""
    chosen = {str(spec.table) for spec in select_layouts(planning.project.layouts, (), request.exclude)}
    return tuple(t for t in (*saved.with_status(Status.ERROR), *saved.with_status(Status.REFUSED)) if t.table in chosen)


def _execute(
    planning: Planning, request: PlanRequest, shown: Shown, verify: Literal["gate", "full"], attempts: int
) -> tuple[list[Applied], int]:
    """Apply table after table; what was done to each, and the exit code."""
    changing = [p for p in planning.planned if p.decision.plan.status is Status.CHANGES]
    done: list[Applied] = []
    runtime = planning.runtime
    interrupts = Interrupts(lambda: _stop(shown.console, runtime, progress))
    progress = ApplyProgress(shown.view(), runtime, [str(p.spec.table) for p in changing], interrupts)
    notify, announce = progress.notify, progress.announce
    try:
        with interrupts, progress:
            for planned in changing:
                applied = new_run(planned)
                done.append(applied)
                progress.start(applied.table, applied.run_id)
                backend = planning.backends[planned.spec.table.catalog]
                apply_table(planned, backend, request.options, applied, notify, announce, verify, attempts)
                applied.interrupted = interrupts.requested and applied.exit_code != 0
                progress.finish(applied)
                interrupts.check()
    except KeyboardInterrupt:
        done[-1].interrupted = done[-1].interrupted or done[-1].after is None
        shown.console.say("Interrupted. What was committed stays committed.", "error")
        return done, INTERRUPTED
    finally:
        runtime.stop()
    return done, exit_code(done)


def _stop(console: Console, runtime: SparkRuntime, progress: ApplyProgress) -> None:
    """The first Ctrl-C: end what may be abandoned at once."""
    console.say(f"\n{MESSAGE}", "error")
    # This thread may be waiting for an answer on its connection to the JVM; another thread has its own.
    threading.Thread(target=cancel_jobs, args=(runtime, progress), daemon=True).start()


def cancel_jobs(runtime: SparkRuntime, progress: ApplyProgress, pause: float = 0.5) -> None:
    """Cancel Spark's jobs, those that start later too, for as long as what runs may be abandoned."""
    while progress.abandonable:
        with suppress(Exception):  # a session that is starting or ending has no jobs to cancel
            if runtime.started:
                runtime.session.sparkContext.cancelAllJobs()
        time.sleep(pause)


def _outcomes(done: Sequence[Applied], width: int) -> str:
    lines = (f"{printable(applied.table)}  {result_text(result_of(applied))}" for applied in done)
    return "\n" + "".join(f"{piece}\n" for line in lines for piece in text.wrapped(line, width, 6))
