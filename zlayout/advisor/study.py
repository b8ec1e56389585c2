"""The study of one table: the costs of the present files, of the requested layouts and of the best layout found.

`study` simulates the layouts. `Search` tries layouts until it finds no better one. `column_uses` describes columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce

import numpy as np

from zlayout.advisor.costs import column_shares, costs, lowest, measure
from zlayout.advisor.cuts import MIN_SAVING_OF_CUTS, Checked, note_on_cuts, search_cuts
from zlayout.advisor.model import (
    Choice,
    ColumnUse,
    Costs,
    Coverage,
    Float64,
    Study,
    TableQuery,
    TableWorkload,
    Use,
)
from zlayout.advisor.partitioning import note_on_partitions, search_partitions
from zlayout.curve.tree import Ranked
from zlayout.planner.clustering import MAX_CLUSTERING_COLUMNS
from zlayout.planner.simulation import MAX_ROWS, MAX_ROWS_PER_FILE, Drawn, Rewrite, draw, draws_of
from zlayout.planner.written_size import size_ratios
from zlayout.predicate.model import And, Compare, In, Or, Predicate
from zlayout.spec.model import CURVES, Layout, ZorderColumn
from zlayout.table.partition import PartitionField
from zlayout.table.state import Int64, TableState
from zlayout.workload.model import Workload

# The columns of a workload, described by a sample: distinct values, correlated columns, possible partition keys.


# Columns with at least this rank correlation order the rows so similarly that a layout by one of them serves both.
MIN_CORRELATION = 0.95
# With fewer files per partition, partitioning would result in small files.
MIN_FILES_PER_PARTITION = 4
MAX_PARTITIONS = 200
# With fewer sampled rows per value, the table may have more values than the sample.
MIN_ROWS_PER_VALUE = 100


def rank_correlation(left: Int64, right: Int64) -> float:
    """Return Spearman's rank correlation of two columns over the rows in which neither is null.

    Args:
        left, right: int64[n], the ordinals of the values; -1 for null.

    Returns:
        The correlation, -1 to 1; 0 if a column is constant.
    """
    both = (left >= 0) & (right >= 0)
    if both.sum() < 2:
        return 0.0
    a, b = _mean_ranks(left[both]), _mean_ranks(right[both])
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else 0.0


def correlated_pairs(ranked: Mapping[str, Ranked]) -> frozenset[frozenset[str]]:
    """Return the pairs of columns whose rank correlation is at least MIN_CORRELATION, positive or negative."""
    names = list(ranked)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    return frozenset(
        frozenset((a, b))
        for a, b in pairs
        if abs(rank_correlation(ranked[a].ordinals, ranked[b].ordinals)) >= MIN_CORRELATION
    )


def _mean_ranks(ordinals: Int64) -> Float64:
    """Return the rank of each value, float64[n]. Equal values have the mean of their ranks."""
    counts = np.bincount(ordinals)
    ranks: Float64 = (np.cumsum(counts) - (counts - 1) / 2.0)[ordinals]
    return ranks


def column_uses(
    shares: Mapping[str, float],
    predicates: Sequence[Predicate],
    chosen: Sequence[str],
    ranked: Mapping[str, Ranked],
    targets: Int64,
) -> tuple[ColumnUse, ...]:
    """Describe each column of the workload that the table has.

    Args:
        shares: The share of the weight of the queries that have a condition on each column, the largest first.
        predicates: All predicates of the workload on the table.
        chosen: The z-order columns of the layout that reads the fewest bytes.
        ranked: The columns of the sample as ordinals.
        targets: int64[P], the number of files of each partition after a rewrite.
    """
    found = []
    equality_columns = _equality_columns(predicates)
    for name, part in shares.items():
        if name not in ranked:
            continue
        ordinals, distinct = ranked[name].ordinals, len(ranked[name].distinct)
        correlated = None
        if name not in chosen:
            pairs = [(c, rank_correlation(ordinals, ranked[c].ordinals)) for c in chosen]
            strong = [(c, r) for c, r in pairs if abs(r) >= MIN_CORRELATION]
            correlated = max(strong, key=lambda pair: abs(pair[1]), default=None)
        few = 2 <= distinct <= min(MAX_PARTITIONS, int(targets.sum()) // MIN_FILES_PER_PARTITION)
        is_partitioned, are_all = len(targets) > 1, len(ordinals) > MIN_ROWS_PER_VALUE * distinct
        key = few and are_all and name in equality_columns and not is_partitioned
        found.append(ColumnUse(name, part, distinct, name in chosen, correlated, key))
    return tuple(found)


def _equality_columns(predicates: Sequence[Predicate]) -> frozenset[str]:
    """Return the columns that predicates compare by `=` or IN, outside of NOT."""
    names: set[str] = set()
    for predicate in predicates:
        match predicate:
            case And(operands) | Or(operands):
                names |= _equality_columns(operands)
            case In(column, _) | Compare(column, "=", _):
                names.add(column)
    return frozenset(names)


# The search for the best columns, weights and curve for a workload, by greedy forward selection of simulated layouts.
#
# Columns are added one at a time, each time the column whose layout reads the fewest bytes. The weight of a column is
# the share of the queries that filter on it. These weights are optimal if queries select single values
# (`zlayout.curve.kd`). Queries for wide ranges gain less from slices, so that equal weights are tried too. The best few
# layouts are then refined: weights are increased and reduced, columns are removed, added and exchanged, and other
# curves are tried.


MAX_COLUMNS = 6
# Share of the bytes that one more column must save, because each column makes the others less effective.
MIN_SAVING_PER_COLUMN = 0.01
# Share of the bytes that another weight or curve must save. A smaller difference may be sampling noise.
MIN_SAVING_OF_REFINEMENT = 0.005
# Share of the bytes that one more column must save if it is correlated with a column of the layout.
MIN_SAVING_OF_CORRELATED = 0.10
# Number of the best layouts that are measured again, on the rows that a plan simulates.
FINALISTS = 5
WEIGHT_FACTORS = (2.0, 0.5, 4.0, 0.25)
# Number of the best steps that are refined. The best step does not always lead to the best layout.
REFINED_STEPS = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a search: its stage, the number of layouts that it has tried, and the best one of them."""

    stage: str
    tried: int
    best: Choice | None


@dataclass(slots=True)
class Search:
    """A search and its result.

    Attributes:
        try_layout: Simulates a layout.
        base: The settings of all layouts besides columns and curve.
        deadline: The time on the monotonic clock after which no layout is tried.
        on_progress: Called with the progress.
        correlated: Pairs of correlated columns, of which one is usually enough.
        known: The simulated layouts.
        steps: The best layout with 1, 2, ... columns, also with more columns than `best`.
        best: The best layout; None if none was tried.
        interrupted: Whether the deadline ended the search.
    """

    try_layout: Callable[[Layout], Choice]
    base: Layout
    deadline: float
    on_progress: Callable[[Progress], None]
    correlated: frozenset[frozenset[str]] = frozenset()
    known: dict[Layout, Choice] = field(default_factory=dict)
    steps: list[Choice] = field(default_factory=list)
    best: Choice | None = None
    interrupted: bool = False

    @property
    def max_columns(self) -> int:
        """The maximum number of columns of a layout. Only the base of a clustered table has engine native."""
        return MAX_CLUSTERING_COLUMNS if self.base.engine == "native" else MAX_COLUMNS

    def run(self, shares: Mapping[str, float], curves: Sequence[str]) -> None:
        """Search, and set `steps` and `best`.

        Args:
            shares: The columns to choose from, and the share of the queries that filter on each.
            curves: The curves to try. The steps use the first one.
        """
        self._forward(shares, curves[0])
        for start in sorted(self.steps, key=_cost)[:REFINED_STEPS]:
            found = self._refine(start, shares, curves)
            if self.best is None or self._better(found, self.best):
                self.best = found

    def finalists(self) -> list[Layout]:
        """Return the layouts to measure again on more rows: the best one, the steps, and the FINALISTS best ones."""
        if self.best is None:
            return []
        few = sorted(self.known.values(), key=_cost)[:FINALISTS]
        layouts = dict.fromkeys(c.layout for c in (self.best, *self.steps, *few))
        # A layout with more pairs of correlated columns than the best one did not save enough in the search.
        return [layout for layout in layouts if self._pairs(layout) <= self._pairs(self.best.layout)]

    def choose(self, measured: Sequence[Choice]) -> Choice:
        """Return the simplest measured finalist whose cost exceeds the lowest by at most MIN_SAVING_OF_REFINEMENT."""
        lowest = min(map(_cost, measured))
        good = [c for c in measured if _cost(c) <= (1 + MIN_SAVING_OF_REFINEMENT) * lowest]
        return min(good, key=lambda c: (self._pairs(c.layout), len(c.layout.columns), _cost(c)))

    def _forward(self, shares: Mapping[str, float], curve: str) -> None:
        base, chosen = replace(self.base, curve=curve), tuple[str, ...]()
        while len(chosen) < min(self.max_columns, len(shares)):
            self._report(f"{len(chosen) + 1} columns" if chosen else "one column")
            layouts = [
                _scaled(base, [ZorderColumn(n, weights[n]) for n in (*chosen, name)])
                for name in shares
                if name not in chosen
                for weights in (shares, dict.fromkeys(shares, 1.0))
            ]
            choices = [choice for layout in layouts if (choice := self._try(layout))]
            if not choices:
                break
            step = min(choices, key=_cost)
            chosen = tuple(c.name for c in step.layout.columns)
            self.steps.append(step)
            # The last step has no gain. It shows what one more column costs, and may be refined.
            if self.best is not None and not self._better(step, self.best):
                break
            self.best = step

    def _refine(self, start: Choice, shares: Mapping[str, float], curves: Sequence[str]) -> Choice:
        best = start
        while not self.interrupted:
            self._report("refining")
            before = best
            for layout in _neighbours(before.layout, shares, curves, self.max_columns):
                choice = self._try(layout)
                if choice is not None and self._better(choice, best):
                    best = choice
            if best is before:
                break
        return best

    def _better(self, new: Choice, old: Choice) -> bool:
        pairs, before = self._pairs(new.layout), self._pairs(old.layout)
        more = len(new.layout.columns) > len(old.layout.columns)
        saving = MIN_SAVING_PER_COLUMN if more else MIN_SAVING_OF_REFINEMENT
        saving = MIN_SAVING_OF_CORRELATED if pairs > before else saving
        return _cost(new) < (1 - saving) * _cost(old)

    def _pairs(self, layout: Layout) -> int:
        names = {c.name for c in layout.columns}
        return sum(pair <= names for pair in self.correlated)

    def _try(self, layout: Layout) -> Choice | None:
        """Simulate a layout at most once. Returns None after the deadline, except for the first layout."""
        if layout not in self.known:
            if time.monotonic() > self.deadline and self.known:
                self.interrupted = True
                return None
            self.known[layout] = self.try_layout(layout)
        return self.known[layout]

    def _report(self, stage: str) -> None:
        self.on_progress(Progress(stage, len(self.known), self.best))


def _cost(choice: Choice) -> float:
    return choice.costs.mean_bytes


def _neighbours(layout: Layout, names: Iterable[str], curves: Sequence[str], max_columns: int) -> Iterator[Layout]:
    columns = layout.columns
    others = [ZorderColumn(n) for n in names if n not in {c.name for c in columns}]
    for i, column in enumerate(columns):
        before, after = columns[:i], columns[i + 1 :]
        if layout.curve in ("kd", "zorder") and len(columns) > 1:
            for factor in WEIGHT_FACTORS:
                yield _scaled(layout, (*before, replace(column, weight=column.weight * factor), *after))
        for other in others:
            yield _scaled(layout, (*before, replace(other, weight=column.weight), *after))
        if len(columns) > 1:
            yield _scaled(layout, (*before, *after))
    if len(columns) < max_columns:
        yield from (_scaled(layout, (*columns, other)) for other in others)
    if len(columns) > 1:
        yield from (_plain(replace(layout, curve=c)) for c in curves if c != layout.curve)


def _scaled(layout: Layout, columns: Sequence[ZorderColumn]) -> Layout:
    """Return the layout with these columns in descending order of their weights, scaled so that the lowest is 1."""
    lowest = min(c.weight for c in columns)
    scaled = [replace(c, weight=float(f"{c.weight / lowest:.2g}")) for c in columns]
    return _plain(replace(layout, columns=tuple(sorted(scaled, key=lambda c: -c.weight))))


def _plain(layout: Layout) -> Layout:
    """Return the layout with effective weights, so that layouts with the same result are equal."""
    return replace(layout, columns=tuple(ZorderColumn(*pair) for pair in layout.weights.items()))


# The study of one table.

# Share of the bytes read now that a layout must save to be recommended.
MIN_SAVING = 0.05
# The search uses SEARCH_ROWS sampled rows, and that for cuts CUT_ROWS; MIN_ROWS_PER_FILE for each new file if that
# is more. The finalists are measured on as many as a plan simulates.
SEARCH_ROWS = 10_000
CUT_ROWS = 30_000
MIN_ROWS_PER_FILE = 200
# Share of the time limit that the search may use. The rest is for measuring the finalists.
SEARCH_TIME_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Question:
    """The layouts to simulate, and whether to search for others.

    Attributes:
        layouts: The layouts to simulate.
        declared: The declared layout, which is simulated too; None if it cannot be.
        base: The settings of the layouts that the search tries, besides columns and curve.
        search: Whether to search for other layouts.
        curve: The curve of the layouts that the search tries; None for all curves.
        seconds: The time limit for searching and measuring.
        cuts: Whether to search for the cuts of curve `workload` too.
        partitions: The partition fields to try; the table has no partitions then.
    """

    layouts: tuple[Layout, ...]
    declared: Layout | None
    base: Layout
    search: bool
    curve: str | None = None
    seconds: float = 60.0
    cuts: bool = False
    partitions: tuple[PartitionField, ...] = ()


def study(
    state: TableState,
    queries: tuple[TableQuery, ...],
    rewrite: Rewrite,
    question: Question,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> Study:
    """Simulate layouts, search for the best one, and compare their costs.

    Args:
        state: The observed table, with the bounds of the columns of the queries.
        queries: The queries with predicates on the table.
        rewrite: The rewrite of the whole table, with the columns of the queries and of the layouts.
        question: The layouts to simulate and to search for.
        on_progress: Called with the progress of the search.

    Raises:
        TableError: ZL109 for a column type without an order.
    """
    started = time.monotonic()
    draws, every = draws_of(rewrite), draw(rewrite, rewrite.weights, rows_per_file=MAX_ROWS)
    shares = {name: s for name, s in column_shares(queries).items() if name in every.keys}
    choices = [measure(draws, layout, queries) for layout in question.layouts]
    tried, steps, interrupted, notes = len(choices), list[Choice](), False, tuple[str, ...]()
    declared = measure(draws, question.declared, queries) if question.declared is not None else None
    ratio_of = _size_ratios(rewrite)
    in_new_size = partial(_in_new_size, ratio_of)
    if question.search and shares:
        search, found, notes = _search(draws, queries, shares, question, started, on_progress, in_new_size)
        choices, steps, interrupted = [*choices, *found], search.steps, search.interrupted
        tried += len(search.known)
    if question.partitions and choices:
        partitioned = _partitioned(choices, declared, draws, queries, question, started, in_new_size)
        if partitioned is not None and partitioned[1].saves(MIN_SAVING):
            choice, checked = partitioned
            choices, notes = [*choices, choice], (*notes, note_on_partitions(choice.partition_by or (), checked))
    now = costs(queries, state.files)
    choices, steps = list(map(in_new_size, choices)), list(map(in_new_size, steps))
    declared = None if declared is None else in_new_size(declared)
    lowest_choice = min(choices, key=_cost, default=None)
    simulated = (*choices, *steps, *([declared] if declared else []))
    smallest = min((1.0, *(ratio_of(choice) or 1.0 for choice in simulated)))
    floor = lowest(queries, every).with_size_ratio(smallest)
    # Rows with equal keys are in one file, which may be larger than the files that the floor assumes.
    floor = reduce(Costs.at_most, (now, *(choice.costs for choice in simulated)), floor)
    chosen = [c.name for c in lowest_choice.layout.columns] if lowest_choice else []
    predicates = [p for q in queries for p in q.predicates]
    return Study(
        table=state.table,
        format=state.format,
        version=state.version,
        rows=int(state.files.live_rows.sum()),
        bytes=int(state.files.bytes.sum()),
        files=len(state.files),
        sampled=len(rewrite.sample),
        seed=rewrite.sample.seed,
        queries=queries,
        statements=len(queries),
        coverage=Coverage.of(dict.fromkeys((q.query for q in queries), Use.USED)),
        now=now,
        floor=floor,
        choices=tuple(choices),
        best=lowest_choice if lowest_choice and _saves(lowest_choice.costs, now) else None,
        declared=declared,
        columns=column_uses(shares, predicates, chosen, every.ranked, rewrite.targets),
        steps=tuple(steps),
        tried=tried,
        seconds=time.monotonic() - started,
        interrupted=interrupted,
        notes=notes,
    )


def _search(
    draws: Sequence[Drawn],
    queries: tuple[TableQuery, ...],
    shares: Mapping[str, float],
    question: Question,
    started: float,
    on_progress: Callable[[Progress], None],
    in_new_size: Callable[[Choice], Choice],
) -> tuple[Search, list[Choice], tuple[str, ...]]:
    """Search on few rows of the sample, and measure the finalists on more."""
    # Returns the search, with steps measured on more rows; the chosen layout, then the one with cuts; and notes.
    # `started` is by the monotonic clock.
    limit, few = started + question.seconds, _with_fewer_rows(draws[0].rewrite, SEARCH_ROWS)
    deadline = started + SEARCH_TIME_SHARE * question.seconds
    same = len(draws) == 1 and len(few) == len(draws[0])
    search = Search(
        lambda layout: measure([few], layout, queries, with_touched=same),
        question.base,
        deadline,
        on_progress,
        correlated_pairs(few.ranked),
    )
    search.run(shares, (question.curve,) if question.curve else CURVES)
    finals = search.finalists()
    layouts = [*finals, *(step.layout for step in search.steps)]
    again = search.known.__getitem__ if same else lambda layout: measure(draws, layout, queries)
    measured = _measured(layouts, again, limit)
    sized = [in_new_size(measured[layout]) for layout in finals if layout in measured]
    choices = [measured[search.choose(sized).layout]] if finals else []
    notes: tuple[str, ...] = ()
    if choices and question.cuts:
        more = _with_fewer_rows(draws[0].rewrite, CUT_ROWS)
        now = time.monotonic()
        until = (now + limit) / 2 if question.partitions else limit  # partitions are searched after cuts
        checked = search_cuts(
            choices[0].layout, queries, more, lambda layout, own: in_new_size(measure(draws, layout, own)), until
        )
        if checked is not None and checked.saves(MIN_SAVING_OF_CUTS):
            notes = (note_on_cuts(checked),)
            choices.append(measure(draws, checked.layout, queries))
    # A step that was not measured again before the time limit is shown with its result on fewer rows.
    search.steps = [measured.get(s.layout) or measure([few], s.layout, queries) for s in search.steps]
    search.interrupted |= not measured.keys() >= set(finals)
    return search, choices, notes


def _partitioned(
    choices: Sequence[Choice],
    declared: Choice | None,
    draws: Sequence[Drawn],
    queries: tuple[TableQuery, ...],
    question: Question,
    started: float,
    in_new_size: Callable[[Choice], Choice],
) -> tuple[Choice, Checked] | None:
    """Search for a partitioning of the best layout without partitions."""
    simulated = sorted([*choices, *([declared] if declared else [])], key=_cost)
    few = partial(_with_fewer_rows, rows=CUT_ROWS)
    limit = started + question.seconds
    return search_partitions(
        question.partitions, [one.layout for one in simulated], draws[0].rewrite, queries, few, in_new_size, limit
    )


def _with_fewer_rows(rewrite: Rewrite, rows: int) -> Drawn:
    """Draw about `rows` rows, or as many as MIN_ROWS_PER_FILE and MAX_ROWS_PER_FILE allow."""
    per_file = max(rows / max(int(rewrite.targets.sum()), 1), MIN_ROWS_PER_FILE)
    return draw(rewrite, rewrite.weights, rows_per_file=min(per_file, MAX_ROWS_PER_FILE))


def _size_ratios(rewrite: Rewrite) -> Callable[[Choice], float | None]:
    """Return a function of a choice that estimates the size of its files, divided by that of the present ones."""

    @cache
    def of_fields(fields: tuple[PartitionField, ...]) -> Callable[[Layout], float | None]:
        return cache(size_ratios(replace(rewrite, fields=fields), rewrite.stored))

    def ratio(choice: Choice) -> float | None:
        # Where it is unknown in partitions, it is that without them, with which it is compared.
        in_partitions = of_fields(choice.partition_by)(choice.layout) if choice.partition_by else None
        return in_partitions or of_fields(rewrite.fields)(choice.layout)

    return ratio


def _in_new_size(ratio_of: Callable[[Choice], float | None], choice: Choice) -> Choice:
    """Return a simulated layout with the estimated size of its files."""
    ratio = ratio_of(choice)
    return choice if ratio is None else replace(choice, costs=choice.costs.with_size_ratio(ratio))


def _saves(then: Costs, now: Costs) -> bool:
    return now.mean_bytes > 0 and then.mean_bytes <= (1 - MIN_SAVING) * now.mean_bytes


def _measured(layouts: Iterable[Layout], measure: Callable[[Layout], Choice], deadline: float) -> dict[Layout, Choice]:
    """Measure each layout once, in order, until the deadline. The first one is always measured."""
    found: dict[Layout, Choice] = {}
    for layout in layouts:
        if found and time.monotonic() > deadline:
            break
        if layout not in found:
            found[layout] = measure(layout)
    return found


def with_workload(found: Study, files: tuple[str, ...], read: Workload, table: TableWorkload) -> Study:
    """Return a study with information about the workload files and about the queries that are not simulated.

    Args:
        found: The study.
        files: The names of the workload files.
        read: Their content.
        table: The part of it that concerns the table.
    """
    used = table.coverage.share(Use.USED)
    return replace(
        found,
        workload=files,
        statements=read.queries,
        coverage=table.coverage,
        unused=table.unused,
        inverted=table.inverted,
        assumed_time=read.assumed_time,
        columns=tuple(replace(column, share=column.share * used) for column in found.columns),
    )
