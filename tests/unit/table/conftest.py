"""File tables made from the values that each file holds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from support.builders import make_bounds, make_file_table

from zlayout.table.state import FileTable

MakeFiles = Callable[..., FileTable]


@pytest.fixture
def make_files() -> MakeFiles:
    """(column -> (lower, upper)) of Python lists, rows (default 10 each), partition (default one) -> FileTable."""

    def make(
        columns: Mapping[str, tuple[Sequence[Any], Sequence[Any]]],
        rows: Sequence[int] | None = None,
        partition: Sequence[int] | None = None,
        kind: pa.DataType | None = None,
    ) -> FileTable:
        bounds = {name: make_bounds(lower, upper, kind) for name, (lower, upper) in columns.items()}
        count = len(next(iter(columns.values()))[0])
        return make_file_table([10] * count if rows is None else rows, partition=partition, bounds=bounds)

    return make
