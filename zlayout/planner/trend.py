"""How touched of a table has developed, as plain data for reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ColumnTrend:
    """Touched of one z-order column at each time of a trend; None where it is unknown."""

    column: str
    touched: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """Touched of the z-order columns of one table. times: seconds since 1970 in UTC, in ascending order."""

    times: tuple[float, ...]
    columns: tuple[ColumnTrend, ...]

    def of(self, column: str) -> ColumnTrend | None:
        """Return the trend of one column; None if it has none."""
        return next((trend for trend in self.columns if trend.column == column), None)
