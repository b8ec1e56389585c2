"""Water filling: bits that add up to a total, within caps, at one level."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.table.metrics import fill

COLUMNS = st.lists(st.tuples(st.floats(-10, 3), st.floats(0, 10)), min_size=1, max_size=5)


def filled(importance: list[float], caps: list[float], total: float) -> list[float]:
    found: list[float] = fill(np.array([total]), np.array(importance), np.array([caps]))[0].tolist()
    return found


@given(COLUMNS, st.floats(0.1, 20))
def test_bits_add_up_and_stay_within_their_caps(columns: list[tuple[float, float]], total: float) -> None:
    importance, caps = [c for c, _ in columns], [c for _, c in columns]
    bits = filled(importance, caps, total)
    assert sum(bits) == pytest.approx(min(total, sum(caps)), abs=1e-6)
    free = {round(b - i, 5) for b, i, cap in zip(bits, importance, caps, strict=True) if 1e-6 < b < cap - 1e-6}
    assert max(free, default=0) - min(free, default=0) < 1e-3


def test_bits_follow_the_formula() -> None:
    # log2(64)/2 + log2(p_i) - mean log2(p_j), with weights 4 and 1
    assert filled([2.0, 0.0], [20.0, 20.0], 6.0) == [4.0, 2.0]
    assert filled([2.0, 0.0], [3.0, 20.0], 6.0) == [3.0, 3.0]


@given(st.lists(st.tuples(st.floats(0, 12), st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=6))
def test_rows_are_filled_independently(rows: list[tuple[float, float, float]]) -> None:
    total, caps = np.array([r[0] for r in rows]), np.array([r[1:] for r in rows])
    together = fill(total, np.array([1.0, -0.5]), caps)
    assert together.tolist() == [filled([1.0, -0.5], list(r[1:]), r[0]) for r in rows]
