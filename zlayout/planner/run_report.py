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
        results: What apply did, by table name; empty if the plan was not applied.
        pictures: Pictures for the HTML report, by table name; only of tables that were drawn.
        trends: How touched has developed, by table name; only of tables with history records. Not in plan documents.
        drift: Whether the report states the drift of tables, and not what apply would do. Not in plan documents.
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
        """Return `shown` if it is a run report, or a run report of a plan without results and pictures."""
        return shown if isinstance(shown, RunReport) else cls(shown)

    def is_open(self, table: TablePlan) -> bool:
        """Return whether the table is not as declared, or not known to be; after apply, if the plan was applied."""
        if (result := self.results.get(table.table)) is not None:
            return not result.succeeded
        return not table.as_declared

    @property
    def failed(self) -> Mapping[str, tuple[Diagnostic, ...]]:
        """The tables that are not as declared, by name, with their problems. After apply, also the refused tables."""
        found = {}
        for table in filter(self.is_open, self.plan.tables):
            result = self.results.get(table.table)
            found[table.table] = table.diagnostics if result is None else result.problems
        return found


@dataclass(frozen=True, slots=True)
class ColumnTrend:
    """Touched of one z-order column at each time of a trend; None where it is unknown."""

    column: str
    touched: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """Touched of the z-order columns of one table. times: seconds since 1970 in UTC, in ascending order."""

    times: tuple[float, ...]
    columns: tuple[ColumnTrend, ...]

    def of(self, column: str) -> ColumnTrend | None:
        """Return the trend of one column; None if it has none."""
        return next((trend for trend in self.columns if trend.column == column), None)
