"""Write what the queries of a workload open, in the words that all reports share."""

from __future__ import annotations

from collections.abc import Iterator

from zlayout.planner.forecasts import Payback, QueryCost, WorkloadForecast
from zlayout.planner.model import TablePlan
from zlayout.report.words import duration, known, number, share, size

# The number of workload files that are named.
MAX_SOURCES = 3


def workload_lines(table: TablePlan) -> Iterator[str]:
    """Yield what a query of the workload opens now, after apply and at least, and which queries these are."""
    asked = table.workload
    if asked is None:
        return
    after, floor = _after(asked), asked.floor
    then = f" -> {after}" if after and table.groups else ""
    least = f" (floor {cost_text(floor)})" if floor is not None else ""
    yield f"{cost_text(asked.now)} a query{then}{least}"
    sources = ", ".join(asked.sources[:MAX_SOURCES])
    if (left := len(asked.sources) - MAX_SOURCES) > 0:
        sources += f" and {left:,} more"
    queries = "1 query" if asked.queries == 1 else f"{asked.queries:,} queries"
    of = "" if asked.share > 0.995 else f", {share(asked.share)} of the weight"
    more_known = "what they open after apply" if table.groups else "the floor"
    tells = f"; --sample predicts {more_known}" if floor is None else ""
    yield f"{queries} of {sources}{of}{tells}"
    if asked.payback is not None:
        yield _payback(asked.payback)


def _payback(pay: Payback) -> str:
    """Write what the rewrite costs, and when it has paid back."""
    seconds, price = pay.seconds, "" if pay.cost is None else f" for {pay.cost:,.2f}"
    time = "time unknown until the first apply" if seconds is None else f"about {duration(seconds)}{price}"
    text = f"the rewrite reads and writes {size(pay.rewrite_bytes)}, {time}"
    if pay.queries is None:
        return f"{text}; it is not known whether it pays back"
    if pay.days is None or pay.saved_per_day is None:
        return f"{text}; paid back after {number(pay.queries)} queries"
    worth = "" if pay.worth_per_day is None else f" ({pay.worth_per_day:,.2f})"
    money = "" if pay.money_days is None else f", in money after {_days(pay.money_days)}"
    return f"{text}; {size(pay.saved_per_day)}{worth} less read a day, paid back after {_days(pay.days)}{money}"


def _days(days: float) -> str:
    return "less than 0.1 days" if days < 0.1 else f"{number(days)} days"


def cost_text(cost: QueryCost) -> str:
    """Write the files and bytes that a query opens."""
    return f"{number(cost.files)} {'file' if number(cost.files) == '1' else 'files'}, {size(cost.bytes)}"


def _after(asked: WorkloadForecast) -> str:
    """Write the forecast with its error range, if that is wide; '' if nothing is known."""
    predicted, low, high = asked.predicted, asked.low, asked.high
    if predicted is None or low is None or high is None:
        return ""
    files = known(predicted.files, low.files, high.files)
    return f"{files} {'file' if files == '1' else 'files'}, {known(predicted.bytes, low.bytes, high.bytes, size)}"
