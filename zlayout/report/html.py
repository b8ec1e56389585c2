"""Write the report as one HTML page without external resources, in which all names are escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING

from zlayout.message_text import plural
from zlayout.planner.actions import ChangeClustering, ChangePartitioning, SetProperties
from zlayout.planner.forecasts import BytesRead, ColumnForecast
from zlayout.planner.model import Plan, TablePlan, summary
from zlayout.planner.result import MeasuredColumn, TableResult
from zlayout.planner.run_report import RunReport, Trend
from zlayout.report import charts, closing, figures, phrases, words
from zlayout.report.fleet import MAX_HISTOGRAM_TABLES, Entry, fleet, in_order
from zlayout.report.phrases import bytes_text, has_row_groups, later_text, row_groups_text, touched_text, workload_lines
from zlayout.report.words import number, printable, setting, size

if TYPE_CHECKING:
    import jinja2

# The number of groups that the page lists per table. The JSON report lists all.
MAX_GROUPS_PER_TABLE = 200
_FILTERS: dict[str, Callable[..., object]] = {
    "size": words.size,
    "same_size": words.same_size,
    "number": words.number,
    "plural": plural,
    "version_word": words.version_word,
    "decay": phrases.decay_text,
    "reason": words.REASONS.__getitem__,
}


def render(shown: Plan | RunReport) -> str:
    """Render the page, with charts for the tables that have a picture. Needs the packages of the extra `report`."""
    report = RunReport.of(shown)
    plan = report.plan
    style, script, whole, details = (
        files("zlayout.report").joinpath("page", name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js", "page.html.jinja", "table.html.jinja")
    )
    jinja = environment(_FILTERS)
    section = jinja.from_string(details)
    tables = [_table(n, t, report) for n, t in enumerate(in_order(report), 1)]
    sections = [charts.markup(section.render(t=t, max_rows=MAX_GROUPS_PER_TABLE)) for t in tables]
    return jinja.from_string(whole).render(
        plan=plan,
        title=f"zlayout: {closing.title(report)}",
        headline=closing.last_line(report),
        counts=_counts(report),
        tables=tables,
        trends=any(t["trend"] for t in tables),
        sections=sections,
        fleet=fleet(tables, sections),
        style=style,
        script=script,
        style_hash=source_hash(style),
        script_hash=source_hash(script),
    )


def environment(filters: dict[str, Callable[..., object]]) -> jinja2.Environment:
    """Make a Jinja environment that escapes values, replaces control and bidi characters, and rejects missing names."""
    import jinja2
    import markupsafe

    made = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Called for each value of a page. Markup is either from `charts`, or already escaped.
        finalize=lambda value: value if isinstance(value, markupsafe.Markup) else printable(str(value)),
    )
    made.filters |= filters
    return made


def source_hash(text: str) -> str:
    """Return the source expression of a Content-Security-Policy that allows exactly this inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _counts(report: RunReport) -> list[tuple[str, int, str]]:
    plan, counts = report.plan, summary(report.plan.tables)
    tables = ("", len(plan.tables), "table" if len(plan.tables) == 1 else "tables")
    if report.results:
        return [tables, *closing.outcome_counts(report)]
    numbers = (
        ("error", counts.failed, "with errors"),
        ("refused", counts.refused, "refused"),
        ("changes", counts.rewrite, "to rewrite"),
        ("changes", counts.alter, "to alter"),
        ("changes", counts.empty, "select nothing"),
        ("unchanged", counts.unchanged, "as declared"),
    )
    return [tables, *(number for number in numbers if number[1])]


def _table(index: int, table: TablePlan, report: RunReport) -> Entry:
    result, picture = report.results.get(table.table), report.pictures.get(table.table)
    groups, trend = table.groups, report.trends.get(table.table)
    drawn = len(report.plan.tables) <= MAX_HISTOGRAM_TABLES or picture is not None
    measured = {c.column: c for c in result.columns} if result else {}
    strip = (result.strip if result else ()) or (picture.strip if picture else ())
    return {
        "id": f"table-{index}",
        "plan": table,
        "state": words.RESULT_STATUSES[result.outcome] if result else words.state(table),
        "kind": _kind(table, report),
        "settings": _settings(table),
        "first": phrases.layout_text(table) if table.is_first else "",
        "rewrite": phrases.rewrite_text(table) if groups else "",
        "reasons": phrases.reasons_text(groups) if groups else "",
        "left_over": later_text(table),
        "result": phrases.result_text(result) if result else "",
        "diagnostics": (*table.diagnostics, *(result.problems if result else ())),
        "storage": phrases.storage_text(table, result),
        "worst": max((c.touched for c in table.columns), default=None),
        "most_read": max((c.bytes_read.now for c in table.columns), default=None),
        "after": _after(table, result),
        "measured": bool(measured),
        "trend": charts.steepest(trend),
        "columns": [_column(c, measured.get(c.column), table, trend) for c in table.columns],
        "workload": list(workload_lines(table)),
        "queries": _queries(table),
        "charts": figures.charts_of(table, result, picture) if drawn else [],
        "strip": strip,
        "strip_svg": charts.partition_strip(strip),
    }


def _kind(table: TablePlan, report: RunReport) -> str:
    if not report.is_open(table):
        return "unchanged"
    return "error" if table.table in report.results else "changes" if table.selects_nothing else table.status


def _settings(table: TablePlan) -> list[tuple[str, str, str, str]]:
    """Return (name, present value, declared value, reason) of the settings that change."""
    declared = "declared"
    rows = [(d.key, phrases.declared(d.before, d.key), phrases.declared(d.after, d.key), declared) for d in table.drift]
    for action in table.actions:
        match action:
            case SetProperties(changes):
                rows += [(c.name, setting(c.before), setting(c.after), words.property_reason(c)) for c in changes]
            case ChangePartitioning(before, after, full_rewrite):
                why = "declared; rewrites every file" if full_rewrite else declared
                rows.append(("partition_by", setting(before), setting(after), why))
            case ChangeClustering(before, after):
                rows.append(("cluster by", setting(before), setting(after), declared))
    return rows


def _queries(table: TablePlan) -> list[Entry]:
    groups = table.workload.groups if table.workload else ()
    most = max((group.now.bytes for group in groups), default=0) or 1
    return [
        {
            "columns": ", ".join(group.columns),
            "group": group,
            "share": words.share(group.share),
            "bar": charts.gain(group.now.bytes / most, then.bytes / most if then else None),
        }
        for group in groups
        for then in [group.predicted if table.groups else None]
    ]


def _after(table: TablePlan, result: TableResult | None) -> dict[str, float | str]:
    """Return files, touched and bytes read of the worst column after the rewrite, each with a number to sort by."""
    if result and (result.columns or not table.columns):
        files = table.files - result.files_removed + result.files_added
        worst = max((c.touched for c in result.columns), default=0)
        most = max((c.bytes_read for c in result.columns), default=0)
        texts = {"touched": number(worst), "read": size(most)} if result.columns else {"touched": "", "read": ""}
        return {"files": number(files), "most_files": files, "worst": worst, "most_read": most, **texts}
    then = table.files_after
    last = max(table.columns, key=_last, default=None)
    read = max((c.bytes_read for c in table.columns), key=_last_read, default=BytesRead(0))
    return {
        "files": words.known(then.predicted, then.low, then.high) if then else "",
        "most_files": max(then.predicted or 0, then.high or 0) if then else 0,
        "touched": touched_text(last) if last else "",
        "worst": _last(last) if last else 0,
        "read": bytes_text(read),
        "most_read": _last_read(read),
    }


def _last(column: ColumnForecast) -> float:
    """Return the number by which forecasts are sorted: the prediction, or the upper end of the range."""
    return next((v for v in (column.predicted, column.high, column.low) if v is not None), 0.0)


def _last_read(read: BytesRead) -> int:
    return next((v for v in (read.predicted, read.high, read.low) if v is not None), 0)


def _column(column: ColumnForecast, after: MeasuredColumn | None, table: TablePlan, trend: Trend | None) -> Entry:
    read = column.bytes_read
    return {
        "now": column,
        "after": after,
        "then": touched_text(column),
        "last": _last(column),
        "row_groups": row_groups_text(read)[0] if has_row_groups(table) else "",
        "read": size(after.bytes_read) if after else bytes_text(read),
        "read_then": bytes_text(read) if read.predicted is not None else "",
        "most_read": after.bytes_read if after else _last_read(read),
        "worse": read.grows_to(after.bytes_read if after else read.predicted_or_low),
        "trend": charts.sparkline(trend, column.column),
    }
