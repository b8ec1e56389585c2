"""The proposal for one table: everything from which a plan is assembled once the budget has chosen candidates."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from zlayout.errors import Diagnostic
from zlayout.planner import ordered
from zlayout.planner.actions import (
    ChangeClustering,
    ChangePartitioning,
    PropertyChange,
    Reason,
    RewriteGroup,
    TruncatedBounds,
)
from zlayout.planner.bounds import indistinct_partitions
from zlayout.planner.decayed import savings
from zlayout.planner.forecast import Measured
from zlayout.planner.model import DeferredGroups, HotGroups, Status
from zlayout.planner.notes import partitioning
from zlayout.planner.partitions import OVERSIZED_ABOVE, SMALL_BELOW, Floats, partition_names
from zlayout.planner.ranges import rewrites_of, touched_ranges, unknown_ranges
from zlayout.planner.select import SelectionInput
from zlayout.planner.selection import FileSelection, SelectedFiles, moved_group, totals
from zlayout.planner.waiting import marked, set_hot_aside, set_refused_aside
from zlayout.planner.work import PlanOptions, rewrite_group
from zlayout.spec.model import LayoutSpec
from zlayout.table.digests import digests_of
from zlayout.table.state import FileTable, TableState


@dataclass(frozen=True, slots=True)
class Proposal:
    """All changes that could be made to one table.

    Attributes:
        spec: The layout spec.
        state: The observed table.
        partitioning: The partitioning change; None if there is none.
        clustering: The change of the clustering columns; None if there is none.
        properties: The table properties to set.
        truncated: The columns whose bounds become longer in rewritten files.
        indistinct_anyway: The columns with indistinct bounds although the table already keeps long bounds.
        now: The present metrics.
        selection: The files to rewrite.
        candidates: The groups of the selection with pinned files, in the same order.
        predictable: Whether the order that the engine writes can be simulated on a sample of the rows.
        checked: The diagnostics that were found by checking the spec against the table.
        refusals: The reasons why the table must not be changed.
        notes: The diagnostics of the backend that are no refusals.
        whole: The totals of everything that should be rewritten; None without a budget.
        hot: The totals of the groups that wait because their partitions are hot; None if none waits.
        savings: By how much each candidate alone lowers touched of each z-order column, float64[G, d] (see
            `zlayout.planner.decayed.savings`); None without a budget.
        worth: What each candidate saves the queries of the workload, by which the budget ranks the candidates; None if
            it ranks them by `savings`.
    """

    spec: LayoutSpec
    state: TableState
    partitioning: ChangePartitioning | None
    clustering: ChangeClustering | None
    properties: tuple[PropertyChange, ...]
    truncated: tuple[TruncatedBounds, ...]
    indistinct_anyway: tuple[TruncatedBounds, ...]
    now: Measured
    selection: FileSelection
    candidates: tuple[Candidate, ...]
    predictable: bool
    checked: tuple[Diagnostic, ...]
    refusals: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    whole: DeferredGroups | None = None
    hot: HotGroups | None = None
    savings: Floats | None = None
    worth: Worth | None = None

    @property
    def provable(self) -> bool:
        """Whether metadata limits the metrics after the rewrite: the engine is zlayout, and no rows are moved."""
        return self.spec.layout.engine == "zlayout" and not self.selection.moves

    @property
    def moves(self) -> bool:
        """Whether the engine is zlayout, and rows are moved to other partitions."""
        return self.spec.layout.engine == "zlayout" and self.selection.moves

    @property
    def whole_bytes(self) -> int:
        """The size in bytes of everything that should be rewritten; 0 without a budget."""
        return self.whole.bytes if self.whole else 0

    @property
    def exceeds_budget(self) -> bool:
        """Whether the files that should be rewritten are larger than the budget."""
        return self.whole is not None and self.whole.bytes > self.whole.budget

    @property
    def waits(self) -> bool:
        """Whether nothing is changed because all files that should be rewritten are in hot partitions."""
        return self.hot is not None and not self.candidates

    @property
    def has_changes(self) -> bool:
        return bool(self.changes_something or self.selection.refused)

    @property
    def changes_something(self) -> bool:
        """Whether there are changes besides the rewrite of partitions that must not be rewritten."""
        groups = self.candidates or self.selection.left_out or self.selection.hot
        return bool(self.partitioning or self.clustering or self.properties or groups or self.exceeds_budget)

    @property
    def selects_nothing(self) -> bool:
        """Whether the table has partitions, and `where` matches none of them as a whole."""
        partitions = len(self.state.files.partitions)
        return 0 < partitions == self.selection.out_of_scope

    @property
    def status(self) -> Status:
        if self.refusals:
            return Status.REFUSED
        return Status.CHANGES if self.has_changes else Status.UNCHANGED

    @property
    def everything(self) -> Choice:
        """The choice of every candidate."""
        return Choice(tuple(range(len(self.candidates))))


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates of a proposal that are carried out.

    Attributes:
        candidates: Their indices in `Proposal.candidates`.
        refusal: The reason why the table is refused instead; None if it is not.
    """

    candidates: tuple[int, ...]
    refusal: Diagnostic | None = None


@dataclass(frozen=True, slots=True)
class Worth:
    """What the rewrite of each of G groups alone saves the queries of a workload.

    Attributes:
        saves: float64[G], the number of bytes that all executions of the workload no longer open; negative if they open
            more.
        executions: The number of executions of the workload that can skip files of the table.
    """

    saves: Floats
    executions: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A group that could be rewritten.

    Attributes:
        action: The action that rewrites it.
        files: Its pinned files.
        digest: The digest of these files, for `FilesAre`.
    """

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
    options: PlanOptions,
) -> tuple[FileSelection, DeferredGroups | None]:
    """Select the files to rewrite.

    Args:
        spec: The layout spec.
        state: The observed table.
        change: The partitioning change; None if there is none.
        now: The present metrics.
        options: The budget, and which partitions wait.

    Returns:
        The selected files, where possible in groups no larger than the budget and `max_group_size`. The totals of
        everything that should be rewritten and does not wait: what a run that rewrites nothing would defer; None
        without a budget.
    """
    budget, hot_after = options.max_rewrite_bytes, options.hot_after
    if change is not None and change.full_rewrite:
        files = np.arange(len(state.files), dtype=np.int64)
        groups = (moved_group(state.files, files),) if len(files) else ()
        selection = FileSelection(groups, (), 0, 0, moves=True)
        selection = set_hot_aside(selection, state, hot_after, whole=True)
        return selection, None if budget is None else _whole(spec, state, selection, now, budget)
    fields, indistinct = partitioning(spec, state), indistinct_partitions(spec, state)
    waits = marked(state.files.partitions, options.rarely_read)

    def selected(max_bytes: int | None) -> FileSelection:
        found = ordered.select(SelectionInput(spec, state, fields, now, indistinct, max_bytes), waits)
        found = set_refused_aside(spec, found, state)
        return set_hot_aside(found, state, hot_after, whole=spec.layout.engine != "zlayout")

    selection = selected(spec.max_group_size)
    if budget is None:
        return selection, None
    whole = _whole(spec, state, selection, now, budget)
    if whole.bytes > budget:
        selection = selected(min(budget, spec.max_group_size or budget))
    return selection, whole


def _whole(spec: LayoutSpec, state: TableState, selection: FileSelection, now: Measured, budget: int) -> DeferredGroups:
    """Return the totals of all selected groups, with the ranges of touched after all of them are rewritten."""
    columns = unknown_ranges(spec)
    if spec.layout.engine == "zlayout" and not selection.moves:
        groups = [s.files for s in selection.groups]
        targets = [part.target_files(spec.layout.target_size) for part in state.files.split(groups)]
        columns = touched_ranges(spec, state, now, rewrites_of(state.files, groups, targets))
    return DeferredGroups(budget, *totals(selection.groups, state.files), columns)


def pin(spec: LayoutSpec, state: TableState, selection: FileSelection) -> tuple[Candidate, ...]:
    """Return the selected groups with their pinned files. A group id is determined by the layout id and the files."""
    pinned = state.files.split([chosen.files for chosen in selection.groups])
    numbers = partition_names(state.files.partitions)[1].tolist() if pinned else []
    candidates = []
    for files, digest, chosen in zip(pinned, digests_of(pinned), selection.groups, strict=True):
        group = hashlib.sha256(f"{spec.layout.layout_id}\0{digest}".encode()).hexdigest()[:12]
        targets = files.target_files(spec.layout.target_size)
        candidates.append(Candidate(rewrite_group(group, files, targets, chosen.reason, numbers), files, digest))
    return tuple(candidates)


def leave_out(spec: LayoutSpec, files: FileTable, now: Measured, selection: FileSelection) -> FileSelection:
    """Move groups on which no budget should be spent, because their rewrite gains nothing, from `groups` to `left_out`.

    These are the groups of a partition whose rewrite is predicted not to lower touched, if they are selected because of
    a first layout or decay, and if none of their files is small, oversized or has deleted rows.
    """
    target = spec.layout.target_size
    repair = (
        (files.deleted > 0)
        | files.shared_deletes
        | (files.bytes < SMALL_BELOW * target)
        | (files.bytes > OVERSIZED_ABOVE * target)
    )
    of_partition: dict[int, list[SelectedFiles]] = {}
    for group in () if selection.moves else selection.groups:
        of_partition.setdefault(group.partition_in(files), []).append(group)
    examined = {
        partition: SelectedFiles(np.concatenate([g.files for g in groups]), groups[0].reason)
        for partition, groups in of_partition.items()
        if groups[0].reason in (Reason.NOT_LAID_OUT, Reason.DECAYED) and not any(repair[g.files].any() for g in groups)
    }
    saved = savings(spec, files, now, list(examined.values())).sum(axis=1)
    useless = {partition for partition, saves in zip(examined, saved.tolist(), strict=True) if saves <= 0}
    if not useless:
        return selection
    kept = tuple(group for group in selection.groups if group.partition_in(files) not in useless)
    out = tuple(group for group in selection.groups if group.partition_in(files) in useless)
    return replace(selection, groups=kept, left_out=out)
