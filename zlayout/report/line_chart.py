"""A line chart for reports, drawn like `zlayout.report.charts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zlayout.report.charts import _ACROSS, _UP, MAP_SIDE, MOST_TITLE, _svg

_SERIES = ("currentColor", "var(--before)", "var(--after)", "var(--link)", "var(--ok)", "var(--warn)", "var(--bad)")


def lines(series: Mapping[str, Sequence[tuple[int, float]]], across: str, up: str, width: int = 2 * MAP_SIDE) -> str:
    """Points of several named series over whole numbers, joined, on a logarithmic scale. '' for no point."""
    # as long as the names that take their place, since the drawing library makes room for what it sees
    marks = {name: f"ZLAYOUT-{n}-".ljust(min(len(name), MOST_TITLE), "m") for n, name in enumerate(series)}
    rows = [{"s": marks[name], "x": x, "y": max(y, 1.0)} for name, points in series.items() for x, y in points]
    if not rows:
        return ""
    color = {"domain": list(marks.values()), "range": [_SERIES[n % len(_SERIES)] for n in range(len(marks))]}
    legend = {"title": None, "orient": "right", "labelColor": "currentColor", "labelLimit": 0, "symbolType": "circle"}
    return _svg(
        {
            "width": width,
            "height": 200,
            "data": {"values": rows},
            "mark": {"type": "line", "point": {"filled": True, "size": 50}, "strokeWidth": 2, "aria": False},
            "encoding": {
                "x": {"field": "x", "type": "ordinal", "axis": {"title": _ACROSS, "grid": False}},
                "y": {"field": "y", "type": "quantitative", "scale": {"type": "log", "nice": False}}
                | {"axis": {"title": _UP, "format": "~s", "tickCount": 5}},
                "color": {"field": "s", "type": "nominal", "scale": color, "legend": legend},
            },
            "config": {"legend": {}},
        },
        {_ACROSS: across, _UP: up} | {mark: name for name, mark in marks.items()},
    )
