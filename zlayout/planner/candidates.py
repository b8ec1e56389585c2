"""Select candidates: groups of files that could be rewritten, divided to fit a budget, with pinned files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from zlayout.planner import ordered, truncated_bounds
from zlayout.planner.actions import ChangePartitioning, Reason, RewriteGroup
from zlayout.planner.decayed import savings
from zlayout.planner.deferred import DeferredGroups
from zlayout.planner.forecast import Measured
from zlayout.planner.grouping import moved
from zlayout.planner.hot import set_aside
from zlayout.planner.partition_text import partition_names
from zlayout.planner.partitions import OVERSIZED_ABOVE, SMALL_BELOW, target_files
from zlayout.planner.ranges import rewrites_of, touched_ranges, unknown_ranges
from zlayout.planner.rarely_read import marked
from zlayout.planner.selection import FileSelection, SelectedFiles
from zlayout.planner.settings import partitioning
from zlayout.planner.work import rewrite_group
from zlayout.spec.model import LayoutSpec
from zlayout.table.digests import digests_of
from zlayout.table.state import FileTable, TableState


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group that could be rewritten, with its pinned files and their digest (see `FilesAre`)."""

    action: RewriteGroup
    files: FileTable
    digest: str

    @property
    def partition(self) -> int:
        """The index of the partition that contains the first file."""
        return int(self.files.partition[0])


def select_files(
    spec: LayoutSpec,
    state: TableState,
    change: ChangePartitioning | None,
    now: Measured,
    budget: int | None,
    hot_after: int | None = None,
    rarely_read: frozenset[str | int] = frozenset(),
) -> tuple[FileSelection, DeferredGroups | None]:
    """Select the files to rewrite.

    Args:
        change: The partitioning change, if there is one.
        budget: The limit on rewritten bytes; None for no limit.
        hot_after, rarely_read: See `PlanOptions`.

    Returns:
        The selected files, in groups of at most `budget` bytes where possible. With a budget, also the totals of
        everything that should be rewritten and does not wait, which is what a run that rewrites nothing would defer.
    """
    if change is not None and change.full_rewrite:
        selection = set_aside(_everything(state, now), state, hot_after, whole=True)
        return selection, None if budget is None else _whole(spec, state, selection, now, budget)
    fields, indistinct = partitioning(spec, state), truncated_bounds.indistinct_partitions(spec, state)

    waits = marked(state.files.partitions, rarely_read)

    def selected(max_bytes: int | None) -> FileSelection:
        found = ordered.select(spec, state, fields, now, indistinct, max_bytes, waits)
        return set_aside(found, state, hot_after, whole=spec.layout.engine != "zlayout")

    selection = selected(spec.max_group_size)
    if budget is None:
        return selection, None
    whole = _whole(spec, state, selection, now, budget)
    if whole.bytes > budget:
        selection = selected(min(budget, spec.max_group_size or budget))
    return selection, whole


def _everything(state: TableState, now: Measured) -> FileSelection:
    """Select all files as one group, for a partitioning change that rewrites the whole table."""
    files = np.arange(len(state.files), dtype=np.int64)
    groups = (moved(state.files, files),) if len(files) else ()
    return FileSelection(groups, now.ideal, now.targets, (), 0, 0, moves=True)


def _whole(spec: LayoutSpec, state: TableState, selection: FileSelection, now: Measured, budget: int) -> DeferredGroups:
    size = sum(int(state.files.bytes[s.files].sum()) for s in selection.groups)
    files = sum(len(s.files) for s in selection.groups)
    columns = unknown_ranges(spec)
    if spec.layout.engine == "zlayout" and not selection.moves:
        groups = [s.files for s in selection.groups]
        targets = [target_files(part, spec.layout.target_size) for part in state.files.split(groups)]
        columns = touched_ranges(spec, state, now, rewrites_of(state.files, groups, targets))
    return DeferredGroups(budget, len(selection.groups), files, size, columns)


def pin(spec: LayoutSpec, state: TableState, selection: FileSelection) -> tuple[Candidate, ...]:
    """Pin the files of the selected groups and compute digests and ids. Equal files and layouts have equal ids."""
    pinned = state.files.split([chosen.files for chosen in selection.groups])
    numbers = partition_names(state.files.partitions)[1].tolist() if pinned else []
    size = spec.layout.target_size
    return tuple(
        Candidate(
            rewrite_group(_id(spec, digest), files, target_files(files, size), chosen.reason, numbers),
            files,
            digest,
        )
        for files, digest, chosen in zip(pinned, digests_of(pinned), selection.groups, strict=True)
    )


def leave_out(spec: LayoutSpec, files: FileTable, now: Measured, selection: FileSelection) -> FileSelection:
    """Leave out the groups of partitions on which no budget should be spent, because a rewrite gains nothing.

    The rewrite is predicted not to lower touched, and the selected files have no small or oversized files, no deleted
    rows, and no other reason than that they have no layout record.

    Returns:
        The selection without these groups.
    """
    target = spec.layout.target_size
    repair = (files.deleted > 0) | (files.bytes < SMALL_BELOW * target) | (files.bytes > OVERSIZED_ABOVE * target)
    of_partition: dict[int, list[SelectedFiles]] = {}
    for group in () if selection.moves else selection.groups:
        of_partition.setdefault(int(files.partition[group.files[0]]), []).append(group)
    unrecorded = {
        partition: SelectedFiles(np.concatenate([g.files for g in groups]), groups[0].reason)
        for partition, groups in of_partition.items()
        if groups[0].reason in (Reason.NOT_LAID_OUT, Reason.DECAYED) and not any(repair[g.files].any() for g in groups)
    }
    saved = savings(spec, files, now, list(unrecorded.values())).sum(axis=1)
    idle = {partition for partition, saves in zip(unrecorded, saved.tolist(), strict=True) if saves <= 0}
    if not idle:
        return selection
    out = [group for partition in idle for group in of_partition[partition]]
    number, size = sum(len(g.files) for g in out), sum(int(files.bytes[g.files].sum()) for g in out)
    kept = tuple(g for g in selection.groups if int(files.partition[g.files[0]]) not in idle)
    return replace(selection, groups=kept, left_out=len(out), left_out_files=number, left_out_bytes=size)


def _id(spec: LayoutSpec, digest: str) -> str:
    return hashlib.sha256(f"{spec.layout.layout_id}\0{digest}".encode()).hexdigest()[:12]
