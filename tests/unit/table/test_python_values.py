"""Dates and times that Python does not have."""

from datetime import date

import pyarrow as pa
import pytest

from zlayout.table.partition import FarTime
from zlayout.table.partition_values import python_values


def test_values_that_python_has_stay() -> None:
    assert python_values(pa.array([date(9999, 12, 31), None])) == [date(9999, 12, 31), None]
    assert python_values(pa.array(["x"])) == ["x"]


@pytest.mark.parametrize(
    ("number", "kind", "expected"),
    [
        (2_932_897, pa.date32(), "+10000-01-01"),
        (110_000_000, pa.date32(), "+303139-10-10"),
        (-719_163, pa.date32(), "+0000-12-31"),
        (-719_529, pa.date32(), "-0001-12-31"),
        (253_402_300_800_000_005, pa.timestamp("us"), "+10000-01-01T00:00:00.000005"),
        (253_402_300_800_000_000, pa.timestamp("us", "UTC"), "+10000-01-01T00:00:00.000000Z"),
        (-(10**17), pa.timestamp("us"), "-1199-02-15T14:13:20.000000"),
    ],
)
def test_others_are_written_with_the_sign_of_the_year(number: int, kind: pa.DataType, expected: str) -> None:
    numbers = pa.array([number, 0, None], pa.int32() if kind == pa.date32() else pa.int64())
    far, epoch, none = python_values(numbers.view(kind))
    assert (far, type(far), none) == (expected, FarTime, None)
    assert epoch == numbers.view(kind)[1].as_py()
