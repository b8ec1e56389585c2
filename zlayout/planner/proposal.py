"""The proposal for one table: everything from which a plan is assembled once the budget has chosen candidates."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic
from zlayout.planner import passes
from zlayout.planner.bounds import indistinct_partitions
from zlayout.planner.decayed import savings
from zlayout.planner.forecast import Measured
from zlayout.planner.model import (
    DECAY_REASONS,
    ChangeClustering,
    ChangePartitioning,
    PropertyChange,
    Reason,
    Status,
    TruncatedBounds,
    Wait,
    WaitingGroups,
)
from zlayout.planner.notes import compare_layout, partitioning
from zlayout.planner.partitions import OVERSIZED_ABOVE, SMALL_BELOW, Floats
from zlayout.planner.passes.rarely_read import marked
from zlayout.planner.ranges import rewrites_of, touched_ranges, unknown_ranges
from zlayout.planner.select import SelectionInput, select
from zlayout.planner.selection import FileSelection, Group, moved_group, set_refused_aside, totals
from zlayout.planner.work import PlanOptions
from zlayout.spec.model import LayoutSpec
from zlayout.table.order import Values, byte_order, order_of
from zlayout.table.state import MAX_THREADS, FileTable, Int64, TableState, identity_columns, pieces, side_by_side


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
        options: What the plan may do.
        selection: The groups to rewrite, with pinned files, and those that wait. After the budget is spent, groups on
            which nothing of it was spent wait too.
        predictable: Whether the order that the engine writes can be simulated on a sample of the rows.
        checked: The diagnostics that were found by checking the spec against the table.
        refusals: The reasons why the table must not be changed.
        notes: The diagnostics of the backend that are no refusals.
        whole: The totals of everything that should be rewritten; None without a budget.
        savings: By how much each group alone lowers touched of each z-order column, float64[G, d] (see
            `zlayout.planner.decayed.savings`); None without a budget.
        worth: What each group saves the queries of the workload, by which the budget ranks the groups; None if it ranks
            them by `savings`.
        budget_too_small: The reason why the table is refused although it could be changed with a larger budget.
    """

    spec: LayoutSpec
    state: TableState
    partitioning: ChangePartitioning | None
    clustering: ChangeClustering | None
    properties: tuple[PropertyChange, ...]
    truncated: tuple[TruncatedBounds, ...]
    indistinct_anyway: tuple[TruncatedBounds, ...]
    now: Measured
    options: PlanOptions
    selection: FileSelection
    predictable: bool
    checked: tuple[Diagnostic, ...]
    refusals: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    whole: WaitingGroups | None = None
    savings: Floats | None = None
    worth: Worth | None = None
    budget_too_small: Diagnostic | None = None

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
        return self.whole is not None and self.whole.bytes > (self.whole.budget or 0)

    @property
    def waits(self) -> bool:
        """Whether nothing is changed because all groups that should be rewritten wait, and not for a budget."""
        found = self.selection
        return bool(found.every_group) and not (found.groups or found.that_wait(Wait.BUDGET))

    @property
    def has_changes(self) -> bool:
        return bool(self.changes_something or self.selection.that_wait(Wait.REFUSED))

    @property
    def changes_something(self) -> bool:
        """Whether there are changes besides the rewrite of partitions that must not be rewritten."""
        groups = self.selection.every_group or self.selection.that_wait(Wait.NO_GAIN)
        clustering = self.clustering and not self.selection.that_wait(Wait.REFUSED)  # it is changed with all groups
        return bool(self.partitioning or clustering or self.properties or groups or self.exceeds_budget)

    @property
    def only_decay(self) -> bool:
        """Whether the changes only repair what other writers did after the declared layout was applied."""
        declared = self.partitioning or self.clustering or self.properties
        if declared or compare_layout(self.spec, self.state, self.selection):
            return False
        return all(group.reason in DECAY_REASONS for group in self.selection.every_group)

    @property
    def selects_nothing(self) -> bool:
        """Whether the table has partitions, and `where` matches none of them as a whole."""
        partitions = len(self.state.files.partitions)
        return 0 < partitions == self.selection.out_of_scope

    @property
    def status(self) -> Status:
        if self.refusals or self.budget_too_small:
            return Status.REFUSED
        return Status.CHANGES if self.has_changes else Status.UNCHANGED


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


def select_files(
    spec: LayoutSpec,
    state: TableState,
    change: ChangePartitioning | None,
    now: Measured,
    options: PlanOptions,
) -> tuple[FileSelection, WaitingGroups | None]:
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
    budget = options.max_rewrite_bytes
    if change is not None and change.full_rewrite:
        files = np.arange(len(state.files), dtype=np.int64)
        groups = (moved_group(state.files, files),) if len(files) else ()
        selection = FileSelection(groups, (), 0, 0, moves=True)
        selection = passes.park(selection, state, options, whole=True)
        return selection, None if budget is None else _whole(spec, state, selection, now, budget)
    fields, indistinct = partitioning(spec, state), indistinct_partitions(spec, state)
    waits = marked(state.files.partitions, options.rarely_read)

    def selected(max_bytes: int | None) -> FileSelection:
        found = select(SelectionInput(spec, state, fields, now, indistinct, max_bytes), waits)
        found = set_refused_aside(spec, found, state)
        return passes.park(found, state, options, whole=spec.layout.engine != "zlayout")

    selection = selected(spec.max_group_size)
    if budget is None:
        return selection, None
    whole = _whole(spec, state, selection, now, budget)
    if whole.bytes > budget:
        selection = selected(min(budget, spec.max_group_size or budget))
    return selection, whole


def _whole(spec: LayoutSpec, state: TableState, selection: FileSelection, now: Measured, budget: int) -> WaitingGroups:
    """Return the totals of all selected groups, with the ranges of touched after all of them are rewritten."""
    columns = unknown_ranges(spec)
    if spec.layout.engine == "zlayout" and not selection.moves:
        groups = [group.index for group in selection.groups]
        targets = [part.target_files(spec.layout.target_size) for part in state.files.split(groups)]
        columns = touched_ranges(spec, state, now, rewrites_of(state.files, groups, targets))
    return WaitingGroups(Wait.BUDGET, *totals(selection.groups, state.files), budget=budget, columns=columns)


def pin(spec: LayoutSpec, state: TableState, selection: FileSelection) -> FileSelection:
    """Pin the files of the groups to rewrite. A group id is determined by the layout id and the files."""
    pinned, layout_id = state.files.split([group.index for group in selection.groups]), spec.layout.layout_id
    groups = tuple(
        replace(
            group,
            id=hashlib.sha256(f"{layout_id}\0{digest}".encode()).hexdigest()[:12],
            digest=digest,
            files=files,
            target_files=files.target_files(spec.layout.target_size),
        )
        for files, digest, group in zip(pinned, digests_of(pinned), selection.groups, strict=True)
    )
    return replace(selection, groups=groups)


def leave_out(spec: LayoutSpec, files: FileTable, now: Measured, selection: FileSelection) -> FileSelection:
    """Let groups wait on which no budget should be spent, because their rewrite gains nothing.

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
    of_partition: dict[int, list[Group]] = {}
    for group in () if selection.moves else selection.groups:
        of_partition.setdefault(group.partition_in(files), []).append(group)
    examined = {
        partition: Group(np.concatenate([g.index for g in groups]), groups[0].reason)
        for partition, groups in of_partition.items()
        if groups[0].reason in (Reason.NOT_LAID_OUT, Reason.DECAYED) and not any(repair[g.index].any() for g in groups)
    }
    saved = savings(spec, files, now, list(examined.values())).sum(axis=1)
    useless = {partition for partition, saves in zip(examined, saved.tolist(), strict=True) if saves <= 0}
    return selection.parking(lambda group: group.partition_in(files) in useless, Wait.NO_GAIN)


# Number of files that are hashed as one block. Another number would change every digest.
FILES_PER_BLOCK = 1 << 16


def digests_of(parts: Sequence[FileTable]) -> list[str]:
    """Return the digest of each part, as 64 hexadecimal digits, which does not depend on the order of its files.

    It depends on path and version_key of each file.
    """
    if len(parts) == 1:
        return [_digest_alone(parts[0])]
    batches = [parts[at::MAX_THREADS] for at in range(MAX_THREADS)]
    digests = [""] * len(parts)
    for at, found in enumerate(side_by_side(_digests, batches, sum(map(len, parts)))):
        digests[at::MAX_THREADS] = found
    return digests


def _digests(parts: Sequence[FileTable]) -> list[str]:
    columns, order = _in_order(parts)  # together, which is faster for many small parts
    numbers = [len(part) for part in parts]
    values = _taken(columns, order[order_of(np.repeat(np.arange(len(parts)), numbers)[order])])
    return [
        _of_blocks(stop - start, [_block(values, *cut) for cut in pieces(start, stop, FILES_PER_BLOCK)])
        for start, stop in pairwise([0, *np.cumsum(numbers).tolist()])
    ]


def _digest_alone(part: FileTable) -> str:
    columns, order = _in_order((part,))

    def block(cut: tuple[int, int]) -> bytes:
        start, stop = cut
        return _block(_taken(columns, order[start:stop]), 0, stop - start)

    return _of_blocks(len(part), side_by_side(block, pieces(0, len(part), FILES_PER_BLOCK), len(part)))


def _in_order(parts: Sequence[FileTable]) -> tuple[list[pa.Array], Int64]:
    columns = identity_columns(parts)
    found = byte_order(columns[0])
    if found.fresh.all():
        return columns, found.order
    both = pa.table({"path": columns[0], "version_key": columns[1]})
    order = pc.sort_indices(both, [("path", "ascending"), ("version_key", "ascending")])
    return columns, order.to_numpy().astype(np.int64)


def _taken(columns: Sequence[pa.Array], order: Int64) -> list[Values]:
    return [Values.of(column.take(pa.array(order))) for column in columns]


def _block(columns: Sequence[Values], start: int, stop: int) -> bytes:
    digest = hashlib.sha256()
    for values in columns:
        digest.update(_as_bytes(values.lengths[start:stop]))
        digest.update(values.between(start, stop))
    return digest.digest()


def _of_blocks(number: int, blocks: Iterable[bytes]) -> str:
    return hashlib.sha256(_as_bytes(np.array([number])) + b"".join(blocks)).hexdigest()


def _as_bytes(numbers: Int64) -> bytes:
    return numbers.astype("<i8").tobytes()
