"""A plan of a thousand tables in all states and sizes, with a picture of each of the ten largest rewrites."""

import random
from dataclasses import replace
from itertools import accumulate
from operator import mul

from unit.report.sample_plans import BROKEN, EVENTS, HOSTILE, ORDERS, REFUSED, UNCHANGED
from unit.report.test_html import PICTURE

from zlayout.planner.model import Plan, TablePlan
from zlayout.planner.run_report import RunReport, Trend

TABLES = 1000
PICTURES = 10


def sample_fleet(tables: int = TABLES) -> RunReport:
    """Make the plan. Every tenth table is to be rewritten; a few are refused, cannot be read, or have hostile names."""
    chance = random.Random(1)
    made = [_table(number, chance) for number in range(tables)]
    largest = sorted(made, key=lambda t: -t.rewrite_bytes)[:PICTURES]
    pictures = {t.table: replace(PICTURE, sampled=True) for t in largest if t.groups}
    trends = {t.table: sample_trend(t, chance) for t in made}
    return RunReport(Plan("0.1.0", tuple(made)), pictures=pictures, trends=trends)


def sample_trend(table: TablePlan, chance: random.Random, records: int = 30) -> Trend:
    """One record a day, of which each touches up to a tenth more than the one before."""
    times = tuple(1.7e9 + 86400.0 * day + chance.uniform(0, 600) for day in range(records))
    steps = {
        c.column: accumulate((chance.uniform(0.9, 1.15) for _ in times), mul)
        for c in table.columns or ORDERS.columns[:1]
    }
    return Trend(times, {name: tuple(c) for name, c in steps.items()})


def _table(number: int, chance: random.Random) -> TablePlan:
    kind = {3: REFUSED, 5: BROKEN, 7: HOSTILE}.get(number % 100, ORDERS if number % 10 == 0 else UNCHANGED)
    kind = EVENTS if number % 40 == 1 else kind
    factor = chance.paretovariate(1.2) / 10
    name = f"lake.sales.t{number:04}" if kind is not HOSTILE else f"{HOSTILE.table}{number:04}"
    actions = tuple(
        replace(g, bytes=int(g.bytes * factor), rows=int(g.rows * factor)) if g in kind.groups else g
        for g in kind.actions
    )
    columns = tuple(replace(c, touched=round(c.touched * factor, 2) + 1) for c in kind.columns)
    return replace(
        kind,
        table=name,
        bytes=int((kind.bytes or 10**9) * factor) if kind is not BROKEN else 0,
        actions=actions,
        columns=columns,
        size_histogram=(("<= 1/16", number), ("<= 1", 4)),
    )
