"""The plan as GitHub-flavoured Markdown: for a pull request comment, or a step's summary."""

from __future__ import annotations

import re

from zlayout.planner.model import Plan, TablePlan
from zlayout.report.text import TextOptions, last_line, render_table
from zlayout.report.words import OUTCOMES, STATES, number, plural, printable, size

# The first line of every comment, by which the next run finds and replaces it.
MARKER = "<!-- zlayout-report -->"
# GitHub takes 65,536 characters in a comment and 1 MiB in a step's summary; UTF-8 bytes are the stricter count.
MOST_BYTES = 60_000


def render(plan: Plan, most_bytes: int = MOST_BYTES) -> str:
    """A headline, a table of what is not as declared, and the plan screen of each such table, folded.

    Whole tables are left out, and counted, where the text would be longer than `most_bytes`.
    """
    shown = sorted((t for t in plan.tables if t.status != "unchanged"), key=_worst_first)
    head = [MARKER, f"### {_headline(plan)}", "", last_line(plan), ""]
    rows, details, used = [], [], len("\n".join(head).encode()) + 600
    for table in shown:
        row, detail = _row(table), _details(table)
        used += len(row.encode()) + len(detail.encode()) + 2
        if used > most_bytes:
            break
        rows.append(row)
        details.append(detail)
    lines = head
    if rows:
        lines += ["| table | | rewrites | files | touched | declared in |", "|---|---|---|---|---|---|", *rows, ""]
        lines += details
    if left := len(shown) - len(rows):
        lines += [f"{plural(left, 'table')} more: too long for one comment; see the full report.", ""]
    return "\n".join(lines)


def _headline(plan: Plan) -> str:
    broken = len(plan.with_status("error"))
    changing = sum(t.is_open for t in plan.tables) - broken
    if not changing and not broken:
        return "zlayout: all tables are laid out as declared"
    parts = [f"{plural(changing, 'table')} not as declared"] if changing else []
    parts += [f"{plural(broken, 'table')} with errors"] if broken else []
    return f"zlayout: {', '.join(parts)}"


def _worst_first(table: TablePlan) -> tuple[int, int, str]:
    return (("error", "refused", "changes").index(table.status), -table.rewrite_bytes, table.table)


def _row(table: TablePlan) -> str:
    files = sum(g.files for g in table.groups)
    after = sum(g.target_files for g in table.groups)
    touched = ", ".join(
        f"{_code(c.column)} {number(c.touched)} → ~{number(c.predicted)}"
        for c in table.columns
        if c.predicted is not None
    )
    cells = [
        _code(table.table),
        OUTCOMES[table.result.outcome] if table.result else STATES[table.status],
        size(table.rewrite_bytes) if table.groups else "",
        f"{files:,} → ~{after:,}" if table.groups else "",
        touched,
        _code(str(table.location)),
    ]
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _details(table: TablePlan) -> str:
    body = render_table(table, TextOptions(width=96))
    fence = _fence(body, 3)
    title = re.sub(r"[&<>]", lambda m: f"&#{ord(m[0])};", printable(table.table))
    return f"<details><summary>{title}</summary>\n\n{fence}text\n{body}\n{fence}\n\n</details>\n"


def _cell(text: str) -> str:
    """No pipe of a name ends the cell. Readers differ on a backslash before an escaped one, so none is left there."""
    return text.replace("\\|", "\\\N{BROKEN BAR}").replace("|", "\\|")


def _code(text: str) -> str:
    """A code span: nothing in it is markup, a mention or a link."""
    text = printable(text)
    fence = _fence(text, 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _fence(text: str, least: int) -> str:
    """More backticks in a row than `text` has anywhere."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
