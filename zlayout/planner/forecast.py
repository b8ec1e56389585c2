"""Metrics of a table now, and the forecast of what a rewrite leaves: from metadata alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlayout.planner.model import ColumnForecast
from zlayout.planner.partitions import laid_out
from zlayout.spec.model import Layout, LayoutSpec
from zlayout.table.floor import floor
from zlayout.table.metrics import ColumnMetrics, layout_metrics
from zlayout.table.reach import Reach
from zlayout.table.state import FileTable
from zlayout.table.sums import counts, sums

Floats = NDArray[np.float64]
Index = NDArray[np.int64]

# touched / floor of a fresh layout, by curve and number of columns: simulated on uniform keys (docs/curves.md).
_LOSS = {"kd": (1.0, 1.03, 1.04, 1.05), "hilbert": (1.0, 1.23, 1.25, 1.22), "zorder": (1.0, 1.7, 1.55, 1.44)}
# What a layout by several columns leaves varies by a few percent with how the number of files splits among the columns.
# Ratios use the low end of that range, so that they are never too small.
_LOW_END = 0.95
DECIMALS = 9


@dataclass(frozen=True, slots=True)
class Measured:
    """The metrics of a table's d z-order columns now, and what a rewrite of each of P partitions would leave.

    ratio: float64[P], touched divided by the best that a rewrite can leave, mean over the columns. touched: float64[P,
    d], now; ideal: float64[P, d], after a rewrite. distinct: float64[P, d], distinct values. files, targets: int64[P],
    number of files now and after a rewrite.
    """

    metrics: tuple[ColumnMetrics, ...]
    ratio: Floats
    touched: Floats
    ideal: Floats
    distinct: Floats
    files: Index
    targets: Index

    @property
    def reaches(self) -> tuple[Reach, ...]:
        """One for each column; none unless zlayout laid out at least a part of the table."""
        return tuple(m.reach for m in self.metrics if m.reach is not None)


def measure(files: FileTable, spec: LayoutSpec) -> Measured:
    """Measure the z-order columns of the spec, each partition by itself."""
    metrics = layout_metrics(files, spec.layout.weights, with_reach=bool(laid_out(spec, files).any()))
    count = max(len(files.partitions), 1)
    partition = files.partition.astype(np.int64)  # once for all sums
    number = counts(partition, count)
    rows, live, size = (sums(partition, count, values) for values in (files.rows, files.live_rows, files.bytes))
    size *= np.divide(live, rows, out=np.ones(count), where=rows > 0)
    targets = np.where(number > 0, np.maximum(np.rint(size / spec.layout.target_size), 1), 0).astype(np.int64)
    distinct = np.stack([m.by_partition.distinct for m in metrics], axis=1)
    ideal = ideal_touched(targets, spec.layout, distinct)
    touched = np.stack([m.by_partition.touched for m in metrics], axis=1)
    ratio = mean_ratio(touched, best_touched(ideal))
    return Measured(metrics, ratio, touched, ideal, distinct, number, targets)


def mean_ratio(touched: Floats, yardstick: Floats) -> Floats:
    """float64[P]: touched divided by `yardstick`, both float64[P, d], mean over the columns; 1 where that is 0.

    It is rounded before it is compared with a tolerance: rounding errors of the running sums over all partitions must
    not decide about one of them.
    """
    ratios = np.divide(touched, yardstick, out=np.ones_like(touched), where=yardstick > 0)
    mean: Floats = ratios.mean(axis=1).round(DECIMALS)
    return mean


def columns(
    now: Measured, touched: Floats, files: Index, spec: LayoutSpec, *, predicted: bool, boundless: Collection[str] = ()
) -> tuple[ColumnForecast, ...]:
    """The metrics of the plan: now, the forecast, and the floor of as many files as the forecast has.

    Args:
        now: the metrics now.
        touched: float64[P, d], predicted for each partition.
        files: int64[P], predicted for each partition.
        spec: the declared layout.
        predicted: whether the forecast applies: something is rewritten, and the engine orders by the curve.
        boundless: columns that have no bounds whatever is rewritten, so that every query opens all files.
    """
    lowest = floor(files, tuple(spec.layout.weights.values()), now.distinct).sum(axis=0)
    after = touched.sum(axis=0)
    without = [c.name in boundless for c in spec.layout.columns]
    lowest[without] = after[without] = files.sum()
    forecasts = []
    for column, metrics in enumerate(now.metrics):
        forecasts.append(
            ColumnForecast(
                column=metrics.column,
                touched=metrics.touched,
                predicted=float(after[column]) if predicted else None,
                floor=float(lowest[column]),
                depth=metrics.depth,
                overlaps=metrics.overlaps,
                unbounded=metrics.unbounded,
                truncated=metrics.truncated,
                depth_histogram=tuple((b.label, b.files) for b in metrics.depth_histogram),
            )
        )
    return tuple(forecasts)


@dataclass(frozen=True, slots=True)
class Promise:
    """touched of one column over laid-out partitions: as predicted by the plan, and as measured."""

    column: str
    predicted: float
    measured: float


def promises(files: FileTable, spec: LayoutSpec) -> tuple[tuple[Promise, ...], int]:
    """The prediction and the measurement for each column, over partitions that a single rewrite laid out whole.

    The prediction is made again from metadata, by the rule of `columns` and for the files that there are.

    Returns:
        One promise for each column, and the number of such partitions.
    """
    ours = laid_out(spec, files)
    count = max(len(files.partitions), 1)
    number, laid = counts(files.partition, count), counts(files.partition[ours], count)
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(low, files.partition, files.group)
    np.maximum.at(high, files.partition, files.group)
    whole = (number > 0) & (laid == number) & (low == high)
    if not whole.any():
        return (), 0
    now = measure(files, spec)
    predicted = ideal_touched(now.files[whole], spec.layout, now.distinct[whole]).sum(axis=0)
    measured = now.touched[whole].sum(axis=0)
    names = [m.column for m in now.metrics]
    rows = zip(names, predicted.tolist(), measured.tolist(), strict=True)
    return tuple(Promise(*row) for row in rows), int(whole.sum())


def best_touched(ideal: Floats) -> Floats:
    """float64[P, d]: the lowest touched that a rewrite can be expected to leave; `ideal` is its mean."""
    return ideal if ideal.shape[1] == 1 else np.where(ideal > 1, np.maximum(_LOW_END * ideal, 1.0), ideal)


def ideal_touched(targets: Index, layout: Layout, distinct: Floats) -> Floats:
    """float64[P, d]: touched after a rewrite into `targets` (int64[P]) files by the layout's curve.

    distinct: float64[P, d], distinct values of each column, infinity where unknown.
    """
    d = len(layout.columns)
    if layout.curve == "linear":
        # Sorted by the first column, which is divided into runs; the values of the others remain in all files.
        first = floor(targets, (1.0,), distinct[:, :1])
        others = np.where(distinct[:, 1:] > 0, targets[:, None].astype(np.float64), 0.0)
        return np.concatenate([first, others], axis=1)
    loss = _LOSS[layout.curve][min(d, 4) - 1]
    lowest = floor(targets, tuple(layout.weights.values()), distinct)
    return np.minimum(lowest * loss, targets[:, None])
