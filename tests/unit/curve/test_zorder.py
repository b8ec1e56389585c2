import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.curve.zorder import deinterleave, interleave, round_robin, width_that_fits


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def grid(side: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.divmod(np.arange(side * side, dtype=np.int64), side)
    return x, y


def test_the_worked_value() -> None:
    position = interleave([ints(214), ints(97)], [8, 8], round_robin([8, 8]))
    assert position.tolist() == [46633]
    assert position.tolist() == [0b1011011000101001]


def files_touched(file: np.ndarray) -> int:
    """Files of the 8x8 grid that hold a point with x = 2 or y = 2."""
    x, y = grid(8)
    return len(set(file[(x == 2) | (y == 2)].tolist()))


def test_x_is_2_or_y_is_2_touches_nine_linear_files_and_seven_in_z_order() -> None:
    x, y = grid(8)
    linear = interleave([x, y], [3, 3], (0, 0, 0, 1, 1, 1))
    z = interleave([x, y], [3, 3], round_robin([3, 3]))
    assert files_touched(linear // 4) == 9
    assert files_touched(z // 4) == 7


@given(st.data(), st.lists(st.integers(1, 15), min_size=1, max_size=4))
def test_a_position_has_the_bits_in_turn(data: st.DataObject, widths: list[int]) -> None:
    values = [data.draw(st.integers(0, 2**w - 1)) for w in widths]
    strings = [format(v, f"0{w}b") for v, w in zip(values, widths, strict=True)]
    # by hand: with equal weights the column that has given the fewest bits is next, the first of equals
    bits = "".join(s[turn] for turn in range(max(widths)) for s in strings if turn < len(s))
    assert interleave([ints(v) for v in values], widths, round_robin(widths)).tolist() == [int(bits, 2)]


@given(st.lists(st.integers(1, 15), min_size=1, max_size=4), st.integers(0, 2**63 - 1))
def test_deinterleave_is_the_inverse(widths: list[int], seed: int) -> None:
    schedule = round_robin(widths)
    positions = np.random.default_rng(seed).integers(0, 2 ** sum(widths), 50)
    assert (interleave(deinterleave(positions, widths, schedule), widths, schedule) == positions).all()


def test_a_weight_of_four_is_two_bits_ahead() -> None:
    assert round_robin([3, 3], [1.0, 4.0]) == (1, 1, 0, 1, 0, 0)


def test_more_than_63_bits_do_not_fit_a_long() -> None:
    with pytest.raises(ValueError, match="expected at most 63 bits, found 64"):
        interleave([ints(1), ints(1)], [32, 32], round_robin([32, 32]))


def test_many_columns_get_fewer_bits() -> None:
    assert [width_that_fits(d, 10) for d in (2, 6, 7, 63)] == [10, 10, 9, 1]
