"""Draw touched over time as small lines for the HTML report. The markup contains numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zlayout.message_text import plural
from zlayout.planner.run_report import ColumnTrend, Trend
from zlayout.report.charts import markup
from zlayout.report.words import number

if TYPE_CHECKING:
    import markupsafe

WIDTH, HEIGHT, MARGIN = 96, 22, 3
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A line with its description. growth: the last value divided by the first, by which the page sorts."""

    svg: markupsafe.Markup
    alt: str
    growth: float


def sparkline(trend: Trend | None, column: str) -> Sparkline | None:
    """Draw touched of one column over time; None without two known values."""
    found = trend.of(column) if trend else None
    points = _points(trend, found) if trend and found else []
    if len(points) < 2:
        return None
    (first, start), (last, end) = points[0], points[-1]
    days = (last - first) / _DAY
    over = plural(round(days), "day") if days >= 1 else "less than a day"
    alt = f"Touched of {column} from {number(start)} to {number(end)} over {over}, {plural(len(points), 'record')}"
    return Sparkline(_svg(points), alt, end / start if start else 1.0)


def steepest(trend: Trend | None) -> Sparkline | None:
    """Draw the column of which touched grew most; None if no column has a line."""
    lines = [line for column in (trend.columns if trend else ()) if (line := sparkline(trend, column.column))]
    return max(lines, key=lambda line: line.growth, default=None)


def _points(trend: Trend, column: ColumnTrend) -> list[tuple[float, float]]:
    return [(time, value) for time, value in zip(trend.times, column.touched, strict=True) if value is not None]


def _svg(points: list[tuple[float, float]]) -> markupsafe.Markup:
    """Return the line. It extends from the first to the last time, and from the lowest to the highest value."""
    times, values = zip(*points, strict=True)
    at = [_scaled(time, times[0], times[-1], WIDTH) for time in times]
    up = [HEIGHT - _scaled(value, min(values), max(values), HEIGHT) for value in values]
    path = "M" + "L".join(f"{x:.4g} {y:.4g}" for x, y in zip(at, up, strict=True))
    end = f'<circle cx="{at[-1]:.4g}" cy="{up[-1]:.4g}" r="2"/>'
    box = f'class="trend" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true"'
    return markup(f'<svg {box}><path d="{path}"/>{end}</svg>')


def _scaled(value: float, low: float, high: float, size: int) -> float:
    return MARGIN + (size - 2 * MARGIN) * ((value - low) / (high - low) if high > low else 0.5)
