"""Search for the best columns, weights and curve for a workload, by greedy forward selection of simulated layouts.

Columns are added one at a time, each time the column whose layout reads the fewest bytes. The weight of a column is the
share of the queries that filter on it. These weights are optimal if queries select single values (`zlayout.curve.kd`).
Queries for wide ranges gain less from slices, so that equal weights are tried too. The best few layouts are then
refined: weights are increased and reduced, columns are removed, added and exchanged, and other curves are tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zlayout.advisor.model import Choice
from zlayout.planner.clustering import MAX_CLUSTERING_COLUMNS
from zlayout.spec.layout import Layout, ZorderColumn

MAX_COLUMNS = 6
# Share of the bytes that one more column must save, because each column makes the others less effective.
MIN_SAVING_PER_COLUMN = 0.01
# Share of the bytes that another weight or curve must save. A smaller difference may be sampling noise.
MIN_SAVING_OF_REFINEMENT = 0.005
# Share of the bytes that one more column must save if it is correlated with a column of the layout.
MIN_SAVING_OF_CORRELATED = 0.10
# Number of the best layouts that are measured again on all rows of the sample.
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
            # The search continues after the best step, to show what one more column costs.
            if self.best is None or self._better(step, self.best):
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
