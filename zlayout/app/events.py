"""The events of `apply`, which its callers receive while it works."""

from __future__ import annotations

from dataclasses import dataclass

from zlayout.app.results import Applied, result_of
from zlayout.formats.base import Event, Progress
from zlayout.planner.result import TableResult


@dataclass(frozen=True, slots=True)
class TableStarted:
    """Apply starts with a table. The run id is stored with each commit."""

    table: str
    run_id: str


@dataclass(frozen=True, slots=True)
class TableEvent:
    """An event of a table: a commit, a failed group, or a notice."""

    table: str
    event: Event


@dataclass(frozen=True, slots=True)
class TableFinished:
    """Apply is done with a table, successfully or not."""

    applied: Applied

    @property
    def table(self) -> str:
        return self.applied.table

    @property
    def result(self) -> TableResult:
        """The table result, with the metrics after the run."""
        return result_of(self.applied)


ApplyEvent = TableStarted | Progress | TableEvent | TableFinished
