"""File maps of two levels keep the promises of one: disjoint boxes, equal files, and a file that the keys decide."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from support.boxes import touched_of

from zlayout.curve import layout
from zlayout.curve.layout import Boxes, FileMap, Refined, build, build_boxes, join, refine

WEIGHTS = {"a": 1.0, "b": 1.0}


@pytest.fixture(autouse=True)
def small_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "FILES_PER_BOX", 12)


def table(rows: int, shape: str = "uniform") -> dict[str, pa.Array]:
    rng = np.random.default_rng(7)
    a, b = rng.random(rows), rng.integers(0, 10**9, rows)
    match shape:
        case "correlated":
            b = (a * 10**8 + rng.normal(0, 10**6, rows)).astype(np.int64)
        case "few":
            a = np.floor(a * 7)
        case "heavy":
            heavy = rng.random(rows) < 0.5
            a, b = np.where(heavy, 0.25, a), np.where(heavy, 5 * 10**8, b)
    missing = rng.random(rows) < (0.2 if shape == "nulls" else 0.0)
    return {"a": pa.array(a, mask=missing), "b": pa.array([f"{n:09d}" for n in b]) if shape == "nulls" else pa.array(b)}


def two_level_map(
    keys: dict[str, pa.Array],
    files: int,
    per_file: int,
    coarse_share: float = 0.2,
    chunks: int = 3,
    seed: int = 0,
    noise: bool = False,
    depth: int = 0,
) -> FileMap:
    """Draw both samples from the rows, refine the boxes in several chunks, and join them."""
    rng = np.random.default_rng(seed)
    total = len(keys["a"])
    drawn = rng.random(total)

    def sample(share: float) -> dict[str, pa.Array]:
        chosen = rng.permutation(np.flatnonzero(drawn < share))
        return {name: values.take(pa.array(chosen)) for name, values in keys.items()}

    share = files * per_file / total
    boxes = build_boxes(sample(share * coarse_share), WEIGHTS, files)
    second = sample(share)
    box = boxes.map.locate(second).astype(np.int64)
    drawn_boxes = ~np.isin(box, boxes.single_keys)
    refined: list[Refined] = []
    edges = np.linspace(0, boxes.map.files, chunks + 1).astype(int)
    for first, end in pairwise(edges.tolist()):
        mine = np.flatnonzero((box >= first) & (box < end) & drawn_boxes)
        own = {name: values.take(pa.array(mine)) for name, values in second.items()}
        refined.append(refine(boxes, own, box[mine] - first, end - first, WEIGHTS, per_file, noise, depth))
    return join(boxes, refined, per_file, noise)


def extents(built: FileMap, keys: dict[str, pa.Array], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The values as ranks, and the lowest and highest rank in each file."""
    file = built.locate(keys)
    ranks = np.unique(np.array(keys[name]), return_inverse=True)[1]
    low, high = np.full(built.files, len(ranks)), np.full(built.files, -1)
    np.minimum.at(low, file, ranks)
    np.maximum.at(high, file, ranks)
    return ranks, low, high


def touched(built: FileMap, keys: dict[str, pa.Array], name: str) -> float:
    """By the definition: over all rows, the mean number of files whose extent has the value of the row."""
    ranks, low, high = extents(built, keys, name)
    below = np.concatenate(([0], np.cumsum(np.bincount(ranks))))
    some = high >= low
    return float((below[high[some] + 1] - below[low[some]]).sum() / len(ranks))


@pytest.mark.parametrize("shape", ["uniform", "correlated", "few", "nulls"])
def test_files_are_even_disjoint_and_near_one_whole_build(shape: str) -> None:
    keys, files = table(100_000, shape), 250
    built = two_level_map(keys, files, 200)
    rows = np.bincount(built.locate(keys), minlength=built.files)
    assert built.files == pytest.approx(files, rel=0.03)
    assert rows.std() / rows.mean() < 0.1
    whole = build(keys, WEIGHTS, "kd", 0, built.files, False)
    ratio = [touched(built, keys, name) / touched(whole, keys, name) for name in keys]
    assert np.mean(ratio) < 1.15
    if shape == "uniform":
        (a, low_a, high_a), (b, low_b, high_b) = (extents(built, keys, name) for name in keys)
        del a, b
        for f in range(0, built.files, 20):
            meets = (low_a <= high_a[f]) & (high_a >= low_a[f]) & (low_b <= high_b[f]) & (high_b >= low_b[f])
            assert np.flatnonzero(meets).tolist() == [f]


def test_the_order_of_rows_and_the_chunks_have_no_effect_on_files() -> None:
    keys = table(60_000)
    one, other = (two_level_map(keys, 300, 100, chunks=chunks, seed=4) for chunks in (1, 5))
    assert one.locate(keys).tolist() == other.locate(keys).tolist()
    mixed = np.random.default_rng(9).permutation(60_000)
    assert one.boundaries == other.boundaries
    moved = {name: values.take(pa.array(mixed)) for name, values in keys.items()}
    assert one.locate(moved).tolist() == one.locate(keys)[mixed].tolist()


@pytest.mark.parametrize("noise", [False, True])
def test_a_key_of_half_of_the_table(noise: bool) -> None:
    keys, files = table(60_000, "heavy"), 300
    built = two_level_map(keys, files, 100, noise=noise)
    row_hash = np.random.default_rng(2).integers(0, 2**40, 60_000)
    rows = np.bincount(built.locate(keys, row_hash), minlength=built.files)
    assert rows.max() > (28_000 if not noise else 0)
    if noise:
        assert built.files == pytest.approx(files, rel=0.05)
        assert rows.std() / rows.mean() < 0.15
        assert not len(built.tree.oversized)
    else:
        assert built.tree.oversized.tolist() == [int(rows.argmax())]
        assert built.tree.rows.argmax() == rows.argmax()
    assert built.tree.rows.sum() == pytest.approx(files * 100, rel=0.05)


def test_a_table_of_one_box_and_leaves_within_files() -> None:
    keys = table(9000)
    built = two_level_map(keys, 30, 300, coarse_share=1.0, chunks=1, depth=2)
    assert (built.files, len(built.tree.file)) == (30, 120)
    assert np.bincount(built.tree.file).tolist() == [4] * 30
    rows = np.bincount(built.locate(keys))
    assert rows.std() / rows.mean() < 0.05


def test_a_column_of_nulls_is_not_touched() -> None:
    keys = table(3000) | {"a": pa.nulls(3000, pa.float64())}
    built = two_level_map(keys, 36, 80, coarse_share=1.0, chunks=1)
    assert touched_of(built, keys) == {"a": 0.0, "b": pytest.approx(1.0, abs=0.02)}


def test_rows_whose_keys_are_all_null_are_divided_evenly() -> None:
    """Half of the rows are more than one box, so that the second sample does not have them."""
    known, files = table(30_000), 300
    keys = {n: pa.concat_arrays([v, pa.nulls(30_000, v.type)]) for n, v in known.items()}
    built = two_level_map(keys, files, 100)
    rows = np.bincount(built.locate(keys, np.arange(60_000)), minlength=built.files)
    assert built.files == pytest.approx(files, rel=0.05)
    assert rows.std() / rows.mean() < 0.15
    assert not len(built.tree.oversized)
    assert built.tree.rows.sum() == pytest.approx(files * 100, rel=0.05)


def test_a_large_key_among_rows_without_keys_stays_one_file() -> None:
    known, files = table(40_000, "heavy"), 300
    keys = {n: pa.concat_arrays([v, pa.nulls(20_000, v.type)]) for n, v in known.items()}
    built = two_level_map(keys, files, 100)
    rows = np.bincount(built.locate(keys, np.arange(60_000)), minlength=built.files)
    assert built.tree.oversized.tolist() == [int(rows.argmax())]
    assert rows.max() > 18_000
    assert np.sort(rows)[-2] < 400


def test_a_box_without_rows_of_the_second_sample_is_one_file() -> None:
    keys = table(5000)
    boxes: Boxes = build_boxes(keys, WEIGHTS, 4 * layout.FILES_PER_BOX)
    assert boxes.map.files == 4
    none = {name: values[:0] for name, values in keys.items()}
    built = join(boxes, [refine(boxes, none, np.zeros(0, np.int64), 4, WEIGHTS, 10, False, 0)], 10, False)
    assert built.locate(keys).tolist() == boxes.map.locate(keys).tolist()
