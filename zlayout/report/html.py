"""Write the report as one HTML page without external resources, in which all names are escaped.

`render` makes the page. The page of a plan or a run of many tables begins with an overview of them.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import ceil, floor, log10, sqrt
from typing import TYPE_CHECKING, Any

from zlayout.planner.model import BytesRead, ColumnForecast, Plan, TablePlan, summary
from zlayout.planner.run_report import SCALE, Boxes, MeasuredColumn, Picture, RunReport, StripBin, TableResult, Trend
from zlayout.report import changes, words
from zlayout.report.words import (
    bytes_text,
    has_row_groups,
    later_text,
    number,
    printable,
    row_groups_text,
    touched_text,
    workload_lines,
    worst_first,
)
from zlayout.text import first_of, plural, size

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

# Charts. `charts.svg.jinja` draws them from the numbers that are computed here. Widths of text are estimated, because
# the browser chooses the font.


Entry = Mapping[str, Any]  # what a template reads, for example of one table
MAP_SIDE = 250
BAR_WIDTH = 120
TREEMAP_SIZE = 1000, 260
MAX_TITLE_LENGTH = 32
MIN_OPACITY = 0.04
# The touched ratios that separate the levels of colour.
HEAT_BORDERS = (1.05, 1.5, 2.0, 4.0, 8.0)
_CHARACTER = 0.62  # the estimated width of a character, in units of the font size
_COLORS = {"now": "var(--before)", "after": "var(--after)"}
_SERIES = ("currentColor", *_COLORS.values(), "var(--link)", "var(--ok)", "var(--warn)", "var(--bad)")
_GOLDEN = (1 + sqrt(5)) / 2
_LINE_WIDTH, _LINE_HEIGHT, _LINE_MARGIN = 96, 22, 3  # of a line of touched over time
_DAY = 86400.0


@cache
def _charts() -> Any:
    filters: dict[str, Callable[..., object]] = {"px": _px, "fitting": _fitting}
    jinja = environment(filters)
    jinja.globals["box"] = _box
    return jinja.from_string(_source("charts.svg.jinja")).module


def _drawn(chart: str, *numbers: Any) -> Markup:
    found: Markup = getattr(_charts(), chart)(*numbers)
    return found


def _source(name: str) -> str:
    return files("zlayout.report").joinpath("page", name).read_text("utf-8")


def file_map(boxes: Boxes, columns: Sequence[str], color: str) -> Markup:
    """Draw files as boxes over one or two z-order columns; '' without boxes. color: `now` or `after`."""
    if not boxes.count:
        return markup("")
    p = boxes.positions
    rows = [p[at : at + 4] for at in range(0, len(p), 4)]  # left, right, bottom and top of each box
    up = columns[1] if len(columns) > 1 else "files"
    look = _COLORS[color], _opacity(rows), max(0.3, min(1.0, 60 / len(rows)))
    return _drawn("file_map", rows, MAP_SIDE / SCALE, MAP_SIDE, *look, columns[0], up)


def gain(now: float, after: float | None) -> Markup:
    """Draw two bars, one above the other. now, after: their lengths, from 0 to 1. after: None for one bar alone."""
    shown = [(now, "now"), *([] if after is None else [(after, "after")])]
    rects = [(max(1.0, BAR_WIDTH * min(value, 1.0)), _COLORS[color]) for value, color in shown]
    return _drawn("gain", rects, BAR_WIDTH)


def _opacity(rows: Sequence[Sequence[int]]) -> float:
    """Return an opacity with which a single box is light, and many overlapping boxes are dark but not black."""
    covered = sum((right - left) * (top - bottom) for left, right, bottom, top in rows) / SCALE**2
    depth = max(covered, 1.0)
    # Browsers round colours to steps of 1/255. Below MIN_OPACITY, the sum of many rounding errors would be visible.
    return max(MIN_OPACITY, float(1 - (0.8 - 0.6 * (1 - 1 / depth)) ** (1 / depth)))


def bars(now: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]], title: str, width: int = MAP_SIDE) -> Markup:
    """Draw two histograms of files, now and after, with their bars side by side; '' without files.

    now, after: (label, number of files) of each class; `after` may be empty. title: the title of the horizontal axis.
    """
    series = {name: {_short(label): n for label, n in part} for name, part in (("now", now), ("after", after)) if part}
    most = max((n for part in series.values() for n in part.values()), default=0)
    if not most:
        return markup("")
    labels = list(dict.fromkeys(label for part in series.values() for label in part))
    height, step = 120, max(1, round(_step(most / 4)))
    ticks = range(0, most + step, step)
    unit, slot = height / ticks[-1], width / (len(labels) + 0.2)
    bar = 0.8 * slot / len(series)
    boxes = [
        (_box((at + 0.2) * slot + nth * bar, height - n * unit, bar, n * unit), _COLORS[name])
        for nth, (name, part) in enumerate(series.items())
        for at, label in enumerate(labels)
        if (n := part.get(label, 0))
    ]
    levels = [(_si(tick), height - tick * unit) for tick in ticks]
    places = [((at + 0.6) * slot, label) for at, label in enumerate(labels)]
    return _drawn("bars", boxes, _axes(width, height, levels, places, slot, 10, title, "files"))


def _axes(
    width: float,
    height: float,
    ticks: Sequence[tuple[str, float]],
    labels: Sequence[tuple[float, str]],
    slot: float,
    size: int,
    across: str,
    up: str,
) -> dict[str, Any]:
    stride = 1
    while slot * stride < _text_width((label for _, label in labels), size) + 4:
        stride *= 2
    left = round(7 + _text_width((label for label, _ in ticks), 11))
    axes = {"width": width, "height": height, "left": left, "ticks": ticks, "labels": labels[::stride]}
    return {**axes, "size": size, "across": across, "up": up}


def _short(label: str) -> str:
    return re.sub(r"[^0-9/ +.≤>-]", "?", label[:MAX_TITLE_LENGTH].replace("<= ", "≤").replace("> ", ">"))


def heat(excess: float) -> int:
    """Return the colour level of a touched ratio: from 0 (at most 1.05) to 5 (above 8)."""
    return sum(excess > border for border in HEAT_BORDERS)


def partition_strip(bins: Sequence[StripBin]) -> Markup:
    """Draw strip bins side by side, coloured by `heat`. Bins with files to rewrite have a mark below them."""
    if not bins:
        return markup("")
    width, gap = 2 * MAP_SIDE + 60, 0.12 if len(bins) < 60 else 0.0
    shown = [(heat(b.excess), b.rewritten) for b in bins]
    return _drawn("strip", shown, width / len(bins), gap, width, _COLORS["after"])


def lines(series: Mapping[str, Sequence[tuple[int, float]]], across: str, up: str) -> Markup:
    """Draw named series of points over integers, with a logarithmic vertical axis; '' without points.

    series: the points (x, y) by the name of their series. across, up: the titles of the axes.
    """
    places = sorted({x for points in series.values() for x, _ in points})
    if not places:
        return markup("")
    width, height, slot = 2 * MAP_SIDE, 200, 2 * MAP_SIDE / len(places)
    values = [max(y, 1.0) for points in series.values() for _, y in points]
    low, high = min(values), max(values)
    ticks = _log_ticks(low, high) if low < high else [low]
    low, high = (low, high) if low < high else (low / 1.2, high * 1.2)

    def level(y: float) -> float:
        return height * (1 - log10(max(y, 1.0) / low) / log10(high / low))

    column = {x: (n + 0.5) * slot for n, x in enumerate(places)}
    names = [_fitting(name) for name in series]
    drawn = [
        ([(column[x], level(y)) for x, y in sorted(points)], _SERIES[n % len(_SERIES)], name)
        for n, (name, points) in enumerate(zip(names, series.values(), strict=True))
    ]
    levels, labels = [(_si(tick), level(tick)) for tick in ticks], [(column[x], str(x)) for x in places]
    axes = _axes(width, height, levels, labels, slot, 11, across, up)
    return _drawn("lines", drawn, axes | {"right": round(34 + _text_width(names, 10))})


def sparkline(trend: Trend | None, column: str) -> Entry | None:
    """Draw touched of one column over time; None without two known values.

    Returns:
        `svg`, its description `alt`, and `growth`: the last value divided by the first, by which the page sorts.
    """
    points: list[tuple[float, float]] = []
    if trend is not None and column in trend.columns:
        known = zip(trend.times, trend.columns[column], strict=True)
        points = [(time, value) for time, value in known if value is not None]
    if len(points) < 2:
        return None
    (first, start), (last, end) = points[0], points[-1]
    days = (last - first) / _DAY
    over = plural(round(days), "day") if days >= 1 else "less than a day"
    alt = f"Touched of {column} from {number(start)} to {number(end)} over {over}, {plural(len(points), 'record')}"
    return {"svg": _trend_svg(points), "alt": alt, "growth": end / start if start else 1.0}


def steepest(trend: Trend | None) -> Entry | None:
    """Draw the column of which touched grew most; None if no column has a line."""
    lines = [line for column in (trend.columns if trend else ()) if (line := sparkline(trend, column))]
    return max(lines, key=lambda line: line["growth"], default=None)


def _trend_svg(points: list[tuple[float, float]]) -> Markup:
    times, values = zip(*points, strict=True)
    at = [_scaled(time, times[0], times[-1], _LINE_WIDTH) for time in times]
    up = [_LINE_HEIGHT - _scaled(value, min(values), max(values), _LINE_HEIGHT) for value in values]
    return _drawn("trend", list(zip(at, up, strict=True)), _LINE_WIDTH, _LINE_HEIGHT)


def _scaled(value: float, low: float, high: float, size: int) -> float:
    return _LINE_MARGIN + (size - 2 * _LINE_MARGIN) * ((value - low) / (high - low) if high > low else 0.5)


def treemap(tiles: Sequence[tuple[float, str, str]]) -> Markup:
    """Draw tiles as rectangles, the largest first. The SVG elements are in the order of `tiles`.

    tiles: The relative area of each, its CSS colour, and the text that a browser shows for it.
    """
    width, height = TREEMAP_SIZE
    order = sorted(range(len(tiles)), key=lambda n: -tiles[n][0])
    placed = dict(zip(order, _squarified([tiles[n][0] for n in order], width + 1, height + 1), strict=True))
    drawn = []
    for n, (_, color, title) in enumerate(tiles):
        # Half a pixel of the gap is on each side of a tile, and outside of the picture at its border.
        left, top, right, bottom = (
            max(0, floor(end + 0.5)) for end in (e + d for e, d in zip(placed[n], (0, 0, -1, -1), strict=True))
        )
        drawn.append((_box(left, top, right - left, bottom - top), color, title))
    return _drawn("treemap", drawn, width, height)


def _squarified(areas: Sequence[float], width: float, height: float) -> list[tuple[float, float, float, float]]:
    """Return (left, top, right, bottom) of a rectangle for each relative area. areas: in descending order."""
    # Bruls, Huizing and van Wijk, "Squarified treemaps" (2000), as in D3, with side ratios near the golden ratio.
    found: list[tuple[float, float, float, float]] = []
    left, top, rest, at = 0.0, 0.0, float(sum(areas)), 0
    while at < len(areas):
        across, down = width - left, height - top
        alpha = max(down / across, across / down) / (rest * _GOLDEN) if min(across, down) > 0 and rest > 0 else 0.0
        total, end, worst = areas[at], at + 1, _ratio(areas[at], areas[at], areas[at], alpha)
        while end < len(areas):
            ratio = _ratio(total + areas[end], areas[at], areas[end], alpha)
            if ratio > worst:
                break
            total, end, worst = total + areas[end], end + 1, ratio
        share = total / rest if rest > 0 else 1.0
        along, used = (across, down * share) if across < down else (down, across * share)
        place = left if across < down else top
        for area in areas[at:end]:
            length = along * area / total if total > 0 else 0.0
            if across < down:
                found.append((place, top, place + length, top + used))
            else:
                found.append((left, place, left + used, place + length))
            place += length
        left, top = (left, top + used) if across < down else (left + used, top)
        rest, at = rest - total, end
    return found


def _ratio(total: float, largest: float, smallest: float, alpha: float) -> float:
    beta = total * total * alpha
    return max(largest / beta, beta / smallest) if beta > 0 and smallest > 0 else float("inf")


def _text_width(texts: Iterable[str], size: int) -> float:
    return size * _CHARACTER * max(map(len, texts), default=0)


def _step(distance: float) -> float:
    power = 10.0 ** floor(log10(distance))
    near = ((1, sqrt(2)), (2, sqrt(10)), (5, sqrt(50)))
    return power * next((factor for factor, border in near if distance / power < border), 10)


def _log_ticks(low: float, high: float) -> list[float]:
    decades = [10.0**n for n in range(floor(log10(low)), ceil(log10(high)) + 1)]
    for digits in (range(1, 10), (1, 2, 5), (1,)):
        found = [tick for decade in decades for n in digits if low <= (tick := n * decade) <= high]
        if len(found) <= 8:
            break
    if len(found) > 1:
        return found[:: ceil(len(found) / 8)]
    step = _step((high - low) / 4)
    return [n * step for n in range(ceil(low / step), floor(high / step) + 1)]


def _si(value: float) -> str:
    for letter, unit in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= unit:
            return f"{_px(value / unit)}{letter}"
    return _px(value)


def markup(text: str) -> Markup:
    """Mark SVG as markup that a template must not escape."""
    import markupsafe

    return markupsafe.Markup(text)


def _fitting(name: str) -> str:
    name = printable(name)
    return name if len(name) <= MAX_TITLE_LENGTH else name[: MAX_TITLE_LENGTH - 1] + "…"


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{_px(x)},{_px(y)}h{_px(width)}v{_px(height)}h{_px(-width)}Z"


def _px(value: float, digits: int = 2) -> str:
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# The figures of one table: maps of its files, and histograms before and after.


Figure = dict[str, Any]
Histogram = Sequence[tuple[str, int]]
_ILLUSTRATION = (
    ". This picture is made from the bounds of the present files, as if their columns were independent; "
    "`zlayout plan --sample` makes it from rows"
)


def charts_of(table: TablePlan, result: TableResult | None, picture: Picture | None) -> list[Figure]:
    """Return the figures in the order of the page, with `svg` as markup and `alt` and `caption` as text.

    A figure of kind `compare` has the maps `before` and `after` instead of `svg`. The page has a slider between them.
    """
    maps = [figure for figure in _maps(result, picture) if figure["svg"]]
    if len(maps) == 2 and picture is not None and (picture.sampled or (result and result.boxes)):
        before, after = maps
        caption = f"Before: {before['drawn']}. After: {after['drawn']}. A {after['meaning']}"
        sides = {"before": before, "after": after}
        maps = [{"kind": "compare", "title": "Files before and after", "caption": caption, **sides}]
    return [*maps, *(figure for figure in _histograms(table, result, picture) if figure["svg"])]


def _maps(result: TableResult | None, picture: Picture | None) -> Iterator[Figure]:
    if picture is None:
        return
    measured = result.boxes if result else None
    after = measured or picture.after
    yield _map("Files before" if after else "Files now", picture, picture.before, "now")
    if after:
        source = "measured" if measured else "from the sample" if picture.sampled else "an illustration"
        figure = _map(f"Files after, {source}", picture, after, "after")
        if not (measured or picture.sampled):
            figure["caption"] += _ILLUSTRATION
        yield figure


def _map(title: str, picture: Picture, boxes: Boxes, color: str) -> Figure:
    over = " and ".join(picture.columns)
    one, drawn = "one file", f"all {plural(boxes.files, 'file')}"
    if boxes.coarse:
        one = f"about {boxes.files / max(boxes.count, 1):.0f} neighbouring files"
        drawn = f"{boxes.count:,} boxes for about {boxes.files:,} files"
    elif boxes.count < boxes.files:
        drawn = f"a sample of {boxes.count:,} of {boxes.files:,} files"
    drawn += f" of {picture.partition}" if picture.partition else ""
    meaning = f"box is the range of {over} in {one}, on axes in the order of rows"
    return {
        "kind": "map",
        "title": title,
        "svg": file_map(boxes, picture.columns, color),
        "alt": f"{title}: the range of {over} of each file as a box.",
        "keys": "",
        "drawn": drawn,
        "meaning": meaning,
        "caption": f"{drawn}; a {meaning}",
    }


def _histograms(table: TablePlan, result: TableResult | None, picture: Picture | None) -> Iterator[Figure]:
    if table.size_histogram:
        after = result.size_histogram if result else picture.sizes_after if picture else ()
        sizes = _bars(table.size_histogram, after, "size, in multiples of the target", measured=result is not None)
        alt = f"File sizes in multiples of the target: {sizes['alt']}"
        yield {**sizes, "title": "File sizes", "alt": alt, "caption": "number of files per class of size"}
    measured = {c.column: c.depth_histogram for c in result.columns} if result else {}
    caption = "number of files per class of depth, the most files that share one value"
    for column in table.columns[:4]:
        title, then = f"Depth of {column.column}", measured.get(column.column, ())
        depths = _bars(column.depth_histogram, then, "files that share a value", measured=True)
        yield {**depths, "title": title, "alt": f"{title}: {depths['alt']}", "caption": caption}


def _bars(now: Histogram, after: Histogram, axis: str, *, measured: bool) -> Figure:
    numbers = [", ".join(f"{label}: {files:,}" for label, files in part if files) for part in (now, after)]
    return {
        "kind": "bars",
        "svg": bars(now, after, axis),
        "alt": f"now {numbers[0]}" + (f"; after {numbers[1]}" if numbers[1] else ""),
        "keys": ("after, measured" if measured else "after, predicted") if after else "",
    }


# The page of many tables: a list of the worst tables, a treemap, and compressed details.
#
# The details of a table are one section of markup. A page of few tables contains the sections uncompressed. In a page
# of many tables, a chunk of sections is compressed together, because they share most of their markup. The script of
# the page decompresses a chunk on demand.


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


def in_order(report: RunReport) -> list[TablePlan]:
    """Return the tables in the order of the page: if they are many, those that need attention come first."""
    tables = report.plan.tables
    if len(tables) <= MAX_OPEN_TABLES:
        return list(tables)
    return sorted(worst_first(tables), key=lambda table: not report.is_open(table))


def fleet(entries: Sequence[Entry], sections: Sequence[str]) -> Entry | None:
    """Make the parts that only the page of many tables has; None for few tables.

    Args:
        entries: The tables in the order of the page.
        sections: The details of each table as markup.

    Returns:
        `worst`, the entries of the tables that need attention most; `treemap`, all tables as tiles; `saving`, a
        sentence that states the bytes that queries read now and after the plan, '' if they are not known; `chunks`, the
        details as base64 of deflated markup, TABLES_PER_CHUNK tables each.
    """
    if len(entries) <= MAX_OPEN_TABLES:
        return None
    return {
        "worst": _worst(entries),
        "treemap": treemap(_tiles(entries)),
        "saving": _saving(entries),
        "chunks": [_pack(sections[at : at + TABLES_PER_CHUNK]) for at in range(0, len(sections), TABLES_PER_CHUNK)],
        "per_chunk": TABLES_PER_CHUNK,
        "rows": MAX_ROWS,
    }


def _worst(entries: Sequence[Entry]) -> list[Entry]:
    not_planned = [entry for entry in entries if entry["kind"] in ("error", "refused")]
    others = [entry for entry in entries if entry["kind"] not in ("error", "refused", "unchanged")]
    return [*not_planned[: max(WORST // 2, WORST - len(others))], *others][:WORST]


def _pack(sections: Sequence[str]) -> str:
    """Compress markup to base64 of zlib's format, which browsers call `deflate`."""
    return base64.b64encode(zlib.compress("\n".join(sections).encode(), level=9)).decode()


def _tiles(entries: Sequence[Entry]) -> list[tuple[float, str, str]]:
    smallest = max(MIN_TILE * sum(entry["plan"].bytes for entry in entries) / len(entries), 1.0)
    return [
        (max(plan.bytes, smallest), _color(entry), f"{plan.table}: {entry['state']}, {size(plan.bytes)}")
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
        f"A query for one value of the worst column reads {size(now)} now and "
        f"{words.same_size(size(after))} after (forecast, if rows keep their size; the upper end where it is a "
        f"range), over {plural(len(known), 'table')}."
    )


# The page.


# The number of groups that the page lists per table. The JSON report lists all.
MAX_GROUPS_PER_TABLE = 200
MAX_NAMES = 10  # of tables with one problem, or of files with layouts
_FILTERS: dict[str, Callable[..., object]] = {
    "size": size,
    "same_size": words.same_size,
    "number": words.number,
    "plural": plural,
    "version_word": words.version_word,
    "decay": words.decay_text,
    "reason": words.REASONS.__getitem__,
}


def render(shown: Plan | RunReport) -> str:
    """Render the page, with charts for the tables that have a picture. Needs the packages of the extra `report`."""
    report = RunReport.of(shown)
    plan = report.plan
    style, script, whole, details = map(_source, ("page.css", "page.js", "page.html.jinja", "table.html.jinja"))
    jinja = environment(_FILTERS)
    section = jinja.from_string(details)
    tables = [_table(n, t, report) for n, t in enumerate(in_order(report), 1)]
    sections = [markup(section.render(t=t, max_rows=MAX_GROUPS_PER_TABLE)) for t in tables]
    return jinja.from_string(whole).render(
        plan=plan,
        title=f"zlayout: {words.title(report)}",
        headline=words.last_line(report),
        counts=_counts(report),
        changed=_changed(report, tables),
        tables=tables,
        trends=any(t["trend"] for t in tables),
        sections=sections,
        fleet=fleet(tables, sections),
        style=style,
        script=script,
        style_hash=source_hash(style),
        script_hash=source_hash(script),
    )


def _changed(report: RunReport, tables: Sequence[Entry]) -> Entry | None:
    plan = report.plan
    if plan.changes is None:
        return None
    ids = {entry["plan"].table: entry["id"] for entry in tables}
    return {
        "headline": changes.headline(plan, plan.changes),
        "revision": "" if plan.changes.revision == plan.changes.base else plan.changes.revision,
        "base": plan.changes.base[:12],
        "effect": changes.effect(plan.changed),
        "nothing_yet": "" if report.results else changes.nothing_yet(plan.changed),
        "problems": [(one.severity, first_of(names, MAX_NAMES), one.text()) for one, names in changes.problems(plan)],
        "removed": plan.changes.removed,
        "gone": changes.GONE,
        "groups": [
            {
                "group": group,
                "files": first_of(group.files, MAX_NAMES),
                "rows": [
                    (ids[t.table], t.table, changes.action_text(t), changes.time_text(t), list(changes.reads(t)))
                    for t in group.tables
                ],
            }
            for group in changes.change_groups(plan)
        ],
        "end": [text for text in (changes.backlog(plan, plan.changes), changes.after_merge(plan)) if text],
    }


def environment(filters: dict[str, Callable[..., object]]) -> jinja2.Environment:
    """Make a Jinja environment that escapes values, replaces control and bidi characters, and rejects missing names."""
    import jinja2
    import markupsafe

    made = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Called for each value of a page. Markup is either from `charts`, or already escaped.
        finalize=lambda value: value if isinstance(value, markupsafe.Markup) else printable(str(value)),
    )
    made.filters |= filters
    return made


def source_hash(text: str) -> str:
    """Return the source expression of a Content-Security-Policy that allows exactly this inline text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _counts(report: RunReport) -> list[tuple[str, int, str]]:
    plan, empty = report.plan, summary(report.plan.tables).empty
    tables = ("", len(plan.tables), "table" if len(plan.tables) == 1 else "tables")
    if report.results:
        return [tables, *words.outcome_counts(report)]
    nothing = [("changes", empty, "select nothing")] if empty else []
    return [tables, *words.plan_counts(plan), *nothing]


def _table(index: int, table: TablePlan, report: RunReport) -> Entry:
    result, picture = report.results.get(table.table), report.pictures.get(table.table)
    groups, trend = table.groups, report.trends.get(table.table)
    drawn = len(report.plan.tables) <= MAX_HISTOGRAM_TABLES or picture is not None
    measured = {c.column: c for c in result.columns} if result else {}
    strip = (result.strip if result else ()) or (picture.strip if picture else ())
    return {
        "id": f"table-{index}",
        "plan": table,
        "state": words.RESULT_STATUSES[result.outcome] if result else words.state(table),
        "kind": _kind(table, report),
        "settings": _settings(table),
        "first": words.layout_text(table) if table.is_first else "",
        "rewrite": words.rewrite_text(table) if groups else "",
        "reasons": words.reasons_text(groups) if groups else "",
        "left_over": later_text(table),
        "result": words.result_text(result) if result else "",
        "diagnostics": (*table.diagnostics, *(result.problems if result else ())),
        "storage": words.storage_text(table, result),
        "worst": max((c.touched for c in table.columns), default=None),
        "most_read": max((c.bytes_read.now for c in table.columns), default=None),
        "after": _after(table, result),
        "measured": bool(measured),
        "trend": steepest(trend),
        "columns": [_column(c, measured.get(c.column), table, trend) for c in table.columns],
        "workload": list(workload_lines(table)),
        "queries": _queries(table),
        "charts": charts_of(table, result, picture) if drawn else [],
        "strip": strip,
        "strip_svg": partition_strip(strip),
    }


def _kind(table: TablePlan, report: RunReport) -> str:
    if not report.is_open(table):
        return "unchanged"
    return "error" if table.table in report.results else "changes" if table.selects_nothing else table.status


def _settings(table: TablePlan) -> list[tuple[str, str, str, str]]:
    declared = "declared"
    rows = [(d.key, words.declared(d.before, d.key), words.declared(d.after, d.key), declared) for d in table.drift]
    for name, before, after, why, _ in words.altered(table):
        whole = name == "partition_by" and table.partitioning and table.partitioning.full_rewrite
        rows.append((name, before, after, why or (f"{declared}; rewrites every file" if whole else declared)))
    return rows


def _queries(table: TablePlan) -> list[Entry]:
    groups = table.workload.groups if table.workload else ()
    most = max((group.now.bytes for group in groups), default=0) or 1
    return [
        {
            "columns": ", ".join(group.columns),
            "group": group,
            "share": words.share(group.share),
            "bar": gain(group.now.bytes / most, then.bytes / most if then else None),
        }
        for group in groups
        for then in [group.predicted if table.groups else None]
    ]


def _after(table: TablePlan, result: TableResult | None) -> dict[str, float | str]:
    if result and (result.columns or not table.columns):
        files = table.files - result.files_removed + result.files_added
        worst = max((c.touched for c in result.columns), default=0)
        most = max((c.bytes_read for c in result.columns), default=0)
        texts = {"touched": number(worst), "read": size(most)} if result.columns else {"touched": "", "read": ""}
        return {"files": number(files), "most_files": files, "worst": worst, "most_read": most, **texts}
    then = table.files_after
    last = max(table.columns, key=_last, default=None)
    read = max((c.bytes_read for c in table.columns), key=_last_read, default=BytesRead(0))
    return {
        "files": words.known(then.predicted, then.low, then.high) if then else "",
        "most_files": max(then.predicted or 0, then.high or 0) if then else 0,
        "touched": touched_text(last) if last else "",
        "worst": _last(last) if last else 0,
        "read": bytes_text(read),
        "most_read": _last_read(read),
    }


def _last(column: ColumnForecast) -> float:
    return next((v for v in (column.predicted, column.high, column.low) if v is not None), 0.0)


def _last_read(read: BytesRead) -> int:
    return next((v for v in (read.predicted, read.high, read.low) if v is not None), 0)


def _column(column: ColumnForecast, after: MeasuredColumn | None, table: TablePlan, trend: Trend | None) -> Entry:
    read = column.bytes_read
    return {
        "now": column,
        "after": after,
        "then": touched_text(column),
        "last": _last(column),
        "row_groups": row_groups_text(read)[0] if has_row_groups(table) else "",
        "read": size(after.bytes_read) if after else bytes_text(read),
        "read_then": bytes_text(read) if read.predicted is not None else "",
        "most_read": after.bytes_read if after else _last_read(read),
        "worse": read.grows_to(after.bytes_read if after else read.predicted_or_low),
        "trend": sparkline(trend, column.column),
    }
