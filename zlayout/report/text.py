"""Write text for a terminal: a report, and the history of a table with a sparkline for each column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zlayout.errors import Diagnostic
from zlayout.planner import passes
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import RunReport, TableResult, Trend
from zlayout.report import words
from zlayout.report.words import (
    MAX_TABLES,
    aligned,
    brief,
    last_line,
    measure_texts,
    number,
    printable,
    table_lines,
    version_word,
    worst_first,
    wrapped,
)
from zlayout.text import plural, size

if TYPE_CHECKING:
    from zlayout.history_records import ColumnRecord, Growth, Record

Style = Callable[[str, str], str]

# Tables with errors are last, so that they are next to the summary and to the prompt of a terminal.
_ORDER = (Status.UNCHANGED, Status.CHANGES, Status.REFUSED, Status.ERROR)
_LABEL_WIDTH = 16
_TEXT_INDENT = 6 + _LABEL_WIDTH
_NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Options of the text report.

    Attributes:
        width: The number of columns of the terminal.
        summary: Whether to show one line for each table.
        verbose: Whether to show unchanged tables and decay within the tolerance too.
        style: A function of the name of a style and a text, which returns the coloured text. The names are title,
            first, alter, rewrite, error, refused, warning, note and dim.
    """

    width: int = 100
    verbose: bool = False
    style: Style = lambda _name, text: text
    summary: bool = False


def render(shown: Plan | RunReport, options: TextOptions | None = None, *, heading: str = "") -> str:
    """Render the text report with a final line break. Tables with errors are last, next to the summary."""
    options = options or TextOptions()
    report = RunReport.of(shown)
    lines = [printable(heading), ""] if heading else []
    if options.summary:
        ordered = worst_first(report.plan.tables)[::-1]
        lines += [options.style(*item) for item in (*table_lines(ordered, options.width), ("", ""))]
    else:
        lines += _tables(report, options)
    for one in report.plan.changes.removed if report.plan.changes else ():
        lines.append(
            options.style("alter", printable(f"  no longer managed: {one.table} ({one.rule or one.location})"))
        )
    lines += [""] * bool(report.plan.changes and report.plan.changes.removed)
    for name, line, indent in _diagnosed(report.plan.diagnostics):
        lines += [options.style(name, piece) for piece in wrapped(line[4:], options.width, indent - 4)]
    lines += [""] * bool(report.plan.diagnostics)
    lines += [options.style("title", piece) for piece in wrapped(last_line(report), options.width, 0)]
    return "\n".join(lines) + "\n"


def _tables(report: RunReport, options: TextOptions) -> Iterator[str]:
    tables = [t for t in report.plan.tables if options.verbose or t.status is not Status.UNCHANGED or t.diagnostics]
    for name, line in _legend(tables, options):
        yield options.style(name, line) if line else ""
    if len(tables) > MAX_TABLES and not options.verbose and not report.results:
        ordered = worst_first(tables)
        tables = ordered[MAX_TABLES - 1 :: -1]  # the worst last
        yield from (options.style(name, line) for name, line in brief(ordered[MAX_TABLES:], options.width))
    failed = report.failed if report.results else {}
    for table in sorted(tables, key=lambda t: (_ORDER.index(t.status), t.table in failed)):
        yield from _table(table, report.results.get(table.table), options)
        yield ""


def _legend(tables: Sequence[TablePlan], options: TextOptions) -> Iterator[tuple[str, str]]:
    changing = [t for t in tables if t.status is Status.CHANGES]
    if not changing:
        return
    signs = {
        "+ first layout": any(t.is_first for t in changing),
        "~ alter settings": any(t.alters or t.drift for t in changing),
        "-/+ rewrite files": any(t.groups for t in changing),
    }
    columns = [column for table in tables for column in table.columns]
    summed = any(table.columns and table.partitions > 1 for table in tables)
    curves = {dict(t.settings).get("zorder.curve") for t in changing if t.is_first}
    terms = {
        "touched: files opened for one value" + (", summed over partitions" if summed else ""): bool(columns),
        "floor: fewest possible": any(column.floor is not None for column in columns),
        **dict.fromkeys((term for t in changing for term in passes.terms(t)), True),
        "decay: only data changed": any(words.shown_decay(t, verbose=options.verbose) for t in tables),
        "kd: k-d tree": "kd" in curves,
        "curve workload: files end at constants of queries": "workload" in curves,
    }
    if any(signs.values()):
        yield "", "  " + "    ".join(sign for sign, used in signs.items() if used)
    # The words of a term stay in one line.
    line = "    ".join(term.replace(" ", _NO_BREAK) for term, used in terms.items() if used)
    for piece in wrapped(f"  {line}", options.width, 2) if line else ():
        yield "dim", piece.replace(_NO_BREAK, " ")
    yield "", ""


def render_table(table: TablePlan, result: TableResult | None, options: TextOptions) -> str:
    """Render one table as in the text report, without a final line break."""
    return "\n".join(_table(table, result, options))


def _table(table: TablePlan, result: TableResult | None, options: TextOptions) -> Iterator[str]:
    style = options.style
    version = table.version
    at = "" if version is None or version < 0 else f", {version_word(table.format)} {version}"
    title = printable(f"{table.table} ({table.format}{at})")
    location = printable(str(table.location))
    gap = options.width - len(title) - len(location)
    yield style("title", title) + (" " * gap + style("dim", location) if gap > 1 else f"\n  {style('dim', location)}")
    if table.storage_location is not None:
        yield style("dim", printable(_labelled("", "location", table.storage_location)))
    if table.rule:
        yield style("dim", printable(_labelled("", "rule", table.rule)))
    lines = ((name, line, _TEXT_INDENT) for name, line in _lines(table, result, options))
    diagnostics = _diagnosed((*table.diagnostics, *(result.problems if result else ())))
    for name, line, indent in (*lines, *diagnostics):
        # A plan file may contain any text, so characters that are not printable are replaced.
        for piece in wrapped(printable(line), options.width, indent):
            yield style(name, piece) if name else piece


def _diagnosed(diagnostics: Iterable[Diagnostic]) -> Iterator[tuple[str, str, int]]:
    for d in diagnostics:
        start = f"      {d.severity}: "
        yield d.severity, f"{start}{printable(str(replace(d, hint='')))}", len(start)
        if d.hint:
            yield "dim", f"      {'hint':>{len(d.severity)}}: {printable(d.hint)}", len(start)


def _lines(table: TablePlan, result: TableResult | None, options: TextOptions) -> Iterator[tuple[str, str]]:
    if table.status is Status.UNCHANGED:
        yield "", _labelled("", "unchanged", f"{plural(table.files, 'file')}, {size(table.bytes)}")
    for drift in table.drift:
        yield "alter", _labelled("~", drift.key, words.drift_text(drift))
    if table.drift and (hidden := len(table.settings) - len(table.drift)) > 0:
        yield "dim", f"      # ({plural(hidden, 'unchanged setting')} hidden)"
    for name, before, after, why, _ in words.altered(table):
        yield "alter", _labelled("~", printable(name), f"{before} -> {after}" + (why and f"  ({why})"))
    if table.is_first:
        yield "first", _labelled("+", "layout", words.layout_text(table))
    groups = table.groups
    if groups:
        yield "rewrite", _labelled("-/+", "rewrite", words.rewrite_text(table))
        if any(group.partition for group in groups):
            limit = None if options.verbose else words.MAX_PARTITIONS
            yield "", _labelled("", "partitions", words.partitions_text(groups, limit))
        yield "", _labelled("", "because", words.reasons_text(groups))
        if options.verbose and table.rebases is not None:
            yield "", _labelled("", "meanwhile", words.REBASED if table.rebases else words.CONFLICTS)
    yield from (("", _labelled("", *line)) for line in words.later_lines(table))
    for decay in words.shown_decay(table, verbose=options.verbose):
        yield "", _labelled("", "decay", words.decay_text(decay))
    yield from (("", line) for line in _columns(table, options.width))
    for at, line in enumerate(words.workload_lines(table)):
        yield "dim" if at else "", _labelled("", "" if at else "workload", line)
    if table.sample:
        yield "dim", _labelled("", "", words.sample_text(table.sample))
    elif groups and not result and words.is_vague(table):
        yield "dim", _labelled("", "", words.NARROW)
    if result:
        yield "", _labelled("", "result", words.result_text(result))
        if result.columns and groups:
            yield "", _labelled("", "measured", words.measured_text(result))
    if stored := words.storage_text(table, result):
        yield "", _labelled("", "storage", stored)
    if result and result.rollback:
        yield "", _labelled("", "roll back", result.rollback)


def _labelled(sign: str, label: str, text: str) -> str:
    gap = 1 if len(label) < _LABEL_WIDTH else 2
    return f"  {sign:<3} {label:<{_LABEL_WIDTH - 1}}{' ' * gap}{text}"


def _columns(table: TablePlan, width: int) -> Iterator[str]:
    columns = [(printable(c.column), c, c.bytes_read) for c in table.columns]
    floors = ["" if c.floor is None else f"(floor {number(c.floor)})" for c in table.columns]
    touched = [(name, number(c.touched), words.touched_text(c)) for name, c, _ in columns]
    yield from _by_column("touched", touched, floors, width)
    if any(read.now for _, _, read in columns):
        in_files = [(name, size(read.now), words.bytes_text(read)) for name, _, read in columns]
        yield from _by_column("bytes read", in_files, [""] * len(columns), width)
    if words.has_row_groups(table):
        in_groups = [(name, *words.row_groups_text(read)) for name, _, read in columns]
        yield from _by_column("in row groups", in_groups, [""] * len(columns), width)


def _by_column(label: str, values: Sequence[tuple[str, str, str]], limits: Sequence[str], width: int) -> Iterator[str]:
    """values: (name, present value, value after apply) of each column. limits: the floors, '' for none."""
    if not values:
        return
    cells = [(*value, limit) for value, limit in zip(values, limits, strict=True)]
    line = "   ".join(
        f"{name} {now}{after and ' -> '}{after}{limit and ' '}{limit}" for name, now, after, limit in cells
    )
    if len(line) + _TEXT_INDENT <= width:
        yield _labelled("", label, line)
        return
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    arrow = " -> " if wide[2] else ""
    for at, (name, now, after, limit) in enumerate(cells):
        text = f"{name:<{wide[0]}}  {now:>{wide[1]}}{arrow}{after:>{wide[2]}} {limit:>{wide[3]}}"
        yield _labelled("", "" if at else label, text.rstrip())


# The history of a table.


_BARS = "▁▂▃▄▅▆▇█"


def render_history(table: str, records: Sequence[Record], trend: Trend, growing: Sequence[Growth]) -> str:
    """Return the text of `zlayout history`."""
    if not records:
        return f"{printable(table)}: no records yet\n"
    first, last = (record.time.strftime("%Y-%m-%d") for record in (records[0], records[-1]))
    lines = [f"{printable(table)}  {plural(len(records), 'record')}, {first} to {last}, times in UTC", ""]
    lines += _record_lines(records, trend)
    lines += ["", "  columns: touched before -> measured (predicted)"]
    lines += ["", *_sparklines(records, trend)] if trend.times else []
    lines += ["", *(f"  {growth_text(growth)}" for growth in growing)] if growing else []
    return "\n".join(lines) + "\n"


def growth_text(growth: Growth) -> str:
    """Write in how many days a growing decay measure will pass its tolerance, as a range."""
    value, limit = measure_texts(growth.measure, growth.value, growth.tolerance)
    return (
        f"{growth.measure} {value} of {limit}, growing: past the tolerance in about {_days(*growth.days)} "
        f"({growth.records} records since the last rewrite)"
    )


def sparkline(values: Sequence[float | None]) -> str:
    """Draw values as bars of eight heights, from the lowest to the highest value; a space where one is unknown.

    Values that are printed alike have the same height.
    """
    values = [None if value is None else float(number(value).replace(",", "").replace("<", "")) for value in values]
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, span = min(known), max(known) - min(known)
    return "".join(" " if v is None else _BARS[round((v - low) / span * 7) if span else 0] for v in values)


def _record_lines(records: Sequence[Record], trend: Trend) -> Iterator[str]:
    rows = [["time", "command", "state", "files", "rewritten", *map(printable, trend.columns)]]
    for record in records:
        columns = {column.column: column for column in record.columns}
        cells = [_touched_of(columns[name]) if name in columns else "" for name in trend.columns]
        rewritten = size(record.rewrite_bytes) if record.rewrote else ""
        time, state = record.time.strftime("%Y-%m-%d %H:%M"), record.state.value.replace("_", " ")
        rows.append([time, record.command.value, state, f"{record.files:,}", rewritten, *cells])
    return aligned(rows, (3, 4))


def _touched_of(column: ColumnRecord) -> str:
    measured = f" -> {number(column.measured)}" if column.measured is not None else ""
    predicted = f" ({number(column.predicted)})" if column.predicted is not None else ""
    return f"{number(column.touched)}{measured}{predicted}"


def _sparklines(records: Sequence[Record], trend: Trend) -> Iterator[str]:
    floors = {c.column: c.floor for record in records for c in record.columns if c.floor is not None}
    width = max(len(printable(name)) for name in trend.columns)
    for name, touched in trend.columns.items():
        known = [value for value in touched if value is not None]
        floor = f", floor {number(floors[name])}" if name in floors else ""
        ends = dict.fromkeys((number(min(known)), number(max(known))))
        yield f"  {printable(name):<{width}}  {sparkline(touched)}  touched {'..'.join(ends)}{floor}"


def _days(low: float, high: float) -> str:
    if high < 1:
        return "a day"
    ends = dict.fromkeys(f"{max(days, 1):.0f}" for days in (low, high))
    return f"{' to '.join(ends)} day{'s' if list(ends) != ['1'] else ''}"
