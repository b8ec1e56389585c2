"""Write the report as text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from zlayout.errors import Diagnostic
from zlayout.planner.actions import ChangeClustering, ChangePartitioning, SetProperties
from zlayout.planner.model import (
    ColumnForecast,
    Plan,
    Status,
    TablePlan,
)
from zlayout.planner.result import TableResult
from zlayout.planner.run_report import RunReport
from zlayout.report.closing import last_line
from zlayout.report.forecast_text import (
    NARROW,
    bytes_text,
    has_row_groups,
    hot_text,
    is_vague,
    left_over_text,
    measured_text,
    row_groups_text,
    sample_text,
)
from zlayout.report.legend import legend
from zlayout.report.lines import wrapped
from zlayout.report.one_line import MAX_TABLES, brief, table_lines, worst_first
from zlayout.report.phrases import (
    MAX_PARTITIONS,
    decay_text,
    drift_text,
    layout_text,
    partitions_text,
    reasons_text,
    result_text,
    rewrite_text,
    shown_decay,
    storage_text,
)
from zlayout.report.words import (
    known,
    number,
    plural,
    printable,
    property_reason,
    setting,
    size,
    version_word,
)
from zlayout.report.workload_text import workload_lines

Style = Callable[[str, str], str]

# Tables with errors are last, so that they are next to the summary and to the prompt of a terminal.
_ORDER = (Status.UNCHANGED, Status.CHANGES, Status.REFUSED, Status.ERROR)
_LABEL_WIDTH = 16
_TEXT_INDENT = 6 + _LABEL_WIDTH


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Options of the text report.

    Attributes:
        width: The number of columns of the terminal.
        summary: Whether to show one line for each table.
        verbose: Whether to show unchanged tables and decay within the tolerance too.
        style: A function of kind and text that colours the text. Kinds are title, first, alter, rewrite, error,
            refused, warning, note and dim.
    """

    width: int = 100
    verbose: bool = False
    style: Style = lambda _kind, text: text
    summary: bool = False


def render(shown: Plan | RunReport, options: TextOptions | None = None, *, heading: str = "") -> str:
    """Render the text report with a final line break. Tables with errors are last, next to the summary."""
    options = options or TextOptions()
    report = RunReport.of(shown)
    lines = [printable(heading), ""] if heading else []
    if options.summary:
        lines += [
            options.style(*item)
            for item in (*table_lines(worst_first(report.plan.tables)[::-1], options.width), ("", ""))
        ]
    else:
        lines += _tables(report, options)
    for kind, line, indent in _diagnosed(report.plan.diagnostics):
        lines += [options.style(kind, piece) for piece in wrapped(line[4:], options.width, indent - 4)]
    lines += [""] * bool(report.plan.diagnostics)
    lines += [options.style("title", piece) for piece in wrapped(last_line(report), options.width, 0)]
    return "\n".join(lines) + "\n"


def _tables(report: RunReport, options: TextOptions) -> Iterator[str]:
    tables = [t for t in report.plan.tables if options.verbose or t.status is not Status.UNCHANGED or t.diagnostics]
    for kind, line in legend(tables, options.width, verbose=options.verbose):
        yield options.style(kind, line) if line else ""
    full = len(tables) <= MAX_TABLES or options.verbose or bool(report.results)
    shown, others = (tables, []) if full else _parted(tables)
    yield from (options.style(kind, line) for kind, line in brief(others, options.width) if others)
    failed = report.failed if report.results else {}
    for table in sorted(shown, key=lambda t: (_ORDER.index(t.status), t.table in failed)):
        yield from _table(table, report.results.get(table.table), options)
        yield ""


def _parted(tables: list[TablePlan]) -> tuple[list[TablePlan], list[TablePlan]]:
    """Return the worst MAX_TABLES tables, the worst last, and the others."""
    ordered = worst_first(tables)
    return ordered[MAX_TABLES - 1 :: -1], ordered[MAX_TABLES:]


def render_table(table: TablePlan, result: TableResult | None, options: TextOptions) -> str:
    """Render one table as in the text report, without a final line break."""
    return "\n".join(_table(table, result, options))


def _table(table: TablePlan, result: TableResult | None, options: TextOptions) -> Iterator[str]:
    style = options.style
    version = table.version
    at = "" if version is None or version < 0 else f", {version_word(table.format)} {version}"
    title = printable(f"{table.table} ({table.format}{at})")
    place = printable(str(table.location))
    gap = options.width - len(title) - len(place)
    yield style("title", title) + (" " * gap + style("dim", place) if gap > 1 else f"\n  {style('dim', place)}")
    if table.storage_location is not None:
        yield style("dim", printable(_labelled("", "location", table.storage_location)))
    if table.rule:
        yield style("dim", printable(_labelled("", "rule", table.rule)))
    for kind, line, indent in _parts(table, result, options):
        # A plan file may contain any text, so characters that are not printable are replaced.
        for piece in wrapped(printable(line), options.width, indent):
            yield style(kind, piece) if kind else piece


def _parts(table: TablePlan, result: TableResult | None, options: TextOptions) -> Iterator[tuple[str, str, int]]:
    """Yield (style, line, indent of continuation lines) for each line of a table below its title."""
    for kind, line in _lines(table, result, options):
        yield kind, line, _TEXT_INDENT
    yield from _diagnosed((*table.diagnostics, *(result.problems if result else ())))


def _diagnosed(diagnostics: Iterable[Diagnostic]) -> Iterator[tuple[str, str, int]]:
    for d in diagnostics:
        start = f"      {d.severity}: "
        yield d.severity, f"{start}{printable(str(replace(d, hint='')))}", len(start)
        if d.hint:
            yield "dim", f"      {'hint':>{len(d.severity)}}: {printable(d.hint)}", len(start)


def _lines(table: TablePlan, result: TableResult | None, options: TextOptions) -> Iterator[tuple[str, str]]:
    """Yield (style, line) for the plan and the result of a table, without diagnostics."""
    if table.status is Status.UNCHANGED:
        yield "", _labelled("", "unchanged", f"{plural(table.files, 'file')}, {size(table.bytes)}")
    for drift in table.drift:
        yield "alter", _labelled("~", drift.key, drift_text(drift))
    if table.drift and (hidden := len(table.settings) - len(table.drift)) > 0:
        yield "dim", f"      # ({plural(hidden, 'unchanged setting')} hidden)"
    for action in table.actions:
        match action:
            case SetProperties(changes):
                for change in changes:
                    text = f"{setting(change.before)} -> {setting(change.after)}  ({property_reason(change)})"
                    yield "alter", _labelled("~", printable(change.name), text)
            case ChangePartitioning(before, after):
                yield "alter", _labelled("~", "partition_by", f"{setting(before)} -> {setting(after)}")
            case ChangeClustering(before, after):
                yield "alter", _labelled("~", "cluster by", f"{setting(before)} -> {setting(after)}")
    if table.is_first:
        yield "first", _labelled("+", "layout", layout_text(table))
    groups = table.groups
    if groups:
        yield "rewrite", _labelled("-/+", "rewrite", rewrite_text(table))
        if any(group.partition for group in groups):
            yield "", _labelled("", "partitions", partitions_text(groups, None if options.verbose else MAX_PARTITIONS))
        yield "", _labelled("", "because", reasons_text(groups))
    if table.left_over:
        yield "", _labelled("", "left over", left_over_text(table.left_over))
    if table.hot:
        yield "", _labelled("", "hot", hot_text(table.hot))
    for decay in shown_decay(table, verbose=options.verbose):
        yield "", _labelled("", "decay", decay_text(decay))
    for line in (*_touched(table.columns, options.width), *_reads(table, options.width)):
        yield "", line
    for at, line in enumerate(workload_lines(table)):
        yield "dim" if at else "", _labelled("", "" if at else "workload", line)
    if table.sample:
        yield "dim", _labelled("", "", sample_text(table.sample))
    elif groups and not result and is_vague(table):
        yield "dim", _labelled("", "", NARROW)
    if result:
        yield "", _labelled("", "result", result_text(result))
        if result.columns and groups:
            yield "", _labelled("", "measured", measured_text(result))
    if stored := storage_text(table, result):
        yield "", _labelled("", "storage", stored)
    if result and result.rollback:
        yield "", _labelled("", "roll back", result.rollback)


def _labelled(sign: str, label: str, text: str) -> str:
    gap = 1 if len(label) < _LABEL_WIDTH else 2
    return f"  {sign:<3} {label:<{_LABEL_WIDTH - 1}}{' ' * gap}{text}"


def _touched(columns: tuple[ColumnForecast, ...], width: int) -> Iterator[str]:
    cells = [
        (
            printable(c.column),
            number(c.touched),
            known(c.predicted, c.low, c.high),
            "" if c.floor is None else f"(floor {number(c.floor)})",
        )
        for c in columns
    ]
    yield from _by_column("touched", cells, width)


def _reads(table: TablePlan, width: int) -> Iterator[str]:
    """Yield the bytes that a query for one value reads, unless a plan file has none: of files, and of row groups."""
    if any(c.bytes_read.now for c in table.columns):
        cells = [(printable(c.column), size(c.bytes_read.now), bytes_text(c.bytes_read), "") for c in table.columns]
        yield from _by_column("bytes read", cells, width)
    if has_row_groups(table):
        cells = [(printable(c.column), *row_groups_text(c.bytes_read), "") for c in table.columns]
        yield from _by_column("in row groups", cells, width)


def _by_column(label: str, cells: Sequence[tuple[str, str, str, str]], width: int) -> Iterator[str]:
    """Yield column, present value, value after apply and limit of each column: one line if it fits, else one each."""
    if not cells:
        return
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
