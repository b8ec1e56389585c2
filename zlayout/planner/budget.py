"""A byte budget: of all that could be rewritten, the groups that lower touched most for each byte. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from zlayout.planner.actions import ChangePartitioning, Reason, RewriteGroup, SetProperties
from zlayout.planner.decision import Decision
from zlayout.planner.diff import too_small
from zlayout.planner.model import Status, TablePlan
from zlayout.planner.requirements import FilesAre, PropertyIs
from zlayout.spec.model import LayoutSpec


def spend(decisions: Sequence[tuple[LayoutSpec, Decision]], budget: int) -> tuple[Decision, ...]:
    """The decisions with what `budget` bytes can do, in the same order: greedy by touched saved for each byte.

    Where nothing at all fits, every table that has something to rewrite is refused with ZL205.
    """
    choices = []
    for at, (_, decision) in enumerate(decisions):
        if decision.offer is None:
            continue
        for together in _together(decision.plan):
            groups = [decision.plan.groups[number] for number in together]
            size, ids = sum(group.bytes for group in groups), tuple(group.id for group in groups)
            choices.append((-float(decision.offer.saves[together].sum()) / max(size, 1), ids, size, at))
    taken: dict[int, set[str]] = {}
    left = budget
    for _, ids, size, at in sorted(choices):
        if size <= left:
            taken.setdefault(at, set()).update(ids)
            left -= size
    wanted = [_least_that_helps(d) for _, d in decisions if d.offer is not None and d.offer.whole.bytes]
    if wanted and not taken:
        least = min([size for _, _, size, _ in choices] or wanted)
        return tuple(_refused(spec, decision, budget, least) for spec, decision in decisions)
    return tuple(take(decision, taken.get(at, ())) for at, (_, decision) in enumerate(decisions))


def _together(plan: TablePlan) -> list[list[int]]:
    """The groups (by number) that are done together or not at all.

    Once a table's property makes bounds longer, files with short ones cannot be told from those that need no more
    (docs/adr/0004-cut-bounds.md), so that what is left over of them would be forgotten.
    """
    blind = [number for number, group in enumerate(plan.groups) if group.reason is Reason.BOUNDS_CUT]
    parts = Counter(group.partition for group in plan.groups)
    alone = [
        [number]
        for number, group in enumerate(plan.groups)
        if group.reason is not Reason.BOUNDS_CUT and not _changes_nothing(group, parts[group.partition])
    ]
    return [*alone, blind] if blind else alone


def _least_that_helps(decision: Decision) -> int:
    """Bytes of the smallest two parts of a partition, where there are any, else of all that there is to rewrite."""
    by_partition: dict[str, list[int]] = {}
    for group in decision.plan.groups:
        by_partition.setdefault(group.partition, []).append(group.bytes)
    pairs = [sum(sorted(sizes)[:2]) for sizes in by_partition.values() if len(sizes) > 1]
    return min(pairs, default=decision.offer.whole.bytes if decision.offer else 0)


def _changes_nothing(group: RewriteGroup, parts: int) -> bool:
    """Whether it makes one file of one file, among others of the partition that it stays mixed with.

    It would count as laid out, so that in the end nothing was left to do and nothing was gained.
    """
    return parts > 1 and group.files == group.target_files == 1 and group.reason is not Reason.DELETED_ROWS


def take(decision: Decision, ids: Collection[str]) -> Decision:
    """The decision with only those of its offered groups that have these ids, and what is left over.

    Without the groups that are rewritten for longer bounds, the property that makes bounds longer stays as it is, and
    so does the partitioning without the one group that is the whole table.
    """
    offer, plan = decision.offer, decision.plan
    if offer is None:
        return decision
    offered = plan.groups
    kept = [number for number, group in enumerate(decision.groups) if group.id in ids]
    groups = tuple(decision.groups[number] for number in kept)
    rest = offer.whole.bytes - sum(offered[number].bytes for number in kept)
    if not rest:
        return replace(decision, offer=None)
    saved = offer.saves[kept].sum(axis=0)
    properties, diagnostics = plan.properties, plan.diagnostics
    if any(group.reason is Reason.BOUNDS_CUT and group.id not in ids for group in offered):
        promises = [d for d in plan.diagnostics if d.code == "ZL406" and any(name in d.hint for name in offer.longer)]
        properties = tuple(p for p in plan.properties if p.name not in offer.longer)
        diagnostics = tuple(d for d in plan.diagnostics if d not in promises)
    partitioning = plan.partitioning
    if partitioning is not None and partitioning.full_rewrite:
        partitioning, decision = None, replace(decision, partition_by=None)
    settings = (SetProperties(properties),) if properties else ()
    change: tuple[ChangePartitioning, ...] = (partitioning,) if partitioning else ()
    names = {p.name for p in properties}
    plan = replace(
        plan,
        actions=(*settings, *change, *(offered[number] for number in kept)),
        requirements=tuple(
            r
            for r in plan.requirements
            if not (isinstance(r, PropertyIs) and r.name not in names)
            and not (isinstance(r, FilesAre) and r.group not in ids)
        ),
        diagnostics=diagnostics,
        columns=tuple(
            replace(c, predicted=c.touched - float(saved[at]) if kept and c.predicted is not None else None)
            for at, c in enumerate(plan.columns)
        ),
        left_over=replace(
            offer.whole,
            # what was offered may be less than all: new files without the groups that they should be merged with
            groups=max(len(decision.groups) - len(kept), 1),
            files=offer.whole.files - sum(offered[number].files for number in kept),
            bytes=rest,
        ),
    )
    return replace(decision, plan=plan, groups=groups, offer=None)


def _refused(spec: LayoutSpec, decision: Decision, budget: int, least: int) -> Decision:
    plan = take(decision, ()).plan
    if decision.offer is None or plan.left_over is None:
        return decision
    refusal = too_small(spec, budget, least)
    return Decision(replace(plan, status=Status.REFUSED, diagnostics=(*plan.diagnostics, refusal)))
