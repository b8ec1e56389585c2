"""Measures the baselines of groups from the bounds of their files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zlayout.table.baseline import Baseline
from zlayout.table.metrics import rows_with_value
from zlayout.table.reach import reach
from zlayout.table.state import FileTable, Int32
from zlayout.table.sums import counts, sums


def measure_baselines(files: FileTable, columns: Sequence[str], group: Int32, count: int) -> tuple[Baseline, ...]:
    """Measure each of `count` groups on its own.

    Args:
        files: N files with the bounds of the columns.
        columns: The z-order columns in the order of the layout.
        group: int32[N], the group of each file, below `count`.
        count: The number of groups.
    """
    if not count:
        return ()
    number = counts(group, count)
    touched = np.empty((count, len(columns)))
    for at, column in enumerate(columns):
        measured = reach(files, column, rows_with_value(files, column), group, count)
        touched[:, at] = sums(group, count, measured.share)
    return tuple(Baseline(n, tuple(row)) for n, row in zip(number.tolist(), touched.tolist(), strict=True))
