"""The study of one table: the costs of the present files, of the requested layouts and of the best layout found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zlayout.advisor.columns import column_uses, correlated_pairs
from zlayout.advisor.cuts import note_on_cuts, search_cuts
from zlayout.advisor.model import (
    Choice,
    Costs,
    Coverage,
    FileSet,
    KeySample,
    Study,
    TableQuery,
    TableWorkload,
    Target,
    Use,
)
from zlayout.advisor.queries import column_shares
from zlayout.advisor.search import Progress, Search
from zlayout.advisor.simulate import Ranks, costs, lowest, rank_sample, simulate
from zlayout.spec.layout import CURVES, Layout
from zlayout.table.state import TableState, target_files
from zlayout.workload.model import Workload

# Share of the bytes read now that a layout must save to be recommended.
MIN_SAVING = 0.05
# The search uses SEARCH_ROWS sampled rows, or SEARCH_ROWS_PER_FILE for each new file if that is more. The finalists are
# measured on all sampled rows.
SEARCH_ROWS = 30_000
SEARCH_ROWS_PER_FILE = 200
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
    """

    layouts: tuple[Layout, ...]
    declared: Layout | None
    base: Layout
    search: bool
    curve: str | None = None
    seconds: float = 60.0
    cuts: bool = False


def present_files(state: TableState) -> FileSet:
    """Return the metadata of the present files of a table."""
    files = state.files
    return FileSet(files.bounds, files.rows, files.bytes.astype(np.float64), files.partition)


def rewrite_target(state: TableState, target_size: int, files: int | None = None) -> Target:
    """Return the size of a rewrite of the whole table.

    Args:
        state: The observed table.
        target_size: The size of a file in bytes.
        files: The total number of files, which is divided among the partitions in proportion to their bytes; None for
            the number that follows from `target_size`.
    """
    count = max(len(state.files.partitions), 1)
    live, size = (
        np.bincount(state.files.partition, weights=weights, minlength=count)
        for weights in (state.files.live_rows, state.files.live_bytes)
    )
    wanted = target_files(size, target_size) if files is None else target_files(size / max(size.sum(), 1.0) * files, 1)
    return Target(live.astype(np.int64), size.astype(np.int64), np.where(live > 0, wanted, 0))


def study(
    state: TableState,
    queries: tuple[TableQuery, ...],
    sample: KeySample,
    target: Target,
    bound_lengths: Mapping[str, int],
    question: Question,
    on_progress: Callable[[Progress], None] = lambda _progress: None,
) -> Study:
    """Simulate layouts, search for the best one, and compare their costs.

    Args:
        state: The observed table, with the bounds of the columns of the queries.
        queries: The queries with predicates on the table.
        sample: Rows of the table, with the columns of the queries and of the layouts.
        target: The size of a rewrite.
        bound_lengths: The bound length of each column whose bounds are truncated.
        question: The layouts to simulate and to search for.
        on_progress: Called with the progress of the search.

    Raises:
        TableError: ZL109 for a column type without an order.
    """
    started = time.monotonic()
    ranked = RankedSample.of(sample, target, bound_lengths)
    shares = {name: s for name, s in column_shares(queries).items() if name in ranked.ranks.columns}
    given = [ranked.measure(layout, queries) for layout in question.layouts]
    declared = ranked.measure(question.declared, queries) if question.declared is not None else None
    found = _Found()
    if question.search and shares:
        found = _search(ranked, queries, shares, question, started, on_progress)
    choices = (*given, *found.choices)
    now = costs(queries, present_files(state))
    lowest_choice = min(choices, key=lambda c: c.costs.mean_bytes, default=None)
    chosen = [c.name for c in lowest_choice.layout.columns] if lowest_choice else []
    predicates = [p for q in queries for p in q.predicates]
    return Study(
        table=state.table,
        format=state.format,
        version=state.version,
        rows=int(state.files.live_rows.sum()),
        bytes=int(state.files.bytes.sum()),
        files=len(state.files),
        sampled=len(sample),
        seed=sample.seed,
        queries=queries,
        statements=len(queries),
        coverage=Coverage.of(dict.fromkeys((q.query for q in queries), Use.USED)),
        now=now,
        floor=lowest(queries, sample, target),
        choices=choices,
        best=lowest_choice if lowest_choice and _saves(lowest_choice.costs, now) else None,
        declared=declared,
        columns=column_uses(shares, predicates, chosen, sample, ranked.ranks, target),
        steps=found.steps,
        tried=len(given) + found.tried,
        seconds=time.monotonic() - started,
        interrupted=found.interrupted,
        notes=found.notes,
    )


@dataclass(frozen=True, slots=True)
class RankedSample:
    """A sample with the ranks of its values, on which layouts of the whole table are simulated."""

    sample: KeySample
    target: Target
    bound_lengths: Mapping[str, int]
    ranks: Ranks

    @classmethod
    def of(cls, sample: KeySample, target: Target, bound_lengths: Mapping[str, int]) -> RankedSample:
        return cls(sample, target, bound_lengths, rank_sample(sample, bound_lengths, len(target.files)))

    def measure(self, layout: Layout, queries: Sequence[TableQuery]) -> Choice:
        """Simulate a layout, and return its costs for queries."""
        files, touched = simulate(self.sample, self.ranks, layout, self.target)
        return Choice(layout, len(files), costs(queries, files, sampled=True), touched)

    def thinned(self) -> RankedSample:
        """Return the rows of the sample that the search uses, or this object for all rows. The seed determines them."""
        wanted = max(SEARCH_ROWS, SEARCH_ROWS_PER_FILE * int(self.target.files.sum()))
        if len(self.sample) <= wanted:
            return self
        rows = np.random.default_rng(self.sample.seed).permutation(len(self.sample))[:wanted]
        return self.of(self.sample.take(np.sort(rows).astype(np.int64)), self.target, self.bound_lengths)


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of the search. The attributes are those of `Study`, without the layouts of the question."""

    choices: tuple[Choice, ...] = ()
    steps: tuple[Choice, ...] = ()
    tried: int = 0
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def _search(
    ranked: RankedSample,
    queries: tuple[TableQuery, ...],
    shares: Mapping[str, float],
    question: Question,
    started: float,
    on_progress: Callable[[Progress], None],
) -> _Found:
    """Search on some rows of the sample, and measure the finalists on all. started: by the monotonic clock."""
    few, limit = ranked.thinned(), started + question.seconds
    deadline = started + SEARCH_TIME_SHARE * question.seconds
    pairs = correlated_pairs(few.ranks)
    search = Search(lambda layout: few.measure(layout, queries), question.base, deadline, on_progress, pairs)
    search.run(shares, (question.curve,) if question.curve else CURVES)
    finals = search.finalists()
    layouts = [*finals, *(step.layout for step in search.steps)]
    again = search.known.__getitem__ if few is ranked else lambda layout: ranked.measure(layout, queries)
    measured = _measured(layouts, again, limit)
    choices = [search.choose([measured[layout] for layout in finals if layout in measured])] if finals else []
    notes: tuple[str, ...] = ()
    if choices and question.cuts:
        # Cuts are chosen by the rows of the search, and measured on all rows.
        checked = search_cuts(choices[0].layout, queries, few.sample, few.target, ranked.measure, limit)
        if checked is not None and checked.is_better:
            notes = (note_on_cuts(checked),)
            choices.append(ranked.measure(checked.layout, queries))
    return _Found(
        tuple(choices),
        # A step that was not measured again before the time limit keeps its result on fewer rows.
        steps=tuple(measured.get(step.layout, step) for step in search.steps),
        tried=len(search.known),
        interrupted=search.interrupted or not measured.keys() >= set(finals),
        notes=notes,
    )


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
