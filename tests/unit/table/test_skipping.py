"""files_touched, and the two histograms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlayout.table.histogram import depth_histogram, size_histogram
from zlayout.table.metrics import files_touched
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


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 500), max_size=60))
def test_depth_histogram_counts_every_file_once(depths: list[int]) -> None:
    buckets = depth_histogram(np.array(depths, np.int64))
    assert [b.label for b in buckets[:18]] == [str(i) for i in range(1, 17)] + [b.label for b in buckets[16:18]]
    for b in buckets:
        assert b.files == sum(b.low <= d <= b.high for d in depths)
    assert sum(b.files for b in buckets) == sum(d > 0 for d in depths)


def test_depth_histogram_doubles() -> None:
    labels = [b.label for b in depth_histogram(np.array([16, 17, 32, 33, 65]))]
    assert labels[15:] == ["16", "17-32", "33-64", "65-128"]


def test_size_histogram() -> None:
    got = size_histogram(np.array([0, 6, 7, 50, 100, 101, 201], np.int64), 100)
    assert [(b.label, b.files, b.bytes) for b in got] == [
        ("<= 1/16", 2, 6),
        ("<= 1/8", 1, 7),
        ("<= 1/4", 0, 0),
        ("<= 1/2", 1, 50),
        ("<= 1", 1, 100),
        ("<= 2", 1, 101),
        ("> 2", 1, 201),
    ]


def test_size_histogram_of_many_files_alike() -> None:
    got = size_histogram(np.array([40, 150], np.int64), 100, np.array([3, 2**40], np.int64))
    assert [(b.label, b.files, b.bytes) for b in got if b.files] == [("<= 1/2", 3, 120), ("<= 2", 2**40, 150 * 2**40)]
