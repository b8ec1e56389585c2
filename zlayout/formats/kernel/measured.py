"""Measures the result of a rewrite before it is committed, so that the commit can store the metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from zlayout.errors import ZlayoutError
from zlayout.formats.base import (
    COST,
    QUERY_COST,
    TOUCHED,
    PlannedTable,
    RunColumn,
    RunCost,
    render_cost,
    render_query_cost,
    render_touched,
)
from zlayout.formats.kernel.commits import Rewritten
from zlayout.spec.model import Layout
from zlayout.table.baseline import Baseline
from zlayout.table.metrics import layout_metrics, measure_baselines
from zlayout.table.state import FileTable, replaced

# If measuring touched raises one of these errors, touched is not stored. A rewrite must not fail for this reason.
_UNKNOWN = (ValueError, KeyError, TypeError, ArithmeticError, pa.ArrowException, ZlayoutError)


def baseline_of(written: FileTable | None, layout: Layout) -> Baseline | None:
    """Return the baseline of a group, given its new files; None if they are unknown or are in several partitions."""
    if written is None or len(written.partitions) != 1 or not len(written):
        return None
    names = [column.name for column in layout.columns]
    try:
        return measure_baselines(written, names, np.zeros(len(written), np.int32), 1)[0]
    except _UNKNOWN:
        return None


class Measurement:
    """Measures touched and the cost of the rewrites for each commit of one plan."""

    def __init__(self, files: FileTable, work: PlannedTable) -> None:
        """Start the clock. files: the live files before the rewrite, with the bounds of the z-order columns."""
        self._files = files
        self._work = work
        self._done: list[Rewritten] = []
        self._started = time.monotonic()

    def properties(self, some: Sequence[Rewritten]) -> dict[str, str]:
        """Return the properties to store with the commit of these groups. They also cover the earlier commits."""
        touched = self._touched(some)
        size = sum(int(each.group.files.bytes.sum()) for each in (*self._done, *some))
        cost = render_cost(RunCost(size, time.monotonic() - self._started))
        workload = self._work.plan.workload
        predicted = workload.predicted if workload else None
        query = {} if predicted is None else {QUERY_COST: render_query_cost(predicted)}
        return {COST: cost} | query | ({} if touched is None else {TOUCHED: touched})

    def _touched(self, some: Sequence[Rewritten]) -> str | None:
        """Return the text of TOUCHED for the table after the commit of these groups; None if a value is unknown."""
        done = [*self._done, *some]
        written = [each.written for each in done if each.written is not None]
        if (
            len(written) < len(done)
            or not self._work.layout.orders
            or any(c.name not in self._files.bounds for c in self._work.layout.columns)
        ):
            return None
        predicted = self._work.predictions()
        try:
            files = replaced(self._files, [each.group.files.path for each in done], written)
            found = layout_metrics(files, self._work.layout.weights)
        except _UNKNOWN:
            return None
        return render_touched(tuple(RunColumn(m.column, predicted.get(m.column), m.touched) for m in found))

    def committed(self, some: Sequence[Rewritten]) -> None:
        """Count these groups as committed."""
        self._done += some
