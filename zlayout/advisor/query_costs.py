"""What the queries of a workload open of a table: now, after a plan is applied, and in the best possible layout.

The pay-back of a rewrite follows from these costs. `better_layout` determines whether the declared layout no longer
fits the workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa

from zlayout.advisor.compare import zorder_line
from zlayout.advisor.costs import column_shares, lowest, measure
from zlayout.advisor.model import Choice, Costs, Study, TableQuery
from zlayout.advisor.study import Question, study
from zlayout.errors import SpecError
from zlayout.planner.bounds import worth_longer, written_columns
from zlayout.planner.model import BetterLayout, Payback, QueryCost, QueryGroup, WorkloadForecast
from zlayout.planner.notes import partitioning
from zlayout.planner.partitions import Floats
from zlayout.planner.sampled import min_error_of, rewrite_of
from zlayout.planner.simulation import MAX_PARTS, MAX_ROWS, Drawn, Rewrite, draw, draws_of, whole_rewrite
from zlayout.planner.work import Capabilities, PlannedTable
from zlayout.planner.written_size import size_ratios
from zlayout.spec.layouts import DEFAULT_CURVE
from zlayout.spec.model import CLUSTERING_CURVE, CURVES, Layout, LayoutSpec, Prices
from zlayout.spec.semantics import check, in_case_of
from zlayout.table.partition import PartitionField
from zlayout.table.samples import KeySample, StoredRows
from zlayout.table.state import TableState

# What a simulation needs from the layout spec: the declared layout, the base of a search, and the bound lengths.


CLUSTERED = (
    "The table is liquid-clustered, and what its OPTIMIZE writes cannot be predicted. "
    "All simulated layouts use Hilbert curves and engine zlayout."
)


def fitting(spec: LayoutSpec, state: TableState) -> LayoutSpec:
    """Return the spec with column names in the letter case of the table, if it is valid for the table.

    Raises:
        SpecError: The errors of `zlayout.spec.semantics.check`.
    """
    found = in_case_of(spec, state)
    errors = [d for d in check(found, state) if d.severity == "error"]
    if errors:
        raise SpecError(*errors)
    return found


def declared_layout(
    spec: LayoutSpec, state: TableState, capabilities: Capabilities
) -> tuple[Layout | None, tuple[str, ...]]:
    """Return the declared layout and notes about it. The layout is None if it cannot be simulated."""
    layout = spec.layout
    if not layout.columns:
        return None, ()
    if state.clustering:
        return None, (CLUSTERED,)
    notes: tuple[str, ...] = ()
    if layout.engine == "native":
        notes = ("The declared layout uses engine native. All simulated layouts use engine zlayout.",)
    if partitioning(spec, state) != state.partition_fields:
        why = "it changes the partitioning, and simulations keep the partitioning"
    elif not capabilities.can_predict(layout, state):
        why = f"the result of engine native of {capabilities.format} with curve {layout.curve} cannot be predicted"
    else:
        return layout, notes
    return None, (*notes, f"The declared layout is not simulated: {why}.")


def searched(spec: LayoutSpec, state: TableState) -> Layout:
    """Return the declared layout without columns and cuts, as the base of the layouts that a search tries.

    Its engine is zlayout, and its curve is the declared one, or the default if that cannot be tried. For a table with
    liquid clustering, engine and curve are those of OPTIMIZE.
    """
    if state.clustering:
        return replace(spec.layout, columns=(), curve=CLUSTERING_CURVE, engine="native")
    plain = spec.layout.orders and spec.layout.curve in CURVES
    curve = spec.layout.curve if plain else DEFAULT_CURVE["zlayout"]
    return replace(spec.layout, columns=(), curve=curve, cuts=(), engine="zlayout")


def rewrite_of_table(
    spec: LayoutSpec,
    state: TableState,
    names: Sequence[str],
    sample: KeySample,
    files: int | None = None,
    stored: StoredRows | None = None,
    fields: tuple[PartitionField, ...] | None = None,
) -> Rewrite:
    """Return the rewrite of a whole table, with the bounds that writers would store.

    If it would first change table properties so that writers store bounds or longer bounds, these are the bounds after
    the change.

    Args:
        spec: The layout spec of the table.
        state: The observed table.
        names: The columns whose bounds are simulated.
        sample: Rows of the whole table.
        files: The number of files to write; None for the number that follows from the target size.
        stored: Rows of the table with all columns; None if there are none.
        fields: The partitioning of new files; None for that of the table.
    """
    all_files = [np.arange(len(state.files), dtype=np.int64)] if len(state.files) else []
    longer = {bounds.column for bounds in worth_longer(spec, state, all_files)}
    known = state.columns_of(names)
    properties = dict(pair for column in known if not column.stats for pair in column.enable_stats)
    properties |= dict(pair for column in known if column.name in longer for pair in column.longer_bounds)
    columns = written_columns(state, names, properties)
    return replace(whole_rewrite(spec.layout, state, columns, sample, files, fields), stored=stored)


# The costs of queries, and the pay-back of a rewrite.

MAX_COLUMNS = 32  # sampled columns besides the z-order columns
MAX_GROUPS = 10
TIB = 2**40


def queried_columns(
    names: Iterable[str],
    queries: Sequence[TableQuery],
    state: TableState,
    fields: Sequence[PartitionField] | None = None,
) -> tuple[str, ...]:
    """Return z-order columns, then at most MAX_COLUMNS columns with an order, those that most queries filter on.

    Columns of which each partition has one value are left out, if they have so in new files too.

    fields: The partitioning of new files; None for that of the table.
    """
    kept = state.partition_fields if fields is None else set(fields).intersection(state.partition_fields)
    partitioned = {f.source for f in kept if f.transform == "identity"}
    known = {c.name for c in state.columns if c.orderable} - partitioned
    filtered = [name for name in column_shares(queries) if name in known]
    return tuple(dict.fromkeys((*names, *filtered[:MAX_COLUMNS])))


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


# The error of the size of new files, as a share of it. Chunks have fewer rows than files, so that the estimate is often
# too high, by up to 6 % in tests. Without an estimate, files were up to 21 % larger or 16 % smaller.
SIZE_ERROR, ERROR_OF_UNKNOWN_SIZE = 0.06, 0.21
# With cuts, files have different numbers of rows, and the larger ones may have more bytes per row than the average.
SIZE_ERROR_WITH_CUTS = 0.12
# With much fewer files the estimate was up to 13 % too high, and with many more usually up to 21 % too low: chunks do
# not show how many values the dictionary of such a file has.
SIZE_ERROR_OF_FEWER, SIZE_ERROR_OF_MORE, MUCH = 0.13, 0.21, 1.5


def after(
    spec: LayoutSpec,
    state: TableState,
    decision: PlannedTable,
    queries: Sequence[TableQuery],
    sample: KeySample,
    stored: StoredRows | None,
) -> tuple[Costs, Floats] | None:
    """Forecast the cost after a rewrite.

    Args:
        spec: The layout spec of the table.
        state: The observed table, with the bounds of `queried_columns`.
        decision: The decision with the groups to rewrite.
        queries: The queries on the table.
        sample: Rows of the files to rewrite, with `queried_columns` and `columns_of_moves`.
        stored: Rows of the same files, by which the size of the new files is estimated; None if there are none.

    Returns:
        The cost of each query, and float64[2], the error of the mean number of files and of bytes; None if a group has
        no sampled rows, or if the cost depends on Iceberg's hash function.
    """
    fields = partitioning(spec, state)
    names = queried_columns(spec.column_names, queries, state, fields)
    rewrite = rewrite_of(spec, state, decision, names, fields, sample)
    if rewrite.moves and _select_buckets(queries, fields):
        return None
    draws = draws_of(rewrite, MAX_PARTS)
    if any(len(drawn.unknown) for drawn in draws):
        return None
    ratio = size_ratios(rewrite, stored)(spec.layout)
    known = 1.0 if ratio is None else ratio
    each = [measure([drawn], spec.layout, queries, size_ratio=known).costs for drawn in draws]
    means = np.array([(cost.mean_files, cost.mean_bytes) for cost in each])
    least = min_error_of(rewrite)
    error = np.maximum(2 * means.std(axis=0), least * means.mean(axis=0))
    of_size = ERROR_OF_UNKNOWN_SIZE if ratio is None else _error_of_size(rewrite, spec.layout)
    of_files = max(_error_of_files(drawn, least) for drawn in draws) if rewrite.moves else 0.0
    return Costs.mean(each), error + np.array([of_files, of_size]) * means.mean(axis=0)


def _error_of_size(rewrite: Rewrite, layout: Layout) -> float:
    """Return the error of the estimated size of new files, as a share of it."""
    present, written = int((rewrite.group >= 0).sum()), int(rewrite.targets.sum())
    error = SIZE_ERROR_WITH_CUTS if layout.cuts else SIZE_ERROR
    if written > MUCH * present:
        return max(error, SIZE_ERROR_OF_MORE)
    return max(error, SIZE_ERROR_OF_FEWER) if MUCH * written < present else error


def _select_buckets(queries: Sequence[TableQuery], fields: Iterable[PartitionField]) -> bool:
    """Return whether a query has a condition on a column of buckets, by which Iceberg skips other buckets."""
    # Which bucket a value is in is not known, see `transformed`, and no condition is evaluated on buckets.
    hashed = {field.source for field in fields if field.transform.startswith("bucket")}
    return not hashed.isdisjoint(column_shares(queries))


def _error_of_files(drawn: Drawn, error: float) -> float:
    """Return the error of the number of files because it is rounded in each partition, as a share of the number.

    error: The error of the share of a partition in the rows, as a share of it. A rewrite draws its own sample.
    """
    rewrite = drawn.rewrite
    wanted = drawn.live * int(rewrite.targets.sum()) / max(float(rewrite.of_groups(rewrite.files.live_rows).sum()), 1.0)
    low, high = (np.maximum(np.rint(wanted * (1 + sign * error)), 1) for sign in (-1, 1))
    return float((high - low).sum() / drawn.targets.sum())


def between(found: Costs, error: Floats) -> tuple[QueryCost, QueryCost, QueryCost]:
    """Return the mean of the queries, and the ends of its error range."""
    predicted = np.array((found.mean_files, found.mean_bytes))
    ends = (predicted, np.maximum(predicted - error, 0), predicted + error)
    predicted_cost, low, high = (QueryCost(float(files), round(float(size))) for files, size in ends)
    return predicted_cost, low, high


def floor(
    queries: Sequence[TableQuery], rewrite: Rewrite, known: Iterable[Costs], low: QueryCost | None = None
) -> QueryCost:
    """Return the floor: the mean cost if the table were laid out for each query alone.

    Args:
        queries: The queries.
        rewrite: A rewrite of the whole table, with rows of it.
        known: The costs of the queries in some layouts. No query has a floor above these.
        low: The lower end of a forecast, whose files are smaller than those by which the floor is computed; None if
            there is none.
    """
    every = draw(rewrite, rewrite.weights, rows_per_file=MAX_ROWS)
    found = mean(reduce(Costs.at_most, known, lowest(queries, every)))
    return found if low is None else replace(found, bytes=min(found.bytes, low.bytes))


def executions_per_day(queries: Sequence[TableQuery]) -> float | None:
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
    cost = prices.of_compute(seconds) if prices and seconds is not None else None
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


# Whether the declared layout no longer fits the workload.


# With fewer sampled rows per new file, the bounds of simulated files would be much narrower than those of real files.
MIN_ROWS_PER_FILE = 50
SEARCH_SECONDS = 5.0


def better_layout(
    spec: LayoutSpec,
    state: TableState,
    queries: Sequence[TableQuery],
    rewrite: Rewrite,
    capabilities: Capabilities,
) -> tuple[BetterLayout | None, Costs | None]:
    """Search for a layout with which the queries read less than with the declared one, by more than the tolerance.

    Both layouts are simulated on the same rows. If these are not all rows of the table, the other layout must also be
    better by more than the tolerance on each half of the row groups. Queries must also read less than at present by
    more than the tolerance: a laid-out table may have more files than a rewrite would make.

    Args:
        spec: The layout spec of the table, with `tolerance.workload`.
        state: The observed table, with the bounds of the columns of the queries.
        queries: The queries on the table.
        rewrite: The rewrite of the whole table.
        capabilities: The capabilities of the backend of the table.

    Returns:
        The other layout, and the floor of each query by the layouts that were simulated. The layout is None if there is
        none; both are None if the sample is too small to decide, or if the declared layout cannot be simulated.
    """
    declared, _ = declared_layout(spec, state, capabilities)
    rows = np.count_nonzero(rewrite.weights)
    if declared is None or rows < MIN_ROWS_PER_FILE * int(rewrite.targets.sum()):
        return None, None

    def better(found: Study) -> Choice | None:
        """Return the layout found by the study if it is better by more than the tolerance."""
        other = found.choices[-1] if found.choices else None
        return other if _beats(other, found.declared, spec.tolerance.workload) else None

    base = searched(spec, state)
    first = study(state, tuple(queries), rewrite, Question((), declared, base, search=True, seconds=SEARCH_SECONDS))
    now, other = first.declared, better(first)
    if now is None or other is None:
        return None, first.floor
    for half in _halves(rewrite.sample):
        asked = Question((other.layout,), declared, declared, search=False)
        of_half = replace(rewrite, sample=half, stored=None)
        if not len(half) or better(study(state, tuple(queries), of_half, asked)) is None:
            return None, first.floor
    least = min(mean(now.costs), mean(first.now), key=lambda cost: cost.bytes)
    cost = mean(other.costs)
    if cost.bytes >= (1 - spec.tolerance.workload) * least.bytes:
        return None, first.floor
    columns = tuple(column.name for column in other.layout.columns)
    return BetterLayout(columns, other.layout.curve, zorder_line(other.layout), least, cost), first.floor


def _beats(other: Choice | None, declared: Choice | None, tolerance: float) -> bool:
    if other is None or declared is None or _settings(other.layout) == _settings(declared.layout):
        return False
    return other.costs.mean_bytes < (1 - tolerance) * declared.costs.mean_bytes


def _settings(layout: Layout) -> Layout:
    """Return the layout with engine zlayout, because the engine does not influence the result of a simulation."""
    return replace(layout, engine="zlayout")


def _halves(sample: KeySample) -> Iterator[KeySample]:
    """Yield the rows of the even and the odd row groups; nothing if the sample has all rows."""
    if sample.complete:
        return
    number = np.unique(sample.row_group, return_inverse=True)[1]
    for half in (0, 1):
        rows = np.flatnonzero(number % 2 == half)
        keys = {name: values.take(pa.array(rows)) for name, values in sample.keys.items()}
        yield replace(sample, keys=keys, file=sample.file[rows], row_group=sample.row_group[rows])
