"""Measuring what a rewrite leaves before its commit."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_bounds, make_file_table, make_group, make_layout, make_work

from zlayout.formats.base import COST, QUERY_COST, TOUCHED, Group, RunCost, parse_cost, parse_query_cost
from zlayout.formats.kernel.commits import Measurement, Rewritten, baseline_of
from zlayout.planner.model import QueryCost, WorkloadForecast
from zlayout.spec.model import TableName
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.state import Baseline, FileTable, LayoutRecord, replaced

LAYOUT = make_layout("a")
FIELDS = (PartitionField("region"),)
EAST, WEST = Partition(0, FIELDS, ("east",)), Partition(0, FIELDS, ("west",))


def table_of(
    *intervals: tuple[int, int], partition: list[int] | None = None, name: str = "old", kind: pa.DataType | None = None
) -> FileTable:
    """Files of 10 rows with these intervals of column a."""
    lower, upper = zip(*intervals, strict=True)
    return make_file_table(
        [10] * len(intervals),
        path=[f"{name}{n}" for n in range(len(intervals))],
        partition=partition or [0] * len(intervals),
        partitions=(EAST, WEST),
        bounds={"a": make_bounds(lower, upper, kind or pa.int64())},
    )


def files() -> FileTable:
    """Two files of the whole range in each of two partitions."""
    return table_of(*[(0, 19)] * 4, partition=[0, 0, 1, 1])


def group_of(partition: int) -> Group:
    return make_group(f"g{partition}", files().take(np.flatnonzero(files().partition == partition)), 2)


def rewritten(partition: int, *intervals: tuple[int, int], **changes: Any) -> Rewritten:
    written = replace(table_of(*intervals, name=f"new{partition}-"), partitions=((EAST, WEST)[partition],))
    return Rewritten(group_of(partition), (), written=replace(written, **changes))


def measurement(predicted: dict[str, float]) -> Measurement:
    work = make_work(LAYOUT, TableName("lake", ("db",), "t"), groups=(group_of(0), group_of(1)))
    return Measurement(files(), replace(work, predictions=lambda: predicted))


def test_touched_is_that_of_the_table_after_the_commits() -> None:
    east, west = rewritten(0, (0, 9), (10, 19)), rewritten(1, (0, 9), (5, 14), (10, 19))
    measured = measurement({"a": 2.5})
    assert measured.properties([east])[TOUCHED] == '[["a",2.5,3.0]]'  # 1 in the east, 2 in the west
    measured.committed([east])
    both = json.loads(measured.properties([west])[TOUCHED])
    assert both == json.loads(measurement({"a": 2.5}).properties([east, west])[TOUCHED])
    assert 2.0 < both[0][2] < 3.0


def test_the_cost_is_that_of_the_commits_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter((100.0, 108.5, 110.25))
    monkeypatch.setattr("zlayout.formats.kernel.commits.time.monotonic", lambda: next(now))
    east, west = rewritten(0, (0, 9)), rewritten(1, (0, 9))
    measured = measurement({})
    sizes = [int(each.group.files.bytes.sum()) for each in (east, west)]
    assert parse_cost(measured.properties([east])[COST]) == RunCost(sizes[0], 8.5)
    measured.committed([east])
    assert parse_cost(measured.properties([west])[COST]) == RunCost(sum(sizes), 10.25)


def test_the_prediction_for_the_workload_is_stored() -> None:
    work = make_work(LAYOUT, TableName("lake", ("db",), "t"), groups=(group_of(0),))
    workload = WorkloadForecast((), 1, 1.0, QueryCost(3.0, 9), QueryCost(2.5, 7))
    work = replace(work, plan=replace(work.plan, workload=workload))
    stored = Measurement(files(), work).properties([rewritten(0, (0, 9))])
    assert parse_query_cost(stored[QUERY_COST]) == QueryCost(2.5, 7)
    assert QUERY_COST not in measurement({}).properties([rewritten(0, (0, 9))])


def test_without_a_prediction_the_measured_value_is_stored() -> None:
    assert measurement({}).properties([rewritten(0, (0, 9), (10, 19))])[TOUCHED] == '[["a",null,3.0]]'


def test_nothing_is_stored_if_a_file_is_unknown_or_cannot_be_compared() -> None:
    known = rewritten(0, (0, 9))
    assert TOUCHED not in measurement({}).properties([replace(known, written=None)])
    text = table_of(("x", "y"), kind=pa.string())  # type: ignore[arg-type]
    assert TOUCHED not in measurement({}).properties([replace(known, written=replace(text, partitions=(EAST,)))])
    other = rewritten(0, (0, 9), bounds={})
    assert TOUCHED not in measurement({}).properties([other])
    assert baseline_of(other.written, LAYOUT) is None


@pytest.mark.parametrize(
    ("intervals", "expected"), [([(0, 9), (10, 19)], "2 1"), ([(0, 19), (0, 19)], "2 2"), ([(0, 3)], "1 1")]
)
def test_the_baseline_of_a_group(intervals: list[tuple[int, int]], expected: str) -> None:
    written = rewritten(0, *intervals).written
    assert str(baseline_of(written, LAYOUT)) == expected


def test_files_in_several_partitions_have_no_baseline() -> None:
    assert baseline_of(files(), LAYOUT) is None
    assert baseline_of(None, LAYOUT) is None


def test_new_partitions_are_added_and_layout_records_dropped() -> None:
    new = Partition(1, (), ("north",))
    added = replace(table_of((0, 1), (2, 3), name="new"), partitions=(new,), partition=np.zeros(2, np.int32))
    first = np.zeros(4, np.int32)
    laid_out: dict[str, Any] = {"layouts": (LayoutRecord("a" * 16),), "layout": first, "group": first}
    before = replace(files(), **laid_out, baselines={0: Baseline(4, (1.0,))})
    after = replaced(before, [pa.array(["old1"]), pa.array(["old2"], pa.large_string())], [added])
    assert after.path.to_pylist() == ["old0", "old3", "new0", "new1"]
    assert [after.partitions[at] for at in after.partition] == [EAST, WEST, new, new]
    assert after.bounds["a"].upper.to_pylist() == [19, 19, 1, 3]
    assert (after.layouts, after.layout.tolist(), after.group.tolist()) == ((), [-1] * 4, [-1] * 4)
    assert not after.baselines
    assert replaced(before, [], []).path.to_pylist() == before.path.to_pylist()
