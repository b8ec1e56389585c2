import numpy as np
import pytest

from zlayout.curve.zorder import hilbert, hilbert_inverse


@pytest.mark.parametrize(("columns", "bits"), [(1, 6), (2, 1), (2, 6), (3, 4), (4, 3), (5, 2), (6, 2)])
def test_each_step_changes_one_coordinate_by_one_and_all_points_are_visited(columns: int, bits: int) -> None:
    points = np.stack(hilbert_inverse(np.arange(2 ** (columns * bits), dtype=np.int64), columns, bits))
    steps = np.abs(np.diff(points, axis=1))
    assert (steps.sum(axis=0) == 1).all()
    assert np.unique(points, axis=1).shape[1] == 2 ** (columns * bits)
    assert points.min() == 0
    assert points.max() == 2**bits - 1


@pytest.mark.parametrize(("columns", "bits"), [(1, 60), (2, 31), (3, 21), (5, 12), (7, 9)])
def test_inverse(columns: int, bits: int) -> None:
    coordinates = np.random.default_rng(7).integers(0, 2**bits, (columns, 200))
    positions = hilbert(list(coordinates), bits)
    assert (np.stack(hilbert_inverse(positions, columns, bits)) == coordinates).all()


def test_the_first_order_curve_in_the_plane_is_a_u() -> None:
    x, y = hilbert_inverse(np.arange(4, dtype=np.int64), 2, 1)
    assert list(zip(x.tolist(), y.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1), (1, 0)]


def test_the_input_is_not_changed() -> None:
    coordinates = [np.array([5, 6], np.int64), np.array([1, 2], np.int64)]
    hilbert(coordinates, 3)
    assert [c.tolist() for c in coordinates] == [[5, 6], [1, 2]]
