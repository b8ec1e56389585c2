"""Plan: observe tables and decide what to do to each of them. Starts no JVM.

Metadata is read, and for forecasts from a sample also columns of some row groups.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import zlayout
from zlayout.errors import SpecError, TableError, ZlayoutError
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.planner.diff import settle
from zlayout.planner.model import Plan, TablePlan
from zlayout.planner.proposal import Proposal
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.report import text
from zlayout.report.phrases import last_line
from zlayout.session.concurrent_reads import TIMEOUT, Reading, no_answer, read_one, read_tables
from zlayout.session.proposing import observe_and_propose, unreadable
from zlayout.session.rules import Declared
from zlayout.session.sampling import sampled, sampled_late
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import LayoutSpec, Project
from zlayout.table.location import canonical, container
from zlayout.table.state import TableState

# Tables that a project declares twice, under two table names that lead to one table.
#
# Two layouts of one table would undo each other's work in each run, so neither may be planned.


_Read = tuple[LayoutSpec, TableState | None]


def shared_tables(observed: Sequence[_Read]) -> dict[int, SpecError]:
    """Return the error ZL022 of each spec whose table is also that of another spec, by the index in `observed`."""
    errors: dict[int, SpecError] = {}
    for first, second in _pairs(observed):
        for one, other in ((first, second), (second, first)):
            if one not in errors:
                errors[one] = _error(observed[one], observed[other])
    return errors


def _pairs(observed: Sequence[_Read]) -> Iterator[tuple[int, int]]:
    by_key: dict[object, list[int]] = {}
    for index, (_, state) in enumerate(observed):
        if state is not None:
            by_key.setdefault(_location_key(state.location), []).append(index)
            by_key.setdefault(("table id", state.table_id), []).append(index)
    found = {pair for members in by_key.values() for pair in combinations(members, 2)}
    return (pair for pair in sorted(found) if not _are_copies(*(observed[i][1] for i in pair)))


def _location_key(location: str) -> object:
    """Return a key that is equal for all names of one location, also through links."""
    plain = canonical(location)
    if container(location) == "/":
        try:
            found = os.stat(plain)
        except (OSError, ValueError):
            return os.path.abspath(plain)
        return found.st_dev, found.st_ino
    return plain


def _are_copies(one: TableState | None, other: TableState | None) -> bool:
    """A copy has another location in the same container. Different containers can be two addresses of one table."""
    if one is None or other is None or _location_key(one.location) == _location_key(other.location):
        return False
    return container(one.location) == container(other.location) != ""


def _error(observed: _Read, other: _Read) -> SpecError:
    (spec, state), (second, elsewhere) = observed, other
    location = "" if state is None else state.location
    also = "" if elsewhere is None or elsewhere.location == location else f" and {elsewhere.location}"
    return SpecError.of(
        "ZL022",
        f"{spec.table} and {second.table} are two names of one table, at {location}{also}; the other layout is "
        f"declared in {second.location}",
        hint="keep one of the two layouts",
        location=spec.location,
    )


# The plan of a project.


@dataclass(frozen=True, slots=True)
class ProjectPlan:
    """The plan of the tables of a project, with everything that `apply` needs to carry it out.

    Attributes:
        document: The plan as plain data, for reports and plan files.
        options: The options and limits that the plan was made with.
        planned: The observed state and the pinned files of each table.
        seconds: The duration of planning.
        reviewed: Whether the plan was read from a plan file. `apply` then does not plan again after a conflict, because
            the new plan would not be reviewed.
        timeout: The limit on reading one table again while the plan is applied, in seconds.
    """

    document: Plan
    project: Project
    options: PlanOptions
    planned: tuple[PlannedTable, ...]
    seconds: float
    reviewed: bool = False
    timeout: float = TIMEOUT

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {last_line(self.document)}>"

    def __str__(self) -> str:
        """The plan as `zlayout plan` shows it."""
        return text.render(self.document)

    @property
    def tables(self) -> tuple[TablePlan, ...]:
        """The plan of each table, sorted by table name."""
        return self.document.tables

    @property
    def has_changes(self) -> bool:
        """Whether `apply` would change a table."""
        return self.document.has_changes


def plan_specs(
    project: Project,
    declared: Declared,
    options: PlanOptions,
    reading: Reading = Reading(),
    *,
    workloads: bool = True,
) -> ProjectPlan:
    """Plan the given layouts of a project.

    workloads: Whether the workloads decide which decayed partitions wait, and plans get forecasts of their queries.
    """
    start = time.monotonic()
    backends = backends_of(project, SparkRuntime(project), declared.layouts)
    readable = [spec for spec in declared.layouts if spec.table not in declared.errors]
    planned = plan_tables(readable, backends, options, reading, workloads=workloads)
    if workloads and _use_queries(readable):
        from zlayout.session.workloads import with_workloads

        planned = with_workloads(planned, project, backends, options.sample_bytes, reading)
    failed = (
        unreadable(spec, backends[spec.table.catalog], declared.errors[spec.table])
        for spec in declared.layouts
        if spec.table in declared.errors
    )
    planned = tuple(sorted((*planned, *failed), key=lambda p: str(p.spec.table)))
    document = replace(as_plan(planned), diagnostics=declared.diagnostics)
    return ProjectPlan(document, project, options, planned, time.monotonic() - start, timeout=reading.timeout)


def backends_of(project: Project, runtime: SparkRuntime, specs: Iterable[LayoutSpec]) -> dict[str, Backend]:
    """Connect a backend to each catalog of the given layouts; return them by catalog name."""
    names = sorted({spec.table.catalog for spec in specs})
    return {name: backend_for(project.catalogs[name], runtime) for name in names}


def plan_tables(
    specs: Sequence[LayoutSpec],
    backends: Mapping[str, Backend],
    options: PlanOptions = PlanOptions(),
    reading: Reading = Reading(),
    *,
    workloads: bool = True,
) -> tuple[PlannedTable, ...]:
    """Plan each table, in the order of `specs`. The budget is spent on all of them together.

    If two specs declare one table under two names, both plans have the status ERROR, and no part of the budget.
    workloads: Whether the workloads decide which decayed partitions wait.
    """

    def read(spec: LayoutSpec) -> Proposal | PlannedTable:
        return observe_and_propose(spec, backends[spec.table.catalog], options)

    def late(spec: LayoutSpec) -> PlannedTable:
        return failed(spec, no_answer(spec.table, reading.timeout, spec.location))

    def failed(spec: LayoutSpec, error: ZlayoutError) -> PlannedTable:
        return unreadable(spec, backends[spec.table.catalog], error)

    found = read_tables(specs, lambda spec: spec.table, read, late, reading)
    shared = shared_tables([(made.spec, made.state) for made in found])
    proposals = [failed(made.spec, shared[n]) if n in shared else made for n, made in enumerate(found)]
    budget = options.max_rewrite_bytes
    if _use_queries(specs):
        from zlayout.session.workloads import with_rarely_read, with_worth

        if workloads:
            proposals = with_rarely_read(proposals, backends, options, reading)
        proposals = with_worth(proposals, backends, budget, reading)
    planned = settle(proposals, budget)
    return _sampled(planned, backends, options.sample_bytes, reading) if options.sample_bytes else planned


def _use_queries(specs: Sequence[LayoutSpec]) -> bool:
    """Return whether a layout has a workload. The modules that simulate queries take long to import."""
    return any(spec.workload for spec in specs)


def _sampled(
    planned: Sequence[PlannedTable], backends: Mapping[str, Backend], max_bytes: int, reading: Reading
) -> tuple[PlannedTable, ...]:
    def sample(one: PlannedTable) -> PlannedTable:
        return sampled(one, backends[one.table.catalog], max_bytes, planning=True)

    def late(one: PlannedTable) -> PlannedTable:
        return sampled_late(one, reading.timeout)

    return tuple(read_tables(planned, lambda one: one.table, sample, late, reading))


def plan_table(spec: LayoutSpec, backend: Backend, options: PlanOptions, version: int | None = None) -> PlannedTable:
    """Plan one table, at the given version or the present one. A budget is spent on this table alone."""
    return settle([observe_and_propose(spec, backend, options, version)], options.max_rewrite_bytes)[0]


def plan_table_in_time(spec: LayoutSpec, backend: Backend, options: PlanOptions, timeout: float) -> PlannedTable:
    """As `plan_table`, but with the status ERROR (ZL105) if the table cannot be read within `timeout` seconds."""
    try:
        return read_one(lambda: plan_table(spec, backend, options), spec.table, timeout)
    except TableError as error:
        return unreadable(spec, backend, error)


def as_plan(planned: Sequence[PlannedTable]) -> Plan:
    """Combine the plans of many tables to one plan, sorted by table name."""
    return Plan(zlayout.__version__, tuple(sorted((p.plan for p in planned), key=lambda t: t.table)))
