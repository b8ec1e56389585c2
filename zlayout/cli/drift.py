"""`drift`: has any table drifted? Read-only, for CI."""

from __future__ import annotations

from zlayout.cli.console import Console
from zlayout.cli.plan import CHANGES, PlanRequest, make_plan
from zlayout.cli.reports import Reports
from zlayout.planner.model import Plan, Status
from zlayout.report import text


def drift_command(request: PlanRequest, console: Console, reports: Reports) -> int:
    """Print the plan screen or the report for stdout. Exit code: see `exit_code`."""
    planning = make_plan(request)
    report = planning.document(pictures=reports.need_pictures)
    code = exit_code(report.plan)
    if not reports.take_stdout:
        console.result(
            text.render(
                report, console.text_options(), heading=planning.heading(), closing=text.drift_line(report.plan)
            )
        )
    reports.finish(report, console, code)
    return code


def exit_code(plan: Plan) -> int:
    """0: all as declared; 2: a table drifted or decayed past its tolerance; 1: a table could not be looked at."""
    if plan.with_status(Status.ERROR):
        return 1
    return CHANGES if plan.with_status(Status.CHANGES, Status.REFUSED) else 0
