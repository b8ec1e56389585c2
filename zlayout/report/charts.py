"""The pictures of the HTML report: Vega-Lite specs, drawn to SVG without a network or a browser.

Colours are CSS variables of the page, so that one drawing serves light, dark and print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

from zlayout.planner.picture import SCALE, Boxes, StripCell
from zlayout.report.words import printable

SVG = "http://www.w3.org/2000/svg"
MAP_SIDE = 250
MOST_TITLE = 32
LEAST_OPACITY = 0.04
_ACROSS, _UP = "ZLAYOUT-ACROSS", "ZLAYOUT-UP"
HEATS = (1.05, 1.5, 2.0, 4.0, 8.0)
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
    """The files as boxes over the first two z-order columns; color: `now` or `after`. The empty string for no box."""
    if not boxes.count:
        return ""
    p = boxes.positions
    rows = [{"l": p[i], "r": p[i + 1], "b": p[i + 2], "t": p[i + 3]} for i in range(0, len(p), 4)]
    titles = {_ACROSS: columns[0], _UP: columns[1] if len(columns) > 1 else "files"}
    scale = {"domain": [0, SCALE]}
    bare = {"labels": False, "ticks": False, "grid": False, "titleLimit": MAP_SIDE}
    return _svg(
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
                "x": {"field": "l", "type": "quantitative", "scale": scale} | {"axis": {**bare, "title": _ACROSS}},
                "x2": {"field": "r"},
                "y": {"field": "b", "type": "quantitative", "scale": scale} | {"axis": {**bare, "title": _UP}},
                "y2": {"field": "t"},
            },
        },
        titles,
    )


def _opacity(rows: Sequence[dict[str, int]]) -> float:
    """So that one box is light and any number of boxes over each other are dark, but never black."""
    covered = sum((r["r"] - r["l"]) * (r["t"] - r["b"]) for r in rows) / SCALE**2
    depth = max(covered, 1.0)
    # Browsers mix colours in steps of 1/255: fainter fills than LEAST_OPACITY would add up to another colour.
    return max(LEAST_OPACITY, float(1 - (0.8 - 0.6 * (1 - 1 / depth)) ** (1 / depth)))


def bars(now: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]], title: str, width: int = MAP_SIDE) -> str:
    """A histogram of files now, and beside it after, over labels in their order. The empty string for no file."""
    labels = list(dict.fromkeys(_short(label) for label, _ in (*now, *after)))
    rows = [
        {"label": _short(label), "files": files, "when": when}
        for when, series in (("now", now), ("after", after))
        for label, files in series
    ]
    if not any(row["files"] for row in rows):
        return ""
    when = [w for w, series in (("now", now), ("after", after)) if series]
    return _svg(
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
    """A label of a histogram; of a plan file's only the characters that ours have, for some words end the drawing."""
    return re.sub(r"[^0-9/ +.≤>-]", "?", label[:MOST_TITLE].replace("<= ", "≤").replace("> ", ">"))


def heat(excess: float) -> int:
    """0 (as good as a rewrite would leave it) to 5 (over 8 times as many files touched)."""
    return sum(excess > border for border in HEATS)


def partition_strip(cells: Sequence[StripCell]) -> str:
    """The partitions side by side in their order: the stronger the colour the worse; rewritten ones are marked."""
    if not cells:
        return ""
    rows = [{"n": n, "heat": heat(c.excess), "planned": int(c.rewritten > 0)} for n, c in enumerate(cells)]
    x = {"field": "n", "type": "ordinal", "axis": None, "scale": {"paddingInner": 0.12 if len(cells) < 60 else 0}}
    levels = list(range(len(HEATS) + 1))
    colors = {"domain": levels, "range": [f"var(--heat-{n})" for n in levels]}
    return _svg(
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


def _svg(spec: dict[str, Any], titles: Mapping[str, str] = MappingProxyType({})) -> str:
    """The drawing as one <svg> element that scales, without ids, scripts, styles or anything to load.

    titles: what to write in place of the placeholders in the spec. The drawing library never sees a name: some
    characters make it end the process.
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
    return name if len(name) <= MOST_TITLE else name[: MOST_TITLE - 1] + "…"


def _rounded(path: str) -> str:
    return re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), path)
