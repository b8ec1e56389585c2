"""The floor of a column: values worked by hand, and no layout of any shape below it."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.table.metrics import floor_of_shares, min_floor


def test_a_unique_column_can_reach_one_file() -> None:
    assert floor_of_shares(np.full(1000, 0.001), 1 / 64) == pytest.approx(1.0)


def test_equally_frequent_values_fill_their_share_of_the_files() -> None:
    assert floor_of_shares(np.full(3, 1 / 3), 1 / 64) == pytest.approx(64 / 3)
    assert min_floor(np.array([3.0, np.inf, 0.0]), np.full(3, 1 / 64)).tolist() == pytest.approx([64 / 3, 1.0, 0.0])


def test_a_heavy_value_counts_by_its_share() -> None:
    # half of the rows are one value: half of the queries open 32 of 64 files, the others one
    assert floor_of_shares(np.array([0.5]), 1 / 64) == pytest.approx(0.5 * 32 + 0.5)
    # unless one file may be that large
    assert floor_of_shares(np.array([0.5]), 0.5) == pytest.approx(1.0)


@given(st.integers(2, 12), st.integers(1, 6), st.randoms(use_true_random=False))
def test_no_layout_of_as_many_files_touches_fewer(files: int, values: int, random: Random) -> None:
    rows = np.array([random.randrange(values) for _ in range(12 * files)])
    random.shuffle(place := list(np.arange(12 * files) % files))
    share = np.bincount(rows, minlength=values) / len(rows)
    lowest = floor_of_shares(share, 1 / files)
    for where in (np.array(place), np.argsort(np.argsort(rows, kind="stable")) // 12):
        opened = np.array([len(set(where[rows == value])) for value in range(values)])
        assert (share * opened).sum() >= lowest - 1e-9
    assert lowest >= min_floor(np.array([float(values)]), np.array([1 / files]))[0] - 1e-9
