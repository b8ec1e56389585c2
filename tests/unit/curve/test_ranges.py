import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zlayout.curve.tree import range_boundaries, scale, snap_cuts, to_range_ids


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_few_distinct_values_get_one_range_each_nulls_too() -> None:
    ordinals = ints(-1, 0, 0, 0, 2, 1)
    assert range_boundaries(ordinals, 4).tolist() == [0, 1, 2]
    assert to_range_ids(ordinals, range_boundaries(ordinals, 4)).tolist() == [0, 1, 1, 1, 3, 2]


def test_even_quantiles() -> None:
    assert range_boundaries(np.arange(100, dtype=np.int64), 4).tolist() == [25, 50, 75]


def test_a_heavy_value_gets_a_range_of_its_own() -> None:
    ordinals = np.concatenate((np.arange(10), np.full(80, 10), np.arange(11, 21))).astype(np.int64)
    # wanted cuts at rows 20, 40, 60, 80: the heavy value begins at row 10 and ends at row 90
    assert range_boundaries(ordinals, 5).tolist() == [10, 11]


def test_a_cut_goes_to_the_nearest_start_the_lower_of_two() -> None:
    # wanted: row 5 of 10; runs begin at 0, 4, 6
    assert snap_cuts(ints(0, 4, 6), 10, 2).tolist() == [0, 1]
    assert snap_cuts(ints(0, 3, 6), 10, 2).tolist() == [0, 2]


@given(st.lists(st.integers(-1, 30), min_size=1, max_size=200), st.integers(1, 12))
def test_range_ids_keep_order_and_number(values: list[int], range_ids: int) -> None:
    ordinals = ints(*values)
    boundaries = range_boundaries(ordinals, range_ids)
    ids = to_range_ids(ordinals, boundaries)
    assert set(ids.tolist()) == set(range(len(boundaries) + 1))
    assert len(boundaries) < range_ids
    assert all(sum(b <= v for b in boundaries.tolist()) == i for v, i in zip(values, ids.tolist(), strict=True))
    if len(set(values)) <= range_ids:
        assert len(boundaries) + 1 == len(set(values))


def test_seven_ids_use_the_highest_bits() -> None:
    assert (scale(np.arange(7, dtype=np.int64), 7, 10) >> 7).tolist() == [0, 1, 2, 3, 4, 5, 6]


@given(st.integers(1, 2000), st.integers(1, 31))
def test_scaling_keeps_order_and_fits(count: int, width: int) -> None:
    scaled = scale(np.arange(count, dtype=np.int64), count, width)
    assert scaled[0] == 0
    assert scaled[-1] < 2**width
    assert (np.diff(scaled) >= (1 if count <= 2**width else 0)).all()


def test_a_cut_goes_to_the_nearest_start() -> None:
    # wanted at 10, 20 and 30 of 40 rows: 4 is nearer to 10 than 21, 21 to 20, 22 to 30 than 39
    assert snap_cuts(ints(0, 4, 21, 22, 39), 40, 4).tolist() == [0, 1, 2, 3]
