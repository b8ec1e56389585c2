"""Draw the charts of the HTML report: Vega-Lite specs, rendered to SVG without a network or a browser.

Colours are CSS variables of the page, so that one drawing fits the light, the dark and the print style.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from zlayout.planner.picture import SCALE, Boxes, StripBin
from zlayout.report.words import printable

if TYPE_CHECKING:
    from markupsafe import Markup

SVG = "http://www.w3.org/2000/svg"
MAP_SIDE = 250
BAR_WIDTH = 120
TREEMAP_SIZE = 1000, 260
MAX_TITLE_LENGTH = 32
MIN_OPACITY = 0.04
# Placeholders for axis titles in a spec.
X_TITLE, Y_TITLE = "ZLAYOUT-ACROSS", "ZLAYOUT-UP"
# The touched ratios that separate the levels of colour.
HEAT_BORDERS = (1.05, 1.5, 2.0, 4.0, 8.0)
_INK = {"labelColor": "currentColor", "titleColor": "currentColor", "tickColor": "var(--line)"}
_LINES = {"domainColor": "var(--line)", "gridColor": "var(--line)"}
_CONFIG = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": "var(--line)", "fill": "none"},
    "axis": {**_INK, **_LINES, "labelFontSize": 11, "titleFontSize": 12},
    "axisX": {"labelAngle": 0},
    "legend": {"disable": True},
    "bar": {"aria": False},
    "rect": {"aria": False},
}
_COLORS = {"now": "var(--before)", "after": "var(--after)"}
_SERIES = ("currentColor", *_COLORS.values(), "var(--link)", "var(--ok)", "var(--warn)", "var(--bad)")


def file_map(boxes: Boxes, columns: Sequence[str], color: str) -> Markup:
    """Draw files as boxes over one or two z-order columns; '' without boxes. color: `now` or `after`."""
    if not boxes.count:
        return markup("")
    p = boxes.positions
    rows = [{"l": p[i], "r": p[i + 1], "b": p[i + 2], "t": p[i + 3]} for i in range(0, len(p), 4)]
    mark = {
        "type": "rect",
        "fill": _COLORS[color],
        "fillOpacity": round(_opacity(rows), 4),
        "stroke": _COLORS[color],
        "strokeWidth": 0.6,
        "strokeOpacity": max(0.3, min(1.0, 60 / len(rows))),
    }
    bare = {"type": "quantitative", "scale": {"domain": [0, SCALE]}}
    axis = {"labels": False, "ticks": False, "grid": False, "titleLimit": MAP_SIDE}
    encoding = {
        "x": {"field": "l", **bare, "axis": {**axis, "title": X_TITLE}},
        "x2": {"field": "r"},
        "y": {"field": "b", **bare, "axis": {**axis, "title": Y_TITLE}},
        "y2": {"field": "t"},
    }
    titles = {X_TITLE: columns[0], Y_TITLE: columns[1] if len(columns) > 1 else "files"}
    return svg(MAP_SIDE, MAP_SIDE, rows, {"mark": mark, "encoding": encoding}, titles)


def gain(now: float, after: float | None) -> Markup:
    """Draw two bars, one above the other. now, after: their lengths, from 0 to 1. after: None for one bar alone."""
    shown = [(now, "now"), *([] if after is None else [(after, "after")])]
    rects = "".join(
        f'<rect y="{8 * at}" width="{max(1.0, BAR_WIDTH * min(value, 1.0)):.1f}" height="6" fill="{_COLORS[color]}"/>'
        for at, (value, color) in enumerate(shown)
    )
    return markup(f'<svg xmlns="{SVG}" width="{BAR_WIDTH}" height="14" aria-hidden="true">{rects}</svg>')


def _opacity(rows: Sequence[dict[str, int]]) -> float:
    """Return an opacity with which a single box is light, and many overlapping boxes are dark but not black."""
    covered = sum((r["r"] - r["l"]) * (r["t"] - r["b"]) for r in rows) / SCALE**2
    depth = max(covered, 1.0)
    # Browsers round colours to steps of 1/255. Below MIN_OPACITY, the sum of many rounding errors would be visible.
    return max(MIN_OPACITY, float(1 - (0.8 - 0.6 * (1 - 1 / depth)) ** (1 / depth)))


def bars(now: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]], title: str, width: int = MAP_SIDE) -> Markup:
    """Draw two histograms of files, now and after, with their bars side by side; '' without files.

    now, after: (label, number of files) of each class; `after` may be empty. title: the title of the horizontal axis.
    """
    series = {"now": now, "after": after}
    rows = [{"label": _short(label), "files": n, "when": when} for when, part in series.items() for label, n in part]
    if not any(row["files"] for row in rows):
        return markup("")
    labels = list(dict.fromkeys(row["label"] for row in rows))
    when = [name for name, part in series.items() if part]
    across = {"title": title, "grid": False, "labelOverlap": True, "labelFontSize": 10}
    up = {"title": "files", "tickCount": 4, "tickMinStep": 1, "format": "~s"}
    colors = {"domain": when, "range": [_COLORS[name] for name in when]}
    encoding = {
        "x": {"field": "label", "type": "ordinal", "sort": labels, "axis": across},
        "xOffset": {"field": "when", "sort": when},
        "y": {"field": "files", "type": "quantitative", "axis": up},
        "color": {"field": "when", "type": "nominal", "scale": colors},
    }
    return svg(width, 120, rows, {"mark": {"type": "bar"}, "encoding": encoding})


def _short(label: str) -> str:
    """Shorten and sanitize a label of a histogram. Unexpected characters can crash the drawing library."""
    return re.sub(r"[^0-9/ +.≤>-]", "?", label[:MAX_TITLE_LENGTH].replace("<= ", "≤").replace("> ", ">"))


def heat(excess: float) -> int:
    """Return the colour level of a touched ratio: from 0 (at most 1.05) to 5 (above 8)."""
    return sum(excess > border for border in HEAT_BORDERS)


def partition_strip(bins: Sequence[StripBin]) -> Markup:
    """Draw strip bins side by side, coloured by `heat`. Bins with files to rewrite have a mark below them."""
    if not bins:
        return markup("")
    rows = [{"n": n, "heat": heat(b.excess), "planned": int(b.rewritten > 0)} for n, b in enumerate(bins)]
    x = {"field": "n", "type": "ordinal", "axis": None, "scale": {"paddingInner": 0.12 if len(bins) < 60 else 0}}
    levels = list(range(len(HEAT_BORDERS) + 1))
    colors = {"domain": levels, "range": [f"var(--heat-{n})" for n in levels]}
    color = {"field": "heat", "type": "ordinal", "scale": colors}
    planned = {"transform": [{"filter": "datum.planned == 1"}], "encoding": {"x": x}}
    layers = [
        {"mark": {"type": "rect", "y": 0, "y2": 24}, "encoding": {"x": x, "color": color}},
        {"mark": {"type": "rect", "y": 28, "y2": 33, "fill": _COLORS["after"]}, **planned},
    ]
    return svg(2 * MAP_SIDE + 60, 34, rows, {"layer": layers, "config": {"view": {"stroke": None}}})


def lines(series: Mapping[str, Sequence[tuple[int, float]]], across: str, up: str) -> Markup:
    """Draw named series of points over integers, with a logarithmic vertical axis; '' without points.

    series: the points (x, y) by the name of their series. across, up: the titles of the axes.
    """
    # Placeholders are as long as the names, so that the drawing library reserves enough space.
    marks = {name: f"ZLAYOUT-{n}-".ljust(min(len(name), MAX_TITLE_LENGTH), "m") for n, name in enumerate(series)}
    rows = [{"s": marks[name], "x": x, "y": max(y, 1.0)} for name, points in series.items() for x, y in points]
    if not rows:
        return markup("")
    color = {"domain": list(marks.values()), "range": [_SERIES[n % len(_SERIES)] for n in range(len(marks))]}
    legend = {"title": None, "orient": "right", "labelColor": "currentColor", "labelLimit": 0, "symbolType": "circle"}
    y_axis = {"title": Y_TITLE, "format": "~s", "tickCount": 5}
    encoding = {
        "x": {"field": "x", "type": "ordinal", "axis": {"title": X_TITLE, "grid": False}},
        "y": {"field": "y", "type": "quantitative", "scale": {"type": "log", "nice": False}, "axis": y_axis},
        "color": {"field": "s", "type": "nominal", "scale": color, "legend": legend},
    }
    mark = {"type": "line", "point": {"filled": True, "size": 50}, "strokeWidth": 2, "aria": False}
    titles = {X_TITLE: across, Y_TITLE: up} | {mark: name for name, mark in marks.items()}
    return svg(2 * MAP_SIDE, 200, rows, {"mark": mark, "encoding": encoding, "config": {"legend": {}}}, titles)


def svg(
    width: int,
    height: int,
    rows: Sequence[Mapping[str, Any]],
    spec: Mapping[str, Any],
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Markup:
    """Render a chart as one scalable <svg> element without ids, scripts, styles or external resources.

    Args:
        width, height: The size of the drawing area, in pixels.
        rows: The data.
        spec: The other keys of the Vega-Lite spec. Its `config` is added to the configuration of all charts.
        titles: The text for each placeholder in the spec. Names are inserted after drawing, because some characters
            crash the drawing library.
    """
    import vl_convert

    whole = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": width,
        "height": height,
        "data": {"values": rows},
        **spec,
        "config": {**_CONFIG, **spec.get("config", {})},
    }
    root = ElementTree.fromstring(vl_convert.vegalite_to_svg(whole))
    for name in ("width", "height", "version", "class"):
        root.attrib.pop(name, None)
    for element in root.iter():
        for name in [n for n in element.attrib if n.startswith("aria-") or n in ("role", "class")]:
            if element is not root:
                del element.attrib[name]
        if element.text and element.text in titles:
            element.text = _fitting(titles[element.text])
        if path := element.get("d"):
            element.set("d", _rounded(path))
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    return _serialized(root)


def _serialized(root: ElementTree.Element) -> Markup:
    ElementTree.register_namespace("", SVG)
    return markup(ElementTree.tostring(root, encoding="unicode"))


def markup(text: str) -> Markup:
    """Mark SVG as markup that a template must not escape."""
    import markupsafe

    return markupsafe.Markup(text)


def _fitting(name: str) -> str:
    name = printable(name)
    return name if len(name) <= MAX_TITLE_LENGTH else name[: MAX_TITLE_LENGTH - 1] + "…"


def _rounded(path: str) -> str:
    return re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), path)


@dataclass(frozen=True, slots=True)
class Tile:
    """One rectangle of a treemap: its relative area, its CSS colour, and the text that a browser shows for it."""

    area: float
    color: str
    title: str


def treemap(tiles: Sequence[Tile]) -> Markup:
    """Draw tiles as rectangles of their areas, the largest first. The SVG elements are in the order of `tiles`."""
    import vl_convert

    width, height = TREEMAP_SIZE
    rows = [{"id": 0}, *({"id": n, "parent": 0, "area": tile.area} for n, tile in enumerate(tiles, 1))]
    layout = {"type": "treemap", "field": "area", "size": [width, height], "paddingInner": 1, "round": True}
    order = {"field": "value", "order": "descending"}
    transforms = [
        {"type": "stratify", "key": "id", "parentKey": "parent"},
        {**layout, "sort": order},
        {"type": "filter", "expr": "datum.id > 0"},
    ]
    ends = {end: {"field": field} for end, field in (("x", "x0"), ("y", "y0"), ("x2", "x1"), ("y2", "y1"))}
    spec = {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "width": width,
        "height": height,
        "padding": 0,
        "data": [{"name": "tiles", "values": rows, "transform": transforms}],
        "marks": [{"type": "rect", "from": {"data": "tiles"}, "encode": {"enter": ends}}],
    }
    marks = ElementTree.fromstring(vl_convert.vega_to_svg(spec)).find(f".//{{{SVG}}}g[@class='mark-rect role-mark']")
    root = ElementTree.Element(
        f"{{{SVG}}}svg", {"viewBox": f"0 0 {width} {height}", "preserveAspectRatio": "none", "aria-hidden": "true"}
    )
    for path, tile in zip(marks if marks is not None else (), tiles, strict=True):
        element = ElementTree.SubElement(root, f"{{{SVG}}}path", {"d": path.attrib["d"], "fill": tile.color})
        ElementTree.SubElement(element, f"{{{SVG}}}title").text = printable(tile.title)
    return _serialized(root)
