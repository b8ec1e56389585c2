"""The forest must send every key where its shard's own file map does."""

import numpy as np
import pyarrow as pa
import pytest

from zlayout.curve.layout import build
from zlayout.curve.tree import ordinals_among
from zlayout.rewrite import engine as module
from zlayout.rewrite.engine import build_forest


def _keys(seed, n, shift):
    random = np.random.default_rng(seed)
    numbers = pa.array(random.integers(0, 500, n) + shift, pa.int64(), mask=random.random(n) < 0.05)
    words = pa.array([f"prefix-{i}" for i in random.integers(0, 300, n)], pa.string())
    return {"a": numbers, "b": words}


def _expected_and_walked(curve):
    tables = [_keys(1, 4000, 0), _keys(2, 3000, 250), _keys(3, 0, 0)]
    maps = [
        build(t, {}, curve, 64, files, False, depth)
        for t, files, depth in zip(tables, (7, 5, 1), (2, 0, 0), strict=True)
    ]
    forest = build_forest(maps)
    first_file = np.cumsum([0] + [m.files for m in maps])
    expected, walked, gridded = [], [], []
    for shard, (m, table) in enumerate(zip(maps, tables, strict=True)):
        ids = [ordinals_among(b, table[c]) + 1 for c, b in zip("ab", forest.boundaries, strict=True)]
        shards = np.full(len(table["a"]), shard)
        expected.append(m.locate(table) + first_file[shard])
        walked.append(forest.file[forest.walk(shards, ids)])
        if forest.grid is not None:
            index = (shards * forest.range_counts[0] + ids[0]) * forest.range_counts[1] + ids[1]
            gridded.append(forest.file[forest.grid[index]])
    return forest, np.concatenate(expected), np.concatenate(walked), gridded


@pytest.mark.parametrize("curve", ["kd", "zorder", "hilbert", "linear"])
def test_walk_and_grid_agree_with_the_file_maps(curve):
    forest, expected, walked, gridded = _expected_and_walked(curve)
    assert np.array_equal(walked, expected)
    assert np.array_equal(np.concatenate(gridded), expected)
    assert forest.files == 13


def test_a_large_forest_has_no_grid(monkeypatch):
    monkeypatch.setattr(module, "MAX_GRID_CELLS", 10)
    forest, expected, walked, _ = _expected_and_walked("kd")
    assert forest.grid is None
    assert np.array_equal(walked, expected)


def test_leaves_are_numbered_inside_their_file():
    forest = build_forest([build(_keys(1, 4000, 0), {}, "kd", 64, 3, False, 2)])
    for file in range(3):
        own = np.unique(forest.grid)
        leaves = forest.leaf[own[forest.file[own] == file]]
        assert sorted(leaves.tolist()) == [0, 1, 2, 3]
