"""Pictures: positions worked out by hand, bounded work, and no value of a row in them."""

import itertools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_group, make_layout
from unit.planner.plans import DELTA, SPEC, TARGET, File, state

from zlayout.planner import document
from zlayout.planner.diff import decide
from zlayout.planner.drawing import MAX_BOXES, MAX_STRIP_BINS, boxes_of, draw
from zlayout.planner.model import Plan
from zlayout.planner.run_report import SCALE, Boxes
from zlayout.report.formats import without_values
from zlayout.session.plan import as_plan
from zlayout.session.results import MAX_PICTURES, drawn_again, with_pictures
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import ColumnBounds, TableState


def quads(boxes: Boxes) -> list[tuple[int, ...]]:
    return list(itertools.batched(boxes.positions, 4)) if hasattr(itertools, "batched") else _quads(boxes.positions)


def _quads(flat: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [flat[i : i + 4] for i in range(0, len(flat), 4)]


def flat_state(*files: File) -> TableState:
    return state(*files, partitioned=False)


def two_columns(count: int, curve: str = "kd") -> tuple[LayoutSpec, TableState]:
    """`count` files that all span the whole of both columns."""
    spec = replace(SPEC, layout=make_layout("a", "b", curve=curve, range_ids=100, target_size=TARGET))
    base = flat_state(*(File(0, 1_000_000) for _ in range(count)))
    low, high = pa.array(["aaa"] * count), pa.array(["zzz"] * count)
    other = ColumnBounds(low, high, np.zeros(count, np.int64), np.zeros(count, bool))
    return spec, replace(base, files=replace(base.files, bounds={**base.files.bounds, "b": other}))


def test_a_position_is_the_share_of_rows_below() -> None:
    apart = flat_state(File(0, 10), File(10, 20), File(20, 40, rows=200))
    assert quads(boxes_of(SPEC, apart.files, "")) == [(0, 250, 0, 333), (250, 500, 333, 667), (500, 1000, 667, 1000)]
    over = flat_state(File(0, 100), File(0, 50))
    # Half of the first file's rows and all of the second's lie up to 50.
    assert [box[:2] for box in quads(boxes_of(SPEC, over.files, ""))] == [(0, 750), (0, 1000)]


def test_a_single_value_holds_all_its_rows() -> None:
    points = flat_state(File(7, 7), File(7, 7), File(9, 9, rows=200))
    assert [box[:2] for box in quads(boxes_of(SPEC, points.files, ""))] == [(0, 500), (0, 500), (500, 1000)]


def test_files_without_bounds_span_everything() -> None:
    given = flat_state(File(0, 10), File(10, 20), File(0, 0))
    bounds = given.files.bounds["a"]
    open_ended = ColumnBounds(
        pa.array([0, 10, None], pa.int64()), pa.array([10, 20, None], pa.int64()), bounds.null_count, bounds.truncated
    )
    files = replace(given.files, bounds={"a": open_ended})
    assert (0, 1000) in [box[:2] for box in quads(boxes_of(SPEC, files, ""))]


def test_a_range_too_thin_to_see_is_drawn_as_a_line() -> None:
    given = flat_state(File(0, 0), File(0, 0))
    bounds = replace(given.files.bounds["a"], lower=pa.array([0.0, 0.0]), upper=pa.array([5e-324, 1.0]))
    assert quads(boxes_of(SPEC, replace(given.files, bounds={"a": bounds}), ""))[0][:2] == (0, 500)


def test_the_partition_with_most_files_is_drawn_if_the_named_one_is_gone() -> None:
    given = state(File(0, 9, "a"), File(0, 9, "b"), File(0, 9, "b"))
    assert [boxes_of(SPEC, given.files, f"region={name}").files for name in "abc"] == [1, 2, 2]


def test_files_are_predicted_from_as_many_rows_as_they_have() -> None:
    """Of 1000 rows, 900 are evenly distributed up to 100: two new files share a bound at the median, 55."""
    given = flat_state(File(0, 100, rows=900), File(100, 1000))
    after = draw(SPEC, given, (make_group("g", given.files, 2),), predictable=True).after
    (_, below), (above, _) = (box[:2] for box in quads(after))
    assert (below, above) == (pytest.approx(500, abs=50), pytest.approx(500, abs=50))


@pytest.mark.parametrize("curve", ["kd", "zorder", "hilbert", "linear"])
def test_what_overlaps_now_is_predicted_apart(curve: str) -> None:
    spec, given = two_columns(64, curve)
    picture = draw(spec, given, (make_group("g", given.files, 64),), predictable=True)
    assert set(quads(picture.before)) == {(0, SCALE, 0, SCALE)}
    assert picture.after.files == 64
    assert not picture.after.coarse
    area = sum((r - left) * (t - b) for left, r, b, t in quads(picture.after)) / SCALE**2
    assert 0.7 < area <= 1.0 if curve == "kd" else area < 12
    assert picture == draw(spec, given, (make_group("g", given.files, 64),), predictable=True)


def test_files_that_stay_keep_their_boxes() -> None:
    given = flat_state(File(0, 10), File(10, 20), File(20, 30), File(20, 30))
    group = make_group("g", given.files.take(np.array([2, 3])), 2)
    picture = draw(SPEC, given, (group,), predictable=True)
    assert picture.after.files == 4
    assert [box[:2] for box in quads(picture.after)][:2] == [(0, 250), (250, 500)]
    assert draw(SPEC, given, (group,), predictable=False).after is None
    assert draw(SPEC, given, (), predictable=True).after is None


def test_files_that_a_sample_predicts_are_drawn_as_they_are() -> None:
    given = flat_state(File(0, 100), File(0, 100))
    group = make_group("g", given.files, 2)
    after = flat_state(File(0, 50), File(50, 100)).files
    picture = draw(SPEC, given, (group,), predictable=True, after=after)
    assert picture.after is not None
    assert picture.sampled
    assert quads(picture.after) == [(0, 500, 0, 500), (500, 1000, 500, 1000)]
    assert not draw(SPEC, given, (group,), predictable=True).sampled
    moved = draw(SPEC, given, (group,), predictable=False, after=after)
    assert (moved.after, moved.sampled) == (None, False)


def test_many_files_are_sampled_and_the_prediction_is_coarse() -> None:
    spec, given = two_columns(5000)
    picture = draw(spec, given, (make_group("g", given.files, 5000),), predictable=True)
    assert (picture.before.count, picture.before.files, picture.before.coarse) == (MAX_BOXES, 5000, False)
    assert picture.after.count <= MAX_BOXES
    assert (picture.after.files, picture.after.coarse) == (5000, True)


def test_the_strip_is_in_the_order_of_names_and_bounded() -> None:
    given = state(File(0, 9, "b"), File(0, 9, "b"), File(0, 9, "a"), File(5, 6, "c"))
    group = make_group("g", given.files.take(np.array([0, 1])), 1)
    strip = draw(SPEC, given, (group,), predictable=True).strip
    assert [(c.label, c.files, c.rewritten) for c in strip] == [
        ("region=a", 1, 0),
        ("region=b", 2, 2),
        ("region=c", 1, 0),
    ]
    assert strip[1].excess > strip[0].excess
    many = state(*(File(0, 9, f"r{n:04}") for n in range(1000)))
    cells = draw(SPEC, many, (), predictable=True).strip
    assert len(cells) == MAX_STRIP_BINS
    assert sum(c.partitions for c in cells) == 1000
    assert cells[0].label == "region=r0000 to region=r0008"


def test_the_partition_with_most_to_rewrite_is_drawn() -> None:
    given = state(File(0, 9, "a"), File(0, 9, "a"), File(0, 9, "a"), File(0, 9, "b"), File(0, 9, "b"))
    group = make_group("g", given.files.take(np.array([3, 4])), 2)
    assert draw(SPEC, given, (group,), predictable=True).partition == "region=b"
    assert draw(SPEC, given, (), predictable=True).partition == "region=a"


def test_pictures_are_for_the_tables_with_most_to_rewrite_and_survive_the_plan_file() -> None:
    planned = []
    for n in range(MAX_PICTURES + 2):
        spec = replace(SPEC, table=replace(SPEC.table, name=f"t{n:03}"))
        given = flat_state(*(File(0, 9) for _ in range(n + 2)))
        planned.append(decide(spec, given, DELTA))
    report = with_pictures(as_plan(planned), planned)
    bare = {t.table for t in report.plan.tables} - set(report.pictures)
    assert bare == {"lake.db.t000", "lake.db.t001"}
    small = with_pictures(as_plan(planned), planned, max_files=10)
    assert {t.files for t in small.plan.tables if t.table in small.pictures} == set(range(2, 11))
    text = document.to_json(report)
    assert document.from_json(text, "plan.json") == report
    assert '"positions": [0, ' in text


def test_a_table_that_the_spec_does_not_fit_any_more_is_not_drawn_again() -> None:
    given = state(File(0, 9, "a"), File(0, 9, "b"))
    planned = decide(SPEC, given, DELTA)
    (before,) = with_pictures(as_plan([planned]), [planned]).pictures.values()
    assert all(drawn_again(before, planned))
    column_gone = replace(given, columns=given.columns[1:], files=replace(given.files, bounds={}))
    again = decide(SPEC, column_gone, DELTA)
    assert again.plan.status == "error"
    assert drawn_again(before, again) == (None, ())


def test_a_partition_has_one_number_in_groups_pictures_and_strips() -> None:
    names = ["p10", "p2", "p1", "p3"]  # the order of the metadata; in the order of names p2 is the third
    observed = state(*(File(0, 9, name) for name in names), *(File(0, 9, "p2") for _ in range(3)), File(0, 9, "p3"))
    planned = decide(SPEC, observed, DELTA)
    shown = without_values(with_pictures(as_plan([planned]), [planned]))
    groups, picture = shown.plan.tables[0].groups, shown.pictures[shown.plan.tables[0].table]
    assert {g.partition: g.files for g in groups} == {"partition 3": 4, "partition 4": 2}
    assert picture.partition == "partition 3"
    assert {b.label: b.files for b in picture.strip if b.rewritten} == {"partition 3": 4, "partition 4": 2}


def test_an_empty_table_has_no_picture() -> None:
    given = flat_state()
    planned = decide(SPEC, given, DELTA)
    assert with_pictures(Plan("0", (planned.plan,)), [planned]).pictures == {}
