"""Forecast a plan from a sample of the key columns: the curve of the rewrite, applied to the sampled rows.

The simulated files and the kept ones are measured together by the code that measures a table (`layout_metrics`), so
that prediction and measurement have the same definition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.planner.decision import Decision
from zlayout.planner.drawing import columns_of_picture, most_interesting
from zlayout.planner.forecasts import BytesRead, ColumnForecast, FilesAfter, SampleFacts
from zlayout.planner.grouping import first_column_rank
from zlayout.planner.log_growth import length_in
from zlayout.planner.model import READS_MORE, TablePlan
from zlayout.planner.notes import small_partition_files
from zlayout.planner.partitions import SMALL_BELOW, Index
from zlayout.planner.row_group_reads import bytes_in_row_groups
from zlayout.planner.simulated import Column, together
from zlayout.planner.simulation import MAX_GROUPS, Outcome, Rewrite, errors_of, simulate, weights_of
from zlayout.planner.size_notes import reads_more
from zlayout.planner.work import Group
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import lacks_bounds
from zlayout.table.key_sample import RowGroupSample
from zlayout.table.state import FileTable, PartitionField, TableState

# The smallest half width of a range, as a share of the prediction: a rewrite draws a sample of its own. It is wider if
# only some row groups were read, because the jackknife does not see what all of them lack.
MIN_ERROR, MIN_ERROR_OF_PART = 0.05, 0.15
# Simulations with other rows, of which the mean is predicted.
DRAWS = 3
# The error of the number of new files, as a share of it.
FILES_ERROR = 0.1
# The share of new files below half of the target above which a partitioning is too fine.
MAX_SMALL_SHARE = 0.5


def files_to_sample(spec: LayoutSpec, state: TableState, groups: Sequence[Group]) -> Index:
    """Return the files to sample, int64: those of the groups, in the order of the first z-order column."""
    group = group_of(state, groups)
    chosen = np.flatnonzero(group >= 0)
    return chosen[np.lexsort((first_column_rank(spec, state.files, chosen), group[chosen]))]


def columns_to_sample(spec: LayoutSpec, fields: Sequence[PartitionField]) -> tuple[str, ...]:
    """Return the z-order columns and the source columns of the partitioning."""
    return tuple(dict.fromkeys((*spec.column_names, *(f.source for f in fields if f.transform != "void"))))


def with_sample(
    spec: LayoutSpec, state: TableState, fields: tuple[PartitionField, ...], decision: Decision, sample: RowGroupSample
) -> Decision:
    """Return the decision with a forecast from the sample.

    Args:
        fields: The partitioning of new files.
        decision: The decision without a forecast.
        sample: Rows of the files to rewrite.
    """
    plan, groups = decision.plan, decision.groups
    rewrite = Rewrite(groups, group_of(state, groups), stored_columns(spec.column_names, state, plan), fields)
    rows = weights_of(state.files, rewrite.group, sample)
    draws = [simulate(spec, state, rewrite, sample, rows, draw) for draw in range(DRAWS)]
    touched, read = (np.mean([getattr(draw, name) for draw in draws], axis=0) for name in ("touched", "bytes_read"))
    whole = replace(draws[0], touched=touched, bytes_read=read)
    none = np.zeros(len(rewrite.columns))
    spread, spread_read = (none, none) if sample.complete else errors_of(spec, state, rewrite, sample, rows)
    columns = tuple(
        _forecast(
            replace(c, bytes_read=_bytes_read(c.bytes_read, float(whole.bytes_read[n]), float(spread_read[n]), sample)),
            float(whole.touched[n]),
            float(whole.floor[n]),
            float(spread[n]),
            complete=sample.complete,
        )
        for n, c in enumerate(plan.columns)
    )
    facts = SampleFacts(
        len(sample),
        sample.row_groups,
        sample.files,
        sample.bytes_read,
        sample.seed,
        len(sample.footers),
    )
    after = _files_after(plan, spec, whole)
    notes = small_partition_files(spec, after, whole.partitions) if _too_fine(after, plan) else ()
    diagnostics = tuple(d for d in plan.diagnostics if d.code != READS_MORE)  # from metadata alone
    diagnostics = (*diagnostics, *reads_more(spec, columns), *notes)
    columns = tuple(_with_row_groups(c, state, rewrite, sample) for c in columns)
    forecast = replace(plan, columns=columns, sample=facts, files_after=after, diagnostics=diagnostics)
    return replace(decision, plan=forecast, after=_files_to_draw(spec, state, rewrite, sample, draws[0]))


def _files_to_draw(
    spec: LayoutSpec, state: TableState, rewrite: Rewrite, sample: RowGroupSample, found: Outcome
) -> FileTable | None:
    """Return the files after the rewrite of the partition that is drawn; None if a group in it has no sampled rows."""
    files, group = state.files, rewrite.group
    partition = most_interesting(files, group >= 0)
    inside = files.partition == partition
    names = columns_of_picture(spec)
    known = np.isin(group[inside & (group >= 0)], group[sample.file]).all() and len(found.new) < MAX_GROUPS
    if not known or found.partitions > len(files.partitions) or any(name not in files.bounds for name in names):
        return None
    new = [s for s in found.new if len(s.partition) and s.partition[0] == partition]
    return (
        together(files.take(np.flatnonzero(inside & (group < 0))), new, names, len(files.partitions)) if new else None
    )


def group_of(state: TableState, groups: Sequence[Group]) -> Index:
    """Return the group of each file of the table, int64[N], -1 for files that stay."""
    if not groups:
        return np.full(len(state.files), -1, np.int64)
    paths = pa.concat_arrays([g.files.path for g in groups])
    owner = np.repeat(np.arange(len(groups)), [len(g.files) for g in groups])
    at = pc.index_in(state.files.path, paths.cast(state.files.path.type)).fill_null(-1)
    found = np.asarray(at.to_numpy(zero_copy_only=False), np.int64)
    return np.where(found >= 0, owner[found], -1)


def stored_columns(names: Sequence[str], state: TableState, plan: TablePlan) -> tuple[Column, ...]:
    """Return columns as writers store their bounds after the table properties of the plan are set."""
    lengths = {p.name: length_in(p.after) for p in plan.properties if length_in(p.after)}
    result = []
    for name in names:
        column = state.column(name)
        length = column.bound_length if column else None
        if column is not None and length:
            sets = [lengths[key] for key, _ in (*column.longer_bounds, *column.enable_stats) if key in lengths]
            length = max([length, *sets])
        bounded = column is None or not lacks_bounds(column, state) or bool(column.enable_stats)
        result.append(Column(name, length, bounded))
    return tuple(result)


def _forecast(column: ColumnForecast, touched: float, floor: float, error: float, *, complete: bool) -> ColumnForecast:
    """Return the forecast of one column: the prediction and twice its error, within what metadata guarantees."""
    if not np.isfinite(touched):
        return column
    least, most = column.low or 0.0, np.inf if column.high is None else column.high
    predicted = float(np.clip(touched, least, most))
    half = max(2 * error if np.isfinite(error) else np.inf, (MIN_ERROR if complete else MIN_ERROR_OF_PART) * predicted)
    low, high = max(predicted - half, least), min(predicted + half, most)
    return replace(
        column,
        predicted=predicted,
        low=float(low),
        high=float(high) if np.isfinite(high) else None,
        floor=min(floor, predicted) if np.isfinite(floor) else None,
    )


def _bytes_read(read: BytesRead, predicted: float, error: float, sample: RowGroupSample) -> BytesRead:
    """As `_forecast`, for the bytes that a query reads."""
    if not np.isfinite(predicted):
        return read
    least, most = float(read.low or 0), np.inf if read.high is None else float(read.high)
    found = float(np.clip(predicted, least, most))
    half = max(
        2 * error if np.isfinite(error) else np.inf, (MIN_ERROR if sample.complete else MIN_ERROR_OF_PART) * found
    )
    high = min(found + half, most)
    return replace(
        read,
        predicted=round(found),
        low=round(max(found - half, least)),
        high=round(high) if np.isfinite(high) else None,
    )


def _with_row_groups(
    column: ColumnForecast, state: TableState, rewrite: Rewrite, sample: RowGroupSample
) -> ColumnForecast:
    """Return the forecast of one column with the bytes in row groups that queries cannot skip at present."""
    inside = bytes_in_row_groups(state.files, rewrite.group >= 0, sample.footers, column.column)
    read = column.bytes_read
    return replace(column, bytes_read=replace(read, in_row_groups=min(inside, read.now)))


def _files_after(plan: TablePlan, spec: LayoutSpec, found: Outcome) -> FilesAfter:
    """Return the number of files, with the range that metadata allows around the prediction, and the new sizes."""
    size = np.concatenate([s.bytes for s in found.new]) if found.new else np.zeros(0, np.int64)
    least, most = (plan.files_after.low, plan.files_after.high) if plan.files_after else (None, None)
    kept = plan.files - sum(g.files for g in plan.groups)
    predicted = found.files if most is None else min(found.files, most)
    error = math.ceil(FILES_ERROR * (predicted - kept))
    return FilesAfter(
        predicted=predicted,
        low=max(predicted - error, least or 0),
        high=min(predicted + error, most or predicted + error),
        median_bytes=int(np.median(size)) if len(size) else None,
        small=int((size < SMALL_BELOW * spec.layout.target_size).sum()),
    )


def _too_fine(after: FilesAfter, plan: TablePlan) -> bool:
    written = (after.predicted or 0) - plan.files + sum(g.files for g in plan.groups)
    moves = plan.partitioning is not None or any(g.partitions > 1 for g in plan.groups)
    return moves and written > 1 and (after.small or 0) > MAX_SMALL_SHARE * written


def predictions(plan: TablePlan) -> Mapping[str, float]:
    """Return the predicted touched by column, for columns with a prediction."""
    return {c.column: c.predicted for c in plan.columns if c.predicted is not None}
