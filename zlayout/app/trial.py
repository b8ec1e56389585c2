"""A trial: apply a layout to a branch, and replay the queries of the workload on the branch and on the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zlayout.app.advise import on_table_of, sources_of
from zlayout.app.apply import apply
from zlayout.app.concurrent_reads import TIMEOUT, Reading, read_one
from zlayout.app.plan import Planned, ProjectPlan, as_plan, plan_specs
from zlayout.app.publish import read_trial, trial_name, trials_of
from zlayout.app.replay import PlannedQuery, ReplayedQuery, TrialReport, queries_to_replay, replay
from zlayout.app.results import OnEvent
from zlayout.app.rules import Declared, layouts_of_tables, on_branch
from zlayout.app.sampling import SAMPLE_BYTES
from zlayout.app.workloads import Expected, column_names, expected, with_forecast
from zlayout.errors import CommitConflict, Diagnostic, EngineError, Refused, SpecError, TableError, ZlayoutError
from zlayout.formats.base import Backend, Progress, Stage
from zlayout.formats.registry import backend_for
from zlayout.formats.trial import Trial
from zlayout.message_text import plural
from zlayout.planner.decision import PlanOptions
from zlayout.planner.diff import propose, settle
from zlayout.planner.model import Status
from zlayout.spark.live import runtime_for
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import MAIN, LayoutSpec, Project, TableName
from zlayout.table.state import TableState
from zlayout.workload import Workload, read_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def trial(
    project: Project,
    table: str,
    *,
    branch: str | None = None,
    workload: Sequence[str | Path] = (),
    spark: SparkSession | None = None,
    on_event: OnEvent | None = None,
    ignore_window: bool = False,
    timeout: float = TIMEOUT,
) -> TrialReport:
    """Apply the layout of a table to a branch, and replay the queries of its workload on the branch and on the table.

    The branch is made if it does not exist. The table itself is not changed.

    Args:
        project: The project, with a layout of the table.
        table: `catalog.namespace.table`.
        branch: The name of the branch.
        workload: Files with queries, as in `advise`. Default: the workload of the layout.
        spark: A running session, as for `apply`.
        on_event: As for `apply`.
        ignore_window: As for `apply`.
        timeout: The limit on each read of the table or the trial, in seconds.

    Raises:
        SpecError: An argument, the workload or the layout is invalid, or no query can skip files.
        TableError: The table cannot be read.
        Refused: The layout cannot be applied to the branch, or the branch cannot be used.
        CommitConflict: ZL320, the trial was replaced since it was planned.
        EngineError: Spark failed, or the rewrite is not complete. The trial remains, and `trial` can continue it.
    """
    planned = plan_trial(project, table, branch=branch, workload=workload, timeout=timeout)
    runtime = runtime_for(project, spark, [project.catalogs[planned.name.catalog]])
    return carry_out_trial(planned, runtime, on_event or (lambda _event: None), ignore_window=ignore_window)


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
    state = _readable(main)
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
    plan = _plan(project, name, spec, timeout) if found else _plan_from(name, own, forecast)
    _readable(plan.planned[0])
    return PlannedTrial(project, name, plan, state, found, read, costs, timeout)


def carry_out_trial(
    planned: PlannedTrial, runtime: SparkRuntime, on_event: OnEvent, *, ignore_window: bool = False
) -> TrialReport:
    """Carry out a planned trial on a runtime that is stopped at the end. Raises the errors of `trial`."""
    project, name, timeout = planned.project, planned.name, planned.timeout
    with runtime:
        if not runtime.started:
            on_event(Progress(str(name), Stage.STARTING_SPARK))
        _ = runtime.session  # replaying needs a session even if nothing is rewritten
        if planned.trial is None:
            trials_of(project, name, runtime).begin(name, planned.state)
        (before,) = planned.plan.planned
        plan = _plan(project, name, before.spec, timeout)
        state = _readable(plan.planned[0])
        if planned.trial is not None and state.table_id != planned.trial.table_id:
            raise CommitConflict.of("ZL320", f"{name}: the table was replaced", hint="run trial again")
        result = None
        if plan.has_changes:
            applied = apply(plan, runtime.session, on_event, ignore_window=ignore_window)
            result = applied.results[str(name)]
            if not result.succeeded or result.deferred_groups:
                reasons = result.problems or (_incomplete(name),)
                raise EngineError(*reasons)
        on_event(Progress(str(name), Stage.REPLAYING))
        report = _measured(planned, plan.planned[0].spec, runtime)
        runtime.discard_log()
    return replace(report, created=planned.trial is None, result=result)


def _measured(planned: PlannedTrial, spec: LayoutSpec, runtime: SparkRuntime) -> TrialReport:
    name, queries = planned.name, planned.queries
    backend = backend_for(planned.project.catalogs[name.catalog], runtime)
    after = read_one(lambda: backend.observe(name, spec.column_names), name, planned.timeout)
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
        False,
        planned.state.version,
        None,
        tuple(replayed),
        len(planned.expected.queries) - len(queries),
        tuple(_warnings(trial, different)),
    )


def _expected(main: Planned, workload: Workload, project: Project, backend: Backend, timeout: float) -> Expected | None:
    table = main.spec.table
    try:
        return read_one(lambda: expected(main, workload, project, backend, SAMPLE_BYTES), table, timeout)
    except ZlayoutError:
        raise
    except Exception:  # a reader of data files may raise anything, and a trial does not need the prediction
        return read_one(lambda: expected(main, workload, project, backend, 0), table, timeout)


def _plan(project: Project, name: TableName, spec: LayoutSpec, timeout: float) -> ProjectPlan:
    directed = Declared((replace(spec, table=name),))
    return plan_specs(project, directed, PlanOptions(), Reading(timeout=timeout), workloads=False)


def _plan_from(name: TableName, own: ProjectPlan, main: Planned) -> ProjectPlan:
    """Plan a trial that does not exist yet. The document is made from `main`, because only that has forecasts."""
    assert main.state is not None
    spec = replace(main.spec, table=name)
    capabilities = backend_for(own.project.catalogs[name.catalog], SparkRuntime(own.project)).capabilities
    planned = Planned(spec, main.state, settle([propose(spec, main.state, capabilities, (), own.options)], None)[0])
    shown = replace(main, decision=replace(main.decision, plan=replace(main.decision.plan, table=str(name))))
    return replace(own, document=as_plan((shown,)), planned=(planned,))


def _readable(planned: Planned) -> TableState:
    status, found = planned.decision.plan.status, planned.decision.plan.diagnostics
    if status is Status.REFUSED:
        raise Refused(*([d for d in found if d.severity == "refused"] or found))
    if planned.state is None or status is Status.ERROR:
        raise TableError(*found)
    return planned.state


def _incomplete(name: TableName) -> Diagnostic:
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
