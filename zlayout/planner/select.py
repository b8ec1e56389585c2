"""Select the files to rewrite in each partition, and the reason. Pure functions without a loop over files.

A file is *laid out* if the layout of the spec covers its layout record, or if it is adopted (`adopt`). A partition
needs no rewrite if one rewrite laid out all of its files. Any other partition has drift (another layout, no layout, or
an older partitioning) or decay (new files beside laid-out files, or deleted rows). `select` ignores decay within the
tolerance. Above the tolerance, `merge` chooses the files whose rewrite restores the tolerance at the lowest cost.

The files of a table with an external ordering, in which zlayout has laid out no file, have no layout records. Instead,
the external ordering is compared with the spec, and the files are measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.errors import Diagnostic
from zlayout.planner.clustering import rewritten_by_optimize, without_touched
from zlayout.planner.decayed import Decayed, measured_partitions, touched_of_new
from zlayout.planner.forecast import DECIMALS, Measured, best_touched, ideal_touched, measure, touched_ratio
from zlayout.planner.model import Decay, Measure, Reason, SettingDrift, Wait
from zlayout.planner.partitions import (
    OVERSIZED_ABOVE,
    SMALL_BELOW,
    Bools,
    Classes,
    FileFacts,
    Floats,
    Index,
    PartitionFacts,
    classes_of,
    file_facts,
    much_deleted,
    partition_facts,
)
from zlayout.planner.partitions import partition_facts as facts_of
from zlayout.planner.passes.rarely_read import waiting_partitions
from zlayout.planner.selection import (
    FileSelection,
    Group,
    by_partition,
    divided,
    each_partition,
    first_column_rank,
    in_parts,
    is_accepted,
    moved_group,
)
from zlayout.predicate.evaluate import Nulls, Range, fact
from zlayout.predicate.model import And, Compare, IsNull
from zlayout.predicate.prune import may_match
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import Reach
from zlayout.table.state import (
    Baseline,
    ColumnBounds,
    FileTable,
    LayoutRecord,
    Partition,
    PartitionField,
    TableState,
    counts,
    joined,
    side_by_side,
    sums,
    target_files,
)

# Adoption of files without a layout record whose bounds are already as a rewrite would leave them.
#
# A table that other writers sorted needs no rewrite. Each plan computes from the metadata which files are adopted, and
# nothing is stored. An adopted file remains adopted when other files are rewritten, because this does not change how
# many rows of the partition are in its interval.
#
# The files of a partition without a layout record are all adopted if the partition is within the tolerance. If not, or
# if the partition has layout records, each file is examined on its own, and later appends are merged with the adopted
# files as with laid-out files. The adopted files must then have at least half of the rows of the partition. A few new
# files beside laid-out files are therefore not adopted, even if they are in order: they are an append.


# A query must be able to skip at least this share of the files that it could skip in a perfect layout. With few files,
# touched is within the tolerance even without an order, and only this condition shows that the files are in order.
MIN_SHARE_EXCLUDED = 0.5
# The share of the rows of a partition that its adopted files must have, if not all are adopted.
MIN_SHARE_ADOPTED = 0.5
# The minimum number of adopted files of a partition, if not all are adopted. Estimates for fewer files are not stable.
MIN_FILES_ADOPTED = 8
# A query on each column must be able to skip at least this share of the files that it could skip in a perfect layout.
MIN_SHARE_OF_COLUMN = 0.25
# Rounding errors of sums up to this size do not decide whether a file is adopted.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Adopted:
    """The facts of files and partitions in which adopted files count as laid out.

    Attributes:
        files: bool[N], the adopted files.
        each_file: The facts of the files. The adopted files of a partition are one laid-out group.
        partitions: The facts of the partitions.
    """

    files: Bools
    each_file: FileFacts
    partitions: PartitionFacts


def adopt(
    spec: LayoutSpec, files: FileTable, each_file: FileFacts, facts: PartitionFacts, eligible: Bools, now: Measured
) -> Adopted:
    """Adopt all files of partitions that are within the tolerance, and in other partitions the files that are in order.

    Files of these other partitions are not adopted if they are small or oversized, or have many deleted rows.

    Args:
        spec: The layout spec.
        files: The N files of the table.
        each_file: The facts of the files.
        facts: The facts of the P partitions.
        eligible: bool[P], the partitions in which files may be adopted.
        now: The present metrics.
    """
    unrecorded = files.layout < 0
    has_unrecorded = counts(files.partition[unrecorded], len(facts.files)) > 0
    open_to = eligible & (facts.files > 1) & has_unrecorded & ((facts.laid > 0) | (facts.outdated == 0))
    if not open_to.any() or not spec.layout.orders:
        return Adopted(np.zeros(len(files), bool), each_file, facts)
    perfect = _excluded(now.ideal, now.targets)
    excluded = _excluded(now.touched, now.files)
    unfit = each_file.small | (files.bytes > OVERSIZED_ABOVE * spec.layout.target_size)
    unbounded = _unbounded(spec, files, now)
    whole = open_to & (facts.laid == 0) & (now.ratio <= spec.tolerance.touched)
    whole &= excluded >= MIN_SHARE_EXCLUDED * perfect - _ROUNDING
    useful = _every_column_helps(now)
    whole &= useful
    whole &= counts(files.partition[unfit], len(facts.files)) <= spec.tolerance.small_files * facts.files
    whole &= counts(files.partition[unbounded], len(facts.files)) == 0
    whole &= facts.deleted <= spec.tolerance.deleted_rows
    found = whole[files.partition]
    # If half of the files are in order, a query skips half as many files as if all were.
    part = open_to & useful & ~whole & (excluded >= MIN_SHARE_ADOPTED * MIN_SHARE_EXCLUDED * perfect - _ROUNDING)
    if part.any():
        fit = unrecorded & ~(unfit | unbounded | much_deleted(files, spec))
        found |= _in_order(spec, files, fit, part, perfect, now)
    return _counted(files, each_file, facts, found)


def _unbounded(spec: LayoutSpec, files: FileTable, now: Measured) -> Bools:
    missing = np.zeros(len(files), bool)
    for name, metrics in zip(spec.column_names, now.metrics, strict=True):
        if metrics.unbounded:
            bounds = files.bounds[name]
            present = pc.and_(bounds.lower.is_valid(), bounds.upper.is_valid())
            missing |= ~present.to_numpy(zero_copy_only=False) & (bounds.null_count != files.rows)
    return missing


def _excluded(touched: Floats, files: Index) -> Floats:
    """Return the share of files that a query for one value skips, as the mean over the z-order columns: float64[P]."""
    share: Floats = 1.0 - (touched / np.maximum(files, 1)[:, None]).mean(axis=1)
    return share


def _every_column_helps(now: Measured) -> Bools:
    """Return the partitions, bool[P], in which no z-order column is useless that a rewrite would make useful."""
    # The mean over the columns hides a useless one, as in a partition in order of arrival. With fewer than two to the
    # power of the number of columns files, no layout divides by all columns (docs/adr/0041-adoption-by-column.md).
    files, targets = (np.maximum(number, 1)[:, None] for number in (now.files, now.targets))
    skipped, possible = 1.0 - now.touched / files, 1.0 - now.ideal / targets
    helps = (skipped >= MIN_SHARE_OF_COLUMN * possible - _ROUNDING).all(axis=1)
    found: Bools = helps | (now.targets < 2 ** now.ideal.shape[1])
    return found


def _in_order(spec: LayoutSpec, files: FileTable, fit: Bools, part: Bools, perfect: Floats, now: Measured) -> Bools:
    """Return the files to adopt: those that add at most `tolerance.touched` times as much to touched as a new file."""
    found = np.zeros(len(files), bool)
    index = np.flatnonzero(part[files.partition])
    owner = files.partition[index]
    best = best_touched(now.ideal)
    relative, excluded = np.zeros(len(index)), np.zeros(len(index))
    reaches = side_by_side(lambda at: now.reach_of(files, at, index), range(len(spec.column_names)), len(index))
    for column, measured in enumerate(reaches):
        # A file adds the share of the rows in its interval, and a new file the lowest touched by theory divided by the
        # number of new files.
        share = now.targets[owner] * measured.share
        # No layout makes the interval of a file with a single value narrower.
        share = np.where(measured.lo == measured.hi, np.minimum(share, best[owner, column]), share)
        relative += np.divide(share, best[owner, column], out=np.zeros(len(index)), where=best[owner, column] > 0)
        excluded += 1.0 - measured.share
    keys = len(spec.column_names)
    inside = fit[index] & (relative <= keys * (spec.tolerance.touched + _ROUNDING))
    # Queries must also skip the file often enough.
    inside &= excluded >= keys * (MIN_SHARE_EXCLUDED * perfect[owner] - _ROUNDING)
    found[index[inside]] = True
    found[too_few(files, found, len(part))[files.partition] & found] = False
    return found


def too_few(files: FileTable, adopted: Bools, partitions: int) -> Bools:
    """Return the partitions, bool[P], in which the files `adopted` (bool[N]) are too few, or have too few rows."""
    index = np.flatnonzero(adopted)
    rows = sums(files.partition[index], partitions, files.rows[index])
    few: Bools = rows < MIN_SHARE_ADOPTED * sums(files.partition, partitions, files.rows)
    return few | (counts(files.partition[index], partitions) < MIN_FILES_ADOPTED)


def _counted(files: FileTable, each_file: FileFacts, facts: PartitionFacts, adopted: Bools) -> Adopted:
    """Return the facts in which adopted files count as laid out, those of each partition as one more laid-out group."""
    index = np.flatnonzero(adopted)
    owner, count = files.partition[index].astype(np.int64), len(facts.files)
    number = counts(owner, count)
    some = number > 0
    group, small = each_file.group.copy(), each_file.small.copy()
    group[index] = int(group.max(initial=-1)) + np.cumsum(some)[owner]
    small[index] &= number[owner] == 1
    enlarged = counts(files.partition[each_file.small & ~small], count)
    rows = sums(files.partition, count, files.rows)
    clustered = np.divide(sums(owner, count, files.rows[index]), rows, out=np.zeros(count), where=rows > 0)
    baselines = each_file.baselines.with_missing(int(some.sum()))
    of_files = replace(each_file, laid=each_file.laid | adopted, group=group, small=small, baselines=baselines)
    of_partitions = replace(
        facts,
        laid=facts.laid + number,
        groups=facts.groups + some,
        unclustered=np.where(some, np.maximum(facts.unclustered - clustered, 0.0), facts.unclustered),
        small=np.where(some, facts.small - enlarged / np.maximum(facts.files, 1), facts.small),
    )
    return Adopted(adopted, of_files, of_partitions)


# The files to rewrite in decayed partitions: new files, and laid-out files to merge them with.
#
# Candidates of all partitions are evaluated together. Every step is an array operation over all candidates, so that the
# time depends on the number of files and not on the number of partitions (docs/adr/0006-incremental-rewrites.md).


# The share of `tolerance.touched` - 1 that a rewrite must leave unused, for later appends and prediction errors.
UNUSED_SHARE_OF_TOLERANCE = 0.1
# A candidate that does not restore the tolerance gets a score multiplied by this factor, so that it is worse than every
# candidate that does.
NOT_RESTORED_FACTOR = 1e15


def merge(decayed: Decayed, pending: Bools, spec: LayoutSpec, max_bytes: float) -> Bools:
    """Choose the files to rewrite in every partition, bool[N].

    A candidate consists of the pending files and the 0, 1, 2, ... smallest laid-out groups of the partition. Of these
    groups it has either all files, or only those that intersect the hull of the pending files in every column.

    Only candidates of at most `max_bytes` count. Of those that are predicted to restore the tolerance, and those with
    all files of the partition, the one with the fewest bytes per unit of unused tolerance is chosen, because unused
    tolerance delays the next rewrite. If there is none, the one with the largest gain per byte is chosen. If none gains
    anything, only the pending files are chosen.

    Args:
        decayed: The N files and their metrics.
        pending: bool[N], the files that must be rewritten. They include all files without a laid-out group.
        spec: The layout spec.
        max_bytes: The limit of one rewrite in bytes; infinity for no limit.
    """
    laid_out = _laid_out_groups(decayed, pending)
    everything = classes_of(_first_candidates(decayed, pending, laid_out), laid_out.candidates)
    intersects = pending | _intersecting(decayed, pending)
    alone = _small_files_left_alone(decayed, pending, intersects, laid_out, spec)
    whole, partial = side_by_side(
        lambda variant: _best_candidates(decayed, pending, laid_out, *variant, spec, max_bytes),
        tuple(zip((everything, everything.of(intersects)), alone, strict=True)),
        len(pending),
    )
    pick = partial[0] < whole[0]
    step = np.where(pick, partial[1], whole[1])
    merged = np.zeros(len(decayed.files) + 1, bool)
    number = np.arange(len(laid_out.group)) - laid_out.start[laid_out.partition]
    merged[laid_out.group] = number < step[laid_out.partition]
    return pending | (merged[decayed.facts.group] & (intersects | ~pick[decayed.partition]))


@dataclass(frozen=True, slots=True)
class _LaidOutGroups:
    """The U laid-out groups that have files which are not pending, sorted by partition and then by bytes."""

    # Candidates are numbered in the same order: in each partition, first the candidate without laid-out groups, then
    # one for each group that is added to the previous candidate.

    group: Index
    partition: Index
    start: Index  # int64[P + 1], the position of the first group of each partition

    @property
    def candidates(self) -> int:
        return len(self.group) + len(self.start) - 1

    @property
    def without(self) -> Index:
        """The candidate without laid-out groups of each partition, int64[P]."""
        return self.start[:-1] + np.arange(len(self.start) - 1)

    @property
    def candidate(self) -> Index:
        """The first candidate that contains each group, int64[U]."""
        return np.arange(len(self.group)) + self.partition + 1


def _laid_out_groups(decayed: Decayed, pending: Bools) -> _LaidOutGroups:
    kept = np.flatnonzero(~pending)
    group = decayed.facts.group[kept]
    size = np.bincount(group, decayed.files.bytes[kept])
    owner = np.full(len(size), -1, np.int64)
    owner[group] = decayed.partition[kept]
    order = np.lexsort((size, owner))
    order = order[np.searchsorted(owner[order], 0) :]
    return _LaidOutGroups(order, owner[order], np.searchsorted(owner[order], np.arange(len(decayed.targets) + 1)))


def _first_candidates(decayed: Decayed, pending: Bools, laid_out: _LaidOutGroups) -> Index:
    candidate = np.zeros(len(decayed.files) + 1, np.int64)
    candidate[laid_out.group] = laid_out.candidate
    return np.where(pending, laid_out.without[decayed.partition], candidate[decayed.facts.group])


def _intersecting(decayed: Decayed, pending: Bools) -> Bools:
    """Return the files, bool[N], that intersect the hull of the pending files of their partition in every column."""
    intersects, index = np.ones(len(pending), bool), np.flatnonzero(pending)
    partitions = classes_of(decayed.partition[index], len(decayed.targets), index)
    for measured in decayed.reaches:
        lo, hi = partitions.hull(measured.lo, measured.hi)
        intersects &= measured.lo <= hi[decayed.partition]
        intersects &= measured.hi >= lo[decayed.partition]
    return intersects


def _small_files_left_alone(
    decayed: Decayed, pending: Bools, intersects: Bools, laid_out: _LaidOutGroups, spec: LayoutSpec
) -> tuple[Floats, Floats]:
    """Return the change in small files from candidate to candidate: with whole groups, and with intersecting files."""
    facts, groups = decayed.facts, int(decayed.facts.group.max(initial=-1)) + 1
    # A file below half of the target size that is one of several files of its laid-out group does not count as small.
    # It counts as soon as a candidate leaves no other file of the group.
    spared = ~facts.small & (decayed.files.bytes < SMALL_BELOW * spec.layout.target_size)
    if not spared.any():
        return np.zeros(laid_out.candidates), np.zeros(laid_out.candidates)
    weight = np.where(spared, 1, 2)
    candidate = np.concatenate((laid_out.without[laid_out.partition], laid_out.candidate))

    def alone(left: Bools) -> Floats:
        """Return 1 for each group with only one file left, if that file now counts as small, else 0: float64[U]."""
        weights = sums(facts.group[left], groups, weight[left])[laid_out.group]
        return np.where(weights == 1, 1.0, 0.0)

    def differences(after: Floats) -> Floats:
        """Return the differences, given the result of `alone` after a rewrite of each group: float64[U + P]."""
        return sums(candidate, laid_out.candidates, np.concatenate((before, after - before)))

    before = alone(~pending)
    return differences(np.zeros_like(before)), differences(alone(~intersects))


def _best_candidates(
    decayed: Decayed,
    pending: Bools,
    laid_out: _LaidOutGroups,
    added: Classes,
    alone: Floats,
    spec: LayoutSpec,
    max_bytes: float,
) -> tuple[Floats, Index]:
    """Return the lowest score of each partition, infinity if nothing is gained, and its number of laid-out groups."""
    files, partitions = decayed.files, len(decayed.targets)
    total = added.count
    # Candidate `step` of a partition contains the pending files and the `step` smallest laid-out groups.
    first = laid_out.without
    owner = np.repeat(np.arange(partitions), np.diff(laid_out.start) + 1)
    step = np.arange(total) - first[owner]

    def along(each: NDArray[Any]) -> NDArray[Any]:
        """Return the sums over all files of each candidate, given those over the files that it adds: [total]."""
        so_far = np.cumsum(each)
        before = np.where(first > 0, so_far[first - 1], 0)
        return so_far - before[owner]

    size, kept_size = along(added.sums(files.bytes)), along(added.sums(files.live_bytes))
    number = along(added.numbers())
    written = np.where(number > 0, target_files(kept_size, spec.layout.target_size), 0)
    whole = counts(decayed.partition, partitions)
    after = whole[owner] - number + written
    small = sums(decayed.partition, partitions, decayed.facts.small)[owner] - along(added.sums(decayed.facts.small))
    small += along(alone) + ((written == 1) & (kept_size < SMALL_BELOW * spec.layout.target_size))
    new = touched_of_new(decayed, written, owner, spec)
    touched = np.empty((total, len(decayed.reaches)))
    for column, measured in enumerate(decayed.reaches):
        inside = measured.between(owner, *_growing_hull(measured, added, owner))
        kept = decayed.touched[owner, column] - along(added.sums(measured.share))
        touched[:, column] = kept + new[:, column] * inside
    ratio = touched_ratio(touched, decayed.achievable[owner])
    # Without pending files, rewriting one group alone changes nothing.
    has_pending = counts(decayed.partition[pending], partitions) > 0
    useful = (number > 0) & ((step > 1) | has_pending[owner])
    everything = number == whole[owner]
    limit = spec.tolerance.touched
    restores = ratio <= 1 + (1 - UNUSED_SHARE_OF_TOLERANCE) * (limit - 1)
    restores &= small <= spec.tolerance.small_files * after
    useful &= size <= max_bytes
    if spec.max_group_size is not None:  # without new files, the parts of a limited rewrite are not merged again
        useful &= has_pending[owner]
    score = np.where(useful & (restores | everything), size / np.maximum(limit - ratio, 1e-3), np.inf)
    gain = decayed.ratio[owner] - ratio
    helps = useful & has_pending[owner] & (gain > 0)
    score = np.where(np.isinf(score) & helps, NOT_RESTORED_FACTOR * size / np.maximum(gain, 1e-9), score)
    best = np.lexsort((step, score, owner))[first]
    return score[best], step[best]


def _growing_hull(measured: Reach, added: Classes, owner: Index) -> tuple[Index, Index]:
    """Return the first and the last point of the hull of all files of each candidate, int64[total] each."""
    lo, hi = added.hull(measured.lo, measured.hi)
    # Points increase from partition to partition, so that the running maximum needs no offset. For the running minimum,
    # each partition gets an offset that is lower than all values of the previous one.
    apart = owner * (2 * measured.points + 4)
    return np.minimum.accumulate(np.minimum(lo, measured.points) - apart) + apart, np.maximum.accumulate(hi)


# Compaction alone: layouts without z-order columns.
#
# Every file counts as laid out, because no order is declared that it could lack. If a partition exceeds the tolerance
# for small files or for deleted rows, only the files that cause this are rewritten: its small files, or its files
# with many deleted rows. They become files of about the target size, and all other files stay. The small files that a
# rewrite leaves are not selected again until other small files are added (`zlayout.planner.partitions.file_facts`),
# so that the next plan is empty.


def pack(
    spec: LayoutSpec,
    files: FileTable,
    each_file: FileFacts,
    facts: PartitionFacts,
    planned: Bools,
    max_bytes: int | None,
) -> list[Group]:
    """Group the files to combine by partition, in groups of at most `max_bytes` where possible.

    Args:
        spec: The layout spec.
        files: The files of the table.
        each_file: The facts of the files.
        facts: The facts of the P partitions.
        planned: bool[P], the partitions that may be rewritten.
        max_bytes: The limit of a group in bytes; None for no limit.
    """
    much = much_deleted(files, spec)
    exceeds = planned & (facts.deleted > spec.tolerance.deleted_rows)
    exceeds &= spec.layout.engine == "zlayout"  # zlayout configures OPTIMIZE so that it selects files by size alone
    owner = files.partition.astype(np.int64)
    deleted = exceeds[owner] & (much | shared(files, owner, len(exceeds), much, spec))
    small = each_file.small & (planned & (facts.small > spec.tolerance.small_files))[owner]
    # The file that replaces one with deleted rows may be small. The next plan would combine it with other small files
    # of the partition. Therefore this plan already does.
    small |= (files.bytes < SMALL_BELOW * spec.layout.target_size) & (counts(owner[deleted], len(exceeds)) > 0)[owner]
    groups = []
    for partition, index in each_partition(files, np.flatnonzero(deleted | small)):
        whole = Group(index, Reason.DELETED_ROWS if exceeds[partition] else Reason.SMALL_FILES)
        parts = [whole] if max_bytes is None else divided(whole, files, spec, max_bytes)
        groups += [part for part in parts if len(part.index) > 1 or bool(deleted[part.index].any())]
    return groups


def shared(files: FileTable, partition: Index, count: int, pending: Bools, spec: LayoutSpec) -> Bools:
    """Return the files with shared delete files, in partitions that would still exceed the tolerance for deleted rows.

    After the pending files are rewritten, the deleted rows of such files still count (see `FileTable.shared_deletes`),
    so that the next plan would rewrite these files.

    Args:
        files: N files.
        partition: int64[N], the partition of each file.
        count: The number of partitions.
        pending: bool[N], the files that are rewritten.
        spec: The layout spec.

    Returns:
        bool[N].
    """
    if not files.shared_deletes.any():
        return files.shared_deletes
    deleted = np.minimum(files.deleted, files.rows)
    left = sums(partition, count, np.where(pending & ~files.shared_deletes, 0, deleted))
    rows = sums(partition, count, np.where(pending, files.live_rows, files.rows))
    again = left > spec.tolerance.deleted_rows * rows
    found: Bools = files.shared_deletes & again[partition]
    return found


# Files of an older partitioning, which are moved alone, or together with laid-out files of the partitions that they
# go to.
#
# A writer that continues to use an older partition spec adds such files again and again. Their rows go to partitions
# that are already laid out, where they are decay, as an append is. The plan after the move must be empty. Therefore
# the moved rows are represented by laid-out files in every partition that their bounds allow (`arriving_files`), and
# the table is planned with these files. If a partition exceeds a tolerance with them, the group of the moved files
# also gets the files of this partition that must be merged.


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
        files, and the next plan would not accept errors of the prediction (`EXTRA_TOLERANCE`).

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


# The selection in all partitions.

# If a partition has no pending files, the last run left its present touched, and an error in the prediction of that run
# must not cause another rewrite. The tolerance for touched is therefore multiplied by 1 plus EXTRA_TOLERANCE
# / sqrt(files), because the error is larger for few files, and at least by 1 plus MIN_EXTRA_TOLERANCE.
EXTRA_TOLERANCE, MIN_EXTRA_TOLERANCE = 0.8, 0.1


@dataclass(frozen=True, slots=True)
class SelectionInput:
    """The table and what determines the files that are selected from it.

    Attributes:
        spec: The layout spec.
        state: The observed table, with N files in P partitions.
        fields: The partitioning to reach.
        now: The present metrics.
        indistinct: bool[P], the partitions whose bounds are indistinct and become longer in rewritten files.
        max_bytes: The limit of a group in bytes; None for no limit. A group of one file may be larger.
        adopts: Whether files without a layout record may be adopted.
    """

    spec: LayoutSpec
    state: TableState
    fields: tuple[PartitionField, ...]
    now: Measured
    indistinct: Bools
    max_bytes: int | None
    adopts: bool = False

    @property
    def limit(self) -> float:
        """`max_bytes` as a number: infinity for no limit."""
        return np.inf if self.max_bytes is None else self.max_bytes


def by_layout_record(
    given: SelectionInput, arriving: Bools | None = None, rarely_read: Bools | None = None
) -> FileSelection:
    """Select the files that must be rewritten so that the table is laid out as declared.

    Args:
        given: The table and its layout spec.
        arriving: bool[N], the files that represent moved rows, see `arriving_files`. They count as laid out, and
            as added since the last run. None for none.
        rarely_read: bool[P], the partitions whose decay waits unless files are moved; None for none.
    """
    spec, state, now, indistinct, max_bytes = given.spec, given.state, given.now, given.indistinct, given.max_bytes
    files = state.files
    added = np.zeros(len(files), bool) if arriving is None else arriving
    each_file = file_facts(spec, files)
    recorded, partially_matched = facts_of(spec, state, given.fields, each_file)
    planned = recorded.current & recorded.in_scope
    adopted = adopt(spec, files, each_file, recorded, planned & ~indistinct & given.adopts, now)
    facts = adopted.partitions
    # Here adopted files do not count as laid out, because they may have been added since the run that accepted the
    # table. Without z-order columns, nothing is settled, since added files also count as laid out.
    settled = (recorded.laid == recorded.files) & (facts.deleted <= spec.tolerance.deleted_rows)
    settled &= is_accepted(spec, state.properties) & (counts(files.partition[added], len(settled)) == 0)
    settled &= spec.layout.orders
    old = ~recorded.current & recorded.in_scope & (recorded.files > 0)
    moves = bool(old.any())
    if moves and spec.layout.engine == "zlayout":
        return _with_moves(given, adopted, old)
    if moves:
        # The formats' own rewrites cannot move some files without also rewriting those of the declared partitioning.
        everything = np.flatnonzero(facts.in_scope[files.partition])
        groups = [moved_group(files, everything)]
        chosen, ratio = facts.in_scope[files.partition], now.ratio
    elif not spec.layout.orders:
        groups = pack(spec, files, each_file, recorded, planned, max_bytes)
        chosen, ratio = np.zeros(len(files), bool), now.ratio
    else:
        judged = replace(given, spec=without_touched(spec)) if state.clustering else given
        chosen, ratio = _choose(judged, adopted, planned, settled, added)
        chosen |= _too_few_remain(files, adopted, chosen, len(planned))[files.partition]
        if state.clustering:
            chosen &= rewritten_by_optimize(spec.layout, state)
        groups = by_partition(files, chosen, recorded, spec, indistinct)
        if max_bytes is not None:
            groups = [part for group in groups for part in divided(group, files, spec, max_bytes)]
    waits = waiting_partitions(spec, groups, files, rarely_read)
    known = planned & ~waits & ((facts.laid > 0) | bool((recorded.laid > 0).any()))
    decay = _worst(facts, ratio, known, settled, given)
    kept = adopted.files & ~chosen
    selection = FileSelection(
        groups=tuple(groups),
        decay=tuple(d for d in decay if not (state.clustering and d.measure is Measure.TOUCHED)),
        out_of_scope=int((~facts.in_scope).sum()),
        partially_matched=partially_matched,
        moves=moves,
        adopted=np.flatnonzero(kept),
    )
    return selection.parking(lambda group: bool(waits[group.partition_in(files)]), Wait.RARELY_READ)


def _with_moves(given: SelectionInput, adopted: Adopted, old: Bools) -> FileSelection:
    spec, state, files, facts = given.spec, given.state, given.state.files, adopted.partitions
    groups = move_groups(spec, files, np.flatnonzero(old[files.partition]), given.max_bytes)
    then = arrivals(spec, state, given.fields, groups, facts.current & (facts.files > 0), facts.in_scope)
    stay = replace(state, files=files.take(then.kept))

    def selected(after: TableState) -> FileSelection:
        arriving = np.arange(len(after.files)) >= len(then.kept)
        return by_layout_record(replace(given, state=after, now=measure(after.files, spec)), arriving)

    present = selected(stay)
    chosen = selected(then.state) if len(then.group) else present
    found = then.with_new_files(chosen.groups, adopted.each_file.laid)
    whole = then.joined(groups, found, given.limit, files.bytes)
    kept = np.setdiff1d(then.kept[present.adopted], np.concatenate([group.index for group in whole]))
    return replace(present, groups=tuple(whole), moves=True, adopted=kept)


def _choose(
    given: SelectionInput, adopted: Adopted, planned: Bools, settled: Bools, added: Bools
) -> tuple[Bools, Floats]:
    """Return the files to rewrite, and the touched ratio, relative to the stored baselines where there may be decay."""
    spec, files, now = given.spec, given.state.files, given.now
    each_file, facts = adopted.each_file, adopted.partitions
    oversize = (facts.files == 1) & (facts.bytes > OVERSIZED_ABOVE * spec.layout.target_size)
    several = (facts.files > 1) | oversize
    deleted = facts.deleted > spec.tolerance.deleted_rows
    # In partitions that are not laid out all files are chosen, and in decayed ones those that restore the tolerance.
    whole = planned & (
        (several & ((facts.laid == 0) | given.indistinct)) | (deleted & ((facts.laid == 0) | (facts.files == 1)))
    )
    exceeds = (facts.unclustered > spec.tolerance.unclustered) | (facts.small > spec.tolerance.small_files)
    must_change = deleted | (several & (facts.outdated > 0)) | (facts.mixed & exceeds)
    to_measure = planned & ~whole & (facts.laid > 0) & (must_change | facts.mixed)
    chosen, ratio = whole[files.partition], now.ratio.copy()
    if not to_measure.any():
        return chosen, ratio
    index, decayed = measured_partitions(spec, files, each_file, to_measure, now)
    partitions, partition = np.flatnonzero(to_measure), decayed.partition
    much = deleted[partitions][partition]
    pending = ~decayed.facts.laid | (much & much_deleted(decayed.files, spec))
    pending |= much & shared(decayed.files, partition, len(decayed.targets), pending, spec)
    has_pending = counts(partition[pending], len(partitions)) > 0
    decayed = decayed.accepting(~has_pending)
    ratio[partitions] = decayed.ratio
    extra = np.maximum(EXTRA_TOLERANCE / np.sqrt(facts.files[partitions]), MIN_EXTRA_TOLERANCE)
    limit = spec.tolerance.touched * np.where(has_pending, 1.0, 1.0 + extra)
    decays = (must_change[partitions] | (decayed.ratio > limit)) & ~settled[partitions]
    if spec.layout.engine != "zlayout":
        # The formats' own rewrites process whole partitions.
        whole[partitions[decays]] = True
        return whole[files.partition], ratio
    chosen[index[merge(decayed, pending | added[index], spec, given.limit) & decays[partition]]] = True
    return chosen, ratio


def _too_few_remain(files: FileTable, adopted: Adopted, chosen: Bools, partitions: int) -> Bools:
    """Return the partitions, bool[P], in which adopted files would remain, but too few for the next plan to adopt."""
    kept = adopted.files & ~chosen
    some, rest = (counts(files.partition[which], partitions) > 0 for which in (chosen, kept))
    return some & rest & too_few(files, kept, partitions)


def _worst(
    facts: PartitionFacts, touched: Floats, known: Bools, settled: Bools, given: SelectionInput
) -> tuple[Decay, ...]:
    """known: bool[P], the partitions whose measures count."""
    spec = given.spec
    measures = (
        (Measure.UNCLUSTERED, facts.unclustered, known & (facts.files > 1), spec.tolerance.unclustered),
        (Measure.TOUCHED, touched, known & facts.mixed, spec.tolerance.touched),
        (Measure.SMALL_FILES, facts.small, known & facts.mixed, spec.tolerance.small_files),
        (Measure.DELETED_ROWS, facts.deleted, known, spec.tolerance.deleted_rows),
    )
    return worst_of(measures, settled, given.state.estimated_deletes)


def worst_of(
    measures: Iterable[tuple[Measure, Floats, Bools, float]], settled: Bools, estimated_deletes: bool
) -> tuple[Decay, ...]:
    """Return the decay measures that are above 0, each with its highest value in any partition.

    Args:
        measures: Each measure with its value in each partition, the partitions that count (bool[P]), and its tolerance.
        settled: bool[P], the partitions that do not count as exceeding a tolerance, whatever their values.
        estimated_deletes: Whether the number of deleted rows is an estimate.
    """
    found = (
        Decay(
            name,
            float(values[counted].max(initial=0.0)),
            limit,
            int((values[counted & ~settled] > limit).sum()),
            estimated_deletes and name is Measure.DELETED_ROWS,
        )
        for name, values, counted, limit in measures
    )
    return tuple(decay for decay in found if decay.value > 0)


# Tables with an external ordering.


def ordering_differences(spec: LayoutSpec, state: TableState) -> tuple[SettingDrift, ...]:
    """Return the settings in which the external ordering differs from the spec.

    There are none without an external ordering or z-order columns. For a clustered table, `zlayout.planner.clustering`
    compares the clustering columns instead.
    """
    if (ordering := state.ordering) is None or not spec.layout.orders or state.clustering:
        return ()
    compared = (
        ("zorder.columns", list(ordering.columns), list(spec.column_names)),
        # A curve over one column is a plain sort.
        ("zorder.curve", ordering.curve, ordering.curve if len(ordering.columns) == 1 else spec.layout.curve),
    )
    return tuple(
        SettingDrift(key, before, after, spec.location_of(key)) for key, before, after in compared if before != after
    )


def is_ordered_as_declared(spec: LayoutSpec, state: TableState) -> bool:
    """Return whether the external ordering has the declared columns and curve."""
    orders = spec.layout.orders and not state.clustering
    return state.ordering is not None and orders and not ordering_differences(spec, state)


def decay_of_ordered(spec: LayoutSpec, state: TableState, now: Measured) -> tuple[Decay, ...]:
    """Return the decay measures except `unclustered`, each with its highest value in any partition in scope."""
    facts, _ = partition_facts(spec, state, state.partition_fields, file_facts(spec, state.files))
    scope, tolerance = facts.in_scope, spec.tolerance
    measures = (
        (Measure.TOUCHED, now.ratio[: len(scope)], scope & (facts.files > 1), tolerance.touched),
        (Measure.SMALL_FILES, facts.small, scope & (now.targets[: len(scope)] < facts.files), tolerance.small_files),
        (Measure.DELETED_ROWS, facts.deleted, scope, tolerance.deleted_rows),
    )
    return worst_of(measures, np.zeros(len(scope), bool), state.estimated_deletes)


def select(given: SelectionInput, rarely_read: Bools | None = None) -> FileSelection:
    """Select files as `by_layout_record` does, but none of a table that is ordered as declared.

    If such a table exceeds a tolerance, partitions are selected by their bounds alone, because the external ordering no
    longer counts once zlayout has laid out a file. If the external ordering is not as declared, no file is adopted.
    """
    spec, state = given.spec, given.state
    adopts = not ordering_differences(spec, state) and not state.clustering
    selection = by_layout_record(replace(given, adopts=adopts), rarely_read=rarely_read)
    if selection.moves or given.indistinct.any() or not is_ordered_as_declared(spec, state):
        return selection
    measured = decay_of_ordered(spec, state, given.now)
    if any(measure.exceeded for measure in measured):
        return replace(selection, decay=measured)
    return replace(selection, groups=(), waiting=(), decay=measured)


def ordering_note(spec: LayoutSpec, state: TableState) -> tuple[Diagnostic, ...]:
    """Return ZL408 for an unchanged table whose external ordering is as declared."""
    if state.ordering is None or not is_ordered_as_declared(spec, state):
        return ()
    message = f"the external ordering ({state.ordering.source}) is as declared; nothing is rewritten"
    hint = "zlayout lays the table out when it exceeds its tolerance, or no longer reports an ordering"
    return (Diagnostic("ZL408", message, "note", hint, spec.location_of("zorder.columns")),)
