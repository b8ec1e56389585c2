# ruff: noqa: E501 (queries)
"""Tables and queries of benchmarks/workload.py: TPC-H, and three generated tables.

Queries come from templates whose parameters are drawn with a fixed seed, as applications and dashboards would.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

Draw = random.Random
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")


@dataclass(frozen=True, slots=True)
class Case:
    """A table and its queries.

    rows: makes the table; the folder has TPC-H's tables. templates: each makes one query from a random generator.
    native: the column choices for the format's own z-order.
    """

    name: str
    rows: Callable[[SparkSession, Path], DataFrame]
    templates: Sequence[Callable[[Draw], str]]
    native: tuple[tuple[str, ...], ...]

    def queries(self, count: int, seed: int) -> list[str]:
        """Return `count` queries, from each template in turn."""
        draw = Draw(seed)
        return [self.templates[number % len(self.templates)](draw) for number in range(count)]


def months_later(day: date, months: int) -> date:
    number = day.month - 1 + months
    return date(day.year + number // 12, number % 12 + 1, day.day)


def between(column: str, first: date, end: date) -> str:
    return f"{column} >= date '{first}' and {column} < date '{end}'"


def a_month(draw: Draw, first: date, months: int) -> date:
    return months_later(first, draw.randrange(months))


# TPC-H, with the parameters of its specification (section 2.4). Q3, Q4, Q7 and Q10 join lineitem and orders.


def q1(draw: Draw) -> str:
    last = date(1998, 12, 1) - timedelta(days=draw.randint(60, 120))
    return f"select l_returnflag, sum(l_quantity) from lineitem where l_shipdate <= date '{last}' group by l_returnflag"


def q3(draw: Draw) -> str:
    day = date(1995, 3, draw.randint(1, 31))
    return (
        "select l_orderkey, sum(l_extendedprice) from customer, orders, lineitem where c_mktsegment = 'BUILDING' and "
        f"c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate < date '{day}' and l_shipdate > date '{day}' "
        "group by l_orderkey"
    )


def q4(draw: Draw) -> str:
    first = a_month(draw, date(1993, 1, 1), 58)
    return (
        f"select o_orderpriority, count(*) from orders where {between('o_orderdate', first, months_later(first, 3))} and "
        "exists (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate) "
        "group by o_orderpriority"
    )


def q6(draw: Draw) -> str:
    year, discount, quantity = draw.randint(1993, 1997), draw.randint(2, 9), draw.choice((24, 25))
    return (
        f"select sum(l_extendedprice) from lineitem where {between('l_shipdate', date(year, 1, 1), date(year + 1, 1, 1))} "
        f"and l_discount between {(discount - 1) / 100:.2f} and {(discount + 1) / 100:.2f} and l_quantity < {quantity}"
    )


def q7(_draw: Draw) -> str:
    return (
        "select sum(l_extendedprice) from supplier, lineitem, orders where s_suppkey = l_suppkey and o_orderkey = l_orderkey "
        "and l_shipdate between date '1995-01-01' and date '1996-12-31'"
    )


def q10(draw: Draw) -> str:
    first = a_month(draw, date(1993, 2, 1), 24)
    return (
        "select c_custkey, sum(l_extendedprice) from customer, orders, lineitem where c_custkey = o_custkey and "
        f"l_orderkey = o_orderkey and {between('o_orderdate', first, months_later(first, 3))} and l_returnflag = 'R' "
        "group by c_custkey"
    )


def q12(draw: Draw) -> str:
    one, other = draw.sample(MODES, 2)
    year = draw.randint(1993, 1997)
    return (
        "select l_shipmode, count(*) from orders, lineitem where o_orderkey = l_orderkey and "
        f"l_shipmode in ('{one}', '{other}') and l_commitdate < l_receiptdate and l_shipdate < l_commitdate and "
        f"{between('l_receiptdate', date(year, 1, 1), date(year + 1, 1, 1))} group by l_shipmode"
    )


def q14(draw: Draw) -> str:
    first = a_month(draw, date(1993, 1, 1), 60)
    return (
        "select sum(l_extendedprice) from lineitem, part where l_partkey = p_partkey and "
        f"{between('l_shipdate', first, months_later(first, 1))}"
    )


def q15(draw: Draw) -> str:
    first = a_month(draw, date(1993, 1, 1), 58)
    return (
        "select l_suppkey, sum(l_extendedprice) from lineitem where "
        f"{between('l_shipdate', first, months_later(first, 3))} group by l_suppkey"
    )


def q19(draw: Draw) -> str:
    parts = []
    for low, high, size in ((1, 10, 5), (10, 20, 10), (20, 30, 15)):
        quantity, brand = draw.randint(low, high), f"Brand#{draw.randint(1, 5)}{draw.randint(1, 5)}"
        parts.append(
            f"(p_partkey = l_partkey and p_brand = '{brand}' and l_quantity >= {quantity} and l_quantity <= {quantity + 10} "
            f"and p_size between 1 and {size} and l_shipmode in ('AIR', 'AIR REG') "
            "and l_shipinstruct = 'DELIVER IN PERSON')"
        )
    return f"select sum(l_extendedprice) from lineitem, part where {' or '.join(parts)}"


def q20(draw: Draw) -> str:
    year = draw.randint(1993, 1997)
    return (
        "select l_partkey, l_suppkey, 0.5 * sum(l_quantity) from lineitem where "
        f"{between('l_shipdate', date(year, 1, 1), date(year + 1, 1, 1))} group by l_partkey, l_suppkey"
    )


TPCH = (q1, q3, q4, q6, q7, q10, q12, q14, q15, q19, q20)


def tpch_rows(table: str) -> Callable[[SparkSession, Path], DataFrame]:
    def rows(spark: SparkSession, folder: Path) -> DataFrame:
        # Iceberg's own z-order cannot order decimals
        found = spark.read.parquet(str(folder / f"{table}.parquet"))
        return found.withColumn("l_quantity", F.expr("cast(l_quantity as bigint)")) if table == "lineitem" else found

    return rows


# Events of tenants: a few tenants have most rows, and dashboards ask for whole months and weeks.
FIRST_DAY = date(2026, 1, 1)


def tenant(draw: Draw) -> int:
    """Return a random tenant, in proportion to the events of the tenants, which follow a power law."""
    return min(int(draw.paretovariate(0.6)), 2000)


def events(spark: SparkSession, _folder: Path) -> DataFrame:
    return spark.range(400_000, numPartitions=2).selectExpr(
        "id",
        "least(cast(power(1 - rand(1), -1 / 0.6) as bigint), 2000) as tenant",
        "date_add(date '2026-01-01', cast(rand(2) * 180 as int)) as day",
        "element_at(array('view', 'view', 'view', 'view', 'view', 'view', 'click', 'click', 'click', 'cart', 'buy', "
        "'error'), cast(rand(3) * 12 as int) + 1) as kind",
        "exp(3 + randn(4)) as milliseconds",
        "sha2(cast(id as string), 256) as payload",
    )


def in_a_month(draw: Draw) -> str:
    first = months_later(FIRST_DAY, draw.randrange(5))
    return between("day", first, months_later(first, 1))


EVENTS = (
    lambda draw: f"select count(*) from events where tenant = {tenant(draw)} and {in_a_month(draw)}",
    lambda draw: (
        "select count(*) from events where kind = 'error' and "
        + between("day", first := FIRST_DAY + timedelta(days=7 * draw.randrange(24)), first + timedelta(days=7))
    ),
    lambda draw: f"select sum(milliseconds) from events where tenant = {tenant(draw)} and kind = 'buy'",
    lambda draw: (
        f"select kind, count(*) from events where kind in ('buy', 'cart') and {in_a_month(draw)} group by kind"
    ),
    lambda draw: (
        f"select * from events where milliseconds > {draw.choice((100, 200, 500))} and day >= date "
        f"'{FIRST_DAY + timedelta(days=7 * draw.randrange(24))}'"
    ),
)


# Invoices: nearly all are paid, amounts and dates are skewed.
def invoices(spark: SparkSession, _folder: Path) -> DataFrame:
    return spark.range(400_000, numPartitions=2).selectExpr(
        "id",
        "case when rand(1) < 0.94 then 'paid' when rand(2) < 0.5 then 'failed' when rand(3) < 0.7 then 'open' else 'new' end "
        "as status",
        "10 * power(1 - rand(4), -1 / 1.5) as amount",
        "date_add(date '2024-01-01', cast(730 * power(rand(5), 0.25) as int)) as created",
        "case when rand(6) < 0.5 then 'eu' when rand(7) < 0.7 then 'us' when rand(8) < 0.7 then 'ap' else 'sa' end as region",
        "sha2(cast(id as string), 256) as note",
    )


def since_2024(draw: Draw) -> date:
    return a_month(draw, date(2024, 1, 1), 22)


INVOICES = (
    lambda draw: f"select * from invoices where status = '{draw.choice(('open', 'failed', 'new'))}'",
    lambda draw: (
        f"select sum(amount) from invoices where region = '{draw.choice(('eu', 'us', 'ap', 'sa'))}' and "
        + between("created", first := since_2024(draw), months_later(first, 3))
    ),
    lambda draw: f"select * from invoices where amount >= {draw.choice((100, 250, 1000))}",
    lambda draw: f"select * from invoices where status in ('open', 'new') and created >= date '{since_2024(draw)}'",
)


# Sales: three dates that follow each other, and prices that grow with them.
def sales(spark: SparkSession, _folder: Path) -> DataFrame:
    days = spark.range(400_000, numPartitions=2).selectExpr(
        "id", "cast(rand(1) * 730 as int) as o", "cast(-ln(1 - rand(2)) * 5 as int) as s", "randn(4) as p",
        "cast(-ln(1 - rand(3)) * 7 as int) as d", "cast(rand(5) * 200 as int) as store"
    )  # fmt: skip
    return days.selectExpr(
        "id",
        "date_add(date '2024-01-01', o) as ordered",
        "date_add(date '2024-01-01', o + s) as shipped",
        "date_add(date '2024-01-01', o + s + d) as delivered",
        "exp(3 + p) * (1 + o / 730) as price",
        "store",
        "sha2(cast(id as string), 256) as note",
    )


SALES = (
    lambda draw: (
        "select count(*) from sales where " + between("ordered", first := since_2024(draw), months_later(first, 1))
    ),
    lambda draw: (
        f"select sum(price) from sales where store = {draw.randrange(200)} and "
        + between("shipped", first := since_2024(draw), months_later(first, 1))
    ),
    lambda draw: (
        "select count(*) from sales where " + between("delivered", first := since_2024(draw), months_later(first, 3))
    ),
    lambda draw: (
        f"select * from sales where price > {draw.choice((50, 100, 200))} and ordered >= date '{since_2024(draw)}'"
    ),
)

CASES = (
    Case(
        "lineitem",
        tpch_rows("lineitem"),
        TPCH,
        (("l_shipdate",), ("l_shipdate", "l_shipmode"), ("l_shipdate", "l_receiptdate", "l_quantity")),
    ),
    Case(
        "orders",
        tpch_rows("orders"),
        TPCH,
        (("o_orderdate",), ("o_orderdate", "o_custkey"), ("o_orderdate", "o_orderpriority")),
    ),
    Case("events", events, EVENTS, (("day", "kind"), ("tenant", "day"), ("tenant", "day", "kind"))),
    Case(
        "invoices", invoices, INVOICES, (("status", "created"), ("created", "amount"), ("status", "created", "amount"))
    ),
    Case("sales", sales, SALES, (("ordered",), ("ordered", "store"), ("ordered", "delivered", "price"))),
)
