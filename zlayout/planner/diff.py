"""Decide what to do to tables: pure functions of the layout specs and the observed states.

`decide` plans one table in three phases: `propose` finds the changes that could be made, `settle` spends the budget,
and `assemble` makes the plan. To spend one budget on many tables, call `propose` for each table and then `settle` for
all of them.

A budget is spent on the groups that lower touched, or the bytes that a workload opens, most for each byte rewritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite, prod
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic
from zlayout.planner import forecast, passes
from zlayout.planner.bounds import growth_notes, indistinct_anyway, worth_longer
from zlayout.planner.clustering import clustering_refusals, compare_clustering, left_alone
from zlayout.planner.decayed import savings
from zlayout.planner.model import (
    ColumnForecast,
    FilesAfter,
    PropertyChange,
    RankedBy,
    Reason,
    Requirements,
    SetProperties,
    Status,
    TablePlan,
    TouchedRange,
    TruncatedBounds,
    Wait,
    WaitingGroups,
)
from zlayout.planner.notes import (
    adoption_notes,
    branch_refusals,
    budget_too_small,
    compare_layout,
    compare_partitioning,
    compare_properties,
    full_rewrite_refusals,
    indistinct_notes,
    not_predictable,
    one_file,
    outside_notes,
    partitioning,
    properties_for_longer,
    reads_more,
    scope_notes,
    truncation_notes,
    undone_notes,
    unreasonable_size,
    unused_settings,
)
from zlayout.planner.partitions import partition_names
from zlayout.planner.proposal import Proposal, leave_out, pin, select_files
from zlayout.planner.ranges import files_after, has_values, rewrites_of, touched_ranges, unknown_ranges, with_bytes
from zlayout.planner.select import ordering_note
from zlayout.planner.selection import Group, refused_partitions, totals
from zlayout.planner.work import Capabilities, PlannedTable
from zlayout.planner.work import PlanOptions as PlanOptions
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import check
from zlayout.table.metrics import size_histogram
from zlayout.table.partition_values import transformed
from zlayout.table.state import ColumnBounds, PartitionField, TableState

# The ranges that metadata allows for touched and the number of files after rows move to other partitions.


def moved_ranges(
    spec: LayoutSpec, state: TableState, fields: Sequence[PartitionField], chosen: Sequence[Group]
) -> tuple[tuple[TouchedRange, ...], FilesAfter]:
    """Return the ranges of touched and of the number of files after a rewrite.

    Args:
        spec: The layout spec.
        state: The observed table.
        fields: The partitioning of new files.
        chosen: The groups to rewrite.
    """
    kept = len(state.files) - sum(len(group.files) for group in chosen)
    rows = sum(int(group.files.live_rows.sum()) for group in chosen)
    partitions = max_partitions(state, fields)
    partitions = min(partitions, rows) if isfinite(partitions) else partitions
    low = kept + int(rows > 0)
    # The files of a group are divided among its partitions. The number in each partition is rounded, and is at least 1.
    high = kept + sum(group.target_files for group in chosen) + len(chosen) * partitions
    files = FilesAfter(None, low, int(high) if isfinite(high) else None)
    limit, count = None if files.high is None else float(files.high), max(len(state.files.partitions), 1)
    # A value is in at least one file, and at most in all files.
    lows = {name: float(has_values(state.files, name, count).any()) for name in spec.column_names}
    return tuple(TouchedRange(name, None, low, limit, None) for name, low in lows.items()), files


def max_partitions(state: TableState, fields: Sequence[PartitionField]) -> float:
    """Return an upper limit of the number of partitions of the table's rows by `fields`; infinity if there is none."""
    return prod(_max_values(state.files.bounds.get(field.source), field) for field in fields)


def _max_values(bounds: ColumnBounds | None, field: PartitionField) -> float:
    """Return an upper limit of the number of values of a partition field, including null; infinity if there is none."""
    name, _, argument = field.transform.partition("[")
    if name == "void":
        return 1
    if name == "bucket":
        return int(argument.rstrip("]")) + 1
    if bounds is None or bounds.lower.null_count or bounds.upper.null_count or not len(bounds.lower):
        return inf
    ends = pa.array([pc.min(bounds.lower), pc.max(bounds.upper)], bounds.lower.type)
    if name == "truncate" and pa.types.is_integer(ends.type):
        return _steps(transformed(ends, field.transform)) / int(argument.rstrip("]")) + 2
    if name in ("year", "month", "day", "hour"):
        return _steps(transformed(ends, field.transform)) + 2
    if name == "identity" and (pa.types.is_integer(ends.type) or pa.types.is_date32(ends.type)):
        return _steps(ends if pa.types.is_integer(ends.type) else ends.cast(pa.int32())) + 2
    if name == "identity" and pa.types.is_boolean(ends.type):
        return 3
    return inf


def _steps(ends: pa.Array) -> float:
    low, high = ends.to_pylist()
    return float(high - low)


# The plan of one table, from its proposal.


def assemble(proposal: Proposal) -> PlannedTable:
    """Return the plan that rewrites the groups that do not wait. It has pinned files only if its status is CHANGES."""
    spec, state, selection = proposal.spec, proposal.state, proposal.selection
    kept, left_over = selection.groups, budget_section(proposal)
    later = (*selection.every_group[len(kept) :], *selection.that_wait(Wait.REFUSED))
    deferred = left_over is not None or bool(later)
    change, clustering = proposal.partitioning, None if deferred else proposal.clustering
    if change is not None and (proposal.waits or (change.full_rewrite and deferred)):
        change = None
    # The properties that make bounds longer are set only if every group that needs longer bounds is rewritten now.
    lengthens = all(group.reason is not Reason.BOUNDS_TRUNCATED for group in later)
    truncated, not_longer = (proposal.truncated, ()) if lengthens else ((), proposal.truncated)
    # Properties are compared by name, because a column without statistics may need the same property.
    kept_short = {name for bounds in not_longer for name, _ in properties_for_longer(state, bounds)}
    properties = tuple(change for change in proposal.properties if change.name not in kept_short and not proposal.waits)
    status = proposal.status
    columns, files = _forecast(proposal)
    numbers = partition_names(state.files.partitions)[1].tolist() if kept else []
    waiting = tuple(passes.sections(selection, state, proposal.options))
    shown = () if proposal.refusals else waiting
    plan = replace(
        describe(spec, state, status),
        actions=(
            *((SetProperties(properties),) if properties else ()),
            *(action for action in (change, clustering) if action),
            *(group.action(numbers) for group in kept),
        ),
        requirements=Requirements(
            state.table_id,
            state.version,
            state.schema_digest,
            spec.layout.layout_id,
            tuple(map(str, state.partition_fields)),
            state.clustering,
            state.location if state.from_catalog else None,
            spec.table.branch,
        ),
        drift=() if clustering else compare_layout(spec, state, selection),
        waiting=shown if left_over is None else (left_over, *shown),
        selects_nothing=not spec.where_may_be_empty and proposal.selects_nothing,
        decay=selection.decay,
        columns=columns,
        files_after=files,
        rebases=state.can_rebase and spec.layout.engine == "zlayout" if kept else None,
        diagnostics=(
            *_diagnostics(proposal, columns, truncated, properties),
            *growth_notes(spec, state, properties),
            *passes.notes(spec, state, waiting, refused=bool(proposal.refusals)),
        ),
    )
    pinned = {group.id: group for group in kept} if status is Status.CHANGES else {}
    return PlannedTable(spec, state, plan, pinned, truncated)


def describe(spec: LayoutSpec, state: TableState, status: Status) -> TablePlan:
    """Return a plan without actions, which has the name, the layout and the size of a table."""
    files = state.files
    return TablePlan(
        table=str(spec.table),
        format=state.format,
        location=spec.location,
        status=status,
        settings=tuple(spec.layout.settings().items()),
        files=len(files),
        bytes=int(files.bytes.sum()),
        rows=int(files.live_rows.sum()),
        partitions=len(files.partitions),
        files_outside=state.files_outside,
        rule=spec.rule,
        commit_bytes=spec.commit_bytes,
        size_histogram=tuple((b.label, b.files) for b in size_histogram(files.bytes, spec.layout.target_size)),
    )


def _forecast(proposal: Proposal) -> tuple[tuple[ColumnForecast, ...], FilesAfter | None]:
    spec, state, groups = proposal.spec, proposal.state, proposal.selection.groups
    if not groups:
        return forecast.columns(proposal.now), None
    if proposal.moves:
        ranges, files = moved_ranges(spec, state, partitioning(spec, state), groups)
        return forecast.columns(proposal.now, ranges), files
    if not proposal.provable:
        return forecast.columns(proposal.now, unknown_ranges(spec)), FilesAfter(None, None, None)
    rewrites = rewrites_of(state.files, [group.index for group in groups], [group.target_files for group in groups])
    after = forecast.columns(proposal.now, touched_ranges(spec, state, proposal.now, rewrites))
    return with_bytes(state, proposal.now, rewrites, after), files_after(rewrites)


def _diagnostics(
    proposal: Proposal,
    columns: Sequence[ColumnForecast],
    truncated: Sequence[TruncatedBounds],
    properties: Sequence[PropertyChange],
) -> tuple[Diagnostic, ...]:
    spec, state, selection = proposal.spec, proposal.state, proposal.selection
    writes = bool(selection.groups) and not proposal.refusals
    decays = any(measure.exceeded for measure in selection.decay)
    selected, left_out = selection.every_group, selection.that_wait(Wait.NO_GAIN)
    changes = proposal.changes_something
    external = () if selected else ordering_note(spec, state)
    return (
        *proposal.checked,
        *proposal.refusals,
        *outside_notes(spec, state, refused=bool(proposal.refusals)),
        *state.notes,
        *state.maintainers,
        *proposal.notes,
        *unused_settings(spec),
        *scope_notes(spec, selection, len(state.files.partitions)),
        *truncation_notes(spec, state, truncated, properties),
        *indistinct_notes(spec, proposal.indistinct_anyway),
        *(external or adoption_notes(spec, state, selection, proposal.now)),
        *undone_notes(spec, state, selection),
        *(refused_partitions(spec, state, selection.that_wait(Wait.REFUSED), "warning") if changes else ()),
        *reads_more(spec, columns),
        *((left_alone(spec),) if state.clustering and decays and not (selected or left_out) else ()),
        *((not_predictable(spec, state),) if writes and not proposal.predictable else ()),
        *(one_file(spec, proposal.now.targets) if writes and proposal.provable and spec.layout.orders else ()),
        *unreasonable_size(spec, proposal.now.targets, rewrites=writes),
        *((proposal.budget_too_small,) if proposal.budget_too_small else ()),
    )


def decide(
    spec: LayoutSpec,
    state: TableState,
    capabilities: Capabilities,
    notes: tuple[Diagnostic, ...] = (),
    options: PlanOptions = PlanOptions(),
) -> PlannedTable:
    """Decide which changes lay out one table as declared.

    Args:
        spec: The layout spec.
        state: The observed table.
        capabilities: What the backend can do.
        notes: The diagnostics of the backend about the layout.
        options: What the plan may do. A budget is spent on this table alone.
    """
    return settle([propose(spec, state, capabilities, notes, options)], options.max_rewrite_bytes)[0]


def propose(
    spec: LayoutSpec,
    state: TableState,
    capabilities: Capabilities,
    notes: tuple[Diagnostic, ...] = (),
    options: PlanOptions = PlanOptions(),
) -> Proposal | PlannedTable:
    """Find all changes that could be made to one table. The arguments are those of `decide`.

    Returns:
        The proposal; or a plan with the status ERROR if the spec is not valid for the table.
    """
    checked = check(spec, state)
    if any(d.severity == "error" for d in checked):
        return PlannedTable(spec, state, replace(describe(spec, state, Status.ERROR), diagnostics=checked))
    change = compare_partitioning(spec, state, capabilities)
    now = forecast.measure(state.files, spec)
    selection, whole = select_files(spec, state, change, now, options)
    if whole is not None:
        selection = leave_out(spec, state.files, now, selection)
    truncated = worth_longer(spec, state, [group.index for group in selection.groups])
    proposal = Proposal(
        spec=spec,
        state=state,
        partitioning=change,
        clustering=compare_clustering(spec, state),
        properties=compare_properties(spec, state, truncated),
        truncated=truncated,
        indistinct_anyway=indistinct_anyway(spec, state),
        now=now,
        options=options,
        selection=pin(spec, state, selection),
        predictable=capabilities.can_predict(spec.layout, state),
        checked=checked,
        refusals=(),
        notes=(
            *(note for note in notes if note.severity != "refused"),
            *passes.notes_before(spec, state, options),
        ),
        whole=whole,
        savings=None if whole is None else savings(spec, state.files, now, selection.groups),
    )
    return replace(proposal, refusals=_refusals(proposal, notes)) if proposal.has_changes else proposal


def settle(proposals: Sequence[Proposal | PlannedTable], max_bytes: int | None) -> tuple[PlannedTable, ...]:
    """Spend the budget on all tables together, and return the plan of each table, in order.

    Args:
        proposals: What `propose` returned for each table.
        max_bytes: The limit on rewritten bytes; None for no limit.
    """
    chosen = iter(choose([p for p in proposals if isinstance(p, Proposal)], max_bytes))
    return tuple(p if isinstance(p, PlannedTable) else assemble(next(chosen)) for p in proposals)


def _refusals(proposal: Proposal, notes: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    spec, state, change, whole = proposal.spec, proposal.state, proposal.partitioning, proposal.whole
    refusals = [
        *state.refusals,
        *clustering_refusals(spec.layout, state),
        *full_rewrite_refusals(spec, state, change, allowed=proposal.options.allow_full_rewrite),
        *(note for note in notes if note.severity == "refused"),
        *branch_refusals(spec, proposal.properties, change),
    ]
    if change is not None and change.full_rewrite:
        # data files store the values of former partition columns, except for those of times without a zone
        kept = {"", *(field.source for field in partitioning(spec, state))}
        moved = tuple(r for r in state.partition_refusals if r.zone or r.column in kept)
        still = replace(state, partition_refusals=moved)
        refusals += refused_partitions(spec, still, proposal.selection.every_group, "refused")
    elif not proposal.changes_something:
        refusals += refused_partitions(spec, state, proposal.selection.that_wait(Wait.REFUSED), "refused")
    if change is not None and change.full_rewrite and whole is not None and proposal.exceeds_budget:
        refusals.append(budget_too_small(spec, whole.budget or 0, whole.bytes))
    return tuple(refusals)


# The budget.


def choose(proposals: Sequence[Proposal], budget: int | None) -> tuple[Proposal, ...]:
    """Choose groups of all tables together, greedily by the decrease of touched per byte. The others wait.

    Groups of a table with a known worth are ranked by the bytes that its queries no longer open per byte rewritten. If
    the worth is known of every table, all executions count. If not, a table with a known worth counts as if it had
    one execution for each z-order column. This makes the two measures comparable, because a decrease of touched is the
    number of files that one query for each z-order column no longer opens.

    Args:
        proposals: One per table.
        budget: The limit on rewritten bytes; None for no limit.

    Returns:
        The proposals, in the same order. If the budget allows no rewrite at all, each table with groups on which a
        budget should be spent is refused with ZL205.
    """
    if budget is None:
        return tuple(proposals)
    known = all(proposal.worth is not None for proposal in proposals if _competes(proposal))
    bundles = sorted(bundle for at, proposal in enumerate(proposals) for bundle in _bundles(at, proposal, known))
    taken: dict[int, set[str]] = {}
    left = budget
    for bundle in bundles:
        if bundle.bytes <= left:
            taken.setdefault(bundle.table, set()).update(bundle.ids)
            left -= bundle.bytes
    smallest = [_smallest(proposal) for proposal in proposals if _needs_budget(proposal)]
    if smallest and not taken:
        min_bytes = min([bundle.bytes for bundle in bundles] or smallest)
        return tuple(
            _refused(proposal, budget, min_bytes) if _needs_budget(proposal) else proposal for proposal in proposals
        )
    return tuple(choose_saved(proposal, taken.get(at, ())) for at, proposal in enumerate(proposals))


def choose_saved(proposal: Proposal, ids: Collection[str]) -> Proposal:
    """Let all groups but those with these ids wait, which a budget chose for a saved plan."""
    if proposal.status is not Status.CHANGES or not proposal.whole_bytes:
        return proposal
    chosen = _parking(proposal, ids)
    return chosen if budget_rest(chosen) else proposal


def budget_rest(proposal: Proposal) -> int:
    """Return the number of bytes that are deferred if only the groups that do not wait are rewritten."""
    return proposal.whole_bytes - sum(group.bytes for group in proposal.selection.groups)


def budget_section(proposal: Proposal) -> WaitingGroups | None:
    """Return the totals of the groups that the budget defers; None if it defers none."""
    left, selection = budget_rest(proposal), proposal.selection
    if proposal.whole is None or proposal.refusals or not left:
        return None
    ranked_by = RankedBy.TOUCHED if proposal.worth is None else RankedBy.WORKLOAD
    return replace(
        proposal.whole,
        # Groups within a budget may lack the laid-out groups to merge with, so that files are deferred although no
        # group waits.
        groups=max(len(selection.that_wait(Wait.BUDGET)), 1),
        files=proposal.whole.files - sum(len(group.files) for group in selection.groups),
        bytes=left,
        ranked_by=ranked_by if proposal.spec.layout.orders else RankedBy.FULL_SCAN,
    )


def _refused(proposal: Proposal, budget: int, min_bytes: int) -> Proposal:
    return replace(_parking(proposal, ()), budget_too_small=budget_too_small(proposal.spec, budget, min_bytes))


def _parking(proposal: Proposal, ids: Collection[str]) -> Proposal:
    return replace(proposal, selection=proposal.selection.parking(lambda group: group.id not in ids, Wait.BUDGET))


def _needs_budget(proposal: Proposal) -> bool:
    left_out = totals(proposal.selection.that_wait(Wait.NO_GAIN), proposal.state.files)[2]
    return proposal.status is Status.CHANGES and proposal.whole_bytes > left_out


class _Bundle(NamedTuple):
    """Groups of one table that are rewritten together or not at all. The budget chooses bundles in sort order."""

    cost: float  # the change of touched, or of the bytes that queries open, per byte; negative if it decreases
    # The change of touched per byte. It decides among bundles of equal cost, such as those that no query of the
    # workload opens.
    touched: float
    ids: tuple[str, ...]  # the group ids, so that the order is always the same
    bytes: int
    table: int  # the index of the proposal


def _competes(proposal: Proposal) -> bool:
    return proposal.status is Status.CHANGES and proposal.savings is not None and bool(proposal.selection.groups)


def _bundles(at: int, proposal: Proposal, every_workload_known: bool) -> Iterator[_Bundle]:
    if not _competes(proposal) or proposal.savings is None:
        return
    layout, worth, groups = proposal.spec.layout, proposal.worth, proposal.selection.groups
    for together in _together(groups):
        size, ids = sum(groups[n].bytes for n in together), tuple(groups[n].id for n in together)
        saved = fewer = float(proposal.savings[together].sum())
        if worth is not None:
            saved = float(worth.saves[together].sum())
            if not every_workload_known:
                saved = saved / worth.executions * len(layout.columns) / layout.target_size
        yield _Bundle(-saved / max(size, 1), -fewer / max(size, 1), ids, size, at)


def _together(groups: Sequence[Group]) -> list[list[int]]:
    in_partition = Counter(map(_partition, groups))
    alone, indistinct = [], []
    for number, group in enumerate(groups):
        # A file that replaces one file overlaps the same files as before. It would count as laid out, so that the next
        # plan would find less to rewrite although nothing has improved.
        one_to_one = len(group.files) == group.target_files == 1 and group.reason is not Reason.DELETED_ROWS
        # Groups that need longer bounds are one list. Once the table property is set, files with short bounds cannot be
        # distinguished from files that need no longer bounds (docs/adr/0004-cut-bounds.md), so that a later run would
        # not select groups that are deferred now.
        if group.reason is Reason.BOUNDS_TRUNCATED:
            indistinct.append(number)
        elif not (one_to_one and in_partition[_partition(group)] > 1):
            alone.append([number])
    return [*alone, indistinct] if indistinct else alone


def _smallest(proposal: Proposal) -> int:
    """Return the bytes of the smallest useful rewrite: of two groups of one partition, or else of everything."""
    by_partition: dict[int, list[int]] = {}
    for group in proposal.selection.groups:
        by_partition.setdefault(_partition(group), []).append(group.bytes)
    pairs = [sum(sorted(sizes)[:2]) for sizes in by_partition.values() if len(sizes) > 1]
    return min(pairs, default=proposal.whole_bytes)


def _partition(group: Group) -> int:
    return int(group.files.partition[0])
