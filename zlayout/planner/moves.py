"""Move files of an older partitioning: alone, or together with laid-out files of the partitions that they go to.

A writer that continues to use an older partition spec adds such files again and again. Their rows go to partitions that
are already laid out, where they are decay, as an append is. The plan after the move must be empty. Therefore the moved
rows are represented by laid-out files in every partition that their bounds allow (`arriving_files`), and the table is
planned with these files. If a partition exceeds a tolerance with them, the group of the moved files also gets the files
of this partition that must be merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.planner.actions import Reason
from zlayout.planner.forecast import DECIMALS, ideal_touched
from zlayout.planner.partitions import Bools, Floats, Index
from zlayout.planner.selection import Group, first_column_rank, in_parts, moved_group
from zlayout.predicate.evaluate import Nulls, Range, fact
from zlayout.predicate.model import And, Compare, IsNull
from zlayout.predicate.prune import may_match
from zlayout.spec.model import LayoutSpec
from zlayout.table.baseline import Baseline
from zlayout.table.state import (
    ColumnBounds,
    FileTable,
    LayoutRecord,
    Partition,
    PartitionField,
    TableState,
    joined,
    target_files,
)

# The maximum number of pairs of a moved group and a partition. Only a move of most of a table has more, and then the
# groups are moved alone.
MAX_ARRIVALS = 100_000


def move_groups(spec: LayoutSpec, files: FileTable, index: Index, max_bytes: int | None) -> list[Group]:
    """Return the groups of the files to move, in the order of old partitions and of the first z-order column.

    Args:
        spec: The layout spec.
        files: The files of the table.
        index: int64, the indices of the files to move.
        max_bytes: The limit of a group in bytes; None for a single group.
    """
    group = moved_group(files, index)
    if max_bytes is None:
        return [group]
    order = np.lexsort((first_column_rank(spec, files, index), files.partition[index]))
    return in_parts(index[order], group.reason, files, max_bytes)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A table as it is expected to be after its groups are moved.

    Attributes:
        state: The table without the moved files, and with files that represent the moved rows.
        kept: int64[K], the index of each file that stays, in the present table. These are the first files of `state`.
        group: int64[A], for each of the following files of `state`, the number of the group whose rows it represents.
    """

    state: TableState
    kept: Index
    group: Index

    def with_new_files(self, selected: Sequence[Group], laid: Bools) -> list[Group]:
        """Return the groups, with one more for each partition that has new files and gets rows, but has no group yet.

        This group merges the new files with the moved rows. If the new files stayed, the partition would have pending
        files, and the next plan would not accept errors of the prediction (`EXTRA_TOLERANCE` in
        `zlayout.planner.select`).

        Args:
            selected: The groups of the plan of `state`.
            laid: bool[N], the laid-out files of the present table.
        """
        partition, arriving = self.state.files.partition, np.arange(len(self.kept), len(self.state.files))
        planned = [group.partition_in(self.state.files) for group in selected]
        new = np.flatnonzero(~laid[self.kept])
        reached = np.setdiff1d(np.intersect1d(partition[new], partition[arriving]), planned)
        more = [np.concatenate([some[partition[some] == p] for some in (new, arriving)]) for p in reached]
        return [*selected, *(Group(index, Reason.DECAYED) for index in more)]

    def joined(self, groups: Sequence[Group], selected: Iterable[Group], max_bytes: float, size: Index) -> list[Group]:
        """Join the moved groups with the files that the plan of `state` merges with their rows.

        Args:
            groups: The moved groups, with indices of files in the present table.
            selected: The groups of the plan of `state`, with indices of files in `state`.
            max_bytes: The limit of a group in bytes. Groups that would be larger are not joined.
            size: int64[N], the size of each file of the present table in bytes.

        Returns:
            The groups to rewrite, with indices of files in the present table.
        """
        parent = list(range(len(groups)))

        def root(number: int) -> int:
            while parent[number] != number:
                number = parent[number]
            return number

        files = [group.index for group in groups]
        others = []
        for chosen in selected:
            present = chosen.index < len(self.kept)
            stay = self.kept[chosen.index[present]]
            moved = {root(n) for n in self.group[chosen.index[~present] - len(self.kept)].tolist()}
            if not moved:
                others.append(Group(stay, chosen.reason))
                continue
            first, *rest = sorted(moved)
            whole = np.concatenate([stay, *(files[n] for n in (first, *rest))])
            if int(size[whole].sum()) <= max_bytes:
                files[first] = np.sort(whole)
                for number in rest:
                    parent[number] = first
            elif len(stay):
                others.append(Group(stay, chosen.reason))
        joined = [Group(files[n], group.reason) for n, group in enumerate(groups) if parent[n] == n]
        return [*joined, *others]


def arrivals(
    spec: LayoutSpec,
    state: TableState,
    fields: tuple[PartitionField, ...],
    moved: Sequence[Group],
    current: Bools,
    in_scope: Bools,
) -> Arrivals:
    """Return the table as it is expected to be after groups are moved.

    Args:
        spec: The layout spec.
        state: The observed table.
        fields: The partitioning to reach.
        moved: The groups of files to move.
        current: bool[P], the partitions that have files and the partition fields to reach.
        in_scope: bool[P], the partitions in scope.
    """
    files = state.files
    kept = np.ones(len(files), bool)
    kept[np.concatenate([group.index for group in moved])] = False
    index = np.flatnonzero(kept)
    reached = np.zeros((len(moved), len(files.partitions)), bool)
    if current.any() and len(moved) * int(current.sum()) <= MAX_ARRIVALS:
        reached[:, current] = _reached(files, fields, moved, np.flatnonzero(current))
    share = 1.0 / np.maximum(reached.sum(axis=1), 1)
    group, partition = np.nonzero(reached & in_scope)
    arriving, owner = arriving_files(spec, files, moved, group, partition, share)
    return Arrivals(replace(state, files=joined([files.take(index), arriving])), index, owner)


def _reached(files: FileTable, fields: tuple[PartitionField, ...], moved: Sequence[Group], partitions: Index) -> Bools:
    """Return which groups may have rows of which of the K `partitions` (int64 indices), bool[G, K]."""
    rows = np.array([files.rows[group.index].sum() for group in moved], np.int64)
    owners = [[files.partitions[p] for p in np.unique(files.partition[group.index]).tolist()] for group in moved]
    reached = np.ones((len(moved), len(partitions)), bool)
    for field in fields:
        # The values of the field in the old partitions of each group; None if an old partition does not have the field.
        # Then the bounds of the group decide.
        before = [
            frozenset(_value(owner, field) for owner in old) if all(field in owner.fields for owner in old) else None
            for old in owners
        ]
        known = field.source in files.bounds
        hull = {field.source: hull_of(files.bounds[field.source], moved)} if known else {}
        by_value: dict[object, Bools] = {}
        for at, partition in enumerate(partitions.tolist()):
            value = _value(files.partitions[partition], field)
            if value not in by_value:
                allowed = _allowed(field, value, hull, rows).copy() if known else np.ones(len(moved), bool)
                for number, values in enumerate(before):
                    if values is not None:
                        allowed[number] = value in values
                by_value[value] = allowed
            reached[:, at] &= by_value[value]
    return reached


def _value(partition: Partition, field: PartitionField) -> object:
    return partition.values[partition.fields.index(field)]


def _allowed(field: PartitionField, value: object, hull: dict[str, ColumnBounds], rows: Index) -> Bools:
    is_date = pa.types.is_date(hull[field.source].lower.type)
    match fact(field.transform, value, is_date):
        case Nulls.EVERY_ROW:
            return may_match(IsNull(field.source), hull, rows)
        case Range(low, high, open):
            ends = (Compare(field.source, ">=", low), Compare(field.source, "<" if open else "<=", high))
            return may_match(And(ends), hull, rows)
    return np.ones(len(rows), bool)


def arriving_files(
    spec: LayoutSpec, files: FileTable, moved: Sequence[Group], group: Index, partition: Index, share: Floats
) -> tuple[FileTable, Index]:
    """Return the files that represent the rows of moved groups, for A pairs of a group and a partition.

    The number of files of a pair is the highest that the rewrite can write. Their touched is that of theory. It is not
    known which values each file will have. Therefore some of the files have the bounds of the whole group, as many as a
    query for one value is expected to open, and the others have no value of the column.

    Args:
        spec: The layout spec.
        files: The files of the table.
        moved: G groups of files.
        group: int64[A], the number of the group of each pair.
        partition: int64[A], the partition of each pair.
        share: float64[G], the share of the rows of a group that each partition of its pairs is assumed to get.

    Returns:
        The M files, at least one of each pair, and int64[M], the number of the group of each file.
    """
    parts = files.split([g.index for g in moved])
    stored = np.array([part.rows.sum() for part in parts], np.int64)
    live = np.array([part.live_rows.sum() for part in parts], np.int64)
    size = np.array([part.live_bytes.sum() for part in parts])
    # A rewrite rounds the number of files of the whole group, multiplies it by the share of a partition, and rounds
    # again. The highest result is assumed, because the group may get other files, and the share is an estimate.
    part, target = share[group], spec.layout.target_size
    highest = np.maximum(np.ceil((size[group] / target + 0.5) * part), 1).astype(np.int64)
    number = np.where(part < 1.0, highest, target_files(size[group], target))
    touched = np.maximum(ideal_touched(number, spec.layout, np.full((len(group), len(spec.column_names)), np.inf)), 1.0)
    pair = np.repeat(np.arange(len(group)), number)
    position = np.arange(len(pair)) - (np.cumsum(number) - number)[pair]
    owner, part_of_group = group[pair], share[group[pair]] / number[pair]
    rows = np.maximum(np.round(live[owner] * part_of_group), 1).astype(np.int64)
    layouts = files.layouts
    ids = [record.layout_id for record in layouts]
    if spec.layout.layout_id not in ids:
        layouts, ids = (*layouts, LayoutRecord(spec.layout.layout_id)), [*ids, spec.layout.layout_id]
    bounds = {}
    for name, of_files in files.bounds.items():
        hull = hull_of(of_files, moved)
        nulls = np.where(hull.null_count < 0, -1, hull.null_count / np.maximum(stored, 1))[owner]
        hull = hull.gathered(lambda side: side.take(pa.array(owner)), lambda column: column[owner])
        hull = replace(hull, null_count=np.where(nulls < 0, -1, np.round(nulls * rows)).astype(np.int64))
        if name in spec.column_names:
            empty = position >= np.ceil(touched[pair, spec.column_names.index(name)].round(DECIMALS))
            none, mask = pa.scalar(None, hull.lower.type), pa.array(empty)
            lower, upper = (pc.if_else(mask, none, side) for side in (hull.lower, hull.upper))
            hull = replace(hull, lower=lower, upper=upper, null_count=np.where(empty, rows, hull.null_count))
        bounds[name] = hull
    first = int(files.group.max(initial=-1)) + 1
    arriving = FileTable(
        path=pa.array([f"\0{n}" for n in range(len(pair))], pa.string()),
        version_key=pa.array([""] * len(pair), pa.string()),
        rows=rows,
        deleted=np.zeros(len(pair), np.int64),
        shared_deletes=np.zeros(len(pair), np.bool_),
        bytes=np.maximum(np.round(size[owner] * part_of_group), 1).astype(np.int64),
        partition=partition[pair].astype(np.int32),
        partitions=files.partitions,
        layout=np.full(len(pair), ids.index(spec.layout.layout_id), np.int32),
        layouts=layouts,
        group=(first + pair).astype(np.int32),
        bounds=bounds,
        baselines={
            first + n: Baseline(count, tuple(expected))
            for n, (count, expected) in enumerate(zip(number.tolist(), touched.tolist(), strict=True))
        },
    )
    return arriving, owner


def hull_of(bounds: ColumnBounds, groups: Sequence[Group]) -> ColumnBounds:
    """Return the bounds of each group as if it were one file. A bound is missing if a file of the group lacks it."""
    low, high, nulls = [], [], np.empty(len(groups), np.int64)
    for number, group in enumerate(groups):
        index = pa.array(group.index)
        lower, upper, count = bounds.lower.take(index), bounds.upper.take(index), bounds.null_count[group.index]
        low.append(pc.min_max(lower)["min"] if lower.null_count == 0 else None)
        high.append(pc.min_max(upper)["max"] if upper.null_count == 0 else None)
        nulls[number] = count.sum() if (count >= 0).all() else -1
    kind = bounds.lower.type
    return ColumnBounds(pa.array(low, kind), pa.array(high, kind), nulls, np.zeros(len(groups), bool))
