"""touched, depth and floor of a table now, and what a rewrite of chosen files would leave: from metadata alone."""

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
# What a layout by several columns leaves depends on how the number of files splits among them, by some hundredths to
# either side. The yardstick is the low end, so that what is measured against it is never too small.
_LUCKY = 0.95
DECIMALS = 9


@dataclass(frozen=True, slots=True)
class Measured:
    """The metrics of a table's z-order columns now.

    ratio: float64[P], per partition the mean over columns of touched beside what rewriting it would leave at best.
    touched, ideal, distinct: float64[P, d], now, what a rewrite of each partition would leave, and distinct values.
    files, targets: int64[P], files now and after a rewrite.
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
        """One for each column, or none: they are kept only of tables that zlayout laid out at least in part."""
        return tuple(m.reach for m in self.metrics if m.reach is not None)


def measure(files: FileTable, spec: LayoutSpec) -> Measured:
    """Measure the spec's columns; partitions are measured apart."""
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
    """float64[P]: touched beside a yardstick, both float64[P, d], as the mean over columns; 1 where that is 0.

    It is what is compared with a tolerance. Running sums pass through all partitions, and what they lose of a digit
    must not decide in one of them: so it is rounded.
    """
    ratios = np.divide(touched, yardstick, out=np.ones_like(touched), where=yardstick > 0)
    mean: Floats = ratios.mean(axis=1).round(DECIMALS)
    return mean


def columns(
    now: Measured, touched: Floats, files: Index, spec: LayoutSpec, *, predicted: bool, boundless: Collection[str] = ()
) -> tuple[ColumnForecast, ...]:
    """The metrics for the plan: now, predicted for after it, and the floor of as many files as there will be then.

    touched: float64[P, d] and files: int64[P], what each partition is predicted to have after the plan. predicted:
    whether that tells anything (something is rewritten, and the engine orders by the spec's curve). boundless: columns
    that have no bounds, whatever is rewritten, so that every query opens all files.
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
    """One column of the files that the declared layout's rewrites left: touched as plan predicts it, and as it is."""

    column: str
    predicted: float
    measured: float


def promises(files: FileTable, spec: LayoutSpec) -> tuple[tuple[Promise, ...], int]:
    """What `columns` predicts for the partitions that one rewrite each has laid out whole, beside what they touch.

    The prediction is made again from metadata, by the same rule and for as many files as there are, so that nothing
    has to be kept. Also how many partitions there are of that kind.
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
    """float64[P, d]: the least that a rewrite can be expected to leave, where `ideal` is what it leaves on average."""
    return ideal if ideal.shape[1] == 1 else np.where(ideal > 1, np.maximum(_LUCKY * ideal, 1.0), ideal)


def ideal_touched(targets: Index, layout: Layout, distinct: Floats) -> Floats:
    """float64[P, d]: touched after a rewrite into `targets` (int64[P]) files by the layout's curve.

    distinct: float64[P, d], distinct values of each column, infinity where unknown.
    """
    d = len(layout.columns)
    if layout.curve == "linear":
        # Sorted by the first column: it is cut into runs, the others stay spread over all files.
        first = floor(targets, (1.0,), distinct[:, :1])
        others = np.where(distinct[:, 1:] > 0, targets[:, None].astype(np.float64), 0.0)
        return np.concatenate([first, others], axis=1)
    loss = _LOSS[layout.curve][min(d, 4) - 1]
    lowest = floor(targets, tuple(layout.weights.values()), distinct)
    return np.minimum(lowest * loss, targets[:, None])
