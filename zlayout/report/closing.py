"""Write the last line of a report: the number of tables in each state."""

from __future__ import annotations

from zlayout.message_text import plural
from zlayout.planner.model import Plan, Status, Summary, summary
from zlayout.planner.run_report import RunReport
from zlayout.report.words import RESULT_STATUSES, is_deferred, size


def last_line(shown: Plan | RunReport) -> str:
    """Return the summary, for example `Plan: 1 to alter, 1 to rewrite, 12 unchanged. Rewrites 1.2 TiB.`

    Numbers that are 0 are left out. The summary of a drift report is `drift_line`.
    """
    report = RunReport.of(shown)
    if report.drift:
        return drift_line(report.plan)
    if report.results:
        ended = ", ".join(f"{count} {words}" for _, count, words in outcome_counts(report))
        return f"Applied: {ended}. Wrote {size(sum(r.bytes_added for r in report.results.values()))}."
    plan = report.plan
    counts = summary(plan.tables)
    if not (plan.has_changes or counts.refused or counts.failed):
        return f"No changes. {plural(counts.unchanged, 'table')} laid out as declared.{_nothing_selected(counts)}"
    numbers = {
        "to alter": counts.alter,
        "to rewrite": counts.rewrite,
        "waiting": sum(table.waits for table in plan.tables),
        "deferred": sum(map(is_deferred, plan.tables)),
        "unchanged": counts.unchanged,
        "refused": counts.refused,
        "failed": counts.failed,
    }
    parts = [f"{number:,} {words}" for words, number in numbers.items() if number]
    rewrites = f" Rewrites {size(counts.rewrite_bytes)}." if counts.rewrite_bytes else ""
    return f"Plan: {', '.join(parts)}.{rewrites}{_nothing_selected(counts)}"


def _nothing_selected(counts: Summary) -> str:
    return f" `where` of {plural(counts.empty, 'table')} matches no partition." if counts.empty else ""


def title(report: RunReport) -> str:
    """Return what the report is about: plan, drift, or the result of apply."""
    return "result of apply" if report.results else "drift" if report.drift else "plan"


def drift_line(plan: Plan) -> str:
    """Return the summary of `zlayout drift`, for example `Drift: 2 of 14 tables are not as declared.`"""
    counts = summary(plan.tables)
    more = f" {plural(counts.failed, 'table')} could not be planned." if counts.failed else ""
    other, unfit = len(plan.not_as_declared), len(plan.unfit)
    if unfit:
        more += f" {plural(unfit, 'layout')} no longer {'fits' if unfit == 1 else 'fit'} the workload."
    if not other:
        unchanged = f"{plural(counts.unchanged, 'table')} laid out as declared."
        return f"Drift is not known:{more} {unchanged}" if counts.failed else f"No drift. {unchanged}{more}"
    rewrites = f" `zlayout apply` would rewrite {size(counts.rewrite_bytes)}." if counts.rewrite_bytes else ""
    verb = "is" if other == 1 else "are"
    return f"Drift: {other:,} of {plural(len(plan.tables), 'table')} {verb} not as declared.{more}{rewrites}"


def outcome_counts(report: RunReport) -> list[tuple[str, int, str]]:
    """Return (style, number of tables, words) for each result status, and for the tables that apply did not start.

    The style is the class of the number in the HTML report. Numbers that are 0 are left out.
    """
    plan, outcomes = report.plan, [result.outcome for result in report.results.values()]
    counts = [
        ("unchanged" if outcome.succeeded else "error", outcomes.count(outcome), text.partition(":")[0])
        for outcome, text in RESULT_STATUSES.items()
    ]
    left = sum(table.table not in report.results for table in plan.with_status(Status.CHANGES))
    counts += [("changes", left, "not begun")]
    counts += [("refused", len(plan.with_status(Status.REFUSED)), "refused")]
    counts += [("error", len(plan.with_status(Status.ERROR)), "with errors")]
    return [count for count in counts if count[1]]
