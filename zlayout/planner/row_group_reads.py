"""Estimate how much a query for one value reads if it skips row groups inside the files that it opens.

Row groups are measured as if they were files, by the same code (`layout_metrics`). Only the footers of sampled files
are known. The ratio of the two measures of these files applies to all files that the sample represents. Other files
count whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from zlayout.planner.partitions import Bools
from zlayout.table.key_sample import RowGroups
from zlayout.table.metrics import layout_metrics, rows_with_value
from zlayout.table.reach import reach
from zlayout.table.state import ColumnBounds, FileTable


def bytes_in_row_groups(files: FileTable, sampled: Bools, groups: RowGroups, column: str) -> int:
    """Return the expected bytes of the row groups that a query for one value cannot skip, in the whole table.

    Args:
        files: The N files of the table.
        sampled: bool[N], the files that the sample represents.
        groups: The row groups of some of these files.
        column: A z-order column.
    """
    opened = reach(files, column, rows_with_value(files, column), files.partition, max(len(files.partitions), 1))
    size = opened.share * files.bytes
    return round(float(size[~sampled].sum() + _share_read(files, groups, column) * size[sampled].sum()))


def _share_read(files: FileTable, groups: RowGroups, column: str) -> float:
    """Return the share of the bytes of opened files that is in row groups that cannot be skipped."""
    whole, parts = (
        layout_metrics(table, [column])[0].bytes_read
        for table in (files.take(np.unique(groups.file)), _as_files(files, groups, column))
    )
    return min(parts / whole, 1.0) if whole else 1.0


def _as_files(files: FileTable, groups: RowGroups, column: str) -> FileTable:
    """Return row groups as files, with the bounds of their files where a footer has none."""
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
