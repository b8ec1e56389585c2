"""Write one line for each table of a plan, for plans of many tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from zlayout.message_text import plural
from zlayout.planner.model import Status, TablePlan
from zlayout.report.phrases import touched_text
from zlayout.report.words import number, printable, size, state

MIN_NAME_WIDTH = 20
# Without --verbose, a plan shows at most MAX_TABLES tables in full, and at most MAX_LINES others in one line each.
MAX_TABLES = 20
MAX_LINES = 100
_ORDER = (Status.ERROR, Status.REFUSED, Status.CHANGES, Status.UNCHANGED)
_KINDS = {Status.ERROR: "error", Status.REFUSED: "refused", Status.CHANGES: "rewrite", Status.UNCHANGED: ""}


def worst_first(tables: Sequence[TablePlan]) -> list[TablePlan]:
    """Sort tables by status (errors, refused, changes, unchanged), then by bytes to rewrite, the most first."""
    return sorted(tables, key=lambda t: (_ORDER.index(t.status), t.as_declared, -t.rewrite_bytes, t.table))


def table_lines(tables: Sequence[TablePlan], width: int) -> Iterator[tuple[str, str]]:
    """Yield (style, line) for each table: its name, its state, the bytes to rewrite, and touched of its columns.

    Names are shortened in the middle, so that a line has at most `width` characters if this is possible.
    """
    rows = [(printable(table.table), *_cells(table)) for table in tables]
    names, states, sizes = (max((len(row[at]) for row in rows), default=0) for at in range(3))
    names = min(names, max(width // 2, MIN_NAME_WIDTH))
    for table, (name, words, rewritten, rest) in zip(tables, rows, strict=True):
        line = f"  {_shortened(name, names):<{names}}  {words:<{states}}  {rewritten:>{sizes}}  {rest}".rstrip()
        yield _KINDS[table.status], line if len(line) <= width else f"{line[: width - 3]}..."


def brief(tables: Sequence[TablePlan], width: int) -> Iterator[tuple[str, str]]:
    """Yield (style, line) for tables that are not shown in full, the worst of them last.

    Each of the worst MAX_LINES has one line; the others are counted.
    """
    tables = worst_first(tables)
    shown, others = tables[:MAX_LINES], tables[MAX_LINES:]
    if others:
        yield "", f"  {plural(len(others), 'table')} not listed: {states_text(others)}"
    yield from table_lines(shown[::-1], width)
    yield "dim", "  -v shows all tables in full; --summary shows one line for each"
    yield "", ""


def states_text(tables: Sequence[TablePlan]) -> str:
    """Write the number of tables in each state of `words.state`, for example `2 drift, 11 decay`."""
    return ", ".join(f"{count:,} {words}" for words, count in Counter(map(state, tables)).items())


def _cells(table: TablePlan) -> tuple[str, str, str]:
    match table.status:
        case Status.ERROR | Status.REFUSED:
            first = next((d for d in table.diagnostics if d.severity in ("error", "refused")), None)
            return state(table), "", printable(f"{first.code} {first.message}") if first else ""
        case Status.CHANGES:
            afters = [(c, touched_text(c)) for c in table.columns]
            cells = [f"{printable(c.column)} {number(c.touched)}{then and ' -> '}{then}" for c, then in afters]
            return state(table), size(table.rewrite_bytes) if table.groups else "", "  ".join(cells)
        case _:
            return state(table), "", plural(table.files, "file")


def _shortened(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    end = (width - 3) // 2
    return f"{name[: width - 3 - end]}...{name[-end:]}"
