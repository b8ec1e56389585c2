"""Which files to rewrite, and why: pure selection on a `TableState`, by partition, without a loop over files.

A file is *laid out* when its record carries the spec's layout id. Partitions whose files are all laid out by one
rewrite are done; so is a single file, which no rewrite can improve. All else is drift (another layout, or none,
or an older partitioning) or decay (new files beside laid-out ones), and decay counts only past `tolerance`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.plan.model import Decay, Measure
from zlayout.spec.model import LayoutSpec
from zlayout.spec.select import matches
from zlayout.table.state import FileTable, PartitionField, TableState

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Index = NDArray[np.int64]

# A file this many times the target is split; below half the target it counts as small.
OVERSIZE = 1.5
SMALL = 0.5


@dataclass(frozen=True, slots=True)
class Selected:
    """Files (int64 index into the FileTable) that one rewrite should replace, and the reason in plain words."""

    files: Index
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What to rewrite; the worst decay of any partition; partitions that `where` leaves out or cuts through."""

    groups: tuple[Selected, ...]
    decay: tuple[Decay, ...]
    out_of_scope: int
    straddling: int


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One row for each partition (length P): what its files look like beside the spec.

    current: partitioned as declared. laid, stale: how many of its `files` carry the spec's layout id, or another.
    groups: how many rewrites the laid-out files come from. Shares are of rows (unclustered, deleted) or files.
    """

    current: Bools
    in_scope: Bools
    files: Index
    laid: Index
    stale: Index
    groups: Index
    bytes: Floats
    unclustered: Floats
    deleted: Floats
    small: Floats


def select(
    spec: LayoutSpec,
    state: TableState,
    fields: tuple[PartitionField, ...],
    touched_ratio: Floats,
    blind: Bools | None = None,
) -> Selection:
    """Choose the files that a rewrite to `spec` must replace.

    fields: the partitioning to reach. touched_ratio: float64[P], for each partition the files that equality queries
    touch now as a multiple of what a rewrite of the partition would leave. blind: bool[P], partitions whose bounds are
    cut so short that only a rewrite with longer ones lets queries skip.
    """
    files = state.files
    facts, straddling = partition_facts(spec, state, fields)
    tolerance = spec.tolerance
    oversize = (facts.files == 1) & (facts.bytes > OVERSIZE * spec.layout.target_size)
    single = (facts.files == 1) & ~oversize
    mixed = (facts.laid > 0) & ((facts.laid < facts.files) | (facts.groups > 1))
    drifted = (facts.stale > 0) | (facts.laid == 0)
    many_deletes = facts.deleted > tolerance.deleted_rows
    decayed = mixed & (
        (facts.unclustered > tolerance.unclustered)
        | (touched_ratio > tolerance.touched)
        | (facts.small > tolerance.small_files)
    )
    cut = np.zeros(len(facts.files), dtype=bool) if blind is None else blind
    wanted = facts.current & facts.in_scope & (many_deletes | (~single & (drifted | decayed | cut)))
    old = ~facts.current & facts.in_scope
    if old.any():
        # Old files spread over the new partitions; ordering them apart from what is there already would leave
        # two overlapping groups in each, and another plan after this one.
        groups = [Selected(_files_in(files, facts.in_scope), "partition_by changed")]
    else:
        groups = _by_partition(files, wanted, facts, many_deletes, cut)
    known = facts.current & facts.in_scope & bool((facts.laid > 0).any())
    decay = _worst(facts, touched_ratio, mixed, known, spec)
    return Selection(tuple(groups), decay, int((~facts.in_scope).sum()), straddling)


def partition_facts(
    spec: LayoutSpec, state: TableState, fields: tuple[PartitionField, ...]
) -> tuple[PartitionFacts, int]:
    """The facts of every partition, and how many partitions `where` cuts through (those are out of scope)."""
    files = state.files
    count = len(files.partitions)
    ours = np.array([record.layout_id == spec.layout.layout_id for record in files.layouts] + [False], dtype=bool)
    laid = ours[files.layout]
    stale = (files.layout >= 0) & ~laid
    small = files.bytes < SMALL * spec.layout.target_size
    in_scope, straddling = scope(spec, state)

    def total(weights: NDArray[np.generic]) -> Floats:
        sums: Floats = np.bincount(files.partition, weights=weights.astype(np.float64), minlength=count).astype(float)
        return sums

    number, rows = total(np.ones(len(files))), total(files.rows)
    facts = PartitionFacts(
        current=np.array([p.fields == fields for p in files.partitions], dtype=bool),
        in_scope=in_scope,
        files=number.astype(np.int64),
        laid=total(laid).astype(np.int64),
        stale=total(stale).astype(np.int64),
        groups=_distinct_groups(files, laid, count),
        bytes=total(files.bytes),
        unclustered=_share(total(np.where(laid, 0, files.rows)), rows),
        deleted=_share(total(np.minimum(files.deleted, files.rows)), rows),
        small=_share(total(small), number),
    )
    return facts, straddling


def scope(spec: LayoutSpec, state: TableState) -> tuple[Bools, int]:
    """bool[P]: the partitions all of whose rows satisfy `where`; and how many it cuts through or cannot tell."""
    partitions = state.files.partitions
    if spec.where is None:
        return np.ones(len(partitions), dtype=bool), 0
    dates = frozenset(c.name for c in state.columns if pa.types.is_date(c.type))
    answers = [matches(spec.where, p.fields, p.values, dates) for p in partitions]
    return np.array([a is True for a in answers], dtype=bool), sum(a is None for a in answers)


def target_files(files: FileTable, index: Index, target_size: int) -> int:
    """How many files of target_size bytes hold the live rows of the files at `index`; at least one."""
    rows = int(files.rows[index].sum())
    live = int(files.live_rows[index].sum()) / rows if rows else 1.0
    return max(1, round(int(files.bytes[index].sum()) * live / target_size))


def _by_partition(
    files: FileTable, wanted: Bools, facts: PartitionFacts, many_deletes: Bools, cut: Bools
) -> list[Selected]:
    chosen = _files_in(files, wanted)
    if not len(chosen):
        return []
    order = chosen[np.argsort(files.partition[chosen], kind="stable")]
    partitions, starts = np.unique(files.partition[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [Selected(p, _reason(int(k), facts, many_deletes, cut)) for k, p in zip(partitions, parts, strict=True)]


def _reason(partition: int, facts: PartitionFacts, many_deletes: Bools, cut: Bools) -> str:
    if facts.stale[partition]:
        return "laid out otherwise"
    if facts.laid[partition] == 0:
        return "not laid out yet"
    if cut[partition]:
        return "bounds cut short"
    return "deleted rows" if many_deletes[partition] else "decayed"


def _files_in(files: FileTable, partitions: Bools) -> Index:
    return np.flatnonzero(partitions[files.partition]).astype(np.int64)


def _distinct_groups(files: FileTable, laid: Bools, count: int) -> Index:
    pairs = np.unique(np.stack([files.partition[laid], files.group[laid]]), axis=1)
    return np.bincount(pairs[0], minlength=count).astype(np.int64)


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _worst(facts: PartitionFacts, touched: Floats, mixed: Bools, known: Bools, spec: LayoutSpec) -> tuple[Decay, ...]:
    """The worst partition of each measure, where it counts: in a partition that zlayout laid out at least in part."""
    tolerance = spec.tolerance
    measures: Mapping[Measure, tuple[Floats, Bools, float]] = {
        "unclustered": (facts.unclustered, known & (facts.files > 1), tolerance.unclustered),
        "touched": (touched, known & mixed, tolerance.touched),
        "small_files": (facts.small, known & mixed, tolerance.small_files),
        "deleted_rows": (facts.deleted, known, tolerance.deleted_rows),
    }
    worst = []
    for name, (values, counts, limit) in measures.items():
        value = float(values[counts].max(initial=0.0))
        if value > 0:
            worst.append(Decay(name, value, limit))
    return tuple(worst)
