"""`answers` against brute force: made-up rows, cut by Iceberg's transforms, and the predicate run on each row."""

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.errors import Location
from zlayout.predicate.evaluate import Nulls, Range, answers, fact, known, may_match_in
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Or, Predicate
from zlayout.predicate.parse import parse_where
from zlayout.table.partition import Partition, PartitionField

DAY = PartitionField("d", "day")
MONTH = PartitionField("ts", "month")
REGION = PartitionField("region")
JANUARY_2026 = 56 * 12
JAN_31 = (date(2026, 1, 31) - date(1970, 1, 1)).days


def matches(
    predicate: Predicate, fields: Sequence[PartitionField], values: Sequence[Any], dates: Collection[str] = ()
) -> bool | None:
    return answers(predicate, known([Partition(0, tuple(fields), tuple(values))], dates))[0]


def ask(text: str, field: PartitionField, value: Any, **options: Any) -> bool | None:
    return matches(parse_where(text, Location("f")), (field,), (value,), **options)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("region = 'EU'", "EU", True),
        ("region = 'EU'", "US", False),
        ("region <> 'EU'", None, False),
        ("not region = 'EU'", None, False),
        ("region is null", None, True),
        ("region = 'EU' or region is null", None, True),
        ("region in ('EU', 'US')", "US", True),
        ("region not in ('EU', 'US')", "US", False),
        ("region not in ('EU', 'US')", None, False),
        ("region >= 'a'", "b", True),
        ("region = '2026-01-31'", date(2026, 1, 31), True),
        ("region < DATE '2026-02-01'", date(2026, 1, 31), True),
        ("region = '2026-01-31 10:00:00'", date(2026, 1, 31), True),
        ("region = TIMESTAMP '2026-01-31 10:00:00'", date(2026, 1, 31), False),
        ("region = DATE '2026-01-31'", datetime(2026, 1, 31), True),
        ("region = '2026-01-31 10:00:00'", datetime(2026, 1, 31, 10, tzinfo=UTC), True),
        ("region = TIMESTAMP '2026-01-31 12:00:00+02:00'", datetime(2026, 1, 31, 10), True),
        ("region = '7'", 7, True),
        ("region = 7.5", 7, False),
        ("region < 7.5", 7, True),
        ("region = 'seven'", 7, None),
        ("region like 'E%'", "EU", True),
        ("region like 'E%'", "US", False),
        ("region not like 'E%'", "US", True),
        ("region not like 'E%'", None, False),
        ("region like '5%'", 50, None),
        ("region like '50'", 50, None),
        ("region like '%'", None, False),
        ("region <=> 'EU'", None, False),
        ("not region <=> 'EU'", None, True),
        ("not region <=> 'EU'", "EU", False),
        ("region <=> null", None, True),
        ("1 = 1", None, True),
        ("1 = 2", "EU", False),
        ("true and region = 'EU'", "EU", True),
        ("region = 7", "7", None),
        ("region = 1.10", Decimal("1.1"), True),
        ("region = 0.1", 0.1, True),
        ("region = true", True, True),
        ("region = 1", True, None),
        ("region = 'x'", b"x", None),
        ("region = 1", float("nan"), None),
        ("other = 1", "x", None),
        ("other = 1 or region = 'x'", "x", True),
        ("other = 1 and region = 'y'", "x", False),
        ("other is null", "x", None),
    ],
)
def test_identity(text: str, value: Any, expected: bool | None) -> None:
    assert ask(text, REGION, value) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ts >= DATE '2026-01-01'", True), ("ts >= '2026-01-01'", True),
        ("ts < TIMESTAMP '2026-02-01 00:00:00'", True), ("ts < TIMESTAMP '2026-01-31 23:59:59'", None),
        ("ts <= TIMESTAMP '2026-01-31 23:59:59.999999'", None), ("ts > DATE '2026-02-01'", False),
        ("ts >= DATE '2026-02-01'", False), ("ts = DATE '2026-02-01'", False), ("ts = DATE '2026-01-15'", None),
        ("ts is null", False), ("ts is not null", True), ("ts <> DATE '2025-01-01'", True),
        ("ts <= '2026-01-15 10:00'", None), ("ts >= '2026-01-31 14:00:00-10:00'", None),
        ("ts >= DATE '2025-12-31' and not ts >= DATE '2026-03-01'", True),
    ],
)  # fmt: skip
def test_a_month_is_an_interval(text: str, expected: bool | None) -> None:
    assert ask(text, MONTH, JANUARY_2026) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("months(ts) = '2026-01'", True),
        ("months(ts) in ('2025-12', '2026-01')", True),
        ("months(ts) not in ('2026-01')", False),
        ("months(ts) between '2025-01' and '2026-01'", True),
        ("months(ts) < '2026-01'", False),
        ("months(ts) <= '2026-01'", True),
        ("years(ts) = '2026'", True),
        ("years(ts) > '2026'", False),
        ("days(ts) >= '2026-01-01'", True),
        ("days(ts) >= '2026-01-02'", None),
        ("hours(ts) >= '2026-02-01-00'", False),
    ],
)
def test_transforms_are_periods(text: str, expected: bool | None) -> None:
    assert ask(text, MONTH, JANUARY_2026) is expected


def test_a_day_of_dates_is_one_date_if_the_column_is_known_to_be_one() -> None:
    assert ask("d = DATE '2026-01-31'", DAY, JAN_31, dates={"d"}) is True
    assert ask("d <= '2026-01-31'", DAY, JAN_31, dates={"d"}) is True
    assert ask("d = DATE '2026-01-31'", DAY, JAN_31) is None
    assert ask("d <= DATE '2026-02-01'", DAY, JAN_31) is True
    assert ask("d = DATE '2026-01-31'", PartitionField("d", "hour"), 24 * JAN_31, dates={"d"}) is None


def test_other_transforms() -> None:
    assert ask("x is null", PartitionField("x", "void"), None) is None
    assert ask("x is null", PartitionField("x", "bucket[16]"), 3) is False
    assert ask("x = 3", PartitionField("x", "bucket[16]"), 3) is None
    assert ask("x > 1999", PartitionField("x", "year"), 10**6) is None
    assert ask("x < 20", PartitionField("x", "truncate[10]"), 10) is True
    assert ask("x >= 20", PartitionField("x", "truncate[10]"), 10) is False
    assert ask("x > 15", PartitionField("x", "truncate[10]"), 10) is None
    assert ask("x <= 1.09", PartitionField("x", "truncate[10]"), Decimal("1.00")) is True
    assert ask("x = 'ab'", PartitionField("x", "truncate[3]"), "ab") is True
    assert ask("x < 'abd'", PartitionField("x", "truncate[3]"), "abc") is True
    assert ask("x >= 'abc'", PartitionField("x", "truncate[3]"), "abc") is True
    assert ask("x > 'abc'", PartitionField("x", "truncate[3]"), "abc") is None
    assert ask("x = 'abx'", PartitionField("x", "truncate[3]"), "abc") is False
    # a time of day in a string is a part of the string, unless the column may be a date
    assert ask("x = '2026-02-01 10:00:00'", PartitionField("x", "truncate[4]"), "2025") is False
    assert ask("x < '2026-02-01 10:00:00'", PartitionField("x", "truncate[4]"), "2025") is True


def test_a_truncated_string_is_a_range() -> None:
    assert fact("truncate[2]", "ab", False) == Range("ab", "ac", open=True)
    assert fact("truncate[2]", "a\ud7ff", False) == Range("a\ud7ff", "a\ue000", open=True)
    assert fact("truncate[3]", "ab", False) == Range("ab", "ab")
    assert fact("truncate[2]", "\U0010ffff" * 2, False) is Nulls.NO_ROW


@pytest.mark.parametrize("low", [12345678901234567890123456789012345670, -12345678901234567890123456789012345670])
def test_decimals_of_38_digits_are_not_rounded(low: int) -> None:
    field, value = PartitionField("x", "truncate[10]"), Decimal(low)
    found = [ask(f"x = {low + n}", field, value) for n in (-1, 0, 9, 10)]
    assert found == [False, None, None, False]
    assert ask(f"x <= {low + 9}", field, value) is True
    assert ask(f"x <= {low + 8}", field, value) is None


def test_a_list_of_no_values_holds_none() -> None:
    for value in ("EU", None):
        assert matches(In("region", ()), (REGION,), (value,)) is False
    assert matches(In("other", ()), (REGION,), ("EU",)) is False


def test_two_keys_of_one_column_know_more_than_one() -> None:
    fields = (PartitionField("s", "bucket[4]"), PartitionField("s", "truncate[2]"))
    assert matches(Compare("s", "=", "zz"), fields, (1, "ab")) is False


# Brute force. Few values, so that rows of one partition differ and literals hit them.
TIMES = st.integers(-3000, 3000).map(lambda hours: datetime(1970, 1, 1) + timedelta(hours=hours, minutes=hours % 7))
DATES = st.integers(-120, 120).map(lambda days: date(1970, 1, 1) + timedelta(days=days))
TEXTS = st.text("ab", max_size=4)
CENTS = st.integers(-60, 60).map(lambda n: Decimal(n).scaleb(-2))
COLUMNS: dict[str, tuple[st.SearchStrategy[Any], tuple[str, ...]]] = {
    "n": (st.integers(-30, 30), ("identity", "truncate[7]", "bucket[3]", "void")),
    "c": (CENTS, ("identity", "truncate[20]")),
    "s": (TEXTS, ("identity", "truncate[2]")),
    "d": (DATES, ("identity", "year", "month", "day")),
    "t": (TIMES, ("identity", "year", "month", "day", "hour")),
}


def apply_transform(transform: str, value: Any) -> Any:
    """Iceberg's definition, straight from its specification."""
    name, _, argument = transform.partition("[")
    width = int(argument.rstrip("]") or 0)
    if value is None or name == "void":
        return None
    match name:
        case "identity":
            return value
        case "year":
            return value.year - 1970
        case "month":
            return (value.year - 1970) * 12 + value.month - 1
        case "day":
            return value.toordinal() - date(1970, 1, 1).toordinal()
        case "hour":
            return (value - datetime(1970, 1, 1)) // timedelta(hours=1)
        case "bucket":
            return hash(value) % width
    if isinstance(value, str):
        return value[:width]
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(2))
        return Decimal(unscaled - unscaled % width).scaleb(-2)
    return value - value % width


def evaluate(predicate: Predicate, row: dict[str, Any]) -> bool | None:
    """SQL's three values on one row."""
    match predicate:
        case IsNull(column):
            return row[column] is None
        case Compare(column, operator, literal):
            if row[column] is None:
                return None
            value = row[column]
            outcome = {"=": value == literal, "!=": value != literal}
            return bool(
                outcome[operator]
                if operator in outcome
                else {"<": value < literal, "<=": value <= literal, ">": value > literal, ">=": value >= literal}[
                    operator
                ]
            )
        case In(column, literals):
            return None if row[column] is None else row[column] in literals
        case Not(operand):
            inner = evaluate(operand, row)
            return None if inner is None else not inner
        case And(operands):
            found = [evaluate(o, row) for o in operands]
            return False if False in found else None if None in found else True
        case Or(operands):
            found = [evaluate(o, row) for o in operands]
            return True if True in found else None if None in found else False


@st.composite
def leaves(draw: st.DrawFn) -> Predicate:
    column = draw(st.sampled_from(sorted(COLUMNS)))
    values = COLUMNS[column][0]
    return draw(
        st.one_of(
            st.builds(Compare, st.just(column), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), values),
            st.builds(In, st.just(column), st.lists(values, min_size=1, max_size=3).map(tuple)),
            st.just(IsNull(column)),
        )
    )


PREDICATES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda o: And(tuple(o))),
        st.lists(inner, min_size=2, max_size=3).map(lambda o: Or(tuple(o))),
    ),
    max_leaves=5,
)
ROWS = st.lists(st.fixed_dictionaries({c: st.none() | v for c, (v, _) in COLUMNS.items()}), min_size=1, max_size=15)
FIELDS = st.lists(
    st.sampled_from([PartitionField(c, t) for c, (_, transforms) in COLUMNS.items() for t in transforms]),
    min_size=1,
    max_size=4,
)


@given(PREDICATES, ROWS, FIELDS, st.booleans())
def test_never_wrong_about_a_partition(
    predicate: Predicate, rows: list[dict[str, Any]], fields: list[PartitionField], dates_known: bool
) -> None:
    for row in rows:
        values = [apply_transform(f.transform, row[f.source]) for f in fields]
        found = matches(predicate, fields, values, {"d"} if dates_known else ())
        actual = evaluate(predicate, row)
        assert found is None or found is (actual is True), (predicate, row, fields, values)


TYPES = {"n": pa.int64(), "c": pa.decimal128(10, 2), "s": pa.string(), "d": pa.date32(), "t": pa.timestamp("us")}


@given(PREDICATES, ROWS, FIELDS)
def test_many_partitions_are_compared_as_each_of_them(
    predicate: Predicate, rows: list[dict[str, Any]], fields: list[PartitionField]
) -> None:
    values = [tuple(apply_transform(f.transform, row[f.source]) for f in fields) for row in rows]
    partitions = known([Partition(0, tuple(fields), of_row) for of_row in values], {"d"})
    expected = [answer is not False for answer in answers(predicate, partitions)]
    assert may_match_in(partitions, TYPES)(predicate).tolist() == expected
    without_types = may_match_in(partitions, {})(predicate)
    assert without_types.tolist() == expected


@pytest.mark.parametrize(
    ("type_", "value", "literal", "expected"),
    [
        (pa.timestamp("us"), 18262, datetime(2020, 1, 2), [False, True]),  # a day ends before the next midnight
        (pa.timestamp("ns"), 18262, datetime(2020, 1, 2), [False, True]),
        (pa.timestamp("us", "UTC"), 18262, datetime(2020, 1, 1, 23, 59, 59, 999999), [True, True]),
        (pa.date32(), 18262, date(2020, 1, 2), [False, True]),
        (pa.timestamp("us"), 10**9, datetime(2020, 1, 2), [True, True]),  # a day that Python cannot represent
        (pa.timestamp("us"), None, datetime(2020, 1, 2), [False, True]),
    ],
)
def test_ends_of_days(type_: pa.DataType, value: Any, literal: date, expected: list[bool]) -> None:
    fields = (PartitionField("x", "day"),)
    partitions = known([Partition(0, fields, (v,)) for v in (value, 18263)], {"x"} if type_ == pa.date32() else ())
    assert may_match_in(partitions, {"x": type_})(Compare("x", ">=", literal)).tolist() == expected


@given(PREDICATES, ROWS)
def test_identity_keys_of_all_columns_leave_nothing_open(predicate: Predicate, rows: list[dict[str, Any]]) -> None:
    fields = [PartitionField(c) for c in COLUMNS]
    for row in rows:
        assert matches(predicate, fields, [row[c] for c in COLUMNS]) is (evaluate(predicate, row) is True)
