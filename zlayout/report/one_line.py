"""Write one line for each table of a plan: the summary for many tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from zlayout.planner.model import Status, TablePlan
from zlayout.report.words import known, number, plural, printable, size, state

MIN_NAME_WIDTH = 20
# The number of tables that a plan shows in full, and of those that it shows in one line each, unless all are asked for.
MAX_TABLES = 20
MAX_LINES = 100
_ORDER = (Status.ERROR, Status.REFUSED, Status.CHANGES, Status.UNCHANGED)
_KINDS = {Status.ERROR: "error", Status.REFUSED: "refused", Status.CHANGES: "rewrite", Status.UNCHANGED: ""}


def worst_first(tables: Sequence[TablePlan]) -> list[TablePlan]:
    """Sort tables: those with errors, refused ones, changes with the most bytes to rewrite first, then the others."""
    return sorted(tables, key=lambda t: (_ORDER.index(t.status), t.as_declared, -t.rewrite_bytes, t.table))


def table_lines(tables: Sequence[TablePlan], width: int) -> Iterator[tuple[str, str]]:
    """Yield (style, line) for each table: its name, its state, the bytes to rewrite, and touched of its columns.

    Names are shortened in the middle, so that a line has at most `width` characters if this is possible.
    """
    rows = [(t, printable(t.table), *_cells(t)) for t in tables]
    state_width = max((len(words) for _, _, words, _, _ in rows), default=0)
    size_width = max((len(text) for *_, text, _ in rows), default=0)
    names = max((len(name) for _, name, *_ in rows), default=0)
    name_width = min(names, max(width // 2, MIN_NAME_WIDTH))
    for table, name, words, rewritten, rest in rows:
        line = (
            f"  {_shortened(name, name_width):<{name_width}}  {words:<{state_width}}  {rewritten:>{size_width}}  {rest}"
        )
        yield _KINDS[table.status], _cut(line.rstrip(), width)


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
    """Write the number of tables in each state, for example `2 drift, 11 decay`."""
    return ", ".join(f"{count:,} {words}" for words, count in Counter(map(state, tables)).items())


def _cells(table: TablePlan) -> tuple[str, str, str]:
    match table.status:
        case Status.ERROR | Status.REFUSED:
            first = next((d for d in table.diagnostics if d.severity in ("error", "refused")), None)
            return state(table), "", printable(f"{first.code} {first.message}") if first else ""
        case Status.CHANGES:
            cells = []
            for c in table.columns:
                after = known(c.predicted, c.low, c.high)
                cells.append(f"{printable(c.column)} {number(c.touched)}{after and ' -> '}{after}")
            return state(table), size(table.rewrite_bytes) if table.groups else "", "  ".join(cells)
        case _:
            return state(table), "", plural(table.files, "file")


def _shortened(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    end = (width - 3) // 2
    return f"{name[: width - 3 - end]}...{name[-end:]}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 3]}..."
