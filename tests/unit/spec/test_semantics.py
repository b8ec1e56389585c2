"""A spec against the table that it names."""

from dataclasses import replace

import pyarrow as pa
import pytest
from support.builders import make_file_table, make_layout, make_spec, make_state

from zlayout.errors import Location
from zlayout.predicate.model import Compare
from zlayout.predicate.parse import parse_where
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import check
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.state import Column, TableState

LOCATIONS = {
    "zorder.columns[0]": Location("f.yaml", 5, 1),
    "zorder.columns[1]": Location("f.yaml", 6, 1),
    "partition_by[0]": Location("f.yaml", 7, 1),
    "where": Location("f.yaml", 8, 1),
}
SETTING = (("delta.dataSkippingStatsColumns", "day"),)


def state(partitions: tuple[Partition, ...] = ()) -> TableState:
    columns = (
        Column("l_shipdate", pa.date32(), True),
        Column("l_partkey", pa.int64(), True),
        Column("region", pa.string(), True),
        Column("blob", pa.binary(), False),
        Column("late", pa.int64(), True, False, SETTING),
        Column("place.city", pa.string(), True),
        Column("place.zip", pa.int64(), True),
    )
    fields = (PartitionField("region"), PartitionField("l_shipdate", "month"), PartitionField("late", "void"))
    return make_state(make_file_table([], partitions=partitions), columns=columns, partition_fields=fields)


def spec(*columns: str, where: str = "", partition_by: tuple[PartitionField, ...] | None = None) -> LayoutSpec:
    layout = make_layout(*columns, curve="zorder", target_size=1024, engine="native")
    condition = parse_where(where, Location("f.yaml", 8, 1)) if where else None
    place = Location("f.yaml", 2, 1)
    return make_spec(layout, "c.t", place, partition_by=partition_by, where=condition, locations=LOCATIONS)


@pytest.mark.parametrize(
    ("columns", "where", "expected"),
    [
        (("l_shipdate", "l_partkey"), "region = 'EU' and l_shipdate > DATE '2026-01-01'", []),
        (("l_shipdate",), "region like 'E%' and true", []),
        (
            ("l_partkey",),
            "l_shipdate like '2026-%'",
            [
                "f.yaml:8:1: ZL033 expected a string column for LIKE in where, found 'l_shipdate' (type date32[day]) "
                "(compare the column with a literal of its type)"
            ],
        ),
        (
            ("zz",),
            "",
            [
                "f.yaml:5:1: ZL012 unknown column 'zz' in zorder.columns "
                "(known columns: l_shipdate, l_partkey, region, blob, late, place.city, place.zip)"
            ],
        ),
        (
            ("place",),
            "",
            [
                "f.yaml:5:1: ZL012 unknown column 'place' in zorder.columns "
                "(fields of this struct: place.city, place.zip)"
            ],
        ),
        (
            ("l_shpdate", "l_partkey"),
            "",
            ["f.yaml:5:1: ZL012 unknown column 'l_shpdate' in zorder.columns (did you mean 'l_shipdate'?)"],
        ),
        (
            ("l_partkey", "region"),
            "",
            [
                "f.yaml:6:1: ZL035 column 'region' in zorder.columns is a partition column, and has one value in "
                "each file (remove it from zorder.columns)"
            ],
        ),
        (
            ("l_partkey", "blob"),
            "",
            [
                "f.yaml:6:1: ZL034 expected an orderable column in zorder.columns, found 'blob' (type binary) "
                "(use a column of numbers, strings, dates, timestamps or booleans)"
            ],
        ),
        (
            ("l_partkey",),
            "l_partkey = 1 or regin = 'x' or late = 1",
            [
                "f.yaml:8:1: ZL033 expected partition columns in where, found 'l_partkey' "
                "(partition columns: 'l_shipdate', 'region')",
                "f.yaml:8:1: ZL033 expected partition columns in where, found 'late' "
                "(partition columns: 'l_shipdate', 'region')",
                "f.yaml:8:1: ZL012 unknown column 'regin' in where (did you mean 'region'?)",
            ],
        ),
    ],
)
def test_what_is_found(columns: tuple[str, ...], where: str, expected: list[str]) -> None:
    found = sorted(map(str, check(spec(*columns, where=where), state())))
    assert found == sorted(expected)


def test_where_of_a_table_without_partitions_is_to_be_removed() -> None:
    (found,) = check(spec("l_shipdate", where="late = 1"), replace(state(), partition_fields=()))
    assert (found.code, found.hint) == ("ZL033", "remove where, because the table is not partitioned")


def test_missing_statistics_are_a_note() -> None:
    (note,) = check(spec("late"), state())
    assert (note.code, note.severity, note.hint) == ("ZL405", "note", "run zlayout apply, which enables them")
    no_way = replace(state(), columns=(Column("late", pa.int64(), True, False),))
    assert check(spec("late"), no_way)[0].hint == "use another column: the format stores none for int64"


def test_the_declared_partitioning_counts_for_keys_and_must_exist() -> None:
    declared = (PartitionField("l_partkey"),)
    assert check(spec("region", partition_by=declared), state()) == ()
    assert [d.code for d in check(spec("l_partkey", partition_by=declared), state())] == ["ZL035"]
    (missing,) = check(spec("region", partition_by=(PartitionField("rgion", "bucket[4]"),)), state())
    assert str(missing) == "f.yaml:7:1: ZL012 unknown column 'rgion' in partition_by (did you mean 'region'?)"


def test_keys_of_older_partition_specs_still_select() -> None:
    old = Partition(0, (PartitionField("l_partkey", "bucket[4]"),), (1,))
    assert check(spec("l_shipdate", where="l_partkey = 1"), state((old,))) == ()


TYPES = {
    "i": pa.int32(),
    "n": pa.decimal128(9, 2),
    "x": pa.float64(),
    "s": pa.string(),
    "raw": pa.binary(),
    "d": pa.date32(),
    "t": pa.timestamp("us", tz="UTC"),
    "clock": pa.time64("us"),
    "yes": pa.bool_(),
    "items": pa.list_(pa.int32()),
    "odd": pa.null(),
}


@pytest.mark.parametrize(
    ("transform", "of"),
    [
        ("identity", "i n x s raw d t clock yes"),
        ("year", "d t"),
        ("month", "d t"),
        ("day", "d t"),
        ("hour", "t"),
        ("truncate[4]", "i n s raw"),
        ("bucket[4]", "i n s raw d t clock"),
    ],
)
def test_a_partition_key_takes_only_some_types(transform: str, of: str) -> None:
    columns = tuple(Column(name, kind, True) for name, kind in TYPES.items())
    for name in TYPES:
        field = PartitionField(name, transform)
        table = replace(state(), columns=columns, partition_fields=())
        found = check(spec("i", partition_by=(field,)), table)
        codes = [d.code for d in found if d.location == LOCATIONS["partition_by[0]"]]
        assert codes == ([] if name in of.split() else ["ZL036"]), name
        has = check(spec("i", partition_by=(field,)), replace(table, partition_fields=(field,)))
        assert "ZL036" not in [d.code for d in has], "the table has it already"


def test_a_wrong_partition_key_is_reported_with_its_type() -> None:
    (wrong,) = check(spec("late", partition_by=(PartitionField("region", "day"),)), state())[:1]
    assert str(wrong).startswith(
        "f.yaml:7:1: ZL036 cannot apply transform day to column 'region' (type string) in partition_by ("
    )


def test_a_partition_column_has_bounds_once_it_is_none() -> None:
    table = replace(state(), columns=(Column("region", pa.string(), True, False),))
    assert check(spec("region", partition_by=()), table) == ()
    assert [d.code for d in check(spec("region", partition_by=()), replace(table, partition_fields=()))] == ["ZL405"]


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (Compare("l_partkey", "<", "x"), "cannot compare column 'l_partkey' (type int64) with 'x' in zorder.cuts"),
        (Compare("l_shipdate", "<=", 5), "cannot compare column 'l_shipdate' (type date32[day]) with 5 in zorder.cuts"),
    ],
)
def test_a_cut_has_a_literal_of_the_type_of_its_column(cut: Compare, expected: str) -> None:
    layout = make_layout("l_partkey", "l_shipdate", curve="workload", cuts=(Compare("l_partkey", "<", 5), cut))
    spec = make_spec(layout, locations={"zorder.cuts[1]": Location("f.yaml", 9, 7)})
    (found,) = [d for d in check(spec, state()) if d.severity == "error" and d.code == "ZL057"]
    assert (found.message, str(found.location)) == (expected, "f.yaml:9:7")
