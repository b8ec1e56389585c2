"""The 13 queries of the Star Schema Benchmark (O'Neil et al.): each limits the fact, ten of them only through joins."""

from pathlib import Path

from zlayout.predicate.parse import to_sql
from zlayout.workload.files import read_workload

COLUMNS = {
    "lineorder": [
        *("lo_orderkey", "lo_linenumber", "lo_custkey", "lo_partkey", "lo_suppkey", "lo_orderdate", "lo_quantity"),
        *("lo_extendedprice", "lo_discount", "lo_revenue", "lo_supplycost"),
    ],
    "dwdate": ["d_datekey", "d_year", "d_yearmonthnum", "d_yearmonth", "d_weeknuminyear"],
    "customer": ["c_custkey", "c_city", "c_nation", "c_region"],
    "supplier": ["s_suppkey", "s_city", "s_nation", "s_region"],
    "part": ["p_partkey", "p_mfgr", "p_category", "p_brand1"],
}
REVENUE = "SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder, dwdate WHERE lo_orderdate = d_datekey"
BRANDS = (
    "SELECT sum(lo_revenue), d_year, p_brand1 FROM lineorder, dwdate, part, supplier WHERE lo_orderdate = d_datekey "
    "AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey AND {} GROUP BY d_year, p_brand1"
)
PLACES = (
    "SELECT c_{0}, s_{0}, d_year, sum(lo_revenue) FROM customer, lineorder, supplier, dwdate "
    "WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey AND {1} "
    "GROUP BY c_{0}, s_{0}, d_year"
)
PROFIT = (
    "SELECT d_year, sum(lo_revenue - lo_supplycost) FROM dwdate, customer, supplier, part, lineorder "
    "WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey AND lo_orderdate = d_datekey "
    "AND {} GROUP BY d_year"
)
CITIES = "c_city IN ('UNITED KI1', 'UNITED KI5') AND (s_city = 'UNITED KI1' OR s_city = 'UNITED KI5')"
AMERICA = "c_region = 'AMERICA' AND s_region = 'AMERICA' AND (p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2')"
QUERIES = {
    "1.1": f"{REVENUE} AND d_year = 1993 AND lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25",
    "1.2": f"{REVENUE} AND d_yearmonthnum = 199401 AND lo_discount BETWEEN 4 AND 6 AND lo_quantity BETWEEN 26 AND 35",
    "1.3": f"{REVENUE} AND d_weeknuminyear = 6 AND d_year = 1994 AND lo_discount BETWEEN 5 AND 7 AND lo_quantity < 35",
    "2.1": BRANDS.format("p_category = 'MFGR#12' AND s_region = 'AMERICA'"),
    "2.2": BRANDS.format("p_brand1 BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND s_region = 'ASIA'"),
    "2.3": BRANDS.format("p_brand1 = 'MFGR#2239' AND s_region = 'EUROPE'"),
    "3.1": PLACES.format("nation", "c_region = 'ASIA' AND s_region = 'ASIA' AND d_year BETWEEN 1992 AND 1997"),
    "3.2": PLACES.format("city", "c_nation = 'US' AND s_nation = 'US' AND d_year >= 1992 AND d_year <= 1997"),
    "3.3": PLACES.format("city", f"{CITIES} AND d_year BETWEEN 1992 AND 1997"),
    "3.4": PLACES.format("city", f"{CITIES} AND d_yearmonth = 'Dec1997'"),
    "4.1": PROFIT.format(AMERICA),
    "4.2": PROFIT.format(f"(d_year = 1997 OR d_year = 1998) AND {AMERICA}"),
    "4.3": PROFIT.format("s_nation = 'US' AND (d_year = 1997 OR d_year = 1998) AND p_category = 'MFGR#14'"),
}


def test_each_query_limits_the_fact(tmp_path: Path) -> None:
    plain, keys = [], {}
    for number, query in QUERIES.items():
        path = tmp_path / f"{number}.sql"
        path.write_text(query)
        (scan,) = (s for s in read_workload([path], COLUMNS).scans if s.table == "lineorder")
        plain += [number] if scan.predicate is not None else []
        keys[number] = sorted(to_sql(p).replace("`", "") for p in scan.through)
    assert plain == ["1.1", "1.2", "1.3"]
    assert {number: len(found) for number, found in keys.items()} == {
        **dict.fromkeys(("1.1", "1.2", "1.3"), 1),
        **dict.fromkeys(("2.1", "2.2", "2.3"), 2),
        **dict.fromkeys(("3.1", "3.2", "3.3", "3.4", "4.1", "4.3"), 3),
        "4.2": 4,
    }
    assert keys["1.3"] == [
        "lo_orderdate IN (SELECT d_datekey FROM dwdate WHERE (d_weeknuminyear = 6) AND (d_year = 1994))"
    ]
    assert keys["2.3"] == [
        "lo_partkey IN (SELECT p_partkey FROM part WHERE p_brand1 = 'MFGR#2239')",
        "lo_suppkey IN (SELECT s_suppkey FROM supplier WHERE s_region = 'EUROPE')",
    ]
