"""Which files a concrete query must open, by the same reasoning over bounds that the engines use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from zlayout.table.state import ColumnBounds, FileTable, Int64

Range = tuple[Any, Any]


def files_touched(files: FileTable, conditions: Mapping[str, Range]) -> NDArray[np.bool_]:
    """bool[N]: the files that `low <= column <= high` for every column in `conditions` cannot rule out.

    A range is a pair of Python values or Arrow scalars, both included; equality is (v, v), None leaves a side open.
    A file with no bound on a side stays; one that is null in every row goes. Raises KeyError for a column whose
    bounds were not read.
    """
    touched = np.ones(len(files), bool)
    for column, (low, high) in conditions.items():
        bounds = files.bounds[column]
        touched &= ~_holds_no_value(bounds, files.rows)
        touched &= _may_hold(bounds.upper, low, pc.greater_equal) & _may_hold(bounds.lower, high, pc.less_equal)
    return touched


def _holds_no_value(bounds: ColumnBounds, rows: Int64) -> NDArray[np.bool_]:
    bound = pc.and_(bounds.lower.is_valid(), bounds.upper.is_valid()).to_numpy(zero_copy_only=False)
    nothing: NDArray[np.bool_] = (bounds.null_count >= rows) & ~bound
    return nothing


def _may_hold(bound: pa.Array, value: Any, compare: Any) -> NDArray[np.bool_]:
    """Where there is no bound, or NaN stands on either side, a file cannot be ruled out."""
    if value is None or value != value:
        return np.ones(len(bound), bool)
    scalar = value.cast(bound.type) if isinstance(value, pa.Scalar) else pa.scalar(value, bound.type)
    holds = compare(bound, scalar)
    if pt.is_floating(bound.type):
        holds = pc.or_(holds, pc.is_nan(bound))
    return np.asarray(pc.fill_null(holds, True).to_numpy(zero_copy_only=False), bool)
