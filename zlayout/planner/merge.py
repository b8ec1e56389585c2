"""Selects what to rewrite in decayed partitions: new files, and as few laid-out files as restore the tolerance.

docs/adr/0006-incremental-rewrites.md explains why. All partitions are searched together; every step is an array
operation over all candidates, so that the cost depends on the number of files and not on that of partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlayout.planner.classes import Classes, classes_of
from zlayout.planner.decayed import Decayed, touched_of_new
from zlayout.planner.forecast import mean_ratio
from zlayout.planner.partitions import SMALL, Bools, Floats, Index
from zlayout.spec.model import LayoutSpec
from zlayout.table.reach import Reach
from zlayout.table.side_by_side import side_by_side
from zlayout.table.sums import counts, sums

# Share of the tolerance that a rewrite must leave unused, for later appends and for the error of the prediction.
RESERVE = 0.1
# Factor by which a candidate that does not restore the tolerance scores worse than any that does.
NOT_RESTORED = 1e15


@dataclass(frozen=True, slots=True)
class Merge:
    """What to rewrite in each of P partitions.

    chosen: bool[N], the files. touched: float64[P, d] and files: int64[P], predicted for after the rewrite.
    """

    chosen: Bools
    touched: Floats
    files: Index


def merge(decayed: Decayed, pending: Bools, spec: LayoutSpec, most_bytes: float = np.inf) -> Merge:
    """Choose the files to rewrite in every partition.

    Candidates are the pending files with the 0, 1, 2, ... smallest laid-out groups of the partition; either whole
    groups, or only those of their files whose intervals meet the pending files in every column. Among the candidates
    that are predicted to restore the tolerance, the one with the fewest bytes for each unit of tolerance that it leaves
    unused wins: the more it leaves, the later is the next rewrite. Where none of at most `most_bytes` restores the
    tolerance, the one with the largest gain for its bytes wins, and only the pending files where these alone have more.

    Args:
        decayed: the files and their metrics.
        pending: bool[N], files that must be rewritten; all files without a laid-out group are.
        spec: the declared layout.
        most_bytes: the limit of one rewrite.
    """
    units = _units(decayed, pending)
    everything = classes_of(_rows(decayed, pending, units), units.candidates)
    meets = pending | _meets(decayed, pending)
    alone = _left_alone(decayed, pending, meets, units, spec)
    whole, met = side_by_side(
        lambda way: _candidates(decayed, pending, units, *way, spec, most_bytes),
        tuple(zip((everything, everything.of(meets)), alone, strict=True)),
        len(pending),
    )
    pick = met.score < whole.score
    step = np.where(pick, met.step, whole.step)
    taken = np.zeros(len(decayed.files) + 1, bool)
    taken[units.group] = np.arange(len(units.group)) - units.start[units.partition] < step[units.partition]
    inside = taken[decayed.facts.group]
    inside &= meets | ~pick[decayed.partition]
    return Merge(
        pending | inside,
        np.where(pick[:, None], met.touched, whole.touched),
        np.where(pick, met.after, whole.after),
    )


@dataclass(frozen=True, slots=True)
class _Units:
    """The laid-out groups that have files which are not pending, in order of (partition, bytes).

    group, partition: int64[U]. start: int64[P + 1], the first unit of each partition. Candidates are numbered along
    with the units: for each partition the candidate without groups, then one for each unit that is added.
    """

    group: Index
    partition: Index
    start: Index

    @property
    def candidates(self) -> int:
        return len(self.group) + len(self.start) - 1

    @property
    def without(self) -> Index:
        """int64[P]: the candidate of each partition that takes no groups."""
        return self.start[:-1] + np.arange(len(self.start) - 1)

    @property
    def candidate(self) -> Index:
        """int64[U]: the first candidate that takes each unit."""
        return np.arange(len(self.group)) + self.partition + 1


@dataclass(frozen=True, slots=True)
class _Best:
    """The best candidate of each partition.

    score: lower is better, infinity where no candidate helps. step: how many groups it rewrites. touched, after: the
    touched and the number of files that it leaves.
    """

    score: Floats
    step: Index
    touched: Floats
    after: Index


def _units(decayed: Decayed, pending: Bools) -> _Units:
    kept = np.flatnonzero(~pending)
    group = decayed.facts.group[kept]
    size = np.bincount(group, decayed.files.bytes[kept])
    owner = np.full(len(size), -1, np.int64)
    owner[group] = decayed.partition[kept]
    order = np.lexsort((size, owner))
    order = order[np.searchsorted(owner[order], 0) :]
    return _Units(order, owner[order], np.searchsorted(owner[order], np.arange(len(decayed.targets) + 1)))


def _rows(decayed: Decayed, pending: Bools, units: _Units) -> Index:
    """int64[N]: the first candidate of the partition that contains the file."""
    place = np.zeros(len(decayed.files) + 1, np.int64)
    place[units.group] = units.candidate
    return np.where(pending, units.without[decayed.partition], place[decayed.facts.group])


def _meets(decayed: Decayed, pending: Bools) -> Bools:
    """bool[N]: files whose intervals intersect the hull of the partition's pending files in every column."""
    meets, waiting = np.ones(len(pending), bool), np.flatnonzero(pending)
    partitions = classes_of(decayed.partition[waiting], len(decayed.targets), waiting)
    for measured in decayed.reaches:
        lo, hi = partitions.hull(measured.lo, measured.hi)
        meets &= measured.lo <= hi[decayed.partition]
        meets &= measured.hi >= lo[decayed.partition]
    return meets


def _left_alone(
    decayed: Decayed, pending: Bools, meets: Bools, units: _Units, spec: LayoutSpec
) -> tuple[Floats, Floats]:
    """float64[U + P] twice: how many more small files each candidate leaves than the one before.

    A small file does not count while it is one of several of its rewrite; it does once it is the only one left. The
    first result is for candidates of whole groups, the second for those of the files that meet the pending ones.
    """
    facts, groups = decayed.facts, int(decayed.facts.group.max(initial=-1)) + 1
    spared = ~facts.small & (decayed.files.bytes < SMALL * spec.layout.target_size)
    if not spared.any():
        return np.zeros(units.candidates), np.zeros(units.candidates)
    weight = np.where(spared, 1, 2)
    candidate = np.concatenate((units.without[units.partition], units.candidate))

    def alone(left: Bools) -> Floats:
        """float64[U]: 1 where a single small file is left of the group that did not count before."""
        weights = sums(facts.group[left], groups, weight[left])[units.group]
        return np.where(weights == 1, 1.0, 0.0)

    def rises(after: Floats) -> Floats:
        return sums(candidate, units.candidates, np.concatenate((before, after - before)))

    before = alone(~pending)
    return rises(np.zeros_like(before)), rises(alone(~meets))


def _candidates(
    decayed: Decayed, pending: Bools, units: _Units, rows: Classes, alone: Floats, spec: LayoutSpec, most_bytes: float
) -> _Best:
    """Evaluate the candidates of each partition p: the pending files with its k smallest groups, k = 0..U_p.

    Candidate k of partition p has the number start[p] + p + k. rows: the files by the first candidate that contains
    them. alone: see `_left_alone`.
    """
    files, partitions = decayed.files, len(decayed.targets)
    total = rows.count
    first = units.without
    owner = np.repeat(np.arange(partitions), np.diff(units.start) + 1)
    step = np.arange(total) - first[owner]

    def along(each: NDArray[Any]) -> NDArray[Any]:
        """[total]: the sum over all files of each candidate, from the sums over those that it adds."""
        so_far = np.cumsum(each)
        before = np.where(first > 0, so_far[first - 1], 0)
        return so_far - before[owner]

    size, kept_size = along(rows.sums(files.bytes)), along(rows.sums(decayed.live_bytes))
    number = along(rows.numbers())
    written = np.where(number > 0, np.maximum(np.rint(kept_size / spec.layout.target_size), 1), 0).astype(np.int64)
    whole = counts(decayed.partition, partitions)
    after = whole[owner] - number + written
    small = sums(decayed.partition, partitions, decayed.facts.small)[owner] - along(rows.sums(decayed.facts.small))
    small += along(alone) + ((written == 1) & (kept_size < SMALL * spec.layout.target_size))
    fresh = touched_of_new(decayed, written, owner, spec)
    touched = np.empty((total, len(decayed.reaches)))
    for column, measured in enumerate(decayed.reaches):
        inside = measured.between(owner, *_growing_hull(measured, rows, owner))
        kept = decayed.touched[owner, column] - along(rows.sums(measured.share))
        touched[:, column] = kept + fresh[:, column] * inside
    ratio = mean_ratio(touched, decayed.achievable[owner])
    # With nothing pending, one group alone would be rewritten to what it is.
    waiting = counts(decayed.partition[pending], partitions) > 0
    useful = (number > 0) & ((step > 1) | waiting[owner])
    everything = number == whole[owner]
    limit = spec.tolerance.touched
    restores = (ratio <= 1 + (1 - RESERVE) * (limit - 1)) & (small <= spec.tolerance.small_files * after)
    useful &= size <= most_bytes
    if spec.max_group_size is not None:  # parts that an earlier run left may fit together now; it accepted them
        useful &= waiting[owner]
    score = np.where(useful & (restores | everything), size / np.maximum(limit - ratio, 1e-3), np.inf)
    gain = decayed.ratio[owner] - ratio
    helps = useful & waiting[owner] & (gain > 0)
    score = np.where(np.isinf(score) & helps, NOT_RESTORED * size / np.maximum(gain, 1e-9), score)
    best = np.lexsort((step, score, owner))[first]
    return _Best(score[best], step[best], touched[best], after[best])


def _growing_hull(measured: Reach, rows: Classes, owner: Index) -> tuple[Index, Index]:
    """int64[total] twice: the hull of each candidate, which contains that of the candidate before in its partition."""
    lo, hi = rows.hull(measured.lo, measured.hi)
    # Points increase from partition to partition, so that a running maximum never keeps one of an earlier partition.
    apart = owner * (2 * measured.points + 4)
    return np.minimum.accumulate(np.minimum(lo, measured.points) - apart) + apart, np.maximum.accumulate(hi)
