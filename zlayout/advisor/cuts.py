"""Choose the cuts of curve `workload` greedily, by the rows that the queries no longer read.

The algorithm is that of qd-trees (Z. Yang et al., "Qd-tree: Learning Data Layouts for Big Data Analytics", SIGMOD 2020,
arXiv 2004.10898), with cuts as in `zlayout.curve.kd`. The constants of the workload are the candidates. A part of the
sample is divided by the candidate after which the queries read the fewest rows, counted by the bounding boxes of both
sides, and each side is divided in the same way. A layout has one list of cuts for all parts: those that divided any
part, the one with the largest gain first.

Whether they are recommended is decided by cross-validation: each half of the queries, if possible with other constants,
is read with cuts that the other half chooses. The recommended cuts are chosen by all queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from zlayout.advisor.costs import measure
from zlayout.advisor.model import Bools, Choice, Float64, TableQuery
from zlayout.curve.kd import Cuts, divide_files, first_on_the_right, rank_with_cuts
from zlayout.curve.tree import Ranked
from zlayout.planner.simulation import Drawn
from zlayout.predicate.model import Compare, In, IsNull, Leaf, NeedsRows, Operator, Predicate, leaves, with_leaves
from zlayout.predicate.prune import may_match
from zlayout.report.words import share
from zlayout.spec.model import WORKLOAD_CURVE, Layout, ZorderColumn
from zlayout.table.state import ColumnBounds, Int64
from zlayout.text import plural

# The best cut of a part of the sample, by the bounding boxes of both sides.


@dataclass(frozen=True, slots=True)
class CutGains:
    """The candidates and the queries, from which the best cut of each part is found.

    Attributes:
        names: The columns of the sample.
        ranked: Each column of the sample as ordinals, together with the values of the candidates.
        cuts: The candidates.
        predicates: The predicates of the queries.
        weights: float64[predicates, partitions], the weight of the queries that read a partition with a predicate.
    """

    names: Sequence[str]
    ranked: Sequence[Ranked]
    cuts: Cuts
    predicates: Sequence[Predicate]
    weights: Float64

    def best(self, ordinals: Int64, files: int, partition: int, file_rows: float) -> tuple[int, float, int] | None:
        """Return the cut after which the queries read the fewest rows of a part.

        Args:
            ordinals: int64[columns, n], the sampled rows of the part.
            files: The number of files of the part.
            partition: The partition of the part.
            file_rows: The number of sampled rows of an average file.

        Returns:
            The index of the cut among the candidates; its gain, the number of sampled rows that the queries no longer
            read, each times the weight of the query; and the number of files on the left side. None if no cut leaves
            enough rows for whole files on both sides.
        """
        count = ordinals.shape[1]
        none = np.zeros(0, np.int64)
        # The first box is the whole part. Two boxes follow for each cut.
        numbers, sides, rows, boxes = [none], [none], [np.array([count])], [_boxes(ordinals, np.zeros(1, np.int64))[1]]
        for column in np.unique(self.cuts.column).tolist():
            order = np.argsort(ordinals[column], kind="stable")
            sorted_rows = ordinals[:, order]
            own = np.flatnonzero(self.cuts.column == column)
            left = np.searchsorted(sorted_rows[column], self.cuts.threshold[own])
            left_files, valid = divide_files(left, count, files, file_rows)
            own, left = own[valid], left[valid]
            if len(own):
                numbers.append(own)
                sides.append(left_files[valid])
                rows.append(np.stack((left, count - left), axis=1).ravel())
                boxes.append(np.stack(_boxes(sorted_rows, left), axis=1).reshape(-1, 3, len(self.names)))
        number = np.concatenate(numbers)
        if not len(number):
            return None
        size = np.concatenate(rows)
        read = self.weights[:, partition] @ (self._hits(np.concatenate(boxes), size) * size)
        gain = read[0] - (read[1::2] + read[2::2])
        best = int(np.argmax(np.round(gain, 6)))
        return int(number[best]), float(gain[best]), int(np.concatenate(sides)[best])

    def _hits(self, boxes: Int64, rows: Int64) -> Bools:
        """Return whether each box may contain matching rows, bool[predicates, boxes]. rows: those of each box."""
        bounds = {}
        for column, (name, ranked) in enumerate(zip(self.names, self.ranked, strict=True)):
            low, high, nulls = boxes[:, :, column].T
            empty = high < 0
            lower, upper = (ranked.distinct.take(pa.array(side, mask=empty)) for side in (low, high))
            bounds[name] = ColumnBounds(lower, upper, nulls, np.zeros(len(boxes), bool))
        return np.stack([may_match(predicate, bounds, rows) for predicate in self.predicates])


def _boxes(ordinals: Int64, left: Int64) -> tuple[Int64, Int64]:
    """Return the bounding boxes of the first `left` rows of a part and of the others, for k ways to divide it."""
    # Returns int64[k, 3, columns] twice: the lowest and the highest ordinal (-1 if all rows are null), and the nulls.
    none, below = np.full((len(ordinals), 1), np.iinfo(np.int64).max), np.full((len(ordinals), 1), -1)
    values: Int64 = np.where(ordinals < 0, none, ordinals)
    nulls: Int64 = np.concatenate((below + 1, np.cumsum(ordinals < 0, axis=1)), axis=1).astype(np.int64)
    low = np.concatenate((none, np.minimum.accumulate(values, axis=1)), axis=1)
    high = np.concatenate((below, np.maximum.accumulate(ordinals, axis=1)), axis=1)
    low_after = np.concatenate((np.minimum.accumulate(values[:, ::-1], axis=1)[:, ::-1], none), axis=1)
    high_after = np.concatenate((np.maximum.accumulate(ordinals[:, ::-1], axis=1)[:, ::-1], below), axis=1)
    before = np.stack((low[:, left], high[:, left], nulls[:, left]))
    after = np.stack((low_after[:, left], high_after[:, left], nulls[:, -1:] - nulls[:, left]))
    return before.transpose(2, 0, 1), after.transpose(2, 0, 1)


# The search for the cuts of a layout, and their check by queries that they are not chosen from.

# In one part, a cut must save at least this share of the rows that all queries would read of the sample if they skipped
# none.
MIN_GAIN = 0.001
# The number of cuts and the length of a string in a cut are limited, because layout records contain the cuts.
MAX_CUTS, MAX_TEXT_OF_CUT = 64, 100
# Cuts must save at least this share of the bytes that queries they were not chosen from read without the cuts. It is
# low, because the cuts of half of the queries save less than those of all.
MIN_SAVING_OF_CUTS = 0.01
# A shorter list of cuts is preferred if the bytes that the queries read are at most the lowest times this factor.
SHORTER = 1.01
# A cut is left out if the queries then read at most this factor of the bytes.
SAME = 1.002
# Only the candidates and the predicates with the largest weights are used, so that the search ends in seconds.
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
    """A layout with cuts, or in partitions, and the check of these by queries that they were not chosen from.

    Attributes:
        layout: The layout.
        queries: The number of these queries.
        share: The bytes that they read, divided by those in the best layout without cuts or partitions.
    """

    layout: Layout
    queries: int
    share: float

    def saves(self, least: float) -> bool:
        """Whether the cuts or partitions save at least this share of the bytes."""
        return self.share <= 1 - least


def note_on_cuts(checked: Checked) -> str:
    """Return the result of the check of recommended cuts in one sentence."""
    return (
        f"{plural(len(checked.layout.cuts), 'cut')} at constants of the workload. In a check, "
        f"{plural(checked.queries, 'query')} read {share(checked.share)} of the bytes that they read without cuts; the "
        "cuts for each half of them were chosen by the other half."
    )


def search_cuts(
    start: Layout,
    queries: Sequence[TableQuery],
    drawn: Drawn,
    in_plan: Measure,
    deadline: float,
) -> Checked | None:
    """Choose cuts by all queries, and check by each part of them what cuts that the other part chooses are worth.

    Args:
        start: The best layout without cuts.
        queries: The queries on the table.
        drawn: Rows of a rewrite of the whole table, with all columns of the queries, by which cuts are chosen.
        in_plan: Simulates a layout on the rows that a plan simulates, and returns its costs for queries.
        deadline: The time on the monotonic clock at which the search ends.

    Returns:
        The layout with cuts and the check; None if there are no cuts, if the queries cannot be divided, or if the
        deadline passed before all lists of cuts were measured.
    """
    parts = split(queries)
    if not all(parts):
        return None
    found: list[Layout] = []
    for number, by in enumerate((queries, *parts)):
        now = time.monotonic()
        chosen = _chosen(start, by, drawn, in_plan, now + (deadline - now) / (3 - number))
        if chosen is None:
            return None
        found.append(chosen)
    best, *of_parts = found
    before = after = 0.0
    for layout, held_out in zip(of_parts, reversed(parts), strict=True):
        before += in_plan(start, held_out).costs.total_bytes
        after += in_plan(layout, held_out).costs.total_bytes
    return Checked(best, len(queries), after / before if before else 1.0)


def _chosen(start: Layout, by: Sequence[TableQuery], drawn: Drawn, in_plan: Measure, deadline: float) -> Layout | None:
    """Return the layout with the best list of cuts; None without cuts, or if the deadline passes early."""
    own = [column.name for column in start.columns]
    if {cut.column for cut in candidates(by)} <= set(own):
        return _best_list(start, by, drawn, deadline)
    # Rows that are ordered by more columns often need more bytes, which the best list does not take into account.
    now = time.monotonic()
    lists = (_best_list(start, by, drawn, (now + deadline) / 2, own), _best_list(start, by, drawn, deadline))
    found = [layout for layout in lists if layout is not None]
    return min(found, key=lambda layout: in_plan(layout, by).costs.mean_bytes, default=None)


def _best_list(
    start: Layout, by: Sequence[TableQuery], drawn: Drawn, deadline: float, names: Sequence[str] | None = None
) -> Layout | None:
    """Return the layout with the best list of cuts, by the rows that the queries read; None as `_chosen`."""

    def measured(cuts: Sequence[Compare]) -> Choice:
        return measure([drawn], with_cuts(start, cuts), by, with_touched=False)

    cuts, choices = propose(by, drawn, deadline, names), list[Choice]()
    # All cuts, then the first half of the list, rounded up, then the first half of that, and so on.
    for halved in range(len(cuts).bit_length()):
        if time.monotonic() > deadline:
            return None
        choices.append(measured(cuts[: -(-len(cuts) >> halved)]))
    if not choices:
        return None
    lowest = min(choice.costs.mean_bytes for choice in choices)
    best = [choice for choice in choices if choice.costs.mean_bytes <= SHORTER * lowest][-1]
    # Leave out one cut at a time, the one without which the queries read the least. A cut divides parts that a later
    # one would divide better, so that they often read less without it.
    while len(best.layout.cuts) > 1:
        rests = [[other for other in best.layout.cuts if other != cut] for cut in best.layout.cuts]
        less = [measured(rest) for rest in rests if time.monotonic() <= deadline]
        least = min(less, key=lambda choice: choice.costs.mean_bytes, default=None)
        if least is None or least.costs.mean_bytes > SAME * best.costs.mean_bytes:
            break
        best = least
    return best.layout


def split(queries: Sequence[TableQuery]) -> tuple[list[TableQuery], list[TableQuery]]:
    """Divide queries into two parts, of which one chooses and the other one checks.

    Of the queries that differ only in their constants, every second one is in the second part. A query with several
    executions is in both parts, with half of its weight in each. A single execution that differs from all others is in
    the first part.
    """
    shapes: dict[tuple[Predicate, ...], int] = {}
    first, second = [], []
    for query in queries:
        shape = tuple(with_leaves(p, _without_values) for p in query.predicates)
        number = shapes[shape] = shapes.get(shape, -1) + 1
        if query.weight >= 2:
            half = replace(query, query=replace(query.query, weight=query.weight / 2))
            first.append(half)
            second.append(half)
        else:
            (second if number % 2 else first).append(query)
    return first, second


def candidates(queries: Sequence[TableQuery]) -> list[Compare]:
    """Return the cuts at the constants of the queries, those with the largest weight first."""
    weights: dict[Compare, float] = {}
    for query in queries:
        for cut in dict.fromkeys(cut for p in query.predicates for leaf in leaves(p) for cut in _at_constants(leaf)):
            weights[cut] = weights.get(cut, 0.0) + query.weight
    return sorted(weights, key=lambda cut: -weights[cut])


def propose(
    queries: Sequence[TableQuery], drawn: Drawn, deadline: float = float("inf"), names: Sequence[str] | None = None
) -> tuple[Compare, ...]:
    """Return the cuts that save the queries the most rows, in descending order of their largest gain in one part.

    Args:
        queries: The queries by which cuts are chosen.
        drawn: Rows of a rewrite of the whole table, with all columns of the queries. Each side of a cut is at least
            one file.
        deadline: The time on the monotonic clock until which parts are divided.
        names: The columns to cut. Default: all columns of the queries.
    """
    targets, group = drawn.rewrite.targets, drawn.group
    known = {name: values.type for name, values in drawn.keys.items() if names is None or name in names}
    usable = [c for c in candidates(queries) if c.column in known and _divides(c, known[c.column])]
    usable = usable[:MAX_CANDIDATES]
    ranked, cuts = rank_with_cuts(drawn.keys, usable)
    search = CutGains(list(drawn.keys), ranked, cuts, *_weighted(queries, len(targets)))
    ordinals = np.stack([r.ordinals for r in ranked]) if ranked else np.zeros((0, len(drawn)), np.int64)
    gains: dict[int, float] = {}
    min_gain = MIN_GAIN * len(drawn) * max(sum(query.weight for query in queries), 1e-9)
    parts = []
    for partition, files in enumerate(targets.tolist()):
        rows = np.flatnonzero(group == partition)
        if files > 1 and len(rows):
            parts.append((rows, files, partition, len(rows) / files))
    while parts and time.monotonic() < deadline:
        rows, files, partition, file_rows = parts.pop()
        found = search.best(ordinals[:, rows], files, partition, file_rows)
        if found is None or found[1] < min_gain:
            continue
        cut, gain, left_files = found
        gains[cut] = max(gains.get(cut, 0.0), gain)
        is_left = ordinals[cuts.column[cut], rows] < cuts.threshold[cut]
        for side, number in ((rows[is_left], left_files), (rows[~is_left], files - left_files)):
            if number > 1:
                parts.append((side, number, partition, file_rows))
    return tuple(usable[number] for number in sorted(gains, key=lambda number: (-gains[number], number))[:MAX_CUTS])


def with_cuts(layout: Layout, cuts: Sequence[Compare]) -> Layout:
    """Return the layout with cuts. Columns of cuts that are no z-order columns are added with the weight 1."""
    names = dict.fromkeys(cut.column for cut in cuts)
    known = {column.name for column in layout.columns}
    added = tuple(ZorderColumn(name) for name in names if name not in known)
    return replace(layout, columns=(*layout.columns, *added), curve=WORKLOAD_CURVE, cuts=tuple(cuts))


def _divides(cut: Compare, kind: pa.DataType) -> bool:
    is_short = not isinstance(cut.value, str) or len(cut.value) <= MAX_TEXT_OF_CUT
    return is_short and first_on_the_right(cut, kind) is not None


def _at_constants(leaf: Leaf) -> Iterator[Compare]:
    """Yield the cuts that separate the values for which a condition is true from others."""
    if isinstance(leaf, IsNull | NeedsRows):
        return
    operator = leaf.operator if isinstance(leaf, Compare) else "="
    for value in leaf.values if isinstance(leaf, In) else (leaf.value,):
        yield from (Compare(leaf.column, side, value) for side in _SIDES[operator])


def _without_values(leaf: Leaf) -> Predicate:
    """Return a condition without its constants, so that conditions that differ only in these are equal."""
    match leaf:
        case Compare(column, operator, _):
            return Compare(column, operator, 0)
        case In(column, _):
            return In(column, ())
        case _:
            return leaf


def _weighted(queries: Sequence[TableQuery], partitions: int) -> tuple[list[Predicate], Float64]:
    """Return the k predicates with the largest weights, and float64[k, partitions], their weights in each partition."""
    found: dict[Predicate, Float64] = {}
    for query in queries:
        for predicate, possible in zip(query.predicates, query.partitions, strict=True):
            found[predicate] = found.get(predicate, np.zeros(partitions)) + query.weight * possible
    first = sorted(found, key=lambda predicate: -float(found[predicate].sum()))[:MAX_PREDICATES]
    return first, np.array([found[predicate] for predicate in first]).reshape(len(first), partitions)
