"""Plan: observe tables and decide what to do to each. Reads metadata only and starts no JVM."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import zlayout
from zlayout.app.select import select_layouts
from zlayout.errors import TableError, ZlayoutError
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.planner.decision import Decision, PlanOptions
from zlayout.planner.diff import propose, settle
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.proposal import Proposal
from zlayout.planner.settings import partitioning
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import LayoutSpec, Project
from zlayout.table.state import TableState

PARALLELISM = 8


@dataclass(frozen=True, slots=True)
class Observed:
    """One table: its spec, what was observed (None when it could not be read), and what could be done to it."""

    spec: LayoutSpec
    state: TableState | None
    proposal: Proposal | Decision


@dataclass(frozen=True, slots=True)
class Planned:
    """One table: its spec, what was observed (None when it could not be read), and the decision."""

    spec: LayoutSpec
    state: TableState | None
    decision: Decision


@dataclass(frozen=True, slots=True)
class ProjectPlan:
    """The plan of a project's tables, with everything that `apply` needs to carry it out.

    Attributes:
        document: The plan as data: what reports, the plan file and `apply` read.
        project: The project that was planned.
        options: The options that it was planned with.
        planned: The observation and the pinned files of each table.
        seconds: How long planning took.
        reviewed: Whether it was read from a plan file. `apply` then does not plan again after a conflict, since nobody
            has reviewed another plan.
    """

    document: Plan
    project: Project
    options: PlanOptions
    planned: tuple[Planned, ...]
    seconds: float
    reviewed: bool = False

    @property
    def tables(self) -> tuple[TablePlan, ...]:
        """The plan of each table, in the order of their names."""
        return self.document.tables

    @property
    def has_changes(self) -> bool:
        """Whether `apply` would change a table."""
        return self.document.has_changes


def plan(
    project: Project,
    select: Iterable[str] = (),
    exclude: Iterable[str] = (),
    *,
    allow_full_rewrite: bool = False,
    max_rewrite_bytes: int | None = None,
    parallelism: int = PARALLELISM,
) -> ProjectPlan:
    """Plan what must be done so that tables are laid out as declared.

    A table that cannot be read or must not be changed does not stop the others: its `TablePlan` has the status ERROR
    or REFUSED, and diagnostics.

    Args:
        project: The project, from `load_project`.
        select: Tables to plan: names or globs of tables, `path:GLOB` of their layout files, `tag:NAME`. Default: all.
        exclude: Tables to leave out, in the same notation.
        allow_full_rewrite: Whether a new `partition_by` may rewrite every file of a Delta table.
        max_rewrite_bytes: Budget in bytes of files to rewrite, over all tables; the best groups come first.
        parallelism: Number of tables to read at a time.

    Returns:
        The plan. It can be applied with `apply`, or saved with `write_plan`.

    Raises:
        SpecError: ZL045, a pattern or an excluded name matches no layout, or the project has none.
    """
    specs = select_layouts(project.layouts, tuple(select), tuple(exclude))
    return plan_specs(project, specs, PlanOptions(allow_full_rewrite, max_rewrite_bytes), parallelism)


def plan_specs(
    project: Project, specs: Sequence[LayoutSpec], options: PlanOptions, parallelism: int = PARALLELISM
) -> ProjectPlan:
    """Plan these layouts of the project."""
    start = time.monotonic()
    planned = plan_tables(specs, backends_of(project, SparkRuntime(project), specs), options, parallelism)
    return ProjectPlan(as_plan(planned), project, options, planned, time.monotonic() - start)


def backends_of(project: Project, runtime: SparkRuntime, specs: Iterable[LayoutSpec]) -> dict[str, Backend]:
    """The backends of the catalogs that the layouts' tables are in, by name of the catalog."""
    names = sorted({spec.table.catalog for spec in specs})
    return {name: backend_for(project.catalogs[name], runtime) for name in names}


def plan_tables(
    specs: Sequence[LayoutSpec],
    backends: Mapping[str, Backend],
    options: PlanOptions = PlanOptions(),  # noqa: B008 - frozen
    parallelism: int = PARALLELISM,
) -> tuple[Planned, ...]:
    """Plan each table, in the order of `specs`. A byte budget is spent on all of them together."""
    with ThreadPoolExecutor(max_workers=max(1, min(parallelism, len(specs)))) as pool:
        observed = tuple(pool.map(lambda spec: look(spec, backends[spec.table.catalog], options), specs))
    decisions = settle([o.proposal for o in observed], options.max_rewrite_bytes)
    return tuple(Planned(o.spec, o.state, decision) for o, decision in zip(observed, decisions, strict=True))


def plan_table(spec: LayoutSpec, backend: Backend, options: PlanOptions, version: int | None = None) -> Planned:
    """Observe one table (at an older version, if given) and decide."""
    found = look(spec, backend, options, version)
    (decision,) = settle([found.proposal], options.max_rewrite_bytes)
    return Planned(spec, found.state, decision)


def look(spec: LayoutSpec, backend: Backend, options: PlanOptions, version: int | None = None) -> Observed:
    """Observe one table (at an older version, if given) and find what could be done; no budget is spent yet."""
    try:
        state = backend.observe(spec.table, spec.column_names, version)
        notes = backend.native_diagnostics(spec.layout, state) if spec.layout.engine == "native" else ()
        if (fields := partitioning(spec, state)) != state.partition_fields:
            place = spec.mark("partition_by")
            notes += tuple(replace(d, location=place) for d in backend.partition_diagnostics(fields, state))
        return Observed(spec, state, propose(spec, state, backend.capabilities, notes, options))
    except ZlayoutError as error:
        return Observed(spec, None, Decision(_unreadable(spec, backend, error)))
    except Exception as error:
        # One broken table must not stop the others, whatever a format's library throws.
        unknown = TableError.of(
            "ZL104",
            f"{spec.table} cannot be read: {type(error).__name__}: {error}",
            hint="if this is not about access to the table, report it",
            location=spec.location,
        )
        return Observed(spec, None, Decision(_unreadable(spec, backend, unknown)))


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
