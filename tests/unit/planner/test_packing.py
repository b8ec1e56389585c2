"""Compaction alone: layouts without z-order columns select small files and deleted rows, and nothing else."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import layout_record, make_file_table, make_layout, make_spec
from unit.planner.plans import DELTA, OLD, TARGET, File, state

from zlayout.planner.diff import PlannedTable, PlanOptions, decide
from zlayout.planner.model import Measure, Reason, Status, Wait
from zlayout.planner.work import Capabilities
from zlayout.spec.model import LayoutSpec, Tolerance
from zlayout.table.state import FileTable, PartitionField, TableState, joined

LAYOUT = make_layout(target_size=TARGET, curve="linear")
SPEC = make_spec(LAYOUT)
ICEBERG = Capabilities("iceberg", partition_evolution=True, native_by_rank=False)


def sized(*sizes: int, region: str = "east", **facts: int) -> list[File]:
    return [File(0, 9, region=region, bytes=size, **facts) for size in sizes]


def observed(*files: File) -> TableState:
    """As `state`, with the record of this layout in place of the first one."""
    found = state(*files)
    return replace(found, files=replace(found.files, layouts=(layout_record(LAYOUT), OLD)))


def plan(*files: File, spec: LayoutSpec = SPEC, budget: int | None = None) -> PlannedTable:
    return decide(spec, observed(*files), DELTA, options=PlanOptions(max_rewrite_bytes=budget))


def chosen(decision: PlannedTable) -> list[list[str]]:
    return [group.files.path.to_pylist() for group in decision.groups]


def test_small_files_of_a_partition_are_combined_and_the_others_stay() -> None:
    decision = plan(*sized(100, 2000, 499, 500, 300))

    assert chosen(decision) == [["f0", "f2", "f4"]]
    (group,) = decision.plan.groups
    assert (group.reason, group.target_files) == (Reason.SMALL_FILES, 1)
    assert decision.plan.columns == ()
    assert [(d.measure, d.value) for d in decision.plan.decay] == [(Measure.SMALL_FILES, 0.6)]
    assert (decision.plan.files_after.low, decision.plan.files_after.high) == (3, 3)  # type: ignore[union-attr]


def test_a_straggler_rewrites_nothing() -> None:
    assert plan(*sized(100, 1000, 1000)).plan.status is Status.UNCHANGED


def test_few_small_files_are_within_the_tolerance() -> None:
    files = sized(*[1000] * 8, 10, 10)
    assert plan(*files).plan.status is Status.UNCHANGED
    assert chosen(plan(*files, spec=replace(SPEC, tolerance=Tolerance(small_files=0.1)))) == [["f8", "f9"]]


def test_files_of_other_layouts_count_as_laid_out_and_large_files_stay() -> None:
    assert plan(*sized(1000, 9000, layout=1, group=0), *sized(1000)).plan.status is Status.UNCHANGED


def test_what_one_rewrite_left_small_is_combined_when_others_are_added() -> None:
    left = sized(100, 100, layout=0, group=3)
    assert plan(*left).plan.status is Status.UNCHANGED
    assert chosen(plan(*left, *sized(50))) == [["f0", "f1", "f2"]]


def test_small_files_of_two_rewrites_are_combined() -> None:
    files = [*sized(100, layout=0, group=3), *sized(100, layout=0, group=4)]
    assert chosen(plan(*files)) == [["f0", "f1"]]


def test_files_with_many_deleted_rows_are_rewritten_with_the_small_ones() -> None:
    files = [*sized(1000, deleted=60), *sized(1000, deleted=1), *sized(1000), *sized(100)]
    decision = plan(*files)

    assert chosen(decision) == [["f0", "f3"]]
    assert [g.reason for g in decision.plan.groups] == [Reason.DELETED_ROWS]


def test_deleted_rows_within_the_tolerance_stay() -> None:
    assert plan(*sized(1000, deleted=11), *sized(1000)).plan.status is Status.UNCHANGED


def test_files_with_shared_deletes_are_rewritten_together() -> None:
    """If only the first were rewritten, the delete file would still apply to the second."""
    files = [replace(f, shared=True) for f in (*sized(1000, deleted=30), *sized(1000, deleted=8))]
    assert chosen(plan(*files)) == [["f0", "f1"]]


def test_partitions_are_decided_apart() -> None:
    files = [*sized(10, 10), *sized(1000, 10, region="west"), *sized(20, 20, region="north")]
    assert chosen(plan(*files)) == [["f0", "f1"], ["f4", "f5"]]


def test_a_limit_divides_groups_and_leaves_no_group_without_effect() -> None:
    files = sized(400, 400, 400, 400, 400)
    limited = replace(SPEC, max_group_size=TARGET)
    assert chosen(plan(*files, spec=limited)) == [["f0", "f1"], ["f2", "f3"]]


def test_a_budget_is_spent_on_the_most_files_per_byte() -> None:
    files = [*sized(400, 400), *sized(*[100] * 8, region="west")]
    decision = plan(*files, budget=800)

    assert [g.partition for g in decision.plan.groups] == ["region=west"]
    assert decision.plan.that_wait(Wait.BUDGET).bytes == 800


def test_a_budget_below_two_files_is_refused() -> None:
    decision = plan(*sized(400, 400), budget=500)
    assert [d.code for d in decision.plan.diagnostics if d.severity == "refused"] == ["ZL205"]


def test_settings_of_an_order_have_no_effect() -> None:
    spec = replace(SPEC, locations={"files.sort_within": SPEC.location, "files.target_size": SPEC.location})
    notes = [d.message for d in plan(*sized(10, 10), spec=spec).plan.diagnostics]
    assert notes == ["files.sort_within has no effect: without zorder, rows keep their order"]


def test_files_of_an_older_partitioning_are_moved() -> None:
    present = observed(*sized(1000, 1000), *sized(1000, region="west"))
    spec = replace(SPEC, partition_by=(PartitionField("a", "identity"),))
    decision = decide(spec, present, ICEBERG)

    assert chosen(decision) == [["f0", "f1", "f2"]]
    assert decision.plan.partitioning is not None


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_both_engines_rewrite_the_same_files(engine: str) -> None:
    spec = replace(SPEC, layout=replace(LAYOUT, engine=engine))
    assert chosen(plan(*sized(10, 1000, 10), spec=spec)) == [["f0", "f2"]]


def test_engine_native_rewrites_no_file_for_its_deleted_rows() -> None:
    """zlayout configures OPTIMIZE so that it selects files by size alone. The next plan would have the file again."""
    native = replace(SPEC, layout=replace(LAYOUT, engine="native"))
    assert plan(*sized(1000, 1000, deleted=50), spec=native).plan.status is Status.UNCHANGED


files_of_a_table = st.lists(
    st.builds(
        File,
        st.just(0),
        st.just(9),
        region=st.sampled_from(["east", "west"]),
        bytes=st.integers(1, 3000),
        deleted=st.sampled_from([0, 0, 0, 5, 50, 100]),
        layout=st.sampled_from([-1, 1]),
        group=st.just(0),
    ),
    min_size=1,
    max_size=30,
)


@given(files_of_a_table, st.sampled_from([None, 1000, 2500]), st.floats(0.05, 1.5))
def test_the_plan_after_a_rewrite_is_empty(files: list[File], limit: int | None, compression: float) -> None:
    """Whatever size the new files have, no group is rewritten again unless parts of it were limited."""
    spec = replace(SPEC, max_group_size=limit)
    present = observed(*files)
    before = int(present.files.live_rows.sum())
    for turn in range(12):
        decision = decide(spec, present, DELTA)
        assert int(present.files.live_rows.sum()) == before
        if not decision.groups:
            break
        assert limit is not None or turn == 0
        present = replace(present, files=_rewritten(decision, present.files, compression, turn))
    assert not decision.groups


def _rewritten(decision: PlannedTable, files: FileTable, compression: float, turn: int) -> FileTable:
    """Return the files after the groups were rewritten by this layout."""
    gone = {path for group in decision.groups for path in group.files.path.to_pylist()}
    kept = files.take(np.array([n for n, p in enumerate(files.path.to_pylist()) if p not in gone], np.int64))
    parts = [kept]
    for number, group in enumerate(decision.groups):
        rows, count = int(group.files.live_rows.sum()), group.target_files
        if not rows:
            continue
        count = min(count, rows)
        size = max(1, int(group.files.live_bytes.sum() * compression / count))
        new = make_file_table(
            [rows // count + (n < rows % count) for n in range(count)],
            path=[f"new-{turn}-{number}-{n}" for n in range(count)],
            bytes=size,
            partition=np.full(count, group.files.partition[0]),
            partitions=files.partitions,
            layout=0,
            layouts=files.layouts,
            group=1000 * (turn + 1) + number,
            bounds={name: _nothing(count) for name in files.bounds},
        )
        parts.append(new)
    return joined(parts)


def _nothing(count: int):  # type: ignore[no-untyped-def]
    from support.builders import make_bounds

    return make_bounds([0] * count, [9] * count, pa.int64())
