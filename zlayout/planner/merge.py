"""Select the files to rewrite in decayed partitions: new files, and laid-out files to merge them with.

Candidates of all partitions are evaluated together. Every step is an array operation over all candidates, so that the
time depends on the number of files and not on the number of partitions (docs/adr/0006-incremental-rewrites.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlayout.planner.classes import Classes, classes_of
from zlayout.planner.decayed import Decayed, touched_of_new
from zlayout.planner.forecast import touched_ratio
from zlayout.planner.partitions import SMALL_BELOW, Bools, Floats, Index
from zlayout.spec.model import LayoutSpec
from zlayout.table.reach import Reach
from zlayout.table.side_by_side import side_by_side
from zlayout.table.state import target_files
from zlayout.table.sums import counts, sums

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
    """The U laid-out groups that have files which are not pending, sorted by partition and then by bytes.

    Candidates are numbered in the same order: in each partition, first the candidate without laid-out groups, then one
    for each group that is added to the previous candidate.

    Attributes:
        start: int64[P + 1], the position of the first group of each partition.
    """

    group: Index
    partition: Index
    start: Index

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
