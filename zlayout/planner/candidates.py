"""The groups of files that could be rewritten: selected, divided where a budget demands it, and pinned."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zlayout.planner import cut_bounds, ordered
from zlayout.planner.actions import ChangePartitioning, Reason, RewriteGroup
from zlayout.planner.forecast import Measured
from zlayout.planner.model import LeftOver
from zlayout.planner.partition_text import partition_text
from zlayout.planner.partitions import target_files
from zlayout.planner.select import Selection, moved
from zlayout.planner.settings import partitioning
from zlayout.planner.work import Group
from zlayout.spec.model import LayoutSpec
from zlayout.table.digests import digests_of
from zlayout.table.state import FileTable, Partition, TableState


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group that could be rewritten. files: the pinned files; digest: of these, as in `FilesAre`."""

    action: RewriteGroup
    files: FileTable
    digest: str

    @property
    def partition(self) -> int:
        """The number of the partition that the files are in (of the first file, where they move to another one)."""
        return int(self.files.partition[0])

    @property
    def group(self) -> Group:
        """The group as a backend takes it."""
        return Group(self.action.id, self.files, self.action.target_files)


def select_files(
    spec: LayoutSpec, state: TableState, change: ChangePartitioning | None, now: Measured, budget: int | None
) -> tuple[Selection, LeftOver | None]:
    """Select the files to rewrite.

    Args:
        spec: the declared layout.
        state: the observed table.
        change: the change of the partitioning, if there is one.
        now: the table's metrics.
        budget: bytes that the run may rewrite, None for no limit.

    Returns:
        The selection, with groups of at most `budget` bytes where that is possible; and, with a budget, all that
        should be rewritten, as it is left over when nothing of it is done.
    """
    if change is not None and change.full_rewrite:
        selection = _everything(state, now)
        return selection, None if budget is None else _whole(spec, state, selection, budget)
    fields, blind = partitioning(spec, state), cut_bounds.blind_partitions(spec, state)
    selection = ordered.select(spec, state, fields, now, blind, spec.max_group_size)
    if budget is None:
        return selection, None
    whole = _whole(spec, state, selection, budget)
    if whole.bytes > budget:
        selection = ordered.select(spec, state, fields, now, blind, min(budget, spec.max_group_size or budget))
    return selection, whole


def _everything(state: TableState, now: Measured) -> Selection:
    """All files as one group: the partitioning changes, and the format must rewrite the whole table for that."""
    files = np.arange(len(state.files), dtype=np.int64)
    groups = (moved(state.files, files),) if len(files) else ()
    return Selection(groups, now.ideal, now.targets, (), 0, 0, moves=True)


def _whole(spec: LayoutSpec, state: TableState, selection: Selection, budget: int) -> LeftOver:
    size = sum(int(state.files.bytes[s.files].sum()) for s in selection.groups)
    files = sum(len(s.files) for s in selection.groups)
    touched = zip(spec.column_names, selection.touched.sum(axis=0).tolist(), strict=True)
    return LeftOver(budget, len(selection.groups), files, size, tuple(touched))


def pin(spec: LayoutSpec, state: TableState, selection: Selection) -> tuple[Candidate, ...]:
    """The selected groups with their files, digests and ids. Equal files and an equal layout give an equal id."""
    pinned = state.files.split([chosen.files for chosen in selection.groups])
    digests, _ = digests_of(pinned)
    return tuple(
        Candidate(_action(spec, state.files.partitions, files, digest, chosen.reason), files, digest)
        for files, digest, chosen in zip(pinned, digests, selection.groups, strict=True)
    )


def _action(
    spec: LayoutSpec, partitions: Sequence[Partition], files: FileTable, digest: str, reason: Reason
) -> RewriteGroup:
    owner = files.partition
    inside = owner[:1] if (owner == owner[0]).all() else np.unique(owner)
    more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
    return RewriteGroup(
        id=hashlib.sha256(f"{spec.layout.layout_id}\0{digest}".encode()).hexdigest()[:12],
        partition=f"{partition_text(partitions[inside[0]])}{more}",
        files=len(files),
        bytes=int(files.bytes.sum()),
        rows=int(files.live_rows.sum()),
        target_files=target_files(files, spec.layout.target_size),
        reason=reason,
        partitions=len(inside),
    )
