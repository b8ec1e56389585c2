"""The distinct rows of codes, as numpy finds them along an axis."""

import numpy as np
import pytest

from zlayout.table.order import distinct_rows


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_as_numpy_finds_them(columns: int) -> None:
    random = np.random.default_rng(columns)
    for _ in range(40):
        count, values = int(random.integers(1, 60)), int(random.integers(1, 7))
        kinds = random.choice([np.int32, np.int64], columns)
        codes = [random.integers(-1, values, count).astype(kind) for kind in kinds]
        rows, which = distinct_rows(codes)
        expected, places = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(which, places.reshape(-1))


def test_no_rows() -> None:
    rows, which = distinct_rows([np.empty(0, np.int32), np.empty(0, np.int64)])
    assert rows.shape == (0, 2)
    assert len(which) == 0
