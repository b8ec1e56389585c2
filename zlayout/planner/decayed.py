"""Measure decayed partitions: touched of their files, and touched predicted for after a rewrite of some of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zlayout.planner.classes import classes_of
from zlayout.planner.forecast import best_touched, ideal_touched, mean_ratio
from zlayout.planner.partitions import FileFacts, Floats, Index
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import rows_with_value
from zlayout.table.reach import Reach, reach
from zlayout.table.side_by_side import side_by_side
from zlayout.table.state import FileTable
from zlayout.table.sums import counts, sums

# Touched below this multiple of the theoretical value (mean over the columns) counts as equal to it.
NEAR_THEORY = 1.1


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
        calibration: float64[P, d], achievable divided by the theoretical touched; 1 if they are close.
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
    calibration: Floats
    targets: Index
    distinct: Floats

    @property
    def ratio(self) -> Floats:
        """The touched ratio of each partition, float64[P]: touched divided by achievable, mean over the columns."""
        return mean_ratio(self.touched, self.achievable)


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

    With correlated columns, few distinct values or frequent values, a rewrite cannot reach the theoretical touched. The
    largest laid-out group of a partition shows by which factor it was missed. Without this calibration, each append
    would cause a rewrite of the whole partition that gains nothing.

    Args:
        reaches: Known reaches of the z-order columns in these files; computed if empty. See `Decayed` for the others.
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
    """Divide touched among the largest laid-out group of each partition by its ideal: float64[P, d], 1 if close."""
    groups = int(facts.group.max(initial=-1)) + 1
    if not groups:
        return np.ones_like(distinct)
    size = np.bincount(facts.group + 1, files.bytes)[1:]
    owner = np.empty(groups + 1, np.int64)  # the last element is for -1, no group
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
    # The mean is compared because a column may lose what another gains, as with 128 files in 8 by 16 slices.
    short = mean_ratio(touched, ideal) > NEAR_THEORY
    return np.where(short[:, None], np.maximum(touched / ideal, 1.0), 1.0)


def saved(decayed: Decayed, group: Index, count: int, spec: LayoutSpec) -> Floats:
    """Predict by how much each group alone lowers touched.

    Args:
        decayed: The files and their metrics.
        group: int64[N], the group of each file, below `count`; -1 for files that are not rewritten.
        count: The number of groups.
        spec: The declared layout.

    Returns:
        float64[count, d]; 0 for a group with files of several partitions, for which nothing can be predicted.
    """
    members = np.flatnonzero(group >= 0)
    groups = classes_of(group[members], count, members)
    written = np.maximum(np.rint(groups.sums(decayed.live_bytes) / spec.layout.target_size), 1).astype(np.int64)
    first, last = groups.hull(decayed.partition, decayed.partition)
    partition = np.maximum(last, 0)
    fresh = touched_of_new(decayed, written, partition, spec)
    saves = np.empty_like(fresh)
    for column, measured in enumerate(decayed.reaches):
        after = fresh[:, column] * measured.between(partition, *groups.hull(measured.lo, measured.hi))
        saves[:, column] = groups.sums(measured.share) - after
    return np.where((first == last)[:, None], saves, 0.0)


def touched_of_new(decayed: Decayed, written: Index, partition: Index, spec: LayoutSpec) -> Floats:
    """Predict touched among `written` new files (int64[K]) of each `partition` (int64[K]): float64[K, d]."""
    fresh = ideal_touched(written, spec.layout, decayed.distinct[partition]) * decayed.calibration[partition]
    return np.minimum(np.maximum(fresh, 1.0), written[:, None])
