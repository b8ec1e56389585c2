"""Spend a budget on the groups that lower touched, or the bytes that a workload opens, most for each byte rewritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from zlayout.planner.actions import Reason
from zlayout.planner.model import Status
from zlayout.planner.notes import budget_too_small
from zlayout.planner.proposal import Candidate, Choice, Proposal
from zlayout.planner.selection import totals


def choose(proposals: Sequence[Proposal], budget: int | None) -> tuple[Choice, ...]:
    """Choose candidates of all tables together, greedily by the decrease of touched per byte.

    Candidates of a table with a known worth are ranked by the bytes that its queries no longer open for each byte
    rewritten. If the worth is known of every table, all executions count. If not, a table with a known worth counts as
    if it had one execution for each z-order column. This makes the two measures comparable, because a decrease of
    touched is the number of files that one query for each z-order column no longer opens.

    Args:
        proposals: One per table.
        budget: The limit on rewritten bytes; None for no limit.

    Returns:
        The choice for each proposal, in the same order. If the budget allows no rewrite at all, each table with groups
        on which a budget should be spent is refused with ZL205.
    """
    if budget is None:
        return tuple(proposal.everything for proposal in proposals)
    known = all(proposal.worth is not None for proposal in proposals if _competes(proposal))
    bundles = sorted(bundle for at, proposal in enumerate(proposals) for bundle in _bundles(at, proposal, known))
    taken: dict[int, set[int]] = {}
    left = budget
    for bundle in bundles:
        if bundle.bytes <= left:
            taken.setdefault(bundle.table, set()).update(bundle.candidates)
            left -= bundle.bytes
    smallest = [_smallest(proposal) for proposal in proposals if _needs_budget(proposal)]
    if smallest and not taken:
        min_bytes = min([bundle.bytes for bundle in bundles] or smallest)
        return tuple(
            Choice((), budget_too_small(proposal.spec, budget, min_bytes))
            if _needs_budget(proposal)
            else proposal.everything
            for proposal in proposals
        )
    return tuple(_choice(proposal, taken.get(at, ())) for at, proposal in enumerate(proposals))


def choose_saved(proposal: Proposal, ids: Collection[str]) -> Choice:
    """Choose the candidates with these group ids, which a budget chose for a saved plan."""
    return _choice(proposal, [n for n, candidate in enumerate(proposal.candidates) if candidate.action.id in ids])


def _choice(proposal: Proposal, candidates: Collection[int]) -> Choice:
    if proposal.status is not Status.CHANGES or not proposal.whole_bytes or rest(proposal, candidates) == 0:
        return proposal.everything
    return Choice(tuple(sorted(candidates)))


def rest(proposal: Proposal, candidates: Collection[int]) -> int:
    """Return the number of bytes that are deferred if only these candidates are rewritten."""
    return proposal.whole_bytes - sum(proposal.candidates[n].action.bytes for n in candidates)


def _needs_budget(proposal: Proposal) -> bool:
    left_out = totals(proposal.selection.left_out, proposal.state.files)[2]
    return proposal.status is Status.CHANGES and proposal.whole_bytes > left_out


class _Bundle(NamedTuple):
    """Candidates of one table that are rewritten together or not at all. The budget chooses bundles in sort order.

    Attributes:
        cost: The change of touched, or of the bytes that queries open, per byte; negative if it decreases.
        touched: The change of touched per byte. It decides among bundles of equal cost, such as those that no query of
            the workload opens.
        ids: The group ids, so that the order is always the same.
        table: The index of the proposal.
    """

    cost: float
    touched: float
    ids: tuple[str, ...]
    bytes: int
    table: int
    candidates: tuple[int, ...]


def _competes(proposal: Proposal) -> bool:
    return proposal.status is Status.CHANGES and proposal.savings is not None and bool(proposal.candidates)


def _bundles(at: int, proposal: Proposal, every_workload_known: bool) -> Iterator[_Bundle]:
    if not _competes(proposal) or proposal.savings is None:
        return
    layout, worth = proposal.spec.layout, proposal.worth
    actions = [candidate.action for candidate in proposal.candidates]
    for together in _together(proposal.candidates):
        size, ids = sum(actions[n].bytes for n in together), tuple(actions[n].id for n in together)
        saved = fewer = float(proposal.savings[together].sum())
        if worth is not None:
            saved = float(worth.saves[together].sum())
            if not every_workload_known:
                saved = saved / worth.executions * len(layout.columns) / layout.target_size
        yield _Bundle(-saved / max(size, 1), -fewer / max(size, 1), ids, size, at, tuple(together))


def _together(candidates: Sequence[Candidate]) -> list[list[int]]:
    in_partition = Counter(candidate.partition for candidate in candidates)
    alone, indistinct = [], []
    for number, candidate in enumerate(candidates):
        action = candidate.action
        # A file that replaces one file overlaps the same files as before. It would count as laid out, so that the next
        # plan would find less to rewrite although nothing has improved.
        one_to_one = action.files == action.target_files == 1 and action.reason is not Reason.DELETED_ROWS
        # Groups that need longer bounds are one list. Once the table property is set, files with short bounds cannot be
        # distinguished from files that need no longer bounds (docs/adr/0004-cut-bounds.md), so that a later run would
        # not select groups that are deferred now.
        if action.reason is Reason.BOUNDS_TRUNCATED:
            indistinct.append(number)
        elif not (one_to_one and in_partition[candidate.partition] > 1):
            alone.append([number])
    return [*alone, indistinct] if indistinct else alone


def _smallest(proposal: Proposal) -> int:
    """Return the bytes of the smallest useful rewrite: of two groups of one partition, or else of everything."""
    by_partition: dict[int, list[int]] = {}
    for candidate in proposal.candidates:
        by_partition.setdefault(candidate.partition, []).append(candidate.action.bytes)
    pairs = [sum(sorted(sizes)[:2]) for sizes in by_partition.values() if len(sizes) > 1]
    return min(pairs, default=proposal.whole_bytes)
