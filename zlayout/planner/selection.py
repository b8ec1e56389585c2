"""The selection: the files to rewrite, in groups, as `zlayout.planner.select` determines them.

The first part determines whether partitions are accepted as the last complete run left them, and the last part sets
aside the groups of partitions that must not be rewritten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic, Severity
from zlayout.planner.model import Decay, Reason, RewriteGroup, Wait, WaitingGroups
from zlayout.planner.partitions import Bools, Index, PartitionFacts, classes_of, partition_names, partition_text
from zlayout.spec.model import LayoutSpec, TableName
from zlayout.table.state import NO_FILES, FileTable, PartitionRefusal, TableState, counts
from zlayout.text import first_of, plural

# Acceptance of partitions as the last complete run left them, until files are added to them.
#
# A plan cannot predict everything that a rewrite leaves. Only the rewrite shows to which partitions the rows of a moved
# file go, and how large the new files there are. If a run did everything that its plan contained, a partition without
# new files is therefore accepted, even if it now exceeds a tolerance. It is measured again when files are added to it.
# The table stores a digest of the settings under which it was accepted. With other settings, all partitions are
# measured again.


PROPERTY = "zlayout.accepted"
_DIGEST_CHARACTERS = 16
_SEPARATOR = "@"


def property_of(table: TableName) -> str:
    """Return the name of the table property with the acceptance. Each branch of a table has its own property."""
    return f"{PROPERTY}.{table.branch}" if table.branch else PROPERTY


def acceptance(spec: LayoutSpec) -> str:
    """Return the acceptance: a digest of the settings that decide whether a laid-out partition is rewritten."""
    content = repr((spec.tolerance, spec.where))
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]


def is_accepted(spec: LayoutSpec, properties: Mapping[str, str]) -> bool:
    """Return whether the last run accepted the table under the settings of the spec.

    Args:
        spec: The layout spec.
        properties: The table properties, in which the acceptance is as `in_effect` returns it.
    """
    return properties.get(property_of(spec.table)) == acceptance(spec)


def stored(digest: str, commit: int) -> str:
    """Return the value of the property.

    Args:
        digest: The acceptance; empty to accept nothing, for which the value is empty too.
        commit: The last commit of the run, an Iceberg snapshot id.
    """
    return f"{digest}{_SEPARATOR}{commit}" if digest else ""


def in_effect(value: str, live: Collection[int]) -> str:
    """Return the acceptance that is stored in the property; empty if its run was undone.

    A catalog or a user may set a branch back to an older snapshot. This does not change the table properties.

    Args:
        value: The value of the property. Older versions of zlayout stored no commit in it.
        live: The commits that added live files.
    """
    digest, _, commit = value.partition(_SEPARATOR)
    return digest if not commit or (commit.isdecimal() and int(commit) in live) else ""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Files that are rewritten together, or wait together for a later run.

    Attributes:
        index: int64, the indices of the files in the file table of the observed table.
        reason: The reason for the rewrite.
        waits: Why the group waits for a later run; None if it is rewritten now.
        id: The id of the group, a hash of its layout and its files; empty until its files are pinned, and in a group
            that waits.
        digest: The digest of the files; empty as `id` is.
        files: The pinned files, which the rewrite replaces. They are in one partition unless the partitioning changes.
        target_files: The estimated number of files to write.
    """

    index: Index
    reason: Reason
    waits: Wait | None = None
    id: str = ""
    digest: str = ""
    files: FileTable = NO_FILES
    target_files: int = 0

    def partition_in(self, files: FileTable) -> int:
        """Return the partition of the first file."""
        return int(files.partition[self.index[0]])

    @property
    def bytes(self) -> int:
        """The size of the pinned files in bytes."""
        return int(self.files.bytes.sum())

    def action(self, numbers: Sequence[int] = ()) -> RewriteGroup:
        """Return the action that rewrites the pinned files.

        Args:
            numbers: The number of each partition of the table, see `partition_names`; empty if they are not needed.
        """
        files, owner = self.files, self.files.partition
        inside = owner[:1] if (owner == owner[0]).all() else np.unique(owner)
        name = partition_text(files.partitions[inside[0]])
        if len(inside) > 1:  # also files of a partition spec without fields
            name = f"{name or 'unpartitioned'} and {len(inside) - 1} more"
        return RewriteGroup(
            id=self.id,
            partition=name,
            files=len(files),
            bytes=self.bytes,
            rows=int(files.live_rows.sum()),
            target_files=self.target_files,
            reason=self.reason,
            digest=self.digest,
            partitions=len(inside),
            partition_number=int(numbers[inside[0]]) if numbers and files.partitions[inside[0]].fields else 0,
        )


def apart(groups: Iterable[Group], chosen: Bools, *, whole: bool) -> Iterator[Group]:
    """Yield the groups, each divided into its files that are not chosen and those that are.

    Args:
        groups: The groups.
        chosen: bool[N], the chosen files of the table.
        whole: Whether groups cannot be divided.
    """
    for group in groups:
        inside = chosen[group.index]
        if whole or inside.all() or not inside.any():
            yield group
        else:
            yield replace(group, index=group.index[~inside])
            yield replace(group, index=group.index[inside])


def totals(groups: Sequence[Group], files: FileTable) -> tuple[int, int, int]:
    """Return the number of groups, the number of their files, and the size of these files in bytes."""
    size = sum(int(files.bytes[group.index].sum()) for group in groups)
    return len(groups), sum(len(group.index) for group in groups), size


def waiting_groups(reason: Wait, groups: Sequence[Group], files: FileTable) -> WaitingGroups:
    """Return the totals of the groups that wait for one reason, with the numbers of their partitions."""
    inside = np.unique(files.partition[np.concatenate([group.index for group in groups])])
    numbers = sorted(partition_names(files.partitions)[1][inside].tolist())
    return WaitingGroups(reason, *totals(groups, files), tuple(numbers))


@dataclass(frozen=True, slots=True)
class FileSelection:
    """The files to rewrite, and why others are not.

    Attributes:
        groups: The groups to rewrite now.
        decay: The decay measures, each with its highest value in any partition.
        out_of_scope: The number of partitions that are out of scope.
        partially_matched: The number of these that are partially matched.
        moves: Whether files of another partitioning are rewritten, so that rows change their partition.
        adopted: int64, the indices of the adopted files that are not rewritten.
        waiting: The groups that wait for a later run. `decay` does not contain those of rarely read partitions.
    """

    groups: tuple[Group, ...]
    decay: tuple[Decay, ...]
    out_of_scope: int
    partially_matched: int
    moves: bool = False
    adopted: Index = field(default_factory=lambda: np.zeros(0, np.int64))
    waiting: tuple[Group, ...] = ()

    @property
    def every_group(self) -> tuple[Group, ...]:
        """The groups to rewrite now or in a later run, without those that count as within tolerance."""
        return (*self.groups, *(group for group in self.waiting if group.waits and not group.waits.tolerated))

    def that_wait(self, why: Wait) -> tuple[Group, ...]:
        """Return the groups that wait for this reason."""
        return tuple(group for group in self.waiting if group.waits is why)

    def parking(self, waits: Callable[[Group], bool], why: Wait) -> FileSelection:
        """Return the selection in which some of the groups to rewrite wait. waits: Whether a group does."""
        aside = tuple(replace(group, waits=why) for group in self.groups if waits(group))
        kept = tuple(group for group in self.groups if not waits(group))
        return replace(self, groups=kept, waiting=(*self.waiting, *aside)) if aside else self


def moved_group(files: FileTable, index: Index) -> Group:
    """Return the group of the files at `index`, which are moved to another partitioning."""
    is_first = (files.layout < 0).all()
    return Group(index, Reason.NOT_LAID_OUT if is_first else Reason.PARTITIONING_CHANGED)


def by_partition(
    files: FileTable, chosen: Bools, facts: PartitionFacts, spec: LayoutSpec, indistinct: Bools
) -> list[Group]:
    """Return one group for each partition with chosen files.

    Args:
        files: The N files of the table.
        chosen: bool[N], the files to rewrite.
        facts: The facts of the P partitions.
        spec: The layout spec.
        indistinct: bool[P], the partitions with indistinct bounds.
    """
    has_layout = bool((files.layout >= 0).any())
    parts = each_partition(files, np.flatnonzero(chosen))
    return [Group(index, _reason(p, facts, spec, indistinct, has_layout)) for p, index in parts]


def each_partition(files: FileTable, index: Index) -> Iterator[tuple[int, Index]]:
    """Yield each partition that contains files at `index` (int64), and the indices of these files."""
    if not len(index):
        return
    chosen = classes_of(files.partition[index].astype(np.int64), len(files.partitions), index)
    yield from zip(chosen.present.tolist(), np.split(chosen.files, chosen.start[1:]), strict=True)


def divided(group: Group, files: FileTable, spec: LayoutSpec, max_bytes: int) -> list[Group]:
    """Divide a group into parts of at most `max_bytes`, in the order of `first_column_rank`.

    A group for engine native is not divided, because the formats' own rewrites process whole partitions.
    """
    if int(files.bytes[group.index].sum()) <= max_bytes or spec.layout.engine != "zlayout":
        return [group]
    order = np.argsort(first_column_rank(spec, files, group.index))
    return in_parts(group.index[order], group.reason, files, max_bytes)


def first_column_rank(spec: LayoutSpec, files: FileTable, index: Index) -> Index:
    """Return the rank of each file at `index` by its lower bound of the first z-order column, int64.

    Files without a bound are last. Without z-order columns, files are ranked by path, the order in which a rewrite
    combines them.
    """
    by = files.bounds[spec.column_names[0]].lower if spec.layout.orders else files.path
    rank = np.empty(len(index), np.int64)
    rank[pc.array_sort_indices(by.take(pa.array(index))).to_numpy()] = np.arange(len(index))
    return rank


def in_parts(ordered: Index, reason: Reason, files: FileTable, max_bytes: int) -> list[Group]:
    """Divide the files at `ordered`, in that order, into parts of at most `max_bytes`. A larger file is one part."""
    parts, start = [], 0
    so_far = np.concatenate(([0], np.cumsum(files.bytes[ordered])))
    while start < len(ordered):
        stop = max(int(np.searchsorted(so_far, so_far[start] + max_bytes, side="right")) - 1, start + 1)
        parts.append(Group(np.sort(ordered[start:stop]), reason))
        start = stop
    return parts


def _reason(partition: int, facts: PartitionFacts, spec: LayoutSpec, indistinct: Bools, has_layout: bool) -> Reason:
    if facts.outdated[partition]:
        return Reason.LAYOUT_CHANGED
    if facts.laid[partition] == 0:
        # If other partitions have layout records, a partition without laid-out files is decay, and not a first layout.
        return Reason.PARTITION_NOT_LAID_OUT if has_layout else Reason.NOT_LAID_OUT
    if indistinct[partition]:
        return Reason.BOUNDS_TRUNCATED
    return Reason.DELETED_ROWS if facts.deleted[partition] > spec.tolerance.deleted_rows else Reason.DECAYED


# Groups that must not be rewritten.


MAX_PARTITIONS_SHOWN = 3


def set_refused_aside(spec: LayoutSpec, selection: FileSelection, state: TableState) -> FileSelection:
    """Let the files of partitions that must not be rewritten wait."""
    if not (refusals := refusals_of(spec, state)):
        return selection
    partition = state.files.partition
    refused = np.logical_or.reduce([_refused_partitions(refusal, state) for refusal in refusals])[partition]
    selection = replace(selection, groups=tuple(apart(selection.groups, refused, whole=False)))
    return selection.parking(lambda group: bool(refused[group.index].any()), Wait.REFUSED)


def refusals_of(spec: LayoutSpec, state: TableState) -> list[PartitionRefusal]:
    """Return the reasons not to rewrite some partitions that hold for the layout spec."""
    return [refusal for refusal in state.partition_refusals if not (refusal.zone and spec.partition_timezone)]


def refused_partitions(
    spec: LayoutSpec, state: TableState, waiting: Sequence[Group], severity: Severity
) -> Iterator[Diagnostic]:
    """Yield each reason not to rewrite partitions of the groups `waiting`."""
    for refusal in refusals_of(spec, state) if waiting else ():
        owner = state.files.partition[np.concatenate([group.index for group in waiting])]
        if len(partitions := np.unique(owner[_refused_partitions(refusal, state)[owner]])):
            names = [partition_text(state.files.partitions[n]) for n in partitions]
            inside = np.isin(state.files.partition, partitions)
            count, total = int((refusal.files & inside).sum()), int(inside.sum())
            files = plural(total, "file") if count == total else f"{count:,} of {plural(total, 'file')}"
            where = f" in {plural(len(names), 'partition')}" if state.partition_fields else ""
            message = f"{files}{where} {'has' if count == 1 else 'have'} {refusal.found}"
            detail = first_of(names, MAX_PARTITIONS_SHOWN)
            yield Diagnostic(refusal.code, message, severity, refusal.hint, spec.location, detail)


def _refused_partitions(refusal: PartitionRefusal, state: TableState) -> Bools:
    return counts(state.files.partition[refusal.files], len(state.files.partitions)) > 0
