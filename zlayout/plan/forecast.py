"""touched, depth and floor of a table now, and what a rewrite of chosen files would leave: from metadata alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlayout.plan.model import ColumnForecast
from zlayout.spec.model import LayoutSpec
from zlayout.table.floor import floor
from zlayout.table.metrics import ColumnMetrics, layout_metrics
from zlayout.table.state import FileTable

Floats = NDArray[np.float64]
Index = NDArray[np.int64]

# touched / floor of a fresh layout, by curve and number of columns: simulated on uniform keys (docs/curves.md).
_LOSS = {"kd": (1.0, 1.03, 1.04, 1.05), "hilbert": (1.0, 1.23, 1.25, 1.22), "zorder": (1.0, 1.7, 1.55, 1.44)}


@dataclass(frozen=True, slots=True)
class Measured:
    """The metrics of a table's z-order columns now.

    ratio: float64[P], per partition the mean over columns of touched beside what rewriting it would leave.
    ideal: float64[P, d], what a rewrite of each partition would leave; files, targets: int64[P], files now and then.
    """

    metrics: tuple[ColumnMetrics, ...]
    ratio: Floats
    ideal: Floats
    distinct: Floats
    files: Index
    targets: Index


def measure(files: FileTable, spec: LayoutSpec) -> Measured:
    """Measure the spec's columns; partitions are measured apart."""
    weights = {c.name: c.weight for c in spec.layout.columns}
    metrics = layout_metrics(files, weights)
    count = max(len(files.partitions), 1)
    number = np.bincount(files.partition, minlength=count)
    rows = np.bincount(files.partition, weights=files.rows, minlength=count)
    live = np.bincount(files.partition, weights=files.live_rows, minlength=count)
    share = np.divide(live, rows, out=np.ones(count), where=rows > 0)
    size = np.bincount(files.partition, weights=files.bytes, minlength=count) * share
    targets = np.where(number > 0, np.maximum(np.rint(size / spec.layout.target_size), 1), 0).astype(np.int64)
    distinct = np.stack([m.by_partition.distinct for m in metrics], axis=1)
    ideal = _ideal(targets, spec, distinct)
    touched = np.stack([m.by_partition.touched for m in metrics], axis=1)
    ratios = np.divide(touched, ideal, out=np.ones_like(touched), where=ideal > 0)
    return Measured(metrics, ratios.mean(axis=1), ideal, distinct, number, targets)


def columns(
    now: Measured, rewritten: Sequence[Index], files: FileTable, spec: LayoutSpec, *, predictable: bool
) -> tuple[ColumnForecast, ...]:
    """The metrics for the plan: now, predicted once `rewritten` (file indices, a group each) is done, and the floor.

    predictable: whether the engine orders by the spec's curve; else no prediction is made.
    """
    chosen = np.zeros(len(now.files), dtype=bool)
    for group in rewritten:
        chosen[files.partition[group]] = True
    weights = tuple(c.weight for c in spec.layout.columns)
    lowest = floor(np.where(chosen, now.targets, now.files), weights, now.distinct).sum(axis=0)
    forecasts = []
    for column, metrics in enumerate(now.metrics):
        after = np.where(chosen, now.ideal[:, column], metrics.by_partition.touched).sum()
        forecasts.append(
            ColumnForecast(
                column=metrics.column,
                touched=metrics.touched,
                predicted=float(after) if chosen.any() and predictable else None,
                floor=float(lowest[column]),
                depth=metrics.depth,
                overlaps=metrics.overlaps,
                unbounded=metrics.unbounded,
                truncated=metrics.truncated,
                depth_histogram=tuple((b.label, b.files) for b in metrics.depth_histogram),
            )
        )
    return tuple(forecasts)


def _ideal(targets: Index, spec: LayoutSpec, distinct: Floats) -> Floats:
    """float64[P, d]: touched after a rewrite of each partition into `targets` files by the spec's curve."""
    layout = spec.layout
    d = len(layout.columns)
    if layout.curve == "linear":
        # Sorted by the first column: it is cut into runs, the others stay spread over all files.
        first = floor(targets, (1.0,), distinct[:, :1])
        return np.concatenate([first, np.repeat(targets[:, None].astype(np.float64), d - 1, axis=1)], axis=1)
    loss = _LOSS[layout.curve][min(d, 4) - 1]
    lowest = floor(targets, tuple(c.weight for c in layout.columns), distinct)
    return np.minimum(lowest * loss, targets[:, None])
