"""Draw the charts of the HTML report: Vega-Lite specs, rendered to SVG without a network or a browser.

Colours are CSS variables of the page, so that one drawing fits the light, the dark and the print style.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

from zlayout.planner.picture import SCALE, Boxes, StripBin
from zlayout.report.words import printable

SVG = "http://www.w3.org/2000/svg"
MAP_SIDE = 250
BAR_WIDTH = 120
MAX_TITLE_LENGTH = 32
MIN_OPACITY = 0.04
# Placeholders for axis titles in a spec.
X_TITLE, Y_TITLE = "ZLAYOUT-ACROSS", "ZLAYOUT-UP"
# The touched ratios that separate the levels of colour.
HEAT_BORDERS = (1.05, 1.5, 2.0, 4.0, 8.0)
_INK = {"labelColor": "currentColor", "titleColor": "currentColor", "tickColor": "var(--line)"}
_CONFIG = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": "var(--line)", "fill": "none"},
    "axis": {
        **_INK,
        "domainColor": "var(--line)",
        "gridColor": "var(--line)",
        "labelFontSize": 11,
        "titleFontSize": 12,
    },
    "axisX": {"labelAngle": 0},
    "legend": {"disable": True},
    "bar": {"aria": False},
    "rect": {"aria": False},
}
_COLORS = {"now": "var(--before)", "after": "var(--after)"}


def file_map(boxes: Boxes, columns: Sequence[str], color: str) -> str:
    """Draw files as boxes over the first two z-order columns; '' without boxes. color: `now` or `after`."""
    if not boxes.count:
        return ""
    p = boxes.positions
    rows = [{"l": p[i], "r": p[i + 1], "b": p[i + 2], "t": p[i + 3]} for i in range(0, len(p), 4)]
    titles = {X_TITLE: columns[0], Y_TITLE: columns[1] if len(columns) > 1 else "files"}
    scale = {"domain": [0, SCALE]}
    bare = {"labels": False, "ticks": False, "grid": False, "titleLimit": MAP_SIDE}
    return svg(
        {
            "width": MAP_SIDE,
            "height": MAP_SIDE,
            "data": {"values": rows},
            "mark": {
                "type": "rect",
                "fill": _COLORS[color],
                "fillOpacity": round(_opacity(rows), 4),
                "stroke": _COLORS[color],
                "strokeWidth": 0.6,
                "strokeOpacity": max(0.3, min(1.0, 60 / len(rows))),
            },
            "encoding": {
                "x": {"field": "l", "type": "quantitative", "scale": scale} | {"axis": {**bare, "title": X_TITLE}},
                "x2": {"field": "r"},
                "y": {"field": "b", "type": "quantitative", "scale": scale} | {"axis": {**bare, "title": Y_TITLE}},
                "y2": {"field": "t"},
            },
        },
        titles,
    )


def gain(now: float, after: float | None) -> str:
    """Draw two bars, one above the other, as shares of the widest bar. after: None for one bar alone."""
    shown = [(now, "now"), *([] if after is None else [(after, "after")])]
    rects = "".join(
        f'<rect y="{8 * at}" width="{max(1.0, BAR_WIDTH * min(value, 1.0)):.1f}" height="6" fill="{_COLORS[color]}"/>'
        for at, (value, color) in enumerate(shown)
    )
    return f'<svg xmlns="{SVG}" width="{BAR_WIDTH}" height="14" aria-hidden="true">{rects}</svg>'


def _opacity(rows: Sequence[dict[str, int]]) -> float:
    """Return an opacity with which a single box is light, and many overlapping boxes are dark but not black."""
    covered = sum((r["r"] - r["l"]) * (r["t"] - r["b"]) for r in rows) / SCALE**2
    depth = max(covered, 1.0)
    # Browsers round colours to steps of 1/255. Below MIN_OPACITY, the rounding of many boxes would change the colour.
    return max(MIN_OPACITY, float(1 - (0.8 - 0.6 * (1 - 1 / depth)) ** (1 / depth)))


def bars(now: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]], title: str, width: int = MAP_SIDE) -> str:
    """Draw two histograms of files, now and after, side by side; '' without files."""
    labels = list(dict.fromkeys(_short(label) for label, _ in (*now, *after)))
    rows = [
        {"label": _short(label), "files": files, "when": when}
        for when, series in (("now", now), ("after", after))
        for label, files in series
    ]
    if not any(row["files"] for row in rows):
        return ""
    when = [w for w, series in (("now", now), ("after", after)) if series]
    return svg(
        {
            "width": width,
            "height": 120,
            "data": {"values": rows},
            "mark": {"type": "bar"},
            "encoding": {
                "x": {
                    "field": "label",
                    "type": "ordinal",
                    "sort": labels,
                    "axis": {"title": title, "grid": False, "labelOverlap": True, "labelFontSize": 10},
                },
                "xOffset": {"field": "when", "sort": when},
                "y": {
                    "field": "files",
                    "type": "quantitative",
                    "axis": {"title": "files", "tickCount": 4, "tickMinStep": 1, "format": "~s"},
                },
                "color": {
                    "field": "when",
                    "type": "nominal",
                    "scale": {"domain": when, "range": [_COLORS[w] for w in when]},
                },
            },
        }
    )


def _short(label: str) -> str:
    """Sanitize a label of a histogram: unexpected characters can crash the drawing library."""
    return re.sub(r"[^0-9/ +.≤>-]", "?", label[:MAX_TITLE_LENGTH].replace("<= ", "≤").replace("> ", ">"))


def heat(excess: float) -> int:
    """Return the colour level of a touched ratio: from 0 (as after a rewrite) to 5 (more than 8 times as many)."""
    return sum(excess > border for border in HEAT_BORDERS)


def partition_strip(cells: Sequence[StripBin]) -> str:
    """Draw strip bins side by side, coloured by `heat`; bins with files to rewrite are underlined."""
    if not cells:
        return ""
    rows = [{"n": n, "heat": heat(c.excess), "planned": int(c.rewritten > 0)} for n, c in enumerate(cells)]
    x = {"field": "n", "type": "ordinal", "axis": None, "scale": {"paddingInner": 0.12 if len(cells) < 60 else 0}}
    levels = list(range(len(HEAT_BORDERS) + 1))
    colors = {"domain": levels, "range": [f"var(--heat-{n})" for n in levels]}
    return svg(
        {
            "width": 2 * MAP_SIDE + 60,
            "height": 34,
            "data": {"values": rows},
            "layer": [
                {
                    "mark": {"type": "rect", "y": 0, "y2": 24},
                    "encoding": {"x": x, "color": {"field": "heat", "type": "ordinal", "scale": colors}},
                },
                {
                    "transform": [{"filter": "datum.planned == 1"}],
                    "mark": {"type": "rect", "y": 28, "y2": 33, "fill": "var(--after)"},
                    "encoding": {"x": x},
                },
            ],
            "config": {"view": {"stroke": None}},
        }
    )


def svg(spec: dict[str, Any], titles: Mapping[str, str] = MappingProxyType({})) -> str:
    """Render a chart as one scalable <svg> element without ids, scripts, styles or external resources.

    titles: the text for each placeholder in the spec. Names are inserted after drawing, because some characters crash
    the drawing library.
    """
    import vl_convert

    config = {**_CONFIG, **spec.pop("config", {})}
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", **spec, "config": config}
    root = ElementTree.fromstring(vl_convert.vegalite_to_svg(whole))
    for name in ("width", "height", "version", "class"):
        root.attrib.pop(name, None)
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    for element in root.iter():
        for name in [n for n in element.attrib if n.startswith("aria-") or n in ("role", "class")]:
            if element is not root:
                del element.attrib[name]
        if element.text and element.text in titles:
            element.text = _fitting(titles[element.text])
        if path := element.get("d"):
            element.set("d", _rounded(path))
    ElementTree.register_namespace("", SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _fitting(name: str) -> str:
    name = printable(name)
    return name if len(name) <= MAX_TITLE_LENGTH else name[: MAX_TITLE_LENGTH - 1] + "…"


def _rounded(path: str) -> str:
    return re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), path)


@dataclass(frozen=True, slots=True)
class Tile:
    """One rectangle of a treemap: its relative area, its colour, and the text that a pointer on it shows."""

    area: float
    color: str
    title: str


def treemap(tiles: Sequence[Tile], width: int = 1000, height: int = 260) -> str:
    """Draw tiles as rectangles of their areas, the largest first; the order of elements is that of `tiles`."""
    import vl_convert

    rows = [{"id": 0}, *({"id": n, "parent": 0, "area": tile.area} for n, tile in enumerate(tiles, 1))]
    layout = {"type": "treemap", "field": "area", "size": [width, height], "paddingInner": 1, "round": True}
    order = {"sort": {"field": "value", "order": "descending"}}
    ends = {end: {"field": field} for end, field in (("x", "x0"), ("y", "y0"), ("x2", "x1"), ("y2", "y1"))}
    drawn = vl_convert.vega_to_svg(
        {
            "$schema": "https://vega.github.io/schema/vega/v5.json",
            "width": width,
            "height": height,
            "padding": 0,
            "data": [
                {
                    "name": "tiles",
                    "values": rows,
                    "transform": [
                        {"type": "stratify", "key": "id", "parentKey": "parent"},
                        {**layout, **order},
                        {"type": "filter", "expr": "datum.id > 0"},
                    ],
                }
            ],
            "marks": [{"type": "rect", "from": {"data": "tiles"}, "encode": {"enter": ends}}],
        }
    )
    marks = ElementTree.fromstring(drawn).find(f".//{{{SVG}}}g[@class='mark-rect role-mark']")
    root = ElementTree.Element(
        f"{{{SVG}}}svg", {"viewBox": f"0 0 {width} {height}", "preserveAspectRatio": "none", "aria-hidden": "true"}
    )
    for path, tile in zip(marks if marks is not None else (), tiles, strict=True):
        element = ElementTree.SubElement(root, f"{{{SVG}}}path", {"d": path.attrib["d"], "fill": tile.color})
        ElementTree.SubElement(element, f"{{{SVG}}}title").text = printable(tile.title)
    ElementTree.register_namespace("", SVG)
    return ElementTree.tostring(root, encoding="unicode")
