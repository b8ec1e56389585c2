"""A plan whose places are told from another folder than the one that zlayout ran in."""

from __future__ import annotations

import posixpath
from dataclasses import replace

from zlayout.errors import Diagnostic, Location
from zlayout.planner.model import Plan, TablePlan


def seen_from(plan: Plan, below: str) -> Plan:
    """The same plan, its relative paths put below the folder `below` ('' leaves them as they are)."""
    if below in ("", "."):
        return plan
    return replace(plan, tables=tuple(_table(t, below) for t in plan.tables))


def _table(table: TablePlan, below: str) -> TablePlan:
    result = table.result
    if result is not None:
        result = replace(result, problems=_diagnostics(result.problems, below))
    partitioning = table.partitioning
    if partitioning is not None:
        partitioning = replace(partitioning, location=_place(partitioning.location, below))
    moved = _place(table.location, below)
    assert moved is not None
    return replace(
        table,
        location=moved,
        drift=tuple(replace(d, location=_place(d.location, below)) for d in table.drift),
        partitioning=partitioning,
        diagnostics=_diagnostics(table.diagnostics, below),
        result=result,
    )


def _diagnostics(diagnostics: tuple[Diagnostic, ...], below: str) -> tuple[Diagnostic, ...]:
    return tuple(replace(d, location=_place(d.location, below)) for d in diagnostics)


def _place(location: Location | None, below: str) -> Location | None:
    if location is None:
        return None
    # An absolute path stays what it is.
    return replace(location, path=posixpath.normpath(posixpath.join(below, location.path)))
