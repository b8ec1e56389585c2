from datetime import date
from pathlib import Path

import pytest

from zlayout.predicate.model import And, Compare, In, IsNull, Not, Or, Predicate, starts_with
from zlayout.workload.files import read_workload
from zlayout.workload.model import Workload


def read(tmp_path: Path, query: str, **columns: list[str]) -> Workload:
    path = tmp_path / "q.sql"
    path.write_text(query)
    return read_workload([path], columns)


def scans(workload: Workload) -> list[tuple[str, Predicate | None]]:
    return [(s.table, s.predicate) for s in workload.scans]


ONE, TWO = Compare("a", "=", 1), Compare("a", "=", 2)
PREFIX = And((Compare("a", ">=", "p"), Compare("a", "<", "q")))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a = 1", ONE),
        ("1 < a", Compare("a", ">", 1)),
        ("t.s.b = 1", Compare("s.b", "=", 1)),
        ("a IN (1, 2L)", In("a", (1, 2))),
        ("NOT a IN (1, 2)", Not(In("a", (1, 2)))),
        ("a IS NULL", IsNull("a")),
        ("a IS NOT NULL", Not(IsNull("a"))),
        ("a LIKE 'p%'", PREFIX),
        ("a LIKE 'p%q_'", PREFIX),
        ("a LIKE 'p'", Compare("a", "=", "p")),
        ("a LIKE 'p!%' ESCAPE '!'", Compare("a", "=", "p%")),
        ("startswith(a, 'p')", PREFIX),
        ("a = 1 OR a = 2", Or((ONE, TWO))),
        ("NOT (a = 1 OR a = 2)", And((Not(ONE), Not(TWO)))),
        ("a > '2026-01-31'::date + INTERVAL 1 MONTH", Compare("a", ">", date(2026, 2, 28))),
        ("a > date_sub('2026-03-01', 1)", Compare("a", ">", date(2026, 2, 28))),
        ("a = -1", Compare("a", "=", -1)),
        ("a = 'O''Brien; -- x'", Compare("a", "=", "O'Brien; -- x")),
        ('a = "4""x"', Compare("a", "=", '4"x')),
        ("a = 1 AND length(a) = 3", ONE),
    ],
)
def test_conditions(where: str, expected: Predicate, tmp_path: Path) -> None:
    assert scans(read(tmp_path, f"SELECT * FROM db.t WHERE {where}")) == [("db.t", expected)]


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("length(a) = 3", "a function or arithmetic on a column"),
        ("a = b", "compares columns (a join)"),
        ("a = rand()", "a comparison with an expression that is not constant"),
        ("a LIKE '%p'", "a pattern that begins with a wildcard"),
        ("NOT a LIKE 'p%q'", "a negation that min and max cannot decide"),
        ("a NOT LIKE 'p%'", "a negation that min and max cannot decide"),
        ("a NOT LIKE 'p!%' ESCAPE '!'", "a negation that min and max cannot decide"),
        ("NOT a <=> 1", "a negation that min and max cannot decide"),
        ("a RLIKE 'p'", "a condition that min and max cannot decide"),
        ("a IN (SELECT b FROM t)", "a subquery"),
        ("a = 1 OR b = c", "compares columns (a join)"),
        ("a = CAST('x' AS DATE)", "a comparison with an expression that is not constant"),
    ],
)
def test_what_cannot_be_used_is_listed_with_the_reason(where: str, reason: str, tmp_path: Path) -> None:
    workload = read(tmp_path, f"SELECT * FROM t WHERE {where}")
    assert [u.reason for u in workload.unused] == [reason]
    assert {predicate for _, predicate in scans(workload)} == {None}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM t x JOIN u y ON x.k = y.k AND y.a = 1 WHERE x.a = 2", [TWO, ONE]),
        ("SELECT * FROM t x LEFT JOIN u y ON y.a = 1 AND x.a = 2", [None, ONE]),
        ("SELECT * FROM t x LEFT JOIN u y ON x.k = y.k WHERE y.a = 1", [None, ONE]),
        ("SELECT * FROM t x LEFT JOIN u y ON x.k = y.k WHERE y.a IS NULL", [None, None]),
        ("SELECT * FROM t x RIGHT JOIN u y ON x.k = y.k WHERE x.a IS NULL", [None, None]),
        ("WITH c AS (SELECT a FROM t) SELECT * FROM c, u WHERE a = 1", [ONE, None]),
        ("SELECT * FROM t x RIGHT JOIN u y ON y.a = 1 AND x.a = 2", [TWO, None]),
        ("SELECT * FROM t x FULL JOIN u y ON y.a = 1 AND x.a = 2", [None, None]),
        ("SELECT * FROM t x LEFT SEMI JOIN u y ON y.a = 1 AND x.a = 2", [TWO, ONE]),
        ("SELECT * FROM t x LEFT ANTI JOIN u y ON y.a = 1 AND x.a = 2", [None, ONE]),
        ("SELECT * FROM t x, u y WHERE x.a = 1 OR y.a = 2", [None, None]),
        ("SELECT * FROM v LEFT JOIN (t JOIN u ON t.k = u.k) ON v.k = t.k WHERE u.a IS NULL AND t.a = 1", [ONE, None]),
    ],
)
def test_joins(query: str, expected: list[Predicate | None], tmp_path: Path) -> None:
    found = [scan for scan in scans(read(tmp_path, query)) if scan[0] != "v"]
    assert found == [("t", expected[0]), ("u", expected[1])]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("WITH c AS (SELECT a AS z FROM t) SELECT * FROM c WHERE z = 1", [ONE]),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c x JOIN c y ON x.k = y.k WHERE x.a = 1 AND y.a = 2", [ONE, TWO]),
        ("SELECT * FROM (SELECT a, sum(b) AS s FROM t GROUP BY a) q WHERE q.a = 1 AND q.s > 3", [ONE]),
        ("SELECT * FROM (SELECT a, count(*) AS n FROM t GROUP BY a) WHERE n = 1", [None]),
        ("SELECT * FROM (SELECT a FROM t GROUP BY ROLLUP (a)) WHERE a IS NULL", [None]),
        ("SELECT * FROM t LATERAL VIEW explode(xs) e AS x WHERE x = 2 AND a = 1", [ONE]),
        ("SELECT * FROM (SELECT a FROM t LIMIT 5) WHERE a = 1", [None]),
        ("SELECT * FROM (SELECT a, rank() OVER (ORDER BY b) AS r FROM t) WHERE a = 1", [None]),
        ("SELECT * FROM (SELECT a FROM t QUALIFY rank() OVER (ORDER BY b) = 1) WHERE a = 1", [None]),
        ("SELECT * FROM (SELECT a, b FROM t) AS x (b, a) WHERE a = 1", [None]),
        ("WITH x (b, a) AS (SELECT a, b FROM t) SELECT * FROM x WHERE a = 1", [None]),
        ("SELECT * FROM (SELECT a FROM t UNION ALL SELECT a FROM t) WHERE a = 1", [ONE, ONE]),
        ("SELECT * FROM (SELECT a FROM t UNION ALL BY NAME SELECT a FROM t) WHERE a = 1", [None, None]),
        ("SELECT * FROM (SELECT * REPLACE (b AS a) FROM t) WHERE a = 1", [None]),
        ("SELECT * FROM (SELECT * EXCEPT (b) FROM t) WHERE a = 1", [ONE]),
        ("SELECT * FROM (SELECT * EXCEPT (a) FROM t) WHERE a = 1", [None]),
        ("SELECT * FROM t AS s(b, a) WHERE a = 1", [None]),
        ("SELECT * FROM t PIVOT (sum(b) AS s FOR c IN ('x' AS a)) WHERE a = 1", [None]),
        ("SELECT * FROM (SELECT * FROM t) PIVOT (sum(b) AS s FOR c IN ('x' AS a)) WHERE a = 1", [None]),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c PIVOT (sum(b) AS s FOR c IN ('x' AS a)) WHERE a = 1", [None]),
        ("SELECT (SELECT max(a) FROM t WHERE a = 2) FROM t WHERE a = 1", [ONE, TWO]),
        ("INSERT INTO o SELECT * FROM t WHERE a = 1", [ONE]),
    ],
)
def test_ctes_derived_tables_and_subqueries(query: str, expected: list[Predicate], tmp_path: Path) -> None:
    assert scans(read(tmp_path, query)) == [("t", p) for p in expected]


def test_a_column_without_a_table_needs_the_tables_columns(tmp_path: Path) -> None:
    query = "SELECT * FROM t, u WHERE a = 1"
    assert scans(read(tmp_path, query)) == [("t", None), ("u", None)]
    assert "whose table is unknown" in read(tmp_path, query).unused[0].reason
    assert scans(read(tmp_path, query, t=["A"], u=["b"])) == [("t", ONE), ("u", None)]


@pytest.mark.parametrize(("prefix", "above"), [("a\ud7ff", "a\ue000"), ("a\U0010ffff", "b")])
def test_the_text_after_a_prefix_is_text_too(prefix: str, above: str) -> None:
    assert starts_with("", prefix) == And((Compare("", ">=", prefix), Compare("", "<", above)))
