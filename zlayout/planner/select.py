"""Selects the files to rewrite, and the reason: pure, by partition, without a loop over files.

A file is *laid out* when its layout record has the layout id of the spec. Nothing is to do in a partition whose files
are all laid out by one rewrite, or that has a single file. Everything else is drift (another layout, none, or an older
partitioning) or decay (new files beside laid-out ones). Decay counts only above the tolerance, and
`zlayout.planner.merge` selects as little as restores it.
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
from zlayout.planner.partitions import OVERSIZE, Bools, FileFacts, Floats, Index, PartitionFacts, file_facts
from zlayout.planner.partitions import partition_facts as facts_of
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable, PartitionField, TableState
from zlayout.table.sums import counts, sums

# Where no file waits to be laid out, an earlier run has accepted the current touched, and an error of its prediction is
# no reason to rewrite again. The error is larger where files are few: SETTLED / sqrt(files) of the tolerance is added,
# but at least MIN_SETTLED.
SETTLED, MIN_SETTLED = 0.8, 0.1


@dataclass(frozen=True, slots=True)
class Selected:
    """The files (int64 index into the FileTable) that one rewrite replaces, and the reason."""

    files: Index
    reason: Reason


@dataclass(frozen=True, slots=True)
class Selection:
    """What to rewrite, and what that leaves.

    touched: float64[P, d] and files: int64[P], predicted for every partition for after the rewrites. decay: of the
    worst partition. out_of_scope: number of partitions that are not in scope; straddling: of the partially matched ones
    among them. moves: the files move to another partitioning, so that nothing can be predicted for the current one.
    """

    groups: tuple[Selected, ...]
    touched: Floats
    files: Index
    decay: tuple[Decay, ...]
    out_of_scope: int
    straddling: int
    moves: bool = False


@dataclass(frozen=True, slots=True)
class _Choice:
    """bool[N]: files to rewrite; touched and files that this leaves (see `Selection`); float64[P]: refined ratios."""

    files: Bools
    touched: Floats
    after: Index
    ratio: Floats


def select(
    spec: LayoutSpec,
    state: TableState,
    fields: tuple[PartitionField, ...],
    now: Measured,
    blind: Bools | None = None,
    most_bytes: int | None = None,
) -> Selection:
    """Select the files that must be rewritten to reach the spec.

    Args:
        spec: the declared layout.
        state: the observed table.
        fields: the partitioning to reach.
        now: the table's metrics.
        blind: bool[P], partitions with indistinct bounds, in which only a rewrite with longer bounds lets queries skip.
        most_bytes: the limit of one group that has two files or more.
    """
    files = state.files
    each = file_facts(spec, files)
    facts, straddling = facts_of(spec, state, fields, each)
    cut = np.zeros(len(facts.files), dtype=bool) if blind is None else blind
    mine = facts.current & facts.in_scope
    if moves := bool((~facts.current & facts.in_scope).any()):
        # Old files spread over the new partitions. If they were ordered apart from the files that are there already,
        # each would have two overlapping groups, and the next plan would find something to do again.
        everything = np.flatnonzero(facts.in_scope[files.partition])
        groups = [moved(files, everything)]
        chosen = facts.in_scope
        choice = _Choice(chosen[files.partition], *_rewritten(now, chosen), now.ratio)
    else:
        choice = _choose(spec, files, each, facts, mine, cut, now, np.inf if most_bytes is None else most_bytes)
        groups = _by_partition(files, choice.files, facts, spec, cut)
        if most_bytes is not None:
            parts = [part for group in groups for part in _cut(group, files, spec, most_bytes)]
            if len(parts) > len(groups):
                choice = replace(choice, touched=_in_parts(spec, files, now, parts, choice.touched))
            groups = parts
    known = mine & bool((facts.laid > 0).any())
    decay = _worst(facts, choice.ratio, known, spec)
    out_of_scope = int((~facts.in_scope).sum())
    return Selection(tuple(groups), choice.touched, choice.after, decay, out_of_scope, straddling, moves)


def moved(files: FileTable, index: Index) -> Selected:
    """Files that move to another partitioning."""
    return Selected(index, Reason.PARTITIONING_CHANGED if (files.layout[index] >= 0).any() else Reason.NOT_LAID_OUT)


def _choose(
    spec: LayoutSpec,
    files: FileTable,
    each: FileFacts,
    facts: PartitionFacts,
    mine: Bools,
    cut: Bools,
    now: Measured,
    most_bytes: float,
) -> _Choice:
    """Partitions without laid-out files are rewritten whole, decayed ones only as far as restores the tolerance."""
    oversize = (facts.files == 1) & (facts.bytes > OVERSIZE * spec.layout.target_size)
    several = (facts.files > 1) | oversize
    deleted = facts.deleted > spec.tolerance.deleted_rows
    whole = mine & ((several & ((facts.laid == 0) | cut)) | (deleted & ((facts.laid == 0) | (facts.files == 1))))
    spoiled = deleted | (several & (facts.outdated > 0)) | (facts.mixed & _past_tolerance(facts, spec))
    suspect = mine & ~whole & (facts.laid > 0) & (spoiled | (facts.mixed & (now.ratio > spec.tolerance.touched)))
    touched, after = _rewritten(now, whole)
    choice = _Choice(whole[files.partition], touched, after, now.ratio.copy())
    if not suspect.any():
        return choice
    index, decayed = _measured(spec, files, each, suspect, now)
    partitions, partition = np.flatnonzero(suspect), decayed.partition
    choice.ratio[partitions] = decayed.ratio
    past = deleted[partitions][partition]
    pending = ~decayed.facts.laid | (past & _much_deleted(decayed.files, spec))
    pending |= past & _shared(decayed, pending, spec)
    waiting = counts(partition[pending], len(partitions)) > 0
    decays = spoiled[partitions] | (decayed.ratio > _limit(spec, waiting, facts.files[partitions]))
    if spec.layout.engine != "zlayout":
        # The formats' own rewrites process whole partitions.
        again = np.zeros_like(whole)
        again[partitions[decays]] = True
        touched, after = _rewritten(now, whole | again)
        return replace(choice, files=(whole | again)[files.partition], touched=touched, after=after)
    merged = merge(decayed, pending, spec, most_bytes)
    rewritten = partitions[decays]
    touched[rewritten], after[rewritten] = merged.touched[decays], merged.files[decays]
    choice.files[index[merged.chosen & decays[partition]]] = True
    return choice


def savings(spec: LayoutSpec, files: FileTable, now: Measured, groups: Sequence[Selected]) -> Floats:
    """float64[G, d]: by how much touched of the table decreases with each of the groups alone."""
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
    spec: LayoutSpec, files: FileTable, each: FileFacts, inside: Bools, now: Measured
) -> tuple[Index, Decayed]:
    """The files (int64 index) of the partitions `inside` (bool[P], each with files), and their metrics."""
    if inside.all():
        index, partition = np.arange(len(files)), files.partition.astype(np.int64)
        return index, measure_decayed(files, each, spec, now.targets, now.distinct, partition, now.reaches)
    index = np.flatnonzero(inside[files.partition])
    partition = (np.cumsum(inside) - 1)[files.partition[index]]
    part, facts = files.take(index), _take(each, index)
    return index, measure_decayed(part, facts, spec, now.targets[inside], now.distinct[inside], partition)


def _past_tolerance(facts: PartitionFacts, spec: LayoutSpec) -> Bools:
    past: Bools = (facts.unclustered > spec.tolerance.unclustered) | (facts.small > spec.tolerance.small_files)
    return past


def _limit(spec: LayoutSpec, waiting: Bools, files: Index) -> Floats:
    """float64[P]: the ratio above which a partition of `files` (int64[P]) counts as decayed."""
    settled = np.maximum(SETTLED / np.sqrt(files), MIN_SETTLED)
    return spec.tolerance.touched * np.where(waiting, 1.0, 1.0 + settled)


def _much_deleted(files: FileTable, spec: LayoutSpec) -> Bools:
    """bool[N]: files whose own share of deleted rows is above the tolerance."""
    much: Bools = np.minimum(files.deleted, files.rows) > spec.tolerance.deleted_rows * files.rows
    return much


def _shared(decayed: Decayed, pending: Bools, spec: LayoutSpec) -> Bools:
    """bool[N]: files that share delete files with others, in partitions that would be above the tolerance again.

    Their deleted rows remain after the pending files are rewritten, and the next plan would rewrite them.
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
    """The facts of some files, their groups numbered from 0."""
    group = facts.group[index]
    present = np.zeros(int(facts.group.max(initial=-1)) + 2, bool)
    present[group] = True  # -1, no group, is the last element
    number = np.cumsum(present) - 1
    number[-1] = -1
    return FileFacts(facts.laid[index], facts.outdated[index], number[group], facts.small[index])


def _rewritten(now: Measured, whole: Bools) -> tuple[Floats, Index]:
    """touched and number of files of each partition once those in `whole` are rewritten whole."""
    return np.where(whole[:, None], now.ideal, now.touched), np.where(whole, now.targets, now.files)


def _by_partition(
    files: FileTable, chosen: Bools, facts: PartitionFacts, spec: LayoutSpec, cut: Bools
) -> list[Selected]:
    index = np.flatnonzero(chosen)
    if not len(index):
        return []
    chosen_of = classes_of(files.partition[index].astype(np.int64), len(files.partitions), index)
    parts = np.split(chosen_of.files, chosen_of.start[1:])
    return [Selected(p, _reason(k, facts, spec, cut)) for k, p in zip(chosen_of.present.tolist(), parts, strict=True)]


def _cut(group: Selected, files: FileTable, spec: LayoutSpec, most_bytes: int) -> list[Selected]:
    """Divide the group into parts of at most `most_bytes`, in the order of the first column."""
    size = files.bytes[group.files]
    if int(size.sum()) <= most_bytes or spec.layout.engine != "zlayout":
        return [group]
    lower = files.bounds[spec.column_names[0]].lower.take(pa.array(group.files))
    order = pc.array_sort_indices(lower).to_numpy()
    index, before = group.files[order], np.concatenate(([0], np.cumsum(size[order])))
    parts, start = [], 0
    while start < len(index):
        stop = max(int(np.searchsorted(before, before[start] + most_bytes, side="right")) - 1, start + 1)
        parts.append(Selected(np.sort(index[start:stop]), group.reason))
        start = stop
    return parts


def _in_parts(spec: LayoutSpec, files: FileTable, now: Measured, parts: Sequence[Selected], touched: Floats) -> Floats:
    """float64[P, d]: touched where partitions are rewritten in several parts, which overlap each other."""
    partition = files.partition[[part.files[0] for part in parts]]
    saves = np.zeros_like(touched)
    np.add.at(saves, partition, savings(spec, files, now, parts))
    several = np.bincount(partition, minlength=len(touched)) > 1
    return np.where(several[:, None], now.touched - saves, touched)


def _reason(partition: int, facts: PartitionFacts, spec: LayoutSpec, cut: Bools) -> Reason:
    if facts.outdated[partition]:
        return Reason.LAYOUT_CHANGED
    if facts.laid[partition] == 0:
        return Reason.NOT_LAID_OUT
    if cut[partition]:
        return Reason.BOUNDS_CUT
    return Reason.DELETED_ROWS if facts.deleted[partition] > spec.tolerance.deleted_rows else Reason.DECAYED


def _worst(facts: PartitionFacts, touched: Floats, known: Bools, spec: LayoutSpec) -> tuple[Decay, ...]:
    """Each measure of the worst partition, among those that zlayout laid out at least in part."""
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
