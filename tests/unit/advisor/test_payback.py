"""When a rewrite has paid back, in queries, days and money."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zlayout.advisor.model import TableQuery
from zlayout.advisor.query_costs import executions_per_day, payback
from zlayout.planner.model import Payback, QueryCost, WorkloadForecast
from zlayout.spec.model import Prices
from zlayout.workload.model import Query

GIB = 2**30


def forecast(now: float, after: float, high: float) -> WorkloadForecast:
    cost = [QueryCost(1, round(size * GIB)) for size in (now, after, high)]
    return WorkloadForecast(("w.sql",), 1, 1.0, cost[0], cost[1], cost[1], cost[2])


def test_bytes_days_and_money() -> None:
    found = payback(forecast(10, 2, 3), 100 * GIB, 1024.0, GIB / 36, Prices(5.0, 2.0))
    # 200 GiB are read and written, and each query reads 8 GiB less: 25 queries, of 1,024 a day. 8 TiB a day are worth
    # 40; the rewrite takes 100 times 36 seconds, one hour, which costs 2.
    assert found == Payback(100 * GIB, 3600.0, 25.0, 8 * 1024 * GIB, 25 / 1024, 2.0, 40.0, 0.05)


def test_what_is_unknown_is_not_stated() -> None:
    found = payback(forecast(10, 2, 3), 100 * GIB, None, None, Prices(5.0, 2.0))
    assert found == Payback(100 * GIB, None, 25.0)
    assert payback(forecast(10, 9, 10), 100 * GIB, 7.0, None, None) == Payback(100 * GIB, None, None)
    assert payback(forecast(10, 2, 3), 0, 7.0, None, None) is None
    unknown = replace(forecast(10, 2, 3), predicted=None, low=None, high=None)
    assert payback(unknown, 100 * GIB, 7.0, None, None) is None


def test_executions_per_day() -> None:
    def query(weight: float, days: float | None) -> TableQuery:
        return TableQuery(Query("", "w.sql:1", weight, days=days), ())

    assert executions_per_day([query(70, 7), query(3, 1)]) == pytest.approx(13)
    assert executions_per_day([query(70, 7), query(3, None)]) is None
