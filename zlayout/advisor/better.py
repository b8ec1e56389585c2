"""Decide whether the declared layout no longer fits the workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from zlayout.advisor.compare import zorder_line
from zlayout.advisor.declared import bound_lengths, declared_layout, searched
from zlayout.advisor.model import Choice, KeySample, TableQuery
from zlayout.advisor.query_costs import key_sample, mean
from zlayout.advisor.study import Question, rewrite_target, study
from zlayout.planner.forecasts import BetterLayout
from zlayout.planner.work import Capabilities
from zlayout.spec.layout import Layout
from zlayout.spec.model import LayoutSpec
from zlayout.table.key_sample import RowGroupSample
from zlayout.table.state import TableState

# With fewer sampled rows per new file, the bounds of simulated files would be much narrower than those of real files.
MIN_ROWS_PER_FILE = 50
SEARCH_SECONDS = 5.0


def better_layout(
    spec: LayoutSpec,
    state: TableState,
    queries: Sequence[TableQuery],
    sample: RowGroupSample,
    capabilities: Capabilities,
) -> BetterLayout | None:
    """Search for a layout with which the queries read less than with the declared one, by more than the tolerance.

    Both layouts are simulated on the same rows. If these are not all rows of the table, the other layout must also be
    better by more than the tolerance on each half of the row groups.

    Args:
        spec: The layout spec of the table, with `tolerance.workload`.
        state: The observed table, with the bounds of the columns of the queries.
        queries: The queries on the table.
        sample: Rows of the whole table.
        capabilities: The capabilities of the backend of the table.

    Returns:
        The other layout; None if there is none, if the sample is too small to decide, or if the declared layout cannot
        be simulated.
    """
    declared, _ = declared_layout(spec, state, capabilities)
    target = rewrite_target(state, spec.layout.target_size)
    keys = key_sample(state, sample)
    if declared is None or len(keys) < MIN_ROWS_PER_FILE * int(target.files.sum()):
        return None
    lengths = bound_lengths(spec, state, tuple(keys.keys))

    def measured(rows: KeySample, question: Question) -> tuple[Choice | None, Choice | None]:
        """Return the declared layout, and the layout found by the study if it is better by more than the tolerance."""
        found = study(state, tuple(queries), rows, target, lengths, question)
        other = found.choices[-1] if found.choices else None
        return found.declared, other if _beats(other, found.declared, spec.tolerance.workload) else None

    now, other = measured(keys, Question((), declared, searched(spec, state), search=True, seconds=SEARCH_SECONDS))
    if now is None or other is None:
        return None
    for half in _halves(state, sample):
        if half is None or measured(half, Question((other.layout,), declared, declared, search=False))[1] is None:
            return None
    columns = tuple(column.name for column in other.layout.columns)
    return BetterLayout(columns, other.layout.curve, zorder_line(other.layout), mean(now.costs), mean(other.costs))


def _beats(other: Choice | None, declared: Choice | None, tolerance: float) -> bool:
    if other is None or declared is None or _settings(other.layout) == _settings(declared.layout):
        return False
    return other.costs.mean_bytes < (1 - tolerance) * declared.costs.mean_bytes


def _settings(layout: Layout) -> Layout:
    """Return the layout with engine zlayout, because the engine does not influence the result of a simulation."""
    return replace(layout, engine="zlayout")


def _halves(state: TableState, sample: RowGroupSample) -> Iterator[KeySample | None]:
    """Yield the rows of the even and the odd row groups, None for no rows; nothing if the sample has all rows."""
    if sample.complete:
        return
    number = np.unique(sample.row_group, return_inverse=True)[1]
    for half in (0, 1):
        rows = np.flatnonzero(number % 2 == half)
        keys = {name: values.take(pa.array(rows)) for name, values in sample.keys.items()}
        part = replace(sample, keys=keys, file=sample.file[rows], row_group=sample.row_group[rows])
        yield key_sample(state, part) if len(rows) else None
