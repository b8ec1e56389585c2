"""Select the files to rewrite in each partition, and the reason. Pure functions without a loop over files.

A file is *laid out* if its layout record has the layout id of the spec. A partition needs no rewrite if one rewrite
laid out all of its files, or if it has a single file. Everything else is drift (another layout, no layout, or an older
partitioning) or decay (new files beside laid-out files). Decay below the tolerance is ignored; above the tolerance,
`zlayout.planner.merge` selects the fewest files that restore it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.planner.actions import Reason
from zlayout.planner.classes import classes_of
from zlayout.planner.decayed import Decayed, measure_decayed, saved
from zlayout.planner.forecast import Measured
from zlayout.planner.merge import merge
from zlayout.planner.model import Decay, Measure
from zlayout.planner.partitions import OVERSIZED_ABOVE, Bools, FileFacts, Floats, Index, PartitionFacts, file_facts
from zlayout.planner.partitions import partition_facts as facts_of
from zlayout.planner.selection import FileSelection, SelectedFiles
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable, PartitionField, TableState
from zlayout.table.sums import counts, sums

# If no file is pending, an earlier run accepted the present touched, and an error of its prediction must not cause
# another rewrite. The tolerance is therefore raised by the share EXTRA_TOLERANCE / sqrt(files), since the error is
# larger for few files, but at least by MIN_EXTRA_TOLERANCE.
EXTRA_TOLERANCE, MIN_EXTRA_TOLERANCE = 0.8, 0.1


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The files to rewrite in present partitions, and the predicted result.

    Attributes:
        files: bool[N], the files to rewrite.
        touched: float64[P, d], predicted for each partition.
        after: int64[P], the predicted number of files of each partition.
        ratio: float64[P], the present touched ratio, calibrated in partitions that were measured.
    """

    files: Bools
    touched: Floats
    after: Index
    ratio: Floats


def select(
    spec: LayoutSpec,
    state: TableState,
    fields: tuple[PartitionField, ...],
    now: Measured,
    indistinct: Bools | None = None,
    max_bytes: int | None = None,
) -> FileSelection:
    """Select the files that must be rewritten so that the table is laid out as declared.

    Args:
        spec: The declared layout.
        state: The observed table.
        fields: The partitioning to reach.
        now: The present metrics of the table.
        indistinct: bool[P], partitions whose bounds are indistinct and become longer in rewritten files.
        max_bytes: The limit of a group in bytes. A single file may be larger.
    """
    files = state.files
    each_file = file_facts(spec, files)
    facts, partially_matched = facts_of(spec, state, fields, each_file)
    truncated = np.zeros(len(facts.files), dtype=bool) if indistinct is None else indistinct
    planned = facts.current & facts.in_scope
    if moves := bool((~facts.current & facts.in_scope).any()):
        # Rows of old files go to many new partitions. All files in scope are rewritten together: two groups would
        # overlap in each partition, and the next plan would rewrite them again.
        everything = np.flatnonzero(facts.in_scope[files.partition])
        groups = [moved(files, everything)]
        chosen = facts.in_scope
        choice = _Chosen(chosen[files.partition], *_rewritten(now, chosen), now.ratio)
    else:
        choice = _choose(
            spec, files, each_file, facts, planned, truncated, now, np.inf if max_bytes is None else max_bytes
        )
        groups = _by_partition(files, choice.files, facts, spec, truncated)
        if max_bytes is not None:
            parts = [part for group in groups for part in _divided(group, files, spec, max_bytes)]
            if len(parts) > len(groups):
                choice = replace(choice, touched=_in_parts(spec, files, now, parts, choice.touched))
            groups = parts
    known = planned & bool((facts.laid > 0).any())
    decay = _worst(facts, choice.ratio, known, spec)
    out_of_scope = int((~facts.in_scope).sum())
    return FileSelection(tuple(groups), choice.touched, choice.after, decay, out_of_scope, partially_matched, moves)


def moved(files: FileTable, index: Index) -> SelectedFiles:
    """Select files for a partitioning change."""
    return SelectedFiles(
        index, Reason.PARTITIONING_CHANGED if (files.layout[index] >= 0).any() else Reason.NOT_LAID_OUT
    )


def _choose(
    spec: LayoutSpec,
    files: FileTable,
    each_file: FileFacts,
    facts: PartitionFacts,
    planned: Bools,
    truncated: Bools,
    now: Measured,
    max_bytes: float,
) -> _Chosen:
    """Choose all files of partitions that are not laid out, and in decayed partitions those that restore tolerance."""
    oversize = (facts.files == 1) & (facts.bytes > OVERSIZED_ABOVE * spec.layout.target_size)
    several = (facts.files > 1) | oversize
    deleted = facts.deleted > spec.tolerance.deleted_rows
    whole = planned & (
        (several & ((facts.laid == 0) | truncated)) | (deleted & ((facts.laid == 0) | (facts.files == 1)))
    )
    beyond_tolerance = deleted | (several & (facts.outdated > 0)) | (facts.mixed & _past_tolerance(facts, spec))
    to_measure = (
        planned & ~whole & (facts.laid > 0) & (beyond_tolerance | (facts.mixed & (now.ratio > spec.tolerance.touched)))
    )
    touched, after = _rewritten(now, whole)
    choice = _Chosen(whole[files.partition], touched, after, now.ratio.copy())
    if not to_measure.any():
        return choice
    index, decayed = _measured(spec, files, each_file, to_measure, now)
    partitions, partition = np.flatnonzero(to_measure), decayed.partition
    choice.ratio[partitions] = decayed.ratio
    past = deleted[partitions][partition]
    pending = ~decayed.facts.laid | (past & _much_deleted(decayed.files, spec))
    pending |= past & _shared(decayed, pending, spec)
    waiting = counts(partition[pending], len(partitions)) > 0
    decays = beyond_tolerance[partitions] | (decayed.ratio > _limit(spec, waiting, facts.files[partitions]))
    if spec.layout.engine != "zlayout":
        # The formats' own rewrites process whole partitions.
        again = np.zeros_like(whole)
        again[partitions[decays]] = True
        touched, after = _rewritten(now, whole | again)
        return replace(choice, files=(whole | again)[files.partition], touched=touched, after=after)
    merged = merge(decayed, pending, spec, max_bytes)
    rewritten = partitions[decays]
    touched[rewritten], after[rewritten] = merged.touched[decays], merged.files[decays]
    choice.files[index[merged.chosen & decays[partition]]] = True
    return choice


def savings(spec: LayoutSpec, files: FileTable, now: Measured, groups: Sequence[SelectedFiles]) -> Floats:
    """Predict by how much each of G groups alone lowers touched of the table, float64[G, d]."""
    if not groups:
        return np.zeros((0, len(spec.column_names)))
    of_file = np.full(len(files), -1, np.int64)
    for number, group in enumerate(groups):
        of_file[group.files] = number
    concerned = np.zeros(len(now.files), bool)
    concerned[files.partition[of_file >= 0]] = True
    index, decayed = _measured(spec, files, file_facts(spec, files), concerned, now)
    return saved(decayed, of_file[index], len(groups), spec)


def _measured(
    spec: LayoutSpec, files: FileTable, each_file: FileFacts, inside: Bools, now: Measured
) -> tuple[Index, Decayed]:
    """Measure the partitions `inside` (bool[P], each with files). Return their files (int64 indices) and metrics."""
    if inside.all():
        index, partition = np.arange(len(files)), files.partition.astype(np.int64)
        return index, measure_decayed(files, each_file, spec, now.targets, now.distinct, partition, now.reaches)
    index = np.flatnonzero(inside[files.partition])
    partition = (np.cumsum(inside) - 1)[files.partition[index]]
    part, facts = files.take(index), _take(each_file, index)
    return index, measure_decayed(part, facts, spec, now.targets[inside], now.distinct[inside], partition)


def _past_tolerance(facts: PartitionFacts, spec: LayoutSpec) -> Bools:
    past: Bools = (facts.unclustered > spec.tolerance.unclustered) | (facts.small > spec.tolerance.small_files)
    return past


def _limit(spec: LayoutSpec, waiting: Bools, files: Index) -> Floats:
    """Return the touched ratio above which each partition counts as decayed, float64[P]; files: int64[P]."""
    settled = np.maximum(EXTRA_TOLERANCE / np.sqrt(files), MIN_EXTRA_TOLERANCE)
    return spec.tolerance.touched * np.where(waiting, 1.0, 1.0 + settled)


def _much_deleted(files: FileTable, spec: LayoutSpec) -> Bools:
    """Return the files, bool[N], in which the share of deleted rows exceeds the tolerance."""
    much: Bools = np.minimum(files.deleted, files.rows) > spec.tolerance.deleted_rows * files.rows
    return much


def _shared(decayed: Decayed, pending: Bools, spec: LayoutSpec) -> Bools:
    """Return the files, bool[N], with shared delete files whose partition would still exceed the tolerance.

    Their deleted rows remain after the pending files are rewritten, so the next plan would rewrite them.
    """
    files, partition, count = decayed.files, decayed.partition, len(decayed.targets)
    if not files.shared_deletes.any():
        return files.shared_deletes
    deleted = np.minimum(files.deleted, files.rows)
    left = sums(partition, count, np.where(pending & ~files.shared_deletes, 0, deleted))
    rows = sums(partition, count, np.where(pending, files.live_rows, files.rows))
    again = left > spec.tolerance.deleted_rows * rows
    shared: Bools = files.shared_deletes & again[partition]
    return shared


def _take(facts: FileFacts, index: Index) -> FileFacts:
    """Return the facts of the files at `index`, with groups numbered from 0."""
    group = facts.group[index]
    present = np.zeros(int(facts.group.max(initial=-1)) + 2, bool)
    present[group] = True  # -1, no group, is the last element
    number = np.cumsum(present) - 1
    number[-1] = -1
    return FileFacts(facts.laid[index], facts.outdated[index], number[group], facts.small[index])


def _rewritten(now: Measured, whole: Bools) -> tuple[Floats, Index]:
    """Return touched and the number of files of each partition after the partitions in `whole` are rewritten."""
    return np.where(whole[:, None], now.ideal, now.touched), np.where(whole, now.targets, now.files)


def _by_partition(
    files: FileTable, chosen: Bools, facts: PartitionFacts, spec: LayoutSpec, truncated: Bools
) -> list[SelectedFiles]:
    index = np.flatnonzero(chosen)
    if not len(index):
        return []
    chosen_of = classes_of(files.partition[index].astype(np.int64), len(files.partitions), index)
    parts = np.split(chosen_of.files, chosen_of.start[1:])
    return [
        SelectedFiles(p, _reason(k, facts, spec, truncated))
        for k, p in zip(chosen_of.present.tolist(), parts, strict=True)
    ]


def _divided(group: SelectedFiles, files: FileTable, spec: LayoutSpec, max_bytes: int) -> list[SelectedFiles]:
    """Divide a group into parts of at most `max_bytes`, sorted by the first z-order column."""
    size = files.bytes[group.files]
    if int(size.sum()) <= max_bytes or spec.layout.engine != "zlayout":
        return [group]
    lower = files.bounds[spec.column_names[0]].lower.take(pa.array(group.files))
    order = pc.array_sort_indices(lower).to_numpy()
    index, before = group.files[order], np.concatenate(([0], np.cumsum(size[order])))
    parts, start = [], 0
    while start < len(index):
        stop = max(int(np.searchsorted(before, before[start] + max_bytes, side="right")) - 1, start + 1)
        parts.append(SelectedFiles(np.sort(index[start:stop]), group.reason))
        start = stop
    return parts


def _in_parts(
    spec: LayoutSpec, files: FileTable, now: Measured, parts: Sequence[SelectedFiles], touched: Floats
) -> Floats:
    """Replace touched (float64[P, d]) of the partitions that are rewritten in several parts, because parts overlap."""
    partition = files.partition[[part.files[0] for part in parts]]
    saves = np.zeros_like(touched)
    np.add.at(saves, partition, savings(spec, files, now, parts))
    several = np.bincount(partition, minlength=len(touched)) > 1
    return np.where(several[:, None], now.touched - saves, touched)


def _reason(partition: int, facts: PartitionFacts, spec: LayoutSpec, truncated: Bools) -> Reason:
    if facts.outdated[partition]:
        return Reason.LAYOUT_CHANGED
    if facts.laid[partition] == 0:
        return Reason.NOT_LAID_OUT
    if truncated[partition]:
        return Reason.BOUNDS_TRUNCATED
    return Reason.DELETED_ROWS if facts.deleted[partition] > spec.tolerance.deleted_rows else Reason.DECAYED


def _worst(facts: PartitionFacts, touched: Floats, known: Bools, spec: LayoutSpec) -> tuple[Decay, ...]:
    """Return the decay measures of the worst partition; known: bool[P], partitions in scope of a laid-out table."""
    tolerance = spec.tolerance
    measures: Mapping[Measure, tuple[Floats, Bools, float]] = {
        Measure.UNCLUSTERED: (facts.unclustered, known & (facts.files > 1), tolerance.unclustered),
        Measure.TOUCHED: (touched, known & facts.mixed, tolerance.touched),
        Measure.SMALL_FILES: (facts.small, known & facts.mixed, tolerance.small_files),
        Measure.DELETED_ROWS: (facts.deleted, known, tolerance.deleted_rows),
    }
    worst = []
    for name, (values, counted, limit) in measures.items():
        value = float(values[counted].max(initial=0.0))
        if value > 0:
            worst.append(Decay(name, value, limit, int((values[counted] > limit).sum())))
    return tuple(worst)
