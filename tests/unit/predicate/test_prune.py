"""Pruning by bounds, against SQL's three-valued logic row by row."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.advisor.tables import bounds_of, holds, matching_rows

from zlayout.advisor.costs import points
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value
from zlayout.predicate.prune import may_match
from zlayout.table.state import ColumnBounds
from zlayout.workload.event_log import pushed_filters

NUMBERS = st.integers(-3, 12)
COLUMNS = st.sampled_from(["a", "b"])
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
LEAVES: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(Compare, COLUMNS, OPERATORS, NUMBERS),
    st.builds(In, COLUMNS, st.lists(NUMBERS, min_size=1, max_size=3).map(tuple)),
    st.builds(IsNull, COLUMNS),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)
CELLS = st.one_of(st.none(), st.integers(0, 9))
ROWS = st.lists(st.tuples(CELLS, CELLS, st.integers(0, 4)), min_size=1, max_size=25)


@settings(deadline=None)
@given(PREDICATES, ROWS)
def test_a_file_with_a_matching_row_stays_and_single_rows_are_decided_exactly(
    predicate: Predicate, rows: list[tuple[int | None, int | None, int]]
) -> None:
    data = {"a": pa.array([r[0] for r in rows], pa.int64()), "b": pa.array([r[1] for r in rows], pa.int64())}
    match = matching_rows(predicate, data)
    assert may_match(predicate, points(data), np.ones(len(rows), np.int64)).tolist() == match.tolist()
    file = np.array([r[2] for r in rows])
    stays = may_match(predicate, {c: bounds_of(v, file, 5) for c, v in data.items()}, np.bincount(file, minlength=5))
    assert stays[np.unique(file[match])].all()


@settings(deadline=None)
@given(st.builds(Compare, st.just("a"), OPERATORS, NUMBERS), ROWS)
def test_one_comparison_rules_out_all_that_its_bounds_can(
    predicate: Compare, rows: list[tuple[int | None, int | None, int]]
) -> None:
    values, file = pa.array([r[0] for r in rows], pa.int64()), np.array([r[2] for r in rows])
    count = np.bincount(file, minlength=5)
    bounds = bounds_of(values, file, 5)
    stays = may_match(predicate, {"a": bounds}, count)
    for at, (low, high) in enumerate(zip(bounds.lower.to_pylist(), bounds.upper.to_pylist(), strict=True)):
        possible = low is not None and any(holds(predicate, {"a": v}) for v in range(low, high + 1))
        assert stays[at] == possible


def test_a_list_of_no_values_matches_nothing() -> None:
    values = pa.array([1, None], pa.int64())
    bounds, rows = points({"c": values}), np.ones(2, np.int64)
    assert may_match(In("c", ()), bounds, rows).tolist() == [False, False]
    assert may_match(Not(In("c", ())), bounds, rows).tolist() == [True, True]


def test_nulls_differ_from_what_they_are_compared_with_null_safely() -> None:
    ((different,), _) = pushed_filters("[Not(EqualNullSafe(c,5))]")
    ((equal,), _) = pushed_filters("[EqualNullSafe(c,5)]")
    bounds = {"c": bounds_of(pa.array([5, None, 5, 5, None, None], pa.int64()), np.array([0, 0, 1, 1, 2, 2]), 3)}
    rows = np.array([2, 2, 2])
    assert may_match(different, bounds, rows).tolist() == [True, False, True]
    assert may_match(equal, bounds, rows).tolist() == [True, True, False]


DAY = pa.array([date(1995, 6, 17), None], pa.date32())
PRICE = pa.array([Decimal("0.05"), None], pa.decimal128(15, 2))
TINY = pa.array([Decimal("1E-25"), None], pa.decimal128(38, 25))
INSTANT = pa.array([datetime(2026, 1, 2, 12, tzinfo=UTC), None], pa.timestamp("us", "UTC"))
CASES = [
    (DAY, Compare("c", "=", "1995-06-17"), True),
    (DAY, Compare("c", "<", date(1995, 6, 17)), False),
    (DAY, Compare("c", "<", datetime(1995, 6, 17, 1)), True),
    (PRICE, Compare("c", ">=", Decimal("0.050")), True),
    (PRICE, Compare("c", ">", Decimal("0.0500000001")), False),
    (PRICE, Compare("c", "<", 1), True),
    (TINY, Compare("c", "<=", Decimal("1E-25")), True),
    (TINY, Compare("c", "<", Decimal("1E-25")), False),
    (PRICE, Compare("c", ">", 0.5), False),
    (INSTANT, Compare("c", ">", date(2026, 1, 2)), True),
    (INSTANT, Compare("c", "=", "2026-01-02 12:00:00"), True),
    (pa.array([24, None]), Compare("c", "<", Decimal("24.5")), True),
    (pa.array([24, None]), Compare("c", "<", Decimal("23.5")), False),
    (pa.array([24, None]), Compare("c", "=", "25"), False),
    # a long beside a double is a double, which has no odd numbers above 2^53
    (pa.array([2**53 + 1, None]), Compare("c", ">", 1e3), True),
    (pa.array([2**53 + 1, None]), Compare("c", "<", 1e3), False),
    (pa.array([2**53 + 1, None]), Compare("c", "=", 2.0**53), True),
    (pa.array([2**53 + 1, None]), Compare("c", "=", 2.0**53 + 2), False),
    (pa.array([24, None], pa.int32()), Compare("c", "<", 23.5), False),
    (pa.array([1.5, None]), Compare("c", "<=", Decimal("1.5")), True),
    (pa.array([1.5, None]), Compare("c", "<", 1), False),
    (pa.array(["Ab", None]), Compare("c", "<", "B"), True),
    (pa.array([True, None]), Compare("c", "=", True), True),
    # what does not compare rules nothing out
    (pa.array([24, None]), Compare("c", "=", "no number"), True),
]


@pytest.mark.parametrize(("values", "predicate", "expected"), CASES)
def test_literals_compare_as_in_spark(values: pa.Array, predicate: Predicate, expected: bool) -> None:
    assert may_match(predicate, points({"c": values}), np.ones(2, np.int64))[0] == expected


def test_a_column_without_bounds_and_a_cut_bound_rule_nothing_out() -> None:
    rows = np.array([2, 2])
    assert may_match(Compare("x", "=", 1), {}, rows).all()
    bounds = bounds_of(pa.array(["ab", "ab", "c", "c"]), np.array([0, 0, 1, 1]), 2)
    assert may_match(Compare("x", "!=", "ab"), {"x": bounds}, rows).tolist() == [False, True]
    bounds.truncated[0] = True
    assert may_match(Compare("x", "!=", "ab"), {"x": bounds}, rows).tolist() == [True, True]


MANY = [
    (pa.int64(), [*range(-50, 50, 3), 2**70, "7", Decimal("4"), Decimal("4.5"), 5.0, "x", True]),
    (pa.int32(), [*range(0, 90, 3), 2**40]),
    (pa.string(), ["", *(f"k{n:02}" for n in range(0, 99, 2)), "ü", 5]),
    (pa.date32(), [*(date(2026, 1, 1 + n) for n in range(25)), "2026-02-03", datetime(2026, 1, 3, 5)]),
    (pa.timestamp("us", "UTC"), [*(datetime(2026, 1, 1, n, tzinfo=UTC) for n in range(23)), date(2026, 1, 2)]),
    (pa.float64(), [n / 4 for n in range(40)]),
    (pa.decimal128(10, 2), [Decimal(n) / 4 for n in range(40)]),
]


@pytest.mark.parametrize(("type_", "values"), MANY, ids=[str(type_) for type_, _ in MANY])
@pytest.mark.parametrize("seed", range(3))
def test_many_values_are_decided_as_one_after_the_other(type_: pa.DataType, values: list[Any], seed: int) -> None:
    random = np.random.default_rng(seed)
    stored = pa.array([value for value in values[:20] if type(value) is type(values[1])], type_)
    ends = np.sort(random.integers(0, len(stored), (60, 2)), axis=1)
    sides = [stored.take(pa.array(side, mask=random.random(60) < 0.15)) for side in ends.T]
    nulls, rows = np.where(random.random(60) < 0.1, 9, 0), np.full(60, 9)
    bounds = {"a": ColumnBounds(*sides, nulls, np.zeros(60, bool))}
    for chosen in (values, values[::-1], values[:21], values[3:25], values[:22:2] * 2, [True, *values[:30]]):
        expected = np.zeros(60, bool)
        for value in chosen:
            expected |= may_match(Compare("a", "=", value), bounds, rows)
        assert may_match(In("a", tuple(chosen)), bounds, rows).tolist() == expected.tolist()
        either = Or(tuple(Compare("a", "=", value) for value in chosen))
        assert may_match(either, bounds, rows).tolist() == expected.tolist()
        assert may_match(Or((either, Compare("b", "<", 3))), bounds, rows).all()


def test_thousands_of_alternatives_are_compared_at_once() -> None:
    class Counted(dict[str, ColumnBounds]):
        read = 0

        def __getitem__(self, column: str) -> ColumnBounds:
            self.read += 1
            return super().__getitem__(column)

        def get(self, column: str, default: Any = None) -> Any:
            self.read += 1
            return super().get(column, default)

    rows = 20_000
    bounds = Counted(points({"a": pa.array(np.arange(rows))}))
    either = Or(tuple(Compare("a", "=", 5 * n) for n in range(3000)))
    found = may_match(either, bounds, np.ones(rows, np.int64))
    assert (np.flatnonzero(found) == np.arange(0, 15_000, 5)).all()
    assert 0 < bounds.read < 10


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()])
def test_integers_of_any_size_are_compared_as_numbers(kind: pa.DataType) -> None:
    most = 2 ** (kind.bit_width - 1)
    edges = [-most, -most + 1, -1, 0, 1, most - 1]
    pairs = [(low, high) for low in edges for high in edges if low <= high]
    for nulls in ([], [(None, 5), (5, None), (None, None)]):
        lower, upper = zip(*pairs, *nulls, strict=True)
        rows = np.full(len(lower), 3, np.int64)
        bounds = ColumnBounds(pa.array(lower, kind), pa.array(upper, kind), rows * 0, rows > 5)
        for value in [*edges, 2**40, 2**63 - 1, -(2**63)]:
            for operator, expected in {
                "=": lambda low, high, v: low <= v <= high,
                "<": lambda low, _, v: low < v,
                "<=": lambda low, _, v: low <= v,
                ">": lambda _, high, v: high > v,
                ">=": lambda _, high, v: high >= v,
                "!=": lambda low, high, v: low != v or high != v,
            }.items():
                found = may_match(Compare("c", operator, value), {"c": bounds}, rows)[: len(pairs)]
                assert found.tolist() == [expected(low, high, value) for low, high in pairs], (operator, value)


DATES = [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2026, 11, 29), date(9999, 12, 31)]
CENTS = [Decimal(text) for text in ("-9999999999999999.99", "-0.01", "0.00", "1.25", "9999999999999999.99")]


@pytest.mark.parametrize(
    ("kind", "edges", "others"),
    [
        (pa.date32(), DATES, [date(1969, 12, 30), date(2000, 2, 29)]),
        # Literals of other scales, between two values, of other types, and beyond 64 bits.
        (pa.decimal128(18, 2), CENTS, [*map(Decimal, ("1.2", "1.250000", "1.255", "1E+30")), 1, -1, 2**70]),
        (pa.decimal128(30, 2), CENTS, [Decimal("1.255"), 2**70]),
    ],
)
@pytest.mark.parametrize("first", [0, 3])
def test_dates_and_decimals_are_compared_as_numbers(
    kind: pa.DataType, edges: list[Value], others: list[Value], first: int
) -> None:
    pairs = [(low, high) for i, low in enumerate(edges) for high in edges[i:]]
    compared: dict[Operator, Callable[[Any, Any, Any], bool]] = {
        "=": lambda low, high, v: low <= v <= high,
        "<": lambda low, _, v: low < v,
        "<=": lambda low, _, v: low <= v,
        ">": lambda _, high, v: high > v,
        ">=": lambda _, high, v: high >= v,
        "!=": lambda low, high, v: low != v or high != v,
    }
    for nulls in ([], [(None, edges[0]), (None, None)]):
        lower, upper = (pa.array(side, kind).slice(first) for side in zip(*pairs, *nulls, strict=True))
        rows = np.full(len(lower), 3, np.int64)
        bounds = {"c": ColumnBounds(lower, upper, rows * 0, rows > 5)}
        known = pairs[first:]
        for value in [*edges, *others]:
            for operator, expected in compared.items():
                found = may_match(Compare("c", operator, value), bounds, rows)[: len(known)]
                assert found.tolist() == [expected(low, high, value) for low, high in known], (operator, value)
        values = (*others, edges[1])
        found = may_match(In("c", values), bounds, rows)[: len(known)]
        assert found.tolist() == [any(low <= v <= high for v in values) for low, high in known]
