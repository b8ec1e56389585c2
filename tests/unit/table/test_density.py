"""The estimated touched(c) against the truth, from data that is really drawn and dealt into files."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.metrics import touched

from zlayout.table.metrics import estimate_rows
from zlayout.table.ranks import Ranked, rank_bounds, segments_of
from zlayout.table.state import ColumnBounds

FILES, ROWS = 128, 1000
Values = NDArray[np.generic]

DRAWS: dict[str, Callable[[np.random.Generator, int], Values]] = {
    "uniform": lambda r, n: r.integers(0, 1 << 40, n),
    "zipf": lambda r, n: np.minimum(r.zipf(1.5, n), 1 << 60),
    "zipf heavy tail": lambda r, n: np.minimum(r.zipf(1.1, n), 1 << 60),
    "lognormal": lambda r, n: np.exp(r.normal(0, 2, n)),
    "pareto": lambda r, n: r.pareto(0.3, n),
    "dates": lambda r, n: r.integers(8000, 10500, n),
    "two clumps": lambda r, n: np.where(r.random(n) < 0.9, r.normal(0, 1, n), r.normal(1e9, 1, n)),
}


def boxes(values: Values, other: Values, count: int) -> list[Values]:
    """k-d boxes over (values, other), split at medians in turn."""
    done: list[Values] = []
    todo = [(np.arange(len(values)), count, 0)]
    while todo:
        rows, share, axis = todo.pop()
        if share == 1:
            done.append(values[rows])
            continue
        ordered = rows[np.argsort((values, other)[axis][rows], kind="stable")]
        half, cut = share // 2, len(rows) * (share // 2) // share
        todo += [(ordered[:cut], half, 1 - axis), (ordered[cut:], share - half, 1 - axis)]
    return done


def appended(values: Values, layout: Callable[[Values, int], list[Values]]) -> list[Values]:
    """Four fifths laid out, the last fifth as it came."""
    cut, files = len(values) * 4 // 5, FILES * 4 // 5
    return layout(values[:cut], files) + np.array_split(values[cut:], FILES - files)


def in_order(values: Values, count: int) -> list[Values]:
    return np.array_split(np.sort(values), count)


def in_boxes(values: Values, count: int) -> list[Values]:
    return boxes(values, np.random.default_rng(9).random(len(values)), count)


LAYOUTS: dict[str, Callable[[Values], list[Values]]] = {
    "unclustered": lambda v: np.array_split(v, FILES),
    "sorted": lambda v: in_order(v, FILES),
    "boxes": lambda v: in_boxes(v, FILES),
    "sorted + delta": lambda v: appended(v, in_order),
    "boxes + delta": lambda v: appended(v, in_boxes),
    "two layouts": lambda v: in_boxes(v[::2], FILES // 2) + in_boxes(v[1::2], FILES // 2),
}


def ranked(files: list[Values]) -> tuple[Ranked, NDArray[np.float64]]:
    rows = np.array([len(f) for f in files])
    lower, upper = pa.array([f.min() for f in files]), pa.array([f.max() for f in files])
    none = np.zeros(len(files), np.int64)
    return rank_bounds(ColumnBounds(lower, upper, none, none > 0), rows), rows.astype(np.float64)


def truth(files: list[Values]) -> float:
    """Each row's value looked up in all files' bounds."""
    lower, upper = np.sort([f.min() for f in files]), np.sort([f.max() for f in files])
    values = np.concatenate(files)
    return float((np.searchsorted(lower, values, "right") - np.searchsorted(upper, values, "left")).mean())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("draw", DRAWS)
def test_touched_is_within_a_tenth_of_the_truth(draw: str, layout: str) -> None:
    values = DRAWS[draw](np.random.default_rng(5), FILES * ROWS)
    files = LAYOUTS[layout](values)
    assert touched(*ranked(files)) == pytest.approx(truth(files), rel=0.10)


def test_late_dates_appended_day_by_day() -> None:
    random = np.random.default_rng(2)
    base = np.array_split(random.integers(0, 2000, 80_000), 80)
    files = base + [np.full(1000, 2000 + day) for day in range(48)]
    assert touched(*ranked(files)) == pytest.approx(truth(files), rel=0.05)


def test_dates_that_arrive_a_little_out_of_order() -> None:
    random = np.random.default_rng(3)
    days = np.sort(random.integers(0, 2500, 128_000))
    files = np.array_split(days[np.argsort(days + random.normal(0, 20, len(days)))], 128)
    assert touched(*ranked(files)) == pytest.approx(truth(files), rel=0.15)


@pytest.mark.parametrize(
    ("overlap", "limit"), [(0.02, 1.4), (0.1, 1.65), (0.25, 1.65), (0.4, 1.5), (1.0, 1.1), (2.0, 1.1), (10.0, 1.05)]
)
def test_the_error_for_times_that_arrive_a_little_out_of_order_is_known(overlap: float, limit: float) -> None:
    """overlap: that of neighbouring files, as a share of the width of a file. docs/metrics.md states the errors."""
    rows = np.arange(FILES * ROWS)
    times = rows * 1_000_003 + np.random.default_rng(1).integers(0, round(overlap * ROWS * 1e6), len(rows))
    files = np.array_split(times, FILES)
    assert 1 <= touched(*ranked(files)) / truth(files) <= limit


@pytest.mark.parametrize("per_file", [3, 20])
def test_files_of_few_rows_leave_one_on_each_bound(per_file: int) -> None:
    files = np.array_split(np.random.default_rng(4).random(256 * per_file), 256)
    assert touched(*ranked(files)) == pytest.approx(truth(files), rel=0.03)


@pytest.mark.parametrize("prefix", ["", "https://www.example.org/customer/"])
def test_strings_with_a_common_prefix(prefix: str) -> None:
    keys = np.random.default_rng(6).integers(0, 10**9, 64_000)
    for dealt in (np.array_split(keys, 64), in_boxes(keys, 64)):
        files = [np.array([f"{prefix}{k:09d}" for k in np.sort(f)[[0, -1]]]) for f in dealt]
        rows = np.array([len(f) for f in dealt])
        lower, upper = pa.array([f[0] for f in files]), pa.array([f[1] for f in files])
        none = np.zeros(len(rows), np.int64)
        column = rank_bounds(ColumnBounds(lower, upper, none, none > 0), rows)
        assert touched(column, rows.astype(np.float64)) == pytest.approx(truth(dealt), rel=0.05)


intervals = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 100)), min_size=1, max_size=30)


@given(intervals, st.integers(0, 4))
def test_rows_stay_inside_their_files_and_touched_is_their_coverage(
    files: list[tuple[int, int, int]], steps: int
) -> None:
    """Given the density, touched is a plain sum: counted here cell by cell and file by file."""
    lower, upper = [min(a, b) for a, b, _ in files], [max(a, b) for a, b, _ in files]
    none = np.zeros(len(files), np.int64)
    column = rank_bounds(ColumnBounds(pa.array(lower), pa.array(upper), none, none > 0), np.full(len(files), 100))
    segments = segments_of(column)
    weights = np.array([float(n) for _, _, n in files])[segments.file]
    rows = np.stack(estimate_rows(segments, weights, steps), axis=1).ravel()  # each point and the gap behind it
    spans = [(2 * lo, 2 * hi) for lo, hi in zip(segments.lo.tolist(), segments.hi.tolist(), strict=True)]
    coverage = [sum(1 for lo, hi in spans if lo <= cell <= hi) for cell in range(len(rows))]
    assert np.stack(segments.coverage, axis=1).ravel().tolist() == coverage
    assert (rows >= 0).all()
    assert (rows[np.array(coverage) == 0] == 0).all()
    within = [float(rows[lo : hi + 1].sum()) for lo, hi in spans]
    assert sum(within) == pytest.approx(float(rows @ np.array(coverage, float)), abs=1e-6)
    if steps == 0:
        assert rows.sum() == pytest.approx(weights.sum(), abs=1e-6)
    if steps == 4 and weights.sum() > 0:
        assert touched(column, np.array([float(n) for _, _, n in files])) == pytest.approx(
            sum(within) / rows.sum(), rel=1e-9
        )


def test_a_wide_file_beside_dense_narrow_ones_gets_no_rows_from_rounding() -> None:
    low, high = [*(3 * i for i in range(100)), 0], [*(3 * i + 5 + i % 7 for i in range(100)), 10**18]
    none = np.zeros(101, np.int64)
    segments = segments_of(rank_bounds(ColumnBounds(pa.array(low), pa.array(high), none, none > 0), np.full(101, 9)))
    weights = np.where(segments.span > 10**6, 10.0, 1e12 / (7 + segments.lo))
    assert sum(map(np.sum, estimate_rows(segments, weights, 0))) == pytest.approx(weights.sum(), rel=1e-9)


def test_floats_that_are_next_to_each_other() -> None:
    tiny = np.nextafter(0.0, 1.0)
    low, high = pa.array([0.0, 0.0, 1.0]), pa.array([tiny, 4 * tiny, 2.0])
    none = np.zeros(3, np.int64)
    column = rank_bounds(ColumnBounds(low, high, none, none > 0), np.full(3, 100))
    # Two of the three files hold nearly the same value, and the third is apart.
    assert 1.0 < touched(column, np.full(3, 100.0)) < 1.7


def test_very_thin_files_beside_a_very_wide_one() -> None:
    none, rows = np.zeros(5, np.int64), np.array([8.9e11, 1.1e12, 6.7e11, 8.1e11, 5.0])
    low, high = (
        pa.array([31e-279, 13e-279, 2e-279, 0.0, -1.7e308]),
        pa.array([43e-279, 26e-279, 16e-279, 4e-279, 1.7e308]),
    )
    column = rank_bounds(ColumnBounds(low, high, none, none > 0), np.full(5, 2**40))
    assert 1.0 < touched(column, rows) < 5.0
