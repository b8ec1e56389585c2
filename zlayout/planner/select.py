"""Select the files to rewrite in each partition, and the reason. Pure functions without a loop over files.

A file is *laid out* if its layout record has the layout id of the spec, or if it is adopted
(`zlayout.planner.adoption`). A partition needs no rewrite if one rewrite laid out all of its files, or if it has a
single file. Everything else is drift (another layout, no layout, or an older partitioning) or decay (new files beside
laid-out files). Decay below the tolerance is ignored; above the tolerance, `zlayout.planner.merge` selects the fewest
files that restore it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from zlayout.planner.accepted import is_accepted
from zlayout.planner.adoption import Adopted, adopt, too_few
from zlayout.planner.clustering import rewritten_by_optimize, without_touched
from zlayout.planner.decayed import measured_partitions
from zlayout.planner.forecast import Measured, measure
from zlayout.planner.merge import merge
from zlayout.planner.model import Decay, Measure
from zlayout.planner.moves import arrivals, move_groups
from zlayout.planner.packing import pack, shared
from zlayout.planner.partitions import OVERSIZED_ABOVE, Bools, Floats, PartitionFacts, file_facts, much_deleted
from zlayout.planner.partitions import partition_facts as facts_of
from zlayout.planner.selection import FileSelection, by_partition, divided, moved
from zlayout.planner.waiting import set_rarely_read_aside
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable, PartitionField, TableState
from zlayout.table.sums import counts

# If no file is pending, an earlier run accepted the present touched, and an error of its prediction must not cause
# another rewrite. The tolerance is therefore raised by the share EXTRA_TOLERANCE / sqrt(files), since the error is
# larger for few files, but at least by MIN_EXTRA_TOLERANCE.
EXTRA_TOLERANCE, MIN_EXTRA_TOLERANCE = 0.8, 0.1


def select(
    spec: LayoutSpec,
    state: TableState,
    fields: tuple[PartitionField, ...],
    now: Measured,
    indistinct: Bools,
    max_bytes: int | None,
    adopts: bool,
    arriving: Bools | None = None,
    rarely_read: Bools | None = None,
) -> FileSelection:
    """Select the files that must be rewritten so that the table is laid out as declared.

    Args:
        fields: The partitioning to reach.
        indistinct: bool[P], partitions whose bounds are indistinct and become longer in rewritten files.
        max_bytes: The limit of a group in bytes, None for no limit. A single file may be larger.
        adopts: Whether files without a layout record may be adopted.
        arriving: bool[N], files that count as laid out for the tolerance and as added since the last run, see
            `zlayout.planner.moves`; None for none.
        rarely_read: bool[P], partitions whose decay waits; None for none.
    """
    files = state.files
    added = np.zeros(len(files), bool) if arriving is None else arriving
    each_file = file_facts(spec, files)
    recorded, partially_matched = facts_of(spec, state, fields, each_file)
    planned = recorded.current & recorded.in_scope
    adopted = adopt(spec, files, each_file, recorded, planned & ~indistinct & adopts, now)
    facts = adopted.partitions
    # an adopted file may have been added since the run that was accepted
    settled = (recorded.laid == recorded.files) & (facts.deleted <= spec.tolerance.deleted_rows)
    settled &= is_accepted(spec, state.properties) & (counts(files.partition[added], len(settled)) == 0)
    settled &= spec.layout.orders  # else all files count as laid out, and those that were added are not known
    old = ~recorded.current & recorded.in_scope & (recorded.files > 0)
    moves = bool(old.any())
    if moves and spec.layout.engine == "zlayout":
        return _with_moves(spec, state, fields, adopted, old, indistinct, max_bytes, adopts)
    if moves:
        # The formats' own rewrites cannot move some files and leave those of the declared partitioning alone.
        everything = np.flatnonzero(facts.in_scope[files.partition])
        groups = [moved(files, everything)]
        chosen, ratio = facts.in_scope[files.partition], now.ratio
    elif not spec.layout.orders:
        groups = pack(spec, files, each_file, recorded, planned, max_bytes)
        chosen, ratio = np.zeros(len(files), bool), now.ratio
    else:
        limit = np.inf if max_bytes is None else max_bytes
        judged = without_touched(spec) if state.clustering else spec
        chosen, ratio = _choose(judged, files, adopted, planned, settled, added, indistinct, now, limit)
        chosen |= _remains(files, adopted, chosen, len(planned))[files.partition]
        if state.clustering:
            chosen &= rewritten_by_optimize(spec.layout, state)
        groups = by_partition(files, chosen, recorded, spec, indistinct)
        if max_bytes is not None:
            groups = [part for group in groups for part in divided(group, files, spec, max_bytes)]
    groups, waiting, waits = set_rarely_read_aside(spec, groups, files, rarely_read)
    known = planned & ~waits & ((facts.laid > 0) | bool((recorded.laid > 0).any()))
    decay = _worst(facts, ratio, known, settled, spec)
    kept = adopted.files & ~chosen
    return FileSelection(
        groups=tuple(groups),
        decay=tuple(d for d in decay if not (state.clustering and d.measure is Measure.TOUCHED)),
        out_of_scope=int((~facts.in_scope).sum()),
        partially_matched=partially_matched,
        moves=moves,
        adopted=int(kept.sum()),
        adopted_partitions=len(np.unique(files.partition[kept])),
        rarely_read=tuple(waiting),
    )


def _with_moves(
    spec: LayoutSpec,
    state: TableState,
    fields: tuple[PartitionField, ...],
    adopted: Adopted,
    old: Bools,
    indistinct: Bools,
    max_bytes: int | None,
    adopts: bool,
) -> FileSelection:
    """Select as `select` does, and move the files of the partitions `old` (bool[P]) to the declared partitioning."""
    files, facts = state.files, adopted.partitions
    groups = move_groups(spec, files, np.flatnonzero(old[files.partition]), max_bytes)
    then = arrivals(spec, state, fields, groups, facts.current & (facts.files > 0), facts.in_scope)
    stay = replace(state, files=files.take(then.kept))

    def selected(after: TableState) -> FileSelection:
        now, arriving = measure(after.files, spec), np.arange(len(after.files)) >= len(then.kept)
        return select(spec, after, fields, now, indistinct, max_bytes, adopts, arriving)

    present = selected(stay)
    chosen = selected(then.state) if len(then.group) else present
    found = then.with_new_files(chosen.groups, adopted.each_file.laid)
    limit = np.inf if max_bytes is None else max_bytes
    return replace(present, groups=tuple(then.joined(groups, found, limit, files.bytes)), moves=True)


def _choose(
    spec: LayoutSpec,
    files: FileTable,
    adopted: Adopted,
    planned: Bools,
    settled: Bools,
    added: Bools,
    truncated: Bools,
    now: Measured,
    max_bytes: float,
) -> tuple[Bools, Floats]:
    """Choose all files of partitions that are not laid out, and in decayed partitions those that restore tolerance.

    Args:
        planned: bool[P], the partitions that may be rewritten.
        settled: bool[P], those without added files that the last run accepted.
        added: bool[N], laid-out files that were added since. See `select` for the others.

    Returns:
        bool[N], the files to rewrite, and float64[P], the present touched ratio, calibrated in partitions that were
        measured.
    """
    each_file, facts = adopted.each_file, adopted.partitions
    oversize = (facts.files == 1) & (facts.bytes > OVERSIZED_ABOVE * spec.layout.target_size)
    several = (facts.files > 1) | oversize
    deleted = facts.deleted > spec.tolerance.deleted_rows
    whole = planned & (
        (several & ((facts.laid == 0) | truncated)) | (deleted & ((facts.laid == 0) | (facts.files == 1)))
    )
    past = (facts.unclustered > spec.tolerance.unclustered) | (facts.small > spec.tolerance.small_files)
    beyond_tolerance = deleted | (several & (facts.outdated > 0)) | (facts.mixed & past)
    to_measure = planned & ~whole & (facts.laid > 0) & (beyond_tolerance | facts.mixed)
    chosen, ratio = whole[files.partition], now.ratio.copy()
    if not to_measure.any():
        return chosen, ratio
    index, decayed = measured_partitions(spec, files, each_file, to_measure, now)
    partitions, partition = np.flatnonzero(to_measure), decayed.partition
    much = deleted[partitions][partition]
    pending = ~decayed.facts.laid | (much & much_deleted(decayed.files, spec))
    pending |= much & shared(decayed.files, partition, len(decayed.targets), pending, spec)
    waiting = counts(partition[pending], len(partitions)) > 0
    decayed = decayed.accepting(~waiting)
    ratio[partitions] = decayed.ratio
    extra = np.maximum(EXTRA_TOLERANCE / np.sqrt(facts.files[partitions]), MIN_EXTRA_TOLERANCE)
    limit = spec.tolerance.touched * np.where(waiting, 1.0, 1.0 + extra)
    decays = (beyond_tolerance[partitions] | (decayed.ratio > limit)) & ~settled[partitions]
    if spec.layout.engine != "zlayout":
        # The formats' own rewrites process whole partitions.
        whole[partitions[decays]] = True
        return whole[files.partition], ratio
    chosen[index[merge(decayed, pending | added[index], spec, max_bytes) & decays[partition]]] = True
    return chosen, ratio


def _remains(files: FileTable, adopted: Adopted, chosen: Bools, partitions: int) -> Bools:
    """Return the partitions, bool[P], in which too few adopted files would remain to be adopted by the next plan."""
    kept = adopted.files & ~chosen
    some, rest = (counts(files.partition[which], partitions) > 0 for which in (chosen, kept))
    return some & rest & too_few(files, kept, partitions)


def _worst(facts: PartitionFacts, touched: Floats, known: Bools, settled: Bools, spec: LayoutSpec) -> tuple[Decay, ...]:
    """Return the decay measures of the worst partition.

    known: bool[P], partitions in scope of a laid-out table. settled: bool[P], those that the last run accepted.
    """
    measures = (
        (Measure.UNCLUSTERED, facts.unclustered, known & (facts.files > 1), spec.tolerance.unclustered),
        (Measure.TOUCHED, touched, known & facts.mixed, spec.tolerance.touched),
        (Measure.SMALL_FILES, facts.small, known & facts.mixed, spec.tolerance.small_files),
        (Measure.DELETED_ROWS, facts.deleted, known, spec.tolerance.deleted_rows),
    )
    return worst_of(measures, settled)


def worst_of(measures: Iterable[tuple[Measure, Floats, Bools, float]], settled: Bools) -> tuple[Decay, ...]:
    """Return the decay measures that are above 0 in the worst partition.

    Args:
        measures: Each measure with its value in each partition, the partitions that count (bool[P]), and its tolerance.
        settled: bool[P], the partitions that do not count as exceeding a tolerance.
    """
    found = (
        Decay(name, float(values[counted].max(initial=0.0)), limit, int((values[counted & ~settled] > limit).sum()))
        for name, values, counted, limit in measures
    )
    return tuple(decay for decay in found if decay.value > 0)
