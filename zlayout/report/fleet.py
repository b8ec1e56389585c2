"""The parts that only the HTML page of many tables has: a list of the worst tables, a treemap, and compressed details.

The details of a table are one section of markup. A page of few tables contains the sections uncompressed. In a page of
many tables, a chunk of sections is compressed together, because they share most of their markup. The script of the page
decompresses a chunk on demand.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zlayout.message_text import plural
from zlayout.planner.model import TablePlan, summary
from zlayout.planner.run_report import RunReport
from zlayout.report import words
from zlayout.report.charts import Tile, heat, treemap
from zlayout.report.one_line import worst_first

# The largest number of tables whose details the page has uncompressed. A page of more tables begins with an overview.
MAX_OPEN_TABLES = 20
# In a report of more tables, histograms are drawn only for tables with a picture. Drawing a histogram takes 20 ms.
MAX_HISTOGRAM_TABLES = 50
# The number of tables in the list of the worst ones. If enough other tables change, at most half of the list are tables
# that are refused or have errors.
WORST = 10
# The number of rows that the script shows at first. Browsers need seconds to lay out a thousand rows.
MAX_ROWS = 100
TABLES_PER_CHUNK = 25
# The smallest area of a table in the treemap, as a multiple of the mean area, so that small tables are visible.
MIN_TILE = 0.2
Entry = Mapping[str, Any]  # a table in the form that the templates read, which `html` makes


@dataclass(frozen=True, slots=True)
class Fleet:
    """The parts that only the page of many tables has.

    Attributes:
        worst: The entries of the tables that need attention most.
        treemap: All tables as tiles, as SVG.
        saving: A sentence that states the bytes that queries read now and after the plan; '' if they are not known.
        chunks: Details of tables as base64 of deflated markup, TABLES_PER_CHUNK tables each.
        per_chunk: TABLES_PER_CHUNK.
        rows: MAX_ROWS.
    """

    worst: Sequence[Entry]
    treemap: str
    saving: str
    chunks: Sequence[str]
    per_chunk: int = TABLES_PER_CHUNK
    rows: int = MAX_ROWS


def in_order(report: RunReport) -> list[TablePlan]:
    """Return the tables in the order of the page: if they are many, those that need attention come first."""
    tables = report.plan.tables
    if len(tables) <= MAX_OPEN_TABLES:
        return list(tables)
    return sorted(worst_first(tables), key=lambda table: not report.is_open(table))


def fleet(entries: Sequence[Entry], sections: Sequence[str]) -> Fleet | None:
    """Make the parts of the page of many tables; None for few tables.

    Args:
        entries: The tables in the order of the page.
        sections: The details of each table as markup.
    """
    if len(entries) <= MAX_OPEN_TABLES:
        return None
    return Fleet(
        worst=_worst(entries),
        treemap=treemap(_tiles(entries)),
        saving=_saving(entries),
        chunks=[_pack(sections[at : at + TABLES_PER_CHUNK]) for at in range(0, len(sections), TABLES_PER_CHUNK)],
    )


def _worst(entries: Sequence[Entry]) -> list[Entry]:
    not_planned = [entry for entry in entries if entry["kind"] in ("error", "refused")]
    others = [entry for entry in entries if entry["kind"] not in ("error", "refused", "unchanged")]
    return [*not_planned[: max(WORST // 2, WORST - len(others))], *others][:WORST]


def _pack(sections: Sequence[str]) -> str:
    """Compress markup to base64 of zlib's format, which browsers call `deflate`."""
    return base64.b64encode(zlib.compress("\n".join(sections).encode(), level=9)).decode()


def _tiles(entries: Sequence[Entry]) -> list[Tile]:
    smallest = max(MIN_TILE * sum(entry["plan"].bytes for entry in entries) / len(entries), 1.0)
    return [
        Tile(max(plan.bytes, smallest), _color(entry), f"{plan.table}: {entry['state']}, {words.size(plan.bytes)}")
        for entry in entries
        for plan in [entry["plan"]]
    ]


def _color(entry: Entry) -> str:
    if entry["kind"] in ("error", "refused"):
        return "var(--bad)"
    if entry["kind"] == "unchanged":
        return "var(--heat-0)"
    ratios = [c["now"].touched / c["last"] for c in entry["columns"] if c["last"]]
    return f"var(--heat-{max(heat(max(ratios, default=1.0)), 1)})"


def _saving(entries: Sequence[Entry]) -> str:
    known = [e for e in entries if e["plan"].groups and e["most_read"] and e["after"]["most_read"]]
    if not known or summary(e["plan"] for e in entries).rewrite != len(known) or any(e["result"] for e in entries):
        return ""
    now, after = (sum(e["most_read"] for e in known), sum(e["after"]["most_read"] for e in known))
    return (
        f"A query for one value of the worst column reads {words.size(now)} now and "
        f"{words.same_size(words.size(after))} after (forecast, if rows keep their size; the upper end where it is a "
        f"range), over {plural(len(known), 'table')}."
    )
