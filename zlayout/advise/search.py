"""Which columns, weights and curve serve a workload best: greedy forward selection over simulated layouts.

Columns come one at a time, each time the one whose layout leaves the fewest files to open; what is left is then refined
by weights, by taking columns out again, and by the other curves. A layout of d columns starts from the weights p of
`zlayout.curve.kd`: b_i = log2(N)/d + log2(p_i) - mean log2(p_j) bits, held within 0..log2(NDV_i), p_i the share of
the queries that filter on column i. Those are the best for equality queries; ranges want others, so weights are tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zlayout.advise.model import Choice
from zlayout.spec.model import CURVES, Layout, ZorderColumn

MOST_COLUMNS = 6
# A column more must save this share of the files, since each one more costs the others and the sort.
WORTH = 0.01
# Another weight or curve must save this: less is chance in the sample.
REFINES = 0.005
FACTORS = (2.0, 0.5, 4.0, 0.25)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the search is: what it does, layouts tried so far, and the best one."""

    stage: str
    tried: int
    best: Choice | None


@dataclass(slots=True)
class Search:
    """The best layout found; steps: the best one with 1, 2, ... columns, also beyond what is worth it."""

    try_layout: Callable[[Layout], Choice]
    base: Layout
    deadline: float
    tell: Callable[[Progress], None]
    known: dict[Layout, Choice] = field(default_factory=dict)
    steps: list[Choice] = field(default_factory=list)
    best: Choice | None = None
    hurried: bool = False

    def run(self, shares: Mapping[str, float], curves: Sequence[str]) -> None:
        """Fill `steps` and `best`. shares: candidates and how often they are asked for. curves: allowed ones."""
        self._forward(shares, curves[0])
        if self.best is not None:
            self._refine(curves)

    def _forward(self, shares: Mapping[str, float], curve: str) -> None:
        chosen: tuple[str, ...] = ()
        while len(chosen) < min(MOST_COLUMNS, len(shares)):
            self._say(f"{len(chosen) + 1} columns" if chosen else "one column")
            left = [name for name in shares if name not in chosen]
            offers = [c for name in left if (c := self._try(_layout(self.base, (*chosen, name), shares, curve)))]
            if not offers:
                break
            step = min(offers, key=_cost)
            chosen = tuple(c.name for c in step.layout.columns)
            self.steps.append(step)
            # the path goes on past the best, which shows what one more column costs
            if self.best is None or _cost(step) < (1 - WORTH) * _cost(self.best):
                self.best = step

    def _refine(self, curves: Sequence[str]) -> None:
        """Weights up and down, a column less, another curve, until nothing helps."""
        changed = True
        while changed and self.best is not None:
            self._say("weights")
            before = self.best
            for offer in _neighbours(before.layout, curves):
                choice = self._try(offer)
                if choice is not None and _cost(choice) < (1 - REFINES) * _cost(self.best):
                    self.best = choice
            changed = self.best is not before and not self.hurried

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


def _neighbours(layout: Layout, curves: Sequence[str]) -> list[Layout]:
    offers = []
    if layout.curve in ("kd", "zorder") and len(layout.columns) > 1:
        for i, column in enumerate(layout.columns):
            for factor in FACTORS:
                changed = replace(column, weight=column.weight * factor)
                offers.append(_scaled(layout, (*layout.columns[:i], changed, *layout.columns[i + 1 :])))
    if len(layout.columns) > 1:
        for i in range(len(layout.columns)):
            offers.append(_scaled(layout, (*layout.columns[:i], *layout.columns[i + 1 :])))
        offers += [_plain(replace(layout, curve=c)) for c in curves if c != layout.curve]
    return offers


def _scaled(layout: Layout, columns: Sequence[ZorderColumn]) -> Layout:
    """The same proportions with 1 as the least weight, heavier columns first."""
    least = min(c.weight for c in columns)
    scaled = [replace(c, weight=_rounded(c.weight / least)) for c in columns]
    return _plain(replace(layout, columns=tuple(sorted(scaled, key=lambda c: -c.weight))))


def _plain(layout: Layout) -> Layout:
    """Weights have no effect on hilbert and linear."""
    if layout.curve in ("kd", "zorder") and len(layout.columns) > 1:
        return layout
    return replace(layout, columns=tuple(replace(c, weight=1.0) for c in layout.columns))


def _rounded(weight: float) -> float:
    return float(f"{weight:.2g}")


def all_curves(first: str | None) -> tuple[str, ...]:
    """The curves to search: one that was asked for, or all."""
    return (first,) if first else CURVES
