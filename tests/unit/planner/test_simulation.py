"""Forecasts from a sample of only some row groups: their errors, and partitions of which no row was read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_bounds, make_file_table, make_layout
from unit.planner.plans import KIND

from zlayout.planner.simulation import Rewrite, errors_of, resample, simulate
from zlayout.table.samples import KeySample, RowGroups
from zlayout.table.state import Column, Partition, PartitionField

FIELD = PartitionField("p")
ROWS = 400  # of each sampled file


def rewrite_of(targets: Sequence[int], row_groups: Sequence[int], kept: int = 0) -> Rewrite:
    """Return a rewrite of one file in each partition, of which one row group is sampled, or none.

    Args:
        targets: The number of files to write in each partition.
        row_groups: The partition of each sampled row group. The number of different values of a row group depends on
            its position.
        kept: The number of further partitions, whose only file stays.
    """
    count = len(targets) + kept
    files = make_file_table(
        [ROWS] * count,
        bytes=1000 * ROWS,
        partition=range(count),
        partitions=[Partition(0, (FIELD,), (n,)) for n in range(count)],
        bounds={name: make_bounds([0] * count, [10**6] * count, KIND) for name in "ab"},
    )
    random = np.random.default_rng(5)
    width = np.repeat([10**6 // 1000**n for n in range(len(row_groups))], ROWS)
    nothing = np.zeros(0, np.int64)
    sample = KeySample(
        keys={name: pa.array(random.integers(0, 10**6, len(width)) % width, pa.int64()) for name in "ab"},
        file=np.repeat(np.array(row_groups, np.int64), ROWS),
        row_group=np.repeat(np.arange(len(row_groups)), ROWS),
        row_groups=len(row_groups),
        files=len(set(row_groups)),
        bytes_read=0,
        seed=3,
        complete=False,
        footers=RowGroups(nothing, nothing, nothing, {}),
    )
    return Rewrite(
        make_layout("a", "b"),
        files,
        np.array([*range(len(targets)), *[-1] * kept], np.int64),
        np.array(targets, np.int64),
        tuple(Column(name, KIND, orderable=True) for name in "ab"),
        (FIELD,),
        sample,
    )


def test_errors_are_those_of_the_jackknife() -> None:
    """Each simulation leaves out one of three row groups, which have very different values."""
    rewrite = rewrite_of([16], [0, 0, 0])
    weights = rewrite.weights
    found = [simulate(rewrite, np.where(rewrite.sample.row_group == n, 0.0, weights)) for n in range(3)]
    for error, name in zip(errors_of(rewrite, weights), ("touched", "bytes_read"), strict=True):
        of = np.array([getattr(one, name) for one in found])
        assert (of.max(axis=0) > 1.1 * of.min(axis=0)).all()
        assert error == pytest.approx(np.sqrt(2 / 3 * ((of - of.mean(axis=0)) ** 2).sum(axis=0)))


def test_the_error_of_a_single_row_group_is_unknown() -> None:
    rewrite = rewrite_of([8], [0])
    for error in errors_of(rewrite, rewrite.weights):
        assert error.tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("target", [1, 2, 7])
def test_touched_of_a_partition_without_sampled_rows_is_extrapolated_from_the_others(target: int) -> None:
    """`touched` - 1 is to `files` - 1 as in the two partitions with sampled rows. No other value is known."""
    known, whole = (rewrite_of(targets, [0, 1], kept=1) for targets in ([4, 5], [4, 5, target]))
    expected, found = simulate(known, known.weights), simulate(whole, whole.weights, with_floor=True)
    inside = expected.touched - 1  # without the file that stays
    assert (inside > 2).all()
    assert found.touched == pytest.approx(expected.touched + 1 + (inside - 2) / (3 + 4) * (target - 1))
    assert found.files == 4 + 5 + target + 1
    assert np.isnan([found.bytes_read, found.floor]).all()


@pytest.mark.parametrize(("kept", "is_known"), [(0, True), (1, True), (8, False)])
def test_the_floor_is_unknown_if_many_rows_of_a_partition_stay(kept: int, is_known: bool) -> None:
    """The values of their rows are not in the sample. Ten files of a partition are rewritten."""
    files = 10 + kept
    whole = rewrite_of([1] * files, [0, 1])
    group, partition = np.where(np.arange(files) < 10, 0, -1), np.zeros(files, np.int32)
    table = replace(whole.files, partition=partition, partitions=whole.files.partitions[:1])
    found = replace(whole, files=table, group=group, targets=np.array([5]))
    floor = simulate(found, found.weights, with_floor=True).floor
    assert np.isfinite(floor).all() == is_known


def test_without_any_sampled_row_touched_is_unknown() -> None:
    rewrite = rewrite_of([4, 5], [])
    found = simulate(rewrite, rewrite.weights)
    assert np.isnan(found.touched).all()
    assert found.files == 9


def test_all_rows_are_drawn_if_their_weights_differ_by_rounding_errors() -> None:
    weights = np.where(np.arange(2_000) % 3, 1.0, np.nextafter(1, 2))
    assert resample(weights, 10_000, 0.5).tolist() == list(range(2_000))
