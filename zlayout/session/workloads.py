"""The workloads of tables: their use in plans, and the other tables of their queries. Starts no JVM.

`with_workloads` adds the files and bytes that queries open to plans. Before plans are made, `with_rarely_read` and
`with_worth` use the queries to choose which partitions are rewritten. `read_joined` reads the other tables, whose
conditions limit a table through joins.
"""

from __future__ import annotations

import csv
import io
import os.path
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pyarrow.types as pt

from zlayout.advisor import query_costs
from zlayout.advisor.costs import column_shares, costs, in_partitions, is_named, queries_on
from zlayout.advisor.joins import MAX_RANGES, Bounds, NotEvaluatedError, Rows, Through, through_texts, with_joins
from zlayout.advisor.model import Costs, TableQuery, TableWorkload, Use
from zlayout.advisor.worth import worth
from zlayout.errors import Diagnostic, SpecError, TableError, ZlayoutError, first_line
from zlayout.formats.base import Backend
from zlayout.planner.model import UNFIT, BetterLayout, QueryCost, Status, WorkloadForecast
from zlayout.planner.notes import partitioning, unused
from zlayout.planner.partitions import partition_names, partition_text
from zlayout.planner.passes.rarely_read import least_read, may_wait, unread_notes
from zlayout.planner.proposal import Proposal
from zlayout.planner.sampled import columns_of_moves, files_to_sample
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.predicate.model import columns
from zlayout.reading import open_file
from zlayout.report.words import printable, share
from zlayout.session.concurrent_reads import TIMEOUT, Reading, begin_read, no_answer, read_table, read_tables
from zlayout.session.proposing import proposed, unreadable
from zlayout.session.sampling import SEED, stored_rows
from zlayout.spec.load import Folder
from zlayout.spec.model import Export, LayoutSpec, Project, TableName
from zlayout.table.location import canonical
from zlayout.table.partition import source_columns
from zlayout.table.samples import KeySample, StoredRows
from zlayout.table.state import Column, TableState
from zlayout.text import first_of, path_of, plural, quote_value, size
from zlayout.workload.files import read_workload
from zlayout.workload.model import Query, Scan, Workload
from zlayout.workload.queries import FURTHER

MAX_UNREAD_SHOWN = 3


def with_workloads(
    planned: Sequence[PlannedTable], project: Project, backends: Mapping[str, Backend], max_bytes: int, reading: Reading
) -> tuple[PlannedTable, ...]:
    """Return the plans with the cost of the queries on each table. Raises the errors of `read_workload`, and ZL098.

    A table keeps its plan if no query can skip its files. It gets a warning (ZL414) if its files cannot be read.

    Args:
        planned: The plans.
        project: The project.
        backends: By catalog name.
        max_bytes: The limit on the size of the column chunks that are read for one sample; 0 for no sample, so
            that only the present cost is known.
        reading: The limits on reading the tables.
    """
    known = [p for p in planned if p.spec.workload and p.state is not None and p.plan.status is not Status.ERROR]
    workloads = Workloads([(p.spec, p.state) for p in known])
    # Not in a thread, because an invalid file stops the plan.
    read = {p.spec.table: workloads.of(p.spec) for p in known}
    through: dict[TableName, tuple[Through, ...]] = {}
    silent = set[str]()
    for p in known:
        assert p.state is not None
        name, known_columns = p.spec.table, workloads.columns()
        others = OtherTables(name, backends, project, reading.timeout, silent)
        read[name], through[name] = read_joined(
            read[name], p.spec.workload, known_columns, p.state, others, _declared_keys(p.spec)
        )

    def forecast(one: PlannedTable) -> PlannedTable:
        try:
            made = _with_workload(one, read[one.spec.table], project, backends[one.spec.table.catalog], max_bytes)
            return _with_through(made, through.get(one.spec.table, ()))
        except Exception as error:
            # A reader may raise anything, and a plan does not depend on its forecast.
            return _unknown(one, f"{type(error).__name__}: {first_line(error)}")

    found = {}
    for one, made in zip(known, read_tables(known, lambda one: one.table, forecast, reading), strict=True):
        now = _unknown(one, f"no answer within {reading.timeout:g} s") if isinstance(made, ZlayoutError) else made
        found[one.table] = _noting_unread(now, read[one.table])
    return tuple(found.get(p.table, p) for p in planned)


def _declared_keys(spec: LayoutSpec) -> list[str]:
    return [field.source for field in spec.partition_by or ()]


def _with_through(planned: PlannedTable, through: Sequence[Through]) -> PlannedTable:
    forecast = planned.plan.workload
    if forecast is None:
        return planned
    return replace(planned, plan=replace(planned.plan, workload=replace(forecast, through=through_texts(through))))


def _noting_unread(planned: PlannedTable, workload: Workload) -> PlannedTable:
    if not workload.unread:
        return planned
    reasons = {unused.query: unused.reason for unused in workload.unused}
    shown = [f"{os.path.basename(query.location)} ({reasons[query]})" for query in workload.unread]
    message = f"{plural(len(shown), 'query')} of the workload cannot be read: {first_of(shown, MAX_UNREAD_SHOWN)}"
    hint = "correct the query, or remove it; until then, it counts as one that may read any file of its tables"
    note = Diagnostic("ZL434", message, "note", hint, planned.spec.location)
    return planned.noting(note)


@dataclass(slots=True)
class Workloads:
    """The workloads of tables. Each set of workload files is read once. tables: The specs and the observed states."""

    tables: Sequence[tuple[LayoutSpec, TableState | None]]
    _read: dict[tuple[Path, ...], Workload] = field(default_factory=dict)

    def of(self, spec: LayoutSpec) -> Workload:
        """Return the workload of a layout spec. Raises the errors of `read_workload`."""
        if spec.workload not in self._read:
            self._read[spec.workload] = read_workload(spec.workload, self.columns())
        return self._read[spec.workload]

    def columns(self) -> Mapping[str, Sequence[str]]:
        """Return the column names of the tables, by each name that a query may use for the table."""
        found: dict[str, Sequence[str]] = {}
        for spec, state in self.tables:
            if state is not None:
                parts = (spec.table.catalog, *spec.table.identifier)
                names = column_names(state)
                found |= {".".join(parts[n:]).lower(): names for n in range(len(parts))}
        return found


def sources_of(given: Sequence[str | Path], spec: LayoutSpec) -> list[Path]:
    """Return the given workload files, or those of the layout spec. Raises SpecError ZL077 if there are none."""
    sources = [Path(path) for path in given] or list(spec.workload)
    if not sources:
        hint = "use --workload FILE, or put files with queries into workloads/"
        message = f"no workload is given for {spec.table}, and neither its layout nor the project has one"
        raise SpecError.of("ZL077", message, hint=hint)
    return sources


def on_table_of(workload: Workload, name: TableName, state: TableState) -> TableWorkload:
    """Return the queries on the table. Raises SpecError ZL073 if none of them can skip files."""
    found = queries_on(workload, name, state)
    if found.queries:
        return found
    if found.coverage.queries:
        reasons = Counter(u.reason for u in found.unused).most_common(3)
        hint = "; ".join(f"{count} times: {reason}" for reason, count in reasons)
        raise SpecError.of(
            "ZL073",
            f"no query of the workload has a condition that can skip files of {name}",
            hint=hint or "use conditions that compare a column with a constant",
        )
    others = sorted({s.table for s in workload.scans})
    hint = f"the queries read {printable(', '.join(others))[:200]}" if others else "no query could be read"
    raise SpecError.of("ZL073", f"no query of the workload reads {name}", hint=hint)


def present_cost(
    spec: LayoutSpec, state: TableState, project: Project, backends: Mapping[str, Backend], timeout: float
) -> QueryCost | None:
    """Return the mean of what a query of the table's workload opens at present; None if no query can skip files.

    It is None too if an export that the queries need cannot be read, by which a plan fails. Raises the errors of
    `read_workload`, and TableError. backends: By catalog name. timeout: The limit on each read of a joined table.
    """
    known, others = {spec.table.name: column_names(state)}, OtherTables(spec.table, backends, project, timeout)
    workload = read_workload(spec.workload, known)
    try:
        workload, _ = read_joined(workload, spec.workload, known, state, others, _declared_keys(spec))
    except SpecError as error:
        if all(diagnostic.code != "ZL098" for diagnostic in error.diagnostics):
            raise
        return None
    found = TableQueries.of(spec, state, workload, backends[spec.table.catalog])
    return None if found is None else query_costs.mean(costs(found.queries, found.state.files))


@dataclass(frozen=True, slots=True)
class TableQueries:
    """The queries on one table that can skip files, and the table with the bounds of their columns.

    Attributes:
        state: The observed table with these bounds.
        share: The share of `queries` in the weight of all queries that read the table.
        unknown: The queries that may read any file of the table, see `TableWorkload`.
    """

    state: TableState
    queries: tuple[TableQuery, ...]
    share: float
    unknown: tuple[Query, ...]

    @staticmethod
    def of(spec: LayoutSpec, state: TableState, workload: Workload, backend: Backend) -> TableQueries | None:
        """Return the queries that can skip files; None if there are none, or if the table has no files.

        Reads metadata of the version of `state`.
        """
        on_table = queries_on(workload, spec.table, state)
        if not on_table.queries or not len(state.files):
            return None
        observed = backend.observe(spec.table, _bounds(spec, on_table.queries), state.version)
        queries, share = in_partitions(on_table.queries, observed), on_table.coverage.share(Use.USED)
        return TableQueries(observed, queries, share, on_table.unknown)

    @property
    def known(self) -> tuple[TableQuery, ...]:
        """The queries without those of `unknown`."""
        unknown = set(self.unknown)
        return tuple(query for query in self.queries if query.query not in unknown)

    def executions(self) -> dict[str, float]:
        """Return the number of executions of `known` that read a partition, by the name of the partition."""
        partitions = self.state.files.partitions
        read = np.zeros(len(partitions))
        for query in self.known:
            read += query.weight * np.any(query.partitions, axis=0)
        names = partition_names(partitions)[0]
        by_name = dict.fromkeys(names, 0.0)
        for name, executions in zip(names, read.tolist(), strict=True):
            by_name[name] += executions  # partitions of several partition specs may have the same name
        return by_name

    def sample(self, spec: LayoutSpec, backend: Backend, files: Sequence[int], max_bytes: int) -> KeySample:
        """Read the columns of the queries from some row groups of the files."""
        chosen = np.asarray(files, np.int64)
        return backend.sample_keys(spec.table, self.state, chosen, self.columns(spec), max_bytes, SEED)

    def columns(self, spec: LayoutSpec) -> tuple[str, ...]:
        """Return the columns of the queries, and those that determine the partitions to which rows move."""
        fields = partitioning(spec, self.state)
        names = query_costs.queried_columns(spec.column_names, self.queries, self.state, fields)
        return tuple(dict.fromkeys((*names, *columns_of_moves(self.state, fields))))


def _bounds(spec: LayoutSpec, queries: Sequence[TableQuery]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*spec.column_names, *column_shares(queries))))


@dataclass(frozen=True, slots=True)
class Expected:
    """What the queries of a workload open of one table, for each query and on average.

    Attributes:
        queries: The queries that can skip files.
        now: What each query opens at present.
        then: What each query opens after apply; None if it is unknown.
        forecast: The mean of both, and what a plan shows in addition.
        notes: Diagnostics for the plan.
    """

    queries: tuple[TableQuery, ...]
    now: Costs
    then: Costs | None
    forecast: WorkloadForecast
    notes: tuple[Diagnostic, ...]


def _with_workload(
    planned: PlannedTable, workload: Workload, project: Project, backend: Backend, max_bytes: int
) -> PlannedTable:
    found = expected(planned, workload, project, backend, max_bytes)
    if found is None:
        return planned
    return with_forecast(planned, found.forecast).noting(*found.notes)


def expected(
    planned: PlannedTable, workload: Workload, project: Project, backend: Backend, max_bytes: int
) -> Expected | None:
    """Forecast what the queries of a workload open; None if no query can skip files, or the table has none.

    max_bytes: As in `with_workloads`. Raises TableError, and any exception of a reader.
    """
    spec, state = planned.spec, planned.state
    assert state is not None
    found = TableQueries.of(spec, state, workload, backend)
    if found is None:
        return None
    present = costs(found.queries, found.state.files)
    now = query_costs.mean(present)
    sources = tuple(os.path.relpath(path, project.root).replace(os.sep, "/") for path in spec.workload)
    forecast = WorkloadForecast(sources, len(found.queries), found.share, now)
    groups, status = planned.groups, planned.plan.status
    then: Costs | None = None
    if not groups and status is not Status.REFUSED:
        forecast, then = replace(forecast, predicted=now, low=now, high=now), present
    if max_bytes:
        forecast, then = _sampled(planned, found, forecast, present, then, backend, max_bytes)
    forecast = replace(forecast, groups=query_costs.query_groups(found.queries, present, then))
    if groups and forecast.predicted is not None:
        size_of_rewrite = planned.plan.rewrite_bytes
        run = backend.last_run(spec.table, state)
        rate = run.bytes_per_second if run else None
        per_day = query_costs.executions_per_day(found.queries)
        pay = query_costs.payback(forecast, size_of_rewrite, per_day, rate, project.prices)
        forecast = replace(forecast, payback=pay)
    reads = {} if found.unknown else found.executions()
    notes = tuple(unread_notes(spec, planned.plan.groups, reads))
    return Expected(found.queries, present, then, forecast, notes)


def _sampled(
    planned: PlannedTable,
    found: TableQueries,
    forecast: WorkloadForecast,
    present: Costs,
    then: Costs | None,
    backend: Backend,
    max_bytes: int,
) -> tuple[WorkloadForecast, Costs | None]:
    """Return the forecast, and what each query opens after apply: `then` if no rewrite can be simulated."""
    spec, groups = planned.spec, planned.groups
    every = range(len(found.state.files))
    chosen = files_to_sample(spec, found.state, groups)
    whole = found.sample(spec, backend, every, max_bytes)
    stored: StoredRows | None = None
    predictable = spec.layout.orders and backend.capabilities.can_predict(spec.layout, found.state)
    if groups and predictable:
        part = whole if len(chosen) == len(every) else found.sample(spec, backend, chosen.tolist(), max_bytes)
        stored = stored_rows(backend, spec.table, found.state, chosen, found.columns(spec))
        if (after := query_costs.after(spec, found.state, planned, found.queries, part, stored)) is not None:
            then, (predicted, low, high) = after[0], query_costs.between(*after)
            forecast = replace(forecast, predicted=predicted, low=low, high=high)
    fields = partitioning(spec, found.state)
    names = query_costs.queried_columns(spec.column_names, found.queries, found.state, fields)
    of_table = stored if len(chosen) == len(every) else None
    rewrite = query_costs.rewrite_of_table(spec, found.state, names, whole, None, of_table, fields)
    better, tried = query_costs.better_layout(spec, found.state, found.queries, rewrite, backend.capabilities)
    costs_known = [c for c in (present, then, tried) if c is not None]
    floor = query_costs.floor(found.queries, rewrite, costs_known, forecast.low)
    return replace(forecast, floor=floor, better=better), then


def _unknown(planned: PlannedTable, reason: str) -> PlannedTable:
    warning = Diagnostic(
        "ZL414",
        f"what the workload opens could not be computed: {reason}",
        "warning",
        "check the access to the metadata and the data files of the table; the plan itself is complete",
        planned.spec.location,
    )
    return planned.noting(warning)


def with_forecast(planned: PlannedTable, forecast: WorkloadForecast) -> PlannedTable:
    """Return the plan with a forecast, and with the warning ZL446 if another layout is better."""
    found = replace(planned, plan=replace(planned.plan, workload=forecast))
    return found if forecast.better is None else found.noting(_no_longer_fits(planned.spec, forecast.better))


def _no_longer_fits(spec: LayoutSpec, better: BetterLayout) -> Diagnostic:
    other, declared = better.cost.bytes, better.declared.bytes
    message = (
        f"the layout no longer fits the workload: with {', '.join(better.columns)} ({better.curve}), a query would "
        f"read {share(1 - other / declared)} less, {size(other)} instead of {size(declared)}; tolerance.workload is "
        f"{share(spec.tolerance.workload)}"
    )
    by = "" if spec.rule else f", or run `zlayout advise {spec.table.on('')} --write`"
    return Diagnostic(UNFIT, message, "warning", f"declare `{better.yaml}`{by}", spec.location_of("zorder"))


# The choice of rewrites by the queries of workloads: the decayed partitions that wait, and what a budget prefers.


Made = Proposal | PlannedTable
ROUNDING = 1e-9  # the tolerance, as a share, for rounding errors in sums of executions


def with_queries(
    proposals: Sequence[Made],
    is_wanted: Callable[[Proposal], bool],
    find: Callable[[Proposal, Workload], Made],
    late: Callable[[Proposal], Made],
    reading: Reading,
) -> list[Made]:
    """Make new proposals for some of the tables that have a workload. Raises the errors of `read_workload`.

    Args:
        is_wanted: Whether a proposal is to be replaced.
        find: Makes the replacement from a proposal and the workload of its table.
        late: Makes the replacement for a table that cannot be read again within the time limit.
    """
    with_workload = [p for p in proposals if isinstance(p, Proposal) and p.spec.workload]
    wanted = [p for p in with_workload if is_wanted(p)]
    workloads = Workloads([(p.spec, p.state) for p in with_workload])
    # Not in a thread, because an invalid file stops the plan.
    read = {p.spec.table: workloads.of(p.spec) for p in wanted}
    found = read_tables(wanted, lambda p: p.spec.table, lambda p: find(p, read[p.spec.table]), reading)
    by_table = {
        p.spec.table: late(p) if isinstance(made, ZlayoutError) else made for p, made in zip(wanted, found, strict=True)
    }
    return [by_table.get(p.spec.table, p) if isinstance(p, Proposal) else p for p in proposals]


def with_rarely_read(
    proposals: Sequence[Made], backends: Mapping[str, Backend], options: PlanOptions, reading: Reading
) -> list[Made]:
    """Return the proposals without the decayed partitions that `tolerance.rarely_read` allows to wait.

    Nothing is read for a table without this tolerance, without a workload, or without decayed partitions. A table keeps
    its proposal if no query of its workload can skip its files. If the bounds of the queried columns cannot be read,
    the table has the status ERROR, because its plan would rewrite partitions that should wait.

    backends: By catalog name. Raises the errors of `read_workload`.
    """
    if options.include_rarely_read:
        return list(proposals)

    def propose_again(proposal: Proposal, workload: Workload) -> Made:
        backend = backends[proposal.spec.table.catalog]
        try:
            return _waiting(proposal, workload, backend, options)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return unreadable(proposal.spec, backend, error)

    def late(proposal: Proposal) -> PlannedTable:
        spec = proposal.spec
        error = no_answer(spec.table, reading.timeout, spec.location)
        return unreadable(spec, backends[spec.table.catalog], error)

    def has_decayed(proposal: Proposal) -> bool:
        spec = proposal.spec
        declared = spec.tolerance.rarely_read is not None
        return declared and bool(may_wait(spec, proposal.selection, proposal.state.files))

    return with_queries(proposals, has_decayed, propose_again, late, reading)


def _waiting(proposal: Proposal, workload: Workload, backend: Backend, options: PlanOptions) -> Made:
    spec, state = proposal.spec, proposal.state
    if proposal.selection.moves:  # the files of a partition are rewritten together with the rows that move to it
        return _without_effect(
            proposal, "files are moved to the declared partitioning", "nothing to do; later runs use it"
        )
    hint = f"`zlayout advise {spec.table.on('')} -v` lists the conditions that are not used"
    found = TableQueries.of(spec, state, workload, backend)
    if found is None:
        return _without_effect(proposal, "no query of the workload can skip files of the table", hint)
    known, unknown = (sum(query.weight for query in queries) for queries in (found.known, found.unknown))
    # An execution whose conditions cannot be used may read any partition, also one that waits.
    allowed = (spec.tolerance.rarely_read or 0) * (known + unknown) * (1 + ROUNDING) - unknown
    if allowed < 0:
        part = share(unknown / (known + unknown))
        return _without_effect(proposal, f"{part} of the executions of the workload may read any partition", hint)
    reads, decayed = found.executions(), {partition_text(p) for p in may_wait(spec, proposal.selection, state.files)}
    chosen = least_read({name: reads[name] for name in decayed}, allowed)
    return proposed(spec, state, backend, replace(options, rarely_read=chosen)) if chosen else proposal


def _without_effect(proposal: Proposal, why: str, hint: str) -> Proposal:
    note = unused(proposal.spec, "tolerance.rarely_read", why, hint)
    return replace(proposal, notes=(*proposal.notes, note))


def with_worth(
    proposals: Sequence[Made], backends: Mapping[str, Backend], budget: int | None, reading: Reading
) -> list[Made]:
    """Return the proposals with the worth of their candidates, by which a budget ranks them.

    Nothing is read if the budget is enough for all candidates. A table keeps its proposal, and the budget ranks its
    candidates by touched, if it has no workload or no z-order columns, if no query of the workload can skip its files,
    or if its metadata cannot be read again within the time limit.

    backends: By catalog name. Raises the errors of `read_workload`.
    """
    changing = [p for p in proposals if isinstance(p, Proposal) and p.status is Status.CHANGES]
    if budget is None or sum(p.whole.bytes for p in changing if p.whole is not None) <= budget:
        return list(proposals)

    def find(proposal: Proposal, workload: Workload) -> Proposal:
        try:
            return _with_worth(proposal, workload, backends[proposal.spec.table.catalog])
        except Exception:
            # A reader may raise anything. The budget then ranks by touched, and the forecast gets a warning.
            return proposal

    def is_ranked(proposal: Proposal) -> bool:
        return proposal.status is Status.CHANGES and proposal.spec.layout.orders and bool(proposal.selection.groups)

    return with_queries(proposals, is_ranked, find, lambda proposal: proposal, reading)


def _with_worth(proposal: Proposal, workload: Workload, backend: Backend) -> Proposal:
    spec, state = proposal.spec, proposal.state
    found = TableQueries.of(spec, state, workload, backend)
    if found is None or not found.state.files.path.equals(state.files.path):
        return proposal
    return replace(
        proposal, worth=worth(spec, found.state.files, proposal.now, proposal.selection.groups, found.queries)
    )


# The other tables of queries.


# The limits on what is read of one other table, and on the number of these tables.
MAX_TABLES = 50
MAX_ROWS = 5_000_000
MAX_BYTES = 64 * 1024 * 1024  # of column chunks, or of CSV files
MAX_FILES = 1000  # of one export
MAX_STRING_BYTES = 256 * 1024 * 1024  # of strings in Parquet files, after decompression
BATCH_ROWS = 1 << 14
Result = TypeVar("Result")


def read_joined(
    workload: Workload,
    sources: Sequence[Path],
    known: Mapping[str, Sequence[str]],
    state: TableState,
    others: OtherTables,
    candidates: Iterable[str] = (),
) -> tuple[Workload, tuple[Through, ...]]:
    """Return a workload with the conditions through joins on one table as conditions on its own columns.

    It is read once more if it names other tables, since their columns tell to which table an unqualified name belongs.

    Args:
        workload: What `read_workload` returned for `sources` and `known`.
        sources, known: As in `read_workload`.
        state: The table, which is that of `others`.
        others: The tables that it may be joined to.
        candidates: The columns by which the table may be partitioned, besides those by which it is.

    Raises:
        SpecError: As `read_workload`; ZL098, an export that the queries need cannot be read.
    """
    table, project = others.table, others.project
    skipping = project.key_skipping
    if len(state.files) < skipping.min_files or state.files.bytes.sum() < skipping.min_bytes:
        return workload, ()
    keys = (*source_columns(state.partition_fields), *candidates)
    by_partitions = {name.lower() for name in keys} if skipping.partitions else None
    if by_partitions is not None and not by_partitions:  # for most tables, without a look at each query
        return workload, ()
    own = [scan for scan in workload.scans if is_named(scan.table, table, state.location)]
    queries = {scan.query for scan in own if by_partitions is None or _may_join_by(by_partitions, scan)}
    if not queries:
        return workload, ()
    names = dict.fromkeys(s.table for s in workload.scans if s.query in queries)
    unread = project.exports if by_partitions is not None else ()  # see `OtherTables.rows`
    of_others = others.columns(n for n in names if n not in unread and not is_named(n, table, state.location))
    if of_others:
        workload = read_workload(sources, {**of_others, **known})
    if by_partitions is None:
        return with_joins(workload, table, state, others.rows, 1, project.exports, skipping.rows)
    exports, rows, bounds = project.exports, skipping.rows, _bounds_of(table, state, others.backends[table.catalog])
    return with_joins(workload, table, state, others.rows, MAX_RANGES, exports, rows, by_partitions, bounds)


def _bounds_of(table: TableName, state: TableState, backend: Backend) -> Bounds:
    """Return a function that returns the bounds of a column of integers or dates; None if they are unknown."""

    @cache
    def bounds(column: Column) -> tuple[pa.Scalar, pa.Scalar] | None:
        if not (pt.is_signed_integer(column.type) or pt.is_date32(column.type)):
            return None
        files = state.files
        if column.name not in files.bounds:
            try:
                files = read_table(lambda: backend.observe(table, (column.name,), state.version), table).files
            except Exception:  # a reader may raise anything, and bounds are needed only if there are many ranges
                return None
        of = files.bounds[column.name]
        known = of.lower.is_valid().to_numpy(zero_copy_only=False) & of.upper.is_valid().to_numpy(zero_copy_only=False)
        if not known.any() or not (known | (of.null_count == files.rows)).all():
            return None
        return pc.min(of.lower), pc.max(of.upper)

    return bounds


def column_names(state: TableState) -> list[str]:
    """Return the names of the columns, and of the columns that contain nested columns."""
    names = [c.name for c in state.columns] + [f.source for f in state.partition_fields]
    return list(dict.fromkeys(part for name in names for part in (name, path_of(name)[0])))


def _may_join_by(names: Collection[str], scan: Scan) -> bool:
    """Return whether a query may join a table by one of these columns, so that other tables must be read to know."""
    text = scan.query.text.lower()
    known = (name.lower() for predicate in scan.through for name in columns(predicate))
    return any(name in names for name in known) or "natural" in text or any(name in text for name in names)


@dataclass(slots=True)
class OtherTables:
    """The tables that are joined to a table. The metadata of each is read once.

    Attributes:
        table: The table. A name in a query that lacks a namespace or catalog has that of this table.
        backends: By the name of the catalog.
        project: The project. Its exports are read instead of the tables of these names.
        timeout: The limit on each read, in seconds.
        silent: The catalogs of which a read took longer, which are added. Their other tables are not read.
    """

    table: TableName
    backends: Mapping[str, Backend]
    project: Project
    timeout: float = TIMEOUT
    silent: set[str] = field(default_factory=set)
    _found: dict[str, tuple[TableName, TableState] | str] = field(default_factory=dict)
    _files: dict[str, _ExportedTable] = field(default_factory=dict)

    def columns(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return the names of the columns of tables as far as they can be read, by the name of the table in queries.

        An export may lack columns of the table. Raises SpecError ZL098.
        """
        found = {}
        for name in names:
            if name in self.project.exports:
                found[name] = [*self._exported(name).columns, FURTHER]
            elif not isinstance(observed := self._table(name), str):
                found[name] = column_names(observed[1])
        return found

    def rows(self, name: str, columns: frozenset[str]) -> Rows:
        """Return the rows of a table as `zlayout.advisor.joins.ReadRows` does.

        Raises:
            NotEvaluatedError: A table of a catalog cannot be used.
            SpecError: ZL098, an export cannot be read.
        """
        limit = self.project.key_skipping.max_bytes
        if name in self.project.exports:
            if limit is not None:
                raise NotEvaluatedError(
                    f"the size of {name} is unknown, by which Spark decides whether to broadcast it"
                )
            exported = self._exported(name)
            return Rows(exported.columns, exported.within(lambda: exported.read(columns), self.timeout, self.table))
        observed = self._table(name)
        if isinstance(observed, str):
            raise NotEvaluatedError(observed)
        table, state = observed
        if "collations" in state.features:
            raise NotEvaluatedError(f"{name} has columns with a collation")
        if limit is not None and int(state.files.bytes.sum()) > limit:
            raise NotEvaluatedError(f"{name} has more than {limit // 1024**2} MiB, and Spark may not broadcast it")
        if not (count := int(state.files.rows.sum())):
            raise NotEvaluatedError(f"{name} has no rows")
        if count > MAX_ROWS:
            raise NotEvaluatedError(f"{name} has {count:,} rows, and at most {MAX_ROWS:,} are read")
        known = {c.name.lower(): c for c in state.columns}
        wanted = [known[column].name for column in sorted(columns) if column in known]
        every = np.arange(len(state.files))
        backend = self.backends[table.catalog]
        sample = self._read(name, lambda: backend.sample_keys(table, state, every, wanted, MAX_BYTES, SEED), table)
        if not sample.complete:
            raise NotEvaluatedError(f"the columns of {name} have more than {MAX_BYTES // 1024**2} MiB")
        return Rows(known, sample.keys)

    def _table(self, name: str) -> tuple[TableName, TableState] | str:
        if name not in self._found:
            try:
                self._found[name] = self._observed(name)
            except NotEvaluatedError as error:
                self._found[name] = str(error)
        return self._found[name]

    def _observed(self, name: str) -> tuple[TableName, TableState]:
        if "/" in name:
            table = self._at(canonical(name))
        else:
            own, parts = (self.table.catalog, *self.table.identifier), name.split(".")
            catalog, *identifier = (*own[: max(len(own) - len(parts), 0)], *parts)
            table = TableName(catalog, tuple(identifier[:-1]), identifier[-1]) if identifier else None
        backend = None if table is None else self.backends.get(table.catalog)
        if table is None or backend is None:
            raise NotEvaluatedError(f"{name} is in no catalog of the project")
        if len(self._found) >= MAX_TABLES:
            raise NotEvaluatedError(f"more than {MAX_TABLES} tables")
        state = self._read(name, lambda: backend.observe(table, ()), table)
        if "/" in name and canonical(state.location) != canonical(name):
            raise NotEvaluatedError(f"{name} is in no catalog of the project")
        return table, state

    def _at(self, location: str) -> TableName | None:
        for name, catalog in self.project.catalogs.items():
            if catalog.type != "path":
                continue
            for table, at in catalog.options.get("tables", {}).items():
                if canonical(at) == location:
                    *namespace, last = table.split(".")
                    return TableName(name, tuple(namespace), last)
            warehouse = canonical(catalog.options["warehouse"]) if catalog.options.get("warehouse") else location
            if location.startswith(f"{warehouse}/"):
                *namespace, last = location.removeprefix(f"{warehouse}/").split("/")
                return TableName(name, tuple(namespace), last)
        return None

    def _read(self, name: str, read: Callable[[], Result], table: TableName) -> Result:
        if table.catalog in self.silent:
            raise NotEvaluatedError(f"{name} cannot be read: catalog {table.catalog} does not answer")
        try:
            return read_table(read, table, self.timeout)
        except Exception as error:  # a reader may raise anything, and the condition is then not used
            if isinstance(error, TableError) and error.diagnostics[0].code == "ZL105":
                self.silent.add(table.catalog)
            raise NotEvaluatedError(f"{name} cannot be read: {first_line(error)}") from None

    def _exported(self, name: str) -> _ExportedTable:
        if name not in self._files:
            table = _ExportedTable(self.project.exports[name], self.project.root)
            table.within(table.open, self.timeout, self.table)
            self._files[name] = table
        return self._files[name]


@dataclass(slots=True)
class _ExportedTable:
    """The files of an export. columns: by name in lower case, known after `open`. Methods raise SpecError ZL098."""

    export: Export
    root: Path
    columns: dict[str, Column] = field(default_factory=dict)
    _paths: list[Path] = field(default_factory=list)

    def within(self, read: Callable[[], Result], timeout: float, table: TableName) -> Result:
        """Return the result of `read`, one of the methods below, within a time limit."""
        try:
            return begin_read(read, table, timeout)()
        except TableError:
            raise self._error(f"the files were not read within {timeout:g} s", "copy them to a local disk") from None

    def open(self) -> None:
        """Find the files, and determine the columns from the declaration or from the footers of all files."""
        folder, files = Folder(self.root), self.export.files
        try:
            found = sorted(path for path in folder.matching(files) if not path.is_dir())
        except ValueError as error:
            raise self._error(f"expected a file pattern, found {quote_value(files)}: {error}") from None
        if not found:
            raise self._error(f"no file matches {quote_value(files)}", "export the table, or correct the pattern")
        if len(found) > MAX_FILES:
            raise self._error(f"{len(found):,} files match {quote_value(files)}, and zlayout reads {MAX_FILES:,}")
        for path in found:
            if not folder.contains(path):
                raise self._error("a link points outside the project", "copy the file into the project", path)
        self._paths = found
        types = {name: _type_of(kind) for name, kind in self.export.columns.items()} or self._footers()
        self.columns = {name.lower(): Column(name, kind, orderable=True) for name, kind in types.items()}

    def read(self, names: frozenset[str]) -> dict[str, pa.Array]:
        """Return the values of the columns of these names, as far as there are any."""
        wanted = [self.columns[name] for name in sorted(names) if name in self.columns]
        if not wanted:
            return {}
        batches = self._csv(wanted) if self.export.columns else self._parquet(wanted)
        parts: dict[str, list[pa.Array]] = {column.name: [] for column in wanted}
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            if rows > MAX_ROWS:
                raise self._error(f"the files have more than {MAX_ROWS:,} rows, the limit of zlayout")
            for column in wanted:
                parts[column.name].append(batch.column(column.name))
        if not rows:
            raise NotEvaluatedError(f"the export of {self.export.table} has no rows")
        return {column.name: pa.concat_arrays(parts[column.name]) for column in wanted}

    def _footers(self) -> dict[str, pa.DataType]:
        types: dict[str, pa.DataType] = {}
        for path in self._paths:
            with self._reading(path), open_file(path) as file:
                schema = pq.ParquetFile(file).schema_arrow
            here = {f.name: f.type.value_type if pt.is_dictionary(f.type) else f.type for f in schema}
            if len({name.lower() for name in here}) < len(schema):
                raise self._error("expected columns whose names differ by more than letter case", "", path)
            if types and here != types:
                raise self._error(f"expected the columns and types of {self._paths[0].name}", "", path)
            types = here
        return {name: kind for name, kind in types.items() if _is_flat(kind)}

    def _parquet(self, wanted: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in wanted]
        texts = [c.name for c in wanted if pt.is_string(c.type) or pt.is_large_string(c.type)]
        size = decoded = 0
        for path in self._paths:
            with self._reading(path), open_file(path) as file:
                parquet = pq.ParquetFile(file, read_dictionary=texts)
                groups = [parquet.metadata.row_group(n) for n in range(parquet.metadata.num_row_groups)]
                chunks = (group.column(n) for group in groups for n in range(group.num_columns))
                size += sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in names)
                self._require_size(size, path)
                for batch in parquet.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
                    # A value that occurs often takes its bytes once in a file, and for each row after it is decoded.
                    decoded += sum(_decoded_bytes(batch.column(name)) for name in texts)
                    if decoded > MAX_STRING_BYTES:
                        message = f"the strings have more than {MAX_STRING_BYTES // 1024**2} MiB, the limit of zlayout"
                        raise self._error(message, "", path)
                    plain = [_plain(batch.column(column.name), column.type) for column in wanted]
                    yield pa.record_batch(plain, names=names)

    def _csv(self, wanted: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        size = 0
        convert = arrow_csv.ConvertOptions(
            column_types={column.name: column.type for column in wanted},
            include_columns=[column.name for column in wanted],
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        for path in self._paths:
            with self._reading(path):
                with open_file(path) as file:
                    content = file.read(MAX_BYTES - size + 1)
                size += len(content)
                self._require_size(size, path)
                if b'\\"' in content:
                    hint = "export it as Parquet, or without a character that escapes quotes"
                    raise self._error("expected quotes in values to be doubled, found \\ before a quote", hint, path)
                if content.count(b'"') % 2:
                    raise self._error("expected an even number of quotes", "a quote is missing", path)
                header = next(csv.reader(io.StringIO(content[: 1 << 16].decode("utf-8-sig", "replace"))), [])
                for column in wanted:
                    if header.count(column.name) != 1:
                        found = "no such column" if column.name not in header else "several"
                        message = f"expected a header with the column {quote_value(column.name)}, found {found}"
                        raise self._error(message, "", path)
                read = arrow_csv.ReadOptions(use_threads=False)
                parse = arrow_csv.ParseOptions(newlines_in_values=True)
                yield from arrow_csv.open_csv(io.BytesIO(content), read, parse, convert)

    def _require_size(self, size: int, path: Path) -> None:
        if size > MAX_BYTES:
            what = "the files have" if self.export.columns else "the columns that the queries need have"
            hint = "export only the columns that the queries need" if self.export.columns else ""
            raise self._error(f"{what} more than {MAX_BYTES // 1024**2} MiB, the limit of zlayout", hint, path)

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        kind = "CSV file" if self.export.columns else "Parquet file"
        try:
            yield
        except (OSError, pa.ArrowException, UnicodeError, csv.Error) as error:
            raise self._error(f"expected a {kind} of the declared columns: {first_line(error)}", "", path) from None

    def _error(self, message: str, hint: str = "", path: Path | None = None) -> SpecError:
        at = "" if path is None else f" ({path.relative_to(self.root)})"
        message = f"the export of {quote_value(self.export.table)} cannot be read: {message}{at}"
        return SpecError.of("ZL098", message, hint=hint, location=self.export.location)


def _type_of(declared: str) -> pa.DataType:
    if declared.startswith("decimal"):
        precision, scale = map(int, declared.removeprefix("decimal(").rstrip(")").split(","))
        return pa.decimal128(precision, scale)
    return {"integer": pa.int64(), "string": pa.string(), "date": pa.date32(), "boolean": pa.bool_()}[declared]


def _is_flat(kind: pa.DataType) -> bool:
    checks = (pt.is_signed_integer, pt.is_decimal128, pt.is_float64, pt.is_string, pt.is_large_string, pt.is_date32)
    return bool(pt.is_boolean(kind)) or any(check(kind) for check in checks)


def _decoded_bytes(values: pa.Array) -> int:
    if pt.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary).take(values.indices)
    else:
        lengths = pc.binary_length(values)
    return pc.sum(lengths.cast(pa.int64())).as_py() or 0


def _plain(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.dictionary_decode().cast(kind) if pt.is_dictionary(values.type) else values
