"""The ranges that metadata allows for the bytes that a query for one value reads after a rewrite.

The bytes of rewritten rows are those of their present files: how well a new order compresses is not known. A group of
B bytes becomes at most k files, and a query for one of its values reads at least B / k bytes in the mean, because that
is the mean over files of equal size, and larger files are read more often than smaller ones. It reads at most B, within
the range that the group covers. Both bounds count whole files: row groups may be skipped inside of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zlayout.planner.classes import classes_of
from zlayout.planner.forecast import Measured
from zlayout.planner.forecasts import BytesRead, ColumnForecast
from zlayout.planner.partitions import Bools, Floats
from zlayout.planner.ranges import ESTIMATE_ERROR, Rewrites
from zlayout.spec.semantics import lacks_bounds
from zlayout.table.metrics import rows_with_value
from zlayout.table.state import FileTable, TableState
from zlayout.table.sums import counts, sums


def with_bytes(
    state: TableState, now: Measured, rewrites: Rewrites, columns: Sequence[ColumnForecast]
) -> tuple[ColumnForecast, ...]:
    """Add the range of the bytes that a query reads after the rewrites to the forecast of each z-order column."""
    files = state.files
    sizes = files.live_bytes
    members = np.flatnonzero(~rewrites.kept)
    group_size = sums(rewrites.group[members], max(len(rewrites.targets), 1), sizes[members])[: len(rewrites.targets)]
    result = []
    for at, column in enumerate(columns):
        known = state.column(column.column)
        if known is not None and lacks_bounds(known, state) and not known.enable_stats:
            low = high = float(files.bytes[rewrites.kept].sum() + group_size.sum())
        else:
            low, high = _range(files, column.column, now, at, rewrites, group_size)
        result.append(replace(column, bytes_read=BytesRead(column.bytes_read.now, None, round(low), round(high))))
    return tuple(result)


def _range(
    files: FileTable, column: str, now: Measured, at: int, rewrites: Rewrites, group_size: Floats
) -> tuple[float, float]:
    """Return the range of the bytes read of z-order column number `at`; group_size: float64[G], the live bytes."""
    count, partition, targets = len(now.files), rewrites.partition, rewrites.targets
    kept = counts(files.partition[rewrites.kept], count)
    changed = now.files > kept
    apart = changed & ((kept > 0) | (counts(partition, count) > 1))
    values = rows_with_value(files, column)
    members = np.flatnonzero(~rewrites.kept)
    rows, live = (
        sums(rewrites.group[members], max(len(targets), 1), v[members])[: len(targets)]
        for v in (values, files.live_rows)
    )
    everything = sums(files.partition, count, values)[partition]
    own = np.divide(rows, everything, out=np.zeros_like(rows), where=everything > 0)
    hull = (everything > 0).astype(np.float64)
    stay, beside = float(now.metrics[at].by_partition.bytes[~changed].sum()), 0.0
    if apart.any():
        beside, width = _beside_kept(files, now, at, rewrites, apart)
        hull = np.where(apart[partition], np.minimum((1 + ESTIMATE_ERROR) * width, hull), hull)
    # The files that have values may be small if other rows are null.
    filled = np.divide(rows, live, out=np.zeros_like(rows), where=live > 0)
    least = np.where(targets > 1, np.minimum(filled, 1.0) / np.maximum(targets, 1), 1.0)
    low = stay + (1 - ESTIMATE_ERROR) * beside + float((own * least * group_size).sum())
    high = stay + (1 + ESTIMATE_ERROR) * beside + float((hull * group_size).sum())
    return low, max(low, high)


def _beside_kept(files: FileTable, now: Measured, at: int, rewrites: Rewrites, apart: Bools) -> tuple[float, Floats]:
    """Return the bytes that queries read of kept files, and the share of rows in the range of each group, float64[G].

    Only the partitions in `apart` (bool[P]) count, which keep files or are rewritten in parts.
    """
    inside = np.flatnonzero(apart[files.partition])
    group = rewrites.group[inside]
    reach = now.reach_of(files, at, inside)
    members = np.flatnonzero(group >= 0)
    classes = classes_of(group[members], len(rewrites.targets), members)
    width = reach.between(rewrites.partition, *classes.hull(reach.lo, reach.hi))
    stays = group < 0
    return float((reach.share[stays] * files.bytes[inside][stays]).sum()), width
