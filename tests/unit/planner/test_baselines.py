"""Decay is measured against what the last rewrite left, not against theory."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import layout_record, make_bounds, make_file_table, make_layout, make_spec, make_state
from unit.planner.plans import DELTA, TARGET

from zlayout.planner.diff import PlannedTable, decide
from zlayout.planner.model import Status
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import Baseline, Column, FileTable, TableState

KIND = pa.int64()
PAIR = ("a", "b")


def spec_of(*columns: str) -> LayoutSpec:
    return make_spec(make_layout(*columns, target_size=TARGET))


def correlated(count: int, wide: int, *, laid: bool = False, columns: tuple[str, ...] = PAIR) -> FileTable:
    """Return `count` files along the diagonal of all columns and `wide` small files that span all values.

    Touched among the first files is 3.5. The small files are not laid out, or each was laid out by its own rewrite.
    """
    low = [10 * n for n in range(count)] + [0] * wide
    high = [10 * n + 34 for n in range(count)] + [10 * count + 24] * wide
    groups = [0] * count + ([n + 1 for n in range(wide)] if laid else [-1] * wide)
    bounds = make_bounds(low, high, KIND)
    return make_file_table(
        [1000] * count + [1] * wide,
        bytes=TARGET,
        layout=[0] * count + [0 if laid else -1] * wide,
        layouts=(layout_record(spec_of(*columns).layout),),
        group=groups,
        bounds=dict.fromkeys(columns, bounds),
    )


def observed(files: FileTable) -> TableState:
    return make_state(files, columns=tuple(Column(name, KIND, True) for name in files.bounds))


def decision(files: FileTable, columns: tuple[str, ...] = PAIR) -> PlannedTable:
    return decide(spec_of(*columns), observed(files), DELTA)


def touched_exceeds(decision: PlannedTable) -> bool:
    return [d.measure for d in decision.plan.decay if d.exceeded] == ["touched"]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("laid", [True, False])
@pytest.mark.parametrize("count", [60, 256, 6000])
def test_correlated_keys_that_get_six_times_worse_decay(count: int, laid: bool, stored: bool) -> None:
    # theory: 7.7, 16 and 77
    files = correlated(count, 19, laid=laid)
    if stored:
        files = replace(files, baselines={0: Baseline(count, (3.5, 3.5))})
    found = decision(files)
    assert [c.touched for c in found.plan.columns] == pytest.approx([22.5] * 2, rel=0.02)
    assert touched_exceeds(found)
    assert found.plan.status is Status.CHANGES
    if count > 60:  # the wide files alone are enough
        assert len(found.groups[0].files) == 19
        low, high = found.plan.columns[0].low, found.plan.columns[0].high
        assert low is not None
        assert high is not None
        assert low <= 4.5 <= high


def test_what_the_rewrite_left_is_no_drift() -> None:
    files = replace(correlated(256, 1), baselines={0: Baseline(256, (3.5, 3.5))})
    assert decision(files).plan.status is Status.UNCHANGED


def test_the_baseline_outlives_most_files_of_its_group() -> None:
    # Merges replaced 200 of 256 files by 25 groups of eight files, in which all eight have every value of a tenth.
    files = correlated(256, 200, laid=True)
    low = np.array([10 * n for n in range(256)] + [2560 * (n // 20) // 10 for n in range(200)])
    high = low + np.where(np.arange(456) < 256, 34, 255)
    bounds = make_bounds(low.tolist(), high.tolist(), KIND)
    group = np.concatenate((np.zeros(256, np.int32), 1 + np.arange(200, dtype=np.int32) // 8))
    files = replace(files, bounds=dict.fromkeys(PAIR, bounds), group=group, rows=np.full(456, 100))
    left = files.take(np.concatenate((np.arange(0, 256, 5), np.arange(256, 456))))
    assert decision(left).plan.columns[0].touched == pytest.approx(20, abs=2)
    assert decision(left).plan.status is Status.UNCHANGED
    kept = replace(left, baselines={0: Baseline(256, (3.5, 3.5))})
    assert touched_exceeds(decision(kept))


def test_a_merge_that_left_more_than_predicted_is_not_made_again() -> None:
    # Nothing is pending: one group reached a fifth of theory, and the other one could not.
    low = np.concatenate((np.arange(100) * 10, np.zeros(20, np.int64)))
    high = np.concatenate((np.arange(100) * 10 + 34, np.full(20, 1024)))
    files = replace(
        correlated(100, 20, laid=True),
        bounds=dict.fromkeys(PAIR, make_bounds(low.tolist(), high.tolist(), KIND)),
        group=np.array([0] * 100 + [1] * 20, np.int32),
        rows=np.full(120, 1000),
        baselines={0: Baseline(100, (3.5, 3.5)), 1: Baseline(20, (20.0, 20.0))},
    )
    assert decision(files).plan.status is Status.UNCHANGED
    # With a new file it is examined again.
    waiting = replace(files, layout=np.array([0] * 119 + [-1], np.int32), group=np.array([0] * 100 + [1] * 19 + [-1]))
    assert decision(waiting).plan.status is Status.CHANGES


def test_one_column_of_eight_that_gets_six_times_worse_decays() -> None:
    names = tuple("abcdefgh")
    files = correlated(256, 19, columns=names)
    same = make_bounds([10 * n for n in range(256)] + [0] * 19, [10 * n + 34 for n in range(256)] + [34] * 19, KIND)
    bounds = {**dict.fromkeys(names, same), "h": files.bounds["h"]}
    files = replace(files, bounds=bounds, baselines={0: Baseline(256, (3.5,) * 8)})
    found = decision(files, names)
    assert [round(c.touched) for c in found.plan.columns[-2:]] == [4, 23]
    assert touched_exceeds(found)


@pytest.mark.parametrize("touched", [(3.5,), (3.5, 3.5, 3.5), ()])
def test_a_baseline_of_another_number_of_columns_is_ignored(touched: tuple[float, ...]) -> None:
    files = replace(correlated(256, 1), baselines={0: Baseline(256, touched)})
    assert decision(files).plan.status is Status.UNCHANGED


def test_one_small_group_beside_a_sorted_one_is_tolerated() -> None:
    # touched 1.0 was left in 100 files; a second group adds at least 1 to it wherever it is.
    low = [10 * n for n in range(100)] + [0]
    bounds = make_bounds(low, [10 * n + 9 for n in range(100)] + [999], KIND)
    files = replace(
        correlated(100, 1),
        bounds=dict.fromkeys(PAIR, bounds),
        baselines={0: Baseline(100, (1.0, 1.0))},
    )
    assert decision(files).plan.columns[0].touched == pytest.approx(2.0, abs=0.01)
    assert decision(files).plan.status is Status.UNCHANGED


@pytest.mark.parametrize("baseline", [Baseline(1, (0.0, 0.0)), Baseline(1 << 40, (1.0, 1.0)), Baseline(2, (2.0, 1e-9))])
def test_no_stored_baseline_breaks_the_planner(baseline: Baseline) -> None:
    files = replace(correlated(60, 19), baselines={0: baseline, 7: baseline})
    assert decision(files).plan.status in (Status.CHANGES, Status.UNCHANGED)
