"""Observe many tables side by side and decide on each: the read-only half of zlayout. No JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import zlayout
from zlayout.errors import TableError, ZlayoutError
from zlayout.formats.base import Backend
from zlayout.planner.budget import spend
from zlayout.planner.decision import Decision, PlanOptions
from zlayout.planner.diff import decide, partitioning
from zlayout.planner.model import Plan, Status, TablePlan
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
    """Plan every table, in the order of `specs`; one that cannot be read does not stop the others.

    A byte budget is spent on all of them together.
    """
    with ThreadPoolExecutor(max_workers=max(1, min(parallelism, len(specs)))) as pool:
        planned = tuple(pool.map(lambda spec: look(spec, backends[spec.table.catalog], options), specs))
    return _within_budget(planned, options)


def plan_table(spec: LayoutSpec, backend: Backend, options: PlanOptions, version: int | None = None) -> Planned:
    """Observe one table (at an older version, if given) and decide."""
    return _within_budget((look(spec, backend, options, version),), options)[0]


def look(spec: LayoutSpec, backend: Backend, options: PlanOptions, version: int | None = None) -> Planned:
    """As `plan_table`, but a byte budget is not spent yet: the decision is an offer."""
    try:
        state = backend.observe(spec.table, spec.column_names, version)
        notes = backend.native_diagnostics(spec.layout, state) if spec.layout.engine == "native" else ()
        if (fields := partitioning(spec, state)) != state.partition_fields:
            place = spec.mark("partition_by")
            notes += tuple(replace(d, location=place) for d in backend.partition_diagnostics(fields, state))
        return Planned(spec, state, decide(spec, state, backend.capabilities, notes, options))
    except ZlayoutError as error:
        return Planned(spec, None, Decision(_unreadable(spec, backend, error)))
    except Exception as error:
        # One broken table must not stop the others, whatever a format's library throws.
        unknown = TableError.of(
            "ZL104",
            f"{spec.table} cannot be read: {type(error).__name__}: {error}",
            hint="if this is not about access to the table, report it",
            location=spec.location,
        )
        return Planned(spec, None, Decision(_unreadable(spec, backend, unknown)))


def _within_budget(planned: tuple[Planned, ...], options: PlanOptions) -> tuple[Planned, ...]:
    if options.max_rewrite_bytes is None:
        return planned
    decisions = spend([(p.spec, p.decision) for p in planned], options.max_rewrite_bytes)
    return tuple(replace(p, decision=d) for p, d in zip(planned, decisions, strict=True))


def as_plan(planned: Sequence[Planned]) -> Plan:
    """The plan document of many tables, in the order of their names."""
    tables = sorted((p.decision.plan for p in planned), key=lambda t: t.table)
    return Plan(zlayout.__version__, tuple(tables))


def _unreadable(spec: LayoutSpec, backend: Backend, error: ZlayoutError) -> TablePlan:
    return TablePlan(
        table=str(spec.table),
        format=backend.capabilities.format,
        location=spec.location,
        status=Status.ERROR,
        diagnostics=error.diagnostics,
    )
