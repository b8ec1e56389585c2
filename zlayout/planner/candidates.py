"""Select candidates: groups of files that could be rewritten, divided to fit a budget, with pinned files."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from zlayout.planner import ordered, truncated_bounds
from zlayout.planner.actions import ChangePartitioning, RewriteGroup
from zlayout.planner.forecast import Measured
from zlayout.planner.model import DeferredGroups
from zlayout.planner.partitions import target_files
from zlayout.planner.select import moved
from zlayout.planner.selection import FileSelection
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
    spec: LayoutSpec, state: TableState, change: ChangePartitioning | None, now: Measured, budget: int | None
) -> tuple[FileSelection, DeferredGroups | None]:
    """Select the files to rewrite.

    Args:
        spec: The declared layout.
        state: The observed table.
        change: The partitioning change, if there is one.
        now: The present metrics of the table.
        budget: The limit on rewritten bytes; None for no limit.

    Returns:
        The selected files, in groups of at most `budget` bytes where possible. With a budget, also the totals of
        everything that should be rewritten, which is what a run that rewrites nothing would defer.
    """
    if change is not None and change.full_rewrite:
        selection = _everything(state, now)
        return selection, None if budget is None else _whole(spec, state, selection, budget)
    fields, indistinct = partitioning(spec, state), truncated_bounds.indistinct_partitions(spec, state)
    selection = ordered.select(spec, state, fields, now, indistinct, spec.max_group_size)
    if budget is None:
        return selection, None
    whole = _whole(spec, state, selection, budget)
    if whole.bytes > budget:
        selection = ordered.select(spec, state, fields, now, indistinct, min(budget, spec.max_group_size or budget))
    return selection, whole


def _everything(state: TableState, now: Measured) -> FileSelection:
    """Select all files as one group, for a partitioning change that rewrites the whole table."""
    files = np.arange(len(state.files), dtype=np.int64)
    groups = (moved(state.files, files),) if len(files) else ()
    return FileSelection(groups, now.ideal, now.targets, (), 0, 0, moves=True)


def _whole(spec: LayoutSpec, state: TableState, selection: FileSelection, budget: int) -> DeferredGroups:
    size = sum(int(state.files.bytes[s.files].sum()) for s in selection.groups)
    files = sum(len(s.files) for s in selection.groups)
    touched = zip(spec.column_names, selection.touched.sum(axis=0).tolist(), strict=True)
    return DeferredGroups(budget, len(selection.groups), files, size, tuple(touched))


def pin(spec: LayoutSpec, state: TableState, selection: FileSelection) -> tuple[Candidate, ...]:
    """Pin the files of the selected groups and compute digests and ids. Equal files and layouts have equal ids."""
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
