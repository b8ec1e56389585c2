"""`apply`: plan, ask, execute, look again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from zlayout.applying import ATTEMPTS, Applied, apply_table, check_saved, new_run
from zlayout.backends.base import GroupFailed, Notice, Outcome
from zlayout.cli.console import Console
from zlayout.cli.plan import Planning, PlanRequest, make_plan
from zlayout.cli.progress import ProgressView
from zlayout.errors import Diagnostic, SpecError
from zlayout.plan import document
from zlayout.plan.model import Plan
from zlayout.plan.stale import Staleness
from zlayout.report import text
from zlayout.report.words import plural, printable, size

INTERRUPTED = 130


def apply_command(
    request: PlanRequest, console: Console, auto_approve: bool, stale: Staleness, verify: Literal["gate", "full"]
) -> int:
    """Exit code: 0 all as declared now, 1 something failed, 3 refused before any write, 130 interrupted."""
    if not auto_approve and not console.interactive:
        raise SpecError.of(
            "ZL046",
            "apply asks before it writes, and there is no terminal to ask on",
            hint="pass --auto-approve",
        )
    if _is_plan_file(request):
        saved = document.read(Path(request.select[0]))
        if not saved.has_changes:
            console.result(f"{text.last_line(saved)}\n")
            return saved.exit_code
        planning = _check_saved(saved, request, stale)
    else:
        planning = make_plan(request)
    plan = planning.plan
    console.result(text.render(plan, console.text_options(), heading=planning.heading()))
    if plan.with_status("refused"):
        console.say(
            "Refused; nothing was written. Correct the above, or leave those tables out with --exclude.", "error"
        )
        return plan.exit_code
    if not plan.has_changes:
        return plan.exit_code
    if not auto_approve and console.ask("\nApply these changes? Only 'yes' is accepted: ") != "yes":
        console.say("Not applied; nothing was written.")
        return 1
    return max(_execute(planning, request, console, verify), plan.exit_code)


def _is_plan_file(request: PlanRequest) -> bool:
    return len(request.select) == 1 and Path(request.select[0]).is_file()


def _check_saved(saved: Plan, request: PlanRequest, stale: Staleness) -> Planning:
    """The saved plan's tables, each checked against the table as it is now. Raises Refused ZL203."""
    changing = {t.table: t for t in saved.with_status("changes")}
    planning = make_plan(replace(request, select=tuple(changing)))
    checked = tuple(
        check_saved(changing[str(p.spec.table)], p, planning.backends[p.spec.table.catalog], request.options, stale)
        for p in planning.planned
    )
    return replace(planning, planned=checked)


def _execute(planning: Planning, request: PlanRequest, console: Console, verify: Literal["gate", "full"]) -> int:
    changing = [p for p in planning.planned if p.decision.plan.status == "changes"]
    done: list[Applied] = []
    view = ProgressView(console, planning.runtime, [str(p.spec.table) for p in changing])
    code = 0
    attempts = 1 if _is_plan_file(request) else ATTEMPTS
    try:
        with view:
            for planned in changing:
                done.append(new_run(planned))
                view.start(done[-1].table)
                backend = planning.backends[planned.spec.table.catalog]
                apply_table(planned, backend, request.options, done[-1], view.notify, view.announce, verify, attempts)
                view.finish(done[-1])
    except KeyboardInterrupt:
        console.say("Interrupted. What was committed stays committed:", "error")
        code = INTERRUPTED
    console.result("\n" + "".join(_report(applied) for applied in done))
    for applied in done:
        for diagnostic in _problems(applied):
            console.diagnose(diagnostic)
    planning.runtime.stop()
    return code or max((applied.exit_code for applied in done), default=0)


def _report(applied: Applied) -> str:
    commits = applied.commits
    rewrites = [c for c in commits if c.kind == "rewrite"]
    files = f"{sum(c.files_removed for c in rewrites):,} -> {sum(c.files_added for c in rewrites):,} files"
    written = size(sum(c.bytes_added for c in rewrites))
    made = (
        f"{plural(len(commits), 'commit')}: {files}, {written} written" if rewrites else plural(len(commits), "commit")
    )
    return f"{printable(applied.table)}  {_outcome(applied)}; {made}; run {applied.run_id}\n"


def _outcome(applied: Applied) -> str:
    if applied.error is not None:
        return "FAILED"
    if applied.after is None or applied.after.status == "error":
        return "UNKNOWN"
    return "as declared" if applied.after.status == "unchanged" else "NOT YET as declared"


def _problems(applied: Applied) -> Sequence[Diagnostic]:
    problems = list(applied.error.diagnostics) if applied.error else []
    still_open = applied.after is None or applied.after.status != "unchanged"
    for failure in applied.failures if still_open else ():
        problems += failure.error.diagnostics
    return problems


def describe(outcome: Outcome) -> str:
    """One outcome as a line of progress."""
    if isinstance(outcome, Notice):
        return printable(f"{outcome.diagnostic.severity}: {outcome.diagnostic}")
    if isinstance(outcome, GroupFailed):
        return f"{plural(len(outcome.groups), 'group')} dropped: {printable(str(outcome.error))}"
    if outcome.kind == "rewrite":
        return (
            f"version {outcome.version}: {outcome.files_removed:,} -> {outcome.files_added:,} files, "
            f"{size(outcome.bytes_added)}"
        )
    what = "settings changed" if outcome.kind == "settings" else "layout recorded"
    return f"version {outcome.version}: {what}"
