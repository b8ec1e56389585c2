"""Draw a line chart for HTML reports, in the style of `zlayout.report.charts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zlayout.report.charts import MAP_SIDE, MAX_TITLE_LENGTH, X_TITLE, Y_TITLE, svg

_SERIES = ("currentColor", "var(--before)", "var(--after)", "var(--link)", "var(--ok)", "var(--warn)", "var(--bad)")


def lines(series: Mapping[str, Sequence[tuple[int, float]]], across: str, up: str, width: int = 2 * MAP_SIDE) -> str:
    """Draw named series of points over integers, with a logarithmic vertical axis; '' without points."""
    # Placeholders are as long as the names, so that the drawing library reserves enough space.
    marks = {name: f"ZLAYOUT-{n}-".ljust(min(len(name), MAX_TITLE_LENGTH), "m") for n, name in enumerate(series)}
    rows = [{"s": marks[name], "x": x, "y": max(y, 1.0)} for name, points in series.items() for x, y in points]
    if not rows:
        return ""
    color = {"domain": list(marks.values()), "range": [_SERIES[n % len(_SERIES)] for n in range(len(marks))]}
    legend = {"title": None, "orient": "right", "labelColor": "currentColor", "labelLimit": 0, "symbolType": "circle"}
    return svg(
        {
            "width": width,
            "height": 200,
            "data": {"values": rows},
            "mark": {"type": "line", "point": {"filled": True, "size": 50}, "strokeWidth": 2, "aria": False},
            "encoding": {
                "x": {"field": "x", "type": "ordinal", "axis": {"title": X_TITLE, "grid": False}},
                "y": {"field": "y", "type": "quantitative", "scale": {"type": "log", "nice": False}}
                | {"axis": {"title": Y_TITLE, "format": "~s", "tickCount": 5}},
                "color": {"field": "s", "type": "nominal", "scale": color, "legend": legend},
            },
            "config": {"legend": {}},
        },
        {X_TITLE: across, Y_TITLE: up} | {mark: name for name, mark in marks.items()},
    )
