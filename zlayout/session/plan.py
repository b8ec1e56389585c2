"""Plan: observe tables and decide what to do to each of them. Starts no JVM.

`plan` plans the tables of a project, and `drift` reports the tables that are not as declared. Metadata is read, and for
forecasts from a sample also columns of some row groups.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations

import zlayout
from zlayout.errors import SpecError, TableError
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.planner.diff import settle
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import RunReport
from zlayout.planner.work import PlanOptions
from zlayout.records.history import Command
from zlayout.report import text
from zlayout.report.phrases import drift_line, last_line
from zlayout.session.concurrent_reads import PARALLELISM, TIMEOUT, Reading, no_answer, read_one, read_tables
from zlayout.session.history import append_and_log
from zlayout.session.project import parse_budget, parse_duration, require_project
from zlayout.session.proposing import Observed, observe_and_propose, unreadable
from zlayout.session.proposing import Planned as Planned
from zlayout.session.rules import Declared, on_branch, selected_layouts
from zlayout.session.sampling import SAMPLE_BYTES, sampled, sampled_late
from zlayout.session.workloads import with_rarely_read, with_workloads, with_worth
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import LayoutSpec, Project, hot_after
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
    planned: tuple[Planned, ...]
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


def plan(
    project: Project,
    select: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    *,
    allow_full_rewrite: bool = False,
    max_rewrite_bytes: int | str | None = None,
    sample: bool | None = None,
    branch: str | None = None,
    avoid_hot: timedelta | str | None = None,
    include_rarely_read: bool = False,
    parallelism: int = PARALLELISM,
    timeout: float = TIMEOUT,
    on_progress: Callable[[int, int], None] | None = None,
) -> ProjectPlan:
    """Plan the changes that lay out tables as declared.

    A table that cannot be read or must not be changed does not stop the others. Its `TablePlan` has the status ERROR or
    REFUSED, and diagnostics. The history of the project, if it has one, gets a record of each table.

    Args:
        project: The project, from `load_project`.
        select: The tables to plan: table names or globs, `path:GLOB` of layout files, or `tag:NAME`. Empty: all.
        exclude: The tables to leave out, in the same notation.
        allow_full_rewrite: Whether a partitioning change may rewrite every file of a Delta table.
        max_rewrite_bytes: The budget for all tables together, in bytes or as a string such as "100GiB". The groups with
            the largest gain per rewritten byte are chosen first. The gain is the number of bytes that the queries of
            the workload no longer read; for tables without a workload, the decrease of touched. Default: no limit.
        sample: Whether to read columns of randomly chosen row groups for forecasts: at most about 16 MiB of each table
            that is rewritten, and up to about 32 MiB more of each table with a workload. Default: `defaults.sample` of
            the project.
        branch: The branch of all tables. Default: `ref` of each layout. Tables of formats without branches are refused.
        avoid_hot: A partition waits if another writer wrote to it within this duration, a timedelta or a string such as
            "1h". Default: that of the project.
        include_rarely_read: Whether to rewrite also the decayed partitions that `tolerance.rarely_read` allows to wait.
        parallelism: The number of tables of one catalog to read at the same time.
        timeout: The limit on reading one table, in seconds. A table that exceeds it has the status ERROR (ZL105).
        on_progress: Called in this thread with the number of tables that were read, and the number of all tables.

    Returns:
        The plan, for `apply` or `write_plan`.

    Raises:
        SpecError: An argument, the selection or a workload file is invalid.
        TableError: A pattern matches no layout, and a catalog cannot list the tables of a rule.
    """
    require_project(project)
    options = options_of(project, allow_full_rewrite, max_rewrite_bytes, avoid_hot, include_rarely_read)
    reading = Reading(parallelism, timeout, on_progress)
    made = plan_project(project, select, exclude, options, reading, sample, branch)
    append_and_log(project, made.planned, RunReport(made.document), Command.PLAN)
    return made


def options_of(
    project: Project,
    allow_full_rewrite: bool,
    max_rewrite_bytes: int | str | None,
    avoid_hot: timedelta | str | None,
    include_rarely_read: bool,
) -> PlanOptions:
    """Convert arguments of `plan` to the options of a plan. Raises SpecError ZL050, ZL056."""
    after, budget = hot_after(parse_duration(avoid_hot), project.maintenance), parse_budget(max_rewrite_bytes)
    return PlanOptions(allow_full_rewrite, budget, hot_after=after, include_rarely_read=include_rarely_read)


def plan_project(
    project: Project,
    select: str | Iterable[str],
    exclude: str | Iterable[str],
    options: PlanOptions,
    reading: Reading,
    sample: bool | None = None,
    branch: str | None = None,
) -> ProjectPlan:
    """Plan as `plan` does, without a record in the history."""
    declared = on_branch(project, selected_layouts(project, select, exclude, reading), branch)
    wanted = project.sample if sample is None else sample
    options = replace(options, sample_bytes=SAMPLE_BYTES if wanted else 0)
    return plan_specs(project, declared, options, reading)


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
    if workloads:
        planned = with_workloads(planned, project, backends, options.sample_bytes, reading)
    failed = (
        Planned(spec, None, unreadable(spec, backends[spec.table.catalog], declared.errors[spec.table]))
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
) -> tuple[Planned, ...]:
    """Plan each table, in the order of `specs`. The budget is spent on all of them together.

    If two specs declare one table under two names, both plans have the status ERROR, and no part of the budget.
    workloads: Whether the workloads decide which decayed partitions wait.
    """

    def read(spec: LayoutSpec) -> Observed:
        return observe_and_propose(spec, backends[spec.table.catalog], options)

    def late(spec: LayoutSpec) -> Observed:
        error = no_answer(spec.table, reading.timeout, spec.location)
        return spec, None, unreadable(spec, backends[spec.table.catalog], error)

    found = read_tables(specs, lambda spec: spec.table, read, late, reading)
    specs = [spec for spec, _, _ in found]
    shared = shared_tables([(spec, state) for spec, state, _ in found])
    failed = {n: unreadable(specs[n], backends[specs[n].table.catalog], e) for n, e in shared.items()}
    budget, proposals = options.max_rewrite_bytes, [failed.get(n, made) for n, (_, _, made) in enumerate(found)]
    if workloads:
        proposals = with_rarely_read(proposals, backends, options, reading)
    decisions = settle(with_worth(proposals, backends, budget, reading), budget)
    planned = tuple(Planned(s, None if n in failed else at, decisions[n]) for n, (s, at, _) in enumerate(found))
    return _sampled(planned, backends, options.sample_bytes, reading) if options.sample_bytes else planned


def _sampled(
    planned: Sequence[Planned], backends: Mapping[str, Backend], max_bytes: int, reading: Reading
) -> tuple[Planned, ...]:
    def sample(one: Planned) -> Planned:
        backend = backends[one.spec.table.catalog]
        return replace(one, decision=sampled(one.spec, one.state, one.decision, backend, max_bytes, planning=True))

    def late(one: Planned) -> Planned:
        return replace(one, decision=sampled_late(one.spec, one.decision, reading.timeout))

    return tuple(read_tables(planned, lambda one: one.spec.table, sample, late, reading))


def plan_table(spec: LayoutSpec, backend: Backend, options: PlanOptions, version: int | None = None) -> Planned:
    """Plan one table, at the given version or the present one. A budget is spent on this table alone."""
    spec, state, proposal = observe_and_propose(spec, backend, options, version)
    return Planned(spec, state, settle([proposal], options.max_rewrite_bytes)[0])


def plan_table_in_time(spec: LayoutSpec, backend: Backend, options: PlanOptions, timeout: float) -> Planned:
    """As `plan_table`, but with the status ERROR (ZL105) if the table cannot be read within `timeout` seconds."""
    try:
        return read_one(lambda: plan_table(spec, backend, options), spec.table, timeout)
    except TableError as error:
        return Planned(spec, None, unreadable(spec, backend, error))


def as_plan(planned: Sequence[Planned]) -> Plan:
    """Combine the plans of many tables to one plan, sorted by table name."""
    return Plan(zlayout.__version__, tuple(sorted((p.decision.plan for p in planned), key=lambda t: t.table)))


# The drift report: tables are compared with their layouts, and layouts with workloads. Nothing is changed.


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The tables that are not as declared, and those whose layout no longer fits the workload.

    Attributes:
        plan: The plan of all selected tables as plain data, for reports. `apply` does not accept it.
    """

    plan: Plan

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {drift_line(self.plan)}>"

    def __str__(self) -> str:
        """The report as `zlayout drift` shows it."""
        return text.render(RunReport(self.plan, drift=True))

    @property
    def drifted(self) -> tuple[TablePlan, ...]:
        """Tables that are refused, have drift or decay above its tolerance, or whose `where` matches no partition."""
        return self.plan.not_as_declared

    @property
    def unfit(self) -> tuple[TablePlan, ...]:
        """Tables for which another layout beats the declared one by more than `tolerance.workload`."""
        return self.plan.unfit

    @property
    def failed(self) -> tuple[TablePlan, ...]:
        """Tables that could not be planned."""
        return self.plan.with_status(Status.ERROR)


def drift(
    project: Project,
    select: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    *,
    sample: bool | None = None,
    branch: str | None = None,
    parallelism: int = PARALLELISM,
    timeout: float = TIMEOUT,
) -> DriftReport:
    """Find tables that are not laid out as declared, or whose layout no longer fits the workload.

    Reads metadata, and with `sample` columns of some row groups.

    Args:
        project: The project, from `load_project`.
        select: Tables to check, as in `plan`. Empty: all.
        exclude: Tables to leave out.
        sample: Whether to read columns of some row groups, as in `plan`. Without a sample, layouts that no longer fit
            the workload are not found. Default: `defaults.sample` of the project.
        branch: The branch of all tables, as in `plan`.
        parallelism: The number of tables of one catalog to read at the same time.
        timeout: The limit on reading one table, in seconds, as in `plan`.

    Raises:
        SpecError: An argument, the selection or a workload file is invalid.
        TableError: A pattern matches no layout, and a catalog cannot list the tables of a rule.
    """
    require_project(project)
    found = compare(project, select, exclude, Reading(parallelism, timeout), sample, branch)
    append_and_log(project, found.planned, RunReport(found.document), Command.DRIFT)
    return DriftReport(found.document)


def compare(
    project: Project,
    select: Iterable[str],
    exclude: Iterable[str],
    reading: Reading,
    sample: bool | None = None,
    branch: str | None = None,
) -> ProjectPlan:
    """Plan tables for a drift report. Do not apply the plan: it can contain full rewrites that were not allowed."""
    # A partitioning change is reported as drift, although apply refuses it unless full rewrites are allowed.
    return plan_project(project, select, exclude, PlanOptions(allow_full_rewrite=True), reading, sample, branch)
