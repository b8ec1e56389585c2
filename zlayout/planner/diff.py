"""Decides what to do to a table: a pure function of the spec and the observed state.

`decide` is for one table. With a budget over many tables, `propose` comes first for each, then `settle` for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zlayout.errors import Diagnostic
from zlayout.planner import cut_bounds, forecast
from zlayout.planner.assemble import assemble, describe
from zlayout.planner.budget import choose
from zlayout.planner.candidates import pin, select_files
from zlayout.planner.decision import Decision as Decision
from zlayout.planner.decision import PlanOptions as PlanOptions
from zlayout.planner.model import Status
from zlayout.planner.notes import budget_too_small, full_rewrite_refusals
from zlayout.planner.proposal import Proposal
from zlayout.planner.select import savings
from zlayout.planner.settings import compare_partitioning, compare_properties
from zlayout.planner.work import Capabilities
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import check
from zlayout.table.state import TableState


def decide(
    spec: LayoutSpec,
    state: TableState,
    capabilities: Capabilities,
    notes: tuple[Diagnostic, ...] = (),
    options: PlanOptions = PlanOptions(),  # noqa: B008 - frozen
) -> Decision:
    """Decide what brings one table to its spec.

    Args:
        spec: the declared layout.
        state: the observed table.
        capabilities: what the backend can do.
        notes: the backend's own diagnostics on the layout.
        options: what the plan may do; a budget is spent on this table alone.
    """
    return settle([propose(spec, state, capabilities, notes, options)], options.max_rewrite_bytes)[0]


def propose(
    spec: LayoutSpec,
    state: TableState,
    capabilities: Capabilities,
    notes: tuple[Diagnostic, ...] = (),
    options: PlanOptions = PlanOptions(),  # noqa: B008 - frozen
) -> Proposal | Decision:
    """Find all that could be done to one table; the arguments are those of `decide`.

    Where the spec does not fit the table there is nothing to choose, and the decision is returned.
    """
    checked = check(spec, state)
    if any(d.severity == "error" for d in checked):
        return Decision(describe(spec, state, Status.ERROR, diagnostics=checked))
    change = compare_partitioning(spec, state, capabilities)
    now = forecast.measure(state.files, spec)
    selection, whole = select_files(spec, state, change, now, options.max_rewrite_bytes)
    cuts = cut_bounds.worth_longer(spec, state, [chosen.files for chosen in selection.groups])
    proposal = Proposal(
        spec=spec,
        state=state,
        partitioning=change,
        properties=compare_properties(spec, state, cuts),
        cuts=cuts,
        hopeless=cut_bounds.hopeless(spec, state),
        now=now,
        selection=selection,
        candidates=pin(spec, state, selection),
        predictable=not selection.moves and capabilities.can_predict(spec.layout),
        checked=checked,
        refusals=(),
        notes=tuple(note for note in notes if note.severity != "refused"),
        whole=whole,
        savings=None if whole is None else savings(spec, state.files, now, selection.groups),
    )
    return replace(proposal, refusals=_refusals(proposal, notes, options)) if proposal.has_changes else proposal


def settle(proposals: Sequence[Proposal | Decision], budget: int | None) -> tuple[Decision, ...]:
    """Spend the budget (bytes, None for no limit) on all tables together, and decide on each, in the same order."""
    choices = iter(choose([p for p in proposals if isinstance(p, Proposal)], budget))
    return tuple(p if isinstance(p, Decision) else assemble(p, next(choices)) for p in proposals)


def _refusals(proposal: Proposal, notes: Sequence[Diagnostic], options: PlanOptions) -> tuple[Diagnostic, ...]:
    """Why the changes must not be made."""
    spec, state, change, whole = proposal.spec, proposal.state, proposal.partitioning, proposal.whole
    refusals = [
        *state.refusals,
        *full_rewrite_refusals(spec, state, change, allowed=options.allow_full_rewrite),
        *(note for note in notes if note.severity == "refused"),
    ]
    if change is not None and change.full_rewrite and whole is not None and proposal.exceeds_budget:
        refusals.append(budget_too_small(spec, whole.budget, whole.bytes))
    return tuple(refusals)
