"""Calibrate the theoretical touched by what earlier rewrites left: their stored baselines, or their live files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zlayout.planner.forecast import ideal_touched
from zlayout.planner.partitions import Bools, FileFacts, Floats, Index
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import rows_with_value
from zlayout.table.reach import Reach
from zlayout.table.side_by_side import side_by_side
from zlayout.table.state import FileTable
from zlayout.table.sums import counts

# Touched counts as equal to theory if its multiple of theory, mean over the columns, is at most NEAR_THEORY and at
# least its reciprocal, and no column is below MIN_NEAR_THEORY. Files do not divide evenly among the columns: 128 files
# in 8 by 16 slices have 1.41 and 0.71 times the theoretical touched.
NEAR_THEORY, MIN_NEAR_THEORY = 1.1, 0.6
# A group without a stored baseline may have lost files. Below theory, its live files count only if the group has at
# least this share of the files of the partition.
MIN_SHARE_BELOW_THEORY = 0.5
# A baseline of fewer files says nothing of other numbers of files.
MIN_FILES = 2


@dataclass(frozen=True, slots=True)
class Calibration:
    """By what factors rewrites missed the theoretical touched in P partitions; 1 if they are close to it.

    Attributes:
        expected: float64[P, d], of the largest rewrite.
        worst: float64[P, d], the highest factor of any rewrite with a stored baseline, at least `expected`.
    """

    expected: Floats
    worst: Floats


def calibrate(
    files: FileTable, facts: FileFacts, spec: LayoutSpec, partition: Index, distinct: Floats, reaches: tuple[Reach, ...]
) -> Calibration:
    """Compare what rewrites left in N files of P partitions with theory.

    The largest rewrite of a partition that still has a live file is the one to learn from. Its size is that of its live
    files, scaled to the stored number of files.

    Args:
        facts: Facts of the same files.
        partition: int64[N], the partition of each file, 0..P - 1.
        distinct: float64[P, d], the number of distinct values; infinity if unknown.
        reaches: The reaches of the files, one per z-order column.
    """
    groups = int(facts.group.max(initial=-1)) + 1
    if not groups:
        return Calibration(np.ones_like(distinct), np.ones_like(distinct))
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
    whole = stored & (number >= MIN_FILES)
    np.maximum.at(worst, owner[whole], factors[whole])
    return Calibration(expected, worst)


def _factors(touched: Floats, number: Index, distinct: Floats, may_be_below: Bools, spec: LayoutSpec) -> Floats:
    """Divide touched of G groups (float64[G, d]) by theory for `number` (int64[G]) files each; 1 if they are close."""
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
    """Measure touched among the live files of at most one group per partition: float64[P, d]."""
    chosen = np.zeros(int(facts.group.max(initial=-1)) + 2, bool)
    chosen[groups] = True
    member = chosen[facts.group]

    def alone(column: tuple[str, Reach]) -> Floats:
        return column[1].touched_among(member, rows_with_value(files, column[0]))

    columns = tuple(zip(spec.column_names, reaches, strict=True))
    return np.stack(side_by_side(alone, columns, len(files)), axis=1)
