"""What to rewrite in partitions that decayed: new files, with as few laid-out ones as restore the tolerance.

docs/adr/0006-incremental-rewrites.md has the reasoning. All partitions are searched at once; a step of the search is
an array operation over all candidates, so that a hundred thousand decayed partitions cost about what one costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlayout.plan.forecast import best_touched, ideal_touched
from zlayout.plan.partitions import SMALL, Bools, FileFacts, Floats, Index
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import rows_with_value
from zlayout.table.reach import NOWHERE, Reach, reach
from zlayout.table.side_by_side import side_by_side
from zlayout.table.state import FileTable

# A rewrite must leave this part of the tolerance for what comes next, and for what the prediction is off by.
RESERVE = 0.1
# A layout that falls short of theory by less than this factor, mean over its columns, is as theory has it.
SHORT = 1.1
RESTORED_FIRST = 1e15
FAR = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True)
class Decayed:
    """The files of the partitions to look at, measured.

    files: their partitions are numbered 0..P - 1 in `partition` (int32[N]); facts: of the same files.
    live_bytes: float64[N], what a rewrite leaves of each file's bytes.
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
        ratio: Floats = (self.touched / self.achievable).mean(axis=1)
        return ratio


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
    touched = _touched(reaches, partition, len(targets))
    live: Floats = np.divide(files.live_rows, files.rows, out=np.ones(len(files)), where=files.rows > 0)
    live *= files.bytes
    best = np.maximum(best_touched(ideal_touched(targets, spec.layout, distinct)), 1.0)
    calibration = _calibration(files, facts, spec, partition, distinct, reaches)
    return Decayed(files, partition, facts, live, reaches, touched, best * calibration, calibration, targets, distinct)


def _reach(files: FileTable, partition: Index, partitions: int) -> Callable[[str], Reach]:
    owner = partition.astype(np.int32)
    return lambda column: reach(files, column, rows_with_value(files, column), owner, partitions)


def _touched(reaches: Sequence[Reach], partition: Index, partitions: int) -> Floats:
    """float64[P, d]"""
    touched: Floats = np.stack([np.bincount(partition, r.share, partitions) for r in reaches], axis=1)
    return touched


def _calibration(
    files: FileTable, facts: FileFacts, spec: LayoutSpec, partition: Index, distinct: Floats, reaches: tuple[Reach, ...]
) -> Floats:
    """float64[P, d]: what the largest group of each partition touches of its own rows, over its ideal; 1 if near it."""
    groups = int(facts.group.max(initial=-1)) + 1
    if not groups:
        return np.ones_like(distinct)
    laid = np.flatnonzero(facts.group >= 0)
    size = np.bincount(facts.group[laid], files.bytes[laid], groups)
    owner = np.full(groups, -1, np.int64)
    owner[facts.group[laid]] = partition[laid]
    by_size = np.lexsort((size, owner))
    last = np.append(owner[by_size][1:] != owner[by_size][:-1], True) & (owner[by_size] >= 0)
    largest = np.zeros(groups + 1, bool)  # the last is that of -1, no group
    largest[by_size[last]] = True
    base = largest[facts.group]
    number = np.bincount(partition[base], minlength=len(distinct))
    ideal = np.maximum(ideal_touched(number, spec.layout, distinct), 1.0)

    def alone(column: tuple[str, Reach]) -> Floats:
        return column[1].touched_among(base, rows_with_value(files, column[0]))

    columns = tuple(zip(spec.column_names, reaches, strict=True))
    short = np.stack(side_by_side(alone, columns, len(files)), axis=1) / ideal
    # One column's loss may be another's gain, as with 128 files in 8 by 16 slices: that is no falling short.
    return np.where(short.mean(axis=1, keepdims=True) > SHORT, np.maximum(short, 1.0), 1.0)


def merge(decayed: Decayed, pending: Bools, spec: LayoutSpec, most_bytes: float = np.inf) -> Merge:
    """Choose the files to rewrite in every partition. pending: bool[N], files that must be among them.

    Candidates are the pending files with the 0, 1, 2, ... smallest groups of the partition, whole or only those of
    their files that meet the pending ones in every column. Of those that are predicted to restore the tolerance, the
    one that costs the fewest bytes for each unit of tolerance that it leaves: to leave more means to come back later.
    Where none of at most `most_bytes` restores it, the one that gains most for its bytes; just the pending files where
    these are too many by themselves.
    """
    units = _units(decayed, pending)
    everywhere = np.ones(len(pending), bool)
    whole, met = side_by_side(
        lambda eligible: _candidates(decayed, pending, units, eligible, spec, most_bytes),
        (everywhere, _meets(decayed, pending)),
        len(pending),
    )
    pick = met.score < whole.score
    inside = (units.place >= 0) & (units.place < np.where(pick, met.step, whole.step)[decayed.partition])
    return Merge(
        pending | (inside & (met.eligible | ~pick[decayed.partition])),
        np.where(pick[:, None], met.touched, whole.touched),
        np.where(pick, met.after, whole.after),
    )


def saved(decayed: Decayed, group: Index, count: int, spec: LayoutSpec) -> Floats:
    """float64[count, d]: by how much touched falls when each group is rewritten by itself.

    group: int64[N] below `count`, -1 for files that stay. A group whose files are in several partitions (they will be
    partitioned anew) saves nothing that could be told.
    """
    members = np.flatnonzero(group >= 0)
    size = np.bincount(group[members], decayed.live_bytes[members], count)
    written = np.maximum(np.rint(size / spec.layout.target_size), 1).astype(np.int64)
    first, last = np.full(count, FAR, np.int64), np.full(count, -1, np.int64)
    np.minimum.at(first, group[members], decayed.partition[members])
    np.maximum.at(last, group[members], decayed.partition[members])
    fresh = _fresh(decayed, written, np.maximum(last, 0), spec)
    saves = np.empty_like(fresh)
    for column, measured in enumerate(decayed.reaches):
        lo, hi = _hull(measured, group, members, count)
        after = fresh[:, column] * measured.between(np.maximum(last, 0), lo, hi)
        saves[:, column] = np.bincount(group[members], measured.share[members], count) - after
    return np.where((first == last)[:, None], saves, 0.0)


def _fresh(decayed: Decayed, written: Index, partition: Index, spec: LayoutSpec) -> Floats:
    """float64[K, d]: touched, of their own rows, of `written` new files in each `partition`."""
    fresh = ideal_touched(written, spec.layout, decayed.distinct[partition]) * decayed.calibration[partition]
    return np.minimum(np.maximum(fresh, 1.0), written[:, None])


@dataclass(frozen=True, slots=True)
class _Units:
    """The groups, in order of (partition, bytes). place: int64[N], the place of a file's group in its partition, -1
    for pending files. unit: int64[N], its row here, -1 likewise. partition: int64[U]. start: int64[P + 1]."""

    unit: Index
    place: Index
    partition: Index
    start: Index


@dataclass(frozen=True, slots=True)
class _Best:
    """The best candidate of each partition: its score (infinity: none is any use), how many groups it takes of which
    it rewrites the `eligible` files, and what it leaves."""

    score: Floats
    step: Index
    touched: Floats
    after: Index
    eligible: Bools


def _units(decayed: Decayed, pending: Bools) -> _Units:
    files, count = decayed.files, len(decayed.targets)
    kept = np.flatnonzero(~pending)
    group = decayed.facts.group[kept] + 1  # 0 is no group
    present = np.bincount(group) > 0
    unit = (np.cumsum(present) - 1)[group]
    size = np.bincount(unit, files.bytes[kept])
    owner = np.zeros(len(size), np.int64)
    owner[unit] = decayed.partition[kept]
    order = np.lexsort((size, owner))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    start = np.searchsorted(owner[order], np.arange(count + 1))
    of_file, place = np.full(len(files), -1, np.int64), np.full(len(files), -1, np.int64)
    of_file[kept] = rank[unit]
    place[kept] = rank[unit] - start[decayed.partition[kept]]
    return _Units(of_file, place, owner[order], start)


def _meets(decayed: Decayed, pending: Bools) -> Bools:
    """bool[N]: files whose intervals meet the hull of their partition's pending files in every column."""
    meets, waiting = np.ones(len(pending), bool), np.flatnonzero(pending)
    for measured in decayed.reaches:
        lo, hi = _hull(measured, decayed.partition, waiting, len(decayed.targets))
        meets &= (measured.lo <= hi[decayed.partition]) & (measured.hi >= lo[decayed.partition])
    return meets


def _hull(measured: Reach, of: Index, members: Index, count: int) -> tuple[Index, Index]:
    """int64[count] twice: first and last point of the members of each class; FAR and -1 where there is none."""
    lo, hi = np.full(count, FAR, np.int64), np.full(count, -1, np.int64)
    some = members[measured.lo[members] != NOWHERE]
    np.minimum.at(lo, of[some], measured.lo[some])
    np.maximum.at(hi, of[some], measured.hi[some])
    return lo, hi


def _candidates(
    decayed: Decayed, pending: Bools, units: _Units, eligible: Bools, spec: LayoutSpec, most_bytes: float
) -> _Best:
    """Evaluate for each partition the pending files with its k smallest groups, k = 0..U_p: row start + p + k."""
    files, partitions = decayed.files, len(decayed.targets)
    member = np.flatnonzero(pending | eligible)
    row = np.where(pending, units.start[decayed.partition], units.unit + 1) + decayed.partition
    member_row = row[member]
    total = len(units.partition) + partitions
    first = units.start[:-1] + np.arange(partitions)
    owner = np.repeat(np.arange(partitions), np.diff(units.start) + 1)
    step = np.arange(total) - first[owner]

    def along(values: NDArray[np.generic]) -> Floats:
        """float64[total]: sums over the files of each candidate."""
        sums = np.cumsum(np.bincount(member_row, values[member], total))
        before = np.where(first > 0, sums[first - 1], 0.0)
        return np.asarray(sums - before[owner], np.float64)

    size, kept_size = along(files.bytes), along(decayed.live_bytes)
    number = along(np.ones(len(files)))
    written = np.where(number > 0, np.maximum(np.rint(kept_size / spec.layout.target_size), 1), 0).astype(np.int64)
    whole = np.bincount(decayed.partition, minlength=partitions)
    after = (whole[owner] - number).astype(np.int64) + written
    small_now = np.bincount(decayed.partition, decayed.facts.small, partitions)
    small = small_now[owner] - along(decayed.facts.small)
    small += (written == 1) & (kept_size < SMALL * spec.layout.target_size)
    fresh = _fresh(decayed, written, owner, spec)
    touched = np.empty((total, len(decayed.reaches)))
    for column, measured in enumerate(decayed.reaches):
        lo, hi = _growing_hull(measured, row, member, owner, total)
        inside = measured.between(owner, lo, hi)
        touched[:, column] = decayed.touched[owner, column] - along(measured.share) + fresh[:, column] * inside
    ratio = (touched / decayed.achievable[owner]).mean(axis=1)
    # with nothing pending, one group alone would be rewritten as it is
    waiting = np.bincount(decayed.partition[pending], minlength=partitions) > 0
    useful = (number > 0) & ((step > 1) | waiting[owner])
    everything = number == whole[owner]
    limit = spec.tolerance.touched
    restores = (ratio <= 1 + (1 - RESERVE) * (limit - 1)) & (small <= spec.tolerance.small_files * after)
    useful &= size <= most_bytes
    score = np.where(useful & (restores | everything), size / np.maximum(limit - ratio, 1e-3), np.inf)
    gain = decayed.ratio[owner] - ratio
    helps = useful & waiting[owner] & (gain > 0)
    score = np.where(np.isinf(score) & helps, RESTORED_FIRST * size / np.maximum(gain, 1e-9), score)
    best = np.lexsort((step, score, owner))[first]
    return _Best(score[best], step[best], touched[best], after[best], eligible)


def _growing_hull(measured: Reach, row: Index, member: Index, owner: Index, total: int) -> tuple[Index, Index]:
    """int64[total] twice: the hull of each candidate, which holds the hull of the one before in its partition."""
    lo, hi = _hull(measured, row, member, total)
    # Points rise from partition to partition: the largest so far is never one of another partition once there is one.
    apart = owner * (2 * measured.points + 4)
    return np.minimum.accumulate(np.minimum(lo, measured.points) - apart) + apart, np.maximum.accumulate(hi)
