"""Spend a budget on the groups that lower touched, or the bytes that a workload opens, most for each byte rewritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from zlayout.planner.model import RankedBy, Reason, Status, Wait, WaitingGroups
from zlayout.planner.notes import budget_too_small
from zlayout.planner.proposal import Proposal
from zlayout.planner.selection import Group, totals


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
    return chosen if rest(chosen) else proposal


def rest(proposal: Proposal) -> int:
    """Return the number of bytes that are deferred if only the groups that do not wait are rewritten."""
    return proposal.whole_bytes - sum(group.bytes for group in proposal.selection.groups)


def section(proposal: Proposal) -> WaitingGroups | None:
    """Return the totals of the groups that the budget defers; None if it defers none."""
    left, selection = rest(proposal), proposal.selection
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
