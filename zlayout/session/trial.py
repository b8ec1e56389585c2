"""A trial: a layout applied to a branch, on which the queries of the workload are replayed.

`plan_trial`, `plan_publish` and `plan_drop_trial` read from metadata what `Session.trial`, `publish` and `drop_trial`
will do. `measured` replays the queries on the branch and on the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlayout.advisor.model import TableQuery
from zlayout.errors import Diagnostic, EngineError, Refused, SpecError, TableError, ZlayoutError
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for, trials_in
from zlayout.formats.trial import Reads, Trial, require_droppable, require_publishable, require_rows
from zlayout.planner.diff import propose, settle
from zlayout.planner.model import QueryCost, Status
from zlayout.planner.run_report import TableResult
from zlayout.planner.work import SAMPLE_BYTES, PlannedTable, PlanOptions
from zlayout.predicate.model import Predicate, columns
from zlayout.predicate.parse import quote_column, to_sql
from zlayout.session.concurrent_reads import TIMEOUT, Reading, read_one, read_table
from zlayout.session.plan import ProjectPlan, as_plan, plan_specs
from zlayout.session.project import known_table
from zlayout.session.rules import Declared, layouts_of_tables, on_branch, table_on
from zlayout.session.workloads import Expected, column_names, expected, on_table_of, sources_of, with_forecast
from zlayout.spark.session import SparkRuntime
from zlayout.spec.formats import FORMATS
from zlayout.spec.model import MAIN, LayoutSpec, Project, TableName
from zlayout.table.state import TableState
from zlayout.text import plural, quote_value
from zlayout.workload.files import read_workload
from zlayout.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from zlayout.formats.iceberg.trials import IcebergTrials

# Existing trials: publish the branch of a trial, or drop it.


def trial_name(project: Project, table: str, branch: str | None) -> TableName:
    """Return the name of a trial: the table on its branch.

    Raises:
        SpecError: An argument is invalid, the format has no branches, or `branch` is missing or main.
    """
    name = known_table(project, table)
    trials_of(project, name, SparkRuntime(project))
    if not branch:
        title = FORMATS[project.catalogs[name.catalog].format].title
        message = f"{name}: a trial of a table of {title} is a branch"
        raise SpecError.of("ZL059", message, hint="use --branch NAME")
    found = table_on(name, None, branch)
    if not found.branch:
        raise SpecError.of("ZL059", f"{name}: {MAIN} is not a trial", hint="use the name of another branch")
    return found


def trials_of(project: Project, name: TableName, runtime: SparkRuntime) -> IcebergTrials:
    """Return the trials of the catalog of a table. Raises SpecError ZL059 if its format has no branches."""
    catalog = project.catalogs[name.catalog]
    traits = FORMATS[catalog.format]
    if not traits.branches:
        raise SpecError.of(
            "ZL059",
            f"{name.on('')}: a trial is a branch, and tables of {traits.title} have none",
            hint="`zlayout plan --sample` forecasts the result, and `zlayout rollback` undoes an apply",
        )
    return trials_in(catalog, runtime)


def read_trial(project: Project, name: TableName, timeout: float = TIMEOUT) -> Trial | None:
    """Read a trial without a JVM; None if it does not exist. Raises the errors of `IcebergTrials.read`, and ZL105."""
    trials = trials_of(project, name, SparkRuntime(project))
    return read_table(lambda: trials.read(name), name.on(""), timeout)


def plan_publish(
    project: Project, table: str, branch: str | None, *, allow_worse: bool = False, timeout: float = TIMEOUT
) -> Trial:
    """Determine what `publish` does. Reads metadata, and starts no JVM.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; it needs no layout spec.
        branch: The name of the branch.
        allow_worse: Whether queries may read more of the branch than of the table.
        timeout: The limit on reading the table, in seconds.

    Returns:
        The branch as it was read. `published` is true if main has every commit of it.

    Raises:
        SpecError: ZL020, ZL021, ZL054, ZL059, ZL084.
        Refused: The branch does not exist, has commits of other writers or another number of rows, or main has changed;
            or ZL256, `trial` measured that queries read more of it.
        TableError: The table cannot be read.
    """
    trial = _found(project, trial_name(project, table, branch), timeout)
    if not trial.published:
        require_publishable(trial, allow_worse=allow_worse)
        trials = trials_of(project, trial.table, SparkRuntime(project))
        require_rows(trial, read_table(lambda: trials.rows(trial), trial.table.on(""), timeout))
    return trial


def plan_drop_trial(project: Project, table: str, *, branch: str | None = None, timeout: float = TIMEOUT) -> Trial:
    """Determine what `drop_trial` removes. Reads metadata, and starts no JVM.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; it needs no layout spec.
        branch: The name of the branch.
        timeout: The limit on reading the table, in seconds.

    Raises:
        SpecError: ZL020, ZL021, ZL054, ZL059, ZL084.
        Refused: ZL238 (no such branch), ZL252 (zlayout did not make it), ZL253 (it has commits of other writers).
        TableError: The table cannot be read.
    """
    trial = _found(project, trial_name(project, table, branch), timeout)
    require_droppable(trial)
    return trial


def _found(project: Project, name: TableName, timeout: float) -> Trial:
    trial = read_trial(project, name, timeout)
    if trial is None:
        message = f"expected a trial of {name.on('')}, found no branch {quote_value(name.branch)}"
        raise Refused.of("ZL238", message, hint="check the name")
    return trial


# The replay of a workload's queries on Spark, which measures how many files and bytes their scans open.
#
# Of each query, only the scan of one table is replayed: a SELECT of the columns in its conditions, with these
# conditions as WHERE. The conditions decide which files Spark opens. Only parsed predicates reach Spark, never the
# text of a query.


# The number of queries that are replayed: those with the largest product of executions and bytes opened at present.
MAX_QUERIES = 50


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query to replay.

    Attributes:
        predicted: What the plan for the table predicts that it opens; None without a prediction.
        inverted: See `ReplayedQuery`.
    """

    query: TableQuery
    predicted: QueryCost | None
    inverted: bool


@dataclass(frozen=True, slots=True)
class ReplayedQuery:
    """One query, replayed on the table and on the trial.

    Attributes:
        location: The location of the query, as `file:line`.
        weight: The number of its executions.
        main: What Spark opened of the table itself.
        trial: What Spark opened of the trial.
        predicted: What the plan for the table predicts; None without a prediction.
        inverted: Whether a condition on a function of a column was replayed as a condition on the column.
    """

    location: str
    weight: float
    main: Opened
    trial: Opened
    predicted: QueryCost | None
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class TrialReport:
    """What `trial` did and measured.

    Attributes:
        trial: The trial after the rewrite.
        created: Whether the trial was made by this call.
        main_version: The version of the table itself on which the queries were replayed.
        result: The table result of the trial; None if the trial was laid out already.
        queries: The queries, sorted by the bytes that all their executions open of the table, the largest first.
        left_out: The number of queries that were not replayed, because others open more bytes.
        diagnostics: Warnings about the comparison.
    """

    table: str
    trial: Trial
    created: bool
    main_version: int
    result: TableResult | None
    queries: tuple[ReplayedQuery, ...]
    left_out: int
    diagnostics: tuple[Diagnostic, ...]

    @property
    def main(self) -> QueryCost:
        """The mean of what a query opened of the table itself, weighted by executions."""
        return self._mean([QueryCost(q.main.files, q.main.bytes) for q in self.queries])

    @property
    def measured(self) -> QueryCost:
        """The mean of what a query opened of the trial, weighted by executions."""
        return self._mean([QueryCost(q.trial.files, q.trial.bytes) for q in self.queries])

    @property
    def reads(self) -> Reads | None:
        """What a query reads of both; None if the two have different rows, so that they cannot be compared."""
        if any(query.main.rows != query.trial.rows for query in self.queries):
            return None
        return Reads(self.main.bytes, self.measured.bytes)

    @property
    def predicted(self) -> QueryCost | None:
        """The predicted mean, weighted by executions; None unless every query has a prediction."""
        found = [q.predicted for q in self.queries if q.predicted is not None]
        return self._mean(found) if len(found) == len(self.queries) else None

    def _mean(self, costs: Sequence[QueryCost]) -> QueryCost:
        weights = [query.weight for query in self.queries]
        files, size = (
            sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)
            for values in ([cost.files for cost in costs], [cost.bytes for cost in costs])
        )
        return QueryCost(files, round(size))


# The names of two metrics of a scan, the number of its files and their total size: first on Delta, then on Iceberg.
_METRICS = (("numFiles", "filesSize"), ("resultDataFiles", "totalDataFileSize"))


@dataclass(frozen=True, slots=True)
class Opened:
    """What the scans of one query opened, as Spark reports it, and the number of rows that they returned."""

    files: int
    bytes: int
    rows: int

    def __add__(self, other: Opened) -> Opened:
        return Opened(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows)


def queries_to_replay(expected: Expected, workload: Workload) -> tuple[PlannedQuery, ...]:
    """Return the queries of a workload whose executions open most bytes of the table at present, in this order."""
    now, then = expected.now, expected.then
    order = sorted(range(len(expected.queries)), key=lambda n: -now.bytes[n] * now.weights[n])
    inverted = {one.query for one in workload.inverted}
    return tuple(
        PlannedQuery(
            expected.queries[n],
            None if then is None else QueryCost(float(then.files[n]), round(float(then.bytes[n]))),
            expected.queries[n].query in inverted,
        )
        for n in order[:MAX_QUERIES]
    )


def replay(frame: DataFrame, queries: Iterable[TableQuery]) -> Sequence[Opened]:
    """Scan a table for each query. Equal scans are carried out once.

    Args:
        frame: The table at one version.
        queries: The queries, with predicates on columns of the table.

    Raises:
        EngineError: ZL309, Spark failed, or does not report the files of a scan.
    """
    known: dict[Predicate, Opened] = {}
    found = []
    for query in queries:
        total = Opened(0, 0, 0)
        for predicate in query.predicates:
            if predicate not in known:
                known[predicate] = scan(frame, predicate)
            total += known[predicate]
        found.append(total)
    return found


def scan(frame: DataFrame, predicate: Predicate) -> Opened:
    """Read the rows of a table that match a predicate. Raises EngineError ZL309."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        chosen = frame.where(to_sql(predicate)).select(*map(quote_column, sorted(columns(predicate))))
        internal: Any = chosen
        plan = internal._jdf.queryExecution().executedPlan()
        rows = int(plan.execute().count())  # DataFrame.count() would be another query, which reads less
        return _opened(plan, rows)
    except (Py4JError, PySparkException) as error:
        lines = str(error).splitlines()
        raise EngineError.of("ZL309", f"a query could not be replayed: {lines[0] if lines else error!r}") from error


def _opened(plan: Any, rows: int) -> Opened:
    leaves = plan.collectLeaves()
    files = size = 0
    for at in range(leaves.size()):
        metrics = leaves.apply(at).metrics()
        names = next(((f, b) for f, b in _METRICS if metrics.contains(f) and metrics.contains(b)), None)
        if names is None:
            if rows == 0:  # Spark knows without a scan that no row matches
                continue
            raise EngineError.of("ZL309", f"Spark does not report the files of the scan {leaves.apply(at).nodeName()}")
        files, size = (
            total + int(metrics.apply(name).value()) for total, name in zip((files, size), names, strict=True)
        )
    return Opened(files, size, rows)


# Plan and carry out a trial.


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """What `trial` does: the plan of the trial, and what is known of the table itself.

    Attributes:
        name: The name of the trial: the table on its branch.
        plan: The plan of the trial. If the trial does not exist yet, it is the plan of the version of the table from
            which the trial will be made.
        state: The observed table itself.
        trial: The trial; None if it does not exist yet.
        workload: The queries.
        expected: What the queries open of the table at present, and after its layout is applied to it.
        timeout: The limit on each read of the table or the trial, in seconds.
    """

    project: Project
    name: TableName
    plan: ProjectPlan
    state: TableState
    trial: Trial | None
    workload: Workload
    expected: Expected
    timeout: float

    @property
    def queries(self) -> tuple[PlannedQuery, ...]:
        """The queries to replay."""
        return queries_to_replay(self.expected, self.workload)


def plan_trial(
    project: Project,
    table: str,
    *,
    branch: str | None = None,
    workload: Sequence[str | Path] = (),
    timeout: float = TIMEOUT,
) -> PlannedTrial:
    """Plan a trial: read the table, the trial if it exists, and the workload. Starts no JVM, and writes nothing.

    Args:
        project: The project, with a layout of the table.
        table: As in `trial`.
        branch: As in `trial`.
        workload: As in `trial`.
        timeout: As in `trial`.

    Raises:
        SpecError: An argument, the workload or the layout is invalid, or no query can skip files.
        TableError: The table cannot be read.
        Refused: The layout cannot be applied to the branch, or the branch cannot be used.
    """
    reading, name = Reading(timeout=timeout), trial_name(project, table, branch)
    own_name = name.on("")
    declared = layouts_of_tables(project, [own_name], reading)
    if not declared.layouts:
        raise SpecError.of("ZL045", f"no layout of {own_name}", hint="write one, or use `zlayout import`")
    (spec,) = on_branch(project, declared, MAIN).layouts
    if spec.ref != MAIN:
        message = f"{own_name}: the layout is for branch {spec.ref}, and a trial is compared with main"
        raise Refused.of("ZL254", message, hint="remove ref from the layout", location=spec.location_of("ref"))
    if spec.table in declared.errors:
        raise declared.errors[spec.table]
    sources = sources_of(workload, spec)
    spec = replace(spec, workload=tuple(sources))
    own = plan_specs(project, Declared((spec,)), PlanOptions(sample_bytes=SAMPLE_BYTES), reading, workloads=False)
    (main,) = own.planned
    state = readable(main)
    if state.version < 0:
        message = f"{own_name} has no snapshot, so there is nothing to try"
        raise Refused.of("ZL254", message, hint="load data first")
    read = read_workload(sources, {own_name.name: column_names(state)})
    on_table_of(read, own_name, state)
    backend = backend_for(project.catalogs[own_name.catalog], SparkRuntime(project))
    costs = _expected(main, read, project, backend, timeout)
    if costs is None:
        raise SpecError.of("ZL075", f"{own_name} has no rows", hint="load data into the table first")
    found = read_trial(project, name, timeout)
    forecast = with_forecast(main, costs.forecast)
    plan = plan_of_branch(project, name, spec, timeout) if found else _plan_from(name, own, forecast)
    readable(plan.planned[0])
    return PlannedTrial(project, name, plan, state, found, read, costs, timeout)


def measured(planned: PlannedTrial, spec: LayoutSpec, runtime: SparkRuntime, result: TableResult | None) -> TrialReport:
    """Replay the queries on the branch and on the table. result: of the rewrite of the branch, None without one."""
    name, queries = planned.name, planned.queries
    backend = backend_for(planned.project.catalogs[name.catalog], runtime)
    after = read_table(lambda: backend.observe(name, spec.column_names), name, planned.timeout)
    trial = read_trial(planned.project, name, planned.timeout)
    assert trial is not None
    sides = [
        replay(backend.sample_source(side, state, 0).frame, [one.query for one in queries])
        for side, state in ((name.on(""), planned.state), (name, after))
    ]
    replayed = [
        ReplayedQuery(one.query.location, one.query.weight, main, other, one.predicted, one.inverted)
        for one, main, other in zip(queries, *sides, strict=True)
    ]
    replayed.sort(key=lambda query: -query.main.bytes * query.weight)
    different = [query for query in replayed if query.main.rows != query.trial.rows]
    return TrialReport(
        str(name.on("")),
        trial,
        planned.trial is None,
        planned.state.version,
        result,
        tuple(replayed),
        len(planned.expected.queries) - len(queries),
        tuple(_warnings(trial, different)),
    )


def _expected(
    main: PlannedTable, workload: Workload, project: Project, backend: Backend, timeout: float
) -> Expected | None:
    table = main.spec.table
    try:
        return read_one(lambda: expected(main, workload, project, backend, SAMPLE_BYTES), table, timeout)
    except ZlayoutError:
        raise
    except Exception:  # a reader of data files may raise anything, and a trial does not need the prediction
        return read_one(lambda: expected(main, workload, project, backend, 0), table, timeout)


def plan_of_branch(project: Project, name: TableName, spec: LayoutSpec, timeout: float) -> ProjectPlan:
    """Plan the branch of a trial that exists."""
    directed = Declared((replace(spec, table=name),))
    return plan_specs(project, directed, PlanOptions(), Reading(timeout=timeout), workloads=False)


def _plan_from(name: TableName, own: ProjectPlan, main: PlannedTable) -> ProjectPlan:
    """Plan a trial that does not exist yet. The document is made from `main`, because only that has forecasts."""
    assert main.state is not None
    spec = replace(main.spec, table=name)
    capabilities = backend_for(own.project.catalogs[name.catalog], SparkRuntime(own.project)).capabilities
    (planned,) = settle([propose(spec, main.state, capabilities, (), own.options)], None)
    shown = replace(main, plan=replace(main.plan, table=str(name)))
    return replace(own, document=as_plan((shown,)), planned=(planned,))


def readable(planned: PlannedTable) -> TableState:
    """Return the observed state. Raises Refused or TableError if the table is refused or cannot be planned."""
    status, found = planned.plan.status, planned.plan.diagnostics
    if status is Status.REFUSED:
        raise Refused(*([d for d in found if d.severity == "refused"] or found))
    if planned.state is None or status is Status.ERROR:
        raise TableError(*found)
    return planned.state


def incomplete(name: TableName) -> Diagnostic:
    """Return ZL308, for a branch whose layout is not applied completely."""
    message = f"{name} is not laid out completely, so nothing was measured"
    return Diagnostic("ZL308", message, hint="run trial again, outside of maintenance windows with --ignore-window")


def _warnings(trial: Trial, different: Sequence[ReplayedQuery]) -> Iterator[Diagnostic]:
    table = trial.table.on("")
    if different:
        message = f"{len(different)} of the queries return different numbers of rows from the trial and from the table"
        hint = "one of the two has changed since the trial was made; make the trial again to compare the same rows"
        yield Diagnostic("ZL460", f"{table}: {message}", "warning", hint)
    if trial.moved:
        message = f"main has {plural(len(trial.moved), 'snapshot')} that branch {trial.table.branch} does not have"
        hint = "publish will be refused; drop the trial and make it again, or apply to main"
        yield Diagnostic("ZL461", f"{table}: {message}", "warning", hint)
