"""Bytes that a query reads, now and after a rewrite: worked out by hand, and never outside of what files can be."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout
from unit.planner.plans import DELTA, LAYOUT, SPEC, TARGET, File, state

from zlayout.planner.diff import decide
from zlayout.planner.model import BytesRead, Plan, TablePlan
from zlayout.planner.work import PlanOptions
from zlayout.report.text import TextOptions, render
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import layout_metrics
from zlayout.table.state import ColumnBounds, TableState


def done(low: int, high: int, group: int = 0) -> File:
    return File(low, high, layout=0, group=group)


def plan(*files: File, spec: LayoutSpec = SPEC) -> TablePlan:
    return decide(spec, state(*files, partitioned=False), DELTA).plan


def codes(found: TablePlan) -> list[str]:
    return [d.code for d in found.diagnostics]


def test_bytes_are_the_share_of_each_file_times_its_size() -> None:
    apart = state(File(0, 9, bytes=10), File(10, 19, bytes=20), File(20, 29, bytes=60))
    (metrics,) = layout_metrics(apart.files, ("a",))
    assert (metrics.touched, metrics.bytes_read) == (1.0, pytest.approx(30.0))
    over = state(File(0, 9, bytes=10), File(0, 9, bytes=20))
    (metrics,) = layout_metrics(over.files, ("a",))
    assert metrics.bytes_read == pytest.approx(30.0)
    two = state(File(0, 9, "east", bytes=10), File(0, 9, "west", bytes=20))
    (metrics,) = layout_metrics(two.files, ("a",))
    assert metrics.bytes_read == pytest.approx(30.0)  # as touched, summed over partitions


def test_files_without_a_value_are_not_read() -> None:
    given = state(File(0, 9, bytes=10), File(0, 0, bytes=1000))
    none = ColumnBounds(pa.array([0, None]), pa.array([9, None]), np.array([0, 100]), np.zeros(2, bool))
    (metrics,) = layout_metrics(replace(given.files, bounds={"a": none}), ("a",))
    assert metrics.bytes_read == pytest.approx(10.0)


@pytest.mark.parametrize("seed", range(5))
def test_bytes_of_files_of_one_size_are_touched_times_that_size(seed: int) -> None:
    random = np.random.default_rng(seed)
    files = [File(int(low), int(low + wide)) for low, wide in random.integers(0, 500, (60, 2))]
    for metrics in layout_metrics(state(*files, partitioned=bool(seed % 2)).files, ("a",)):
        assert metrics.bytes_read == pytest.approx(TARGET * metrics.touched)


def test_files_in_order_that_become_one_file_are_a_warning() -> None:
    found = plan(*(File(10 * n, 10 * n + 9, bytes=TARGET // 24) for n in range(24)))
    whole = 24 * (TARGET // 24)
    assert found.columns[0].touched == pytest.approx(1.0)
    assert found.columns[0].bytes_read == BytesRead(whole // 24, None, whole, whole)
    assert codes(found) == ["ZL440", "ZL441"]
    assert found.reads_more
    assert found.diagnostics[0].severity == "warning"
    assert "at least 24.0 times as many bytes as now: 984 instead of 41" in found.diagnostics[0].message
    assert "the table fits in one file" in found.diagnostics[1].message
    shown = render(Plan("0", (found,)), TextOptions(style=lambda kind, text: f"<{kind}>{text}"))
    assert "<warning>      warning: layouts/t.yaml:2:1: ZL440 after the rewrite" in shown
    assert "      bytes read      a 41 B -> ~984 B" in shown


def test_files_that_overlap_get_better_and_need_no_warning() -> None:
    found = plan(*(File(0, 1000) for _ in range(24)))
    assert found.columns[0].bytes_read == BytesRead(24 * TARGET, None, TARGET, 24 * TARGET)
    assert codes(found) == []
    assert not found.reads_more


def test_the_range_counts_what_stays() -> None:
    stays = [done(100 * n, 100 * n + 99, group=1) for n in range(8)]
    new = [File(0, 799, rows=50, bytes=TARGET // 2) for _ in range(6)]
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, touched=100.0))
    found = plan(*stays, *new, spec=spec)
    # Kept: one file of eight, 10 % more or less. New: 300 of 1,100 rows in at most 3 files of 3,000 bytes together.
    low, high = 0.9 * TARGET + 300 / 1100 * 3000 / 3, 1.1 * TARGET + 3000
    assert found.columns[0].bytes_read == BytesRead(4 * TARGET, None, round(low), round(high))


def test_weights_decide_whether_a_rewrite_reads_more() -> None:
    """a is in order and b is not; one file of all rows costs a, and gains nothing for b."""
    columns = [("a", 1.0), ("b", 1.0)]
    base = state(*(File(10 * n, 10 * n + 9, bytes=TARGET // 24) for n in range(24)), partitioned=False)
    wide = ColumnBounds(pa.array([0] * 24), pa.array([9] * 24), np.zeros(24, np.int64), np.zeros(24, bool))
    both: TableState = replace(base, files=replace(base.files, bounds={**base.files.bounds, "b": wide}))
    spec = replace(SPEC, layout=make_layout(*(name for name, _ in columns), target_size=TARGET))
    found = decide(spec, both, DELTA).plan
    assert [c.bytes_read.now for c in found.columns] == [41, 984]
    assert "1.9 times as many bytes as now, in the mean over the z-order columns" in found.diagnostics[0].message


@pytest.mark.parametrize(
    ("size", "warned"), [(2**10, True), (2**20, False), (2**30, False), (900 * 2**40, True), (16 * 2**30, False)]
)
def test_sizes_out_of_reason_are_a_warning(size: int, warned: bool) -> None:
    spec = replace(SPEC, layout=replace(LAYOUT, target_size=size))
    found = plan(*(File(0, 9, bytes=32_634 * 2**10 // 2) for _ in range(2)), spec=spec)
    assert ("ZL442" in codes(found)) == warned
    if size == 2**10:
        assert "1,024 bytes, with which the table has 32,634 files" in found.diagnostics[-1].message


def test_a_table_that_is_not_rewritten_has_no_forecast_of_bytes() -> None:
    found = plan(done(0, 9), done(10, 19))
    assert found.columns[0].bytes_read == BytesRead(TARGET)


def test_a_partitioning_change_has_no_forecast_of_bytes() -> None:
    spec = replace(SPEC, partition_by=())
    found = decide(spec, state(File(0, 4), File(5, 9, "west")), DELTA, options=PlanOptions(allow_full_rewrite=True))
    read = found.plan.columns[0].bytes_read
    assert (read.predicted, read.low, read.high) == (None, None, None)
