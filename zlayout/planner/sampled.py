"""Forecast the result of a plan from a row group sample: the rewrite is simulated on the sampled rows.

The simulated files and the files that stay are measured together, by the code that measures tables (`layout_metrics`).
Predicted and measured metrics therefore have the same definition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.planner.bounds import written_columns
from zlayout.planner.drawing import columns_of_picture, most_interesting
from zlayout.planner.model import READS_MORE, ColumnForecast, FilesAfter, SampleFacts, TablePlan
from zlayout.planner.notes import reads_more, small_partition_files
from zlayout.planner.partitions import SMALL_BELOW, Bools, Index
from zlayout.planner.selection import Group, first_column_rank
from zlayout.planner.simulation import DRAWS, Rewrite, Simulation, errors_of, simulate, with_kept
from zlayout.planner.work import PlannedTable
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import layout_metrics, reach
from zlayout.table.partition import source_columns
from zlayout.table.samples import KeySample, RowGroups
from zlayout.table.state import ColumnBounds, FileTable, PartitionField, TableState

# The smallest error of a prediction, as a share of it, because the rewrite draws another sample. It is larger if only
# some row groups were read, because the jackknife does not show the influence of values that none of them contains.
MIN_ERROR, MIN_ERROR_OF_PART = 0.05, 0.15
# The same for engine native, which chooses the boundaries of ranges and the number of files in its own way.
MIN_ERROR_OF_NATIVE = 0.25
# The error of a prediction from one row group, as a share of it, because rows of one row group resemble each other.
ERROR_OF_ROW_GROUP = 0.8
# The error of the predicted number of new files, as a share of it.
FILES_ERROR = 0.1
# A partitioning is too fine if more than this share of the new files is below half of the target size.
MAX_SMALL_SHARE = 0.5


def files_to_sample(spec: LayoutSpec, state: TableState, groups: Sequence[Group]) -> Index:
    """Return the indices of the files to sample, int64: those of each group, ordered by the first z-order column."""
    group = _group_of(state, groups)
    chosen = np.flatnonzero(group >= 0)
    return chosen[np.lexsort((first_column_rank(spec, state.files, chosen), group[chosen]))]


def columns_to_sample(spec: LayoutSpec, fields: Sequence[PartitionField]) -> tuple[str, ...]:
    """Return the columns to sample: the z-order columns and the source columns of the partition fields."""
    return tuple(dict.fromkeys((*spec.column_names, *source_columns(fields))))


def columns_of_moves(state: TableState, fields: tuple[PartitionField, ...]) -> tuple[str, ...]:
    """Return the columns that determine the partitions of rows of files with another partitioning; () if none has.

    fields: The partitioning of new files.
    """
    moves = any(partition.fields != fields for partition in state.files.partitions)
    return source_columns(fields) if moves else ()


def with_sample(
    spec: LayoutSpec, state: TableState, fields: tuple[PartitionField, ...], decision: PlannedTable, sample: KeySample
) -> PlannedTable:
    """Return the decision with a forecast from the sample.

    Args:
        spec: The layout spec.
        state: The observed table.
        fields: The partitioning of new files.
        decision: The decision with the ranges that metadata allows.
        sample: Rows of the files to rewrite.
    """
    plan = decision.plan
    rewrite = rewrite_of(spec, state, decision, spec.column_names, fields, sample)
    weights = rewrite.weights
    draws = [simulate(rewrite, weights, draw, with_floor=draw == 0) for draw in range(DRAWS)]
    drawn = [np.array([getattr(draw, name) for draw in draws]) for name in ("touched", "bytes_read")]
    touched, read = (values.mean(axis=0) for values in drawn)
    errors = [values.std(axis=0) for values in drawn]
    if not sample.complete:
        errors = [np.maximum(*pair) for pair in zip(errors, errors_of(rewrite, weights), strict=True)]
    values = np.stack((touched, errors[0], draws[0].floor, read, errors[1]), axis=1).tolist()
    columns = tuple(_forecast(column, rewrite, *each) for column, each in zip(plan.columns, values, strict=True))
    row_groups = len(sample.footers)
    facts = SampleFacts(len(sample), sample.row_groups, sample.files, sample.bytes_read, sample.seed, row_groups)
    after = _files_after(plan, spec, draws[0])
    notes = (
        (small_partition_files(spec, after, len(np.unique(draws[0].new.partition))),) if _too_fine(after, plan) else ()
    )
    diagnostics = tuple(d for d in plan.diagnostics if d.code != READS_MORE)  # this one was from metadata alone
    diagnostics = (*diagnostics, *reads_more(spec, columns), *notes)
    forecast = replace(plan, columns=columns, sample=facts, files_after=after, diagnostics=diagnostics)
    return replace(decision, plan=forecast, after=_files_to_draw(spec, rewrite, draws[0]))


def _files_to_draw(spec: LayoutSpec, rewrite: Rewrite, found: Simulation) -> FileTable | None:
    """Return the files that the partition in a picture has after the rewrite; None if they are not all known."""
    files, group, drawn = rewrite.files, rewrite.group, found.drawn
    partition = most_interesting(files, group >= 0)
    unknown = np.isin(drawn.unknown, group[(files.partition == partition) & (group >= 0)]).any()
    is_new = drawn.partitions > len(files.partitions)
    if unknown or is_new or any(name not in files.bounds for name in columns_of_picture(spec)):
        return None
    if partition not in found.new.partition:
        return None
    after = with_kept(drawn, found.new)
    return after.take(np.flatnonzero(after.partition == partition))


def rewrite_of(
    spec: LayoutSpec,
    state: TableState,
    decision: PlannedTable,
    names: Sequence[str],
    fields: tuple[PartitionField, ...],
    sample: KeySample,
) -> Rewrite:
    """Return the input of a simulation.

    Args:
        spec: The layout spec.
        state: The observed table.
        decision: The decision with the groups to rewrite.
        names: The columns of the sample whose bounds are simulated: the z-order columns, then others.
        fields: The partitioning of new files.
        sample: Rows of the files to rewrite.
    """
    columns = written_columns(state, names, {p.name: p.after for p in decision.plan.properties})
    targets = np.array([g.target_files for g in decision.groups], np.int64)
    return Rewrite(spec.layout, state.files, _group_of(state, decision.groups), targets, columns, fields, sample)


def _group_of(state: TableState, groups: Sequence[Group]) -> Index:
    """Return the group of each file of the table, int64[N], -1 for files that stay."""
    if not groups:
        return np.full(len(state.files), -1, np.int64)
    paths = pa.concat_arrays([g.files.path for g in groups])
    owner = np.repeat(np.arange(len(groups)), [len(g.files) for g in groups])
    at = pc.index_in(state.files.path, paths.cast(state.files.path.type)).fill_null(-1)
    found = np.asarray(at.to_numpy(zero_copy_only=False), np.int64)
    return np.where(found >= 0, owner[found], -1)


def _forecast(
    column: ColumnForecast,
    rewrite: Rewrite,
    touched: float,
    touched_error: float,
    floor: float,
    read: float,
    read_error: float,
) -> ColumnForecast:
    """Values that are not finite are unknown. The errors are standard errors."""
    size, sample, min_error = column.bytes_read, rewrite.sample, min_error_of(rewrite)
    in_row_groups = _bytes_in_row_groups(rewrite.files, rewrite.group >= 0, sample.footers, column.column)
    size = replace(size, in_row_groups=min(in_row_groups, size.now))
    if np.isfinite(read):
        found, low, high = _around(read, read_error, size.low, size.high, min_error)
        size = replace(size, predicted=round(found), low=round(low), high=None if high is None else round(high))
    column = replace(column, bytes_read=size)
    if not np.isfinite(touched):
        return column
    predicted, low, high = _around(touched, touched_error, column.low, column.high, min_error)
    lowest = min(floor, predicted) if np.isfinite(floor) else None
    return replace(column, predicted=predicted, low=max(low, lowest or 0.0), high=high, floor=lowest)


def min_error_of(rewrite: Rewrite) -> float:
    """Return the smallest error of a prediction, as a share of it."""
    lowest, sample = MIN_ERROR_OF_NATIVE if rewrite.layout.engine == "native" else MIN_ERROR, rewrite.sample
    if sample.complete:
        return lowest
    not_sampled = 1 - min(len(sample) / max(float(rewrite.files.live_rows[rewrite.group >= 0].sum()), 1.0), 1.0)
    return max(lowest, MIN_ERROR_OF_PART, ERROR_OF_ROW_GROUP * math.sqrt(not_sampled / max(sample.row_groups, 1)))


def _around(
    value: float, error: float, low: float | None, high: float | None, min_error: float
) -> tuple[float, float, float | None]:
    """Return a prediction and its range of twice the standard error, within the range that metadata guarantees."""
    lowest, highest = float(low or 0.0), np.inf if high is None else float(high)
    predicted = float(np.clip(value, lowest, highest))
    half = max(2 * error if np.isfinite(error) else np.inf, min_error * predicted)
    up_to = min(predicted + half, highest)
    return predicted, max(predicted - half, lowest), up_to if np.isfinite(up_to) else None


def _files_after(plan: TablePlan, spec: LayoutSpec, found: Simulation) -> FilesAfter:
    size = found.new.bytes
    lowest, highest = (plan.files_after.low, plan.files_after.high) if plan.files_after else (None, None)
    kept = plan.files - sum(g.files for g in plan.groups)
    if spec.layout.engine == "native":  # the format decides the number of files
        return FilesAfter(None, lowest, highest)
    predicted = found.files if highest is None else min(found.files, highest)
    error = math.ceil(FILES_ERROR * (predicted - kept))
    return FilesAfter(
        predicted=predicted,
        low=max(predicted - error, lowest or 0),
        high=min(predicted + error, highest or predicted + error),
        median_bytes=int(np.median(size)) if len(size) else None,
        small=int((size < SMALL_BELOW * spec.layout.target_size).sum()),
    )


def _too_fine(after: FilesAfter, plan: TablePlan) -> bool:
    """Return whether rows change their partition and the new partitions are so small that most new files are small."""
    written = (after.predicted or 0) - plan.files + sum(g.files for g in plan.groups)
    moves = plan.partitioning is not None or any(g.partitions > 1 for g in plan.groups)
    return moves and written > 1 and (after.small or 0) > MAX_SMALL_SHARE * written


def predictions(plan: TablePlan) -> Mapping[str, float]:
    """Return the predicted touched by name of the column, for the columns that have a prediction."""
    return {c.column: c.predicted for c in plan.columns if c.predicted is not None}


def _bytes_in_row_groups(files: FileTable, sampled: Bools, groups: RowGroups, column: str) -> int:
    """Return the expected size of the row groups that a query for one value cannot skip, in the whole table."""
    # The row groups of sampled files, whose footers are known, are measured as if they were files. The ratio to the
    # bytes read of these files is applied to all files that the sample represents. Other files count as a whole.
    footers = (files.take(np.unique(groups.file)), _as_files(files, groups, column))
    whole, parts = (layout_metrics(table, [column])[0].bytes_read for table in footers)
    share = min(parts / whole, 1.0) if whole else 1.0
    size = reach(files, column).share * files.bytes
    return round(float(size[~sampled].sum() + share * size[sampled].sum()))


def _as_files(files: FileTable, groups: RowGroups, column: str) -> FileTable:
    """Return row groups as files. A row group without bounds in the footer gets the bounds of its file."""
    owner = files.take(groups.file)
    per_file = np.bincount(groups.file, groups.bytes)[groups.file]
    size = np.divide(groups.bytes, per_file, out=np.ones(len(groups)), where=per_file > 0) * owner.bytes
    deleted = np.divide(owner.deleted, owner.rows, out=np.zeros(len(groups)), where=owner.rows > 0) * groups.rows
    own, outer = groups.bounds[column], owner.bounds[column]
    bounds = ColumnBounds(
        pc.coalesce(own.lower, outer.lower), pc.coalesce(own.upper, outer.upper), own.null_count, outer.truncated
    )
    return replace(
        owner,
        rows=groups.rows,
        deleted=np.rint(deleted).astype(np.int64),
        bytes=np.rint(size).astype(np.int64),
        bounds={column: bounds},
    )
