"""What a rewrite is expected to leave, on average and at best."""

import numpy as np
import pytest

from zlayout.planner.forecast import best_touched


def test_at_best_a_little_less_than_on_average_but_never_less_than_one_file() -> None:
    assert best_touched(np.array([[10.0, 20.0], [1.02, 1.0]])) == pytest.approx(np.array([[9.5, 19.0], [1.0, 1.0]]))


def test_one_column_has_no_luck() -> None:
    assert best_touched(np.array([[7.0]])).tolist() == [[7.0]]


def test_nothing_stays_nothing() -> None:
    assert best_touched(np.zeros((1, 2))).tolist() == [[0.0, 0.0]]
