"""The files that the rows of moved groups become in the partitions of the declared partitioning.

Their number is the highest that the rewrite can write, and their touched that which theory expects of it. How the
values are divided among them is not known, so that a column has the bounds of the whole group in as many files as a
query for one value is expected to open, and no value in the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.planner.forecast import DECIMALS, ideal_touched
from zlayout.planner.partitions import Floats, Index
from zlayout.planner.selection import SelectedFiles
from zlayout.spec.model import LayoutSpec
from zlayout.table.baseline import Baseline
from zlayout.table.state import ColumnBounds, FileTable, LayoutRecord


def arriving_files(
    spec: LayoutSpec, files: FileTable, moved: Sequence[SelectedFiles], group: Index, partition: Index, share: Floats
) -> tuple[FileTable, Index]:
    """Return the laid-out files of A pairs of a group and a partition.

    Args:
        moved: G groups of files.
        group: int64[A], the number of the group of each pair.
        partition: int64[A], the partition of each pair.
        share: float64[G], the share of its rows that a group has in each of its partitions.

    Returns:
        The files, each pair with at least one, and int64[N], the number of the group of each of them.
    """
    parts = files.split([g.files for g in moved])
    stored = np.array([part.rows.sum() for part in parts], np.int64)
    live = np.array([part.live_rows.sum() for part in parts], np.int64)
    size = np.array([(part.bytes * (part.live_rows / np.maximum(part.rows, 1))).sum() for part in parts])
    # A rewrite rounds the number of files of the whole group, multiplies it with the share of a partition, and rounds
    # again. Other files may be rewritten along in the group, and the share is an estimate.
    whole, part = size[group] / spec.layout.target_size, share[group]
    number = np.maximum(np.where(part < 1.0, np.ceil((whole + 0.5) * part), np.rint(whole)), 1).astype(np.int64)
    touched = np.maximum(ideal_touched(number, spec.layout, np.full((len(group), len(spec.column_names)), np.inf)), 1.0)
    pair = np.repeat(np.arange(len(group)), number)
    place = np.arange(len(pair)) - (np.cumsum(number) - number)[pair]
    owner, part_of_group = group[pair], share[group[pair]] / number[pair]
    rows = np.maximum(np.round(live[owner] * part_of_group), 1).astype(np.int64)
    layouts = files.layouts
    ids = [record.layout_id for record in layouts]
    if spec.layout.layout_id not in ids:
        layouts, ids = (*layouts, LayoutRecord(spec.layout.layout_id)), [*ids, spec.layout.layout_id]
    bounds = {}
    for name, of_files in files.bounds.items():
        hull = hull_of(of_files, moved)
        nulls = np.where(hull.null_count < 0, -1, hull.null_count / np.maximum(stored, 1))[owner]
        hull = hull.gathered(lambda side: side.take(pa.array(owner)), lambda column: column[owner])
        hull = replace(hull, null_count=np.where(nulls < 0, -1, np.round(nulls * rows)).astype(np.int64))
        if name in spec.column_names:
            empty = place >= np.ceil(touched[pair, spec.column_names.index(name)].round(DECIMALS))
            none, mask = pa.scalar(None, hull.lower.type), pa.array(empty)
            lower, upper = (pc.if_else(mask, none, side) for side in (hull.lower, hull.upper))
            hull = replace(hull, lower=lower, upper=upper, null_count=np.where(empty, rows, hull.null_count))
        bounds[name] = hull
    first = int(files.group.max(initial=-1)) + 1
    arriving = FileTable(
        path=pa.array([f"\0{n}" for n in range(len(pair))], pa.string()),
        version_key=pa.array([""] * len(pair), pa.string()),
        rows=rows,
        deleted=np.zeros(len(pair), np.int64),
        shared_deletes=np.zeros(len(pair), np.bool_),
        bytes=np.maximum(np.round(size[owner] * part_of_group), 1).astype(np.int64),
        partition=partition[pair].astype(np.int32),
        partitions=files.partitions,
        layout=np.full(len(pair), ids.index(spec.layout.layout_id), np.int32),
        layouts=layouts,
        group=(first + pair).astype(np.int32),
        bounds=bounds,
        baselines={
            first + n: Baseline(count, tuple(expected))
            for n, (count, expected) in enumerate(zip(number.tolist(), touched.tolist(), strict=True))
        },
    )
    return arriving, owner


def hull_of(bounds: ColumnBounds, groups: Sequence[SelectedFiles]) -> ColumnBounds:
    """Return the bounds of each group as of one file. A bound is missing if that of a file with values is missing."""
    low, high, nulls = [], [], np.empty(len(groups), np.int64)
    for number, group in enumerate(groups):
        index = pa.array(group.files)
        lower, upper, count = bounds.lower.take(index), bounds.upper.take(index), bounds.null_count[group.files]
        low.append(pc.min_max(lower)["min"] if lower.null_count == 0 else None)
        high.append(pc.min_max(upper)["max"] if upper.null_count == 0 else None)
        nulls[number] = count.sum() if (count >= 0).all() else -1
    kind = bounds.lower.type
    return ColumnBounds(pa.array(low, kind), pa.array(high, kind), nulls, np.zeros(len(groups), bool))
