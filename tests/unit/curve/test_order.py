from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.curve.tree import ordinals_among, rank
from zlayout.errors import TableError

NAN = float("nan")
UTC = timezone.utc  # noqa: UP017


@pytest.mark.parametrize(
    ("values", "ordinals", "distinct"),
    [
        (pa.array([3, None, -1, 3], pa.int32()), [1, -1, 0, 1], [-1, 3]),
        (pa.array([2**63 + 1, 5], pa.uint64()), [1, 0], [5, 2**63 + 1]),
        (pa.array([True, None, False]), [1, -1, 0], [False, True]),
        (
            pa.array(["ab", "a", "z", "é", "\U0001f600", ""]),
            [2, 1, 3, 4, 5, 0],
            ["", "a", "ab", "z", "é", "\U0001f600"],
        ),
        (pa.array(["b", "a"], pa.string_view()), [1, 0], ["a", "b"]),
        (pa.array([b"\xff", b"\x00", b"\x00\x00"]), [2, 0, 1], [b"\x00", b"\x00\x00", b"\xff"]),
        (pa.array([b"zz", b"aa"], pa.binary(2)), [1, 0], [b"aa", b"zz"]),
        (
            pa.array([Decimal(2**60 + 1), Decimal(2**60), None], pa.decimal128(38, 0)),
            [1, 0, -1],
            [Decimal(2**60), Decimal(2**60 + 1)],
        ),
        (pa.array([Decimal("1.5"), Decimal("-1.5")], pa.decimal64(10, 1)), [1, 0], [Decimal("-1.5"), Decimal("1.5")]),
        (pa.array([date(1970, 1, 1), date(1904, 2, 3)]), [1, 0], [date(1904, 2, 3), date(1970, 1, 1)]),
        (
            pa.array([datetime(2020, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us")),
            [1, 0],
            [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2020, 1, 1)],
        ),
        (pa.array(["b", None, "a", "b"]).dictionary_encode(), [1, -1, 0, 1], ["a", "b"]),
        (pa.array([None, None], pa.string()), [-1, -1], []),
        (pa.array([None, None]), [-1, -1], []),
        (pa.array([], pa.int64()), [], []),
        (pa.chunked_array([[2, 1], [None, 2]]), [1, 0, -1, 1], [1, 2]),
    ],
)
def test_ordinals_by_type(values: pa.Array, ordinals: list[int], distinct: list[object]) -> None:
    ranked = rank(values)
    assert ranked.ordinals.tolist() == ordinals
    assert ranked.distinct.to_pylist() == distinct


def test_timestamps_with_zone_keep_their_type() -> None:
    values = pa.array([datetime(2020, 1, 2, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    assert rank(values).ordinals.tolist() == [1, 0]
    assert rank(values).distinct.type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_floats_null_then_values_then_nan_and_both_zeros_are_one(kind: pa.DataType) -> None:
    numbers = pa.array([NAN, 0.0, -0.0, None, float("inf"), float("-inf"), -NAN, 1.5], pa.float32())
    values = numbers.cast(kind)  # Arrow before version 21 makes no float16 from a float
    assert rank(values).ordinals.tolist() == [4, 1, 1, -1, 3, 0, 4, 2]


@pytest.mark.parametrize("values", [pa.array([[1]]), pa.array([{"a": 1}])])
def test_types_without_an_order_are_named(values: pa.Array) -> None:
    with pytest.raises(TableError, match=r"ZL109 expected a column of an orderable type, found (list|struct)"):
        rank(values)


def test_values_outside_the_sample_fall_between_its_values() -> None:
    distinct = pa.array([10.0, 20.0, NAN])
    values = pa.array([None, 9.0, 10.0, 15.0, 20.0, float("inf"), NAN])
    assert ordinals_among(distinct, values).tolist() == [-1, -1, 0, 0, 1, 1, 2]


def test_no_boundaries_put_all_values_below() -> None:
    assert ordinals_among(pa.array([], pa.string()), pa.array(["a", None])).tolist() == [-1, -1]


@given(st.lists(st.one_of(st.none(), st.text(max_size=4))), st.lists(st.text(max_size=4)))
def test_strings_order_as_their_utf8_bytes(values: list[str | None], sample: list[str]) -> None:
    expected = sorted({v.encode() for v in values if v is not None})
    assert rank(pa.array(values, pa.string())).ordinals.tolist() == [
        -1 if v is None else expected.index(v.encode()) for v in values
    ]
    edges = sorted({s.encode() for s in sample})
    found = ordinals_among(pa.array([e.decode() for e in edges], pa.string()), pa.array(values, pa.string()))
    assert found.tolist() == [-1 if v is None else sum(e <= v.encode() for e in edges) - 1 for v in values]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_ordinals_compare_as_the_values_do(values: list[int | None]) -> None:
    ordinals = rank(pa.array(values, pa.int64())).ordinals
    lowest = -(2**63) - 1
    keys = [lowest if v is None else v for v in values]
    for a, b, oa, ob in zip(keys, keys[1:], ordinals, ordinals[1:], strict=False):
        assert (a < b, a == b) == (bool(oa < ob), bool(oa == ob))
    assert np.unique(ordinals[ordinals >= 0]).tolist() == list(range(len({v for v in values if v is not None})))
