"""`where:` as text from anybody: it is a condition of partition columns, or it is refused before any engine sees it."""

import random

import pytest
from hostile.asking import refused
from hostile.mutants import NAMES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zlayout.errors import Location
from zlayout.predicate.parse import MAX_LENGTH, parse_where, to_sql

AT = Location("a.yaml", 1, 1)
MANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
TOKENS = (
    "a", "`b`", "a.b", "AND", "OR", "NOT", "IN", "(", ")", ",", "=", "<>", "<", ">=", "<=>", "BETWEEN", "IS", "NULL",
    "1", "-1", "1.5", "1e9", "1e999999999BD", "9" * 400, "1L", "0x1F", "'x'", "'it''s'", "'\\''", "'\\u0041'", '"q"',
    "DATE", "DATE '2026-01-31'", "TIMESTAMP '0001-01-01 00:00:00+14:00'", "TIMESTAMP '9999-12-31 23:59:59-14:00'",
    "TRUE", "LIKE", "RLIKE '(a+)+$'", "f(", "java_method('java.lang.Runtime', 'exec', 'id')", "SELECT 1",
    "(SELECT a FROM t)", "EXISTS(", ";", "--", "/*", "*/", "/*+ hint */", "CASE WHEN", "END", "::", "CAST(a AS INT)",
    "+", "*", "||", "[0]", "{d", "}", ":p", "?", "${x}", "@v", "x'ff'", "INTERVAL 1 DAY", "\n", "\t", "\x00",
    "\u202e", "\ud800", "`", "'", '"', "\\", "😀", "DROP TABLE t",
)  # fmt: skip
GOOD = ("a = 1", "b IN ('x', 'y')", "c BETWEEN 1 AND 2", "d IS NOT NULL", "NOT (e < DATE '2026-01-31')", "f.g >= 1.5")


def check(text: str) -> bool:
    """Whether it is taken; what is taken must come back from its own SQL as the same condition."""
    if refused(lambda: parse_where(text, AT), text) is not None:
        return False
    predicate = parse_where(text, AT)
    if len(sql := to_sql(predicate)) <= MAX_LENGTH:
        assert parse_where(sql, AT) == predicate
    return True


@MANY
@given(st.integers(0, 2**32))
def test_tokens_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        check(" ".join(chance.choices(TOKENS, k=chance.randrange(1, 14))))


def test_good_conditions_with_something_put_in_or_left_out() -> None:
    chance = random.Random(4)
    taken = 0
    for _ in range(1500):
        words = f" {chance.choice(('AND', 'OR'))} ".join(chance.choices(GOOD, k=chance.randrange(1, 6))).split(" ")
        for _ in range(chance.randrange(1, 3)):
            at = chance.randrange(len(words))
            words[at : at + chance.randrange(2)] = [chance.choice(TOKENS)]
        taken += check(" ".join(words))
    assert taken > 20


@MANY
@given(st.lists(st.text(max_size=50), max_size=8))
def test_text_of_any_kind(texts: list[str]) -> None:
    for text in texts:
        check(text)


@pytest.mark.parametrize("name", NAMES)
def test_names_in_quotes_stay_names(name: str) -> None:
    column = name.replace("`", "``")
    check(f"`{column}` = 1")
    check("a = '" + name.replace("\\", "\\\\").replace("'", "\\'") + "'")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000, "NOT " * 2000, "a = " + "-" * 5000 + "1", " OR ".join(["a = 1"] * 900),
        "a IN (" + "1," * 4000 + "1)", "a = '" + "\\\\" * 4000 + "'", "`" * 9001, "'" * 9001, "a" * 10_001,
        "a = 1e" + "9" * 5000, "a = " + "9" * 9000, "a = 1e999999999BD", "a = 1e-999999999BD",
        "a = 0." + "0" * 5000 + "1", "/*" * 4000, "a = 1 AND (" * 800, "CASE " * 1500, "f(" * 3000,
        "a" + ".a" * 4000 + " = 1", "a = 1 " + "IS NULL " * 1000, "((((((((((a = 1))))))))))" * 200,
    ],
)  # fmt: skip
def test_what_is_large_ends_soon(text: str) -> None:
    check(text)
