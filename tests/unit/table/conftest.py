"""File tables made from the values that each file holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from zlayout.table.state import ColumnBounds, FileTable, Partition

MakeFiles = Callable[..., FileTable]


def bounds_of(lower: Sequence[Any], upper: Sequence[Any], kind: pa.DataType | None = None) -> ColumnBounds:
    count = len(lower)
    return ColumnBounds(pa.array(lower, kind), pa.array(upper, kind), np.zeros(count, np.int64), np.zeros(count, bool))


def file_table(
    bounds: Mapping[str, ColumnBounds], rows: Sequence[int], partition: Sequence[int] | None = None
) -> FileTable:
    count = len(rows)
    owner = np.zeros(count, np.int32) if partition is None else np.asarray(partition, np.int32)
    none = np.full(count, -1, np.int32)
    return FileTable(
        path=pa.array([f"f{i}" for i in range(count)], pa.string()),
        version_key=pa.array([""] * count, pa.string()),
        rows=np.asarray(rows, np.int64),
        deleted=np.zeros(count, np.int64),
        shared_deletes=np.zeros(count, np.bool_),
        bytes=np.full(count, 100, np.int64),
        partition=owner,
        partitions=tuple(Partition(0, (), (i,)) for i in range(int(owner.max(initial=0)) + 1)),
        layout=none,
        layouts=(),
        group=none,
        bounds=bounds,
    )


@pytest.fixture
def make_files() -> MakeFiles:
    """(column -> (lower, upper)) of Python lists, rows (default 10 each), partition (default one) -> FileTable."""

    def make(
        columns: Mapping[str, tuple[Sequence[Any], Sequence[Any]]],
        rows: Sequence[int] | None = None,
        partition: Sequence[int] | None = None,
        kind: pa.DataType | None = None,
    ) -> FileTable:
        bounds = {name: bounds_of(lower, upper, kind) for name, (lower, upper) in columns.items()}
        count = len(next(iter(columns.values()))[0])
        return file_table(bounds, [10] * count if rows is None else rows, partition)

    return make
