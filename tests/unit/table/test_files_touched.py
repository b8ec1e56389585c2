"""The files that ranges touch: the pruner over the bounds of a `FileTable`."""

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.ranges import files_touched

from zlayout.table.state import FileTable

MakeFiles = Callable[..., FileTable]


def test_equality_and_range(make_files: MakeFiles) -> None:
    files = make_files({"c": ([1, 4, 7], [4, 6, 9]), "d": ([0, 0, 5], [9, 3, 9])})
    assert files_touched(files, {"c": (4, 4)}).tolist() == [True, True, False]
    assert files_touched(files, {"c": (5, None)}).tolist() == [False, True, True]
    assert files_touched(files, {"c": (None, 3)}).tolist() == [True, False, False]
    assert files_touched(files, {"c": (4, 8), "d": (4, 4)}).tolist() == [True, False, False]
    assert files_touched(files, {"c": (4, 8), "d": (9, 9)}).tolist() == [True, False, True]
    assert files_touched(files, {}).tolist() == [True] * 3


def test_missing_bounds_stay_and_all_null_goes(make_files: MakeFiles) -> None:
    files = make_files({"c": ([None, 1, None], [5, None, None])}, kind=pa.int32())
    files = replace(files, bounds={"c": replace(files.bounds["c"], null_count=np.array([0, 0, 10]))})
    assert files_touched(files, {"c": (9, 9)}).tolist() == [False, True, False]
    assert files_touched(files, {"c": (0, 0)}).tolist() == [True, False, False]


def test_nan_rules_nothing_out(make_files: MakeFiles) -> None:
    files = make_files({"c": ([math.nan, 0.0, 1.0], [2.0, math.nan, 2.0])})
    assert files_touched(files, {"c": (9.0, 9.0)}).tolist() == [False, True, False]
    assert files_touched(files, {"c": (-0.0, 0.0)}).tolist() == [True, True, False]
    assert files_touched(files, {"c": (math.nan, math.nan)}).tolist() == [True, True, True]


@pytest.mark.parametrize(
    ("kind", "values", "value"),
    [
        (pa.string(), ["z", "é", "漢"], "é"),
        (pa.decimal128(38, 0), [Decimal(10**30), Decimal(10**30 + 1), Decimal(10**30 + 2)], Decimal(10**30 + 1)),
        (pa.timestamp("us", "UTC"), [1, 2, 3], pa.scalar(2, pa.timestamp("us", "UTC"))),
    ],
)
def test_types_compare_as_they_are(make_files: MakeFiles, kind: pa.DataType, values: list[Any], value: Any) -> None:
    files = make_files({"c": (values, values)}, kind=kind)
    assert files_touched(files, {"c": (value, value)}).tolist() == [False, True, False]
    assert files_touched(files, {"c": (None, value)}).tolist() == [True, True, False]
