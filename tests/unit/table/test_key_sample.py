"""How far the shares of a sample of row groups may be from those of the table."""

import numpy as np
import pytest

from zlayout.table.samples import errors_of_shares


def test_the_error_of_a_share_is_that_of_drawing_row_groups() -> None:
    groups, weights = np.array([0, 0, 1, 1]), np.ones(4)
    # By hand: each value has 2 and 0 of the 2 rows of a row group, so that it is 1 row above or below its share of a
    # half: sqrt((1 + 1) * 2 / (2 - 1)) / 4.
    assert errors_of_shares(np.array([0, 0, 1, 1]), weights, groups) == pytest.approx([0.5, 0.5])
    assert errors_of_shares(np.array([0, 1, 0, 1]), weights, groups) == pytest.approx([0, 0])
    # A row of the second row group represents three rows: shares of 1/4 and 3/4, and 1.5 rows above or below them.
    heavier = np.array([1.0, 1.0, 3.0, 3.0])
    assert errors_of_shares(np.array([0, 0, 1, 1]), heavier, groups) == pytest.approx([0.375, 0.375])


def test_one_row_group_shows_no_error() -> None:
    assert np.isinf(errors_of_shares(np.array([0, 1]), np.ones(2), np.array([7, 7]))).all()
