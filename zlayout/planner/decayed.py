"""Measure decayed partitions: touched of their files, and touched predicted for after a rewrite of some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zlayout.planner.calibration import Calibration, calibrate
from zlayout.planner.classes import Classes, classes_of
from zlayout.planner.forecast import Measured, best_touched, ideal_touched, touched_ratio
from zlayout.planner.packing import gains
from zlayout.planner.partitions import Bools, FileFacts, Floats, Index, file_facts
from zlayout.planner.selection import SelectedFiles
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import rows_with_value
from zlayout.table.reach import Reach, reach
from zlayout.table.side_by_side import side_by_side
from zlayout.table.state import FileTable
from zlayout.table.sums import sums

# What a rewrite can be expected to reach is at least this, unless theory is lower: where touched is 1, the smallest
# group beside the others would exceed any tolerance, and every append would cause a rewrite of the whole partition.
MIN_ACHIEVABLE = 2.0


@dataclass(frozen=True, slots=True)
class Decayed:
    """N files of P partitions, with their metrics on d z-order columns.

    Attributes:
        files: The files.
        partition: int64[N], the partition of each file, 0..P - 1.
        facts: Facts of the same files.
        live_bytes: float64[N], bytes of each file without its deleted rows; whole numbers, so that sums are exact.
        reaches: One per z-order column.
        touched: float64[P, d], the present touched.
        achievable: float64[P, d], the lowest touched that a rewrite of the whole partition can be expected to reach.
        theory: float64[P, d], the same by theory.
        calibration: By what factors rewrites missed theory.
        factor: float64[P, d], the factor by which the next one can be expected to miss it.
        targets: int64[P], the number of files after a rewrite of the whole partition.
        distinct: float64[P, d], the number of distinct values; infinity if unknown.
    """

    files: FileTable
    partition: Index
    facts: FileFacts
    live_bytes: Floats
    reaches: tuple[Reach, ...]
    touched: Floats
    achievable: Floats
    theory: Floats
    calibration: Calibration
    factor: Floats
    targets: Index
    distinct: Floats

    @property
    def ratio(self) -> Floats:
        """The touched ratio of each partition, float64[P]: touched divided by achievable."""
        return touched_ratio(self.touched, self.achievable)

    def accepting(self, settled: Bools) -> Decayed:
        """Return the same metrics, with less expected of the partitions in `settled` (bool[P]).

        No file of these is pending, so that an earlier run accepted their touched. If a rewrite left more than its
        prediction, the next rewrite must not be expected to leave less.
        """
        factor = np.where(settled[:, None], self.calibration.worst, self.factor)
        return replace(self, factor=factor, achievable=_achievable(self.theory, factor, self.targets))


def measure_decayed(
    files: FileTable,
    facts: FileFacts,
    spec: LayoutSpec,
    targets: Index,
    distinct: Floats,
    partition: Index,
    reaches: tuple[Reach, ...] = (),
) -> Decayed:
    """Measure the files and calibrate the prediction of a rewrite.

    With few distinct values or frequent values, a rewrite cannot reach the theoretical touched, and each append would
    cause a rewrite of the whole partition that gains nothing. With correlated columns, it reaches much less, and a
    comparison with theory would not notice decay. The baselines of the laid-out groups show what rewrites did reach.

    Args:
        reaches: Known reaches of the z-order columns in these files; computed if empty. See `Decayed` for the others.
    """
    reaches = reaches or tuple(side_by_side(_reach(files, partition, len(targets)), spec.column_names, len(files)))
    touched = np.stack([sums(partition, len(targets), r.share) for r in reaches], axis=1)
    best = np.maximum(best_touched(ideal_touched(targets, spec.layout, distinct)), 1.0)
    calibration = calibrate(files, facts, spec, partition, distinct, reaches)
    factor = calibration.expected
    return Decayed(
        files=files,
        partition=partition,
        facts=facts,
        live_bytes=np.rint(files.live_bytes),
        reaches=reaches,
        touched=touched,
        achievable=_achievable(best, factor, targets),
        theory=best,
        calibration=calibration,
        factor=factor,
        targets=targets,
        distinct=distinct,
    )


def _achievable(theory: Floats, factor: Floats, targets: Index) -> Floats:
    """Scale theory by the factor, within its limits: float64[P, d]. targets: int64[P]."""
    lowest = np.minimum(theory, MIN_ACHIEVABLE)
    return np.clip(theory * factor, lowest, np.maximum(targets[:, None], theory))


def _reach(files: FileTable, partition: Index, partitions: int) -> Callable[[str], Reach]:
    owner = partition.astype(np.int32)
    return lambda column: reach(files, column, rows_with_value(files, column), owner, partitions)


def measured_partitions(
    spec: LayoutSpec, files: FileTable, each_file: FileFacts, inside: Bools, now: Measured
) -> tuple[Index, Decayed]:
    """Measure the partitions `inside` (bool[P], each with files). Return their files (int64 indices) and metrics."""
    if inside.all():
        index, partition = np.arange(len(files)), files.partition.astype(np.int64)
        return index, measure_decayed(files, each_file, spec, now.targets, now.distinct, partition, now.reaches)
    index = np.flatnonzero(inside[files.partition])
    partition = (np.cumsum(inside) - 1)[files.partition[index]]
    part, facts = files.take(index), each_file.take(index)
    return index, measure_decayed(part, facts, spec, now.targets[inside], now.distinct[inside], partition)


def savings(spec: LayoutSpec, files: FileTable, now: Measured, groups: Sequence[SelectedFiles]) -> Floats:
    """Predict by how much each of G groups alone lowers touched of the table.

    Returns:
        float64[G, d]; 0 for a group with files of several partitions, for which nothing can be predicted.
        Without z-order columns float64[G, 1], see `zlayout.planner.packing.gains`.
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


@dataclass(frozen=True, slots=True)
class MeasuredGroups:
    """G groups of files, and what is predicted of the files that a rewrite of each alone writes.

    Attributes:
        concerned: bool[of the table], the partitions that contain files of the groups.
        decayed: These partitions, numbered in their order, and all of their files.
        files: The files of `decayed` that each group has.
        partition: int64[G], the partition in `decayed` of each group, its last one.
        in_one_partition: bool[G], whether all files of a group are in one partition.
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


def measured_groups(
    spec: LayoutSpec, files: FileTable, now: Measured, groups: Sequence[SelectedFiles]
) -> MeasuredGroups:
    """Measure the partitions of at least one group with files, and predict its new files."""
    of_file = np.full(len(files), -1, np.int64)
    for number, group in enumerate(groups):
        of_file[group.files] = number
    concerned = np.zeros(len(now.files), bool)
    concerned[files.partition[of_file >= 0]] = True
    index, decayed = measured_partitions(spec, files, file_facts(spec, files), concerned, now)
    of_file = of_file[index]
    members = np.flatnonzero(of_file >= 0)
    classes = classes_of(of_file[members], len(groups), members)
    live = classes.sums(decayed.live_bytes)
    written = np.maximum(np.rint(live / spec.layout.target_size), 1).astype(np.int64)
    first, last = classes.hull(decayed.partition, decayed.partition)
    partition = np.maximum(last, 0)
    fresh = touched_of_new(decayed, written, partition, spec)
    return MeasuredGroups(concerned, decayed, classes, partition, first == last, live, written, fresh)


def touched_of_new(decayed: Decayed, written: Index, partition: Index, spec: LayoutSpec) -> Floats:
    """Predict touched among `written` new files (int64[K]) of each `partition` (int64[K]): float64[K, d]."""
    fresh = ideal_touched(written, spec.layout, decayed.distinct[partition]) * decayed.factor[partition]
    return np.minimum(np.maximum(fresh, 1.0), written[:, None])
