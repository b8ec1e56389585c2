"""Plan: observe tables and decide what to do to each of them. Starts no JVM.

Metadata is read, and for forecasts from a sample also columns of some row groups.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations

import zlayout
from zlayout.errors import Diagnostic, SpecError, TableError, ZlayoutError
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for, known_location
from zlayout.planner.diff import settle
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.proposal import Proposal
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.report import text
from zlayout.report.words import last_line
from zlayout.session.concurrent_reads import TIMEOUT, Reading, no_answer, read_one, read_tables
from zlayout.session.proposing import observe_and_propose, unreadable
from zlayout.session.rules import Declared
from zlayout.spark.session import SparkRuntime
from zlayout.spec.layouts import holds, matches
from zlayout.spec.model import LayoutSpec, Prices, Project
from zlayout.table.location import canonical, container
from zlayout.table.state import TableState
from zlayout.text import first_of, plural

# Tables that a project declares twice, under two table names that lead to one table.
#
# Two layouts of one table would undo each other's work in each run, so neither may be planned, also if only one of them
# is selected. Of a table that is not selected or cannot be read, what the project states is compared: the location of a
# Delta table by path, and the name in a catalog that is declared twice.


_Read = tuple[LayoutSpec, TableState | None]
MAX_NAMES_SHOWN = 3


def shared_tables(
    observed: Sequence[_Read], project: Project | None = None, others: Sequence[LayoutSpec] = ()
) -> dict[int, SpecError]:
    """Return the error ZL022 of each spec whose table is also that of another spec, by the index in `observed`.

    others: The layouts of the project whose tables were not read.
    """
    errors: dict[int, SpecError] = {}
    compared = [*observed, *((spec, None) for spec in others)]
    for first, second in _pairs(compared, project):
        for one, other in ((first, second), (second, first)):
            if one not in errors and compared[one][1] is not None:
                errors[one] = _error(compared[one], compared[other])
    return errors


def _pairs(compared: Sequence[_Read], project: Project | None) -> Iterator[tuple[int, int]]:
    by_key: dict[object, list[int]] = {}
    for index, (spec, state) in enumerate(compared):
        for key in {*_keys(state), *(_declared_keys(spec, project) if project is not None else ())}:
            by_key.setdefault(key, []).append(index)
    found = {pair for members in by_key.values() for pair in combinations(members, 2)}
    return (pair for pair in sorted(found) if not _are_copies(*(compared[i][1] for i in pair)))


def _keys(state: TableState | None) -> Iterator[object]:
    if state is not None:
        yield _location_key(state.location)
        yield "table id", state.table_id


def _declared_keys(spec: LayoutSpec, project: Project) -> Iterator[object]:
    catalog = project.catalogs[spec.table.catalog]
    if (location := known_location(catalog, spec.table)) is not None:
        yield _location_key(location)
    else:
        options = json.dumps(catalog.options, sort_keys=True, default=str)
        name = catalog.name if catalog.type == "sql" else ""  # an SQL catalog stores its name with each table
        yield catalog.format, catalog.type, name, options, spec.table.identifier


def _unread(observed: Sequence[_Read], project: Project) -> list[LayoutSpec]:
    """Return the layouts of the project whose tables are not in `observed`. Tables of rules are not listed for this."""
    names = {spec.table.on("") for spec, _ in observed}
    return [spec for spec in project.layouts if spec.table not in names]


def _aliases_by_rule(observed: Sequence[_Read], project: Project) -> Iterator[LayoutSpec]:
    """Yield the layout that a rule has for the name of an observed table in another catalog."""
    catalogs = sorted({rule.pattern.catalog for rule in project.rules})
    known = {spec.table.on("") for spec, _ in observed} | {spec.table for spec in project.layouts}
    for spec, state in observed if catalogs else ():
        rules = [rule for rule in project.rules if state is not None and holds(rule.only, state)]
        for alias in (replace(spec.table.on(""), catalog=name) for name in catalogs):
            if alias not in known and (matching := [rule for rule in rules if matches(rule, alias)]):
                yield matching[0].for_table(alias)


def _unreadable(planned: Sequence[PlannedTable]) -> list[LayoutSpec]:
    failed = [one for one in planned if one.plan.status is Status.ERROR]
    return [one.spec for one in failed if all(d.code != "ZL022" for d in one.plan.diagnostics)]


def _not_compared(
    planned: Sequence[PlannedTable], project: Project, compared: Collection[str]
) -> tuple[Diagnostic, ...]:
    """Return ZL419 for the layouts of which it is not known whether their tables are also those of other layouts.

    compared: The tables that were compared before, without branches.
    """
    read = {project.catalogs[one.spec.table.catalog].format for one in planned if one.state is not None}
    unknown = sorted(
        str(spec.table)
        for spec in (*_unread([(one.spec, one.state) for one in planned], project), *_unreadable(planned))
        if project.catalogs[spec.table.catalog].format in read
        and str(spec.table.on("")) not in compared
        and known_location(project.catalogs[spec.table.catalog], spec.table) is None
    )
    if not unknown:
        return ()
    message = (
        f"not compared with {plural(len(unknown), 'other layout')}, which may declare the same table under another "
        f"name, because their locations are not known: {first_of(unknown, MAX_NAMES_SHOWN)}"
    )
    return (Diagnostic("ZL419", message, "note", "plan all tables together, without errors, to compare them"),)


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
    compared: Collection[str] = (),
) -> ProjectPlan:
    """Plan the given layouts of a project.

    workloads: Whether the workloads decide which decayed partitions wait, and plans get forecasts of their queries.
    compared: The tables, without branches, that were read and compared with the others when a saved plan was made.
    """
    start = time.monotonic()
    runtime = SparkRuntime(project)
    backends = backends_of(project, runtime, declared.layouts)
    readable = [spec for spec in declared.layouts if spec.table not in declared.errors]
    planned = plan_tables(readable, backends, options, reading, workloads=workloads, project=project)
    left_out = _left_out(readable, planned)
    if workloads and _use_queries(readable):
        from zlayout.session.workloads import with_workloads

        every = backends_of(project, runtime) | backends  # joined tables may be in any catalog
        planned = with_workloads(planned, project, every, options.sample_bytes, reading)
    failed = (
        unreadable(spec, backends[spec.table.catalog], declared.errors[spec.table])
        for spec in declared.layouts
        if spec.table in declared.errors
    )
    planned = tuple(sorted((*planned, *failed), key=lambda p: str(p.spec.table)))
    if declared.changed:
        planned = tuple(_with_change(one, declared, backends, project.prices) for one in planned)
    diagnostics = (*declared.diagnostics, *_not_compared(planned, project, compared), *left_out)
    document = replace(as_plan(planned), diagnostics=diagnostics, changes=declared.changes)
    return ProjectPlan(document, project, options, planned, time.monotonic() - start, timeout=reading.timeout)


def _with_change(
    one: PlannedTable, declared: Declared, backends: Mapping[str, Backend], prices: Prices | None
) -> PlannedTable:
    change = declared.changed.get(one.spec.table.on(""))
    if change is None:
        return one
    run, rewritten = None, one.plan.rewrite_bytes
    with suppress(ZlayoutError):
        if rewritten and one.state is not None:
            run = backends[one.spec.table.catalog].last_run(one.spec.table, one.state)
    if run is not None and run.bytes_per_second:
        seconds = rewritten / run.bytes_per_second
        change = replace(change, seconds=seconds, cost=prices.of_compute(seconds) if prices else None)
    return replace(one, plan=replace(one.plan, change=change))


def _left_out(specs: Sequence[LayoutSpec], planned: Sequence[PlannedTable]) -> tuple[Diagnostic, ...]:
    names = sorted({str(spec.table) for spec in specs} - {str(one.spec.table) for one in planned})
    if not names:
        return ()
    message = f"left out {plural(len(names), 'table')} not laid out as declared yet: {first_of(names, MAX_NAMES_SHOWN)}"
    return (Diagnostic("ZL452", message, "note", "review and apply their plans without --only-decay"),)


def backends_of(
    project: Project, runtime: SparkRuntime, specs: Iterable[LayoutSpec] | None = None
) -> dict[str, Backend]:
    """Return the backend of each catalog of the given layouts, by default of all catalogs, by catalog name."""
    names = sorted(project.catalogs if specs is None else {spec.table.catalog for spec in specs})
    return {name: backend_for(project.catalogs[name], runtime) for name in names}


def plan_tables(
    specs: Sequence[LayoutSpec],
    backends: Mapping[str, Backend],
    options: PlanOptions = PlanOptions(),
    reading: Reading = Reading(),
    *,
    workloads: bool = True,
    project: Project | None = None,
) -> tuple[PlannedTable, ...]:
    """Plan each table, in the order of `specs`. The budget is spent on all of them together.

    `options.only_decay` leaves out the tables whose declared layout was not applied yet.

    If two specs declare one table under two names, both plans have the status ERROR, and no part of the budget.
    workloads: Whether the workloads decide which decayed partitions wait.
    project: Its other layouts are compared too.
    """

    def read(spec: LayoutSpec) -> Proposal | PlannedTable:
        return observe_and_propose(spec, backends[spec.table.catalog], options)

    def failed(spec: LayoutSpec, error: ZlayoutError) -> PlannedTable:
        return unreadable(spec, backends[spec.table.catalog], error)

    found = [
        failed(spec, no_answer(spec.table, reading.timeout, spec.location)) if isinstance(made, ZlayoutError) else made
        for spec, made in zip(specs, read_tables(specs, lambda spec: spec.table, read, reading), strict=True)
    ]
    observed = [(made.spec, made.state) for made in found]
    others = (*_unread(observed, project), *_aliases_by_rule(observed, project)) if project else ()
    shared = shared_tables(observed, project, others)
    proposals = [failed(made.spec, shared[n]) if n in shared else made for n, made in enumerate(found)]
    if options.only_decay:
        proposals = [made for made in proposals if isinstance(made, PlannedTable) or made.only_decay]
    budget = options.max_rewrite_bytes
    if _use_queries(specs):
        from zlayout.session.workloads import with_rarely_read, with_worth

        if workloads:
            proposals = with_rarely_read(proposals, backends, options, reading)
        proposals = with_worth(proposals, backends, budget, reading)
    planned = tuple(_with_native_refusals(one, backends[one.table.catalog]) for one in settle(proposals, budget))
    return _sampled(planned, backends, options.sample_bytes, reading) if options.sample_bytes else planned


def _with_native_refusals(one: PlannedTable, backend: Backend) -> PlannedTable:
    if one.state is None or not one.groups or one.spec.layout.engine != "native":
        return one
    found = [replace(d, location=one.spec.location) for d in backend.native_refusals(one, one.state)]
    return one.refused(found) if found else one


def _use_queries(specs: Sequence[LayoutSpec]) -> bool:
    """Return whether a layout has a workload. The modules that simulate queries take long to import."""
    return any(spec.workload for spec in specs)


def _sampled(
    planned: Sequence[PlannedTable], backends: Mapping[str, Backend], max_bytes: int, reading: Reading
) -> tuple[PlannedTable, ...]:
    from zlayout.session.sampling import sampled, sampled_late  # imported here because it simulates layouts

    def sample(one: PlannedTable) -> PlannedTable:
        return sampled(one, backends[one.table.catalog], max_bytes, planning=True)

    found = read_tables(planned, lambda one: one.table, sample, reading)
    return tuple(
        sampled_late(one, reading.timeout) if isinstance(made, ZlayoutError) else made
        for one, made in zip(planned, found, strict=True)
    )


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
