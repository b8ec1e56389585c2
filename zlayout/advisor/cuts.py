"""Choose the cuts of curve `workload`: greedily, as a qd-tree, by the rows that the queries no longer read.

Every constant of the workload is a candidate. A part of the sample is divided by the candidate after which the queries
read the fewest rows, counted by the bounding boxes of both sides, and each side is divided in the same way. A layout
has one list of cuts for all parts: those that divided any part, the one with the largest gain first.

Queries with other constants decide whether the cuts are recommended. They are held out from the choice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.advisor.cut_gains import CutGains
from zlayout.advisor.model import Choice, KeySample, TableQuery, Target
from zlayout.curve.cuts import first_on_the_right, rank_with_cuts
from zlayout.predicate.model import Compare, In, IsNull, Leaf, Operator, Predicate, leaves, with_leaves
from zlayout.report.words import plural
from zlayout.spec.layout import WORKLOAD_CURVE, Layout, ZorderColumn

Float64 = NDArray[np.float64]
# Share of the rows read by all queries that a cut must save in one part.
MIN_GAIN = 0.001
# The longest list that a layout may have: each table stores it with its layout.
MAX_CUTS, MAX_TEXT_OF_CUT = 64, 100
# Share of the bytes that cuts must save, compared with the best layout without cuts, for queries that were held out.
MIN_SAVING_OF_CUTS = 0.05
# A shorter list of cuts is preferred if the queries read at most this much more.
SHORTER = 1.01
# The constants and the queries with the largest weights are used, so that the search ends in seconds.
MAX_CANDIDATES = 1_000
MAX_PREDICATES = 300
_SIDES: dict[Operator, tuple[Operator, ...]] = {
    "<": ("<",),
    ">=": ("<",),
    "<=": ("<=",),
    ">": ("<=",),
    "=": ("<", "<="),
    "!=": (),
}
Measure = Callable[[Layout, Sequence[TableQuery]], Choice]


@dataclass(frozen=True, slots=True)
class Checked:
    """A layout with cuts, and what queries that were held out from choosing the cuts read.

    layout: with cuts. queries: the number of queries that were held out. share: the bytes that they read, divided by
    what they read in the layout without cuts.
    """

    layout: Layout
    queries: int
    share: float

    @property
    def is_better(self) -> bool:
        return self.share <= 1 - MIN_SAVING_OF_CUTS


def note_on_cuts(checked: Checked) -> str:
    """What the check of recommended cuts showed, in one sentence."""
    held_out = f"{checked.queries:,} quer{'y' if checked.queries == 1 else 'ies'} that they were not chosen from"
    return (
        f"{plural(len(checked.layout.cuts), 'cut')} at constants of the workload: {held_out} read {checked.share:.0%} "
        "of the bytes that they read without the cuts."
    )


def search_cuts(
    start: Layout,
    queries: Sequence[TableQuery],
    sample: KeySample,
    target: Target,
    measure: Measure,
    deadline: float,
) -> Checked | None:
    """Find cuts for a part of the queries, and check them by the others.

    Args:
        start: the best layout without cuts.
        target: the size of a rewrite.
        measure: simulates a layout, and returns its costs for queries.
        deadline: on the monotonic clock.

    Returns:
        The layout with cuts and the check; None if there are no cuts, if no queries can be held out, or if the deadline
        passed.
    """
    chosen_from, held_out = split(queries)
    if not held_out:
        return None
    cuts = propose(chosen_from, sample, target, deadline)
    layouts = [with_cuts(start, cuts[: -(-len(cuts) >> halved)]) for halved in range(len(cuts).bit_length())]
    found: list[Choice] = []
    for layout in layouts:
        if time.monotonic() > deadline:
            return None
        found.append(measure(layout, chosen_from))
    if not found:
        return None
    lowest = min(choice.costs.mean_bytes for choice in found)
    best = [choice for choice in found if choice.costs.mean_bytes <= SHORTER * lowest][-1].layout
    before = measure(start, held_out).costs.mean_bytes
    return Checked(best, len(held_out), measure(best, held_out).costs.mean_bytes / before if before else 1.0)


def split(queries: Sequence[TableQuery]) -> tuple[list[TableQuery], list[TableQuery]]:
    """Divide queries into those that cuts are chosen from, and those that check the cuts.

    Queries with the same conditions but for their constants are divided alternately. A query that runs several times is
    in both, with half of its weight each. The only query with its conditions is among those to choose from.
    """
    shapes: dict[tuple[Predicate, ...], int] = {}
    chosen_from, held_out = [], []
    for query in queries:
        shape = tuple(with_leaves(p, _without_values) for p in query.predicates)
        number = shapes[shape] = shapes.get(shape, -1) + 1
        if query.weight >= 2:
            half = replace(query, query=replace(query.query, weight=query.weight / 2))
            chosen_from.append(half)
            held_out.append(half)
        else:
            (held_out if number % 2 else chosen_from).append(query)
    return chosen_from, held_out


def candidates(queries: Sequence[TableQuery]) -> list[Compare]:
    """The cuts at the constants of the queries, those with the largest weight first."""
    weights: dict[Compare, float] = {}
    for query in queries:
        for cut in dict.fromkeys(cut for p in query.predicates for leaf in leaves(p) for cut in _at_constants(leaf)):
            weights[cut] = weights.get(cut, 0.0) + query.weight
    return sorted(weights, key=lambda cut: -weights[cut])


def propose(
    queries: Sequence[TableQuery], sample: KeySample, target: Target, deadline: float = float("inf")
) -> tuple[Compare, ...]:
    """The cuts that save the queries most rows, in the order of their largest gain in one part.

    Args:
        queries: the queries to choose cuts from.
        sample: rows of the table, with all columns of the queries.
        target: the size of a rewrite. Sides of a cut are at least one file.
        deadline: on the monotonic clock; parts are divided until then.
    """
    known = {name: values.type for name, values in sample.keys.items()}
    usable = [c for c in candidates(queries) if c.column in known and _divides(c, known[c.column])]
    usable = usable[:MAX_CANDIDATES]
    ranked, cuts = rank_with_cuts(sample.keys, usable)
    search = CutGains(list(sample.keys), ranked, cuts, *_weighted(queries, len(target.files)))
    ordinals = np.stack([r.ordinals for r in ranked]) if ranked else np.zeros((0, len(sample)), np.int64)
    gains: dict[int, float] = {}
    least = MIN_GAIN * len(sample) * max(sum(query.weight for query in queries), 1e-9)
    parts = []
    for partition, files in enumerate(target.files.tolist()):
        rows = np.flatnonzero(sample.partition == partition)
        if files > 1 and len(rows):
            parts.append((rows, files, partition, len(rows) / files))
    while parts and time.monotonic() < deadline:
        rows, files, partition, file_rows = parts.pop()
        found = search.best(ordinals[:, rows], files, partition, file_rows)
        if found is None or found.gain < least:
            continue
        gains[found.cut] = max(gains.get(found.cut, 0.0), found.gain)
        is_left = ordinals[cuts.column[found.cut], rows] < cuts.threshold[found.cut]
        for side, number in ((rows[is_left], found.left_files), (rows[~is_left], files - found.left_files)):
            if number > 1:
                parts.append((side, number, partition, file_rows))
    return tuple(usable[number] for number in sorted(gains, key=lambda number: (-gains[number], number))[:MAX_CUTS])


def with_cuts(layout: Layout, cuts: Sequence[Compare]) -> Layout:
    """The layout with cuts. Their columns become z-order columns, with the weight 1 if they were not."""
    names = dict.fromkeys(cut.column for cut in cuts)
    known = {column.name for column in layout.columns}
    added = tuple(ZorderColumn(name) for name in names if name not in known)
    return replace(layout, columns=(*layout.columns, *added), curve=WORKLOAD_CURVE, cuts=tuple(cuts))


def _divides(cut: Compare, kind: pa.DataType) -> bool:
    """Whether a cut divides values of the type, and is short enough for a layout spec."""
    is_short = not isinstance(cut.value, str) or len(cut.value) <= MAX_TEXT_OF_CUT
    return is_short and first_on_the_right(cut, kind) is not None


def _at_constants(leaf: Leaf) -> Iterator[Compare]:
    if isinstance(leaf, IsNull):
        return
    operator = leaf.operator if isinstance(leaf, Compare) else "="
    for value in leaf.values if isinstance(leaf, In) else (leaf.value,):
        yield from (Compare(leaf.column, side, value) for side in _SIDES[operator])


def _without_values(leaf: Leaf) -> Predicate:
    match leaf:
        case Compare(column, operator, _):
            return Compare(column, operator, 0)
        case In(column, _):
            return In(column, ())
        case _:
            return leaf


def _weighted(queries: Sequence[TableQuery], partitions: int) -> tuple[list[Predicate], Float64]:
    """The predicates with the largest weights, and float64[P, partitions], the weight of those that read each."""
    found: dict[Predicate, Float64] = {}
    for query in queries:
        for predicate, possible in zip(query.predicates, query.partitions, strict=True):
            found[predicate] = found.get(predicate, np.zeros(partitions)) + query.weight * possible
    first = sorted(found, key=lambda predicate: -float(found[predicate].sum()))[:MAX_PREDICATES]
    return first, np.array([found[predicate] for predicate in first]).reshape(len(first), partitions)
