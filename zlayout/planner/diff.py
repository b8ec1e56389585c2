"""Decide what to do to tables: pure functions of the layout specs and the observed states.

`decide` plans one table. To spend one budget on many tables, call `propose` for each table and then `settle` for all of
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zlayout.errors import Diagnostic
from zlayout.planner import forecast, truncated_bounds
from zlayout.planner.assemble import assemble, describe
from zlayout.planner.budget import choose
from zlayout.planner.clustering import clustering_refusals, compare_clustering
from zlayout.planner.decayed import savings
from zlayout.planner.decision import Decision as Decision
from zlayout.planner.decision import PlanOptions as PlanOptions
from zlayout.planner.model import Status
from zlayout.planner.notes import branch_refusals, budget_too_small, full_rewrite_refusals
from zlayout.planner.proposal import Proposal, leave_out, pin, select_files
from zlayout.planner.settings import compare_partitioning, compare_properties
from zlayout.planner.waiting import hot_groups
from zlayout.planner.work import Capabilities
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import check
from zlayout.table.state import TableState


def decide(
    spec: LayoutSpec,
    state: TableState,
    capabilities: Capabilities,
    notes: tuple[Diagnostic, ...] = (),
    options: PlanOptions = PlanOptions(),
) -> Decision:
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
) -> Proposal | Decision:
    """Find all changes that could be made to one table. The arguments are those of `decide`.

    Returns:
        The proposal; or a decision with the status ERROR if the spec is not valid for the table.
    """
    checked = check(spec, state)
    if any(d.severity == "error" for d in checked):
        return Decision(replace(describe(spec, state, Status.ERROR), diagnostics=checked))
    change = compare_partitioning(spec, state, capabilities)
    now = forecast.measure(state.files, spec)
    selection, whole = select_files(spec, state, change, now, options)
    if whole is not None:
        selection = leave_out(spec, state.files, now, selection)
    hot = hot_groups(selection, state, options.hot_after)
    truncated = truncated_bounds.worth_longer(spec, state, [chosen.files for chosen in selection.groups])
    proposal = Proposal(
        spec=spec,
        state=state,
        partitioning=change,
        clustering=compare_clustering(spec, state),
        properties=compare_properties(spec, state, truncated),
        truncated=truncated,
        indistinct_anyway=truncated_bounds.indistinct_anyway(spec, state),
        now=now,
        selection=selection,
        candidates=pin(spec, state, selection),
        predictable=capabilities.can_predict(spec.layout, state),
        checked=checked,
        refusals=(),
        notes=tuple(note for note in notes if note.severity != "refused"),
        whole=whole,
        hot=hot,
        savings=None if whole is None else savings(spec, state.files, now, selection.groups),
    )
    return replace(proposal, refusals=_refusals(proposal, notes, options)) if proposal.has_changes else proposal


def settle(proposals: Sequence[Proposal | Decision], budget: int | None) -> tuple[Decision, ...]:
    """Spend the budget on all tables together, and return a decision for each table, in order.

    Args:
        proposals: What `propose` returned for each table.
        budget: The limit on rewritten bytes; None for no limit.
    """
    choices = iter(choose([p for p in proposals if isinstance(p, Proposal)], budget))
    return tuple(p if isinstance(p, Decision) else assemble(p, next(choices)) for p in proposals)


def _refusals(proposal: Proposal, notes: Sequence[Diagnostic], options: PlanOptions) -> tuple[Diagnostic, ...]:
    spec, state, change, whole = proposal.spec, proposal.state, proposal.partitioning, proposal.whole
    refusals = [
        *state.refusals,
        *clustering_refusals(spec.layout, state),
        *full_rewrite_refusals(spec, state, change, allowed=options.allow_full_rewrite),
        *(note for note in notes if note.severity == "refused"),
        *branch_refusals(spec, proposal.properties, change),
    ]
    if change is not None and change.full_rewrite and whole is not None and proposal.exceeds_budget:
        refusals.append(budget_too_small(spec, whole.budget, whole.bytes))
    return tuple(refusals)
