"""Bounds of simulated files, and the ordinals that a row of each file can have."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from zlayout.curve.layout import Unseen, build, file_limits, simulated_bounds
from zlayout.curve.tree import rank
from zlayout.predicate.model import Compare
from zlayout.spec.model import CURVES

# Of both constants, the first is between two values of the sample, and the second is one of them.
CUTS = (Compare("a", "<", 31), Compare("b", "<=", 40))


def sample() -> dict[str, pa.Array]:
    """300 rows with even numbers, of which some are null; half of the rows have one key."""
    random = np.random.default_rng(3)
    a, b = 2 * random.integers(0, 30, 300), 2 * random.integers(0, 60, 300)
    a[:150], b[:150] = 20, 50
    return {"a": pa.array(a, mask=random.random(300) < 0.1), "b": pa.array(b)}


@pytest.mark.parametrize(
    ("curve", "noise", "files"),
    [*product(CURVES, (False, True), (12,)), ("workload", False, 5), ("workload", True, 5), ("kd", False, 1)],
)
def test_limits_are_the_ordinals_of_all_possible_rows(curve: str, noise: bool, files: int) -> None:
    keys = sample()
    built = build(keys, {}, curve, 8, files, noise, cuts=CUTS if curve == "workload" else ())
    ranked = [rank(values) for values in keys.values()]
    a, b = (np.arange(-1, len(r.distinct)) for r in ranked)
    ordinals = dict(zip(keys, (x.ravel() for x in np.meshgrid(a, b)), strict=True))
    rows = {n: r.distinct.take(pa.array(ordinals[n], mask=ordinals[n] < 0)) for n, r in zip(keys, ranked, strict=True)}
    leaf = built.leaves(rows)
    begin, spread = built.tree.file[leaf], built.tree.spread[leaf]
    assert (spread.max() > 1) == (noise and files == 12)
    found = file_limits(built, [r.distinct for r in ranked])
    assert found.shape == (2, 2, built.files)
    for file, (column, name) in product(range(built.files), enumerate(keys)):
        mine = ordinals[name][(begin <= file) & (file < begin + spread) & (ordinals[name] >= 0)]
        assert found[column, 1, file] == mine.max(initial=-1)
        assert not len(mine) or found[column, 0, file] == mine.min()


def test_bounds_are_those_of_the_sampled_rows() -> None:
    ranked = rank(pa.array([5, 3, None, 9, None, None, 7]))
    found = simulated_bounds(ranked, np.array([0, 0, 0, 1, 1, 2, 1], np.int32), 5)
    assert found.lower.to_pylist() == [3, 7, None, None, None]
    assert found.upper.to_pylist() == [5, 9, None, None, None]
    assert found.null_count.tolist() == [1, 1, 1, 0, 0]
    assert not found.truncated.any()


def unseen_of(files: int, rows: float, limits: tuple[int, int], ends: tuple[int | None, int | None]) -> Unseen:
    """Of the first file, and of others of another part, which are not extended."""
    each = np.array([rows, *[0.0] * (files - 1)])
    all_limits = np.repeat([[limits[0]], [limits[1]]], files, axis=1)
    low, high = (pa.array([end, None], pa.int64()) for end in ends)
    return Unseen(each, all_limits, np.full((2, files), 0.5), np.array([0, *[1] * (files - 1)]), (low, high))


@pytest.mark.parametrize(
    ("rows", "limits", "expected"),
    [
        ([40, 50, 60], (0, 99), (32, 68)),  # 24 sampled rows are in the range, of which 3 are in the file
        ([40, 60, 61, 61], (0, 99), (33, 68)),  # 26 sampled rows, of which 4 are in the file
        ([40, 50, 60], (35, 62), (35, 62)),
        ([40, 50, 60], (40, 60), (40, 60)),
        ([40], (0, 99), (38, 42)),
        ([40, 40, None], (0, 99), (38, 42)),  # 1.5 rows, which end in the second value
        ([10, 50, 80], (0, 99), (0, 99)),  # the limits are less than three times 24.7 rows away
        ([50, 50, 50], (0, 99), (48, 52)),
        ([None, None], (0, 99), (None, None)),
    ],
)
def test_bounds_of_few_rows_are_extended_within_the_limits(
    rows: list[int | None], limits: tuple[int, int], expected: tuple[int | None, int | None]
) -> None:
    ranked = rank(pa.array([*rows, *range(100)]))
    file = np.array([0] * len(rows) + [1] * 100, np.int32)
    found = simulated_bounds(ranked, file, 3, unseen=unseen_of(3, 1e9, limits, (None, None)))
    assert (found.lower.to_pylist(), found.upper.to_pylist()) == ([expected[0], 0, None], [expected[1], 99, None])


@pytest.mark.parametrize(
    ("unseen", "expected"),
    [(0.0, 60), (0.5, 60), (1.5, 65), (10.0, 68)],  # ln 2 / unseen of 8 rows below 60 + 8
)
def test_bounds_are_extended_less_if_few_rows_are_not_sampled(unseen: float, expected: int) -> None:
    ranked = rank(pa.array([40, 50, 60, *range(100)]))
    file = np.array([0] * 3 + [1] * 100, np.int32)
    found = simulated_bounds(ranked, file, 2, unseen=unseen_of(2, unseen, (0, 99), (None, None)))
    assert found.upper.to_pylist() == [expected, 99]


@pytest.mark.parametrize(("more", "expected"), [(3, 7), (7, 6)])  # of a value of which 1.75 rows are expected
def test_a_frequent_value_that_no_sampled_row_of_a_file_has_is_not_expected_in_it(more: int, expected: int) -> None:
    ranked = rank(pa.array([3, 4, 5, 6, 3, 4, 6, *[7] * more, 8, 9, *[9] * 20]))
    file = np.array([0] * 4 + [1] * (len(ranked.ordinals) - 4), np.int32)
    found = simulated_bounds(ranked, file, 2, unseen=unseen_of(2, 1e9, (0, 6), (None, None)))
    assert found.upper.to_pylist() == [expected, 9]


def test_the_outermost_bounds_of_a_part_reach_its_ends() -> None:
    ranked, file = rank(pa.array([5, 9, 1, None, 20, 30])), np.array([0, 1, 2, 3, 4, 5], np.int32)
    ends = (pa.array([-7, None, 25]), pa.array([8, 40, 99]))
    part, nothing = np.array([0, 0, 0, 0, 1, 2]), np.zeros((2, 6), np.int64)
    unseen = Unseen(np.zeros(6), nothing, nothing + 0.5, part, ends)
    found = simulated_bounds(ranked, file, 6, unseen=unseen)
    assert found.lower.to_pylist() == [5, 9, -7, None, 20, 25]
    assert found.upper.to_pylist() == [5, 9, 1, None, 40, 99]


@pytest.mark.parametrize(
    ("values", "lower", "upper"),
    [
        (["abc", "abcd", "b", "bcde"], ["abc", "b"], ["abc\U0010ffff", "bcd\U0010ffff"]),
        (["é", "éüöä", "", "abc"], ["é", ""], ["éüö\U0010ffff", "abc"]),
        ([b"abc", b"abcd", b"", b"abc"], [b"abc", b""], [b"abc" + b"\xff" * 8, b"abc"]),
    ],
)
def test_text_bounds_are_truncated_outwards(values: list[str], lower: list[str], upper: list[str]) -> None:
    found = simulated_bounds(rank(pa.array(values)), np.array([0, 0, 1, 1], np.int32), 3, bound_length=3)
    assert (found.lower.to_pylist(), found.upper.to_pylist()) == ([*lower, None], [*upper, None])
    assert found.truncated.tolist() == [len(high) > 3 for high in upper] + [False]
