"""What a trial did and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zlayout.app.replay import Opened
from zlayout.errors import Diagnostic
from zlayout.formats.trial import Trial
from zlayout.planner.forecasts import QueryCost
from zlayout.planner.result import TableResult


@dataclass(frozen=True, slots=True)
class ReplayedQuery:
    """One query, replayed on the table and on the trial.

    Attributes:
        location: Where the query is: `file:line`.
        weight: How often it runs.
        main: What Spark opened of the table itself.
        trial: What Spark opened of the trial.
        predicted: What the plan for the table predicts; None if it has no prediction.
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
        table: The name of the table.
        trial: The trial after the rewrite.
        created: Whether the trial was made by this call.
        main_version: The version of the table itself on which the queries were replayed.
        result: What was rewritten; None if the trial was laid out already.
        queries: The queries, those first that opened most bytes.
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
        """The mean of what a query opened of the table itself, weighted by how often it runs."""
        return self._mean([QueryCost(q.main.files, q.main.bytes) for q in self.queries])

    @property
    def measured(self) -> QueryCost:
        """The same of the trial."""
        return self._mean([QueryCost(q.trial.files, q.trial.bytes) for q in self.queries])

    @property
    def predicted(self) -> QueryCost | None:
        """The same as the plan predicts; None without a prediction."""
        found = [q.predicted for q in self.queries if q.predicted is not None]
        return self._mean(found) if len(found) == len(self.queries) else None

    def _mean(self, costs: Sequence[QueryCost]) -> QueryCost:
        weights = [query.weight for query in self.queries]
        files, size = (
            sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)
            for values in ([cost.files for cost in costs], [cost.bytes for cost in costs])
        )
        return QueryCost(files, round(size))
