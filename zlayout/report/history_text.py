"""Write the history of a table as text: its records, a sparkline for each column, and the growing decay measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zlayout.message_text import plural
from zlayout.planner.run_report import Trend
from zlayout.records.history import ColumnRecord, Record
from zlayout.records.trend import Growth
from zlayout.report.phrases import measure_texts
from zlayout.report.words import aligned, number, printable, size

_BARS = "▁▂▃▄▅▆▇█"


def render(table: str, records: Sequence[Record], trend: Trend, growing: Sequence[Growth]) -> str:
    """Return the text of `zlayout history`."""
    if not records:
        return f"{printable(table)}: no records yet\n"
    first, last = (record.time.strftime("%Y-%m-%d") for record in (records[0], records[-1]))
    lines = [f"{printable(table)}  {plural(len(records), 'record')}, {first} to {last}, times in UTC", ""]
    lines += _table(records, trend)
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


def _table(records: Sequence[Record], trend: Trend) -> Iterator[str]:
    rows = [["time", "command", "state", "files", "rewritten", *map(printable, trend.columns)]]
    for record in records:
        columns = {column.column: column for column in record.columns}
        cells = [_touched(columns[name]) if name in columns else "" for name in trend.columns]
        rewritten = size(record.rewrite_bytes) if record.rewrote else ""
        time, state = record.time.strftime("%Y-%m-%d %H:%M"), record.state.value.replace("_", " ")
        rows.append([time, record.command.value, state, f"{record.files:,}", rewritten, *cells])
    return aligned(rows, (3, 4))


def _touched(column: ColumnRecord) -> str:
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
