"""Bounds of new files from the statistics that are about to be committed."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from zlayout.formats.delta.read.schema import Leaf
from zlayout.formats.delta.write.commit import written_files
from zlayout.formats.kernel.commits import NewFiles
from zlayout.table.partition import Partition

PARTITION = Partition(0, (), ("x",))


def leaf(kind: pa.DataType, *physical: str) -> Leaf:
    return Leaf(("k",), physical or ("k",), kind)


def files(number: int, size: int, rows: int) -> NewFiles:
    paths = pa.array([f"p{n}" for n in range(number)], pa.string())
    return NewFiles(None, np.arange(number), paths, np.full(number, size), np.full(number, rows))


def bounds(kind: pa.DataType, low: Any, high: Any) -> tuple[Any, Any]:
    stats = json.dumps({"numRecords": 5, "minValues": {"k": low}, "maxValues": {"k": high}, "nullCount": {"k": 1}})
    found = written_files(files(1, 100, 5), pa.array([stats]), [leaf(kind)], PARTITION, 32)
    assert (found.rows.tolist(), found.bytes.tolist(), found.partitions) == ([5], [100], (PARTITION,))
    column = found.bounds["k"]
    assert column.null_count.tolist() == [1]
    assert column.lower.type == kind
    return column.lower[0].as_py(), column.upper[0].as_py()


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        (pa.int64(), -7, 2**62, (-7, 2**62)),
        (pa.int8(), -7, 7, (-7, 7)),
        (pa.float64(), 1, 2.5, (1.0, 2.5)),
        (pa.bool_(), False, True, (None, None)),  # of which Delta collects no bounds
        (pa.string(), "a", "b", ("a", "b")),
        (pa.date32(), "2024-01-01", "2024-12-31", (date(2024, 1, 1), date(2024, 12, 31))),
        (pa.decimal128(30, 3), 1, 12.125, (Decimal("1.000"), Decimal("12.125"))),
        (pa.int64(), None, None, (None, None)),
    ],
)
def test_values_have_the_type_of_the_column(kind: pa.DataType, low: Any, high: Any, expected: tuple[Any, Any]) -> None:
    assert bounds(kind, low, high) == expected


def test_times_end_a_millisecond_later_as_for_all_readers() -> None:
    low, high = bounds(pa.timestamp("us", "UTC"), "2024-01-01T00:00:00.000Z", "2024-01-01T02:00:00.123+02:00")
    assert low == datetime(2024, 1, 1, tzinfo=UTC)
    assert high == datetime(2024, 1, 1, 0, 0, 0, 124_000, tzinfo=UTC)


def test_a_nested_column_has_the_bounds_under_its_physical_name() -> None:
    stats = json.dumps({"minValues": {"col-1": {"col-2": 3}}, "maxValues": {"col-1": {"col-2": 4}}})
    found = written_files(files(1, 1, 1), pa.array([stats]), [leaf(pa.int64(), "col-1", "col-2")], PARTITION, 32)
    assert found.bounds["k"].upper.to_pylist() == [4]
    assert found.bounds["k"].null_count.tolist() == [-1]


@pytest.mark.parametrize("stats", ["None", "{", '{"minValues": {"k": "x"}}', "[]", '{"minValues": {"k": 1e99}}'])
def test_statistics_that_cannot_be_read_are_no_error(stats: str) -> None:
    assert written_files(files(1, 1, 1), pa.array([stats]), [leaf(pa.int64())], PARTITION, 32) is None


def test_a_group_without_rows_has_no_files() -> None:
    found = written_files(files(0, 0, 0), pa.array([], pa.string()), [leaf(pa.int64())], PARTITION, 32)
    assert found is not None
    assert len(found) == 0


def test_several_files_keep_their_order() -> None:
    stats = pa.array([json.dumps({"minValues": {"k": n}, "maxValues": {"k": n + 10}}) for n in range(5)])
    found = written_files(files(5, 1, 1), stats, [leaf(pa.int64())], PARTITION, 32)
    assert found.bounds["k"].lower.to_pylist() == [0, 1, 2, 3, 4]
    assert found.bounds["k"].upper.to_pylist() == [10, 11, 12, 13, 14]
