"""A plan whose places are told from another folder than the one that zlayout ran in."""

from __future__ import annotations

import posixpath
from dataclasses import replace

from zlayout.errors import Diagnostic, Location
from zlayout.planner.actions import ChangePartitioning
from zlayout.planner.model import Plan, TablePlan
from zlayout.planner.run_report import RunReport


def seen_from(shown: Plan | RunReport, below: str) -> RunReport:
    """The same report, its relative paths put below the folder `below` ('' leaves them as they are)."""
    report = RunReport.of(shown)
    if below in ("", "."):
        return report
    results = {
        name: replace(result, problems=_diagnostics(result.problems, below)) for name, result in report.results.items()
    }
    plan = replace(report.plan, tables=tuple(_table(t, below) for t in report.plan.tables))
    return replace(report, plan=plan, results=results)


def _table(table: TablePlan, below: str) -> TablePlan:
    moved = _place(table.location, below)
    assert moved is not None
    return replace(
        table,
        location=moved,
        drift=tuple(replace(d, location=_place(d.location, below)) for d in table.drift),
        actions=tuple(
            replace(action, location=_place(action.location, below))
            if isinstance(action, ChangePartitioning)
            else action
            for action in table.actions
        ),
        diagnostics=_diagnostics(table.diagnostics, below),
    )


def _diagnostics(diagnostics: tuple[Diagnostic, ...], below: str) -> tuple[Diagnostic, ...]:
    return tuple(replace(d, location=_place(d.location, below)) for d in diagnostics)


def _place(location: Location | None, below: str) -> Location | None:
    if location is None:
        return None
    # An absolute path stays what it is.
    return replace(location, path=posixpath.normpath(posixpath.join(below, location.path)))
