"""Predict from history records when a decay measure passes its tolerance. The slope is robust against outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

import numpy as np

from zlayout.planner.run_report import Trend
from zlayout.records.history import Record

# The minimum number of records for a slope, and the minimum time between the first and the last one.
MIN_RECORDS = 4
MIN_DAYS = 1.0
# A prediction may lie ahead by at most this multiple of the time that the records cover.
MAX_DAYS_AHEAD = 4.0
# The number of newest records that a slope is computed from. The time grows with the square of this number.
MAX_RECORDS = 200
# The quantile of the normal distribution for a confidence interval of 90%.
_Z = 1.6449
_SECONDS_PER_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Growth:
    """A decay measure that grows towards its tolerance.

    Attributes:
        value: The newest value.
        per_day: The slope: the median of the slopes between all pairs of records (Theil-Sen).
        days: The days from now until the value passes the tolerance, by the steepest and by the flattest slope of the
            confidence interval of 90%.
        records: The number of records.
    """

    measure: str
    value: float
    tolerance: float
    per_day: float
    days: tuple[float, float]
    records: int


def growths(records: Sequence[Record], now: datetime) -> list[Growth]:
    """Return the decay measures that grow, and for which the records support a prediction.

    Only records after the last rewrite and with the present layout count. A measure is left out if it has fewer than
    MIN_RECORDS, if they cover less than MIN_DAYS, if the confidence interval of the slope contains 0, if the value is
    already above the tolerance, or if the predicted time is in the past or too far ahead.

    Args:
        records: The records of one table, oldest first.
        now: The present time, in UTC.
    """
    since = since_rewrite(records)[-MAX_RECORDS:]
    found = []
    for measure in since[-1].decay if since else ():
        points = [
            (record.time.timestamp() / _SECONDS_PER_DAY, decay.value)
            for record in since
            for decay in record.decay
            if decay.measure == measure.measure
        ]
        slope = _slope(points)
        if slope is None or measure.value > measure.tolerance:
            continue
        low, middle, high = slope
        distance, age = measure.tolerance - measure.value, now.timestamp() / _SECONDS_PER_DAY - points[-1][0]
        days = distance / high - age, distance / low - age
        if days[0] >= 0 and days[1] <= MAX_DAYS_AHEAD * (points[-1][0] - points[0][0]):
            found.append(Growth(measure.measure, measure.value, measure.tolerance, middle, days, len(points)))
    return found


def since_rewrite(records: Sequence[Record]) -> list[Record]:
    """Return the records with measures of the present layout, after the last rewrite; oldest first."""
    found: list[Record] = []
    for record in reversed(records):
        if record.rewrote or (found and record.layout_id != found[-1].layout_id):
            break
        if record.decay:
            found.append(record)
    return found[::-1]


def _slope(points: Sequence[tuple[float, float]]) -> tuple[float, float, float] | None:
    """Return lower end, Theil-Sen slope and upper end per day of points (day, value); None if the slope may be 0."""
    count = len(points)
    if count < MIN_RECORDS or points[-1][0] - points[0][0] < MIN_DAYS:
        return None
    slopes = np.sort([(b - a) / (then - at) for (at, a), (then, b) in combinations(points, 2) if then > at])
    # The interval of Kendall's statistic: Hollander, Wolfe, Nonparametric Statistical Methods, section 9.3.
    # Its ends are equally far from the ends of the sorted slopes.
    half = _Z * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    rank = max(round((len(slopes) - half) / 2), 1)
    low, high = slopes[rank - 1], slopes[-rank]
    return (float(low), float(np.median(slopes)), float(high)) if low > 0 else None


def touched_trend(records: Sequence[Record]) -> Trend:
    """Return touched at the end of each recorded command, for the columns of the newest record that has columns."""
    known = [record for record in records if record.columns]
    names = [column.column for column in known[-1].columns] if known else []
    values = [{column.column: column.last for column in record.columns} for record in known]
    return Trend(
        tuple(record.time.timestamp() for record in known),
        {name: tuple(of_time.get(name) for of_time in values) for name in names},
    )
