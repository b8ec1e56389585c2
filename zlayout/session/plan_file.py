"""Save a plan for review, and read it again to apply it, unless it is stale: its requirements no longer hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic, Location, Refused, SpecError, TableError, ZlayoutError
from zlayout.formats.base import Backend
from zlayout.planner import document, passes
from zlayout.planner.bounds import saved_values, with_values
from zlayout.planner.diff import assemble, choose_saved
from zlayout.planner.model import (
    NOT_REVIEWED,
    Action,
    ChangeClustering,
    ChangePartitioning,
    Plan,
    Requirements,
    RewriteGroup,
    Status,
    TablePlan,
    Wait,
    is_at,
)
from zlayout.planner.proposal import Proposal
from zlayout.planner.run_report import RunReport
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.session.concurrent_reads import Reading
from zlayout.session.files import write_result
from zlayout.session.plan import ProjectPlan, as_plan, backends_of, plan_specs, plan_table
from zlayout.session.project import is_name, named_layouts, select_layouts
from zlayout.session.proposing import observe_and_propose
from zlayout.session.results import MAX_FILES_DRAWN_IN_PLAN_FILE, with_pictures
from zlayout.session.rules import Declared, changed_layouts, layouts_of_tables, on_branch
from zlayout.spark.session import SparkRuntime
from zlayout.spec.layouts import parse_table
from zlayout.spec.model import MAIN, LayoutSpec, Project
from zlayout.table.state import FileTable, TableState, identities, identity_columns
from zlayout.text import plural


def write_plan(plan: ProjectPlan, path: str | Path) -> None:
    """Write a plan file atomically.

    Args:
        plan: From `plan`.
        path: The file. It will contain names of partitions, which are values of rows, but no paths of data files.

    Raises:
        SpecError: The file cannot be written, its path contains a link, or the plan is too large for a plan file.
    """
    write_document(with_pictures(plan.document, plan.planned, MAX_FILES_DRAWN_IN_PLAN_FILE), Path(path))


def write_document(report: RunReport, path: Path) -> None:
    """Write the plan file of a run report. Raises SpecError ZL043 and ZL086."""
    if str(path) == "-":
        raise SpecError.of("ZL043", "expected a file for --out, found -", hint="use --output json to print the plan")
    text = document.to_json(report)
    if document.too_large(text):
        message = f"expected a plan of at most {document.MAX_BYTES:,} bytes, found a larger one"
        raise SpecError.of("ZL043", message, hint="select fewer tables, or use --max-rewrite-bytes")
    write_result(path, text, "ZL043", f"the plan to {path}")


def review(
    project: Project,
    saved: Plan,
    exclude: str | Iterable[str],
    stale: Staleness,
    options: PlanOptions,
    reading: Reading,
    branch: str | None = None,
) -> ProjectPlan:
    """Check for each table of a saved plan whether the plan is stale, as `zlayout.read_plan` does.

    The files to rewrite are selected again from the observed tables, since a plan file contains no paths.
    """
    changing = {_without_branch(t): t for t in saved.with_status(Status.CHANGES)}
    known = _known_layouts(project, changing, exclude, reading)
    since = changed_layouts(project, (exclude,) if isinstance(exclude, str) else exclude, reading)
    selected = select_layouts(known.layouts, (), exclude, {text: one.changed for text, one in since.items()})
    specs = tuple(spec for spec in named_layouts(known.layouts, changing) if spec in selected)
    directed = on_branch(project, replace(known, layouts=specs), branch)
    compared = {_without_branch(table) for table in saved.tables if table.status is not Status.ERROR}
    plan = plan_specs(project, directed, options, reading, workloads=False, compared=compared)
    backends = backends_of(project, SparkRuntime(project), specs)
    checked = tuple(
        _checked(changing[str(p.spec.table.on(""))], p, backends[p.spec.table.catalog], options, stale)
        for p in plan.planned
    )
    names = {str(spec.table) for spec in on_branch(project, replace(known, layouts=selected), branch).layouts}
    failed = [t for t in saved.with_status(Status.ERROR, Status.REFUSED) if t.table in names]
    tables = (*sorted((p.plan for p in checked), key=lambda t: t.table), *failed)
    return replace(plan, document=replace(plan.document, tables=tables), planned=checked, reviewed=True)


def _without_branch(table: TablePlan) -> str:
    branch = table.requirements.branch if table.requirements else ""
    return table.table.removesuffix(f"@{branch}") if branch else table.table


def _known_layouts(project: Project, names: Iterable[str], exclude: str | Iterable[str], reading: Reading) -> Declared:
    excluded = (exclude,) if isinstance(exclude, str) else tuple(exclude)
    own = {str(spec.table): spec.table for spec in project.layouts}
    others = [name for name in (*names, *filter(is_name, excluded)) if name not in own]
    by_rules = [parse_table(name, Location("table")) for name in others] if project.rules else []
    return layouts_of_tables(project, [*own.values(), *by_rules], reading)


def _checked(
    saved: TablePlan, planned: PlannedTable, backend: Backend, options: PlanOptions, stale: Staleness
) -> PlannedTable:
    try:
        checked = check_saved(saved, planned, backend, options, stale)
        reviewed = replace(checked.plan, workload=saved.workload)
        return replace(checked, plan=reviewed)
    except (Refused, TableError) as error:
        status = Status.REFUSED if isinstance(error, Refused) else Status.ERROR
        stopped = replace(planned.plan, status=status, diagnostics=error.diagnostics)
        return PlannedTable(planned.spec, planned.state, stopped)


def with_reviewed(plan: ProjectPlan, path: Path) -> ProjectPlan:
    """Replace the plan of each table by its reviewed one, unless that is stale.

    A reviewed plan may come from an untrusted store: its decision is made again (`check_saved`), and the selected
    tables are those of `plan`.

    Args:
        plan: A new plan.
        path: A reviewed plan file, or a folder with such files, whose names end in `.json`.

    Returns:
        The plan. A table with changes that have no usable reviewed plan has the warning ZL451, and the plan has one
        for each plan file that cannot be read.

    Raises:
        SpecError: ZL040, the folder cannot be read.
    """
    saved: dict[str, list[TablePlan]] = {}
    problems = []
    for file in _plan_files(path):
        try:
            for table in document.read(file).plan.with_status(Status.CHANGES):
                saved.setdefault(table.table, []).append(table)
        except (SpecError, Refused) as error:
            hint = "its tables count as not reviewed: review their plans"
            problems += [
                Diagnostic(NOT_REVIEWED, f"a reviewed plan is not used: {d.message}", "warning", hint, d.location)
                for d in error.diagnostics
            ]
    backends = backends_of(plan.project, SparkRuntime(plan.project), [one.spec for one in plan.planned])
    checked = tuple(
        _reviewed(saved.get(one.plan.table, ()), one, backends[one.spec.table.catalog], plan.options)
        for one in plan.planned
    )
    diagnostics = (*plan.document.diagnostics, *problems)
    document_ = replace(plan.document, tables=as_plan(checked).tables, diagnostics=diagnostics)
    return replace(plan, document=document_, planned=checked)


def _plan_files(path: Path) -> list[Path]:
    try:
        return [path] if path.is_file() else sorted(file for file in path.iterdir() if file.suffix == ".json")
    except OSError as error:
        message = f"cannot read the reviewed plans: {error.strerror}"
        hint = "name a plan file, or a folder with plan files, which may be empty"
        raise SpecError.of("ZL040", message, hint=hint, location=Location(str(path))) from error


def _reviewed(
    saved: Sequence[TablePlan], planned: PlannedTable, backend: Backend, options: PlanOptions
) -> PlannedTable:
    if planned.plan.status is not Status.CHANGES:
        return planned
    reason = "no reviewed plan changes the table"
    for one in saved:
        try:
            again = check_saved(one, planned, backend, options, "compatible")
        except ZlayoutError as error:
            reason = error.diagnostics[0].message
        else:
            return replace(again, plan=replace(again.plan, workload=planned.plan.workload, change=planned.plan.change))
    message, hint = f"not the reviewed plan: {reason}", "review this plan before it is applied"
    warning = Diagnostic(NOT_REVIEWED, message, "warning", hint, planned.spec.location)
    return replace(planned, plan=replace(planned.plan, diagnostics=(*planned.plan.diagnostics, warning)))


def check_saved(
    saved: TablePlan, planned: PlannedTable, backend: Backend, options: PlanOptions, mode: Staleness
) -> PlannedTable:
    """Make the decision of a saved plan again, from the version that was planned.

    Raises:
        Refused: ZL203, the plan is stale; or the table is refused.
        TableError: The table cannot be read, or the spec no longer fits it.
    """
    if planned.state is None:
        refused = planned.plan.status is Status.REFUSED
        raise (Refused if refused else TableError)(*planned.plan.diagnostics)
    version = saved.version
    again = planned
    options = passes.again(options, saved)
    if (deferred := saved.that_wait(Wait.BUDGET)) is not None:
        options = replace(options, max_rewrite_bytes=deferred.budget)
        made = observe_and_propose(planned.spec, backend, options, version)
        if isinstance(made, Proposal):
            made = assemble(choose_saved(made, {group.id for group in saved.groups}))
        again = made
    elif version is not None and (saved.waiting or version != planned.state.version):
        again = plan_table(planned.spec, backend, options, version)
    if again.state is None:
        raise Refused.of(
            "ZL203",
            f"{planned.spec.table}: the plan is stale: version {version} can no longer be read",
            hint="run `zlayout plan` again and review it",
            location=planned.spec.location,
        )
    if again.plan.status is Status.ERROR:
        raise TableError(*again.plan.diagnostics)
    if lengths := saved_values(saved, again.plan):
        again = with_values(again, again.state, lengths)
    if reasons := staleness(saved, replace(again, spec=planned.spec), planned.state, mode):
        raise Refused(*reasons)
    return again


# Whether a saved plan is stale.


Staleness = Literal["compatible", "strict"]


def staleness(saved: TablePlan, again: PlannedTable, now: TableState, mode: Staleness) -> tuple[Diagnostic, ...]:
    """Return the reasons why a saved plan is stale.

    Args:
        saved: The plan from the file.
        again: The plan made again with the present layout spec, from the table version of the saved plan.
        now: The present table.
        mode: `compatible` accepts appends since the plan, `strict` does not. Neither of them accepts another layout,
            schema or partitioning, or a change of the pinned files. If the plan can be rebased, deletes of rows in the
            pinned files are no such change.

    Returns:
        One ZL203 per reason; empty if the plan is not stale.
    """
    spec, planned, made = again.spec, saved.requirements, again.plan.requirements
    if planned is None or made is None:
        return (_stale(spec, "expected requirements, found none", "run `zlayout plan` again"),)
    branch = spec.table.branch
    if planned.branch != branch:
        reasons = [f"it is for branch {planned.branch or MAIN}, and this run is for {branch or MAIN}"]
    elif changed := list(_changed_facts(planned, spec, now)):
        reasons = changed
    elif _group_digests(saved) != _group_digests(again.plan) or _lacks(planned, made):
        reasons = ["the layout spec selects other files now"]
    elif mode == "strict" and planned.version != now.version:
        reasons = [f"expected table version {planned.version}, found {now.version}"]
    elif gone := _changed_files([group.files for group in again.groups], now, rebases=bool(again.plan.rebases)):
        reasons = [f"{plural(gone, 'pinned file')} {'was' if gone == 1 else 'were'} changed or removed"]
    elif _settings_of(saved.actions) != _settings_of(
        again.plan.actions
    ):  # a table version does not include all settings
        reasons = ["the plan would change other settings now"]
    else:
        names = [p.name for p in again.plan.properties if now.properties.get(p.name) != p.before]
        reasons = [f"the table's properties changed: {', '.join(names)}"] if names else []
    return tuple(_stale(spec, reason, "run `zlayout plan` again and review it") for reason in reasons)


def _changed_facts(planned: Requirements, spec: LayoutSpec, now: TableState) -> Iterator[str]:
    if not is_at(now.location, planned.location):
        yield "the catalog leads to another location"
    compared = (
        (planned.table_id, now.table_id, "the table was dropped and created again"),
        (planned.schema, now.schema_digest, "the table's schema changed"),
        (planned.layout_id, spec.layout.layout_id, "the layout spec changed"),
        (planned.partitioning, tuple(map(str, now.partition_fields)), "the table's partitioning changed"),
        (planned.clustering or (), now.clustering or (), "the table's clustering columns changed"),
    )
    yield from (text for before, after, text in compared if before != after)


def _group_digests(plan: TablePlan) -> set[tuple[str, str]]:
    return {(group.id, group.digest) for group in plan.groups}


def _lacks(planned: Requirements, made: Requirements) -> bool:
    """Return whether the saved plan lacks a fact that only some tables have."""
    one, other = ((each.location, each.clustering) for each in (planned, made))
    return any(before is None and after is not None for before, after in zip(one, other, strict=True))


def _changed_files(pinned: Sequence[FileTable], now: TableState, *, rebases: bool) -> int:
    """Count the pinned files that are not live any more or, if the rewrite cannot be rebased, have other deletes."""
    keys = identity_columns(pinned)[0] if rebases else identities(pinned)
    live = now.files.path.cast(pa.large_string()) if rebases else now.files.identity()
    return len(keys) - (pc.sum(pc.is_in(keys, live)).as_py() or 0)


def _settings_of(actions: Iterable[Action]) -> list[Action]:
    return [
        replace(action, location=None) if isinstance(action, ChangePartitioning | ChangeClustering) else action
        for action in actions
        if not isinstance(action, RewriteGroup)
    ]


def _stale(spec: LayoutSpec, reason: str, hint: str) -> Diagnostic:
    return Diagnostic("ZL203", f"{spec.table}: the plan is stale: {reason}", "refused", hint, spec.location)
