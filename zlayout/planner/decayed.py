"""Measure decayed partitions, and predict touched after a rewrite of some of their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zlayout.planner.forecast import Measured, best_touched, ideal_touched, touched_ratio
from zlayout.planner.partitions import Bools, Classes, FileFacts, Floats, Index, classes_of, file_facts
from zlayout.planner.selection import Group
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import Reach, reach
from zlayout.table.state import FileTable, counts, side_by_side, sums, target_files

# A rewrite is not expected to reach a lower touched than this, unless theory is lower. If 1 were expected, even the
# smallest additional group would exceed any tolerance, and every append would cause a rewrite of the whole partition.
MIN_ACHIEVABLE = 2.0
# Touched counts as equal to theory if the ratio of touched to theory is from 1 / NEAR_THEORY to NEAR_THEORY in the mean
# over the columns, and at least MIN_NEAR_THEORY for each column. Files do not divide evenly among the columns: 128
# files in 8 by 16 slices have 1.41 and 0.71 times the theoretical touched.
NEAR_THEORY, MIN_NEAR_THEORY = 1.1, 0.6
# A group without a stored baseline may have lost files. A touched below theory among its live files counts only if the
# group has at least this share of the files of the partition.
MIN_SHARE_BELOW_THEORY = 0.5
# A baseline of fewer files does not show what a rewrite into more files reaches.
MIN_BASELINE_FILES = 2


@dataclass(frozen=True, slots=True)
class Decayed:
    """N files of P partitions, with their metrics on d z-order columns.

    Attributes:
        files: The files.
        partition: int64[N], the partition of each file, 0..P - 1.
        facts: Facts of the same files.
        reaches: The reach of the files, one per z-order column.
        touched: float64[P, d], the present touched.
        theory: float64[P, d], the lowest touched that a rewrite of the whole partition reaches by theory.
        worst: float64[P, d], the highest ratio of touched to theory after any rewrite with a stored baseline; at least
            `factor`.
        factor: float64[P, d], the ratio of touched to theory that is expected after the next rewrite.
        targets: int64[P], the number of files after a rewrite of the whole partition.
        distinct: float64[P, d], the number of distinct values; infinity if unknown.
    """

    files: FileTable
    partition: Index
    facts: FileFacts
    reaches: tuple[Reach, ...]
    touched: Floats
    theory: Floats
    worst: Floats
    factor: Floats
    targets: Index
    distinct: Floats

    @property
    def achievable(self) -> Floats:
        """The touched that a rewrite of the whole partition is expected to reach, float64[P, d]."""
        lowest = np.minimum(self.theory, MIN_ACHIEVABLE)
        return np.clip(self.theory * self.factor, lowest, np.maximum(self.targets[:, None], self.theory))

    @property
    def ratio(self) -> Floats:
        """The touched ratio of each partition, float64[P]: see `touched_ratio` of `touched` and `achievable`."""
        return touched_ratio(self.touched, self.achievable)

    def accepting(self, settled: Bools) -> Decayed:
        """Return the same metrics, but with `worst` as the expected ratio of the partitions in `settled` (bool[P]).

        These partitions have no pending files, so that their touched is what the last run left. If one of its rewrites
        left more than was predicted, the next rewrite must not be expected to leave less.
        """
        return replace(self, factor=np.where(settled[:, None], self.worst, self.factor))


def measured_partitions(
    spec: LayoutSpec, files: FileTable, each_file: FileFacts, inside: Bools, now: Measured
) -> tuple[Index, Decayed]:
    """Measure partitions, and calibrate the prediction of a rewrite.

    A comparison with theory alone would fail in two cases. If values are few or frequent, a rewrite cannot reach the
    theoretical touched, and each append would cause a rewrite of the whole partition that gains nothing. If columns are
    correlated, a rewrite reaches a much lower touched than theory, and decay would not be noticed. The baselines of the
    laid-out groups show what rewrites have reached.

    Args:
        spec: The layout spec.
        files: All files of the table.
        each_file: The facts of the same files.
        inside: The partitions of the table to measure, one bool for each. Each of them has files.
        now: The present metrics of the table.

    Returns:
        The indices of the files of these partitions, int64[N], and the metrics of these files and partitions.
    """
    index = np.flatnonzero(inside[files.partition])
    partition = (np.cumsum(inside) - 1)[files.partition[index]]
    part, facts, targets, distinct = files.take(index), each_file.take(index), now.targets[inside], now.distinct[inside]
    reaches = now.reaches if inside.all() else ()
    if not reaches:
        owner, count = partition.astype(np.int32), len(targets)
        reaches = tuple(side_by_side(lambda column: reach(part, column, owner, count), spec.column_names, len(part)))
    expected, worst = calibrate(part, facts, spec, partition, distinct, reaches)
    return index, Decayed(
        files=part,
        partition=partition,
        facts=facts,
        reaches=reaches,
        touched=np.stack([sums(partition, len(targets), r.share) for r in reaches], axis=1),
        theory=np.maximum(best_touched(ideal_touched(targets, spec.layout, distinct)), 1.0),
        worst=worst,
        factor=expected,
        targets=targets,
        distinct=distinct,
    )


def savings(spec: LayoutSpec, files: FileTable, now: Measured, groups: Sequence[Group]) -> Floats:
    """Predict by how much a rewrite of each of G groups alone lowers touched of the table.

    Returns:
        float64[G, d]; 0 for a group with files of several partitions, for which nothing can be predicted. Without
        z-order columns, those of `gains`, float64[G, 1].
    """
    if not spec.layout.orders:
        return gains(spec, files, groups)
    if not groups:
        return np.zeros((0, len(spec.column_names)))
    of = measured_groups(spec, files, now, groups)
    saves = np.empty_like(of.fresh)
    for column, measured in enumerate(of.decayed.reaches):
        after = of.fresh[:, column] * measured.between(of.partition, *of.files.hull(measured.lo, measured.hi))
        saves[:, column] = of.files.sums(measured.share) - after
    return np.where(of.in_one_partition[:, None], saves, 0.0)


def gains(spec: LayoutSpec, files: FileTable, groups: Sequence[Group]) -> Floats:
    """Return the gain of a rewrite of each of G groups, by which a budget ranks them.

    The gain is the number of files that a full scan no longer opens, plus the bytes of deleted rows that it no longer
    reads, as a multiple of the target size.

    Returns:
        float64[G, 1].
    """
    size = spec.layout.target_size
    parts = files.split([group.index for group in groups])
    fewer = [len(part) - part.target_files(size) + float((part.bytes - part.live_bytes).sum()) / size for part in parts]
    return np.array(fewer, np.float64).reshape(-1, 1)


@dataclass(frozen=True, slots=True)
class MeasuredGroups:
    """G groups of files, and a prediction of the new files of each group.

    Attributes:
        concerned: The partitions of the table that contain files of the groups, one bool for each partition.
        decayed: The metrics of these partitions, numbered in their order, with all of their files.
        files: The files of `decayed`, in classes by group.
        partition: int64[G], the partition in `decayed` of each group; the last one of a group with several.
        in_one_partition: bool[G], whether all files of the group are in one partition.
        live_bytes: float64[G], the bytes of each group without its deleted rows.
        written: int64[G], the number of new files.
        fresh: float64[G, d], touched among the new files.
    """

    concerned: Bools
    decayed: Decayed
    files: Classes
    partition: Index
    in_one_partition: Bools
    live_bytes: Floats
    written: Index
    fresh: Floats


def measured_groups(spec: LayoutSpec, files: FileTable, now: Measured, groups: Sequence[Group]) -> MeasuredGroups:
    """Measure the partitions that contain files of the groups, and predict the new files. A group must have files."""
    of_file = np.full(len(files), -1, np.int64)
    for number, group in enumerate(groups):
        of_file[group.index] = number
    concerned = np.zeros(len(now.files), bool)
    concerned[files.partition[of_file >= 0]] = True
    index, decayed = measured_partitions(spec, files, file_facts(spec, files), concerned, now)
    of_file = of_file[index]
    members = np.flatnonzero(of_file >= 0)
    classes = classes_of(of_file[members], len(groups), members)
    live = classes.sums(decayed.files.live_bytes)
    written = target_files(live, spec.layout.target_size)
    first, last = classes.hull(decayed.partition, decayed.partition)
    partition = np.maximum(last, 0)
    fresh = touched_of_new(decayed, written, partition, spec)
    return MeasuredGroups(concerned, decayed, classes, partition, first == last, live, written, fresh)


def touched_of_new(decayed: Decayed, written: Index, partition: Index, spec: LayoutSpec) -> Floats:
    """Predict touched among the new files of each of K rewrites.

    Args:
        decayed: The measured partitions.
        written: int64[K], the number of new files.
        partition: int64[K], the partition in `decayed` that the files are in.
        spec: The layout spec.

    Returns:
        float64[K, d].
    """
    fresh = ideal_touched(written, spec.layout, decayed.distinct[partition]) * decayed.factor[partition]
    return np.minimum(np.maximum(fresh, 1.0), written[:, None])


def calibrate(
    files: FileTable, facts: FileFacts, spec: LayoutSpec, partition: Index, distinct: Floats, reaches: tuple[Reach, ...]
) -> tuple[Floats, Floats]:
    """Compare the touched that earlier rewrites left in N files of P partitions with theory.

    The next rewrite of a partition is expected to have the same ratio of touched to theory as the largest earlier one
    that still has live files. The size of a rewrite is that of its live files, scaled to the number of files in its
    baseline.

    Args:
        files: The N files.
        facts: The facts of the same files.
        spec: The layout spec.
        partition: int64[N], the partition of each file, 0..P - 1.
        distinct: float64[P, d], the number of distinct values; infinity if unknown.
        reaches: The reaches of the files, one per z-order column.

    Returns:
        Two ratios of touched to theory, float64[P, d] each: that of the largest rewrite, and the highest of this one
        and all rewrites with a stored baseline. A ratio close to 1 is returned as 1.
    """
    groups = int(facts.group.max(initial=-1)) + 1
    if not groups:
        return np.ones_like(distinct), np.ones_like(distinct)
    owner = np.empty(groups + 1, np.int64)  # the last element is for -1, no group
    owner[facts.group] = partition
    owner = owner[:-1]
    baselines = facts.baselines
    live, stored = counts(facts.group[facts.group >= 0], groups), baselines.files > 0
    number = np.where(stored, baselines.files, live)
    size = np.bincount(facts.group + 1, files.bytes)[1:] * (number / live)
    by_size = np.lexsort((size, owner))
    last = np.append(owner[by_size][1:] != owner[by_size][:-1], True)
    largest = by_size[last]
    touched = baselines.touched.copy()
    if len(unknown := largest[~stored[largest]]):
        touched[unknown] = _touched_among(unknown, files, facts, spec, reaches)[owner[unknown]]
    may_be_below = stored | (live >= MIN_SHARE_BELOW_THEORY * counts(partition, len(distinct))[owner])
    factors = _factors(touched, number, distinct[owner], may_be_below, spec)
    expected = np.ones_like(distinct)
    expected[owner[largest]] = factors[largest]
    worst = expected.copy()
    whole = stored & (number >= MIN_BASELINE_FILES)
    np.maximum.at(worst, owner[whole], factors[whole])
    return expected, worst


def _factors(touched: Floats, number: Index, distinct: Floats, may_be_below: Bools, spec: LayoutSpec) -> Floats:
    """Return the ratio of touched to theory of each group, 1 near theory. distinct: infinity if unknown."""
    ideal = np.maximum(ideal_touched(number, spec.layout, distinct), 1.0)
    factors = np.where(touched > 0, touched / ideal, 1.0)
    mean = factors.mean(axis=1)
    near = (mean <= NEAR_THEORY) & (mean >= 1 / NEAR_THEORY) & (factors.min(axis=1) >= MIN_NEAR_THEORY)
    near |= (mean <= NEAR_THEORY) & ~may_be_below
    factors = np.where(may_be_below[:, None], factors, np.maximum(factors, 1.0))
    return np.where(near[:, None], 1.0, factors)


def _touched_among(
    groups: Index, files: FileTable, facts: FileFacts, spec: LayoutSpec, reaches: tuple[Reach, ...]
) -> Floats:
    """Measure touched among the live files of these groups, at most one in each partition: float64[P, d]."""
    chosen = np.zeros(int(facts.group.max(initial=-1)) + 2, bool)
    chosen[groups] = True
    member = chosen[facts.group]
    columns = tuple(zip(spec.column_names, reaches, strict=True))
    touched = side_by_side(lambda c: c[1].touched_among(member, files.rows_with_value(c[0])), columns, len(files))
    return np.stack(touched, axis=1)
