"""TPC-H queries 1, 3, 6, 12, 14, 19 and 20: what each implies for each table, worked out by hand."""

from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from zlayout.predicate.model import And, Compare, In, Or, Predicate
from zlayout.workload.files import read_workload
from zlayout.workload.model import Workload

COLUMNS = {
    "customer": ["c_custkey", "c_mktsegment"],
    "orders": ["o_orderkey", "o_custkey", "o_orderdate", "o_shippriority", "o_orderpriority"],
    "lineitem": [
        *("l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_discount", "l_tax"),
        *("l_returnflag", "l_linestatus", "l_shipdate", "l_commitdate", "l_receiptdate", "l_shipmode"),
    ],
    "part": ["p_partkey", "p_name", "p_brand", "p_type", "p_size", "p_container"],
    "supplier": ["s_suppkey", "s_name", "s_address", "s_nationkey"],
    "nation": ["n_nationkey", "n_name"],
    "partsupp": ["ps_partkey", "ps_suppkey", "ps_availqty"],
}
Q1 = """select l_returnflag, sum(l_quantity) from lineitem
where l_shipdate <= date '1998-12-01' - interval '90' day group by l_returnflag"""
Q3 = """select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate
from customer, orders, lineitem
where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
  and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate order by revenue desc limit 10"""
Q6 = """select sum(l_extendedprice * l_discount) from lineitem
where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1' year
  and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24"""
Q12 = """select l_shipmode, count(*) from orders, lineitem
where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate
  and l_receiptdate >= cast('1994-01-01' as date) and l_receiptdate < add_months('1994-01-01', 12)
group by l_shipmode"""
Q14 = """select sum(case when p_type like 'PROMO%' then l_extendedprice end) from lineitem, part
where l_partkey = p_partkey and l_shipdate >= date '1995-09-01'
  and l_shipdate < date '1995-09-01' + interval '1' month"""
Q19 = """select sum(l_extendedprice) from lineitem, part
where (p_partkey = l_partkey and p_brand = 'Brand#12' and l_quantity >= 1 and l_quantity <= 1 + 10
       and p_size between 1 and 5 and l_shipmode in ('AIR', 'AIR REG'))
   or (p_partkey = l_partkey and p_brand = 'Brand#23' and l_quantity >= 10 and l_quantity <= 10 + 10
       and p_size between 1 and 10 and l_shipmode in ('AIR', 'AIR REG'))"""
Q20 = """select s_name from supplier, nation
where s_suppkey in (
    select ps_suppkey from partsupp
    where ps_partkey in (select p_partkey from part where p_name like 'forest%')
      and ps_availqty > (select 0.5 * sum(l_quantity) from lineitem
        where l_partkey = ps_partkey and l_suppkey = ps_suppkey
          and l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1' year))
  and s_nationkey = n_nationkey and n_name = 'CANADA' order by s_name"""


def read(tmp_path: Path, query: str) -> Workload:
    path = tmp_path / "q.sql"
    path.write_text(query)
    return read_workload([path], COLUMNS)


def both(column: str, low: object, above: str, high: object) -> tuple[Compare, Compare]:
    return Compare(column, ">=", low), Compare(column, above, high)  # type: ignore[arg-type]


YEAR = And(both("l_shipdate", date(1994, 1, 1), "<", date(1995, 1, 1)))
AIR = In("l_shipmode", ("AIR", "AIR REG"))
EXPECTED: dict[str, tuple[str, dict[str, Predicate | None]]] = {
    "1": (Q1, {"lineitem": Compare("l_shipdate", "<=", date(1998, 9, 2))}),
    "3": (
        Q3,
        {
            "customer": Compare("c_mktsegment", "=", "BUILDING"),
            "orders": Compare("o_orderdate", "<", date(1995, 3, 15)),
            "lineitem": Compare("l_shipdate", ">", date(1995, 3, 15)),
        },
    ),
    "6": (
        Q6,
        {
            "lineitem": And(
                (
                    *YEAR.operands,
                    *both("l_discount", Decimal("0.05"), "<=", Decimal("0.07")),
                    Compare("l_quantity", "<", 24),
                )
            )
        },
    ),
    "12": (
        Q12,
        {
            "orders": None,
            "lineitem": And(
                (
                    In("l_shipmode", ("MAIL", "SHIP")),
                    *both("l_receiptdate", date(1994, 1, 1), "<", date(1995, 1, 1)),
                )
            ),
        },
    ),
    "14": (Q14, {"lineitem": And(both("l_shipdate", date(1995, 9, 1), "<", date(1995, 10, 1))), "part": None}),
    "19": (
        Q19,
        {
            "lineitem": Or(
                (And((*both("l_quantity", 1, "<=", 11), AIR)), And((*both("l_quantity", 10, "<=", 20), AIR)))
            ),
            "part": Or(
                (
                    And((Compare("p_brand", "=", "Brand#12"), *both("p_size", 1, "<=", 5))),
                    And((Compare("p_brand", "=", "Brand#23"), *both("p_size", 1, "<=", 10))),
                )
            ),
        },
    ),
    "20": (
        Q20,
        {
            "supplier": None,
            "nation": Compare("n_name", "=", "CANADA"),
            "partsupp": None,
            "part": And(both("p_name", "forest", "<", "foresu")),
            "lineitem": YEAR,
        },
    ),
}


@pytest.mark.parametrize("number", EXPECTED)
def test_each_query_gives_each_table_its_predicate(number: str, tmp_path: Path) -> None:
    query, expected = EXPECTED[number]
    workload = read(tmp_path, query)
    assert {scan.table: scan.predicate for scan in workload.scans} == expected
    assert len(workload.scans) == len(expected)


def test_what_query_20_cannot_use_is_listed(tmp_path: Path) -> None:
    filtered = "a filter through a join, which limits the table only at run time"  # n_name = 'CANADA' limits supplier
    reasons = Counter(unused.reason for unused in read(tmp_path, Q20).unused)
    assert reasons == {"a subquery": 3, "compares columns (a join)": 2, filtered: 1}
