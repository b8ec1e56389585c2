"""No condition is dropped silently: it is used, or listed with its reason and the tables that it limits."""

import json
import time
from datetime import date, datetime
from pathlib import Path

import pytest
from unit.workload.test_event_log import HEAD, delta
from unit.workload.test_event_log import start as execution

from zlayout.predicate.model import And, Compare, Predicate
from zlayout.workload.files import read_workload
from zlayout.workload.model import Workload

NOW = datetime(2026, 3, 1, 12, 30)
FIVE = Compare("x", "=", 5)
JOIN_FILTER = "a filter through a join, which limits the table only at run time"


def read(tmp_path: Path, query: str, **columns: list[str]) -> Workload:
    path = tmp_path / "q.sql"
    path.write_text(query)
    return read_workload([path], columns, NOW)


def scans(workload: Workload) -> dict[str, Predicate | None]:
    return {s.table: s.predicate for s in workload.scans}


def unused(workload: Workload) -> list[tuple[str, str, frozenset[str] | None]]:
    return [(u.text, u.reason, u.tables) for u in workload.unused]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("current_date()", date(2026, 3, 1)),
        ("current_date", date(2026, 3, 1)),
        ("current_date() - interval 7 days", date(2026, 2, 22)),
        ("current_date() - 7", date(2026, 2, 22)),
        ("date_sub(current_date(), 7)", date(2026, 2, 22)),
        ("date_add(current_date(), -7)", date(2026, 2, 22)),
        ("add_months(current_date(), -1)", date(2026, 2, 1)),
        ("trunc(current_date(), 'YEAR')", date(2026, 1, 1)),
        ("now()", NOW),
        ("current_timestamp() - interval 24 hours", datetime(2026, 2, 28, 12, 30)),
        ("date_trunc('DAY', now())", datetime(2026, 3, 1)),
        ("to_date(now())", date(2026, 3, 1)),
    ],
)
def test_the_current_time_is_that_of_the_workload(sql: str, value: object, tmp_path: Path) -> None:
    workload = read(tmp_path, f"SELECT my_udf(y) FROM t WHERE x >= {sql}")
    assert scans(workload) == {"t": Compare("x", ">=", value)}
    assert workload.unused == ()
    assert workload.assumed_time == NOW


def test_without_the_current_time_none_is_assumed(tmp_path: Path) -> None:
    assert read(tmp_path, "SELECT * FROM t WHERE x = 5").assumed_time is None


def test_functions_of_a_column_are_used_and_shown(tmp_path: Path) -> None:
    workload = read(tmp_path, "SELECT * FROM t WHERE date(ts) = '2026-01-31'")
    day = And((Compare("ts", ">=", date(2026, 1, 31)), Compare("ts", "<", date(2026, 2, 1))))
    assert scans(workload) == {"t": day}
    (inverted,) = workload.inverted
    assert (inverted.table, inverted.text) == ("t", "CAST(ts AS DATE) = '2026-01-31'")
    assert inverted.as_text == "(`ts` >= DATE '2026-01-31') AND (`ts` < DATE '2026-02-01')"


def test_an_inexact_condition_is_not_negated(tmp_path: Path) -> None:
    workload = read(tmp_path, "SELECT * FROM t WHERE NOT (CAST(x AS INT) = 5)")
    assert scans(workload) == {"t": None}
    assert [u.reason for u in workload.unused] == ["a negation that min and max cannot decide"]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM a, b WHERE a.x = b.x AND b.x = 5",
        "SELECT * FROM a JOIN b ON a.x = b.x AND b.x = 5",
        "SELECT * FROM a JOIN b USING (x) WHERE b.x = 5",
        "SELECT * FROM a JOIN b USING (x) WHERE x = 5",
        "SELECT * FROM a LEFT JOIN b USING (x) WHERE x = 5",
        "SELECT * FROM a RIGHT JOIN b USING (x) WHERE x = 5",
        "SELECT * FROM a LEFT SEMI JOIN b USING (x) WHERE x = 5",
        "SELECT * FROM a LEFT SEMI JOIN b ON a.x = b.x AND b.x = 5",
        "SELECT * FROM a LEFT JOIN b ON a.x = b.x WHERE b.x = 5",
        "SELECT * FROM a JOIN (SELECT x FROM b) c ON a.x = c.x WHERE a.x = 5",
        "WITH c AS (SELECT * FROM b) SELECT * FROM a JOIN c ON c.x = a.x WHERE c.x = 5",
    ],
)
def test_a_constant_holds_for_the_other_side_of_a_join_key(query: str, tmp_path: Path) -> None:
    assert scans(read(tmp_path, query)) == {"a": FIVE, "b": FIVE}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM a LEFT JOIN b ON a.x = b.x AND b.x = 5", {"a": None, "b": FIVE}),
        ("SELECT * FROM a FULL JOIN b ON a.x = b.x AND b.x = 5", {"a": None, "b": None}),
        ("SELECT * FROM a LEFT ANTI JOIN b ON a.x = b.x AND b.x = 5", {"a": None, "b": FIVE}),
        ("SELECT * FROM a LEFT JOIN b ON a.x = b.x WHERE a.x = 5", {"a": FIVE, "b": FIVE}),
        ("SELECT * FROM a RIGHT JOIN b ON a.x = b.x AND a.x = 5", {"a": FIVE, "b": None}),
        ("SELECT * FROM a FULL JOIN b USING (x) WHERE x = 5", {"a": None, "b": None}),
        ("SELECT * FROM a JOIN b USING (x) JOIN c USING (x) WHERE x = 5", {"a": FIVE, "b": FIVE, "c": FIVE}),
        ("SELECT * FROM a JOIN b USING (y) WHERE x = 5", {"a": None, "b": None}),
        ("SELECT * FROM a JOIN b ON a.x = b.y JOIN c ON b.y = c.x WHERE c.x = 5",
         {"a": FIVE, "b": Compare("y", "=", 5), "c": FIVE}),
    ],
)  # fmt: skip
def test_outer_joins_and_chains(query: str, expected: dict[str, Predicate | None], tmp_path: Path) -> None:
    assert scans(read(tmp_path, query)) == expected


def test_a_filter_through_a_join_is_named(tmp_path: Path) -> None:
    workload = read(tmp_path, "SELECT * FROM fact f JOIN dim d ON f.k = d.k WHERE d.name = 'x'")
    assert scans(workload) == {"fact": None, "dim": Compare("name", "=", "x")}
    assert unused(workload) == [("f.k = d.k, with `name` = 'x'", JOIN_FILTER, frozenset({"fact"}))]
    workload = read(tmp_path, "SELECT * FROM fact f JOIN (SELECT k FROM dim WHERE name = 'x') d ON f.k = d.k")
    assert unused(workload) == [("f.k = d.k, with the conditions of d", JOIN_FILTER, frozenset({"fact"}))]


def test_a_join_alone_limits_no_table(tmp_path: Path) -> None:
    workload = read(tmp_path, "SELECT * FROM a JOIN b ON a.k = b.k")
    assert unused(workload) == [("a.k = b.k", "compares columns (a join)", frozenset())]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT * FROM (SELECT x FROM t LIMIT 5) WHERE x = 5", "a LIMIT, after which engines stop reading"),
        ("SELECT * FROM (SELECT x + 1 AS y FROM t) WHERE y = 5", "a condition on a computed column"),
        ("SELECT * FROM (SELECT x FROM t) AS u (y) WHERE y = 5", "a condition on a computed column"),
        ("SELECT * FROM (SELECT x, rank() OVER (ORDER BY x) FROM t) WHERE x = 5", "a condition on groups or windows"),
        ("SELECT * FROM (SELECT x FROM t UNION SELECT y + 1 FROM t) WHERE x = 5", "a condition on a computed column"),
        ("SELECT * FROM (SELECT count(*) AS n FROM t) WHERE n = 5", "a condition on groups or windows"),
        (
            "SELECT * FROM t LATERAL VIEW explode(xs) e AS x WHERE e.x = 5",
            "a condition on the rows of a table function",
        ),
        ("SELECT * FROM t LIMIT 10", "a LIMIT, after which engines stop reading"),
        ("SELECT x FROM t GROUP BY x HAVING x = 5", "a condition on groups or windows"),
    ],
)
def test_what_used_to_be_dropped_is_listed(query: str, reason: str, tmp_path: Path) -> None:
    assert reason in [u.reason for u in read(tmp_path, query).unused]


def test_each_table_of_an_or_is_listed(tmp_path: Path) -> None:
    workload = read(tmp_path, "SELECT * FROM a, b WHERE (a.x = 1 AND b.y = 2) OR a.x = 5")
    assert [(u.reason, u.tables) for u in workload.unused] == [("an OR over several tables", frozenset({"b"}))]


def test_what_is_always_true_is_no_condition(tmp_path: Path) -> None:
    workload = read(tmp_path, "SELECT * FROM t WHERE 1 = 1 AND x = 5")
    assert scans(workload) == {"t": FIVE}
    assert workload.unused == ()


def test_an_unreadable_statement_is_counted(tmp_path: Path) -> None:
    workload = read(tmp_path, "-- weight: 7\nSELECT FROM WHERE")
    assert [q.weight for q in workload.unread] == [7.0]


def test_an_event_log_has_times_texts_and_filters_that_were_not_pushed(tmp_path: Path) -> None:
    scan = delta("[EqualTo(x,5)]", "[dynamicpruningexpression(k#7 IN dynamicpruning#9)]")
    above = {"nodeName": "Filter", "simpleString": "Filter ((isnotnull(x#1) AND (x#1 = 5)) AND (length(y#2) = 3))"}
    event = json.loads(execution(above | {"children": [scan], "metadata": {}}))
    event |= {"time": 1_772_368_200_000, "description": "SELECT * FROM t\nWHERE x = 5"}
    path = tmp_path / "log"
    path.write_text(HEAD + json.dumps(event, separators=(",", ":")) + "\n")
    workload = read_workload([path])
    (scanned,) = workload.scans
    assert scanned.predicate == Compare("x", "=", "5")
    assert scanned.query.time == NOW
    assert scanned.query.text == "SELECT * FROM t\nWHERE x = 5"
    assert [(u.text, u.reason) for u in workload.unused] == [
        ("dynamicpruningexpression(k IN dynamicpruning)", JOIN_FILTER),
        ("length(y) = 3", "a function or arithmetic on a column"),
    ]
    assert {u.tables for u in workload.unused} == {frozenset({"s3://b/a b/t"})}


@pytest.mark.parametrize(
    "where",
    [
        " AND ".join(f"a.x{n} = b.x{n + 1}" for n in range(4_000)),
        "a.x = b.x AND " + " AND ".join(f"a.x <> {n}" for n in range(4_000)),
        "a.x = b.x AND b.x = a.y AND a.y = b.y AND " + " AND ".join(f"b.x > {n}" for n in range(3_000)),
    ],
)
def test_many_join_keys_and_conditions_take_little_time(where: str, tmp_path: Path) -> None:
    started = time.process_time()
    workload = read(tmp_path, f"SELECT * FROM a, b WHERE {where}")
    assert {s.table for s in workload.scans} == {"a", "b"}
    assert time.process_time() - started < 30
