"""Files without a layout record that are already in the declared order: adopted, and the base of later appends."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import layout_record, make_bounds, make_file_table, make_layout, make_spec, make_state
from unit.planner.plans import DELTA, KIND, SPEC, TARGET, File, state

from zlayout.curve.layout import build
from zlayout.planner.diff import decide
from zlayout.planner.model import Wait
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.spec.model import LayoutSpec
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.state import Column, FileTable, TableState


def in_order(files: int, region: str = "east", **more: int) -> list[File]:
    return [File(10 * n, 10 * n + 9, region, **more) for n in range(files)]


def codes(decision: PlannedTable) -> list[str]:
    return [d.code for d in decision.plan.diagnostics]


def chosen(decision: PlannedTable) -> list[str]:
    return [path for group in decision.groups for path in group.files.path.to_pylist()]


def test_disjoint_files_in_the_order_of_the_only_key_are_left_alone() -> None:
    decision = decide(SPEC, state(*in_order(8000)), DELTA)
    assert (decision.plan.status, decision.groups, codes(decision)) == ("unchanged", (), ["ZL420"])
    (note,) = decision.plan.diagnostics
    assert note.severity == "note"
    assert note.message == "8,000 files have no layout record but are in the declared order; they are not rewritten"
    assert not any(measure.exceeded for measure in decision.plan.decay)


def test_a_partition_in_order_is_left_alone_and_the_others_are_rewritten() -> None:
    files = [*in_order(20), *[File(0, 199, "west")] * 20, *in_order(4, "north")]
    decision = decide(SPEC, state(*files), DELTA)
    assert [g.partition for g in decision.plan.groups] == ["region=west"]
    assert codes(decision) == ["ZL420"]
    assert "24 files in 2 partitions" in decision.plan.diagnostics[0].message
    # touched is 20 + 20 + 4 now, and the rewrite lowers that of one partition
    assert [(c.low, c.high) for c in decision.plan.columns] == [(3.0, 3.0)]
    laid = [File(10 * n, 10 * n + 9, "west", layout=0, group=0) for n in range(20)]
    after = decide(SPEC, state(*in_order(20), *laid, *in_order(4, "north")), DELTA)
    assert (after.plan.status, codes(after)) == ("unchanged", ["ZL420"])


@pytest.mark.parametrize(
    "files",
    [
        [File(0, 79)] * 8,
        [File(0, 9)] * 2,
        [File(20 * (n // 2), 20 * (n // 2) + 19) for n in range(40)],
        in_order(8, bytes=TARGET // 4),
        in_order(8, bytes=2 * TARGET),
        in_order(8, deleted=30),
    ],
    ids=["wide", "two wide", "two layers", "small", "oversized", "deleted"],
)
def test_what_a_rewrite_would_improve_is_not_adopted(files: list[File]) -> None:
    decision = decide(SPEC, state(*files), DELTA)
    assert decision.plan.status == "changes"
    assert set(codes(decision)) <= {"ZL440"}  # small files in order: a query for one value reads one larger file
    assert len(chosen(decision)) == len(files)


def test_another_layout_and_missing_bounds_are_not_adopted() -> None:
    assert decide(SPEC, state(*in_order(8, layout=1, group=0)), DELTA).plan.status == "changes"
    observed = state(*in_order(9))
    bounds = make_bounds([None, *range(10, 90, 10)], [9, *range(19, 99, 10)], KIND)
    open_bound = replace(observed, files=replace(observed.files, bounds={"a": bounds}))
    assert chosen(decide(SPEC, open_bound, DELTA)) == ["f0"]


def test_a_column_of_one_value_gains_nothing() -> None:
    assert decide(SPEC, state(*[File(7, 7)] * 8), DELTA).plan.status == "unchanged"


def test_a_heavy_value_is_in_order_where_its_files_have_no_other() -> None:
    """No layout keeps a query for the value of 30 files from opening 30 files."""
    files = [*in_order(60), *[File(1000, 1000)] * 30]
    decision = decide(SPEC, state(*files, *[File(0, 1000, rows=1)] * 5), DELTA)
    assert not set(chosen(decision)) & {f"f{n}" for n in range(60, 90)}


def test_later_files_are_merged_with_the_adopted_files_they_meet() -> None:
    base, new = in_order(100), [File(200, 249)] * 15
    decision = decide(SPEC, state(*base, *new), DELTA)
    assert chosen(decision) == [*(f"f{n}" for n in range(20, 25)), *(f"f{n}" for n in range(100, 115))]
    written = [File(200 + 2 * n, 201 + 2 * n, layout=0, group=0, rows=125) for n in range(20)]
    after = decide(SPEC, state(*base[:20], *base[25:], *written), DELTA)
    assert (after.plan.status, codes(after)) == ("unchanged", ["ZL420"])


def test_later_files_within_the_tolerance_are_left_alone() -> None:
    assert decide(SPEC, state(*in_order(100), *[File(200, 249)] * 5), DELTA).plan.status == "unchanged"


def test_no_few_adopted_files_remain_that_the_next_plan_would_rewrite() -> None:
    """After a merge of 60 new and 30 old files, 30 files without a layout record are the smaller part."""
    base, new = in_order(60), [File(0, 299)] * 60
    decision = decide(SPEC, state(*base, *new), DELTA)
    assert len(chosen(decision)) == 120


def two_keys(files: int, in_boxes: bool, seed: int = 3) -> TableState:
    """A table of 100 rows in each file, laid out by kd or in no order."""
    random = np.random.default_rng(seed)
    keys = {name: pa.array(random.integers(0, 10**6, 100 * files)) for name in "ab"}
    of = build(keys, {}, "kd", 1000, files, False).locate(keys) if in_boxes else np.arange(100 * files) % files
    sides = {}
    for name, values in keys.items():
        parts = [values.to_numpy()[of == n] for n in range(files)]
        sides[name] = make_bounds([int(p.min()) for p in parts], [int(p.max()) for p in parts], KIND)
    table: FileTable = make_file_table([100] * files, bytes=TARGET, bounds=sides)
    columns = tuple(Column(name, KIND, True) for name in "ab")
    return make_state(table, columns=columns)


TWO: LayoutSpec = make_spec(make_layout("a", "b", target_size=TARGET))


@pytest.mark.parametrize("files", [2, 3, 4, 5, 8, 16, 60, 256])
def test_boxes_of_two_keys_are_adopted_and_random_rows_are_not(files: int) -> None:
    assert decide(TWO, two_keys(files, in_boxes=True), DELTA).plan.status == "unchanged"
    assert len(chosen(decide(TWO, two_keys(files, in_boxes=False), DELTA))) == files


def test_a_budget_is_not_spent_on_files_in_order() -> None:
    files = [*in_order(20), *[File(0, 99, "west")] * 10]
    options = PlanOptions(max_rewrite_bytes=10 * TARGET)
    decision = decide(SPEC, state(*files), DELTA, options=options)
    assert [g.partition for g in decision.plan.groups] == ["region=west"]
    assert decision.plan.that_wait(Wait.BUDGET) is None


def test_the_record_of_one_layout_does_not_adopt_for_another() -> None:
    """Files in the order of `a` are not in that of `b`, whoever wrote them."""
    by_b = make_spec(make_layout("b", target_size=TARGET))
    observed = two_keys(16, in_boxes=False)
    files = replace(observed.files, layouts=(layout_record(SPEC.layout),))
    assert decide(by_b, replace(observed, files=files), DELTA).plan.status == "changes"


def test_a_budget_is_not_spent_on_new_files_that_gain_nothing() -> None:
    """New files in order are decay of the laid-out files in their partition, but their rewrite lowers nothing."""
    laid = in_order(20, layout=0, group=0)
    new = [replace(f, low=f.low + 1000, high=f.high + 1000) for f in in_order(5)]
    wide = [File(0, 99, "west")] * 10
    options = PlanOptions(max_rewrite_bytes=15 * TARGET)
    assert [g.partition for g in decide(SPEC, state(*laid, *new, *wide), DELTA).plan.groups] == [
        "region=east",
        "region=west",
    ]
    decision = decide(SPEC, state(*laid, *new, *wide), DELTA, options=options)
    assert [g.partition for g in decision.plan.groups] == ["region=west"]
    assert codes(decision) == ["ZL422"]
    assert (decision.plan.that_wait(Wait.BUDGET).files, decision.plan.that_wait(Wait.BUDGET).bytes) == (5, 5 * TARGET)
    assert "1 group with 5 files" in decision.plan.diagnostics[0].message


def test_a_table_with_nothing_to_gain_needs_no_budget() -> None:
    laid = in_order(20, layout=0, group=0)
    new = [replace(f, low=f.low + 1000, high=f.high + 1000) for f in in_order(5)]
    decision = decide(SPEC, state(*laid, *new), DELTA, options=PlanOptions(max_rewrite_bytes=1))
    assert (decision.plan.status, decision.groups, codes(decision)) == ("changes", (), ["ZL422"])
    assert decision.plan.that_wait(Wait.BUDGET) is not None


def by_day(files: int, days: int, customers: int = 1000) -> TableState:
    """Day partitions of `files` files in order of arrival: column a is the time, and column b a customer."""
    owner = np.repeat(np.arange(days), files)
    first = np.arange(files * days) * 100
    table = make_file_table(
        rows=[1000] * len(owner),
        bytes=[TARGET] * len(owner),
        partition=owner.tolist(),
        partitions=[Partition(0, (PartitionField("day"),), (day,)) for day in range(days)],
        bounds={
            "a": make_bounds(first.tolist(), (first + 99).tolist(), KIND),
            "b": make_bounds([0] * len(owner), [customers - 1] * len(owner), KIND),
        },
    )
    columns = tuple(Column(name, KIND, True) for name in ("a", "b", "day"))
    return make_state(table, columns=columns, partition_fields=(PartitionField("day"),))


@pytest.mark.parametrize(("files", "adopted"), [(2, True), (3, True), (4, False), (5, False), (6, False), (8, False)])
def test_order_by_one_of_two_columns_is_not_what_was_declared(files: int, adopted: bool) -> None:
    """With three files or fewer, no layout makes both columns useful."""
    decision = decide(TWO, by_day(files, 6), DELTA)
    assert decision.plan.status == ("unchanged" if adopted else "changes")
    assert ("ZL420" in codes(decision)) == adopted
    if adopted:
        (note,) = (d for d in decision.plan.diagnostics if d.code == "ZL420")
        assert (
            f"a query for one value opens {6.0:.1f} by a, {6.0 * files:.1f} by b of {6 * files} files" in note.message
        )
        assert "tolerance.touched" in note.hint
        assert "declared order" not in note.message
    one_value = decide(TWO, by_day(files, 6, customers=1), DELTA)
    assert one_value.plan.status == "unchanged"  # no layout makes b useful
