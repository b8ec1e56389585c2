"""depth, overlaps and touched against brute force, the published example, and tables whose answer is plain."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.metrics import column_metrics, depth, distinct_estimate, overlaps, touched

from zlayout.table import ranks as segments
from zlayout.table import state as side_by_side
from zlayout.table.metrics import layout_metrics
from zlayout.table.ranks import Ranked, rank_bounds
from zlayout.table.state import ColumnBounds, FileTable

MakeFiles = Callable[..., FileTable]
Interval = tuple[int, int]
INT64 = pa.int64()
bound = st.none() | st.integers(0, 30)
rows_of_files = st.lists(st.tuples(bound, bound, st.integers(0, 2), st.booleans()), max_size=40)


def column(lower: list[Any], upper: list[Any], nulls: list[int] | None = None, kind: Any = INT64) -> Ranked:
    null_count = np.array(nulls if nulls is not None else [0] * len(lower), np.int64)
    return rank_bounds(
        ColumnBounds(pa.array(lower, kind), pa.array(upper, kind), null_count, np.zeros(len(lower), bool)),
        np.full(len(lower), 10, np.int64),
    )


def spelled_out(
    files: list[tuple[int | None, int | None, int, bool]],
) -> tuple[list[Any], list[Any], list[int], list[Any]]:
    """Lower, upper, null counts, and each file's interval on the integers (None: holds no value)."""
    lower: list[Any] = []
    upper: list[Any] = []
    nulls: list[int] = []
    intervals: list[Any] = []
    for low, high, _, all_null in files:
        if all_null:
            low = high = None
        elif low is not None and high is not None and low > high:
            low, high = high, low
        lower.append(low)
        upper.append(high)
        nulls.append(10 if all_null else 0)
        intervals.append(None if all_null else (-99 if low is None else low, 99 if high is None else high))
    return lower, upper, nulls, intervals


def met(intervals: list[Interval | None], owners: list[int], f: int, point: int) -> int:
    return sum(
        1 for i, o in zip(intervals, owners, strict=True) if i is not None and o == owners[f] and i[0] <= point <= i[1]
    )


@given(rows_of_files)
def test_depth_and_overlaps_equal_brute_force_per_partition(files: Any) -> None:
    lower, upper, nulls, intervals = spelled_out(files)
    owners = [f[2] for f in files]
    ranked = column(lower, upper, nulls)
    partition = np.array(owners, np.int32)
    deepest = [
        0 if i is None else max(met(intervals, owners, f, p) for p in range(max(i[0], -99), min(i[1], 99) + 1))
        for f, i in enumerate(intervals)
    ]
    meeting = [
        0
        if i is None
        else sum(
            1
            for g, j in enumerate(intervals)
            if g != f and j is not None and owners[g] == owners[f] and j[0] <= i[1] and i[0] <= j[1]
        )
        for f, i in enumerate(intervals)
    ]
    assert depth(ranked, partition, 3).tolist() == deepest
    assert overlaps(ranked, partition, 3).tolist() == meeting


@given(rows_of_files, st.randoms(use_true_random=False))
def test_order_of_the_files_does_not_matter(files: Any, random: Any) -> None:
    shuffled = list(files)
    random.shuffle(shuffled)
    values = []
    for one in (files, shuffled):
        lower, upper, nulls, _ = spelled_out(one)
        ranked, owners = column(lower, upper, nulls), np.array([f[2] for f in one], np.int32)
        weights = np.array([1.0 + (f[0] or 0) for f in one])
        values.append((touched(ranked, weights, owners, 3), sorted(depth(ranked, owners, 3))))
    assert values[0][0] == pytest.approx(values[1][0], rel=1e-9)
    assert values[0][1] == values[1][1]


@example(
    [
        (None, None, 0, False),
        (None, 11, 1, False),
        (None, 15, 1, False),
        (5, None, 1, False),
        (11, None, 0, False),
        (23, 13, 1, False),
    ]
)
@given(rows_of_files)
def test_all_partitions_at_once_equal_one_by_one(files: Any) -> None:
    lower, upper, nulls, intervals = spelled_out(files)
    owners = np.array([f[2] for f in files], np.int32)
    weights = np.array([1.0 + (f[0] or 0) for f in files])
    apart = 0.0
    for p in range(3):
        rows = np.flatnonzero(owners == p)
        ranked = column([lower[i] for i in rows], [upper[i] for i in rows], [nulls[i] for i in rows])
        one = touched(ranked, weights[rows])
        files_with_values = sum(intervals[i] is not None for i in rows)
        assert min(files_with_values, 1) <= one + 1e-9
        assert one <= files_with_values + 1e-9
        apart += one
    together = touched(column(lower, upper, nulls), weights, owners, 3)
    assert together == pytest.approx(apart, rel=1e-6, abs=1e-9)


@given(st.lists(st.tuples(bound, bound, st.integers(0, 6), st.booleans()), max_size=40), st.integers(1, 8))
def test_many_partitions_are_measured_in_blocks(files: Any, size: int) -> None:
    lower, upper, nulls, _ = spelled_out(files)
    ranked, owners = column(lower, upper, nulls), np.array([f[2] for f in files], np.int32)
    weights = np.array([1.0 + (f[0] or 0) for f in files])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "FILES_PER_BLOCK", size)
        deepest, met = depth(ranked, owners, 7).tolist(), touched(ranked, weights, owners, 7)
    assert deepest == depth(ranked, owners, 7).tolist()
    assert met == pytest.approx(touched(ranked, weights, owners, 7), rel=1e-9)


def test_published_example_of_snowflake(make_files: MakeFiles) -> None:
    metrics = column_metrics(make_files({"c": ([2, 3, 5], [4, 6, 5])}), "c")
    assert metrics.overlaps == pytest.approx(1.3333, abs=1e-4)
    assert metrics.depth == 2.0
    assert [b.files for b in metrics.depth_histogram] == [0, 3] + [0] * 14


def test_touched_with_point_masses_is_exact() -> None:
    # 30 rows of 1, 10 rows of 2: P(1) = 3/4 opens the first file only, P(2) = 1/4 the second.
    assert touched(column([1, 2], [1, 2]), np.array([30.0, 10.0])) == 1.0
    # Three files of value 1 (10 rows each) and one of 2: 3/4 * 3 + 1/4 * 1.
    assert touched(column([1, 1, 1, 2], [1, 1, 1, 2]), np.full(4, 10.0)) == 2.5


def test_touched_of_one_overlap_worked_by_hand() -> None:
    # [0, 9] and [5, 14], one row on each bound and none elsewhere: 0 and 14 meet one file, 9 and 5 meet two.
    assert touched(column([0, 5], [9, 14]), np.array([2.0, 2.0])) == 1.5


def test_files_that_all_span_everything_are_all_touched() -> None:
    assert touched(column(["AIR"] * 50, ["TRUCK"] * 50, kind=pa.string()), np.full(50, 1000.0)) == pytest.approx(50)


def test_seven_values_clustered_touch_a_seventh() -> None:
    modes = sorted(["MAIL", "AIR", "REG AIR", "TRUCK", "FOB", "RAIL", "SHIP"] * 8)
    assert touched(column(modes, modes, kind=pa.string()), np.full(56, 100.0)) == pytest.approx(8)


def test_one_outlier_file_does_not_fool_it() -> None:
    low, high = [0] * 100, [1000] * 99 + [10**18]
    assert touched(column(low, high), np.full(100, 1000.0)) == pytest.approx(100, rel=0.02)
    stairs = column([*range(0, 990, 10), 0], [*range(9, 999, 10), 10**18])
    assert touched(stairs, np.full(100, 1000.0)) == pytest.approx(2, rel=0.02)


def test_unbounded_files_are_always_touched() -> None:
    assert touched(column([None] * 5, [None] * 5), np.full(5, 7.0)) == 5.0
    assert touched(column([1, 2, None], [1, 2, None]), np.full(3, 9.0)) == pytest.approx(2.0)


def test_partition_of_unbounded_files_beside_one_with_bounds() -> None:
    ranked = column([None, None, 1, 2], [None, None, 1, 2])
    assert touched(ranked, np.full(4, 9.0), np.array([0, 0, 1, 1], np.int32), 2) == 3.0


def test_nothing_to_measure(make_files: MakeFiles) -> None:
    empty = column_metrics(make_files({"c": ([], [])}, kind=pa.string()), "c")
    assert (empty.files, empty.touched, empty.depth, empty.overlaps, empty.floor) == (0, 0.0, 0.0, 0.0, 0.0)
    one = column_metrics(make_files({"c": ([1], [9])}), "c")
    assert (one.files, one.touched, one.depth, one.overlaps, one.floor) == (1, 1.0, 1.0, 0.0, 1.0)


def test_all_null_files_are_not_counted_in_averages(make_files: MakeFiles) -> None:
    files = make_files({"c": ([None, 1, 1], [None, 2, 2])}, kind=pa.int32())
    nulls = replace(files.bounds["c"], null_count=np.array([10, 0, 0]))
    metrics = column_metrics(replace(files, bounds={"c": nulls}), "c")
    assert (metrics.all_null, metrics.unbounded, metrics.depth, metrics.overlaps) == (1, 0, 2.0, 1.0)
    assert metrics.touched == pytest.approx(2.0)
    all_null = replace(nulls, null_count=np.full(3, 10), lower=pa.nulls(3, pa.int32()), upper=pa.nulls(3, pa.int32()))
    nothing = column_metrics(replace(files, bounds={"c": all_null}), "c")
    assert (nothing.touched, nothing.depth, nothing.all_null) == (0.0, 0.0, 3)


def test_deleted_and_null_rows_have_no_weight(make_files: MakeFiles) -> None:
    files = make_files({"c": ([1, 1, 2], [1, 1, 2])}, rows=[100, 100, 100])
    files = replace(files, deleted=np.array([0, 0, 50]))
    files = replace(files, bounds={"c": replace(files.bounds["c"], null_count=np.array([75, 75, -1]))})
    # 50 rows of value 1 in two files, 50 rows of value 2 in one.
    assert column_metrics(files, "c").touched == pytest.approx(1.5)


def test_partition_whose_rows_are_all_deleted_still_counts(make_files: MakeFiles) -> None:
    files = make_files({"c": ([1, 1], [1, 1])})
    assert column_metrics(replace(files, deleted=files.rows), "c").touched == 2.0


def test_metrics_are_per_partition(make_files: MakeFiles) -> None:
    files = make_files({"c": ([1, 3, 1, 1], [2, 4, 9, 9])}, partition=[0, 0, 1, 1])
    metrics = column_metrics(files, "c")
    assert metrics.touched == pytest.approx(3.0)  # 1 in the first partition, 2 in the second
    assert metrics.depth == 1.5
    assert metrics.overlaps == 0.5
    assert metrics.partitions == 2


def test_a_floor_is_shown_only_where_bounds_prove_it(make_files: MakeFiles) -> None:
    low, high = [0] * 64, [10**6] * 64
    files = make_files({"a": (low, high), "b": (list(range(64)), list(range(64))), "c": ([0] * 64, [1] * 64)})
    # of `a` nothing is known but that touched is 64; `b` is 1 already; two values fill 32 files each or more
    assert [m.floor for m in layout_metrics(files, ["a", "b"])] == [None, 1.0]
    assert [m.floor for m in layout_metrics(files, ["c"])] == [None]
    assert layout_metrics(files, []) == ()


def test_files_of_one_value_show_how_often_values_occur(make_files: MakeFiles) -> None:
    # eight files of ten rows: six of value 1 and two of value 2 touch 0.75 * 6 + 0.25 * 2 files in any layout
    one = make_files({"c": ([1] * 6 + [2] * 2, [1] * 6 + [2] * 2)}, rows=[10] * 8)
    assert column_metrics(one, "c").floor == pytest.approx(5.0)
    # a file of 60 rows could hold all rows of value 1
    uneven = make_files({"c": ([1, 1, 2, 2], [1, 1, 2, 2])}, rows=[60, 20, 10, 10])
    assert column_metrics(uneven, "c").floor == pytest.approx(0.8 * 80 / 60 + 0.2)


@pytest.mark.parametrize("columns", [("a",), ("a", "b")])
def test_threads_measure_what_one_would(
    columns: tuple[str, ...], make_files: MakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    low = np.random.default_rng(3).integers(0, 1000, 200)
    files = make_files({"a": (low.tolist(), (low + 50).tolist()), "b": (low.tolist(), [2000] * 200)})
    plain = repr(layout_metrics(files, columns))
    monkeypatch.setattr(side_by_side, "MIN_FILES_FOR_THREADS", 0)
    assert repr(layout_metrics(files, columns)) == plain


def test_the_floor_is_summed_over_partitions(make_files: MakeFiles) -> None:
    files = make_files({"a": ([0, 1, 7, 7], [0, 1, 7, 7])}, partition=[0, 0, 2, 2], rows=[5] * 4)
    assert column_metrics(files, "a").floor == pytest.approx(1.0 + 2.0)


def test_distinct_estimate() -> None:
    assert distinct_estimate(column([3, 5], [7, 12])).tolist() == [10.0]
    assert distinct_estimate(column([False, False], [True, True], kind=pa.bool_())).tolist() == [2.0]
    assert distinct_estimate(column([0.5, 1], [3, 4], kind=pa.float64())).tolist() == [np.inf]
    assert distinct_estimate(column(["a"] * 90, ["z"] * 90, kind=pa.string())).tolist() == [np.inf]
    assert distinct_estimate(column([None], [None])).tolist() == [np.inf]
    assert distinct_estimate(column(["k"], ["k"], kind=pa.string())).tolist() == [1.0]
    assert distinct_estimate(column(["k", "l"], ["k", "l"], kind=pa.string())).tolist() == [2.0]
    assert distinct_estimate(column(["k", "l"], ["k", "m"], kind=pa.string())).tolist() == [np.inf]
    clustered = ["a", "b", "c"] * 4
    assert distinct_estimate(column(clustered, clustered, kind=pa.string())).tolist() == [3.0]
    by_partition = distinct_estimate(column([1, 10], [4, 11]), np.array([0, 2], np.int32), 3)
    assert by_partition.tolist() == [4.0, 0.0, 2.0]
