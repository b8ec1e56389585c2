"""Constant expressions of queries: values worked out by hand, and expressions that are not computed."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
import sqlglot

from zlayout.predicate.sql_tree import MAX_DIGITS, constant

DAY = "DATE '2024-02-29'"


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("-(3)", -3),
        ("2 * 3", 6),
        ("1 + 2", 3),
        ("1.5 - 0.25", Decimal("1.25")),
        ("CAST('7' AS INT)", 7),
        ("CAST(7.0 AS BIGINT)", 7),
        ("CAST('0.1' AS DOUBLE)", 0.1),
        ("CAST('0.1' AS FLOAT)", 13421773 / 2**27),
        ("CAST(7 AS DECIMAL)", Decimal(7)),
        ("CAST('x' AS STRING)", "x"),
        ("CAST('2024-02-29 10:00:00' AS DATE)", date(2024, 2, 29)),
        ("to_date(' 2024-02-29 ')", date(2024, 2, 29)),
        ("CAST(TIMESTAMP '2024-02-29 10:00:00' AS DATE)", date(2024, 2, 29)),
        ("CAST('2024-02-29 10:00:00' AS TIMESTAMP_NTZ)", datetime(2024, 2, 29, 10)),
        (f"date_add({DAY}, 2)", date(2024, 3, 2)),
        (f"add_months({DAY}, 12)", date(2025, 2, 28)),
        (f"{DAY} + INTERVAL '1' MONTH", date(2024, 3, 29)),
        (f"{DAY} + INTERVAL '-1' DAY", date(2024, 2, 28)),
        (f"{DAY} - INTERVAL '+1' DAY", date(2024, 2, 28)),
        (f"INTERVAL 2 WEEKS + {DAY}", date(2024, 3, 14)),
        (f"{DAY} - INTERVAL 1 YEAR", date(2023, 2, 28)),
        (f"{DAY} + 1", date(2024, 3, 1)),
        ("TIMESTAMP_NTZ '2024-02-29 10:00:00' - INTERVAL 90 MINUTES", datetime(2024, 2, 29, 8, 30)),
        (f"{DAY} + INTERVAL 1 HOUR", datetime(2024, 2, 29, 1)),  # Spark makes a timestamp of it
        (f"trunc({DAY}, 'MM')", date(2024, 2, 1)),
        (f"trunc({DAY}, 'week')", date(2024, 2, 26)),
        ("date_trunc('QUARTER', TIMESTAMP '2024-02-29 10:00:00')", datetime(2024, 1, 1)),
        ("date_trunc('HOUR', '2024-02-29 10:30:40.5')", datetime(2024, 2, 29, 10)),
        ("date_trunc('MINUTE', '2024-02-29 10:30:40.5')", datetime(2024, 2, 29, 10, 30)),
        ("date_trunc('SECOND', '2024-02-29 10:30:40.5')", datetime(2024, 2, 29, 10, 30, 40)),
        (f"dateadd(DAY, -7, {DAY})", date(2024, 2, 22)),
        (f"last_day({DAY})", date(2024, 2, 29)),
        ("make_date(2024, 2, 29)", date(2024, 2, 29)),
    ],
)
def test_a_constant_expression_is_computed(sql: str, value: Any) -> None:
    found = constant(sqlglot.parse_one(sql, dialect="spark"))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "sql",
    [
        "a", "a + 1", "2 * 'x'", "CAST(NULL AS DATE)", "CAST('x' AS INT)", "CAST('7.5' AS INT)", "CAST(TRUE AS INT)",
        "CAST('1e999' AS DOUBLE)", "CAST(1.26 AS DECIMAL(2, 1))", "CAST(1 AS TIMESTAMP)",
        "CAST(7.5 AS DECIMAL)", "CAST(10000000000 AS DECIMAL)", "CAST(1e39 AS FLOAT)",
        "CAST('soon' AS DATE)", "to_date('29.02.2024', 'dd.MM.yyyy')", f"{DAY} + INTERVAL '1-2' YEAR TO MONTH",
        f"{DAY} + 1.5", f"{DAY} + INTERVAL {'9' * (MAX_DIGITS + 1)} DAY",
        "make_date('x', 1, 1)", "make_date(2024, 2, 30)", "last_day('soon')", f"trunc({DAY}, 'century')",
        f"trunc({DAY}, 'weekday')", f"trunc({DAY}, t.mm)", f"date_add({DAY}, 99999999)",
        f"CAST('{'9' * (MAX_DIGITS + 1)}' AS DECIMAL)", "1 + INTERVAL 1 DAY",
    ],
)  # fmt: skip
def test_an_expression_that_is_not_a_known_constant_has_no_value(sql: str) -> None:
    assert constant(sqlglot.parse_one(sql, dialect="spark")) is None
