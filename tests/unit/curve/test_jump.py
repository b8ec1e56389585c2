import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlayout.curve.zorder import NONE, count_files, is_relevant, meets_box, next_jump_in, round_robin


def test_the_worked_value() -> None:
    assert next_jump_in(11, 37, 16) == 33


def test_the_box_of_the_worked_value_position_by_position() -> None:
    # columns 3..4 and 1..3; 3 = 011 and 1 = 001 interleave to 001011 = 11, 4 = 100 and 3 = 011 to 100101 = 37
    box = [11, 14, 15, 33, 36, 37]
    assert np.flatnonzero(is_relevant(11, 37, np.arange(64))).tolist() == box
    entries = next_jump_in(11, 37, np.arange(64)).tolist()
    assert entries == [next((b for b in box if b > z), NONE) for z in range(64)]


def compose(point: list[int], widths: list[int], schedule: tuple[int, ...]) -> int:
    """The position of a point, bit by bit as text."""
    digits = [list(format(v, f"0{w}b")) for v, w in zip(point, widths, strict=True)]
    return int("".join(digits[column].pop(0) for column in schedule), 2)


def decompose(position: int, columns: int, schedule: tuple[int, ...]) -> list[int]:
    text = [""] * columns
    for digit, column in zip(format(position, f"0{len(schedule)}b"), schedule, strict=True):
        text[column] += digit
    return [int(t, 2) for t in text]


@st.composite
def boxes(draw: st.DrawFn, most: int) -> tuple[list[int], tuple[int, ...], list[int], list[int]]:
    """Widths, schedule, lowest and highest corner."""
    widths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5).filter(lambda w: sum(w) <= most))
    schedule = tuple(draw(st.permutations([c for c, w in enumerate(widths) for _ in range(w)])))
    corners = [sorted(draw(st.tuples(*[st.integers(0, 2**w - 1)] * 2))) for w in widths]
    return widths, schedule, [c[0] for c in corners], [c[1] for c in corners]


@given(boxes(most=9))
@settings(max_examples=60)
def test_every_position_agrees_with_brute_force(drawn: tuple) -> None:
    widths, schedule, low, high = drawn
    zmin, zmax = compose(low, widths, schedule), compose(high, widths, schedule)
    every = range(2 ** len(schedule))
    points = [decompose(z, len(widths), schedule) for z in every]
    box = [z for z in every if all(a <= v <= b for a, v, b in zip(low, points[z], high, strict=True))]
    assert np.flatnonzero(is_relevant(zmin, zmax, np.array(every), schedule)).tolist() == box
    entries = next_jump_in(zmin, zmax, np.array(every), schedule)
    assert entries.dtype == np.int64
    assert entries.tolist() == [min((b for b in box if b > z), default=NONE) for z in every]


@given(boxes(most=8), st.lists(st.integers(0, 255), min_size=1, max_size=20))
@settings(max_examples=60)
def test_files_that_meet_the_box_are_those_with_a_position_in_it(drawn: tuple, cuts: list[int]) -> None:
    widths, schedule, low, high = drawn
    total = 2 ** len(schedule)
    edges = sorted({0, total, *(c % total for c in cuts)})
    first, last = np.array(edges[:-1]), np.array(edges[1:]) - 1
    zmin, zmax = compose(low, widths, schedule), compose(high, widths, schedule)
    points = [decompose(z, len(widths), schedule) for z in range(total)]
    inside = [all(a <= v <= b for a, v, b in zip(low, p, high, strict=True)) for p in points]
    expected = [any(inside[a : b + 1]) for a, b in zip(first, last, strict=True)]
    assert meets_box(first, last, zmin, zmax, schedule).tolist() == expected
    assert count_files(first, last, zmin, zmax, schedule) == sum(expected)


def test_positions_of_120_bits_jump_like_short_ones() -> None:
    # the worked value 60 bits further up: an even shift keeps the columns apart, and the zeros below are in the box
    shift = 60
    z = np.array([16 << shift, (37 << shift) + 1], dtype=object)
    schedule = round_robin([60, 60])
    assert next_jump_in(11 << shift, 37 << shift, z, schedule).tolist() == [33 << shift, NONE]
    assert is_relevant(11 << shift, 37 << shift, np.array([33 << shift], dtype=object), schedule).tolist() == [True]


def test_63_bits_fit_in_an_int64() -> None:
    top = 2**63 - 1
    assert next_jump_in(0, top, np.array([0, top - 1, top]), round_robin([21] * 3)).tolist() == [1, top, NONE]


def test_no_files_and_empty_intervals() -> None:
    assert count_files([], [], 11, 37) == 0
    assert meets_box([14], [12], 11, 37).tolist() == [False]


@pytest.mark.parametrize(
    ("zmin", "zmax", "z", "schedule", "message"),
    [
        (2, 1, [0], None, "2 above 1 in some column"),
        (12, 35, [0], None, "12 above 35 in some column"),
        (0, 3, [4], (0, 1), "z-addresses of 2 bits, found 0 to 4"),
        (0, 3, [-1], None, "found -1 to 3"),
        (0, 3, [0.5], None, "whole numbers"),
        (0, 3, np.array([2**63], np.uint64), None, "at most 63 bits"),
        (0, 3, [1], (0, 1) * 32, "object array"),
    ],
)
def test_what_is_no_box_or_position_is_refused(zmin, zmax, z, schedule, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        next_jump_in(zmin, zmax, z, schedule)


def test_unsigned_positions_are_positions_too() -> None:
    assert is_relevant(11, 37, np.array([14, 16], np.uint8)).tolist() == [True, False]
    with pytest.raises(ValueError, match="at most 63 bits"):
        is_relevant(11, 37, np.array([2**63], np.uint64))
