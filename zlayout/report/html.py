"""Write the report as one HTML page without external resources, in which all names are escaped."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from zlayout.errors import SpecError
from zlayout.planner.actions import ChangeClustering, ChangePartitioning, SetProperties
from zlayout.planner.forecasts import BytesRead, ColumnForecast
from zlayout.planner.model import Plan, TablePlan, summary
from zlayout.planner.result import TableResult
from zlayout.planner.run_report import RunReport
from zlayout.report import charts, closing, figures, phrases, words
from zlayout.report.fleet import MAX_HISTOGRAM_TABLES, fleet, in_order
from zlayout.report.forecast_text import bytes_text, has_row_groups, later_text, row_groups_text
from zlayout.report.pages import environment, source_hash
from zlayout.report.sparkline import sparkline, steepest
from zlayout.report.workload_text import workload_lines

# The number of groups that the page lists per table. The JSON report lists all.
MAX_GROUPS_PER_TABLE = 200
_FILTERS: dict[str, Callable[..., Any]] = {
    "size": words.size,
    "number": words.number,
    "plural": words.plural,
    "version_word": words.version_word,
    "decay": phrases.decay_text,
    "reason": words.REASONS.__getitem__,
}


def check_available() -> None:
    """Raise SpecError ZL062 if a package of the extra `report` is not installed."""
    try:
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise SpecError.of(
            "ZL062",
            f"the html report needs a package that is not installed: {error.name}",
            hint="run pip install 'zlayout[report]'",
        ) from error


def render(shown: Plan | RunReport) -> str:
    """Render the page, with charts for the tables that have a picture. Raises SpecError ZL062."""
    check_available()
    report = RunReport.of(shown)
    plan = report.plan
    page = files("zlayout.report").joinpath("page")
    style, script, whole, details = (
        page.joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js", "page.html.jinja", "table.html.jinja")
    )
    jinja = environment(_FILTERS)
    section = jinja.from_string(details)
    tables = [_table(n, t, report) for n, t in enumerate(in_order(report), 1)]
    sections = [figures.safe(section.render(t=t, max_rows=MAX_GROUPS_PER_TABLE)) for t in tables]
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


def _counts(report: RunReport) -> list[tuple[str, int, str]]:
    """Return (kind, number, label) of the numbers below the headline, from the results if there are any."""
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


def _table(index: int, table: TablePlan, report: RunReport) -> dict[str, Any]:
    result, picture = report.results.get(table.table), report.pictures.get(table.table)
    groups = table.groups
    drawn = len(report.plan.tables) <= MAX_HISTOGRAM_TABLES or picture is not None
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
        "measured": bool(result and result.columns),
        "trend": steepest(report.trends.get(table.table)),
        "columns": [
            {**_column(c, table, result), "trend": sparkline(report.trends.get(table.table), c.column)}
            for c in table.columns
        ],
        "workload": list(workload_lines(table)),
        "queries": _queries(table),
        "charts": figures.charts_of(table, result, picture) if drawn else [],
        "strip": strip,
        "strip_svg": figures.safe(charts.partition_strip(strip)),
    }


def _kind(table: TablePlan, report: RunReport) -> str:
    """Return the class of the table's state, which determines its colour."""
    if not report.is_open(table):
        return "unchanged"
    return "error" if table.table in report.results else "changes" if table.selects_nothing else table.status


def _settings(table: TablePlan) -> list[tuple[str, str, str, str]]:
    """Return (name, present value, declared value, reason) of the settings that change."""
    rows = [
        (d.key, phrases.declared(d.before, d.key), phrases.declared(d.after, d.key), "declared") for d in table.drift
    ]
    for action in table.actions:
        match action:
            case SetProperties(changes):
                rows += [
                    (c.name, words.setting(c.before), words.setting(c.after), words.property_reason(c)) for c in changes
                ]
            case ChangePartitioning(before, after, full_rewrite):
                why = "declared; rewrites every file" if full_rewrite else "declared"
                rows.append(("partition_by", words.setting(before), words.setting(after), why))
            case ChangeClustering(before, after):
                rows.append(("cluster by", words.setting(before), words.setting(after), "declared"))
    return rows


def _queries(table: TablePlan) -> list[dict[str, Any]]:
    """Return the groups of queries of the workload, with bars of the bytes that they open now and after apply."""
    groups = table.workload.groups if table.workload else ()
    most = max((group.now.bytes for group in groups), default=0) or 1
    return [
        {
            "columns": ", ".join(group.columns),
            "group": group,
            "share": words.share(group.share),
            "bar": figures.safe(charts.gain(group.now.bytes / most, then.bytes / most if then else None)),
        }
        for group in groups
        for then in [group.predicted if table.groups else None]
    ]


def _after(table: TablePlan, result: TableResult | None) -> dict[str, float | str]:
    """Return files, touched and bytes read (of the worst column) after the rewrite, each with a number to sort by."""
    if result and not table.columns:
        files = table.files - result.files_removed + result.files_added
        nothing: dict[str, float | str] = {"touched": "", "worst": 0, "read": "", "most_read": 0}
        return {"files": words.number(files), "most_files": files, **nothing}
    if result and result.columns:
        files = table.files - result.files_removed + result.files_added
        worst = max(c.touched for c in result.columns)
        most = max(c.bytes_read for c in result.columns)
        return {
            "files": words.number(files),
            "most_files": files,
            "touched": words.number(worst),
            "worst": worst,
            "read": words.size(most),
            "most_read": most,
        }
    then = table.files_after
    files = max(then.predicted or 0, then.high or 0) if then else 0
    last = max(table.columns, key=_last, default=None)
    read = max((c.bytes_read for c in table.columns), key=_last_read, default=BytesRead(0))
    return {
        "files": words.known(then.predicted, then.low, then.high) if then else "",
        "most_files": files,
        "touched": _then(last) if last else "",
        "worst": _last(last) if last else 0,
        "read": bytes_text(read),
        "most_read": _last_read(read),
    }


def _then(column: ColumnForecast) -> str:
    return words.known(column.predicted, column.low, column.high)


def _last(column: ColumnForecast) -> float:
    """Return the number by which forecasts are sorted: the prediction, or the high end of the range."""
    return next((v for v in (column.predicted, column.high, column.low) if v is not None), 0.0)


def _last_read(read: BytesRead) -> int:
    """As `_last`, for the bytes that a query reads."""
    return next((v for v in (read.predicted, read.high, read.low) if v is not None), 0)


def _column(column: ColumnForecast, table: TablePlan, result: TableResult | None) -> dict[str, Any]:
    after = next((c for c in result.columns if c.column == column.column), None) if result else None
    read = column.bytes_read
    return {
        "now": column,
        "after": after,
        "then": _then(column),
        "last": _last(column),
        "row_groups": row_groups_text(read)[0] if has_row_groups(table) else "",
        "read": words.size(after.bytes_read) if after else bytes_text(read),
        "most_read": after.bytes_read if after else _last_read(read),
        "worse": read.grows_to(after.bytes_read if after else read.least),
    }
