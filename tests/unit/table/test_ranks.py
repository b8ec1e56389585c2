"""Dense ranks of bounds: every orderable type, exactness, and files whose bounds say nothing."""

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlayout.errors import TableError
from zlayout.table.ranks import Ranked, axis_and_ranks, rank_bounds
from zlayout.table.state import ColumnBounds


def ranked(lower: list[Any], upper: list[Any], kind: pa.DataType, nulls: list[int] | None = None) -> Ranked:
    count = len(lower)
    null_count = np.array(nulls if nulls is not None else [0] * count, np.int64)
    bounds = ColumnBounds(pa.array(lower, kind), pa.array(upper, kind), null_count, np.zeros(count, bool))
    return rank_bounds(bounds, np.full(count, 10, np.int64))


def order_key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


TYPES = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "decimal small": (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    "decimal wide": (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "decimal256": (pa.decimal256(60, 0), st.integers(-(10**60) + 1, 10**60 - 1).map(Decimal)),
    "string": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    "long prefix": (pa.large_string(), st.text("ab\x00é", max_size=24).map("https://example.org/".__add__)),
    "binary": (pa.binary(), st.binary(max_size=20)),
    "zero bytes": (pa.binary(), st.binary(max_size=12).map(lambda b: bytes(x & 1 for x in b))),
    "string view": (pa.string_view(), st.text("ab", max_size=20)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "timestamp zone": (pa.timestamp("us", "UTC"), st.datetimes().map(lambda t: t.replace(tzinfo=UTC))),
    "time": (pa.time64("us"), st.times()),
    "bool": (pa.bool_(), st.booleans()),
}


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=60)
@given(data=st.data())
def test_ranks_follow_the_order_of_the_values_exactly(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    pairs = data.draw(st.lists(st.tuples(values, values), min_size=1, max_size=40))
    pairs = [tuple(sorted(p, key=order_key)) for p in pairs]
    lower, upper = [p[0] for p in pairs], [p[1] for p in pairs]
    place = {v: i for i, v in enumerate(sorted({order_key(v) for p in pairs for v in p}))}
    column = ranked(lower, upper, kind)
    assert column.lo.tolist() == [place[order_key(v)] for v in lower]
    assert column.hi.tolist() == [place[order_key(v)] for v in upper]
    assert column.unbounded == 0


def test_many_repeated_strings_rank_like_few() -> None:
    modes = ["MAIL", "AIR", "REG AIR", "TRUCK", "FOB", "RAIL", "SHIP"] * 300
    column = ranked(modes, modes, pa.string())
    assert column.lo[:7].tolist() == [2, 0, 4, 6, 1, 3, 5]
    assert (column.lo == np.tile(column.lo[:7], 300)).all()


def test_decimals_beyond_two_to_the_53_keep_their_distance() -> None:
    big = 10**30
    column = ranked([Decimal(big), Decimal(big + 1)], [Decimal(big + 1), Decimal(big + 4)], pa.decimal128(38, 0))
    assert column.lo.tolist() == [0, 1]
    assert column.hi.tolist() == [1, 2]
    widths = column.axis.width(np.array([0, 1]), np.array([1, 2])) / column.axis.point
    assert widths.tolist() == [1.0, 3.0]


def test_neighbouring_int64_keep_their_distance() -> None:
    top = 2**63 - 1
    column = ranked([-(2**63), top - 3], [top - 3, top], pa.int64())
    assert column.axis.width(np.array([0, 1]), np.array([1, 2])).tolist() == [2.0**64, 3.0]


def test_zeros_are_equal_and_nan_is_no_bound() -> None:
    column = ranked([-0.0, 0.0, math.nan, 1.0], [0.0, -0.0, 2.0, math.nan], pa.float64())
    assert column.lo.tolist() == [0, 0, 0, 1]
    assert column.hi.tolist() == [0, 0, 2, 2]
    assert column.open_lo.tolist() == [False, False, True, False]
    assert column.open_hi.tolist() == [False, False, False, True]
    assert column.unbounded == 2


def test_infinite_bounds_are_finite_ranks() -> None:
    column = ranked([-math.inf, 1.0], [0.0, math.inf], pa.float64())
    assert (column.lo.tolist(), column.hi.tolist(), column.unbounded) == ([0, 2], [1, 3], 0)


def test_missing_bounds_span_everything_and_all_null_files_nothing() -> None:
    column = ranked([1, None, None, 5], [3, None, None, None], pa.int32(), nulls=[0, -1, 10, 2])
    assert column.lo.tolist() == [0, 0, 0, 2]
    assert column.hi.tolist() == [1, 2, -1, 2]
    assert column.empty.tolist() == [False, False, True, False]
    assert column.unbounded == 2


def test_bounds_the_wrong_way_round_are_no_bounds() -> None:
    column = ranked([5, 1], [2, 3], pa.int64())
    assert column.lo.tolist() == [0, 0]
    assert column.hi.tolist() == [3, 2]
    assert column.unbounded == 1


def test_no_files_and_no_bounds() -> None:
    assert len(ranked([], [], pa.string())) == 0
    bare = ranked([None, None], [None, None], pa.decimal128(20, 2))
    assert (bare.lo.tolist(), bare.hi.tolist(), bare.unbounded) == ([0, 0], [0, 0], 2)


def test_dictionary_and_fixed_size_binary() -> None:
    words = pa.array(["b", "a", "b"]).dictionary_encode()
    bounds = ColumnBounds(words, words, np.zeros(3, np.int64), np.zeros(3, bool))
    assert rank_bounds(bounds, np.full(3, 9)).lo.tolist() == [1, 0, 1]
    assert ranked([b"\xff\x00", b"\x00\xff"], [b"\xff\xff", b"\x00\xff"], pa.binary(2)).lo.tolist() == [1, 0]


def test_sliced_arrays() -> None:
    texts, numbers = pa.array(["z", "b", "a", "c"])[1:], pa.array([Decimal(9), Decimal(2), Decimal(10**25)])[1:]
    none, flags = np.zeros(3, np.int64), np.zeros(3, bool)
    assert rank_bounds(ColumnBounds(texts, texts, none, flags), np.full(3, 1)).lo.tolist() == [1, 0, 2]
    two = ColumnBounds(numbers, numbers, none[:2], flags[:2])
    assert rank_bounds(two, np.full(2, 1)).lo.tolist() == [0, 1]


def test_type_without_an_order_is_refused() -> None:
    with pytest.raises(TableError, match=r"ZL109 expected a column of an orderable type, found list"):
        ranked([[1]], [[2]], pa.list_(pa.int64()))


def test_dates_and_times_before_1970() -> None:
    assert ranked([date(1960, 1, 1)], [date(1970, 1, 2)], pa.date64()).hi.tolist() == [1]
    assert ranked([datetime(1900, 1, 1)], [datetime(1899, 1, 1)], pa.timestamp("ns")).unbounded == 1
    assert ranked([time(1)], [time(2)], pa.time32("s")).hi.tolist() == [1]


def test_widths_of_long_decimals_count_both_words() -> None:
    values = [Decimal(0), Decimal(2**63), Decimal(2**64), Decimal(2**65)]
    axis, ranks = axis_and_ranks(pa.array(values, pa.decimal128(38, 0)))
    assert ranks.tolist() == [0, 1, 2, 3]
    assert axis.width(slice(0, 3), slice(1, 4)).tolist() == [0.5, 0.5, 1.0]
    assert axis.point == 2.0**-64
