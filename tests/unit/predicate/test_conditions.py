"""Conditions of workloads: constant expressions, and the reasons for what cannot be used."""

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from zlayout.predicate.model import (
    And,
    Compare,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    TextOnly,
    Value,
    columns,
    conjunction,
    rejects_null,
    renamed,
    starts_with,
)
from zlayout.predicate.prune import may_match
from zlayout.predicate.rules import MAX_IN_VALUES, Reason, UnusableError, condition
from zlayout.table.state import ColumnBounds

ONE, TWO, THREE = (Compare("a", "=", n) for n in (1, 2, 3))


def read(sql: str) -> Predicate:
    return condition(parse_one(sql, read="spark", into=exp.Condition), lambda column: str(column.sql())).predicate


def why(sql: str) -> Reason:
    with pytest.raises(UnusableError) as caught:
        read(sql)
    return caught.value.reason


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("DATE '2026-01-31' + INTERVAL 1 MONTH", date(2026, 2, 28)),
        ("DATE '2026-11-30' + INTERVAL 1 QUARTER", date(2027, 2, 28)),
        ("DATE '2026-05-15' + INTERVAL 1 YEAR", date(2027, 5, 15)),
        ("DATE '2026-03-01' - INTERVAL 3 DAYS", date(2026, 2, 26)),
        ("DATE '2026-03-01' + INTERVAL 2 WEEK", date(2026, 3, 15)),
        ("TIMESTAMP '2026-03-01 00:00:00' - INTERVAL 2 HOURS", datetime(2026, 2, 28, 22)),
        ("date_add('2026-02-27', 2)", date(2026, 3, 1)),
        ("add_months('2026-10-31', 4)", date(2027, 2, 28)),
        ("2 * 3 - 1", 5),
        ("-(1.5 + 1)", Decimal("-2.5")),
        ("CAST('7' AS BIGINT)", 7),
        ("CAST(2.0 AS INT)", 2),
    ],
)
def test_constant_expressions_are_computed(constant: str, value: Value) -> None:
    found = read(f"a < {constant}")
    assert found == Compare("a", "<", value)
    assert isinstance(found, Compare)
    assert type(found.value) is type(value)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("a = b", Reason.TWO_COLUMNS),
        ("a = rand()", Reason.NOT_CONSTANT),
        ("length(a) = 1", Reason.EXPRESSION),
        ("1 = length(a)", Reason.NOT_CONSTANT),
        ("a BETWEEN SYMMETRIC 5 AND 1", Reason.NOT_CONSTANT),
        ("a = CAST(2.5 AS INT)", Reason.NOT_CONSTANT),
        ("a = NULL", Reason.NOT_CONSTANT),
        ("a IN (1, NULL)", Reason.NOT_CONSTANT),
        (f"a IN ({', '.join(map(str, range(MAX_IN_VALUES + 1)))})", Reason.NOT_CONSTANT),
        ("a NOT LIKE 'x%'", Reason.NEGATED),
        ("a LIKE '_x'", Reason.NO_PREFIX),
        ("a LIKE 'x%' ESCAPE '//'", Reason.NO_PREFIX),
        ("a LIKE b", Reason.TWO_COLUMNS),
        ("a RLIKE 'x'", Reason.NOT_SUPPORTED),
        ("a = (SELECT 1)", Reason.SUBQUERY),
    ],
)
def test_what_cannot_be_used_has_a_reason(sql: str, reason: Reason) -> None:
    assert why(sql) == reason


@pytest.mark.parametrize(
    ("sql", "predicate"),
    [
        ("a", Compare("a", "=", True)),
        ("a LIKE 'x'", Compare("a", "=", TextOnly("x"))),
        ("a LIKE 'x%'", starts_with("a", "x")),
        ("startswith(a, 'x')", starts_with("a", "x")),
        (r"a LIKE 'x\\_y_z'", starts_with("a", "x")),  # engines differ in what the backslash means
        (r"a LIKE 'x\\%'", starts_with("a", "x")),
        (r"a LIKE 'x\\_y_z' ESCAPE '\\'", starts_with("a", "x_y")),
        ("a LIKE 'x/%y%z' ESCAPE '/'", starts_with("a", "x%y")),
        ("a LIKE 'x/%y' ESCAPE '/'", Compare("a", "=", TextOnly("x%y"))),
    ],
)
def test_conditions_on_text_and_booleans(sql: str, predicate: Predicate) -> None:
    assert read(sql) == predicate


def test_as_many_values_as_allowed_are_used() -> None:
    found = read(f"a IN ({', '.join(map(str, range(MAX_IN_VALUES)))})")
    assert isinstance(found, In)
    assert len(found.values) == MAX_IN_VALUES


def test_a_conjunction_is_flat_and_one_part_stays_as_it_is() -> None:
    assert conjunction([]) is None
    assert conjunction([ONE]) == ONE
    assert conjunction([ONE, And((TWO, THREE))]) == And((ONE, TWO, THREE))
    assert columns(And((ONE, Compare("b", "=", 1)))) == {"a", "b"}
    assert rejects_null(And((ONE, TWO)))


def test_all_columns_of_a_predicate_are_renamed() -> None:
    predicate = And((ONE, Not(Or((In("a", (1,)), IsNull("b"))))))
    expected = And((Compare("x", "=", 1), Not(Or((In("x", (1,)), IsNull("y"))))))
    assert renamed(predicate, {"a": "x", "b": "y"}) == expected
    with pytest.raises(KeyError):
        renamed(predicate, {"a": "x"})


@pytest.mark.parametrize("sql", ["a LIKE '5%'", "a LIKE '50'", "startswith(a, '5')", "substr(a, 1, 1) = '5'"])
def test_beginnings_of_numbers_exclude_no_file(sql: str) -> None:
    """50 begins with 5, and is neither equal to 5 nor between 5 and 6."""
    values = pa.array([50], pa.int64())
    bounds = ColumnBounds(values, values, np.zeros(1, np.int64), np.zeros(1, bool))
    assert may_match(read(sql), {"a": bounds}, np.ones(1, np.int64)).all()
    texts = pa.array(["60"])
    bounds = ColumnBounds(texts, texts, np.zeros(1, np.int64), np.zeros(1, bool))
    assert not may_match(read(sql), {"a": bounds}, np.ones(1, np.int64)).any()
