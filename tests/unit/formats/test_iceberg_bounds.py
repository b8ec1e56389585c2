"""Bounds decoded a column at a time, against pyiceberg's own value-by-value encoding."""

import math
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    UUIDType,
)

from zlayout.formats.iceberg.read.schema import arrow_type, column_bounds, decode

CASES: list[tuple[PrimitiveType, list[Any], list[Any]]] = [
    (BooleanType(), [True, None, False], [True, None, False]),
    (IntegerType(), [-1, None, 2**31 - 1], [-1, None, 2**31 - 1]),
    (LongType(), [-(2**63), None, 7], [-(2**63), None, 7]),
    (FloatType(), [1.5, None, -math.inf], [1.5, None, -math.inf]),
    (DoubleType(), [0.1, None], [0.1, None]),
    (DateType(), [-1, None, 19723], [date(1969, 12, 31), None, date(2024, 1, 1)]),
    (TimestampType(), [-1, None], [datetime(1969, 12, 31, 23, 59, 59, 999999), None]),
    (StringType(), ["", None, "größer"], ["", None, "größer"]),
    (BinaryType(), [b"\x00\xff", None], [b"\x00\xff", None]),
    (UUIDType(), [uuid.UUID(int=5), None], [uuid.UUID(int=5).bytes, None]),
    (
        DecimalType(38, 2),
        [Decimal("-0.01"), None, Decimal("9" * 28 + ".25")],
        [Decimal("-0.01"), None, Decimal("9" * 28 + ".25")],
    ),
]


@pytest.mark.parametrize(
    ("kind", "values", "expected"), CASES, ids=lambda c: str(c) if isinstance(c, PrimitiveType) else ""
)
def test_types(kind: PrimitiveType, values: list[Any], expected: list[Any]) -> None:
    raw = [None if v is None else to_bytes(kind, v) for v in values]
    found = decode(raw, arrow_type(kind)[0])
    assert found.type == arrow_type(kind)[0]
    assert found.to_pylist() == expected


@given(st.lists(st.none() | st.decimals(-(10**30), 10**30, places=3, allow_nan=False)))
def test_decimals_of_any_width(values: list[Decimal | None]) -> None:
    kind = DecimalType(38, 3)
    found = decode([None if v is None else to_bytes(kind, v) for v in values], pa.decimal128(38, 3))
    assert found.to_pylist() == values


def test_files_from_before_a_type_was_widened() -> None:
    narrow_int, narrow_float = to_bytes(IntegerType(), -5), to_bytes(FloatType(), 1.5)
    assert decode([narrow_int, to_bytes(LongType(), 9)], pa.int64()).to_pylist() == [-5, 9]
    assert decode([narrow_float, to_bytes(DoubleType(), 0.1)], pa.float64()).to_pylist() == [1.5, 0.1]
    day = to_bytes(DateType(), 1)
    assert decode([day], pa.timestamp("us")).to_pylist() == [datetime(1970, 1, 2)]


def test_bytes_of_another_width_are_no_bound() -> None:
    assert decode([b"\x01", b"12345678901234567890"], pa.int32()).to_pylist() == [None, None]
    assert decode([b"", b"\x01" * 17], pa.decimal128(9, 2)).to_pylist() == [None, None]
    assert decode([b"ok", b"\xff\xfe"], pa.string()).to_pylist() == ["ok", None]


def test_no_files() -> None:
    for kind, _, _ in CASES:
        assert len(decode([], arrow_type(kind)[0])) == 0


def test_bounds_of_the_cut_length_are_marked() -> None:
    lower = [b"ab", "ääää".encode(), None]
    upper = [b"abc", b"b", b"wxyz"]
    bounds = column_bounds(lower, upper, np.zeros(3, np.int64), pa.string(), frozenset({4}))
    assert bounds.truncated.tolist() == [False, True, True]
    numbers = column_bounds([b"\x01\0\0\0"], [b"\x01\0\0\0"], np.zeros(1, np.int64), pa.int32(), frozenset({4}))
    assert numbers.truncated.tolist() == [False]
