"""Partition transforms of samples have the results of Iceberg's own implementation."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import transforms, types

from zlayout.table.partition_values import transformed

HOUR = 3_600_000_000
DAYS = [-719_162, -366, -365, -1, 0, 30, 31, 364, 365, 20_000]
MICROSECONDS = [-62_135_596_800_000_000, -HOUR - 1, -HOUR, -1, 0, HOUR - 1, HOUR, 24 * HOUR, 1_770_000_000_123_456]
NUMBERS = [-(2**31) + 8, -11, -10, -1, 0, 9, 10, 2**31 - 1]
AMOUNTS = [Decimal(text) for text in ("-99.99", "-0.50", "-0.01", "0.00", "0.10", "0.49", "0.50", "10.65", "99.99")]
TEXTS = ["", "ice", "iceberg", "été", "\U0001f600abc"]
TRANSFORMS: dict[str, transforms.Transform[Any, Any]] = {
    "year": transforms.YearTransform(),
    "month": transforms.MonthTransform(),
    "day": transforms.DayTransform(),
    "hour": transforms.HourTransform(),
    "truncate[3]": transforms.TruncateTransform(3),
    "truncate[10]": transforms.TruncateTransform(10),
    "truncate[50]": transforms.TruncateTransform(50),
    "truncate[100000]": transforms.TruncateTransform(100_000),
    "identity": transforms.IdentityTransform(),
    "void": transforms.VoidTransform(),
}


@pytest.mark.parametrize(
    ("names", "source", "kind", "values"),
    [
        (("year", "month", "day", "identity"), types.DateType(), pa.date32(), DAYS),
        (("year", "month", "day", "hour"), types.TimestampType(), pa.timestamp("us"), MICROSECONDS),
        (("year", "month", "day", "hour"), types.TimestamptzType(), pa.timestamp("us", "UTC"), MICROSECONDS),
        (("truncate[3]", "truncate[10]", "identity"), types.IntegerType(), pa.int32(), NUMBERS),
        (("truncate[10]", "void"), types.LongType(), pa.int64(), [*NUMBERS, 2**62, -(2**62)]),
        (("truncate[10]", "truncate[50]"), types.DecimalType(4, 2), pa.decimal128(4, 2), AMOUNTS),
        (("truncate[100000]",), types.DecimalType(2, 0), pa.decimal128(2, 0), [Decimal(-99), Decimal(99)]),
        (
            ("truncate[50]",),
            types.DecimalType(38, 2),
            pa.decimal128(38, 2),
            [Decimal("12345678901234567890.12"), Decimal("-0.01")],
        ),
        (("truncate[3]", "truncate[10]", "void"), types.StringType(), pa.string(), TEXTS),
        (("truncate[3]", "truncate[10]"), types.BinaryType(), pa.binary(), [b"", b"abc", b"\xff\x00\xfe\x01"]),
    ],
)
def test_values_are_those_of_iceberg(
    names: tuple[str, ...], source: types.PrimitiveType, kind: pa.DataType, values: list[Any]
) -> None:
    numbers = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64(), pa.timestamp("us", "UTC"): pa.int64()}
    rows = pa.array([*values, None, values[0]], numbers.get(kind, kind)).view(kind)
    for name in names:
        found, apply = transformed(rows, name), TRANSFORMS[name].transform(source)
        found = found.cast(pa.int32()) if found.type == pa.date32() else found
        assert found.to_pylist() == [*(apply(value) for value in values), None, apply(values[0])], name
        assert transformed(pa.nulls(2, kind), name).to_pylist() == [None, None], name


@pytest.mark.parametrize(
    "values", [list(range(1000)), [f"key {n}" for n in range(1000)], list(map(Decimal, range(1000)))]
)
def test_buckets_are_even_and_the_same_for_equal_values(values: list[Any]) -> None:
    found = transformed(pa.array([*values, None, *values]), "bucket[4]").to_pylist()
    first, again = found[:1000], found[1001:]
    assert (first, found[1000]) == (again, None)
    assert all(200 <= first.count(bucket) <= 300 for bucket in range(4))
    assert transformed(pa.nulls(2, pa.int32()), "bucket[4]").to_pylist() == [None, None]


def test_an_unknown_transform_is_named() -> None:
    with pytest.raises(ValueError, match=r"expected a partition transform, found 'zorder\[2\]'"):
        transformed(pa.array([1]), "zorder[2]")
