"""Adopt files without a layout record whose bounds are already as a rewrite would leave them. Pure functions.

A table that other writers sorted needs no rewrite. Each plan computes from the metadata which files are adopted, and
nothing is stored. An adopted file remains adopted when other files are rewritten, because this does not change how
many rows of the partition are in its interval.

The files of a partition without a layout record are all adopted if the partition is within the tolerance. If not, or if
the partition has layout records, each file is examined on its own, and later appends are merged with the adopted files
as with laid-out files. The adopted files must then have at least half of the rows of the partition. A few new files
beside laid-out files are therefore not adopted, even if they are in order: they are an append.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow.compute as pc

from zlayout.planner.forecast import Measured, best_touched
from zlayout.planner.partitions import OVERSIZED_ABOVE, Bools, FileFacts, Floats, Index, PartitionFacts, much_deleted
from zlayout.spec.model import LayoutSpec
from zlayout.table.side_by_side import side_by_side
from zlayout.table.state import FileTable
from zlayout.table.sums import counts, sums

# A query must be able to skip at least this share of the files that it could skip in a perfect layout. With few files,
# touched is within the tolerance even without an order, and only this condition shows that the files are in order.
MIN_SHARE_EXCLUDED = 0.5
# The share of the rows of a partition that its adopted files must have, if not all are adopted.
MIN_SHARE_ADOPTED = 0.5
# The minimum number of adopted files of a partition, if not all are adopted. Estimates for fewer files are not stable.
MIN_FILES_ADOPTED = 8
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
    whole &= counts(files.partition[unfit], len(facts.files)) <= spec.tolerance.small_files * facts.files
    whole &= counts(files.partition[unbounded], len(facts.files)) == 0
    whole &= facts.deleted <= spec.tolerance.deleted_rows
    found = whole[files.partition]
    # If half of the files are in order, a query skips half as many files as if all were.
    part = open_to & ~whole & (excluded >= MIN_SHARE_ADOPTED * MIN_SHARE_EXCLUDED * perfect - _ROUNDING)
    if part.any():
        fit = unrecorded & ~(unfit | unbounded | much_deleted(files, spec))
        found |= _in_order(spec, files, fit, part, perfect, now)
    return _counted(files, each_file, facts, found)


def _unbounded(spec: LayoutSpec, files: FileTable, now: Measured) -> Bools:
    """Return the files that have values but no bounds in a z-order column, so that their order is unknown."""
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
