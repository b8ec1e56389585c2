"""Replay the queries of a workload on Spark, and report how many files and bytes its scans opened.

Of each query, only the scan of one table is replayed: a SELECT of the columns in its conditions, with these conditions
as WHERE. The conditions decide which files Spark opens. Only parsed predicates reach Spark, never the text of a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zlayout.advisor.model import QueryPredicates, TableQuery
from zlayout.app.workloads import Expected
from zlayout.errors import Diagnostic, EngineError
from zlayout.formats.trial import Trial
from zlayout.planner.forecasts import QueryCost
from zlayout.planner.result import TableResult
from zlayout.predicate.model import Predicate, columns
from zlayout.predicate.parse import quote_column, to_sql
from zlayout.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The number of queries that are replayed: those with the largest product of executions and bytes opened at present.
MAX_QUERIES = 50


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query to replay.

    Attributes:
        predicted: What the plan for the table predicts that it opens; None without a prediction.
        inverted: See `ReplayedQuery`.
    """

    query: TableQuery
    predicted: QueryCost | None
    inverted: bool


@dataclass(frozen=True, slots=True)
class ReplayedQuery:
    """One query, replayed on the table and on the trial.

    Attributes:
        location: The location of the query, as `file:line`.
        weight: The number of its executions.
        main: What Spark opened of the table itself.
        trial: What Spark opened of the trial.
        predicted: What the plan for the table predicts; None without a prediction.
        inverted: Whether a condition on a function of a column was replayed as a condition on the column.
    """

    location: str
    weight: float
    main: Opened
    trial: Opened
    predicted: QueryCost | None
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class TrialReport:
    """What `trial` did and measured.

    Attributes:
        trial: The trial after the rewrite.
        created: Whether the trial was made by this call.
        main_version: The version of the table itself on which the queries were replayed.
        result: The table result of the trial; None if the trial was laid out already.
        queries: The queries, sorted by the bytes that all their executions open of the table, the largest first.
        left_out: The number of queries that were not replayed, because others open more bytes.
        diagnostics: Warnings about the comparison.
    """

    table: str
    trial: Trial
    created: bool
    main_version: int
    result: TableResult | None
    queries: tuple[ReplayedQuery, ...]
    left_out: int
    diagnostics: tuple[Diagnostic, ...]

    @property
    def main(self) -> QueryCost:
        """The mean of what a query opened of the table itself, weighted by executions."""
        return self._mean([QueryCost(q.main.files, q.main.bytes) for q in self.queries])

    @property
    def measured(self) -> QueryCost:
        """The mean of what a query opened of the trial, weighted by executions."""
        return self._mean([QueryCost(q.trial.files, q.trial.bytes) for q in self.queries])

    @property
    def predicted(self) -> QueryCost | None:
        """The predicted mean, weighted by executions; None unless every query has a prediction."""
        found = [q.predicted for q in self.queries if q.predicted is not None]
        return self._mean(found) if len(found) == len(self.queries) else None

    def _mean(self, costs: Sequence[QueryCost]) -> QueryCost:
        weights = [query.weight for query in self.queries]
        files, size = (
            sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)
            for values in ([cost.files for cost in costs], [cost.bytes for cost in costs])
        )
        return QueryCost(files, round(size))


# The names of two metrics of a scan, the number of its files and their total size: first on Delta, then on Iceberg.
_METRICS = (("numFiles", "filesSize"), ("resultDataFiles", "totalDataFileSize"))


@dataclass(frozen=True, slots=True)
class Opened:
    """What the scans of one query opened, as Spark reports it, and the number of rows that they returned."""

    files: int
    bytes: int
    rows: int

    def __add__(self, other: Opened) -> Opened:
        return Opened(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows)


def queries_to_replay(expected: Expected, workload: Workload) -> tuple[PlannedQuery, ...]:
    """Return the queries of a workload whose executions open most bytes of the table at present, in this order."""
    now, then = expected.now, expected.then
    order = sorted(range(len(expected.queries)), key=lambda n: -now.bytes[n] * now.weights[n])
    inverted = {one.query for one in workload.inverted}
    return tuple(
        PlannedQuery(
            expected.queries[n],
            None if then is None else QueryCost(float(then.files[n]), round(float(then.bytes[n]))),
            expected.queries[n].query in inverted,
        )
        for n in order[:MAX_QUERIES]
    )


def replay(frame: DataFrame, queries: Iterable[QueryPredicates]) -> Sequence[Opened]:
    """Scan a table for each query. Equal scans are carried out once.

    Args:
        frame: The table at one version.
        queries: The queries, with predicates on columns of the table.

    Raises:
        EngineError: ZL309, Spark failed, or does not report the files of a scan.
    """
    known: dict[Predicate, Opened] = {}
    found = []
    for query in queries:
        total = Opened(0, 0, 0)
        for predicate in query.predicates:
            if predicate not in known:
                known[predicate] = scan(frame, predicate)
            total += known[predicate]
        found.append(total)
    return found


def scan(frame: DataFrame, predicate: Predicate) -> Opened:
    """Read the rows of a table that match a predicate. Raises EngineError ZL309."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        chosen = frame.where(to_sql(predicate)).select(*map(quote_column, sorted(columns(predicate))))
        internal: Any = chosen
        plan = internal._jdf.queryExecution().executedPlan()
        rows = int(plan.execute().count())  # DataFrame.count() would be another query, which reads less
        return _opened(plan, rows)
    except (Py4JError, PySparkException) as error:
        lines = str(error).splitlines()
        raise EngineError.of("ZL309", f"a query could not be replayed: {lines[0] if lines else error!r}") from error


def _opened(plan: Any, rows: int) -> Opened:
    leaves = plan.collectLeaves()
    files = size = 0
    for at in range(leaves.size()):
        metrics = leaves.apply(at).metrics()
        names = next(((f, b) for f, b in _METRICS if metrics.contains(f) and metrics.contains(b)), None)
        if names is None:
            if rows == 0:  # Spark knows without a scan that no row matches
                continue
            raise EngineError.of("ZL309", f"Spark does not report the files of the scan {leaves.apply(at).nodeName()}")
        files, size = (
            total + int(metrics.apply(name).value()) for total, name in zip((files, size), names, strict=True)
        )
    return Opened(files, size, rows)
