"""Spend a byte budget where touched, or the bytes that a workload opens, decrease most per byte. Pure functions."""

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

    Candidates of a table with a known workload are ranked by the bytes that its queries save for each byte written. If
    this is known of every table, all executions count. If not, each of these tables counts as having as many executions
    as z-order columns, because touched is the number of files that one query for each of these columns opens.

    Args:
        proposals: One per table.
        budget: The limit on rewritten bytes; None for no limit.

    Returns:
        The choice for each proposal, in the same order. If the budget is smaller than every candidate, each table that
        has something to rewrite is refused with ZL205.
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
    """Choose the candidates with these ids, which a budget chose for a saved plan."""
    return _choice(proposal, [n for n, candidate in enumerate(proposal.candidates) if candidate.action.id in ids])


def _choice(proposal: Proposal, candidates: Collection[int]) -> Choice:
    """Choose these candidates, or all if nothing would be deferred."""
    if proposal.status is not Status.CHANGES or not proposal.whole_bytes or rest(proposal, candidates) == 0:
        return proposal.everything
    return Choice(tuple(sorted(candidates)))


def rest(proposal: Proposal, candidates: Collection[int]) -> int:
    """Return the number of bytes that are deferred if only these candidates are rewritten."""
    return proposal.whole_bytes - sum(proposal.candidates[n].action.bytes for n in candidates)


def _needs_budget(proposal: Proposal) -> bool:
    """Return whether a budget should be spent on some of what is deferred."""
    left_out = totals(proposal.selection.left_out, proposal.state.files)[2]
    return proposal.status is Status.CHANGES and proposal.whole_bytes > left_out


class _Bundle(NamedTuple):
    """Candidates of one table that are rewritten together or not at all. The budget chooses bundles in sort order."""

    cost: float  # the change of touched, or of the bytes that queries open, per byte; negative if it decreases
    touched: float  # the change of touched per byte, which ranks bundles of equal cost: those that no query opens
    ids: tuple[str, ...]
    bytes: int
    table: int
    candidates: tuple[int, ...]


def _competes(proposal: Proposal) -> bool:
    """Return whether the proposal has candidates that a budget can be spent on."""
    return proposal.status is Status.CHANGES and proposal.savings is not None and bool(proposal.candidates)


def _bundles(at: int, proposal: Proposal, every_workload_known: bool) -> Iterator[_Bundle]:
    """Yield the bundles of proposal number `at`, ranked as `choose` describes."""
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
    """Return sets of candidate numbers that are rewritten together or not at all.

    Once a table property makes bounds longer, files with short bounds cannot be distinguished from files that need no
    longer bounds (docs/adr/0004-cut-bounds.md). A later run would not select groups that are deferred now.

    A rewrite of one file to one file that overlaps other files of its partition as before is left out. The new file
    would count as laid out, so that the partition would count as done although nothing improved.
    """
    parts = Counter(candidate.partition for candidate in candidates)
    alone, indistinct = [], []
    for number, candidate in enumerate(candidates):
        action = candidate.action
        one_to_one = action.files == action.target_files == 1 and action.reason is not Reason.DELETED_ROWS
        if action.reason is Reason.BOUNDS_TRUNCATED:
            indistinct.append(number)
        elif not (one_to_one and parts[candidate.partition] > 1):
            alone.append([number])
    return [*alone, indistinct] if indistinct else alone


def _smallest(proposal: Proposal) -> int:
    """Return the size of the smallest useful rewrite: two parts of one partition, or all if no partition has two."""
    by_partition: dict[int, list[int]] = {}
    for candidate in proposal.candidates:
        by_partition.setdefault(candidate.partition, []).append(candidate.action.bytes)
    pairs = [sum(sorted(sizes)[:2]) for sizes in by_partition.values() if len(sizes) > 1]
    return min(pairs, default=proposal.whole_bytes)
