"""Write the report as GitHub-flavoured Markdown, for a comment on a pull request or a step summary."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zlayout.planner.model import Changes, ColumnForecast, Plan, Status, TablePlan
from zlayout.planner.run_report import MeasuredColumn, RunReport, TableResult
from zlayout.report import changes
from zlayout.report.text import TextOptions, render_table
from zlayout.report.words import (
    RESULT_STATUSES,
    bytes_text,
    last_line,
    number,
    printable,
    state,
    states_text,
    title,
    touched_text,
    worst_first,
    written_text,
)
from zlayout.text import first_of, plural, size

# The first line of every comment, by which the next run finds the comment.
MARKER = "<!-- zlayout-report -->"
# GitHub accepts 65,536 characters in a comment. A text never has more characters than bytes.
MAX_BYTES = 60_000
# The largest number of tables in a comment, so that people read all of it. Tables that change alike count as one.
MAX_TABLES = 10
MAX_ROWS, MAX_NAMES, MAX_PROBLEMS = 20, 20, 10  # of such tables, of tables that are gone, and of problems
MAX_FILES = 3  # with the layouts of such tables, or tables with one problem
MAX_VALUE_LENGTH = 300  # characters of a setting


def render(shown: Plan | RunReport, max_bytes: int = MAX_BYTES, max_tables: int | None = MAX_TABLES) -> str:
    """Render a headline, a list of the tables that are not as declared, the worst first, and the text report of each.

    Tables after the first `max_tables` (None: no limit), and those that do not fit into `max_bytes`, are only counted.
    A plan of `changed:REV` is rendered as what the pull request changes instead.
    """
    report = RunReport.of(shown)
    if report.plan.changes is not None and not report.results:
        return _pull_request(report.plan, report.plan.changes, max_bytes, max_tables)
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


def _pull_request(plan: Plan, compared: Changes, max_bytes: int, max_tables: int | None) -> str:
    changed = plan.changed
    lines = [MARKER, f"### zlayout: {changes.headline(plan, compared)}", ""]
    by_name = "" if compared.revision == compared.base else f"{_code(compared.revision)}, merge base "
    lines += [f"Compared with {by_name}{_code(compared.base[:12])}.", ""]
    if changed:
        lines += [f"**{changes.effect(changed)}** {changes.nothing_yet(changed)}".rstrip(), ""]
    lines += _problems(plan)
    if gone := compared.removed:
        names = [f"{_code(one.table)} ({_code(one.rule or str(one.location))})" for one in gone]
        lines += [f"**No longer managed:** {first_of(names, MAX_NAMES)}. {changes.GONE}", ""]
    groups = changes.change_groups(plan)
    kept = groups[:max_tables]
    sections = [_section(group, MAX_ROWS if max_tables else None) for group in kept]
    end = [line for text in (changes.backlog(plan, compared), changes.after_merge(plan)) if text for line in (text, "")]
    used = len("\n".join([*lines, *end]).encode()) + 400
    while sections and used + sum(len(section.encode()) + 1 for section in sections) > max_bytes:
        sections.pop()
    lines += sections
    if left := [table for group in groups[len(sections) :] for table in group.tables]:
        lines += [f"And {plural(len(left), 'table')} more: {states_text(left)}. The HTML report shows all.", ""]
    used += sum(len(section.encode()) + 1 for section in sections)
    details = []
    for group in kept[: len(sections)]:
        of = f", the first of {len(group.tables):,} tables" if len(group.tables) > 1 else ""
        detail = _details(group.tables[0], None, f"Details of {group.tables[0].table}{of}")
        used += len(detail.encode()) + 1
        if used <= max_bytes:
            details.append(detail)
    return "\n".join([*lines, *details, *end])


def _problems(plan: Plan) -> list[str]:
    found = changes.problems(plan)
    if not found:
        return ["No errors and no warnings.", ""]
    lines = ["**Check before merging:**", ""]
    for problem, tables in found[:MAX_PROBLEMS]:
        names = first_of([_code(name) for name in tables], MAX_FILES)
        text = problem.text(_code) if problem.columns else _code(problem.words)
        lines.append(f"- **{problem.severity}** {names and f'{names}: '}{text}")
    if (more := len(found) - MAX_PROBLEMS) > 0:
        lines.append(f"- {plural(more, 'more problem')}, in the HTML report")
    return [*lines, ""]


def _section(group: changes.ChangeGroup, max_rows: int | None) -> str:
    title = _code(group.title) if len(group.tables) == 1 else group.title
    files = first_of([_code(path) for path in group.files], MAX_FILES)
    lines = [f"#### {title}: {group.kind}", "", f"Declared in {files}.", ""]
    if group.settings:
        first = 2 if group.change.is_new else 1  # a new layout has no values before
        lines += (
            ["| setting | value |", "|---|---|"] if first == 2 else ["| setting | before | after |", "|---|---|---|"]
        )
        lines += [_table_row((_code(row[0]), *map(_value, row[first:]))) for row in group.settings]
        lines.append("")
    heads, rows = ["table", "apply", "time", "a query for one value opens, on average"], []
    for table in group.tables[:max_rows]:
        reads = "<br>".join(
            f"{_code(what)} {text}{f' **{grows}**' if grows else ''}" for what, text, grows in changes.reads(table)
        )
        rows.append([_code(table.table), changes.action_text(table), changes.time_text(table), reads])
    if left := group.tables[max_rows or len(group.tables) :]:
        rows.append([f"and {plural(len(left), 'table')} more", changes.effect(left), "", ""])
    if not group.knows_times:
        heads, rows = heads[:2] + heads[3:], [row[:2] + row[3:] for row in rows]
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return "\n".join([*lines, *map(_table_row, (heads, ["---"] * len(heads), *rows)), ""])


def _table_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _value(text: str) -> str:
    if not text:
        return ""
    return _code(text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 3]}...")


def _headline(report: RunReport) -> str:
    broken = len(report.plan.with_status(Status.ERROR))
    changing = sum(map(report.is_open, report.plan.tables)) - broken
    counts = ((changing, "not as declared"), (broken, "with errors"))
    parts = ", ".join(f"{plural(count, 'table')} {words}" for count, words in counts if count)
    return f"zlayout {title(report)}: {parts or 'all tables are laid out as declared'}"


def _row(table: TablePlan, result: TableResult | None) -> str:
    groups = table.groups
    measured = {c.column: c for c in result.columns} if result else {}
    touched = [(c.column, number(c.touched), _touched(c, measured.get(c.column))) for c in table.columns]
    read = [(c.column, size(c.bytes_read.now), _read(c, measured.get(c.column))) for c in table.columns]
    cells = [
        _code(table.table),
        RESULT_STATUSES[result.outcome] if result else state(table),
        size(table.rewrite_bytes) if groups else "",
        f"{table.rewrite_files:,} → {written_text(table)}" if groups else "",
        *(", ".join(f"{_code(c)} {now} → {after}" for c, now, after in cells if after) for cells in (touched, read)),
        _code(str(table.location)),
    ]
    return _table_row(cells)


def _touched(column: ColumnForecast, after: MeasuredColumn | None) -> str:
    if after is None:
        return touched_text(column)
    return number(after.touched) + ("" if after.predicted is None else f" (predicted {number(after.predicted)})")


def _read(column: ColumnForecast, after: MeasuredColumn | None) -> str:
    return size(after.bytes_read) if after and after.bytes_read else bytes_text(column.bytes_read)


def _details(table: TablePlan, result: TableResult | None, summary: str = "") -> str:
    body = render_table(table, result, TextOptions(width=96))
    fence = _fence(body, 3)
    title = re.sub(r"[&<>]", lambda m: f"&#{ord(m[0])};", printable(summary or table.table))
    return f"<details><summary>{title}</summary>\n\n{fence}text\n{body}\n{fence}\n\n</details>\n"


def _cell(text: str) -> str:
    """Escape pipes. A pipe after a backslash is replaced, because renderers treat both in different ways."""
    return text.replace("\\|", "\\\N{BROKEN BAR}").replace("|", "\\|")


def _code(text: str) -> str:
    text = printable(text)
    fence = _fence(text, 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _fence(text: str, min_length: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(min_length, longest + 1)
