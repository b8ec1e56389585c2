"""Assemble the plan of one table from its proposal and the chosen candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zlayout.errors import Diagnostic
from zlayout.planner import forecast, ordered
from zlayout.planner.actions import PropertyChange, Reason, SetProperties, TruncatedBounds
from zlayout.planner.bound_need import growth_notes
from zlayout.planner.budget import rest
from zlayout.planner.clustering import left_alone
from zlayout.planner.decision import Decision
from zlayout.planner.forecasts import ColumnForecast, DeferredGroups, FilesAfter, RankedBy
from zlayout.planner.model import Status, TablePlan
from zlayout.planner.moved_ranges import moved_ranges
from zlayout.planner.notes import (
    adoption_notes,
    indistinct_notes,
    not_predictable,
    one_file,
    outside_notes,
    reads_more,
    scope_notes,
    truncation_notes,
    undone_notes,
    unreasonable_size,
    unused_settings,
)
from zlayout.planner.proposal import Candidate, Choice, Proposal
from zlayout.planner.ranges import files_after, rewrites_of, touched_ranges, unknown_ranges, with_bytes
from zlayout.planner.requirements import (
    BranchIs,
    ClusteringIs,
    FilesAre,
    LayoutIs,
    LocationIs,
    PartitioningIs,
    PropertyIs,
    Requirement,
    SchemaIs,
    TableIs,
    VersionIs,
)
from zlayout.planner.settings import compare_layout, partitioning, properties_for_longer
from zlayout.planner.waiting import hot_notes, lengthens_later, rarely_read_groups, rarely_read_names, rarely_read_note
from zlayout.spec.model import LayoutSpec
from zlayout.table.histogram import size_histogram
from zlayout.table.state import TableState


def assemble(proposal: Proposal, choice: Choice) -> Decision:
    """Return the decision that carries out the chosen candidates. It has pinned files only if its status is CHANGES."""
    spec, state, selection = proposal.spec, proposal.state, proposal.selection
    kept = [proposal.candidates[n] for n in choice.candidates]
    left_over = _left_over(proposal, choice)
    deferred = left_over is not None or proposal.hot is not None
    change, clustering = proposal.partitioning, None if deferred else proposal.clustering
    if change is not None and (proposal.waits or (change.full_rewrite and deferred)):
        change = None
    # The properties that make bounds longer are set only if every group that needs longer bounds is rewritten now.
    left = (candidate for n, candidate in enumerate(proposal.candidates) if n not in choice.candidates)
    all_chosen = left_over is None or all(c.action.reason is not Reason.BOUNDS_TRUNCATED for c in left)
    lengthens = all_chosen and not lengthens_later(selection)
    truncated, not_longer = (proposal.truncated, ()) if lengthens else ((), proposal.truncated)
    # Properties are compared by name, because a column without statistics may need the same property.
    later = {name for bounds in not_longer for name, _ in properties_for_longer(state, bounds)}
    properties = tuple(change for change in proposal.properties if change.name not in later and not proposal.waits)
    status = Status.REFUSED if choice.refusal else proposal.status
    columns, files = _forecast(proposal, choice)
    waiting = None if proposal.refusals else rarely_read_groups(selection, state)
    plan = replace(
        describe(spec, state, status),
        actions=(
            *((SetProperties(properties),) if properties else ()),
            *(action for action in (change, clustering) if action),
            *(candidate.action for candidate in kept),
        ),
        requirements=_requirements(spec, state, properties, kept),
        drift=() if clustering else compare_layout(spec, state, selection),
        left_over=left_over,
        hot=None if proposal.refusals else proposal.hot,
        rarely_read=waiting,
        selects_nothing=not spec.where_may_be_empty and proposal.selects_nothing,
        decay=selection.decay,
        columns=columns,
        files_after=files,
        diagnostics=(
            *_diagnostics(proposal, choice, columns, truncated, properties),
            *growth_notes(spec, state, properties),
            *((rarely_read_note(spec, waiting),) if waiting else ()),
        ),
    )
    ids = tuple(column.id for column in state.columns_of(spec.column_names))
    return Decision(
        plan,
        pinned={c.action.id: c.files for c in kept} if status is Status.CHANGES else {},
        column_ids=ids if all(ids) else (),
        rarely_read=rarely_read_names(selection, state.files),
        truncated=truncated,
    )


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


def _left_over(proposal: Proposal, choice: Choice) -> DeferredGroups | None:
    left = rest(proposal, choice.candidates)
    if proposal.whole is None or proposal.refusals or not left:
        return None
    ranked_by = RankedBy.TOUCHED if proposal.worth is None else RankedBy.WORKLOAD
    return replace(
        proposal.whole,
        # Candidates within a budget may lack the laid-out groups to merge with, so that files are deferred although
        # every candidate is chosen.
        groups=max(len(proposal.candidates) - len(choice.candidates), 1),
        files=proposal.whole.files - sum(proposal.candidates[n].action.files for n in choice.candidates),
        bytes=left,
        ranked_by=ranked_by if proposal.spec.layout.orders else RankedBy.FULL_SCAN,
    )


def _requirements(
    spec: LayoutSpec, state: TableState, properties: Sequence[PropertyChange], kept: Sequence[Candidate]
) -> tuple[Requirement, ...]:
    return (
        *((LocationIs(state.location),) if state.from_catalog else ()),
        TableIs(state.table_id),
        *((BranchIs(spec.table.branch),) if spec.table.branch else ()),
        VersionIs(state.version),
        SchemaIs(state.schema_digest),
        LayoutIs(spec.layout.layout_id),
        PartitioningIs(tuple(map(str, state.partition_fields))),
        *((ClusteringIs(state.clustering),) if state.clustering is not None else ()),
        *(PropertyIs(change.name, change.before) for change in properties),
        *(FilesAre(candidate.action.id, candidate.digest) for candidate in kept),
    )


def _forecast(proposal: Proposal, choice: Choice) -> tuple[tuple[ColumnForecast, ...], FilesAfter | None]:
    spec, state = proposal.spec, proposal.state
    if not choice.candidates:
        return forecast.columns(proposal.now), None
    if proposal.moves:
        moving = [proposal.candidates[n] for n in choice.candidates]
        ranges, files = moved_ranges(spec, state, partitioning(spec, state), moving)
        return forecast.columns(proposal.now, ranges), files
    if not proposal.provable:
        return forecast.columns(proposal.now, unknown_ranges(spec)), FilesAfter(None, None, None)
    chosen = [proposal.selection.groups[n].files for n in choice.candidates]
    rewrites = rewrites_of(state.files, chosen, [proposal.candidates[n].action.target_files for n in choice.candidates])
    after = forecast.columns(proposal.now, touched_ranges(spec, state, proposal.now, rewrites))
    return with_bytes(state, proposal.now, rewrites, after), files_after(rewrites)


def _diagnostics(
    proposal: Proposal,
    choice: Choice,
    columns: Sequence[ColumnForecast],
    truncated: Sequence[TruncatedBounds],
    properties: Sequence[PropertyChange],
) -> tuple[Diagnostic, ...]:
    spec, state, selection = proposal.spec, proposal.state, proposal.selection
    writes = bool(choice.candidates) and not proposal.refusals
    decays = any(measure.exceeded for measure in selection.decay)
    selected = selection.every_group
    external = () if selected else ordered.note(spec, state)
    return (
        *proposal.checked,
        *proposal.refusals,
        *outside_notes(spec, state, refused=bool(proposal.refusals)),
        *state.notes,
        *proposal.notes,
        *unused_settings(spec),
        *scope_notes(spec, selection, len(state.files.partitions)),
        *truncation_notes(spec, state, truncated, properties),
        *indistinct_notes(spec, proposal.indistinct_anyway),
        *(external or adoption_notes(spec, selection)),
        *undone_notes(spec, state, selection),
        *hot_notes(spec, state, selection.hot),
        *reads_more(spec, columns),
        *((left_alone(spec),) if state.clustering and decays and not (selected or selection.left_out) else ()),
        *((not_predictable(spec, state),) if writes and not proposal.predictable else ()),
        *(one_file(spec, proposal.now.targets) if writes and proposal.provable and spec.layout.orders else ()),
        *unreasonable_size(spec, proposal.now.targets, rewrites=writes),
        *((choice.refusal,) if choice.refusal else ()),
    )
