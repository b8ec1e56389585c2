"""Which columns, weights and curve serve a workload best: greedy forward selection over simulated layouts.

Columns come one at a time, each time the one whose layout leaves the fewest bytes to read. A layout of d columns starts
from the weights p of `zlayout.curve.kd`: b_i = log2(N)/d + log2(p_i) - mean log2(p_j) bits, held within
0..log2(NDV_i), p_i the share of the queries that filter on column i. Those are best where queries ask for single
values; wide ranges gain less from slices, so equal weights are tried beside them. The best few are then refined:
weights up and down, columns taken out, in and exchanged, and the other curves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zlayout.advisor.model import Choice
from zlayout.spec.model import CURVES, Layout, ZorderColumn

MOST_COLUMNS = 6
# A column more must save this share of the files, since each one more costs the others and the sort.
WORTH = 0.01
# Another weight or curve must save this: less is chance in the sample.
REFINES = 0.005
# So many of all layouts tried are measured again at the end: what is best on few rows may be so by chance.
FINALISTS = 5
# A column that follows one of the layout's (`zlayout.advisor.columns`) must save this: one of them is mostly enough.
WORTH_FOLLOWING = 0.10
FACTORS = (2.0, 0.5, 4.0, 0.25)
# So many of the steps are refined, the best first: the best one of d columns may not lead to the best of all.
STARTS = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the search is: what it does, layouts tried so far, and the best one."""

    stage: str
    tried: int
    best: Choice | None


@dataclass(slots=True)
class Search:
    """The best layout found. steps: the best one with 1, 2, ... columns, also beyond what is worth it.

    following: pairs of columns of which one is enough.
    """

    try_layout: Callable[[Layout], Choice]
    base: Layout
    deadline: float
    tell: Callable[[Progress], None]
    following: frozenset[frozenset[str]] = frozenset()
    known: dict[Layout, Choice] = field(default_factory=dict)
    steps: list[Choice] = field(default_factory=list)
    best: Choice | None = None
    hurried: bool = False

    def run(self, shares: Mapping[str, float], curves: Sequence[str]) -> None:
        """Fill `steps` and `best`. shares: candidates and how often they are asked for. curves: allowed ones."""
        self._forward(shares, curves[0])
        for start in sorted(self.steps, key=_cost)[:STARTS]:
            found = self._refine(start, shares, curves)
            if self.best is None or self._better(found, self.best):
                self.best = found

    def finalists(self) -> list[Layout]:
        """The best layout, the steps and the next best few, to be measured again on more rows."""
        if self.best is None:
            return []
        few = sorted(self.known.values(), key=_cost)[:FINALISTS]
        layouts = dict.fromkeys(c.layout for c in (self.best, *self.steps, *few))
        # whether a pair of columns that follow each other is worth it has been decided
        return [layout for layout in layouts if self._pairs(layout) <= self._pairs(self.best.layout)]

    def choose(self, measured: Sequence[Choice]) -> Choice:
        """Of the finalists, measured: the simplest of those that are as good as the best."""
        least = min(map(_cost, measured))
        good = [c for c in measured if _cost(c) <= (1 + REFINES) * least]
        return min(good, key=lambda c: (self._pairs(c.layout), len(c.layout.columns), _cost(c)))

    def _forward(self, shares: Mapping[str, float], curve: str) -> None:
        chosen: tuple[str, ...] = ()
        while len(chosen) < min(MOST_COLUMNS, len(shares)):
            self._say(f"{len(chosen) + 1} columns" if chosen else "one column")
            left = [name for name in shares if name not in chosen]
            layouts = [
                _layout(self.base, (*chosen, name), weights, curve)
                for name in left
                for weights in (shares, dict.fromkeys(shares, 1.0))
            ]
            offers = [choice for layout in layouts if (choice := self._try(layout))]
            if not offers:
                break
            step = min(offers, key=_cost)
            chosen = tuple(c.name for c in step.layout.columns)
            self.steps.append(step)
            # the path goes on past the best, which shows what one more column costs
            if self.best is None or self._better(step, self.best):
                self.best = step

    def _refine(self, start: Choice, shares: Mapping[str, float], curves: Sequence[str]) -> Choice:
        """The best layout that is reached from `start` by steps that each save something."""
        best = start
        while not self.hurried:
            self._say("refining")
            before = best
            for offer in _neighbours(before.layout, shares, curves):
                choice = self._try(offer)
                if choice is not None and self._better(choice, best):
                    best = choice
            if best is before:
                break
        return best

    def _better(self, new: Choice, old: Choice) -> bool:
        """Whether it saves what such a change must save."""
        pairs, before = self._pairs(new.layout), self._pairs(old.layout)
        more = len(new.layout.columns) > len(old.layout.columns)
        worth = WORTH_FOLLOWING if pairs > before else WORTH if more else REFINES
        return _cost(new) < (1 - worth) * _cost(old)

    def _pairs(self, layout: Layout) -> int:
        names = {c.name for c in layout.columns}
        return sum(pair <= names for pair in self.following)

    def _try(self, layout: Layout) -> Choice | None:
        if layout not in self.known:
            if time.monotonic() > self.deadline and self.known:
                self.hurried = True
                return None
            self.known[layout] = self.try_layout(layout)
        return self.known[layout]

    def _say(self, stage: str) -> None:
        self.tell(Progress(stage, len(self.known), self.best))


def _cost(choice: Choice) -> float:
    return choice.costs.mean_bytes


def _layout(base: Layout, names: Sequence[str], shares: Mapping[str, float], curve: str) -> Layout:
    """Columns by falling weight; weights are shares of the queries, the least of them 1."""
    least = min(shares[n] for n in names)
    columns = [ZorderColumn(n, _rounded(shares[n] / least)) for n in names]
    ordered = sorted(columns, key=lambda c: -c.weight)
    return _plain(replace(base, columns=tuple(ordered), curve=curve))


def _neighbours(layout: Layout, names: Iterable[str], curves: Sequence[str]) -> Iterator[Layout]:
    """Layouts that differ in one weight, one column or the curve."""
    columns = layout.columns
    others = [ZorderColumn(n) for n in names if n not in {c.name for c in columns}]
    for i, column in enumerate(columns):
        before, after = columns[:i], columns[i + 1 :]
        if layout.curve in ("kd", "zorder") and len(columns) > 1:
            for factor in FACTORS:
                yield _scaled(layout, (*before, replace(column, weight=column.weight * factor), *after))
        for other in others:
            yield _scaled(layout, (*before, replace(other, weight=column.weight), *after))
        if len(columns) > 1:
            yield _scaled(layout, (*before, *after))
    if len(columns) < MOST_COLUMNS:
        yield from (_scaled(layout, (*columns, other)) for other in others)
    if len(columns) > 1:
        yield from (_plain(replace(layout, curve=c)) for c in curves if c != layout.curve)


def _scaled(layout: Layout, columns: Sequence[ZorderColumn]) -> Layout:
    """The same proportions with 1 as the least weight, heavier columns first."""
    least = min(c.weight for c in columns)
    scaled = [replace(c, weight=_rounded(c.weight / least)) for c in columns]
    return _plain(replace(layout, columns=tuple(sorted(scaled, key=lambda c: -c.weight))))


def _plain(layout: Layout) -> Layout:
    """Without weights that have no effect."""
    return replace(layout, columns=tuple(ZorderColumn(*pair) for pair in layout.weights.items()))


def _rounded(weight: float) -> float:
    return float(f"{weight:.2g}")


def all_curves(first: str | None) -> tuple[str, ...]:
    """The curves to search: one that was asked for, or all."""
    return (first,) if first else CURVES
