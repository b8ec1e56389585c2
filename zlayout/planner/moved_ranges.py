"""The ranges that metadata allows for touched and the number of files after rows move to other partitions."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, prod

import pyarrow as pa
import pyarrow.compute as pc

from zlayout.planner.forecasts import FilesAfter, TouchedRange
from zlayout.planner.proposal import Candidate
from zlayout.planner.ranges import has_values
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import ColumnBounds, PartitionField, TableState
from zlayout.table.transforms import transformed


def moved_ranges(
    spec: LayoutSpec, state: TableState, fields: Sequence[PartitionField], chosen: Sequence[Candidate]
) -> tuple[tuple[TouchedRange, ...], FilesAfter]:
    """Return the ranges of touched and of the number of files after a rewrite.

    Args:
        spec: The layout spec.
        state: The observed table.
        fields: The partitioning of new files.
        chosen: The groups to rewrite.
    """
    kept = len(state.files) - sum(c.action.files for c in chosen)
    rows = sum(c.action.rows for c in chosen)
    partitions = max_partitions(state, fields)
    partitions = min(partitions, rows) if isfinite(partitions) else partitions
    low = kept + int(rows > 0)
    # The files of a group are divided among its partitions. The number in each partition is rounded, and is at least 1.
    high = kept + sum(c.action.target_files for c in chosen) + len(chosen) * partitions
    files = FilesAfter(None, low, int(high) if isfinite(high) else None)
    limit, count = None if files.high is None else float(files.high), max(len(state.files.partitions), 1)
    # A value is in at least one file, and at most in all files.
    lows = {name: float(has_values(state.files, name, count).any()) for name in spec.column_names}
    return tuple(TouchedRange(name, None, low, limit, None) for name, low in lows.items()), files


def max_partitions(state: TableState, fields: Sequence[PartitionField]) -> float:
    """Return an upper limit of the number of partitions of the table's rows by `fields`; infinity if there is none."""
    return prod(_max_values(state.files.bounds.get(field.source), field) for field in fields)


def _max_values(bounds: ColumnBounds | None, field: PartitionField) -> float:
    """Return an upper limit of the number of values of a partition field, including null; infinity if there is none."""
    name, _, argument = field.transform.partition("[")
    if name == "void":
        return 1
    if name == "bucket":
        return int(argument.rstrip("]")) + 1
    if bounds is None or bounds.lower.null_count or bounds.upper.null_count or not len(bounds.lower):
        return inf
    ends = pa.array([pc.min(bounds.lower), pc.max(bounds.upper)], bounds.lower.type)
    if name == "truncate" and pa.types.is_integer(ends.type):
        return _steps(transformed(ends, field.transform)) / int(argument.rstrip("]")) + 2
    if name in ("year", "month", "day", "hour"):
        return _steps(transformed(ends, field.transform)) + 2
    if name == "identity" and (pa.types.is_integer(ends.type) or pa.types.is_date32(ends.type)):
        return _steps(ends if pa.types.is_integer(ends.type) else ends.cast(pa.int32())) + 2
    if name == "identity" and pa.types.is_boolean(ends.type):
        return 3
    return inf


def _steps(ends: pa.Array) -> float:
    low, high = ends.to_pylist()
    return float(high - low)
