"""A workload's queries on one table: names, spelling, printed literals, partitions, shares."""

from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from unit.advisor.tables import lineitem_like, table_state

from zlayout.advisor.costs import column_shares, in_partitions, is_named, queries_on
from zlayout.advisor.model import TableQuery, Use
from zlayout.predicate.coercion import from_printed
from zlayout.predicate.model import And, Compare, In
from zlayout.spec.model import TableName
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.state import TableState
from zlayout.workload.files import read_workload
from zlayout.workload.model import Query, Scan, Workload

TABLE = TableName("lake", ("db",), "T")
DATA = lineitem_like(100)
FILE = np.arange(100) % 4
REAL = Path(__file__).parents[2] / "fixtures" / "demo-event-log.gz"


def table_queries(workload: Workload, table: TableName, state: TableState) -> tuple[tuple[TableQuery, ...], int]:
    found = queries_on(workload, table, state)
    return in_partitions(found.queries, state), found.coverage.queries.get(Use.READS_ALL, 0)


def test_a_table_goes_by_its_name_or_its_place() -> None:
    for name in ("t", "db.t", "lake.db.t"):
        assert is_named(name, TABLE)
    for name in ("other.db.t", "b.t", "xt", "/t"):
        assert not is_named(name, TABLE)
    for place in ("file:/w/t", "file:///w/t", "/w/t/"):
        assert is_named(place, TABLE, "/w/t")
        assert is_named(place, TABLE, "file:///w/t")
    assert not is_named("s3://b/w/t", TABLE, "/w/t")


def test_columns_are_spelled_as_in_the_table_and_shares_are_of_the_weight() -> None:
    scans = (
        Scan(Query("", "q:1", 3.0), "t", And((Compare("SHIP", ">", "1971-01-01"), Compare("Part", "=", 5)))),
        Scan(Query("", "q:2"), "t", Compare("part", "=", 6)),
        Scan(Query("", "q:3"), "t", None),
        Scan(Query("", "q:4", 9.0), "elsewhere", Compare("part", "=", 7)),
    )
    queries, reading_all = table_queries(Workload(scans, (), 4), TABLE, table_state(DATA, FILE))
    assert [q.location for q in queries] == ["q:1", "q:2"]
    assert reading_all == 1
    assert column_shares(queries) == {"part": 1.0, "ship": 0.75}


def test_a_query_that_scans_twice_opens_both() -> None:
    query = Query("", "q:1", 2.0)
    scans = tuple(Scan(query, "t", Compare("part", "=", n)) for n in (1, 2))
    queries, _ = table_queries(Workload(scans, (), 1), TABLE, table_state(DATA, FILE))
    assert len(queries) == 1
    assert len(queries[0].predicates) == 2


def test_statements_of_one_line_and_of_a_file_given_twice_are_queries_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text("/* weight: 1000 */ SELECT * FROM t WHERE part = 5; SELECT * FROM t WHERE part BETWEEN 1 AND 79;")
    queries, _ = table_queries(read_workload([path, path]), TABLE, table_state(DATA, FILE))
    point, some = Compare("part", "=", 5), And((Compare("part", ">=", 1), Compare("part", "<=", 79)))
    assert [(q.weight, q.predicates) for q in queries] == [(1000.0, (point,)), (1.0, (some,))] * 2
    assert {q.location for q in queries} == {f"{path}:1"}


def test_partitions_are_ruled_out_by_their_values() -> None:
    field = (PartitionField("mode"),)
    partitions = [Partition(0, field, (value,)) for value in ("AIR", "MAIL")]
    state = table_state(DATA, FILE, partitions=partitions, partition=[0, 0, 1, 1])
    scans = (
        Scan(Query("", "q:1"), "t", And((Compare("mode", "=", "MAIL"), Compare("part", ">", 5)))),
        Scan(Query("", "q:2"), "t", In("mode", ("MAIL", "AIR"))),
    )
    queries, _ = table_queries(Workload(scans, (), 2), TABLE, state)
    assert [q.partitions[0].tolist() for q in queries] == [[False, True], [True, True]]


def test_partitions_are_ruled_out_by_the_bounds_of_their_files() -> None:
    field = (PartitionField("mode"),)
    partitions = [Partition(0, field, (value,)) for value in ("AIR", "MAIL")]
    data = {"part": pa.array([1, 2, 8, 9])}
    state = table_state(data, np.array([0, 0, 1, 1]), partitions=partitions, partition=[0, 1])
    scans = (Scan(Query("", "q:1"), "t", Compare("part", "=", 8)), Scan(Query("", "q:2"), "t", Compare("part", "=", 5)))
    queries, _ = table_queries(Workload(scans, (), 2), TABLE, state)
    assert [q.partitions[0].tolist() for q in queries] == [[False, True], [False, False]]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (9298, pa.date32(), date(1995, 6, 17)),
        (1_000_000, pa.timestamp("us", "UTC"), datetime(1970, 1, 1, 0, 0, 1)),
        ("1.5", pa.float64(), 1.5),
        ("true", pa.bool_(), True),
        ("5", pa.int64(), "5"),
        (10**12, pa.date32(), 10**12),
        ("x", pa.float64(), "x"),
    ],
)
def test_literals_as_plans_print_them(value: object, kind: pa.DataType, expected: object) -> None:
    assert from_printed(value, kind) == expected  # type: ignore[arg-type]


def test_both_formats_of_a_real_event_log_ask_for_the_same_files() -> None:
    workload = read_workload([REAL])
    data = {
        "l_shipdate": DATA["ship"],
        "l_partkey": DATA["part"],
    }
    state = table_state(data, FILE)
    by_place = replace(state, location="/tmp/advdemo/.demo/delta/tpch/lineitem")
    ours, _ = table_queries(workload, TableName("lake", ("tpch",), "other"), by_place)
    theirs, _ = table_queries(workload, TableName("ice", ("tpch",), "lineitem"), state)
    assert len(ours) == len(theirs) == 3
    asked = And(
        (
            Compare("l_shipdate", ">=", date(1996, 1, 1)),
            Compare("l_shipdate", "<=", date(1996, 3, 31)),
            Compare("l_partkey", "<", 2000),
        )
    )
    assert theirs[2].predicates == (asked,)
    assert column_shares(ours) == column_shares(theirs)
