"""What reports show: a plan, what apply did, and pictures of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.picture import Picture
from zlayout.planner.result import TableResult


@dataclass(frozen=True, slots=True)
class RunReport:
    """A plan with what belongs to it.

    results: what apply did, by table name; empty for a plan that was not applied. pictures: for the HTML report, by
    table name; only of the tables that were drawn.
    """

    plan: Plan
    results: Mapping[str, TableResult] = field(default_factory=dict)
    pictures: Mapping[str, Picture] = field(default_factory=dict)

    @classmethod
    def of(cls, shown: Plan | RunReport) -> RunReport:
        """The report itself, or a report of just a plan."""
        return shown if isinstance(shown, RunReport) else cls(shown)

    def is_open(self, table: TablePlan) -> bool:
        """Whether the table is not as declared, or not known to be, after an apply if there was one."""
        if (result := self.results.get(table.table)) is not None:
            return not result.succeeded
        return table.status is not Status.UNCHANGED
