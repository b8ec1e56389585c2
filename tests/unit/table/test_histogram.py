"""The histograms of depth and file size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zlayout.table.metrics import depth_histogram, size_histogram


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
