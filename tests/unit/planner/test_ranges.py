"""The range of touched that metadata allows: null counts, distinct bounds, and numbers of distinct values."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_bounds, make_file_table, make_layout, make_spec, make_state

from zlayout.planner.diff import decide, max_partitions
from zlayout.planner.model import TablePlan
from zlayout.planner.work import Capabilities, PlannedTable
from zlayout.table.partition import PartitionField
from zlayout.table.state import Column, ColumnBounds

DELTA = Capabilities("delta", partition_evolution=False, native_by_rank=True)
FILES, ROWS = 48, 1000
WIDE = (0, 10**9)


def plan(
    *columns: str,
    noise: bool = False,
    nulls: int = 0,
    b: tuple[int, int] = WIDE,
    kind: pa.DataType | None = None,
    distinct: Mapping[str, int] | None = None,
) -> TablePlan:
    """The plan of 48 files that all span everything. nulls, b: of column b in every file. distinct: as stated."""
    layout = replace(make_layout(*columns, target_size=100), noise=noise)

    def bounds(low: int, high: int, none: int) -> ColumnBounds:
        ends = [
            pa.array([None if none == ROWS else end] * FILES, pa.int64()).cast(kind or pa.int64())
            for end in (low, high)
        ]
        return ColumnBounds(*ends, np.full(FILES, none), np.zeros(FILES, bool))

    files = make_file_table([ROWS] * FILES, bounds={"a": bounds(*WIDE, 0), "b": bounds(*b, nulls)})
    kinds = [Column(name, kind or pa.int64(), True, distinct=(distinct or {}).get(name)) for name in ("a", "b")]
    decision: PlannedTable = decide(make_spec(layout), make_state(files, columns=tuple(kinds)), DELTA)
    return decision.plan


def ends(found: TablePlan) -> list[tuple[float | None, float | None]]:
    assert all(c.predicted is None for c in found.columns)
    return [(c.low, c.high) for c in found.columns]


def test_two_keys_may_touch_anything() -> None:
    assert ends(plan("a", "b")) == [(1, 48), (1, 48)]


def test_the_order_of_one_key_is_known() -> None:
    assert ends(plan("a")) == [(1, 1)]
    assert ends(plan("a", kind=pa.float64())) == [(1, 2)], "NaN may be in one file more"
    assert ends(plan("a", kind=pa.timestamp("us"))) == [(1, 48)], "bounds may be rounded to milliseconds"
    assert ends(plan("a", noise=True)) == [(1, 48)], "a key may be in every file"


def test_no_key_is_large_if_nearly_all_values_are_distinct() -> None:
    # at most 48000 - 0.9 * 53300 + 1 rows have the same key
    assert ends(plan("a", noise=True, distinct={"a": 53_300})) == [(1, 1)]
    # at most 4801 rows, a tenth: they fill up to 7 files
    ((low, high),) = ends(plan("a", noise=True, distinct={"a": 48_000}))
    assert low == 1
    assert high == pytest.approx(1 + 0.1 * (0.1 * 48 + 2), rel=0.01)


def test_few_values_fill_many_files() -> None:
    # three values, and no file with more than three times the mean: 48 / (3 * 3)
    assert ends(plan("a", "b", noise=True, b=(1, 3))) == [(1, 48), (pytest.approx(48 / 9), 48)]
    # without noise the rows of one key stay in one file, which may be all rows
    assert ends(plan("a", "b", b=(1, 3)))[1] == (1, 48)
    # unless nearly all values of another key are distinct
    assert ends(plan("a", "b", b=(1, 3), distinct={"a": 48_000}))[1] == (
        pytest.approx(1 / (3 * 4801 / 48_000), rel=0.01),
        48,
    )


def test_a_stated_number_of_distinct_values_counts_with_its_error() -> None:
    assert ends(plan("a", "b", noise=True, distinct={"b": 5}))[1] == (pytest.approx(48 / (3 * 6.5)), 48)


def test_no_more_files_are_touched_than_there_are_values() -> None:
    few = plan("a", "b", nulls=ROWS)
    assert ends(few)[1] == (0, 0)
    assert (few.files_after.predicted, few.files_after.low, few.files_after.high) == (None, 1, 48)


def test_a_partitioning_change_has_a_file_in_every_partition() -> None:
    assert partitions(PartitionField("b", "bucket[8]")) == 9
    assert partitions(PartitionField("b"), b=(1, 4)) == 5, "and one for null"
    assert partitions(PartitionField("b", "truncate[10]"), b=(0, 99)) == pytest.approx(11)
    assert partitions(PartitionField("b", "month"), b=(0, 58), kind=pa.date32()) == 3
    assert partitions(PartitionField("b", "truncate[2]"), b=(0, 59), kind=pa.string()) == math.inf
    assert partitions(PartitionField("b", "bucket[8]"), PartitionField("a", "void")) == 9
    assert partitions(PartitionField("other")) == math.inf


def partitions(*fields: PartitionField, b: tuple[int, int] = WIDE, kind: pa.DataType | None = None) -> float:
    bounds = make_bounds(*(pa.array([end] * 2, pa.int32()).cast(kind or pa.int64()) for end in b))
    return max_partitions(make_state(make_file_table([1, 1], bounds={"b": bounds})), fields)
