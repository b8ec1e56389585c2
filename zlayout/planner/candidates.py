"""The groups of files that could be rewritten: selected, divided where a budget demands it, and pinned."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from zlayout.planner import cut_bounds, ordered
from zlayout.planner.actions import ChangePartitioning, RewriteGroup
from zlayout.planner.forecast import Measured
from zlayout.planner.model import LeftOver
from zlayout.planner.partitions import target_files
from zlayout.planner.select import Selection, moved
from zlayout.planner.settings import partitioning
from zlayout.planner.work import rewrite_group
from zlayout.spec.model import LayoutSpec
from zlayout.table.digests import digests_of
from zlayout.table.state import FileTable, TableState


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
    return tuple(
        Candidate(
            rewrite_group(_id(spec, digest), files, target_files(files, spec.layout.target_size), chosen.reason),
            files,
            digest,
        )
        for files, digest, chosen in zip(pinned, digests_of(pinned), selection.groups, strict=True)
    )


def _id(spec: LayoutSpec, digest: str) -> str:
    return hashlib.sha256(f"{spec.layout.layout_id}\0{digest}".encode()).hexdigest()[:12]
