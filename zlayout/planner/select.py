"""Select the files to rewrite in each partition, and the reason. Pure functions without a loop over files.

A file is *laid out* if the layout of the spec covers its layout record, or if it is adopted
(`zlayout.planner.adoption`). A partition needs no rewrite if one rewrite laid out all of its files. Any other partition
has drift (another layout, no layout, or an older partitioning) or decay (new files beside laid-out files, or deleted
rows). Decay within the tolerance is ignored. Above the tolerance, `zlayout.planner.merge` selects the files whose
rewrite restores the tolerance at the lowest cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
from zlayout.planner.selection import FileSelection, by_partition, divided, moved_group
from zlayout.planner.waiting import set_rarely_read_aside
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import FileTable, PartitionField, TableState
from zlayout.table.sums import counts

# If a partition has no pending files, the last run left its present touched, and an error in the prediction of that run
# must not cause another rewrite. The tolerance for touched is therefore multiplied by 1 plus EXTRA_TOLERANCE
# / sqrt(files), because the error is larger for few files, and at least by 1 plus MIN_EXTRA_TOLERANCE.
EXTRA_TOLERANCE, MIN_EXTRA_TOLERANCE = 0.8, 0.1


@dataclass(frozen=True, slots=True)
class SelectionInput:
    """The table and what determines the files that are selected from it.

    Attributes:
        spec: The layout spec.
        state: The observed table, with N files in P partitions.
        fields: The partitioning to reach.
        now: The present metrics.
        indistinct: bool[P], the partitions whose bounds are indistinct and become longer in rewritten files.
        max_bytes: The limit of a group in bytes; None for no limit. A group of one file may be larger.
        adopts: Whether files without a layout record may be adopted.
    """

    spec: LayoutSpec
    state: TableState
    fields: tuple[PartitionField, ...]
    now: Measured
    indistinct: Bools
    max_bytes: int | None
    adopts: bool = False

    @property
    def limit(self) -> float:
        """`max_bytes` as a number: infinity for no limit."""
        return np.inf if self.max_bytes is None else self.max_bytes


def select(given: SelectionInput, arriving: Bools | None = None, rarely_read: Bools | None = None) -> FileSelection:
    """Select the files that must be rewritten so that the table is laid out as declared.

    Args:
        given: The table and its layout spec.
        arriving: bool[N], the files that represent moved rows, see `zlayout.planner.moves`. They count as laid out, and
            as added since the last run. None for none.
        rarely_read: bool[P], the partitions whose decay waits unless files are moved; None for none.
    """
    spec, state, now, indistinct, max_bytes = given.spec, given.state, given.now, given.indistinct, given.max_bytes
    files = state.files
    added = np.zeros(len(files), bool) if arriving is None else arriving
    each_file = file_facts(spec, files)
    recorded, partially_matched = facts_of(spec, state, given.fields, each_file)
    planned = recorded.current & recorded.in_scope
    adopted = adopt(spec, files, each_file, recorded, planned & ~indistinct & given.adopts, now)
    facts = adopted.partitions
    # Here adopted files do not count as laid out, because they may have been added since the run that accepted the
    # table. Without z-order columns, nothing is settled, since added files also count as laid out.
    settled = (recorded.laid == recorded.files) & (facts.deleted <= spec.tolerance.deleted_rows)
    settled &= is_accepted(spec, state.properties) & (counts(files.partition[added], len(settled)) == 0)
    settled &= spec.layout.orders
    old = ~recorded.current & recorded.in_scope & (recorded.files > 0)
    moves = bool(old.any())
    if moves and spec.layout.engine == "zlayout":
        return _with_moves(given, adopted, old)
    if moves:
        # The formats' own rewrites cannot move some files without also rewriting those of the declared partitioning.
        everything = np.flatnonzero(facts.in_scope[files.partition])
        groups = [moved_group(files, everything)]
        chosen, ratio = facts.in_scope[files.partition], now.ratio
    elif not spec.layout.orders:
        groups = pack(spec, files, each_file, recorded, planned, max_bytes)
        chosen, ratio = np.zeros(len(files), bool), now.ratio
    else:
        judged = replace(given, spec=without_touched(spec)) if state.clustering else given
        chosen, ratio = _choose(judged, adopted, planned, settled, added)
        chosen |= _too_few_remain(files, adopted, chosen, len(planned))[files.partition]
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


def _with_moves(given: SelectionInput, adopted: Adopted, old: Bools) -> FileSelection:
    """Select as `select` does, and move the files of the partitions `old` to the partitioning to reach."""
    spec, state, files, facts = given.spec, given.state, given.state.files, adopted.partitions
    groups = move_groups(spec, files, np.flatnonzero(old[files.partition]), given.max_bytes)
    then = arrivals(spec, state, given.fields, groups, facts.current & (facts.files > 0), facts.in_scope)
    stay = replace(state, files=files.take(then.kept))

    def selected(after: TableState) -> FileSelection:
        arriving = np.arange(len(after.files)) >= len(then.kept)
        return select(replace(given, state=after, now=measure(after.files, spec)), arriving)

    present = selected(stay)
    chosen = selected(then.state) if len(then.group) else present
    found = then.with_new_files(chosen.groups, adopted.each_file.laid)
    return replace(present, groups=tuple(then.joined(groups, found, given.limit, files.bytes)), moves=True)


def _choose(
    given: SelectionInput, adopted: Adopted, planned: Bools, settled: Bools, added: Bools
) -> tuple[Bools, Floats]:
    """Return the files to rewrite, and the touched ratio, relative to the stored baselines where there may be decay."""
    spec, files, now = given.spec, given.state.files, given.now
    each_file, facts = adopted.each_file, adopted.partitions
    oversize = (facts.files == 1) & (facts.bytes > OVERSIZED_ABOVE * spec.layout.target_size)
    several = (facts.files > 1) | oversize
    deleted = facts.deleted > spec.tolerance.deleted_rows
    # In partitions that are not laid out all files are chosen, and in decayed ones those that restore the tolerance.
    whole = planned & (
        (several & ((facts.laid == 0) | given.indistinct)) | (deleted & ((facts.laid == 0) | (facts.files == 1)))
    )
    exceeds = (facts.unclustered > spec.tolerance.unclustered) | (facts.small > spec.tolerance.small_files)
    must_change = deleted | (several & (facts.outdated > 0)) | (facts.mixed & exceeds)
    to_measure = planned & ~whole & (facts.laid > 0) & (must_change | facts.mixed)
    chosen, ratio = whole[files.partition], now.ratio.copy()
    if not to_measure.any():
        return chosen, ratio
    index, decayed = measured_partitions(spec, files, each_file, to_measure, now)
    partitions, partition = np.flatnonzero(to_measure), decayed.partition
    much = deleted[partitions][partition]
    pending = ~decayed.facts.laid | (much & much_deleted(decayed.files, spec))
    pending |= much & shared(decayed.files, partition, len(decayed.targets), pending, spec)
    has_pending = counts(partition[pending], len(partitions)) > 0
    decayed = decayed.accepting(~has_pending)
    ratio[partitions] = decayed.ratio
    extra = np.maximum(EXTRA_TOLERANCE / np.sqrt(facts.files[partitions]), MIN_EXTRA_TOLERANCE)
    limit = spec.tolerance.touched * np.where(has_pending, 1.0, 1.0 + extra)
    decays = (must_change[partitions] | (decayed.ratio > limit)) & ~settled[partitions]
    if spec.layout.engine != "zlayout":
        # The formats' own rewrites process whole partitions.
        whole[partitions[decays]] = True
        return whole[files.partition], ratio
    chosen[index[merge(decayed, pending | added[index], spec, given.limit) & decays[partition]]] = True
    return chosen, ratio


def _too_few_remain(files: FileTable, adopted: Adopted, chosen: Bools, partitions: int) -> Bools:
    """Return the partitions, bool[P], in which adopted files would remain, but too few for the next plan to adopt."""
    kept = adopted.files & ~chosen
    some, rest = (counts(files.partition[which], partitions) > 0 for which in (chosen, kept))
    return some & rest & too_few(files, kept, partitions)


def _worst(facts: PartitionFacts, touched: Floats, known: Bools, settled: Bools, spec: LayoutSpec) -> tuple[Decay, ...]:
    """known: bool[P], the partitions whose measures count."""
    measures = (
        (Measure.UNCLUSTERED, facts.unclustered, known & (facts.files > 1), spec.tolerance.unclustered),
        (Measure.TOUCHED, touched, known & facts.mixed, spec.tolerance.touched),
        (Measure.SMALL_FILES, facts.small, known & facts.mixed, spec.tolerance.small_files),
        (Measure.DELETED_ROWS, facts.deleted, known, spec.tolerance.deleted_rows),
    )
    return worst_of(measures, settled)


def worst_of(measures: Iterable[tuple[Measure, Floats, Bools, float]], settled: Bools) -> tuple[Decay, ...]:
    """Return the decay measures that are above 0, each with its highest value in any partition.

    Args:
        measures: Each measure with its value in each partition, the partitions that count (bool[P]), and its tolerance.
        settled: bool[P], the partitions that do not count as exceeding a tolerance, whatever their values.
    """
    found = (
        Decay(name, float(values[counted].max(initial=0.0)), limit, int((values[counted & ~settled] > limit).sum()))
        for name, values, counted, limit in measures
    )
    return tuple(decay for decay in found if decay.value > 0)
