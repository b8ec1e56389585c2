"""The where-parser: a whitelist, canonical SQL, and nothing but SpecError for anything else."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.errors import Location, SpecError
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Or, Predicate, TextOnly
from zlayout.predicate.parse import parse_where, to_sql
from zlayout.text import dotted

HERE = Location("f.yaml", 3, 1)


def parse(text: str) -> Predicate:
    return parse_where(text, HERE)


X1 = Compare("x", "=", 1)
Y2 = Compare("y", "=", 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", X1),
        ("x == 1", X1),
        ("(((x))) = ((1))", X1),
        ("1 = x", X1),
        ("1 < x", Compare("x", ">", 1)),
        ("1 >= x", Compare("x", "<=", 1)),
        ("x <> 'a'", Compare("x", "!=", "a")),
        ("x != 'a'", Compare("x", "!=", "a")),
        ("a.b.c.d.e < -2", Compare("a.b.c.d.e", "<", -2)),
        ("`a b`.`c``d` = -(-(2))", Compare("a b.`c``d`", "=", 2)),
        ("a.`b.c` = 1", Compare("a.`b.c`", "=", 1)),
        ("x = 1.50", Compare("x", "=", Decimal("1.50"))),
        ("x = 1e3", Compare("x", "=", 1000.0)),
        ("x = 2L", Compare("x", "=", 2)),
        ("x = 1.5BD", Compare("x", "=", Decimal("1.5"))),
        ("x = 2D", Compare("x", "=", 2.0)),
        ("x = 99999999999999999999", Compare("x", "=", Decimal("99999999999999999999"))),
        ("x = -" + "1234567890" * 3, Compare("x", "=", Decimal("-" + "1234567890" * 3))),
        ("x = true", Compare("x", "=", True)),
        ("x = DATE '2026-01-31'", Compare("x", "=", date(2026, 1, 31))),
        ("x = TIMESTAMP '2026-01-31 10:20:30.5'", Compare("x", "=", datetime(2026, 1, 31, 10, 20, 30, 500000))),
        ("x = TIMESTAMP '2026-01-31T10:20+02:00'", Compare("x", "=", datetime(2026, 1, 31, 8, 20, tzinfo=UTC))),
        ("x = timestamp_ntz '2026-01-31'", Compare("x", "=", datetime(2026, 1, 31))),
        (r"x = 'it\'s \\n'", Compare("x", "=", "it's \\n")),
        ("x = 'O''Brien'", Compare("x", "=", "O'Brien")),
        ("x in ('', '''', 'a\"\"b')", In("x", ("", "'", 'a""b'))),
        ('x = "a""b\'\'c"', Compare("x", "=", "a\"b''c")),
        (r"x = 'a\tb'", Compare("x", "=", "a\tb")),
        ('x = "b"', Compare("x", "=", "b")),
        ("x in (1, 2)", In("x", (1, 2))),
        ("x not in ('a')", Not(In("x", ("a",)))),
        ("x between 1 and 2", And((Compare("x", ">=", 1), Compare("x", "<=", 2)))),
        ("x is null", IsNull("x")),
        ("true", And(())),
        ("not (false)", Not(Or(()))),
        ("1 = 1 and x = 1", X1),
        ("1 = 2 or x = 1", Or((Or(()), X1))),
        ("'a' < 'b'", And(())),
        ("x <=> 1", And((X1, Not(IsNull("x"))))),
        ("1 <=> x", And((X1, Not(IsNull("x"))))),
        ("x <=> null", IsNull("x")),
        ("x like 'eu-%'", And((Compare("x", ">=", TextOnly("eu-")), Compare("x", "<", TextOnly("eu."))))),
        ("x not like 'a'", Not(Compare("x", "=", TextOnly("a")))),
        ("x like '%'", Not(IsNull("x"))),
        ("x like ''", Compare("x", "=", TextOnly())),
        ("x like 'a'", Compare("x", "=", TextOnly("a"))),
        ("x = 9223372036854775807", Compare("x", "=", 2**63 - 1)),
        ("x = 9223372036854775808", Compare("x", "=", Decimal(2**63))),
        ("days(x) >= DATE '2026-01-31'", Compare("x", ">=", date(2026, 1, 31))),
        ("'2026-01-31' >= DAYS(x)", Compare("x", "<", date(2026, 2, 1))),
        ("months(a.b) > '2025-12'", Compare("a.b", ">=", date(2026, 1, 1))),
        ("hours(x) < '2026-01-31-23'", Compare("x", "<", datetime(2026, 1, 31, 23))),
        ("years(x) <> '2026'", Not(And((Compare("x", ">=", date(2026, 1, 1)), Compare("x", "<", date(2027, 1, 1)))))),
        ("x is not null", Not(IsNull("x"))),
        ("not x = 1 and y = 2", And((Not(X1), Y2))),
        ("x = 1 or y = 2 and x = 1", Or((X1, And((Y2, X1))))),
        ("x = 1 and (y = 2 and (x = 1))", And((X1, Y2, X1))),
        (" AND ".join(["x = 1"] * 800), And((X1,) * 800)),
        ("not " * 50 + "x = 1", reduce(lambda inner, _: Not(inner), range(50), X1)),
    ],
)
def test_what_is_allowed(text: str, expected: Predicate) -> None:
    found = parse(text)
    assert found == expected
    assert _types(found) == _types(expected)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("months(x) = '2026-13'", "ZL032", "expected a period like '2026-01' for months(), found '2026-13'"),
        ("years(x) = 2026", "ZL032", "expected a period like '2026' for years(), found '2026'"),
        ("days(x) = '9999-12-31'", "ZL032", "expected a period like '2026-01-31' for days(), found '9999-12-31'"),
        ("days(1) = '2026-01-31'", "ZL031", "a comparison without a column is not allowed"),
        ("days(x) = y", "ZL031", "the column 'y' as a value is not allowed"),
        ("days(x) is null", "ZL031", "the function days() is not allowed"),
        ("bucket(16, x) = 3", "ZL031", "the function bucket() is not allowed"),
        ("year(x) = 1", "ZL031", "the function year() is not allowed"),
        ("x = 'O' 'Brien'", "ZL031", "the function concat() is not allowed"),
        ("reflect('java.lang.System', 'exit') = 1", "ZL031", "the function reflect() is not allowed"),
        ("my_udf(x)", "ZL031", "the function my_udf() is not allowed"),
        ("x = current_date", "ZL031", "the function current_date() is not allowed"),
        ("x = date('2026-01-01')", "ZL031", "a cast is not allowed"),
        ("x = timestamp('2026-01-01')", "ZL031", "a cast is not allowed"),
        ("try_cast(x as int) = 1", "ZL031", "a cast is not allowed"),
        ("cast(x as int) = 1", "ZL031", "a cast is not allowed"),
        ("x::int = 1", "ZL031", "a cast is not allowed"),
        ("x = cast(1 as bigint)", "ZL031", "a cast is not allowed"),
        ("x like '%a'", "ZL031", "LIKE '%a' is not allowed"),
        ("x like 'a%b%'", "ZL031", "LIKE 'a%b%' is not allowed"),
        ("x like 'a_%'", "ZL031", "LIKE 'a_%' is not allowed"),
        (r"x like 'a\\%'", "ZL031", r"LIKE 'a\%' is not allowed"),
        ("x like y", "ZL031", "LIKE without a string literal is not allowed"),
        ("1 = '1'", "ZL031", "a comparison without a column is not allowed"),
        ("x <=> y", "ZL031", "a comparison of two columns is not allowed"),
        ("x rlike 'a'", "ZL031", "RLIKE is not allowed"),
        ("x + 1 = 2", "ZL031", "arithmetic is not allowed"),
        ("x = DATE 2026-01-01", "ZL031", "arithmetic is not allowed"),
        ("x in (select 1)", "ZL031", "a subquery is not allowed"),
        ("x in (from t)", "ZL031", "a subquery is not allowed"),
        ("x in unnest(y)", "ZL031", "IN UNNEST is not allowed"),
        ("exists (select 1)", "ZL031", "a subquery is not allowed"),
        ("x = y", "ZL031", "a comparison of two columns is not allowed"),
        ("x in (y)", "ZL031", "the column 'y' as a value is not allowed"),
        ("x = NULL", "ZL031", "a comparison with NULL is not allowed"),
        ("x is true", "ZL031", "IS other than IS [NOT] NULL is not allowed"),
        ("x[0] = 1", "ZL031", "'[' is not allowed"),
        ("case when x = 1 then true end", "ZL031", "CASE is not allowed"),
        ("x = 1; drop table t", "ZL031", "';' is not allowed"),
        ("x = 1 -- hi", "ZL031", "a comment is not allowed"),
        ("x = /* hi */ 1", "ZL031", "a comment is not allowed"),
        ("x = 'a' 'b'", "ZL031", "the function concat() is not allowed"),
        ("x = X'1F'", "ZL031", "HEXSTRING is not allowed"),
        ("x = 1.5F", "ZL031", "a literal of type FLOAT is not allowed"),
        ("`a\u202eb` = 1", "ZL031", "the column name 'a\\u202eb' is not allowed"),
        (r"x = '\u0041'", "ZL032", r"the escape '\u' is not allowed"),
        ("x = DATE '2026-02-30'", "ZL032", "expected a date like '2026-01-31', found '2026-02-30'"),
        ("x = TIMESTAMP 'now'", "ZL032", "expected a timestamp like '2026-01-31 23:59:59', found 'now'"),
        ("x = DECIMAL 'a'", "ZL032", "expected a number, found 'a'"),
        ("x = 1e999", "ZL032", "the number '1e999' is too large"),
        ("x = " + "9" * 60, "ZL032", f"expected at most 38 digits, found the number '{'9' * 60}'"),
        ("x = -'a'", "ZL032", "expected a number after '-'"),
        ("x", "ZL030", "expected a condition, found the column 'x'"),
        ("", "ZL030", "expected one condition, found none"),
        ("x =", "ZL030", "expected a condition, found text that cannot be parsed near column 3"),
        ("x = 1 y", "ZL030", "expected a condition, found text that cannot be parsed near column 7"),
        ("x in ()", "ZL030", "IN needs at least one value"),
        ("x = " + "(" * 51 + "1", "ZL030", "expected at most 50 levels, found more"),
        ("x = " + "interval " * 900 + "1 day", "ZL030", "expected at most 50 levels, found more"),
        ("not " * 2000 + "x = 1", "ZL030", "expected at most 50 levels, found more"),
        ("x" * 10001, "ZL030", "expected at most 10000 characters, found 10001"),
    ],
)
def test_what_is_refused_by_name(text: str, code: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text)
    (found,) = caught.value.diagnostics
    assert (found.code, found.message, found.location) == (code, f"{message} in where", HERE)


def test_sql_is_quoted_so_that_a_value_stays_a_value() -> None:
    predicate = And((Compare("a.`b``c`", "=", "x' OR 1=1 --\\"), Not(IsNull("d")), In("e", (1, Decimal("2.50")))))
    assert to_sql(predicate) == (r"(`a`.`b``c` = 'x\' OR 1=1 --\\') AND (`d` IS NOT NULL) AND (`e` IN (1, 2.50))")
    assert to_sql(Or((Compare("a", "!=", 1.5), Not(Compare("a", "=", date(2026, 1, 2)))))) == (
        "(`a` <> 1.5D) OR (NOT (`a` = DATE '2026-01-02'))"
    )
    assert (to_sql(And(())), to_sql(Or(()))) == ("TRUE", "FALSE")


NAMES = st.lists(
    st.text(
        st.characters(codec="utf-8", categories=["L", "N", "S", "P"], exclude_characters="\\"), min_size=1, max_size=5
    ),
    min_size=1,
    max_size=4,
).map(dotted)
VALUES = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12),
    st.booleans(),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**18), max_value=10**18, places=3),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=-5))])),
)
LEAVES = st.one_of(
    st.builds(Compare, NAMES, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), VALUES),
    st.builds(In, NAMES, st.lists(VALUES, min_size=1, max_size=3).map(tuple)),
    st.builds(IsNull, NAMES),
)


def _joined(kind: type[And] | type[Or], operands: list[Predicate]) -> Predicate:
    """As the parser has it: flat."""
    return kind(tuple(p for o in operands for p in (o.operands if isinstance(o, kind) else (o,))))


PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=3).map(lambda o: _joined(And, o)),
        st.lists(inner, min_size=2, max_size=3).map(lambda o: _joined(Or, o)),
    ),
    max_leaves=6,
)


@given(PREDICATES)
def test_canonical_sql_parses_to_the_same_predicate(predicate: Predicate) -> None:
    again = parse(to_sql(predicate))
    assert again == predicate
    assert _types(again) == _types(predicate)


WORDS = """x y `a b` `` . , ( ) = != < > <= >= <=> + - * / % :: ; -- /* */ /*+ 1 2.5 1e3 1L 'a' " ' \\ @ : ? { } [ ]
AND OR NOT IN BETWEEN IS NULL LIKE DATE TIMESTAMP INTERVAL CASE WHEN END SELECT FROM EXISTS CAST AS INT TRUE f( reflect(
if( lambda -> DROP TABLE WITH VALUES ARRAY STRUCT OVER LATERAL SHOW SET ${x}"""
TEXTS = st.one_of(st.lists(st.sampled_from(WORDS.split()), max_size=14).map(" ".join), st.text(max_size=40))


@given(TEXTS)
def test_any_text_gives_a_predicate_or_a_spec_error(text: str) -> None:
    try:
        predicate = parse(text)
    except SpecError as error:
        codes = {d.code for d in error.diagnostics}
    else:
        codes = {"ZL030"} if parse(to_sql(predicate)) == predicate else set()
    assert len(codes) == 1
    assert codes <= {"ZL030", "ZL031", "ZL032"}


def _types(predicate: Predicate) -> list[type[Any]]:
    """1, 1.0, True and Decimal(1) are equal in Python, not in SQL."""
    match predicate:
        case Compare(_, _, value):
            return [type(value)]
        case In(_, values):
            return [type(v) for v in values]
        case And(operands) | Or(operands):
            return [t for o in operands for t in _types(o)]
        case Not(operand):
            return _types(operand)
        case _:
            return []
