"""Forecasts of a plan, as tests ask for them."""

from zlayout.planner.model import ColumnForecast
from zlayout.planner.ranges import ESTIMATE_ERROR


def around(value: float, column: ColumnForecast) -> bool:
    """Whether the forecast is a range about `value`, as wide as the error of an estimate allows."""
    if column.predicted is not None or column.low is None or column.high is None:
        return False
    wide = value * 2 * ESTIMATE_ERROR + 1
    return column.low <= value + 0.05 and value <= column.high + 0.05 and column.high - column.low <= wide
