"""Cuts at declared values: no file is on both sides of one, and files keep about the same number of rows."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.curve.kd import MAX_FACTOR, divide_files, first_on_the_right
from zlayout.curve.layout import FileMap, build
from zlayout.predicate.model import Compare, Operator, Value

ROWS, FILES = 20_000, 20
RANDOM = np.random.default_rng(4)
DAYS = pa.array(np.datetime64("2026-01-01") + RANDOM.integers(0, 100, ROWS))
TENANTS = pa.array([f"t{n}" for n in np.minimum(RANDOM.zipf(1.5, ROWS), 500)])
SAMPLE = {"day": DAYS, "tenant": TENANTS}
MIDDLE = Compare("day", "<", date(2026, 2, 10))
FIRST_TENANT = (Compare("tenant", "<", "t1"), Compare("tenant", "<=", "t1"))


def laid_out(*cuts: Compare, files: int = FILES, **settings: Any) -> FileMap:
    return build(SAMPLE, {}, "workload", 1000, files, **{"noise": False, **settings}, cuts=cuts)


def sides(layout: FileMap, cut: Compare) -> list[set[bool]]:
    """For each file, on which sides of a cut it has rows."""
    file = layout.locate(SAMPLE)
    values = SAMPLE[cut.column].to_pylist()
    left = np.array([v <= cut.value if cut.operator == "<=" else v < cut.value for v in values])
    return [set(left[file == number].tolist()) for number in range(layout.files)]


@pytest.mark.parametrize("cuts", [(MIDDLE,), FIRST_TENANT, (*FIRST_TENANT, MIDDLE)])
def test_no_file_is_on_both_sides_of_a_cut_that_leaves_whole_files(cuts: tuple[Compare, ...]) -> None:
    layout = laid_out(*cuts)
    assert layout.files == FILES
    assert all(len(found) == 1 for found in sides(layout, cuts[0]))
    rows = np.bincount(layout.locate(SAMPLE), minlength=FILES) / (ROWS / FILES)
    assert 1 / MAX_FACTOR <= rows.min() <= rows.max() <= MAX_FACTOR


@pytest.mark.parametrize(
    ("left", "rows", "files", "found", "valid"),
    [
        (100, 1000, 10, 1, True),
        (900, 1000, 10, 9, True),
        (340, 1000, 10, 3, True),
        (67, 500, 5, 1, True),  # 67 * 1.5 >= 100
        (66, 500, 5, 1, False),
        (150, 200, 2, 1, False),  # 50 * 1.5 < 100
        (150, 300, 2, 1, True),
        (151, 302, 2, 1, False),
        (499, 500, 5, 4, False),
        (0, 500, 5, 1, False),
        (0, 0, 2, 1, False),
    ],
)
def test_files_are_divided_in_proportion_to_the_rows(left: int, rows: int, files: int, found: int, valid: bool) -> None:
    number, is_whole = divide_files(np.array([left]), rows, files, file_rows=100.0)
    assert (number.tolist(), is_whole.tolist()) == ([found], [valid])


def test_quantiles_leave_files_on_both_sides() -> None:
    quantiles = build(SAMPLE, {}, "kd", 1000, FILES, noise=False)
    assert any(len(found) == 2 for found in sides(quantiles, MIDDLE))


def test_the_first_cut_that_leaves_whole_files_divides_a_part() -> None:
    tiny = Compare("day", "<", date(2026, 1, 2))  # a hundredth of the rows: a fifth of a file
    outside = Compare("day", "<", date(2027, 1, 1))
    assert all(len(found) == 1 for found in sides(laid_out(tiny, outside, MIDDLE), MIDDLE))
    two = laid_out(MIDDLE, Compare("day", "<", date(2026, 2, 11)), files=2)
    assert all(len(found) == 1 for found in sides(two, MIDDLE))


def test_without_a_possible_cut_the_files_are_those_of_kd() -> None:
    quantiles = build(SAMPLE, {}, "kd", 1000, FILES, noise=False)
    impossible = laid_out(Compare("tenant", "<", 5), Compare("day", "<", date(1900, 1, 1)))
    assert np.array_equal(impossible.locate(SAMPLE), quantiles.locate(SAMPLE))


def test_a_boundary_is_the_literal_and_not_the_nearest_value_of_the_sample() -> None:
    even = {"n": pa.array(np.arange(0, 20_000, 2))}
    layout = build(even, {}, "workload", 1000, 4, noise=False, cuts=(Compare("n", "<", 10_001),))
    first = layout.locate({"n": pa.array([10_000, 10_001, 10_002])})
    assert first[0] < first[1] == first[2]


def test_nulls_are_on_the_left() -> None:
    keys = {"n": pa.array([None] * 500 + list(range(500)))}
    layout = build(keys, {}, "workload", 1000, 2, noise=False, cuts=(Compare("n", "<", 0),))
    assert layout.locate(keys).tolist() == [0] * 500 + [1] * 500


def test_rows_of_other_orders_have_the_same_files() -> None:
    order = RANDOM.permutation(ROWS)
    shuffled = {name: values.take(pa.array(order)) for name, values in SAMPLE.items()}
    again = build(shuffled, {}, "workload", 1000, FILES, noise=False, cuts=(*FIRST_TENANT, MIDDLE))
    assert np.array_equal(again.locate(SAMPLE), laid_out(*FIRST_TENANT, MIDDLE).locate(SAMPLE))


def test_cuts_divide_files_and_not_the_leaves_inside_them() -> None:
    layout = laid_out(MIDDLE, *FIRST_TENANT, depth_within=2)
    assert len(layout.tree.file) <= 4 * FILES
    assert np.array_equal(layout.locate(SAMPLE), laid_out(MIDDLE, *FIRST_TENANT).locate(SAMPLE))


def test_a_heavy_key_is_still_spread_by_noise() -> None:
    keys = {"n": pa.array([0] * 9_000 + list(range(1, 1_001)))}
    layout = build(keys, {}, "workload", 1000, 10, noise=True, cuts=(Compare("n", "<=", 0),))
    assert layout.files == 10
    assert int(layout.tree.spread.max()) == 9


EXAMPLES: list[tuple[pa.DataType, Value, list[Any]]] = [
    (pa.int32(), 5, [4, 5, 6]),
    (pa.int64(), Decimal("5.5"), [5, 6]),
    (pa.int64(), 2.0, [1, 2, 3]),
    (pa.decimal128(10, 2), Decimal("1.005"), [Decimal("1.00"), Decimal("1.01")]),
    (pa.decimal128(10, 2), Decimal("1.01"), [Decimal("1.00"), Decimal("1.01"), Decimal("1.02")]),
    (pa.decimal128(38, 4), Decimal(10**33), [Decimal(10**33), Decimal(10**33) + Decimal("0.0001")]),
    (pa.float64(), 0.1, [0.0, 0.1, float(np.nextafter(0.1, 1)), float("inf")]),
    (pa.float32(), 0.1, [0.0, float(np.float32(0.1)), 0.2]),
    (pa.string(), "b", ["", "a", "b", "b\0", "ba", "c"]),
    (pa.date32(), date(2026, 1, 2), [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)]),
    (pa.date32(), datetime(2026, 1, 2, 12), [date(2026, 1, 2), date(2026, 1, 3)]),
    (pa.date32(), "2026-01-02", [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)]),
    (pa.timestamp("us"), date(2026, 1, 2), [datetime(2026, 1, 1, 23), datetime(2026, 1, 2), datetime(2026, 1, 2, 1)]),
    (pa.bool_(), False, [False, True]),
    (pa.bool_(), True, [False, True]),
]


@pytest.mark.parametrize("operator", ["<", "<="])
@pytest.mark.parametrize(("type_", "value", "values"), EXAMPLES)
def test_the_first_value_on_the_right_of_each_type(
    type_: pa.DataType, value: Value, values: list[Any], operator: Operator
) -> None:
    found = first_on_the_right(Compare("c", operator, value), type_)
    literal: Any = date.fromisoformat(value) if type_ == pa.date32() and isinstance(value, str) else value
    on_the_left = []
    for each in values:
        one, other = each, literal
        if isinstance(literal, datetime) or isinstance(each, datetime):
            one, other = (v if isinstance(v, datetime) else datetime(v.year, v.month, v.day) for v in (one, other))
        on_the_left.append(one <= other if operator == "<=" else one < other)
    if found is None:
        assert len(set(on_the_left)) == 1
    else:
        assert on_the_left == [each < found.as_py() for each in values]


def test_a_zoned_timestamp_is_cut_at_the_instant() -> None:
    found = first_on_the_right(Compare("c", "<=", datetime(2026, 1, 2, tzinfo=UTC)), pa.timestamp("us", "UTC"))
    assert found.as_py() == datetime(2026, 1, 2, tzinfo=UTC) + timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("type_", "value"), [(pa.int8(), 127), (pa.int8(), 1000), (pa.int64(), "x"), (pa.list_(pa.int8()), 1)]
)
def test_a_cut_beyond_the_values_of_a_type_is_left_out(type_: pa.DataType, value: Value) -> None:
    assert first_on_the_right(Compare("c", "<=", value), type_) is None


@given(st.lists(st.integers(-20, 20), min_size=30, max_size=200), st.lists(st.integers(-25, 25), max_size=6))
def test_no_file_is_on_both_sides_of_the_cut_at_the_root(numbers: list[int], values: list[int]) -> None:
    keys = {"n": pa.array(numbers)}
    cuts = tuple(Compare("n", "<", value) for value in values)
    layout = build(keys, {}, "workload", 1000, 5, noise=False, cuts=cuts)
    file, found = layout.locate(keys), np.array(numbers)
    assert np.bincount(file, minlength=layout.files).sum() == len(numbers)
    if len(layout.tree.column) and cuts and len(layout.boundaries[0]):
        root = layout.boundaries[0][int(layout.tree.threshold[0]) - 1].as_py()
        assert not set(file[found < root].tolist()) & set(file[found >= root].tolist())
