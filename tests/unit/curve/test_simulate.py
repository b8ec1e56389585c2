"""Bounds of simulated files, and the ordinals that a row of each file can have."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from zlayout.curve.layout import build, file_limits, simulated_bounds
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


@pytest.mark.parametrize(
    ("rows", "limits", "expected"),
    [
        ([40, 50, 60], (0, 99), (30, 70)),  # by half of 20 at each end
        ([40, 60, 61, 61], (0, 99), (33, 68)),  # by a third of 21
        ([40, 40, 40, 60], (0, 99), (33, 67)),  # by a third of 20, rounded
        ([40, 50, 60], (35, 62), (35, 62)),
        ([40, 50, 60], (40, 60), (40, 60)),
        ([40], (0, 99), (40, 40)),
        ([40, 40, None], (0, 99), (40, 40)),
        ([None, None], (0, 99), (None, None)),
    ],
)
def test_bounds_of_few_rows_are_extended_within_the_limits(
    rows: list[int | None], limits: tuple[int, int], expected: tuple[int | None, int | None]
) -> None:
    ranked = rank(pa.array([*rows, *range(100)]))
    file = np.array([0] * len(rows) + [1] * 100, np.int32)
    found = simulated_bounds(ranked, file, 3, limits=np.array([[limits[0], 0, 0], [limits[1], 99, 99]]))
    assert (found.lower.to_pylist(), found.upper.to_pylist()) == ([expected[0], 0, None], [expected[1], 99, None])


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
