"""The keys of other tables that limit a scan: which joins and subqueries imply them, and which do not."""

from pathlib import Path

import pytest

from zlayout.predicate.parse import to_sql
from zlayout.workload.files import read_workload

COLUMNS = {
    "f": ["f_d", "f_ship", "f_i", "f_t", "x"],
    "d": ["d_sk", "d_year", "d_week"],
    "i": ["i_sk", "i_class", "i_brand"],
    "b": ["b_sk", "b_name"],
    "r": ["r_d", "r_t"],
}


def through(tmp_path: Path, query: str) -> list[str]:
    """The conditions through joins on the scans of f, as SQL without quotes."""
    path = tmp_path / "q.sql"
    path.write_text(query)
    workload = read_workload([path], COLUMNS)
    assert not workload.unread
    return [to_sql(p).replace("`", "") for scan in workload.scans if scan.table == "f" for p in scan.through]


LIKE = "f_d IN (SELECT d_sk FROM d WHERE d_week LIKE '%a_')"
YEAR = "f_d IN (SELECT d_sk FROM d WHERE d_year = 2000)"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM f, d WHERE f_d = d_sk AND d_year = 2000", [YEAR]),
        ("SELECT * FROM f JOIN d ON d_sk = f_d AND d_year = 2000", [YEAR]),
        ("SELECT * FROM f a JOIN d z ON a.f_d = z.d_sk WHERE z.d_year = 2000", [YEAR]),
        ("SELECT * FROM f LEFT SEMI JOIN d ON f_d = d_sk AND d_year = 2000", [YEAR]),
        ("SELECT * FROM f LEFT JOIN d ON f_d = d_sk WHERE d_year = 2000", [YEAR]),
        ("SELECT * FROM f LEFT OUTER JOIN d ON f_d = d_sk WHERE d_year = 2000", [YEAR]),
        # In the subquery, f_d is the column of b.
        (
            "SELECT * FROM f a, d WHERE a.f_d = d_sk AND d_year = 2000 AND EXISTS (SELECT 1 FROM f b WHERE f_i = f_d)",
            [YEAR],
        ),
        (
            "SELECT * FROM f LEFT JOIN i ON f_i = i_sk, b WHERE i_brand = b_sk AND b_name = 'x'",
            ["f_i IN (SELECT i_sk FROM i WHERE i_brand IN (SELECT b_sk FROM b WHERE b_name = 'x'))"],
        ),
        ("SELECT * FROM d LEFT JOIN f ON f_d = d_sk WHERE d_year = 2000", [YEAR]),
        ("SELECT * FROM f RIGHT JOIN d ON f_d = d_sk WHERE d_year = 2000", [YEAR]),
        ("SELECT * FROM f WHERE f_d IN (SELECT d_sk FROM d WHERE d_year = 2000)", [YEAR]),
        ("SELECT * FROM f WHERE f_d = (SELECT d_sk FROM d WHERE d_year = 2000)", [YEAR]),
        ("SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_sk = f_d AND d_year = 2000)", [YEAR]),
        ("SELECT * FROM f a WHERE x > 1 AND EXISTS (SELECT * FROM d z WHERE a.f_d = z.d_sk AND d_year = 2000)", [YEAR]),
        ("SELECT * FROM f WHERE EXISTS (SELECT DISTINCT d_week FROM d WHERE d_sk = f_d AND d_year = 2000)", [YEAR]),
        (
            "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d, i WHERE d_sk = f_d AND i_sk = f_i AND d_year = 2000)",
            [YEAR],
        ),
        (
            "SELECT * FROM f WHERE x = 1 OR EXISTS (SELECT 1 FROM d WHERE d_sk = f_d AND d_year = 2000)",
            [f"(x = 1) OR ({YEAR})"],
        ),
        (
            "SELECT * FROM f, r WHERE f_i = r_d AND EXISTS (SELECT 1 FROM d WHERE d_sk = r_d AND d_year = 2000)",
            [
                YEAR.replace("f_d", "f_i"),
                "f_i IN (SELECT r_d FROM r WHERE r_d IN (SELECT d_sk FROM d WHERE d_year = 2000))",
            ],
        ),
        ("SELECT * FROM f JOIN (SELECT * FROM d WHERE d_year = 2000) z ON f_d = z.d_sk", [YEAR]),
        ("WITH z AS (SELECT d_sk AS k FROM d WHERE d_year = 2000) SELECT * FROM f JOIN z ON f_d = k", [YEAR]),
        (
            "SELECT * FROM (SELECT f_d AS k FROM f) q JOIN (SELECT d_sk AS k FROM d WHERE d_year = 2000) z USING (k)",
            [YEAR],
        ),
        ("WITH z AS (SELECT d_sk FROM d) SELECT * FROM f JOIN z ON f_d = d_sk", []),
        ("SELECT * FROM (SELECT f_d AS k FROM f) q JOIN d ON k = d_sk WHERE d_year = 2000", [YEAR]),
        ("SELECT * FROM d WHERE d_year = 2000 AND EXISTS (SELECT * FROM f WHERE f_d = d_sk)", [YEAR]),
        (
            "SELECT * FROM f, d z, d y WHERE f_d = z.d_sk AND f_ship = y.d_sk AND y.d_year = 1 AND z.d_year = 2000",
            [YEAR, "f_ship IN (SELECT d_sk FROM d WHERE d_year = 1)"],
        ),
        (
            "SELECT * FROM f JOIN i ON f_i = i_sk JOIN b ON i_brand = b_sk WHERE b_name = 'x'",
            ["f_i IN (SELECT i_sk FROM i WHERE i_brand IN (SELECT b_sk FROM b WHERE b_name = 'x'))"],
        ),
        ("SELECT * FROM r JOIN d ON r_d = d_sk JOIN f ON f_d = r_d WHERE d_year = 2000", [YEAR]),
        # LIKE needs rows: those of d can be evaluated, and those of f only at run time.
        ("SELECT * FROM f JOIN d ON f_d = d_sk WHERE d_week LIKE '%a_' AND x LIKE '%b'", [LIKE]),
        ("SELECT * FROM f JOIN d ON f_d = d_sk WHERE NOT d_week NOT LIKE '%a_'", [LIKE]),
        ("SELECT * FROM f JOIN d ON f_d = d_sk WHERE NOT d_week LIKE '%a_'", [LIKE.replace("LIKE", "NOT LIKE")]),
        (
            "SELECT * FROM f JOIN d ON f_d = d_sk WHERE d_week LIKE '%/%!' ESCAPE '/' OR d_year = 1",
            ["f_d IN (SELECT d_sk FROM d WHERE (d_week LIKE '%!%!!' ESCAPE '!') OR (d_year = 1))"],
        ),
        ("SELECT * FROM f WHERE x LIKE '%b' OR f_d IN (SELECT d_sk FROM d WHERE d_year = 2000)", []),
        ("SELECT * FROM f JOIN d ON f_d = d_sk WHERE d_sk LIKE '%a_'", [LIKE.replace("d_week", "d_sk")]),
        # An engine may ignore spaces at the end in i_class = b_name, and not in LIKE.
        (
            "SELECT * FROM f JOIN b ON x = b_name JOIN i ON b_name = i_class WHERE i_class LIKE '%a'",
            ["x IN (SELECT i_class FROM i WHERE i_class LIKE '%a')"],
        ),
        # Engines differ in a backslash without ESCAPE, and in an escape character before another one.
        (r"SELECT * FROM f JOIN d ON f_d = d_sk WHERE d_week LIKE '%\\%'", []),
        ("SELECT * FROM f JOIN d ON f_d = d_sk WHERE d_week LIKE '%/a' ESCAPE '/'", []),
        ("SELECT * FROM f JOIN d ON f_d = d_sk WHERE d_week LIKE '%a/' ESCAPE '/'", []),
        ("SELECT * FROM f JOIN d ON f_d = d_sk WHERE lower(d_week) LIKE '%a'", []),
        ("SELECT * FROM f JOIN d ON f_d = d_sk WHERE d_week ILIKE '%a'", []),
        ("SELECT * FROM d LEFT JOIN f ON f_d = d_sk WHERE d_week LIKE '%a_'", [LIKE]),
        ("SELECT * FROM f LEFT JOIN d ON f_d = d_sk AND d_week LIKE '%a_'", []),
        (
            "SELECT * FROM f, i WHERE (f_i = i_sk AND i_class = 'a' AND x < 1) OR (i_sk = f_i AND i_class = 'b')",
            ["f_i IN (SELECT i_sk FROM i WHERE (i_class = 'a') OR (i_class = 'b'))"],
        ),
        (
            "SELECT * FROM f WHERE f_d IN (SELECT d_sk FROM d WHERE d_year = 1 UNION ALL SELECT r_d FROM r)",
            ["f_d IN (SELECT d_sk FROM d WHERE d_year = 1 UNION ALL SELECT r_d FROM r)"],
        ),
    ],
)
def test_conditions_on_other_tables_become_conditions_on_keys(query: str, expected: list[str], tmp_path: Path) -> None:
    assert through(tmp_path, query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM f LEFT JOIN d ON f_d = d_sk AND d_year = 2000",
        "SELECT * FROM f FULL JOIN d ON f_d = d_sk AND d_year = 2000",
        "SELECT * FROM f LEFT JOIN d ON f_d = d_sk WHERE d_year IS NULL",
        "SELECT * FROM f LEFT JOIN (i JOIN b ON i_brand = b_sk AND b_name = 'x') ON f_i = i_sk",
        "SELECT * FROM f LEFT ANTI JOIN d ON f_d = d_sk AND d_year = 2000",
        "SELECT * FROM f JOIN d ON f_d = d_sk + 1 WHERE d_year = 2000",
        "SELECT * FROM f JOIN d ON f_d < d_sk WHERE d_year = 2000",
        "SELECT * FROM f JOIN d ON f_d <=> d_sk WHERE d_year = 2000",
        "SELECT * FROM f, d WHERE (f_d = d_sk AND d_year = 2000) OR x = 1",
        "SELECT * FROM f WHERE f_d NOT IN (SELECT d_sk FROM d WHERE d_year = 2000)",
        "SELECT * FROM f WHERE NOT f_d IN (SELECT d_sk FROM d WHERE d_year = 2000)",
        "SELECT * FROM f WHERE f_d IN (SELECT d_sk FROM d WHERE d_year = 2000) OR rand() < 1",
        "SELECT * FROM f JOIN d@v3 ON f_d = d_sk WHERE d_year = 2000",
        "SELECT * FROM f JOIN d PIVOT (sum(d_week) FOR d_year IN (1, 2)) p ON f_d = d_sk WHERE d_year = 2000",
        "SELECT * FROM f JOIN d VERSION AS OF 3 ON f_d = d_sk WHERE d_year = 2000",
        "SELECT * FROM f WHERE f_d IN (SELECT d_sk FROM d TIMESTAMP AS OF '2020-01-01' WHERE d_year = 2000)",
        "SELECT * FROM f WHERE f_d IN (SELECT d_sk FROM d)",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_sk = f_d)",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_year = 2000)",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_sk < f_d AND d_year = 2000)",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_year = 2000 AND (d_sk = f_d OR d_week = 1))",
        "SELECT * FROM f WHERE EXISTS (SELECT max(d_week) FROM d WHERE d_sk = f_d AND d_year = 2000)",
        "SELECT * FROM f WHERE EXISTS (SELECT my_aggregate(d_week) FROM d WHERE d_sk = f_d AND d_year = 2000)",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_sk = f_d AND d_year = 2000 GROUP BY ROLLUP (d_week))",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_sk = f_d AND d_year = 2000 GROUP BY GROUPING SETS (()))",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_sk = f_d AND d_year = 2000 GROUP BY ())",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_sk = f_d AND d_year = 2000 HAVING count(*) = 0)",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d WHERE d_sk = f_d AND d_year = 2000 UNION SELECT 1)",
        "SELECT * FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE d_sk = f_d AND d_year = 2000)",
        "SELECT * FROM f WHERE NOT (x = 1 OR EXISTS (SELECT 1 FROM d WHERE d_sk = f_d AND d_year = 2000))",
        "SELECT * FROM f LEFT JOIN d ON f_d = d_sk AND EXISTS (SELECT 1 FROM i WHERE i_sk = f_i AND i_class = 'a')",
        "SELECT * FROM f WHERE EXISTS (SELECT 1 FROM d VERSION AS OF 3 WHERE d_sk = f_d AND d_year = 2000)",
        "SELECT * FROM f WHERE f_d IN (SELECT d_sk + 1 FROM d WHERE d_year = 2000)",
        "SELECT * FROM f WHERE f_d IN (SELECT max(d_sk) FROM d WHERE d_year = 2000)",
        "SELECT * FROM f JOIN (SELECT d_sk + 1 AS k FROM d WHERE d_year = 2000) z ON f_d = k",
        "SELECT * FROM f JOIN (SELECT * REPLACE (d_sk + 1 AS d_sk) FROM d WHERE d_year = 2000) z ON f_d = z.d_sk",
        "SELECT * FROM f JOIN (SELECT d_week, d_sk FROM d WHERE d_year = 1) z (d_sk, d_week) ON f_d = z.d_sk",
        "SELECT * FROM (SELECT * FROM f LIMIT 5) q JOIN d ON q.f_d = d_sk WHERE d_year = 2000",
        "SELECT * FROM (SELECT f_d, rank() OVER (ORDER BY x) AS n FROM f) q JOIN d ON f_d = d_sk WHERE d_year = 2000",
        "SELECT * FROM (SELECT max(f_d) AS k FROM f) q JOIN d ON k = d_sk WHERE d_year = 2000",
    ],
)
def test_in_doubt_there_is_no_condition(query: str, tmp_path: Path) -> None:
    assert through(tmp_path, query) == []
