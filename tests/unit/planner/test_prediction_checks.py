"""What plan predicts of a layout, beside what the files that were laid out by it touch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout, make_spec
from unit.advisor.tables import table_state

from zlayout.curve.layout import build
from zlayout.planner.forecast import check_predictions
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.state import FileTable, LayoutRecord

LAYOUT = make_layout("a", "b", target_size=1000)
SPEC = make_spec(LAYOUT)
RNG = np.random.default_rng(2)
KEYS = {name: pa.array(RNG.integers(0, 100_000, 12_800)) for name in ("a", "b")}


def files(place: np.ndarray, laid: np.ndarray, group: np.ndarray, partition: list[int] | None = None) -> FileTable:
    """A table of KEYS in the files `place`; laid and group by file."""
    field = (PartitionField("p"),)
    partitions = [Partition(0, field, (n,)) for n in range(max(partition or [0]) + 1)]
    table = table_state(KEYS, place, partitions=partitions, partition=partition).files
    records = (LayoutRecord(LAYOUT.layout_id), LayoutRecord("another"))
    return replace(table, layouts=records, layout=laid.astype(np.int32), group=group.astype(np.int32))


def test_a_layout_that_was_carried_out_keeps_the_promise() -> None:
    place = build(KEYS, {}, "kd", 1000, 64, noise=False).locate(KEYS)
    checks, partitions = check_predictions(files(place, np.zeros(64), np.zeros(64)), SPEC)
    assert partitions == 1
    assert [p.column for p in checks] == ["a", "b"]
    for promise in checks:
        assert promise.measured == pytest.approx(8, rel=0.03)
        assert promise.predicted == pytest.approx(promise.measured, rel=0.1)


def test_files_that_are_not_where_the_layout_puts_them_break_it() -> None:
    checks, _ = check_predictions(files(RNG.permutation(12_800) % 64, np.zeros(64), np.zeros(64)), SPEC)
    assert all(p.measured > 7 * p.predicted for p in checks)


def test_only_partitions_that_one_rewrite_laid_out_whole_count() -> None:
    place = build(KEYS, {}, "kd", 1000, 64, noise=False).locate(KEYS)
    partition = [0] * 16 + [1] * 16 + [2] * 16 + [3] * 16
    laid, group = np.zeros(64), np.repeat([0, 1, 2, 3], 16)
    laid[20], laid[40] = -1, 1  # one file is not laid out, one by another layout
    group[20], group[60] = -1, 5  # and one is from another rewrite
    checks, partitions = check_predictions(files(place, laid, group, partition), SPEC)
    assert partitions == 1
    assert all(4 <= p.predicted <= 4.5 for p in checks)


def test_nothing_laid_out_has_no_predictions() -> None:
    assert check_predictions(files(np.arange(12_800) % 4, np.full(4, -1), np.full(4, -1)), SPEC) == ((), 0)
