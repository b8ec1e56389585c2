"""Shares of single files: they add up to touched, and a hull holds what lies inside it."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.metrics import column_metrics
from unit.planner.plans import File, state

from zlayout.table.metrics import NO_POINT, Reach, reach
from zlayout.table.state import ColumnBounds, FileTable


def measure(files: FileTable) -> Reach:
    return reach(files, "a")


def two_partitions() -> FileTable:
    random = np.random.default_rng(3)
    files = []
    for n in range(200):
        low = int(random.integers(0, 1000))
        files.append(File(low, low + int(random.integers(0, 300)), "east" if n % 3 else "west"))
    return state(*files).files


def test_shares_add_up_to_touched_in_each_partition() -> None:
    observed = two_partitions()
    found = measure(observed)
    expected = column_metrics(observed, "a").by_partition.touched
    assert np.bincount(observed.partition, found.share) == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 1.0])
def test_some_files_touch_what_they_would_without_the_others(share: float) -> None:
    observed = two_partitions()
    some = np.random.default_rng(4).random(len(observed)) < share
    alone = column_metrics(observed.take(np.flatnonzero(some)), "a").by_partition.touched
    found = measure(observed).touched_among(some, observed.rows_with_value("a"))
    assert found == pytest.approx(alone)


def test_a_hull_of_two_of_three_files_holds_two_thirds() -> None:
    observed = state(File(0, 9), File(10, 19), File(20, 29), partitioned=False).files
    found = measure(observed)
    zero = np.zeros(1, np.int64)
    share = found.between(zero, found.lo[1:2], found.hi[2:3])
    assert share == pytest.approx([2 / 3], abs=0.01)
    assert found.between(zero, found.hi[2:3], found.lo[1:2]) == [0.0]


def test_a_file_without_a_value_is_nowhere() -> None:
    observed = state(File(0, 9), File(0, 9), partitioned=False).files
    nothing = ColumnBounds(pa.array([0, None]), pa.array([9, None]), np.array([0, 100]), np.zeros(2, bool))
    found = measure(replace(observed, bounds={"a": nothing}))
    assert (found.lo[1], found.hi[1], found.share[1]) == (NO_POINT, NO_POINT, 0.0)
