"""Observe many tables side by side and decide on each: the read-only half of zlayout. No JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import zlayout
from zlayout.backends.base import Backend
from zlayout.errors import TableError, ZlayoutError
from zlayout.plan.diff import Decision, PlanOptions, decide
from zlayout.plan.model import Plan, TablePlan
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState

PARALLELISM = 8


@dataclass(frozen=True, slots=True)
class Planned:
    """One table: its spec, what was observed (None when it could not be read), and the decision."""

    spec: LayoutSpec
    state: TableState | None
    decision: Decision


def plan_tables(
    specs: Sequence[LayoutSpec],
    backends: Mapping[str, Backend],
    options: PlanOptions = PlanOptions(),  # noqa: B008 - frozen
    parallelism: int = PARALLELISM,
) -> tuple[Planned, ...]:
    """Plan every table, in the order of `specs`; one that cannot be read does not stop the others."""
    with ThreadPoolExecutor(max_workers=max(1, min(parallelism, len(specs)))) as pool:
        return tuple(pool.map(lambda spec: plan_table(spec, backends[spec.table.catalog], options), specs))


def plan_table(spec: LayoutSpec, backend: Backend, options: PlanOptions, version: int | None = None) -> Planned:
    """Observe one table (at an older version, if given) and decide."""
    try:
        state = backend.observe(spec.table, spec.column_names, version)
        notes = backend.native_diagnostics(spec.layout, state) if spec.layout.engine == "native" else ()
        return Planned(spec, state, decide(spec, state, backend.capabilities, notes, options))
    except TableError as error:
        return Planned(spec, None, Decision(_unreadable(spec, backend, error)))


def as_plan(planned: Sequence[Planned]) -> Plan:
    """The plan document of many tables, in the order of their names."""
    tables = sorted((p.decision.plan for p in planned), key=lambda t: t.table)
    return Plan(zlayout.__version__, tuple(tables))


def _unreadable(spec: LayoutSpec, backend: Backend, error: ZlayoutError) -> TablePlan:
    return TablePlan(
        table=str(spec.table),
        format=backend.capabilities.format,
        location=spec.location,
        status="error",
        diagnostics=error.diagnostics,
    )
