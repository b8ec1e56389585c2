"""The plan document of a finished apply: what was planned, and beside it what was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zlayout.app.apply import Applied
from zlayout.app.pictures import looked_again
from zlayout.errors import CommitUnknown, Diagnostic
from zlayout.planner.model import Plan, TablePlan
from zlayout.planner.result import MeasuredColumn, Outcome, TableResult


def with_results(plan: Plan, done: Sequence[Applied]) -> Plan:
    """The plan with a result for each table that apply got to, drawn again where it had been drawn."""
    by_name = {applied.table: applied for applied in done}
    tables = (replace(t, result=_drawn(t, by_name[t.table])) if t.table in by_name else t for t in plan.tables)
    return replace(plan, tables=tuple(tables))


def _drawn(table: TablePlan, applied: Applied) -> TableResult:
    result = result_of(applied)
    if applied.again is None:
        return result
    boxes, strip = looked_again(table, applied.again)
    return replace(result, boxes=boxes, strip=strip)


def result_of(applied: Applied) -> TableResult:
    """What one table's run left."""
    rewrites = [c for c in applied.commits if c.kind == "rewrite"]
    after = applied.after
    return TableResult(
        run_id=applied.run_id,
        outcome=_outcome(applied),
        commits=len(applied.commits),
        files_removed=sum(c.files_removed for c in rewrites),
        files_added=sum(c.files_added for c in rewrites),
        bytes_added=sum(c.bytes_added for c in rewrites),
        problems=_problems(applied),
        columns=tuple(
            MeasuredColumn(c.column, c.touched, c.depth, c.overlaps, c.depth_histogram)
            for c in (after.columns if after else ())
        ),
        size_histogram=after.size_histogram if after else (),
    )


def _outcome(applied: Applied) -> Outcome:
    if isinstance(applied.error, CommitUnknown):
        return "unknown"
    if applied.interrupted:
        return "interrupted"
    if applied.error is not None:
        return "failed"
    if applied.after is None or applied.after.status == "error":
        return "unknown"
    if applied.forgotten:
        return "not_yet"
    if applied.after.status == "unchanged":
        return "as_declared"
    return "within_budget" if applied.within_budget else "not_yet"


def _problems(applied: Applied) -> tuple[Diagnostic, ...]:
    """Errors, and dropped groups unless planning again took care of them."""
    if applied.interrupted and not isinstance(applied.error, CommitUnknown):
        # What a cancelled job throws says nothing that the person who stopped it does not know.
        return ()
    problems = list(applied.error.diagnostics) if applied.error else []
    if applied.after is None or _outcome(applied) not in ("as_declared", "within_budget"):
        problems += [d for failure in applied.failures for d in failure.error.diagnostics]
    return tuple(problems)
