"""What the queries of a workload open of a table: now, after a plan is applied, and in the best possible layout.

The pay-back of a rewrite follows from these costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from zlayout.advisor.model import Costs, FileSet, KeySample, QueryPredicates, TableQuery
from zlayout.advisor.queries import column_shares
from zlayout.advisor.simulate import costs, lowest
from zlayout.advisor.study import rewrite_target
from zlayout.planner.decision import Decision
from zlayout.planner.forecasts import Payback, QueryCost, QueryGroup, WorkloadForecast
from zlayout.planner.partitions import Floats
from zlayout.planner.sampled import DRAWS, min_error_of, rewrite_of
from zlayout.planner.simulated import resample, together
from zlayout.planner.simulation import MAX_ROWS, simulate_files, weights_of
from zlayout.spec.model import LayoutSpec, Prices
from zlayout.table.key_sample import RowGroupSample
from zlayout.table.state import TableState

MAX_COLUMNS = 32  # sampled columns besides the z-order columns
MAX_GROUPS = 10
TIB = 2**40
SECONDS_PER_HOUR = 3600


def queried_columns(spec: LayoutSpec, queries: Sequence[TableQuery], state: TableState) -> tuple[str, ...]:
    """Return the z-order columns, then at most MAX_COLUMNS columns with bounds, those that most queries filter on."""
    partitioned = {f.source for f in state.partition_fields if f.transform == "identity"}
    known = {c.name for c in state.columns if c.orderable and c.name not in partitioned} & state.files.bounds.keys()
    filtered = [name for name in column_shares(queries) if name in known]
    return tuple(dict.fromkeys((*spec.column_names, *filtered[:MAX_COLUMNS])))


def mean(found: Costs) -> QueryCost:
    """Return the mean of the queries, weighted by the numbers of their executions."""
    return QueryCost(found.mean_files, round(found.mean_bytes))


def query_groups(queries: Sequence[TableQuery], now: Costs, predicted: Costs | None) -> tuple[QueryGroup, ...]:
    """Group the queries by the columns of their conditions.

    Args:
        queries: Q queries on the table.
        now: What they open at present.
        predicted: What they open after apply; None if it is unknown.

    Returns:
        The MAX_GROUPS groups that open the most bytes now, in descending order of these bytes.
    """
    of_columns: dict[tuple[str, ...], list[int]] = {}
    for number, query in enumerate(queries):
        of_columns.setdefault(tuple(sorted(column_shares([query]))), []).append(number)
    opened, whole = now.bytes * now.weights, float(now.weights.sum())
    largest = sorted(of_columns.items(), key=lambda item: (-float(opened[item[1]].sum()), item[0]))[:MAX_GROUPS]

    def group(columns: tuple[str, ...], index: list[int]) -> QueryGroup:
        then = None if predicted is None else mean(predicted.of(index))
        return QueryGroup(columns, len(index), float(now.weights[index].sum()) / whole, mean(now.of(index)), then)

    return tuple(group(columns, index) for columns, index in largest)


@dataclass(frozen=True, slots=True)
class After:
    """What the queries open after a rewrite.

    Attributes:
        predicted: The mean over the queries.
        low, high: The error range of the mean.
        each: The cost of each query.
    """

    predicted: QueryCost
    low: QueryCost
    high: QueryCost
    each: Costs


def after(
    spec: LayoutSpec, state: TableState, decision: Decision, queries: Sequence[TableQuery], sample: RowGroupSample
) -> After | None:
    """Forecast the cost after a rewrite without a partitioning change.

    Args:
        spec: The layout spec of the table.
        state: The observed table, with the bounds of `queried_columns`.
        decision: The decision with the groups to rewrite.
        queries: The queries on the table.
        sample: Rows of the files to rewrite, with `queried_columns`.

    Returns:
        The prediction; None if a group has no sampled rows.
    """
    names = queried_columns(spec, queries, state)
    rewrite = rewrite_of(spec, state, decision, names, state.partition_fields, sample)
    weights = rewrite.weights
    kept = state.files.take(np.flatnonzero(rewrite.group < 0))
    found, each = [], []
    for draw in range(DRAWS):
        new, unknown, _, partitions = simulate_files(rewrite, weights, draw)
        if unknown:
            return None
        files = together(kept, new, names, partitions)
        simulated = FileSet(files.bounds, files.rows, files.bytes.astype(np.float64), files.partition)
        cost = costs(_in_new(queries, partitions), simulated, sampled=not sample.complete)
        found.append((cost.mean_files, cost.mean_bytes))
        each.append((cost.files, cost.bytes))
    drawn = np.array(found)
    half = np.maximum(2 * drawn.std(axis=0), min_error_of(rewrite) * drawn.mean(axis=0))
    predicted = drawn.mean(axis=0)
    files, size = np.mean(each, axis=0)
    low, high = _cost(np.maximum(predicted - half, 0)), _cost(predicted + half)
    return After(_cost(predicted), low, high, Costs(files, size, cost.weights))


def _in_new(queries: Sequence[TableQuery], partitions: int) -> list[TableQuery]:
    """Return the queries for more partitions, which may have matching rows because their values are not known."""
    return [
        replace(q, partitions=tuple(np.append(known, np.ones(partitions - len(known), bool)) for known in q.partitions))
        for q in queries
    ]


def floor(
    spec: LayoutSpec, state: TableState, queries: Sequence[TableQuery], sample: KeySample, highest: QueryCost
) -> QueryCost:
    """Return the floor: the mean cost if the table were laid out for each query alone, but at most `highest`."""
    found = mean(lowest(queries, sample, rewrite_target(state, spec.layout.target_size)))
    return QueryCost(min(found.files, highest.files), min(found.bytes, highest.bytes))


def key_sample(state: TableState, sample: RowGroupSample) -> KeySample:
    """Return rows drawn from a sample of the whole table, so that each live row of the table is equally likely."""
    weights = weights_of(state.files, np.zeros(len(state.files), np.int64), sample)
    rows = resample(weights, MAX_ROWS, 0.5)
    keys = {name: values.take(pa.array(rows)) for name, values in sample.keys.items()}
    return KeySample(keys, state.files.partition[sample.file[rows]].astype(np.int32), sample.seed)


def _cost(values: Floats) -> QueryCost:
    """values: float64[2], the number of files and of bytes."""
    return QueryCost(float(values[0]), round(float(values[1])))


def executions_per_day(queries: Sequence[QueryPredicates]) -> float | None:
    """Return the number of executions of all queries in a day; None if the days of a query are unknown."""
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

    A rewrite reads and writes its files once. It has paid back when the queries have saved as many bytes. If the error
    range of the forecast includes that they save nothing, the result does not state when the rewrite has paid back.

    Args:
        forecast: What the queries open now and after the rewrite.
        rewrite_bytes: The size of the files to rewrite.
        per_day: The number of executions of the queries in a day; None if it is unknown.
        bytes_per_second: The rate of the last run; None before the first one.
        prices: The declared prices; None if there are none.

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
