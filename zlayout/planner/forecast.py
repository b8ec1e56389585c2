"""Measure a table and forecast its metrics after a rewrite, from metadata alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zlayout.planner.forecasts import BytesRead, ColumnForecast, TouchedRange
from zlayout.planner.partitions import Floats, Index, laid_out
from zlayout.spec.layout import Layout
from zlayout.spec.model import LayoutSpec
from zlayout.table.joint_optimum import joint_optimum
from zlayout.table.metrics import ColumnMetrics, layout_metrics
from zlayout.table.reach import Reach, reach
from zlayout.table.state import FileTable
from zlayout.table.sums import counts, sums

# touched / joint optimum after a rewrite, by curve and number of columns, simulated on uniform keys (docs/curves.md).
_TOUCHED_PER_OPTIMUM = {
    "kd": (1.0, 1.03, 1.04, 1.05),
    "hilbert": (1.0, 1.23, 1.25, 1.22),
    "zorder": (1.0, 1.7, 1.55, 1.44),
}
# With several columns, touched after a rewrite varies by a few percent, because the number of files does not divide
# evenly among the columns. Ratios use the low end of that range, so that they are never too small.
_LOW_END = 0.95
DECIMALS = 9
# In a table with one partition and at most this number of files, the reach is kept: it is asked for several times.
MAX_FILES_WITH_REACH = 10_000


@dataclass(frozen=True, slots=True)
class Measured:
    """Present and achievable metrics of the d z-order columns of a table with P partitions.

    Attributes:
        metrics: The present metrics, one per column.
        ratio: float64[P], touched divided by the lowest touched that a rewrite can reach, mean over the columns.
        touched: float64[P, d], at present.
        ideal: float64[P, d], expected touched after a rewrite of the whole partition.
        distinct: float64[P, d], the number of distinct values.
        files: int64[P], the present number of files.
        targets: int64[P], the number of files after a rewrite of the whole partition.
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
        """The reach of each column; may be empty if zlayout laid out no file of the table."""
        return tuple(m.reach for m in self.metrics if m.reach is not None)

    def reach_of(self, files: FileTable, at: int, index: Index) -> Reach:
        """Return the reach of files on one z-order column; computed if it is not known yet.

        Args:
            files: All files of the table.
            at: The number of the column.
            index: int64, the indices of all files of some partitions.
        """
        if (known := self.metrics[at].reach) is not None:
            return replace(known, lo=known.lo[index], hi=known.hi[index], share=known.share[index])
        part, column = files.take(index), self.metrics[at].column
        return reach(part, column)


def measure(files: FileTable, spec: LayoutSpec) -> Measured:
    """Measure the z-order columns of the spec in each partition."""
    kept = len(files) <= MAX_FILES_WITH_REACH and len(files.partitions) == 1
    metrics = layout_metrics(files, spec.column_names, with_reach=kept or bool(laid_out(spec, files).any()))
    count = max(len(files.partitions), 1)
    partition = files.partition.astype(np.int64)  # converted once for all sums
    number = counts(partition, count)
    rows, live, size = (sums(partition, count, values) for values in (files.rows, files.live_rows, files.bytes))
    size *= np.divide(live, rows, out=np.ones(count), where=rows > 0)
    targets = np.where(number > 0, np.maximum(np.rint(size / spec.layout.target_size), 1), 0).astype(np.int64)
    if not metrics:
        none = np.zeros((count, 0))
        return Measured((), np.zeros(count), none, none, none, number, targets)
    distinct = np.stack([m.by_partition.distinct for m in metrics], axis=1)
    ideal = ideal_touched(targets, spec.layout, distinct)
    touched = np.stack([m.by_partition.touched for m in metrics], axis=1)
    ratio = touched_ratio(touched, best_touched(ideal))
    return Measured(metrics, ratio, touched, ideal, distinct, number, targets)


def touched_ratio(touched: Floats, reference: Floats) -> Floats:
    """Divide `touched` by `reference` (float64[P, d] each; the quotient is 1 if the reference is 0).

    Returns:
        The mean over the columns or half of the largest, whichever is larger, float64[P]: a rewrite may favour one
        column at the expense of another, but among many columns the decay of a single one must be noticed too. It is
        rounded so that rounding errors of sums over all partitions do not decide whether one partition exceeds its
        tolerance.
    """
    ratios = np.divide(touched, reference, out=np.ones_like(touched), where=reference > 0)
    ratio: Floats = np.maximum(ratios.mean(axis=1), ratios.max(axis=1) / 2).round(DECIMALS)
    return ratio


def columns(now: Measured, after: Sequence[TouchedRange] = ()) -> tuple[ColumnForecast, ...]:
    """Combine the present metrics of each z-order column with its forecast, if there is one.

    The floor is that of the present files; a forecast has one only if a sample shows how often values occur.
    """
    unchanged = (TouchedRange(metrics.column, None, None, None, metrics.floor) for metrics in now.metrics)
    return tuple(
        ColumnForecast(
            column=metrics.column,
            touched=metrics.touched,
            predicted=then.predicted,
            low=then.low,
            high=then.high,
            floor=then.floor,
            depth=metrics.depth,
            overlaps=metrics.overlaps,
            unbounded=metrics.unbounded,
            truncated=metrics.truncated,
            depth_histogram=tuple((b.label, b.files) for b in metrics.depth_histogram),
            bytes_read=BytesRead(round(metrics.bytes_read)),
        )
        for metrics, then in zip(now.metrics, after or unchanged, strict=True)
    )


def best_touched(ideal: Floats) -> Floats:
    """Return the lowest touched that a rewrite can be expected to reach, float64[P, d]; `ideal` is the mean."""
    return ideal if ideal.shape[1] == 1 else np.where(ideal > 1, np.maximum(_LOW_END * ideal, 1.0), ideal)


def ideal_touched(targets: Index, layout: Layout, distinct: Floats) -> Floats:
    """Estimate touched of independent columns after a rewrite of each partition by the curve of the layout.

    The result decides what is rewritten. It is not shown, because correlated and frequent values change it.

    Args:
        targets: int64[P], the number of files that the rewrite writes.
        distinct: float64[P, d], the number of distinct values of each column; infinity if unknown.

    Returns:
        float64[P, d].
    """
    d = len(layout.columns)
    if d == 0:
        return np.zeros((len(targets), 0))
    if layout.curve == "linear":
        # Files are ranges of the first column. Values of the other columns are in all files.
        first = joint_optimum(targets, (1.0,), distinct[:, :1])
        others = np.where(distinct[:, 1:] > 0, targets[:, None].astype(np.float64), 0.0)
        return np.concatenate([first, others], axis=1)
    # cuts at values instead of quantiles serve the workload and not these columns alike: baselines show by how much
    curve = "kd" if layout.cuts else layout.curve
    loss = _TOUCHED_PER_OPTIMUM[curve][min(d, 4) - 1]
    lowest = joint_optimum(targets, tuple(layout.weights.values()), distinct)
    return np.minimum(lowest * loss, targets[:, None])
