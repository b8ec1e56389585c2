"""Measure a table and forecast its metrics after a rewrite, from metadata alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zlayout.planner.model import BytesRead, ColumnForecast, TouchedRange
from zlayout.planner.partitions import Floats, Index, laid_out
from zlayout.spec.model import Layout, LayoutSpec
from zlayout.table.metrics import ColumnMetrics, Reach, joint_optimum, layout_metrics, reach
from zlayout.table.state import FileTable, counts, sums, target_files

# Touched after a rewrite divided by the joint optimum, by curve and for 1, 2, 3, and 4 or more columns. The values were
# simulated on uniform keys (docs/curves.md).
_TOUCHED_PER_OPTIMUM = {
    "kd": (1.0, 1.03, 1.04, 1.05),
    "hilbert": (1.0, 1.23, 1.25, 1.22),
    "zorder": (1.0, 1.7, 1.55, 1.44),
}
# With several columns, touched after a rewrite varies by a few percent, because the number of files does not divide
# evenly among the columns. Touched is compared with the low end of that range, so that touched ratios are never too
# small.
_LOW_END = 0.95
# Ratios and expectations are rounded to this number of decimals, so that rounding errors of sums decide nothing.
DECIMALS = 9
# In a table with one partition and at most this number of files, the reach is kept, because it is used several times.
MAX_FILES_WITH_REACH = 10_000


@dataclass(frozen=True, slots=True)
class Measured:
    """Present and theoretical metrics of the d z-order columns of a table with P partitions.

    Attributes:
        metrics: The present metrics, one per column.
        ratio: float64[P], the `touched_ratio` of the present touched to the lowest touched by theory.
        touched: float64[P, d], the present touched.
        ideal: float64[P, d], the mean touched by theory after a rewrite of the whole partition.
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
        """Return the reach of files on one z-order column. It is computed unless it was kept.

        Args:
            files: All files of the table.
            at: The index of the column.
            index: int64, the indices of the files: all files of some partitions.
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
    live = sums(partition, count, files.live_bytes)
    targets = np.where(number > 0, target_files(live, spec.layout.target_size), 0)
    if not metrics:
        none = np.zeros((count, 0))
        return Measured((), np.zeros(count), none, none, none, number, targets)
    distinct = np.stack([m.by_partition.distinct for m in metrics], axis=1)
    ideal = ideal_touched(targets, spec.layout, distinct)
    touched = np.stack([m.by_partition.touched for m in metrics], axis=1)
    ratio = touched_ratio(touched, best_touched(ideal))
    return Measured(metrics, ratio, touched, ideal, distinct, number, targets)


def touched_ratio(touched: Floats, reference: Floats) -> Floats:
    """Return the touched ratio of each partition: of the ratios of its columns, the mean, or half of the largest.

    The larger of the two counts. The mean allows that a rewrite favours one column at the expense of another. Half of
    the largest shows the decay of a single one of many columns. The result is rounded, so that rounding errors of sums
    over all partitions do not decide whether a partition exceeds its tolerance.

    Args:
        touched: float64[P, d].
        reference: float64[P, d], the touched to compare with. The ratio of a column is 1 where it is 0.

    Returns:
        float64[P].
    """
    ratios = np.divide(touched, reference, out=np.ones_like(touched), where=reference > 0)
    ratio: Floats = np.maximum(ratios.mean(axis=1), ratios.max(axis=1) / 2).round(DECIMALS)
    return ratio


def columns(now: Measured, after: Sequence[TouchedRange] = ()) -> tuple[ColumnForecast, ...]:
    """Combine the present metrics of each z-order column with its forecast.

    Args:
        now: The present metrics.
        after: The forecast of each column; empty if nothing is rewritten. Then the floor is that of the present files.
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
    """Return the lowest touched by theory, float64[P, d]. ideal: float64[P, d], the mean touched by theory."""
    return ideal if ideal.shape[1] == 1 else np.where(ideal > 1, np.maximum(_LOW_END * ideal, 1.0), ideal)


def ideal_touched(targets: Index, layout: Layout, distinct: Floats) -> Floats:
    """Return the mean touched by theory after a rewrite of each partition by the curve of the layout.

    Theory is the joint optimum of independent columns, multiplied by what the curve loses against it. The result is
    used to decide what is rewritten. It is not shown, because correlated columns reach less, and frequent values more.

    Args:
        targets: int64[P], the number of files that the rewrite writes.
        layout: The layout.
        distinct: float64[P, d], the number of distinct values of each column; infinity if unknown.

    Returns:
        float64[P, d].
    """
    d = len(layout.columns)
    if d == 0:
        return np.zeros((len(targets), 0))
    if layout.curve == "linear":
        # Each file has a range of the first column. Values of the other columns are in all files.
        first = joint_optimum(targets, (1.0,), distinct[:, :1])
        others = np.where(distinct[:, 1:] > 0, targets[:, None].astype(np.float64), 0.0)
        return np.concatenate([first, others], axis=1)
    # Declared cuts favour the queries of the workload over some of the columns. Theory ignores this, baselines show it.
    curve = "kd" if layout.cuts else layout.curve
    loss = _TOUCHED_PER_OPTIMUM[curve][min(d, 4) - 1]
    lowest = joint_optimum(targets, tuple(layout.weights.values()), distinct)
    return np.minimum(lowest * loss, targets[:, None])
