"""Compute when a rewrite has paid back by the bytes that the workload no longer reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zlayout.advisor.model import QueryPredicates
from zlayout.planner.forecasts import Payback, WorkloadForecast
from zlayout.spec.model import Prices

TIB = 2**40
SECONDS_PER_HOUR = 3600


def executions_per_day(queries: Sequence[QueryPredicates]) -> float | None:
    """Return how many of the queries run in a day; None if the days of one of them are unknown."""
    days = [q.query.days for q in queries]
    return sum(q.weight / d for q, d in zip(queries, days, strict=True) if d) if all(days) else None


def payback(
    forecast: WorkloadForecast,
    rewrite_bytes: int,
    per_day: float | None,
    bytes_per_second: float | None,
    prices: Prices | None,
) -> Payback | None:
    """Return the pay-back of a rewrite.

    A rewrite reads and writes its files once. It has paid back when the queries have read as many bytes less. If the
    error range of the forecast includes that they read no less, nothing is stated about when.

    Args:
        forecast: What the queries open now and after the rewrite.
        rewrite_bytes: The size of the files to rewrite.
        per_day: The number of queries in a day; None if it is unknown.
        bytes_per_second: The rate of the last run; None before the first one.
        prices: The declared prices.

    Returns:
        The pay-back; None if nothing is rewritten, or if it is unknown what the queries read afterwards.
    """
    after, high = forecast.predicted, forecast.high
    if not rewrite_bytes or after is None or high is None:
        return None
    seconds = rewrite_bytes / bytes_per_second if bytes_per_second else None
    cost = prices.compute_per_hour * seconds / SECONDS_PER_HOUR if prices and seconds is not None else None
    found = Payback(rewrite_bytes, seconds, None, cost=cost)
    if high.bytes >= forecast.now.bytes:
        return found
    saved = forecast.now.bytes - after.bytes
    found = replace(found, queries=2 * rewrite_bytes / saved)
    if per_day is None:
        return found
    found = replace(found, saved_per_day=round(saved * per_day), days=2 * rewrite_bytes / (saved * per_day))
    if prices is None:
        return found
    worth = prices.scan_per_tib * saved * per_day / TIB
    return replace(found, worth_per_day=worth, money_days=None if cost is None else cost / worth)
