import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.curve.kd import Goal, build_kd, grow, sort_parts
from zlayout.curve.tree import KdTree, Marginal, locate


def dense(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def touched(tree: KdTree, ordinals: list[np.ndarray]) -> list[float]:
    """Brute force: over all rows the mean number of files whose box on the column holds the row's value."""
    file = tree.file[locate(tree, ordinals)]
    means = []
    for values in ordinals:
        boxes = [(values[file == f].min(), values[file == f].max()) for f in range(tree.files)]
        means.append(sum(((values >= low) & (values <= high)).mean() for low, high in boxes))
    return means


def variation(rows: np.ndarray) -> float:
    return float(rows.std() / rows.mean())


def uniform(columns: int, rows: int) -> list[np.ndarray]:
    rng = np.random.default_rng(columns)
    return [dense(rng.random(rows)) for _ in range(columns)]


@pytest.mark.parametrize(
    ("columns", "files", "most"),
    [(2, 56, 1.03), (2, 100, 1.03), (2, 1000, 1.01), (3, 100, 1.04), (3, 1000, 1.02), (4, 100, 1.05), (4, 1000, 1.03)],
)
def test_uniform_data_is_near_the_floor_with_equal_rows(columns: int, files: int, most: float) -> None:
    ordinals = uniform(columns, files * 50)
    tree = build_kd(ordinals, [1.0] * columns, files, noise=False)
    assert tree.files == files
    assert np.mean(touched(tree, ordinals)) / files ** ((columns - 1) / columns) < most
    assert variation(tree.rows) < 0.03
    assert tree.depth <= np.ceil(np.log2(files)) + (files > 256)


def test_rows_are_those_of_the_located_sample() -> None:
    ordinals = uniform(2, 3000)
    ordinals[1][::7] = -1
    tree = build_kd(ordinals, [1.0, 1.0], 30, noise=False)
    file = tree.file[locate(tree, ordinals)]
    assert np.bincount(file).tolist() == tree.rows.tolist()


def test_a_correlated_pair_goes_below_the_floor_of_independent_columns() -> None:
    rng = np.random.default_rng(3)
    x = rng.random(30_000)
    ordinals = [dense(x), dense(x + rng.normal(0, 0.05, len(x)))]
    tree = build_kd(ordinals, [1.0, 1.0], 100, noise=False)
    assert max(touched(tree, ordinals)) < 0.75 * 10


def test_weights_move_files_from_one_column_to_the_other() -> None:
    ordinals = uniform(2, 64 * 50)
    # weight 16: b = 3 + log2(16) - 2 = 5 bits against 1, so 2 and 32 of 64 files
    heavy, light = touched(build_kd(ordinals, [16.0, 1.0], 64, noise=False), ordinals)
    assert heavy == pytest.approx(2, rel=0.05)
    assert light == pytest.approx(32, rel=0.05)


def test_a_column_with_seven_values_gives_its_other_splits_away() -> None:
    rng = np.random.default_rng(5)
    ordinals = [rng.integers(0, 7, 56 * 200).astype(np.int64), dense(rng.random(56 * 200))]
    tree = build_kd(ordinals, [1.0, 1.0], 56, noise=False)
    low, high = touched(tree, ordinals)
    # the best: 7 slices of the one, 8 of the other
    assert low == pytest.approx(8, rel=0.1)
    assert high == pytest.approx(7, rel=0.1)
    tree = build_kd(ordinals, [1.0, 1.0], 1000, noise=False)
    assert touched(tree, ordinals)[0] == pytest.approx(1000 / 7, rel=0.02)


def test_no_cut_separates_equal_values_of_a_column() -> None:
    rng = np.random.default_rng(6)
    values = rng.zipf(1.5, 20_000).clip(max=1000)
    ordinals = [dense(values)]
    tree = build_kd(ordinals, [1.0], 20, noise=False)
    file = tree.file[locate(tree, ordinals)]
    assert len(set(zip(ordinals[0].tolist(), file.tolist(), strict=True))) == len(np.unique(values))


def heavy_key() -> list[np.ndarray]:
    """1000 rows; 600 of them are the one key 50, the others all different."""
    return [np.concatenate((np.arange(50), np.full(600, 50), np.arange(51, 401))).astype(np.int64)]


def test_without_noise_a_heavy_key_is_one_large_file_and_is_reported() -> None:
    tree = build_kd(heavy_key(), [1.0], 10, noise=False)
    assert [tree.rows[f] for f in tree.oversized] == [600]
    assert sorted(tree.rows.tolist())[-2] <= 150
    assert tree.spread.tolist() == [1] * tree.files


def test_with_noise_a_heavy_key_is_spread_over_the_files_it_deserves() -> None:
    tree = build_kd(heavy_key(), [1.0], 10, noise=True)
    # the first cut is at row 650, that is 6.5, so 6 of 10 files; one of them goes to the 50 rows before the key
    assert tree.spread.tolist() == [1, 5, 1, 1, 1, 1]
    assert tree.rows.tolist() == pytest.approx([50] + [120] * 5 + [87.5] * 4, abs=0.6)
    assert len(tree.oversized) == 0


@pytest.mark.parametrize("columns", [1, 2])
def test_rows_whose_keys_are_all_null_are_spread_without_noise(columns: int) -> None:
    ordinals = [np.concatenate((np.full(500, -1), np.arange(500)))] * columns
    tree = build_kd(ordinals, [1.0] * columns, 10, noise=False)
    assert tree.spread.tolist() == [5, 1, 1, 1, 1, 1]
    assert tree.rows.tolist() == [100] * 10
    assert not locate(tree, ordinals)[:500].any()
    assert len(tree.oversized) == 0
    whole = build_kd(ordinals, [1.0] * columns, 10, noise=False, spread_nulls=False)
    assert [whole.rows[f] for f in whole.oversized] == [500]


def test_one_null_among_the_keys_is_not_spread() -> None:
    """An equality on the other key matches these rows."""
    ordinals = [np.concatenate((np.full(500, -1), np.arange(500))), np.concatenate((np.full(500, 3), np.arange(500)))]
    tree = build_kd(ordinals, [1.0, 1.0], 10, noise=False)
    assert [tree.rows[f] for f in tree.oversized] == [500]
    assert tree.spread.max() == 1


def test_a_key_of_less_than_two_files_stays_whole_even_with_noise() -> None:
    ordinals = [np.array([0] * 190 + [1] * 10)]
    tree = build_kd(ordinals, [1.0], 2, noise=True)
    assert tree.rows.tolist() == [190, 10]
    assert tree.spread.tolist() == [1, 1]


def test_a_key_of_exactly_two_files_is_not_larger_than_two_files() -> None:
    tree = build_kd([np.zeros(200, np.int64)], [1.0], 2, noise=True)
    assert (tree.rows.tolist(), tree.spread.tolist()) == ([200], [1])


def test_a_heavy_value_is_cut_on_the_other_column() -> None:
    rng = np.random.default_rng(8)
    ordinals = [(rng.random(8000) < 0.05).astype(np.int64), dense(rng.random(8000))]
    tree = build_kd(ordinals, [1.0, 1.0], 8, noise=False)
    assert tree.files == 8
    assert len(tree.oversized) == 0
    assert variation(tree.rows) < 0.1


@pytest.mark.parametrize("noise", [False, True])
def test_constants_one_file_and_no_rows(noise: bool) -> None:
    constant = build_kd([np.zeros(100, np.int64)], [1.0], 5, noise)
    assert constant.files == (5 if noise else 1)
    assert constant.oversized.tolist() == ([] if noise else [0])
    assert len(constant.column) == 0
    assert build_kd(uniform(2, 100), [1.0, 1.0], 1, noise).files == 1
    empty = build_kd([np.zeros(0, np.int64)] * 2, [1.0, 1.0], 5, noise, depth_within=3)
    assert (empty.files, empty.rows.tolist(), empty.file.tolist()) == (1, [0], [0])


def test_nulls_are_a_value_of_their_own_below_all_others() -> None:
    ordinals = [np.array([-1] * 50 + [0] * 50)]
    tree = build_kd(ordinals, [1.0], 2, noise=False)
    assert tree.threshold.tolist() == [0]
    assert tree.rows.tolist() == [50, 50]
    assert np.unique(locate(tree, ordinals)[:50]).tolist() == [0]


@given(
    st.lists(st.tuples(st.integers(-1, 6), st.integers(-1, 40)), min_size=1, max_size=120),
    st.integers(1, 20),
    st.booleans(),
    st.integers(0, 2),
    st.randoms(),
)
def test_any_sample_gives_a_whole_tree_whatever_its_order(
    points: list[tuple[int, int]], files: int, noise: bool, within: int, random: object
) -> None:
    def build(rows: list[tuple[int, int]]) -> tuple[KdTree, list[np.ndarray]]:
        ordinals = list(np.array(rows, np.int64).T)
        return build_kd(ordinals, [1.0, 2.0], files, noise, within), ordinals

    tree, ordinals = build(points)
    leaf = locate(tree, ordinals)
    assert set(leaf.tolist()) == set(range(len(tree.file)))
    rows = np.zeros(tree.files)
    for count, file, spread in zip(np.bincount(leaf), tree.file, tree.spread, strict=True):
        rows[file : file + spread] += count / spread
    assert rows.tolist() == pytest.approx(tree.rows.tolist())
    assert tree.files <= files
    assert (np.diff(tree.file) >= 0).all()
    shuffled = sorted(points, key=lambda _: random.random())  # type: ignore[attr-defined]
    again, _ = build(shuffled)
    for name in ("column", "threshold", "left", "right", "file", "spread"):
        assert getattr(again, name).tolist() == getattr(tree, name).tolist()


def test_leaves_within_a_file_are_smaller_boxes_next_to_each_other() -> None:
    ordinals = uniform(2, 16_000)
    tree = build_kd(ordinals, [1.0, 1.0], 16, noise=False, depth_within=4)
    assert tree.file.tolist() == [f for f in range(16) for _ in range(16)]
    assert np.bincount(locate(tree, ordinals)).min() >= 60
    plain = build_kd(ordinals, [1.0, 1.0], 16, noise=False)
    assert (tree.file[locate(tree, ordinals)] == plain.file[locate(plain, ordinals)]).all()


def test_trees_grown_together_are_those_grown_one_by_one() -> None:
    rng = np.random.default_rng(12)
    sizes, files = [900, 0, 40, 2500], [7, 3, 1, 300]
    ordinals = [rng.integers(-1, 2000, sum(sizes)), rng.integers(-1, 9, sum(sizes))]
    goal = Goal([1.0, 2.0], [Marginal.of(o) for o in ordinals], True, 20.0, 2)
    part = np.repeat(np.arange(4), sizes)
    mixed = rng.permutation(len(part))
    whole, roots = grow(sort_parts([o[mixed] for o in ordinals], part[mixed], 4), np.array(files), goal)
    first = np.zeros(3, np.int64)
    for number in range(4):
        tree, _ = grow(sort_parts([o[part == number] for o in ordinals]), np.array([files[number]]), goal)
        count = np.array([len(tree.column), len(tree.file), tree.files])
        nodes, leaves, made = (slice(f, f + c) for f, c in zip(first, count, strict=True))
        child = np.array([[first[0]], [-first[1]]])
        for side in ("left", "right"):
            own = getattr(tree, side)
            assert getattr(whole, side)[nodes].tolist() == np.where(own < 0, own + child[1], own + child[0]).tolist()
        assert roots[number] == (first[0] if count[0] else ~first[1])
        assert whole.file[leaves].tolist() == (tree.file + first[2]).tolist()
        for name, at in [("column", nodes), ("threshold", nodes), ("spread", leaves), ("rows", made)]:
            assert getattr(whole, name)[at].tolist() == getattr(tree, name).tolist()
        first += count
    assert whole.files == first[2]
