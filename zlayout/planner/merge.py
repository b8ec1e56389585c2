"""What to rewrite in partitions that decayed: new files, with as few laid-out ones as restore the tolerance.

docs/adr/0006-incremental-rewrites.md has the reasoning. All partitions are searched at once; a step of the search is
an array operation over all candidates, so that a hundred thousand decayed partitions cost about what one costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlayout.planner.classes import Classes, classes_of
from zlayout.planner.forecast import best_touched, ideal_touched, mean_ratio
from zlayout.planner.partitions import SMALL, Bools, FileFacts, Floats, Index
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import rows_with_value
from zlayout.table.reach import Reach, reach
from zlayout.table.side_by_side import side_by_side
from zlayout.table.state import FileTable
from zlayout.table.sums import counts, sums

# A rewrite must leave this part of the tolerance for what comes next, and for what the prediction is off by.
RESERVE = 0.1
# A layout that falls short of theory by less than this factor, mean over its columns, is as theory has it.
SHORT = 1.1
RESTORED_FIRST = 1e15


@dataclass(frozen=True, slots=True)
class Decayed:
    """The files of the partitions to look at, measured.

    files: their partitions are numbered 0..P - 1 in `partition` (int64[N]); facts: of the same files.
    live_bytes: float64[N], what a rewrite leaves of each file's bytes; whole ones, which add up exactly in any order.
    reaches: one for each z-order column. touched: float64[P, d], now. achievable: float64[P, d], touched at best if the
    partition were rewritten whole, as far as its largest rewrite tells. calibration: float64[P, d], that over what
    theory promises, 1 where it is near. targets: int64[P], files after a whole rewrite. distinct: float64[P, d].
    """

    files: FileTable
    partition: Index
    facts: FileFacts
    live_bytes: Floats
    reaches: tuple[Reach, ...]
    touched: Floats
    achievable: Floats
    calibration: Floats
    targets: Index
    distinct: Floats

    @property
    def ratio(self) -> Floats:
        """float64[P]: touched beside what is achievable, mean over the columns."""
        return mean_ratio(self.touched, self.achievable)


@dataclass(frozen=True, slots=True)
class Merge:
    """What to rewrite in each of P partitions. chosen: bool[N] files. touched: float64[P, d], files: int64[P] after."""

    chosen: Bools
    touched: Floats
    files: Index


def measure_decayed(
    files: FileTable,
    facts: FileFacts,
    spec: LayoutSpec,
    targets: Index,
    distinct: Floats,
    partition: Index,
    reaches: tuple[Reach, ...] = (),
) -> Decayed:
    """Measure the files, and what a rewrite can achieve: no more than the largest one of the partition did.

    Columns that hang together, have few values or heavy ones make a layout that falls short of theory. What a finished
    rewrite left says so; without it, each append would ask for a rewrite of the whole that cannot help.
    reaches: of the columns in these files, where they are known already.
    """
    reaches = reaches or tuple(side_by_side(_reach(files, partition, len(targets)), spec.column_names, len(files)))
    touched = np.stack([sums(partition, len(targets), r.share) for r in reaches], axis=1)
    best = np.maximum(best_touched(ideal_touched(targets, spec.layout, distinct)), 1.0)
    calibration = _calibration(files, facts, spec, partition, distinct, reaches)
    live = _live_bytes(files)
    return Decayed(files, partition, facts, live, reaches, touched, best * calibration, calibration, targets, distinct)


def _reach(files: FileTable, partition: Index, partitions: int) -> Callable[[str], Reach]:
    owner = partition.astype(np.int32)
    return lambda column: reach(files, column, rows_with_value(files, column), owner, partitions)


def _live_bytes(files: FileTable) -> Floats:
    live = files.bytes.astype(np.float64)
    some = np.flatnonzero((files.deleted > 0) & (files.rows > 0))
    live[some] *= files.live_rows[some] / files.rows[some]
    return np.rint(live, out=live)


def _calibration(
    files: FileTable, facts: FileFacts, spec: LayoutSpec, partition: Index, distinct: Floats, reaches: tuple[Reach, ...]
) -> Floats:
    """float64[P, d]: what the largest group of each partition touches of its own rows, over its ideal; 1 if near it."""
    groups = int(facts.group.max(initial=-1)) + 1
    if not groups:
        return np.ones_like(distinct)
    size = np.bincount(facts.group + 1, files.bytes)[1:]
    owner = np.empty(groups + 1, np.int64)  # the last is that of -1, no group
    owner[facts.group] = partition
    by_size = np.lexsort((size, owner[:-1]))
    last = np.append(owner[by_size][1:] != owner[by_size][:-1], True)
    largest = np.zeros(groups + 1, bool)
    largest[by_size[last]] = True
    base = largest[facts.group]
    number = counts(partition[base], len(distinct))
    ideal = np.maximum(ideal_touched(number, spec.layout, distinct), 1.0)

    def alone(column: tuple[str, Reach]) -> Floats:
        return column[1].touched_among(base, rows_with_value(files, column[0]))

    columns = tuple(zip(spec.column_names, reaches, strict=True))
    touched = np.stack(side_by_side(alone, columns, len(files)), axis=1)
    # One column's loss may be another's gain, as with 128 files in 8 by 16 slices: that is no falling short.
    short = mean_ratio(touched, ideal) > SHORT
    return np.where(short[:, None], np.maximum(touched / ideal, 1.0), 1.0)


def merge(decayed: Decayed, pending: Bools, spec: LayoutSpec, most_bytes: float = np.inf) -> Merge:
    """Choose the files to rewrite in every partition. pending: bool[N], files that must be among them, as all are that
    belong to no group.

    Candidates are the pending files with the 0, 1, 2, ... smallest groups of the partition, whole or only those of
    their files that meet the pending ones in every column. Of those that are predicted to restore the tolerance, the
    one that costs the fewest bytes for each unit of tolerance that it leaves: to leave more means to come back later.
    Where none of at most `most_bytes` restores it, the one that gains most for its bytes; just the pending files where
    these are too many by themselves.
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


def saved(decayed: Decayed, group: Index, count: int, spec: LayoutSpec) -> Floats:
    """float64[count, d]: by how much touched falls when each group is rewritten by itself.

    group: int64[N] below `count`, -1 for files that stay. A group whose files are in several partitions (they will be
    partitioned anew) saves nothing that could be told.
    """
    members = np.flatnonzero(group >= 0)
    groups = classes_of(group[members], count, members)
    written = np.maximum(np.rint(groups.sums(decayed.live_bytes) / spec.layout.target_size), 1).astype(np.int64)
    first, last = groups.hull(decayed.partition, decayed.partition)
    partition = np.maximum(last, 0)
    fresh = _fresh(decayed, written, partition, spec)
    saves = np.empty_like(fresh)
    for column, measured in enumerate(decayed.reaches):
        after = fresh[:, column] * measured.between(partition, *groups.hull(measured.lo, measured.hi))
        saves[:, column] = groups.sums(measured.share) - after
    return np.where((first == last)[:, None], saves, 0.0)


def _fresh(decayed: Decayed, written: Index, partition: Index, spec: LayoutSpec) -> Floats:
    """float64[K, d]: touched, of their own rows, of `written` new files in each `partition`."""
    fresh = ideal_touched(written, spec.layout, decayed.distinct[partition]) * decayed.calibration[partition]
    return np.minimum(np.maximum(fresh, 1.0), written[:, None])


@dataclass(frozen=True, slots=True)
class _Units:
    """The groups that have files which are not pending, in order of (partition, bytes). group, partition: int64[U].
    start: int64[P + 1], the first unit of each partition.

    Candidates are numbered with them: of each partition the one without groups, then one more for each unit."""

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
    """The best candidate of each partition: its score (infinity: none is any use), how many groups it takes of which
    it rewrites the files that it was given, and what it leaves."""

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
    """int64[N]: the first candidate of its partition that has the file."""
    place = np.zeros(len(decayed.files) + 1, np.int64)
    place[units.group] = units.candidate
    return np.where(pending, units.without[decayed.partition], place[decayed.facts.group])


def _meets(decayed: Decayed, pending: Bools) -> Bools:
    """bool[N]: files whose intervals meet the hull of their partition's pending files in every column."""
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
    """float64[U + P] twice: how many more small files each candidate leaves than the one before, because they were one
    of several of their rewrite and are the only one now. For candidates of whole groups, and of what meets of them."""
    facts, groups = decayed.facts, int(decayed.facts.group.max(initial=-1)) + 1
    spared = ~facts.small & (decayed.files.bytes < SMALL * spec.layout.target_size)
    if not spared.any():
        return np.zeros(units.candidates), np.zeros(units.candidates)
    weight = np.where(spared, 1, 2)
    candidate = np.concatenate((units.without[units.partition], units.candidate))

    def alone(left: Bools) -> Floats:
        """float64[U]: 1 where all that is left of the group is a file that was spared so far."""
        weights = sums(facts.group[left], groups, weight[left])[units.group]
        return np.where(weights == 1, 1.0, 0.0)

    def rises(after: Floats) -> Floats:
        return sums(candidate, units.candidates, np.concatenate((before, after - before)))

    before = alone(~pending)
    return rises(np.zeros_like(before)), rises(alone(~meets))


def _candidates(
    decayed: Decayed, pending: Bools, units: _Units, rows: Classes, alone: Floats, spec: LayoutSpec, most_bytes: float
) -> _Best:
    """Evaluate for each partition the pending files with its k smallest groups, k = 0..U_p: row start + p + k.

    rows: the files by the first candidate that has them. alone: see `_left_alone`.
    """
    files, partitions = decayed.files, len(decayed.targets)
    total = rows.count
    first = units.without
    owner = np.repeat(np.arange(partitions), np.diff(units.start) + 1)
    step = np.arange(total) - first[owner]

    def along(each: NDArray[Any]) -> NDArray[Any]:
        """[total]: the sum over each candidate, from the sums over its rows."""
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
    fresh = _fresh(decayed, written, owner, spec)
    touched = np.empty((total, len(decayed.reaches)))
    for column, measured in enumerate(decayed.reaches):
        inside = measured.between(owner, *_growing_hull(measured, rows, owner))
        kept = decayed.touched[owner, column] - along(rows.sums(measured.share))
        touched[:, column] = kept + fresh[:, column] * inside
    ratio = mean_ratio(touched, decayed.achievable[owner])
    # with nothing pending, one group alone would be rewritten as it is
    waiting = counts(decayed.partition[pending], partitions) > 0
    useful = (number > 0) & ((step > 1) | waiting[owner])
    everything = number == whole[owner]
    limit = spec.tolerance.touched
    restores = (ratio <= 1 + (1 - RESERVE) * (limit - 1)) & (small <= spec.tolerance.small_files * after)
    useful &= size <= most_bytes
    if spec.max_group_size is not None:  # parts that an earlier run left may fit together by now: it accepted them
        useful &= waiting[owner]
    score = np.where(useful & (restores | everything), size / np.maximum(limit - ratio, 1e-3), np.inf)
    gain = decayed.ratio[owner] - ratio
    helps = useful & waiting[owner] & (gain > 0)
    score = np.where(np.isinf(score) & helps, RESTORED_FIRST * size / np.maximum(gain, 1e-9), score)
    best = np.lexsort((step, score, owner))[first]
    return _Best(score[best], step[best], touched[best], after[best])


def _growing_hull(measured: Reach, rows: Classes, owner: Index) -> tuple[Index, Index]:
    """int64[total] twice: the hull of each candidate, which holds the hull of the one before in its partition."""
    lo, hi = rows.hull(measured.lo, measured.hi)
    # Points rise from partition to partition: the largest so far is never one of another partition once there is one.
    apart = owner * (2 * measured.points + 4)
    return np.minimum.accumulate(np.minimum(lo, measured.points) - apart) + apart, np.maximum.accumulate(hi)
