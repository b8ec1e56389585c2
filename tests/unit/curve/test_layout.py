from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.boxes import touched_of

from zlayout.curve.layout import FileMap, build, linear_widths
from zlayout.spec.model import CURVES

WITHOUT_KD = tuple(c for c in CURVES if c != "kd")


def grid(side: int) -> dict[str, pa.Array]:
    x, y = np.divmod(np.arange(side * side), side)
    return {"x": pa.array(x), "y": pa.array(y)}


def uniform(columns: int, rows: int) -> dict[str, pa.Array]:
    rng = np.random.default_rng(columns)
    return {f"c{i}": pa.array(rng.random(rows)) for i in range(columns)}


def mean_touched(layout: FileMap, sample: dict[str, pa.Array]) -> float:
    return float(np.mean(list(touched_of(layout, sample).values())))


@pytest.mark.parametrize(("curve", "touched"), [("linear", 9), ("zorder", 7), ("hilbert", 7), ("kd", 7)])
def test_the_grid_of_16_files(curve: str, touched: int) -> None:
    sample = grid(8)
    layout = build(sample, {}, curve, 1000, 16, noise=False)
    file = layout.locate(sample)
    assert np.bincount(file).tolist() == [4] * 16
    x, y = (sample[c].to_numpy() for c in "xy")
    assert len(set(file[(x == 2) | (y == 2)].tolist())) == touched


def test_z_order_and_linear_files_are_runs_of_the_sorted_positions() -> None:
    sample = grid(8)
    x, y = (sample[c].to_numpy() for c in "xy")
    z = [int("".join(a + b for a, b in zip(f"{p:03b}", f"{q:03b}", strict=True)), 2) for p, q in zip(x, y, strict=True)]
    assert build(sample, {}, "zorder", 1000, 16, False).locate(sample).tolist() == [p // 4 for p in z]
    assert build(sample, {}, "linear", 1000, 16, False).locate(sample).tolist() == ((8 * x + y) // 4).tolist()


@pytest.mark.parametrize(
    ("curve", "columns", "files", "least", "most"),
    [
        ("kd", 2, 100, 0.95, 1.04),
        ("hilbert", 2, 100, 1.1, 1.3),
        ("zorder", 2, 100, 1.3, 1.75),
        ("kd", 3, 300, 0.95, 1.05),
        ("hilbert", 3, 300, 1.1, 1.3),
        ("zorder", 3, 300, 1.3, 1.6),
    ],
)
def test_files_touched_against_the_floor(curve: str, columns: int, files: int, least: float, most: float) -> None:
    sample = uniform(columns, files * 100)
    layout = build(sample, {}, curve, 1000, files, noise=False)
    assert least < mean_touched(layout, sample) / files ** ((columns - 1) / columns) < most
    assert layout.tree.rows.std() / layout.tree.rows.mean() < 0.1


@pytest.mark.parametrize("curve", CURVES)
def test_predicted_touched_is_the_brute_force_count(curve: str) -> None:
    rng = np.random.default_rng(1)
    a = pa.array(rng.integers(0, 40, 3000), mask=rng.random(3000) < 0.1)
    sample = {"a": a, "b": pa.array(rng.normal(size=3000))}
    layout = build(sample, {}, curve, 100, 25, noise=False)
    file = layout.locate(sample)
    for name, values in sample.items():
        known = np.array([-np.inf if v is None else v for v in values.to_pylist()])
        boxes = []
        for f in range(layout.files):
            inside = known[(file == f) & (known > -np.inf)]
            boxes.append((inside.min(), inside.max()) if len(inside) else (1, 0))
        drawn = known[known > -np.inf]
        expected = sum(((drawn >= low) & (drawn <= high)).mean() for low, high in boxes)
        assert touched_of(layout, sample)[name] == pytest.approx(expected)


@pytest.mark.parametrize("curve", WITHOUT_KD[:2])
def test_a_column_with_few_values_is_not_wasted(curve: str) -> None:
    rng = np.random.default_rng(2)
    sample = {"mode": pa.array(rng.integers(0, 7, 16_000)), "key": pa.array(rng.permutation(16_000))}
    layout = build(sample, {}, curve, 1000, 16, noise=False)
    # Delta gives `mode` the ids 0..6 beside 0..999 and touches 16 of 16
    assert touched_of(layout, sample)["mode"] < 9


def test_a_weight_gives_z_order_earlier_bits() -> None:
    sample = uniform(2, 6400)
    even = touched_of(build(sample, {}, "zorder", 1000, 64, False), sample)
    heavy = touched_of(build(sample, {"c1": 16.0}, "zorder", 1000, 64, False), sample)
    assert heavy["c1"] < even["c1"] / 2 < even["c0"] < heavy["c0"]


def test_linear_order_has_at_most_63_bits_and_31_of_one_column() -> None:
    assert linear_widths([5000] * 6) == (13, 13, 13, 13, 11, 0)
    assert linear_widths([2**40, 4]) == (31, 3)


@pytest.mark.parametrize("curve", CURVES)
def test_every_type_goes_through(curve: str) -> None:
    sample = {
        "text": pa.array(["https://example.org/a", "https://example.org/b", "é", None, "", "z"] * 20),
        "amount": pa.array([Decimal(2**60), Decimal(2**60 + 1), None, Decimal(-1), Decimal(0), Decimal(7)] * 20),
        "ratio": pa.array([float("nan"), -0.0, 0.0, float("inf"), None, -1.0] * 20),
        "day": pa.array([date(1960, 1, 1 + i) for i in range(6)] * 20),
        "flag": pa.array([True, False, None] * 40),
    }
    layout = build(sample, {}, curve, 1000, 6, noise=False)
    assert np.bincount(layout.locate(sample)).tolist() == [20] * 6
    assert [b.type for b in layout.boundaries] == [v.type for v in sample.values()]


@pytest.mark.parametrize("curve", CURVES)
def test_boundaries_are_the_values_that_the_tree_compares_with(curve: str) -> None:
    """Walk the tree in plain Python by the rule that a row goes left when null or below boundaries[threshold - 1]."""
    rng = np.random.default_rng(4)
    words = ["".join(rng.choice(list("abc"), 3)) for _ in range(600)]
    sample = {"w": pa.array([None if w < "ab" else w for w in words]), "n": pa.array(rng.integers(-50, 50, 600))}
    layout = build(sample, {}, curve, 50, 12, noise=False, depth_within=2)
    tree = layout.tree
    new = {"w": pa.array([None, "", "abz", "zzz", *words[:50]]), "n": pa.array([-99, 99, 0, 7, *range(-25, 25)])}
    expected = []
    for key in zip(new["w"].to_pylist(), new["n"].to_pylist(), strict=True):
        node = 0
        while node >= 0:
            column = tree.column[node]
            edge = layout.boundaries[column][int(tree.threshold[node]) - 1].as_py()
            node = tree.left[node] if key[column] is None or key[column] < edge else tree.right[node]
        expected.append(int(tree.file[~node]))
    assert layout.locate(new).tolist() == expected


@pytest.mark.parametrize("curve", CURVES)
@given(
    st.lists(st.tuples(st.none() | st.integers(0, 9), st.none() | st.integers(0, 60)), max_size=80),
    st.integers(1, 12),
    st.booleans(),
    st.integers(0, 2),
)
def test_any_sample_in_any_order(
    curve: str, points: list[tuple[int | None, int | None]], files: int, noise: bool, within: int
) -> None:
    def arrays(rows: list[tuple[int | None, int | None]]) -> dict[str, pa.Array]:
        return {n: pa.array([r[i] for r in rows], pa.int64()) for i, n in enumerate("ab")}

    sample = arrays(points)
    layout = build(sample, {"a": 2.0}, curve, 8, files, noise, within)
    tree, leaf = layout.tree, layout.leaves(sample)
    rows = np.zeros(layout.files)
    for count, file, spread in zip(np.bincount(leaf, minlength=len(tree.file)), tree.file, tree.spread, strict=True):
        assert count or not points
        rows[file : file + spread] += count / spread
    assert rows.tolist() == pytest.approx(tree.rows.tolist())
    assert (np.diff(tree.file) >= 0).all()
    file_of_key: dict[tuple[int | None, int | None], int] = {}
    for key, file in zip(points, layout.locate(sample).tolist(), strict=True):
        assert file_of_key.setdefault(key, file) == file
    again = build(arrays(points[::-1]), {"a": 2.0}, curve, 8, files, noise, within)
    assert again.locate(sample).tolist() == layout.locate(sample).tolist()


@pytest.mark.parametrize("curve", CURVES)
def test_a_heavy_key(curve: str) -> None:
    a = np.concatenate((np.arange(400), np.full(600, 77)))
    sample = {"a": pa.array(a), "b": pa.array(a)}
    whole = build(sample, {}, curve, 1000, 10, noise=False)
    assert len(whole.tree.oversized) == 1
    assert whole.tree.rows[whole.tree.oversized[0]] >= 600
    spread = build(sample, {}, curve, 1000, 10, noise=True)
    assert spread.tree.rows.max() < 160
    hashes = np.arange(1000, dtype=np.int64) - 500
    used = set(spread.locate(sample, hashes)[a == 77].tolist())
    assert len(used) == 6
    assert max(used) - min(used) == 5


@pytest.mark.parametrize("curve", CURVES)
def test_rows_whose_keys_are_all_null_are_divided_evenly(curve: str) -> None:
    a = pa.array([None] * 600 + list(range(400)))
    sample = {"a": a, "b": a}
    layout = build(sample, {}, curve, 1000, 10, noise=False)
    assert len(layout.tree.oversized) == 0
    file = layout.locate(sample, np.arange(1000, dtype=np.int64))
    assert np.bincount(file).tolist() == [100] * 10
    assert np.bincount(file[:600]).tolist() == [100] * 6
    assert touched_of(layout, sample) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize(
    ("rows", "others", "files", "spread"), [(200, 800, 10, 1), (201, 799, 10, 2), (200, 0, 2, 1), (200, 0, 3, 3)]
)
@pytest.mark.parametrize("curve", CURVES)
def test_a_large_key_has_more_rows_than_two_files(curve: str, rows: int, others: int, files: int, spread: int) -> None:
    key = pa.array(np.concatenate((np.zeros(rows, np.int64), np.arange(others) + 1)))
    sample = {"a": key, "b": key}
    assert len(build(sample, {}, curve, 1000, files, noise=False).tree.oversized) == (spread > 1)
    found = build(sample, {}, curve, 1000, files, noise=True).tree.spread
    assert found.tolist() == [spread] + [1] * (len(found) - 1)


@pytest.mark.parametrize("curve", CURVES)
def test_constants_and_no_rows_go_to_one_file(curve: str) -> None:
    sample = {"a": pa.array([None] * 10, pa.string()), "b": pa.array([3] * 10)}
    layout = build(sample, {}, curve, 10, 1, noise=False)
    assert layout.files == 1
    assert touched_of(layout, sample) == {"a": 0.0, "b": 1.0}
    assert build(grid(4), {}, curve, 10, 1, noise=True).files == 1
    empty = build({n: v[:0] for n, v in sample.items()}, {}, curve, 10, 5, noise=True, depth_within=2)
    assert empty.files == 1
    assert empty.locate(sample).tolist() == [0] * 10


@pytest.mark.parametrize("curve", CURVES)
def test_one_column_is_cut_with_the_fewest_comparisons(curve: str) -> None:
    sample = uniform(1, 3000)
    layout = build(sample, {}, curve, 10, 30, noise=False)
    assert layout.tree.depth == 5
    assert touched_of(layout, sample)["c0"] == pytest.approx(1.0)


def test_leaves_follow_the_curve_inside_a_file() -> None:
    sample = grid(16)
    layout = build(sample, {}, "hilbert", 1000, 4, noise=False, depth_within=4)
    leaf = layout.leaves(sample)
    assert np.bincount(leaf).tolist() == [4] * 64
    x, y = (sample[c].to_numpy() for c in "xy")
    centre = np.array([[x[leaf == i].mean(), y[leaf == i].mean()] for i in range(64)])
    assert np.abs(np.diff(centre, axis=0)).sum(axis=1).tolist() == [2.0] * 63


def test_an_unknown_curve_is_named() -> None:
    with pytest.raises(ValueError, match="expected one of kd, zorder, hilbert, linear or workload, found 'peano'"):
        build(grid(2), {}, "peano", 10, 2, noise=False)
