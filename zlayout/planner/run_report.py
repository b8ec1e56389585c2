"""The input of every report: a plan, its table results, and pictures of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from zlayout.errors import Diagnostic
from zlayout.planner.model import Plan, TablePlan
from zlayout.planner.picture import Picture
from zlayout.planner.result import TableResult


@dataclass(frozen=True, slots=True)
class RunReport:
    """A plan with its table results and pictures.

    Attributes:
        plan: The plan.
        results: What apply did to each table, by table name; empty if the plan was not applied.
        pictures: The pictures for the HTML report, by table name; only of tables that were drawn.
        trends: The trend of each table, by table name; only of tables with history records. Not in plan documents.
        drift: Whether this is a report of `drift`, which states how tables differ from their specs and not what apply
            would do. Not in plan documents.
    """

    plan: Plan
    results: Mapping[str, TableResult] = field(default_factory=dict)
    pictures: Mapping[str, Picture] = field(default_factory=dict)
    trends: Mapping[str, Trend] = field(default_factory=dict)
    drift: bool = False

    def __repr__(self) -> str:
        outcomes = Counter(result.outcome.value for result in self.results.values())
        ended = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items()))
        return f"<{type(self).__name__}: {len(self.plan.tables):,} planned, {ended or 'none applied'}>"

    @classmethod
    def of(cls, shown: Plan | RunReport) -> RunReport:
        """Return `shown` if it is a run report. Return a run report without results and pictures if it is a plan."""
        return shown if isinstance(shown, RunReport) else cls(shown)

    def is_open(self, table: TablePlan) -> bool:
        """Return whether the table is not known to be as declared. Its result decides, or without one its plan."""
        if (result := self.results.get(table.table)) is not None:
            return not result.succeeded
        return not table.as_declared

    @property
    def failed(self) -> Mapping[str, tuple[Diagnostic, ...]]:
        """The problems of each table for which `is_open` is true: those of its result, or without one of its plan."""
        found = {}
        for table in filter(self.is_open, self.plan.tables):
            result = self.results.get(table.table)
            found[table.table] = table.diagnostics if result is None else result.problems
        return found


@dataclass(frozen=True, slots=True)
class ColumnTrend:
    """Touched of one z-order column at each time of a trend.

    Attributes:
        column: The name of the column.
        touched: One value for each of `Trend.times`; None where it is unknown.
    """

    column: str
    touched: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """Touched of the z-order columns of one table over its history records.

    Attributes:
        times: Seconds since 1970 in UTC, ascending.
        columns: The trend of each column.
    """

    times: tuple[float, ...]
    columns: tuple[ColumnTrend, ...]

    def of(self, column: str) -> ColumnTrend | None:
        """Return the trend of one column; None if it has none."""
        return next((trend for trend in self.columns if trend.column == column), None)
