"""Write the report as GitHub-flavoured Markdown, for a comment on a pull request or a step summary."""

from __future__ import annotations

import re

from zlayout.message_text import plural
from zlayout.planner.model import ColumnForecast, Plan, Status, TablePlan
from zlayout.planner.run_report import MeasuredColumn, RunReport, TableResult
from zlayout.report.phrases import bytes_text, last_line, states_text, title, touched_text, worst_first, written_text
from zlayout.report.text import TextOptions, render_table
from zlayout.report.words import RESULT_STATUSES, number, printable, size, state

# The first line of every comment, by which the next run finds the comment.
MARKER = "<!-- zlayout-report -->"
# GitHub accepts 65,536 characters in a comment. A text never has more characters than bytes.
MAX_BYTES = 60_000
# The largest number of tables in a comment, so that people read all of it.
MAX_TABLES = 10


def render(shown: Plan | RunReport, max_bytes: int = MAX_BYTES, max_tables: int | None = MAX_TABLES) -> str:
    """Render a headline, a list of the tables that are not as declared, the worst first, and the text report of each.

    Tables after the first `max_tables` (None: no limit), and those that do not fit into `max_bytes`, are only counted.
    """
    report = RunReport.of(shown)
    tables = worst_first([t for t in report.plan.tables if not t.as_declared])
    lines = [MARKER, f"### {_headline(report)}", "", last_line(report), ""]
    rows, details, used = [], [], len("\n".join(lines).encode()) + 600
    for table in tables[:max_tables]:
        result = report.results.get(table.table)
        row, detail = _row(table, result), _details(table, result)
        used += len(row.encode()) + len(detail.encode()) + 2
        if used > max_bytes:
            break
        rows.append(row)
        details.append(detail)
    if rows:
        lines += ["| table | | rewrites | files | touched | bytes read | declared in |"]
        lines += ["|---|---|---|---|---|---|---|", *rows, "", *details]
    if left := tables[len(rows) :]:
        counted = "" if report.results else f": {states_text(left)}"
        lines += [f"And {plural(len(left), 'table')} more{counted}. The text and the HTML report show all.", ""]
    return "\n".join(lines)


def _headline(report: RunReport) -> str:
    broken = len(report.plan.with_status(Status.ERROR))
    changing = sum(map(report.is_open, report.plan.tables)) - broken
    counts = ((changing, "not as declared"), (broken, "with errors"))
    parts = ", ".join(f"{plural(count, 'table')} {words}" for count, words in counts if count)
    return f"zlayout {title(report)}: {parts or 'all tables are laid out as declared'}"


def _row(table: TablePlan, result: TableResult | None) -> str:
    groups = table.groups
    files = sum(g.files for g in groups)
    measured = {c.column: c for c in result.columns} if result else {}
    touched = [(c.column, number(c.touched), _touched(c, measured.get(c.column))) for c in table.columns]
    read = [(c.column, size(c.bytes_read.now), _read(c, measured.get(c.column))) for c in table.columns]
    cells = [
        _code(table.table),
        RESULT_STATUSES[result.outcome] if result else state(table),
        size(table.rewrite_bytes) if groups else "",
        f"{files:,} → {written_text(table)}" if groups else "",
        *(", ".join(f"{_code(c)} {now} → {after}" for c, now, after in cells if after) for cells in (touched, read)),
        _code(str(table.location)),
    ]
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _touched(column: ColumnForecast, after: MeasuredColumn | None) -> str:
    if after is None:
        return touched_text(column)
    return number(after.touched) + ("" if after.predicted is None else f" (predicted {number(after.predicted)})")


def _read(column: ColumnForecast, after: MeasuredColumn | None) -> str:
    return size(after.bytes_read) if after and after.bytes_read else bytes_text(column.bytes_read)


def _details(table: TablePlan, result: TableResult | None) -> str:
    body = render_table(table, result, TextOptions(width=96))
    fence = _fence(body, 3)
    title = re.sub(r"[&<>]", lambda m: f"&#{ord(m[0])};", printable(table.table))
    return f"<details><summary>{title}</summary>\n\n{fence}text\n{body}\n{fence}\n\n</details>\n"


def _cell(text: str) -> str:
    """Escape pipes. A pipe after a backslash is replaced, because renderers treat both in different ways."""
    return text.replace("\\|", "\\\N{BROKEN BAR}").replace("|", "\\|")


def _code(text: str) -> str:
    """Write text as a code span, in which nothing is markup, a mention or a link."""
    text = printable(text)
    fence = _fence(text, 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _fence(text: str, min_length: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(min_length, longest + 1)
