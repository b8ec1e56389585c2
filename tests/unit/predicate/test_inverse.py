"""Conditions on functions of a column as conditions on the column, compared with the functions themselves."""

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from zlayout.predicate.parse import to_sql
from zlayout.predicate.prune import may_match
from zlayout.predicate.rules import Converted, UnusableError, condition
from zlayout.table.state import ColumnBounds

DAYS = [date(2025, 11, 20) + timedelta(days=n) for n in range(100)]
INSTANTS = [datetime(2025, 12, 29) + timedelta(hours=5 * n) for n in range(200)]
NUMBERS = [Decimal(n) / 4 for n in range(-20, 21)]
OPERATORS = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<>": lambda a, b: a != b,
}


def convert(sql: str) -> Converted:
    return condition(parse_one(sql, read="spark", into=exp.Condition), lambda column: str(column.sql()))


def matching(found: Converted, values: list[Any]) -> set[Any]:
    """The values of c for which the predicate is true."""
    column = pa.array(values)
    exact = np.zeros(len(values), np.int64)
    bounds = {"c": ColumnBounds(column, column, exact, exact.astype(bool))}
    return {v for v, yes in zip(values, may_match(found.predicate, bounds, exact + 1), strict=True) if yes}


def monday(value: date) -> date:
    return value - timedelta(days=value.weekday())


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    ("sql", "function", "constants"),
    [
        ("date(c)", lambda v: v.date(), [date(2026, 1, 5)]),
        ("c::date", lambda v: v.date(), [date(2026, 1, 5)]),
        ("to_date(c)", lambda v: v.date(), [date(2026, 1, 5)]),
        ("trunc(c, 'MM')", lambda v: v.date().replace(day=1), [date(2026, 1, 1), date(2026, 1, 5)]),
        ("trunc(c, 'week')", lambda v: monday(v.date()), [date(2026, 1, 5), date(2026, 1, 6)]),
        ("year(c)", lambda v: v.year, [2026]),
        ("extract(YEAR FROM c)", lambda v: v.year, [2026]),
        ("date_part('year', c)", lambda v: v.year, [2026]),
        ("date_add(c, 3)", lambda v: v.date() + timedelta(days=3), [date(2026, 1, 5)]),
        ("date_sub(c, 3)", lambda v: v.date() - timedelta(days=3), [date(2026, 1, 5)]),
        ("datediff('2026-01-10', c)", lambda v: (date(2026, 1, 10) - v.date()).days, [5]),
        ("CAST(c AS TIMESTAMP)", lambda v: v, [datetime(2026, 1, 5, 10)]),
        ("datediff(c, '2026-01-10')", lambda v: (v.date() - date(2026, 1, 10)).days, [5]),
        ("date_format(c, 'yyyy-MM')", lambda v: v.strftime("%Y-%m"), ["2026-01"]),
        ("date_format(c, 'yyyyMMdd')", lambda v: v.strftime("%Y%m%d"), ["20260105"]),
    ],
)
def test_functions_of_dates(sql: str, function: Any, constants: list[Any], operator: str) -> None:
    for value in constants:
        literal = str(value) if isinstance(value, int) else f"'{value}'"
        found = convert(f"{sql} {operator} {literal}")
        assert found.inverted
        assert found.exact
        assert matching(found, INSTANTS) == {v for v in INSTANTS if OPERATORS[operator](function(v), value)}
        if sql.startswith(("trunc", "date(", "year")):  # on a date column too
            midnights = {v: datetime(v.year, v.month, v.day) for v in DAYS}
            expected = {v for v in DAYS if OPERATORS[operator](function(midnights[v]), value)}
            assert matching(found, DAYS) == expected


@pytest.mark.parametrize("operator", OPERATORS)
def test_hours_and_intervals(operator: str) -> None:
    at = datetime(2026, 1, 5, 10)
    for sql, hours in (("c + INTERVAL 6 HOURS", 6), ("c - INTERVAL 6 HOURS", -6), ("dateadd(HOUR, 6, c)", 6)):
        found = convert(f"{sql} {operator} TIMESTAMP '{at}'")
        assert matching(found, INSTANTS) == {v for v in INSTANTS if OPERATORS[operator](v + timedelta(hours=hours), at)}
    found = convert(f"TIMESTAMP '{at}' {operator} date_trunc('hour', c)")
    expected = {v for v in INSTANTS if OPERATORS[operator](at, v.replace(minute=0, second=0))}
    assert matching(found, INSTANTS) == expected


@pytest.mark.parametrize("amount", ["INTERVAL 1 DAY", "INTERVAL -1 WEEK"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_date_plus_days_is_a_date_and_a_timestamp_plus_days_is_a_timestamp(operator: str, amount: str) -> None:
    days = {"INTERVAL 1 DAY": timedelta(days=1), "INTERVAL -1 WEEK": timedelta(days=-7)}[amount]
    at = datetime(2026, 1, 5, 10)
    for sql, compared in ((f"TIMESTAMP '{at}'", at), ("'2026-01-05'", datetime(2026, 1, 5))):
        found = convert(f"c + {amount} {operator} {sql}")
        assert matching(found, INSTANTS) == {v for v in INSTANTS if OPERATORS[operator](v + days, compared)}
        midnights = {v: datetime(v.year, v.month, v.day) for v in DAYS}
        assert matching(found, DAYS) == {v for v in DAYS if OPERATORS[operator](midnights[v] + days, compared)}
    # Spark ignores the time of day of the string if the column is a date
    for text in (str(at), f" {at}", "2026-01-05 14:00:00-10:00"):
        with pytest.raises(UnusableError):
            convert(f"c + {amount} {operator} '{text}'")


@pytest.mark.parametrize("operator", OPERATORS)
def test_days_are_compared_with_timestamps_and_with_strings_as_dates(operator: str) -> None:
    at = datetime(2026, 1, 1, 10)
    for sql, function in (
        ("date(c)", lambda v: v.date()),
        ("date_add(c, 3)", lambda v: v.date() + timedelta(days=3)),
        ("trunc(c, 'MM')", lambda v: v.date().replace(day=1)),
    ):
        found = matching(convert(f"{sql} {operator} TIMESTAMP '{at}'"), INSTANTS)
        expected = {v for v in INSTANTS if OPERATORS[operator](datetime.combine(function(v), time()), at)}
        assert found == expected
        found = matching(convert(f"{sql} {operator} '{at}'"), INSTANTS)  # Spark casts the string to a date
        assert found == {v for v in INSTANTS if OPERATORS[operator](function(v), at.date())}


def test_in_and_between() -> None:
    found = convert("date(c) IN ('2026-01-05', '2026-01-07')")
    assert matching(found, INSTANTS) == {v for v in INSTANTS if v.date() in (date(2026, 1, 5), date(2026, 1, 7))}
    found = convert("date(c) BETWEEN '2026-01-05' AND '2026-01-07'")
    assert matching(found, INSTANTS) == {v for v in INSTANTS if date(2026, 1, 5) <= v.date() <= date(2026, 1, 7)}
    assert to_sql(convert("substr(c, 1, 2) IN ('ab', 'x')").predicate) == (
        "((`c` >= 'ab') AND (`c` < 'ac')) OR (`c` = 'x')"
    )
    assert to_sql(convert("CAST(c AS STRING) = 'x'").predicate) == "`c` = 'x'"


@pytest.mark.parametrize("operator", ["=", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("type_", "function", "step"),
    [
        ("BIGINT", int, 1), ("DECIMAL", round, 1), ("DECIMAL(10)", round, 1), ("DECIMAL(10, 0)", round, 1),
        ("DECIMAL(10, 1)", lambda v: round(v, 1), 0.1), ("DOUBLE", float, 0),
    ],
)  # fmt: skip
def test_casts_keep_every_row_that_matches(type_: str, function: Any, step: float, operator: str) -> None:
    found = convert(f"CAST(c AS {type_}) {operator} 2")
    assert not found.exact
    every = {v for v in NUMBERS if OPERATORS[operator](function(v), 2)}
    near = {v for v in NUMBERS if abs(v - 2) < step or (type_.startswith("DECIMAL") and abs(v - 2) == step)}
    assert matching(found, NUMBERS) == every | near


@pytest.mark.parametrize("operator", ["=", "<=", ">="])
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("BIGINT", 1e18), ("DECIMAL(38, 2)", 1e18), ("DECIMAL(38, 20)", 0.1),
        ("DECIMAL(38, 2)", Decimal("9" * 34 + ".99")),
    ],
)  # fmt: skip
def test_casts_keep_numbers_that_the_next_number_would_be_rounded_to(type_: str, value: Any, operator: str) -> None:
    literal = str(value) if value == 0.1 else f"{Decimal(value):f}"
    assert matching(convert(f"CAST(c AS {type_}) {operator} {literal}"), [value]) == {value}


def test_spark_converts_a_double_to_a_decimal_by_its_digits() -> None:
    """1e23 becomes 10^23, although the double is 99999999999999991611392."""
    assert matching(convert("CAST(c AS DECIMAL(38, 0)) > 99999999999999991611393"), [1e23]) == {1e23}


@pytest.mark.parametrize(
    "sql",
    [
        "month(c) = 3", "CAST(c AS STRING) < '5'", "CAST(c AS FLOAT) = 0.1", "lower(c) = 'a'",
        "add_months(c, 1) > '2026-01-01'", "date_format(c, 'MM-yyyy') > '01-2026'", "date(c) = d",
        "date_format(c, 'yyyy-MM') > '2026-1'", "substr(c, 2, 1) = 'x'", "date_trunc('month', c) = 'soon'",
        "datediff(c, '2026-01-10') > 2.5", "datediff(c, '2026-01-10') = 'x'", "dateadd(MONTH, 1, c) > '2026-01-01'",
        "dateadd(HOUR, n, c) > '2026-01-01'", "CAST(c AS INT) <> 5", "year(c) = 99999",
        "to_date(c, 'yyyyMMdd') = '2026-01-01'",
    ],
)  # fmt: skip
def test_what_is_not_inverted(sql: str) -> None:
    with pytest.raises(UnusableError):
        convert(sql)
