"""Decayed partitions on hand-made states: which files are rewritten to restore the tolerance, and which are spared."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.forecasts import around
from unit.planner.plans import DELTA, SPEC, TARGET, File, state

from zlayout.planner.diff import PlannedTable, decide
from zlayout.planner.model import Reason
from zlayout.spec.model import ZorderColumn
from zlayout.table.state import ColumnBounds, LayoutRecord


def done(low: int, high: int, region: str = "east", group: int = 0, **more: int) -> File:
    return File(low, high, region, layout=0, group=group, **more)


def base(count: int, **more: Any) -> list[File]:
    """`count` boxes of width 10, side by side."""
    return [done(10 * n, 10 * n + 9, **more) for n in range(count)]


def chosen(decision: PlannedTable) -> list[str]:
    return [path for group in decision.groups for path in group.files.path.to_pylist()]


def test_new_data_in_a_corner_is_clustered_alone() -> None:
    # 20 files of 100 rows, then 3 that all hold 1000 to 1099: 13 % unclustered, and nobody else is met.
    decision = decide(SPEC, state(*base(20), *[File(1000, 1099)] * 3), DELTA)
    assert chosen(decision) == ["f20", "f21", "f22"]
    assert [d.measure for d in decision.plan.decay if d.exceeded] == ["unclustered"]


def test_new_data_takes_the_boxes_that_it_meets() -> None:
    # 400 of 2300 rows lie in 50..59. Alone, the 3 new files leave touched 1.17 for 3 files written: 3 / .33 = 9;
    # with the box that they meet it is 1.0 for 4 files: 4 / .5 = 8.
    decision = decide(SPEC, state(*base(20), *[File(50, 59)] * 3), DELTA)
    assert chosen(decision) == ["f5", "f20", "f21", "f22"]
    assert around(1.0, decision.plan.columns[0])


def test_the_smallest_groups_go_with_new_data_that_is_everywhere() -> None:
    # 100 boxes, an older delta of 10 files and 40 new files, all everywhere. Without the delta 3.0 is left. With it 2.0
    # for 50 files: 50 / (3 - 2); all three leave 1.0 for 150 / (3 - 1).
    delta = [done(100 * n, 100 * n + 99, group=1, rows=20) for n in range(10)]
    files = [*base(100, rows=200), *delta, *[File(0, 999, rows=1)] * 40]
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, touched=3.0, small_files=1.0))
    decision = decide(spec, state(*files), DELTA)
    assert chosen(decision) == [f"f{n}" for n in range(100, 150)]
    assert around(2.0, decision.plan.columns[0])


def test_a_rewrite_leaves_some_of_the_tolerance() -> None:
    # As above, but 2.0 of 2.05 is too near: all 2050 files, though 50 / .05 is less than 2050 / 1.05.
    delta = [done(2000 * n, 2000 * n + 1999, group=1, rows=20) for n in range(10)]
    files = [*base(2000, rows=200), *delta, *[File(0, 19999, rows=1)] * 40]
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, touched=2.05, small_files=1.0))
    assert len(chosen(decide(spec, state(*files), DELTA))) == 2050


def test_one_group_is_never_rewritten_alone() -> None:
    # The 10 files that all span everything come from one rewrite: another one of just them would do no better.
    poor = [done(0, 999, group=1, rows=20) for _ in range(10)]
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, touched=3.0))
    assert len(chosen(decide(spec, state(*base(100, rows=200), *poor), DELTA))) == 110


def test_what_the_last_rewrite_could_not_do_is_not_asked_of_the_next() -> None:
    # One rewrite left ten files that all span 0..9 (few values, heavy values, bounds cut short): touched is 10.
    stuck = [done(0, 9) for _ in range(10)]
    assert decide(SPEC, state(*stuck, File(0, 9, rows=50)), DELTA).plan.status == "unchanged"


def test_only_files_with_many_deleted_rows_are_rewritten() -> None:
    # 2 of 10 files lost 60 of their 100 rows: 12 % of the partition.
    files = [*base(8), *[done(80 + 10 * n, 89 + 10 * n, deleted=60) for n in range(2)]]
    decision = decide(SPEC, state(*files), DELTA)
    assert chosen(decision) == ["f8", "f9"]
    assert decision.plan.groups[0].reason == Reason.DELETED_ROWS
    assert decision.plan.groups[0].target_files == 1


def test_files_that_share_deletes_are_rewritten_together() -> None:
    # 10 % of f9 are within tolerance, but more would be said to be f9's once f8 is gone: the next plan's work. The 4 of
    # f7 are known to be its own.
    seven, eight = done(70, 79, deleted=4), done(80, 89, deleted=60, rows=200, shared=True)
    files = [*base(7), seven, eight, done(90, 99, deleted=50, rows=500, shared=True)]
    assert chosen(decide(SPEC, state(*files), DELTA)) == []
    more = [*files[:-2], replace(eight, deleted=160), files[-1]]
    assert chosen(decide(SPEC, state(*more), DELTA)) == ["f8", "f9"]
    # Most of the 3.3 % are f7's own: the 110 that may be f9's then are within tolerance, so that it stays.
    alone = [*files[:-3], replace(seven, deleted=90), eight, replace(files[-1], rows=5000)]
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, deleted_rows=0.03))
    assert chosen(decide(spec, state(*alone), DELTA)) == ["f7", "f8"]


def test_two_groups_that_overlap_are_merged_though_nothing_is_new() -> None:
    over = [done(20 * (n // 2), 20 * (n // 2) + 19, group=n % 2) for n in range(8)]
    assert len(chosen(decide(SPEC, state(*over), DELTA))) == 8


def test_a_small_error_of_the_last_prediction_is_accepted() -> None:
    # touched 1.6 of 1.0: past 1.5, not past 1.5 * 1.1; one new file outside and it counts.
    files = [*base(10), *[done(10 * n, 10 * n + 9, group=1) for n in range(6)]]
    observed = state(*files)
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, touched=1.7))
    assert decide(spec, observed, DELTA).plan.status == "unchanged"
    waiting = state(*files, File(2000, 2000, rows=1))
    assert decide(spec, waiting, DELTA).plan.status == "changes"


def test_partitions_are_searched_apart() -> None:
    def files(region: str, shift: int, group: int) -> list[File]:
        boxes = [done(10 * n, 10 * n + 9, region, group) for n in range(20)]
        return [*boxes, *[File(50 + shift, 59 + shift, region)] * 3]

    east, west = files("east", 0, 0), files("west", 1000, 1)
    both = decide(SPEC, state(*east, *west), DELTA)
    apart = [decide(SPEC, state(*files), DELTA) for files in (east, west)]
    assert [len(g.files) for g in both.groups] == [len(d.groups[0].files) for d in apart] == [4, 3]
    for end in ("low", "high"):
        total = sum(getattr(d.plan.columns[0], end) for d in apart)
        assert getattr(both.plan.columns[0], end) == pytest.approx(total)


def test_new_files_of_partitions_that_hold_are_no_part_of_others() -> None:
    # Two partitions of ten files that all span 0..9, which are looked at and left alone; between them the one of
    # `test_the_smallest_groups_go_with_new_data_that_is_everywhere`: 50 / (2.6 - 2) is less than 150 / (2.6 - 1).
    def held(region: str, group: int) -> list[File]:
        return [done(0, 9, region, group)] * 10 + [File(0, 9, region, rows=10)]

    delta = [done(100 * n, 100 * n + 99, "m", 2, rows=20) for n in range(10)]
    decayed = [*base(100, region="m", group=1, rows=200), *delta, *[File(0, 999, "m", rows=1)] * 40]
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, touched=2.6, small_files=1.0))
    for files in (decayed, [*held("a", 0), *decayed, *held("z", 3)]):
        (only,) = decide(spec, state(*files), DELTA).groups
        assert len(only.files) == 50


def test_the_engines_of_the_formats_rewrite_whole_partitions() -> None:
    native = replace(SPEC, layout=replace(SPEC.layout, engine="native", curve="zorder"))
    observed = state(*base(20), *[File(1000, 1099)] * 3)
    files = observed.files
    record = replace(files.layouts[0], layout_id=native.layout.layout_id)
    observed = replace(observed, files=replace(files, layouts=(record, *files.layouts[1:])))
    assert len(chosen(decide(native, observed, DELTA))) == 23


def test_small_files_of_one_rewrite_do_not_count() -> None:
    # That rewrite knew the target size; a group that is one small file can still be merged.
    small = TARGET // 4
    together = [done(10 * n, 10 * n + 9, bytes=small) for n in range(8)]
    new = File(1000, 1000, rows=1)
    assert decide(SPEC, state(*together, new), DELTA).plan.status == "unchanged"
    alone = [done(10 * n, 10 * n + 9, group=n, bytes=small) for n in range(8)]
    assert len(chosen(decide(SPEC, state(*alone), DELTA))) == 8


@pytest.mark.parametrize("tolerance", [0.1, 0.5])
def test_a_small_file_that_would_be_left_alone_is_merged_too(tolerance: float) -> None:
    # Two old rewrites of two small files each lie apart from each other; the new file meets one of both. Alone in its
    # rewrite a small file counts, so that leaving the others would be the next plan's work.
    small = TARGET // 4
    old = [done(100 * n, 100 * n + 9, group=n // 2, bytes=small) for n in range(4)]
    met = [old[0], replace(old[1], low=300, high=309), replace(old[2], low=10, high=19), old[3]]
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, small_files=tolerance))
    decision = decide(spec, state(*base(10, group=7), *met, File(0, 19, rows=200)), DELTA)
    assert (set(chosen(decision)) >= {"f11", "f13"}) == (tolerance == 0.1)


@pytest.mark.parametrize(("files", "over"), [(2, 1), (4, 1), (18, 10)])
def test_few_files_are_predicted_badly(files: int, over: int) -> None:
    # Of 3, 5 and 28 files: touched 1.67, 1.4 and 1.71 of 1.0, where 1.2 is declared and 0.8 / sqrt(files) more is
    # accepted, once nothing is new.
    laid = [*base(files), *[done(10 * n, 10 * n + 9, group=1) for n in range(over)]]
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, touched=1.2, unclustered=1.0))
    assert decide(spec, state(*laid), DELTA).plan.status == ("unchanged" if files < 18 else "changes")
    assert decide(spec, state(*laid, File(20, 20, rows=1)), DELTA).plan.status == "changes"


def test_slices_that_are_more_of_one_column_are_no_falling_short() -> None:
    # 8 by 16 slices: 16 files of one column and 8 of the other, 11.3 each in theory. One more rewrite's worth of files
    # that span everything is 6.5 too many of 11.3 * 0.95: past 1.5, though b alone falls short by 1.37.
    boxes = [(a, b) for a in range(8) for b in range(16)]
    observed = state(*[done(100 * a, 100 * a + 99) for a, _ in boxes], *[File(0, 799, rows=1)] * 6)
    files = observed.files
    low, high = [50 * b for _, b in boxes] + [0] * 6, [50 * b + 49 for _, b in boxes] + [799] * 6
    none = np.zeros(len(files), np.int64)
    second = ColumnBounds(pa.array(low), pa.array(high), none, none.astype(bool))
    layout = replace(SPEC.layout, columns=(ZorderColumn("a"), ZorderColumn("b")))
    record = LayoutRecord(layout.layout_id, layout.settings())
    files = replace(files, bounds={**files.bounds, "b": second}, layouts=(record,))
    spec = replace(SPEC, layout=layout)
    columns = (observed.columns[0], replace(observed.columns[0], name="b"), observed.columns[2])
    decision = decide(spec, replace(observed, files=files, columns=columns), DELTA)
    assert decision.plan.status == "changes"
    assert [d.measure for d in decision.plan.decay if d.exceeded] == ["touched"]


@pytest.mark.parametrize("regions", [("east",), ("east", "west")])
@pytest.mark.parametrize("told", [True, False])
def test_a_column_without_any_value_decays_by_what_is_new(regions: tuple[str, ...], told: bool) -> None:
    laid = [done(0, 0, region, group=number) for number, region in enumerate(regions)] * 20
    observed = state(*laid, *[File(0, 0, region) for region in regions] * 10)
    none, files = pa.nulls(30 * len(regions), pa.int64()), observed.files
    nulls = files.rows if told else np.full(len(files), -1)
    bounds = ColumnBounds(none, none, nulls, np.zeros(len(files), bool))
    decision = decide(SPEC, replace(observed, files=replace(files, bounds={"a": bounds})), DELTA)
    assert len(decision.groups) == len(regions)
    assert {f"f{n}" for n in range(len(laid), len(files))} <= set(chosen(decision))
