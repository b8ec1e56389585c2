"""The joint optimum: powers worked by hand, weights, exhausted columns, heavy values, and boxes that reach it."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.table.metrics import joint_optimum


@pytest.mark.parametrize(("files", "columns", "each"), [(100, 1, 1), (100, 2, 10), (1000, 3, 100), (10**4, 4, 1000)])
def test_equal_weights(files: int, columns: int, each: float) -> None:
    assert joint_optimum(files, [1.0] * columns) == pytest.approx([each] * columns)


def test_no_file_and_one_file() -> None:
    assert joint_optimum(0, [1, 1]).tolist() == [0.0, 0.0]
    assert joint_optimum(1, [1, 3]).tolist() == [1.0, 1.0]


def test_weights_move_bits() -> None:
    # log2(256)/2 = 4 bits each; log2(4) = 2 less the mean 1 moves one bit: 5 and 3.
    assert joint_optimum(256, [4, 1]) == pytest.approx([8.0, 32.0])
    # Far apart: the second column is held at 0 bits, the first takes all 4.
    assert joint_optimum(16, [2.0**20, 1]) == pytest.approx([1.0, 16.0])


def test_used_up_column_gives_its_bits_away() -> None:
    assert joint_optimum(64, [1, 1], [4, np.inf]) == pytest.approx([16.0, 4.0])
    assert joint_optimum(64, [1, 1, 1], [2, np.inf, 2]) == pytest.approx([32.0, 4.0, 32.0])
    assert joint_optimum(64, [1, 1], [2, 4]) == pytest.approx([32.0, 16.0])  # eight segments for 64 files
    assert joint_optimum(64, [1, 1], [1, 1]) == pytest.approx([64.0, 64.0])


def test_many_partitions_at_once() -> None:
    got = joint_optimum(np.array([16, 4, 64]), [1, 1], [[np.inf, np.inf], [np.inf, np.inf], [4, np.inf]])
    assert got == pytest.approx(np.array([[4, 4], [2, 2], [16, 4]]))


def test_weight_that_is_not_positive() -> None:
    with pytest.raises(ValueError, match="expected positive weights"):
        joint_optimum(4, [1, 0])


@given(st.data(), st.integers(1, 4), st.integers(1, 10**6))
def test_product_of_touched_and_bits_by_bisection(data: st.DataObject, columns: int, files: int) -> None:
    weights = data.draw(st.lists(st.floats(0.05, 20), min_size=columns, max_size=columns))
    distinct = data.draw(st.lists(st.integers(1, 10**7), min_size=columns, max_size=columns))
    got = joint_optimum(files, weights, distinct)
    total, most = np.log2(files), np.minimum(np.log2(distinct), np.log2(files))
    low, high = -100.0, 100.0
    for _ in range(200):
        level = (low + high) / 2
        too_few = np.clip(level + np.log2(weights), 0, most).sum() < min(total, most.sum())
        low, high = (level, high) if too_few else (low, level)
    assert got == pytest.approx(files / np.exp2(np.clip(high + np.log2(weights), 0, most)), rel=1e-6)
    assert np.log2(got).sum() >= (columns - 1) * total - 1e-6
    assert (got >= files / np.array(distinct) - 1e-6).all()


def test_a_grid_of_boxes_reaches_it() -> None:
    slices = (8, 4, 2)
    boxes = list(product(*(range(n) for n in slices)))
    touched = [sum(1 for b in boxes if b[axis] == 0) for axis in range(3)]
    # weights 2^b with b = 3, 2, 1 bits wanted: mean 2, log2(64)/3 = 2.
    assert joint_optimum(len(boxes), [8, 4, 2]) == pytest.approx(touched)
