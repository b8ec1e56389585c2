"""Move files of an older partitioning: alone, or together with the laid-out files that their rows would make decay.

A writer that continues to use an older partition spec keeps adding such files. Their rows go to partitions that are
laid out already, where they are decay, as an append is. The plan after the move must be empty. Therefore the rows are
planned as laid-out files in every partition that their bounds allow (`zlayout.planner.arriving`). If such a partition
would then exceed its tolerance, the group also has the files that must be merged with these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from zlayout.planner.actions import Reason
from zlayout.planner.arriving import arriving_files, hull_of
from zlayout.planner.partitions import Bools, Index
from zlayout.planner.selection import SelectedFiles, first_column_rank, in_parts
from zlayout.predicate.facts import Null, Range, fact
from zlayout.predicate.model import And, Compare, IsNull
from zlayout.predicate.prune import may_match
from zlayout.spec.model import LayoutSpec
from zlayout.table.joined import joined
from zlayout.table.state import ColumnBounds, FileTable, Partition, PartitionField, TableState

# Pairs of a group and a partition. With more, which only a move of most of a table has, groups are moved alone.
MAX_ARRIVALS = 100_000


def move_groups(spec: LayoutSpec, files: FileTable, index: Index, max_bytes: int | None) -> list[SelectedFiles]:
    """Group the files to move (int64 indices) by old partition and the first z-order column, in limited groups.

    Args:
        index: The files to move.
        max_bytes: The limit of a group in bytes; None for one group.
    """
    reason = Reason.PARTITIONING_CHANGED if (files.layout >= 0).any() else Reason.NOT_LAID_OUT
    if max_bytes is None:
        return [SelectedFiles(index, reason)]
    order = np.lexsort((first_column_rank(spec, files, index), files.partition[index]))
    return in_parts(index[order], reason, files, max_bytes)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A table as it will be when its groups are moved.

    Attributes:
        state: The table without the moved files, and with the laid-out files that each group writes in each partition.
        kept: int64[K], the index of each file that stays. They are the first files of `state`.
        group: int64[A], the number of the group of each file after these.
    """

    state: TableState
    kept: Index
    group: Index

    def with_new_files(self, selected: Sequence[SelectedFiles], laid: Bools) -> list[SelectedFiles]:
        """Add the new files of partitions in which rows arrive and nothing is selected, to be merged with these rows.

        The tolerance for new files is that of theory. Without new files, errors of the prediction are accepted.

        Args:
            selected: The groups of the plan of `state`.
            laid: bool[N], the laid-out files of the table.
        """
        partition, arriving = self.state.files.partition, np.arange(len(self.kept), len(self.state.files))
        taken = [group.partition_in(self.state.files) for group in selected]
        new = np.flatnonzero(~laid[self.kept])
        reached = np.setdiff1d(np.intersect1d(partition[new], partition[arriving]), taken)
        more = [np.concatenate([some[partition[some] == p] for some in (new, arriving)]) for p in reached]
        return [*selected, *(SelectedFiles(index, Reason.DECAYED) for index in more)]

    def joined(
        self, groups: Sequence[SelectedFiles], selected: Iterable[SelectedFiles], max_bytes: float, size: Index
    ) -> list[SelectedFiles]:
        """Join the moved groups with what the plan of `state` merges with their rows.

        Args:
            groups: The moved groups, of the files of the table.
            selected: The groups of the plan of `state`.
            max_bytes: The limit of a group. Groups that would be larger are not joined.
            size: int64[N], the size of each file in bytes.

        Returns:
            The groups to rewrite, of the files of the table.
        """
        parent = list(range(len(groups)))

        def root(number: int) -> int:
            while parent[number] != number:
                number = parent[number]
            return number

        files = [group.files for group in groups]
        others = []
        for chosen in selected:
            present = chosen.files < len(self.kept)
            stay = self.kept[chosen.files[present]]
            moved = {root(n) for n in self.group[chosen.files[~present] - len(self.kept)].tolist()}
            if not moved:
                others.append(SelectedFiles(stay, chosen.reason))
                continue
            first, *rest = sorted(moved)
            whole = np.concatenate([stay, *(files[n] for n in (first, *rest))])
            if int(size[whole].sum()) <= max_bytes:
                files[first] = np.sort(whole)
                for number in rest:
                    parent[number] = first
            elif len(stay):
                others.append(SelectedFiles(stay, chosen.reason))
        joined = [SelectedFiles(files[n], group.reason) for n, group in enumerate(groups) if parent[n] == n]
        return [*joined, *others]


def arrivals(
    spec: LayoutSpec,
    state: TableState,
    fields: tuple[PartitionField, ...],
    moved: Sequence[SelectedFiles],
    current: Bools,
    in_scope: Bools,
) -> Arrivals:
    """Plan where the rows of moved groups arrive.

    Args:
        fields: The partitioning to reach.
        moved: The groups of files to move.
        current: bool[P], the partitions that are partitioned as declared and have files.
        in_scope: bool[P], those that may be rewritten.
    """
    files = state.files
    kept = np.ones(len(files), bool)
    kept[np.concatenate([group.files for group in moved])] = False
    index = np.flatnonzero(kept)
    reached = np.zeros((len(moved), len(files.partitions)), bool)
    if current.any() and len(moved) * int(current.sum()) <= MAX_ARRIVALS:
        reached[:, current] = _reached(files, fields, moved, np.flatnonzero(current))
    share = 1.0 / np.maximum(reached.sum(axis=1), 1)
    group, partition = np.nonzero(reached & in_scope)
    arriving, owner = arriving_files(spec, files, moved, group, partition, share)
    return Arrivals(replace(state, files=joined([files.take(index), arriving])), index, owner)


def _reached(
    files: FileTable, fields: tuple[PartitionField, ...], moved: Sequence[SelectedFiles], partitions: Index
) -> Bools:
    """Return which groups may have rows of which partitions, bool[G, K]."""
    rows = np.array([files.rows[group.files].sum() for group in moved], np.int64)
    owners = [[files.partitions[p] for p in np.unique(files.partition[group.files]).tolist()] for group in moved]
    reached = np.ones((len(moved), len(partitions)), bool)
    for field in fields:
        known = field.source in files.bounds
        hull = {field.source: hull_of(files.bounds[field.source], moved)} if known else {}
        by_value: dict[object, Bools] = {}
        for at, partition in enumerate(partitions.tolist()):
            value = _value(files.partitions[partition], field)
            if value not in by_value:
                allowed = _allowed(field, value, hull, rows).copy() if known else np.ones(len(moved), bool)
                for number, old in enumerate(owners):
                    if all(field in owner.fields for owner in old):  # then the values of the old partitions decide
                        allowed[number] = value in [_value(owner, field) for owner in old]
                by_value[value] = allowed
            reached[:, at] &= by_value[value]
    return reached


def _value(partition: Partition, field: PartitionField) -> object:
    return partition.values[partition.fields.index(field)]


def _allowed(field: PartitionField, value: object, hull: dict[str, ColumnBounds], rows: Index) -> Bools:
    """Return the groups, bool[G], whose bounds allow rows with this partition value."""
    is_date = pa.types.is_date(hull[field.source].lower.type)
    match fact(field.transform, value, is_date):
        case Null():
            return may_match(IsNull(field.source), hull, rows)
        case Range(low, high, open):
            ends = (Compare(field.source, ">=", low), Compare(field.source, "<" if open else "<=", high))
            return may_match(And(ends), hull, rows)
    return np.ones(len(rows), bool)
