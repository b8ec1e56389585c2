"""A byte budget on hand-made states: what is rewritten first, what is deferred, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from support.forecasts import around
from unit.planner.plans import DELTA, SPEC, TARGET, File, state

from zlayout.planner.diff import assemble, choose, choose_saved, decide, propose, settle
from zlayout.planner.model import RankedBy, Wait
from zlayout.planner.proposal import Proposal, Worth
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import PartitionField, TableState

# east gains 4 -> 1 in touched for 4 files, west 3 -> 1 for 3 files: .75 and .67 a file
EAST, WEST = [File(0, 999, "east")] * 4, [File(0, 999, "west")] * 3


def proposed(budget: int, observed: TableState, spec: LayoutSpec = SPEC) -> Proposal:
    proposal = propose(spec, observed, DELTA, options=PlanOptions(max_rewrite_bytes=budget))
    assert isinstance(proposal, Proposal)
    return proposal


def within(budget: int, observed: TableState, spec: LayoutSpec = SPEC) -> PlannedTable:
    return decide(spec, observed, DELTA, options=PlanOptions(max_rewrite_bytes=budget))


def partitions(decision: PlannedTable) -> list[str]:
    return [g.partition for g in decision.plan.groups]


def test_most_touched_for_each_byte_goes_first() -> None:
    decision = within(5 * TARGET, state(*EAST, *WEST))
    assert partitions(decision) == ["region=east"]
    left = decision.plan.that_wait(Wait.BUDGET)
    assert (left.budget, left.groups, left.files, left.bytes) == (5 * TARGET, 1, 3, 3 * TARGET)
    assert decision.plan.columns[0].touched == pytest.approx(7.0, abs=0.05)
    assert around(4.0, decision.plan.columns[0])
    assert [(c.column, c.predicted, c.low, c.high) for c in left.columns] == [("a", None, 2.0, 2.0)]


def test_a_part_of_one_file_is_not_worth_its_bytes() -> None:
    """Each would stay as mixed with the others as it was, and count as laid out."""
    decision = within(TARGET + TARGET // 2, state(*EAST))
    assert decision.plan.status == "refused"
    assert [d.code for d in decision.plan.diagnostics] == ["ZL205"]
    assert f"{2 * TARGET:,}" in decision.plan.diagnostics[0].message


def test_the_files_that_must_hold_are_those_of_the_groups_taken() -> None:
    decision = within(5 * TARGET, state(*EAST, *WEST))
    alone = decide(SPEC, state(*EAST), DELTA)
    (files,), (files_alone,) = ([(group.id, group.digest) for group in d.plan.groups] for d in (decision, alone))
    assert files == files_alone


def test_a_budget_that_is_enough_changes_nothing() -> None:
    observed = state(*EAST, *WEST)
    assert within(7 * TARGET, observed).plan == decide(SPEC, observed, DELTA).plan


def test_two_tables_share_one_budget() -> None:
    east, west = (proposed(5 * TARGET, state(*files)) for files in (EAST, WEST))
    first, second = settle([west, east], 5 * TARGET)
    assert (partitions(first), partitions(second)) == ([], ["region=east"])
    assert (first.plan.status, first.plan.that_wait(Wait.BUDGET) is not None) == ("changes", True)
    assert second.plan.that_wait(Wait.BUDGET) is None


def test_a_full_rewrite_that_another_table_leaves_no_budget_for_is_left_over_whole() -> None:
    options = PlanOptions(allow_full_rewrite=True, max_rewrite_bytes=5 * TARGET)
    spec = replace(SPEC, partition_by=())
    anew = propose(spec, state(*EAST[:2], *WEST[:2]), DELTA, options=options)
    left, done = settle([anew, proposed(5 * TARGET, state(*WEST))], 5 * TARGET)
    assert partitions(done) == ["region=west"]
    assert (left.groups, left.partition_by, left.plan.partitioning) == ((), None, None)
    assert left.plan.that_wait(Wait.BUDGET).files == 4
    (alone,) = settle([anew], 5 * TARGET)
    assert (alone.partition_by, len(alone.groups)) == ((), 1)


def test_new_files_too_many_for_the_budget_are_laid_out_in_part_neighbours_together() -> None:
    files = [File(100 * (n % 5), 100 * (n % 5) + 150) for n in range(10)]
    decision = within(4 * TARGET, state(*files))
    (group,) = decision.groups
    lows = sorted(group.files.bounds["a"].lower.to_pylist())
    assert lows in ([0, 0, 100, 100], [200, 200, 300, 300])
    assert decision.plan.that_wait(Wait.BUDGET).files == 6


def test_a_merge_too_large_for_the_budget_becomes_one_of_new_files_alone() -> None:
    base = [File(10 * n, 10 * n + 9, layout=0, group=0) for n in range(20)]
    observed = state(*base, *[File(0, 199)] * 10)
    assert len(decide(SPEC, observed, DELTA).groups[0].files) == 30
    decision = within(12 * TARGET, observed)
    assert decision.groups[0].files.path.to_pylist() == [f"f{n}" for n in range(20, 30)]
    # 20 boxes and 10 new files everywhere are 1 + 10; the new ones in order are 1 more than the boxes
    assert around(2.0, decision.plan.columns[0])


def test_less_than_the_least_there_is_to_do_is_refused() -> None:
    decision = within(TARGET // 2, state(*EAST))
    assert (decision.plan.status, decision.groups) == ("refused", ())
    (diagnostic,) = decision.plan.diagnostics
    assert diagnostic.code == "ZL205"
    assert f"{2 * TARGET:,}" in diagnostic.message


def test_a_new_partitioning_of_delta_is_refused_when_it_takes_more() -> None:
    options = PlanOptions(allow_full_rewrite=True, max_rewrite_bytes=3 * TARGET)
    decision = decide(replace(SPEC, partition_by=()), state(*EAST), DELTA, options=options)
    assert decision.plan.status == "refused"
    assert [d.code for d in decision.plan.diagnostics] == ["ZL205"]


def test_the_budget_chooses_before_the_plan_is_assembled() -> None:
    """The plan names what was chosen and nothing else: actions, requirements and pinned files agree."""
    proposal = proposed(5 * TARGET, state(*EAST, *WEST))
    groups = proposal.selection.groups
    assert [group.action().partition for group in groups] == ["region=east", "region=west"]
    (chosen,) = choose([proposal], 5 * TARGET)
    assert (chosen.selection.groups, chosen.budget_too_small) == (groups[:1], None)
    decision = assemble(chosen)
    (group,) = decision.plan.groups
    assert decision.plan.actions == (group,)
    assert group.digest == groups[0].digest != ""
    assert [g.id for g in decision.groups] == [group.id]


def test_a_saved_choice_is_found_again_by_its_ids() -> None:
    observed = state(*EAST, *WEST)
    once = within(5 * TARGET, observed)
    proposal = proposed(5 * TARGET, observed)
    again = assemble(choose_saved(proposal, {g.id for g in once.plan.groups}))
    assert again.plan == once.plan
    assert [g.id for g in again.groups] == [g.id for g in once.groups]


def test_a_partition_larger_than_a_group_may_be_is_laid_out_in_parts() -> None:
    spec = replace(SPEC, max_group_size=4 * TARGET)
    files = [File(100 * n, 100 * n + 599) for n in range(10)]
    decision = decide(spec, state(*files), DELTA)
    assert [g.files.path.to_pylist() for g in decision.groups] == [
        [f"f{n}" for n in part] for part in (range(4), range(4, 8), range(8, 10))
    ]
    works = decision.in_parts(spec.max_group_size)
    assert [len(w.groups) for w in works] == [1, 1, 1]
    assert not any(w.covers_table for w in works)


def test_groups_that_are_as_large_as_may_be_are_left_alone() -> None:
    spec = replace(SPEC, max_group_size=4 * TARGET)
    files = [File(0, 999, layout=0, group=n // 4) for n in range(12)]
    assert decide(spec, state(*files), DELTA).plan.status == "unchanged"


def test_large_files_must_gain_more() -> None:
    # east gains 3 for 12 targets, west 2 for 3
    large = [File(0, 999, "east", bytes=3 * TARGET)] * 4
    assert partitions(within(12 * TARGET, state(*large, *WEST))) == ["region=west"]


def test_what_can_be_mended_only_in_part_is_left_alone_when_nothing_is_new() -> None:
    # Merging the two small groups would leave 2.0 of 1.5, and the next plan would find something to improve again.
    spec = replace(SPEC, max_group_size=4 * TARGET)
    large = [File(100 * n, 100 * n + 99, layout=0, group=0) for n in range(8)]
    small = [File(0, 799, layout=0, group=n) for n in (1, 2)]
    assert decide(spec, state(*large, *small), DELTA).plan.status == "unchanged"


def test_files_that_will_be_partitioned_anew_promise_nothing() -> None:
    spec = replace(SPEC, partition_by=(PartitionField("b"),))
    options = PlanOptions(max_rewrite_bytes=100 * TARGET)
    iceberg = replace(DELTA, partition_evolution=True)
    proposal = propose(spec, state(*EAST, *WEST), iceberg, options=options)
    assert isinstance(proposal, Proposal)
    assert proposal.savings.tolist() == [[0.0]]


def test_one_merge_that_is_too_large_is_refused_when_there_is_nothing_else() -> None:
    small = [File(0, 9, layout=0, group=n, bytes=TARGET // 4) for n in range(2)]
    decision = within(TARGET // 4, state(*small))
    assert [d.code for d in decision.plan.diagnostics] == ["ZL205"]
    assert (decision.plan.that_wait(Wait.BUDGET).files, decision.plan.that_wait(Wait.BUDGET).bytes) == (2, TARGET // 2)


def test_new_files_without_the_group_they_belong_to_leave_something_over() -> None:
    small = TARGET // 4
    observed = state(File(0, 9, layout=0, group=0, bytes=small), File(0, 9, bytes=small))
    decision = within(small, observed)
    assert [len(g.files) for g in decision.groups] == [1]
    assert decision.plan.that_wait(Wait.BUDGET).bytes == small


def test_parts_that_fit_together_later_are_left_alone_while_nothing_is_new() -> None:
    spec = replace(SPEC, max_group_size=720)
    large = [File(100 * n, 100 * n + 99, layout=0, group=0, bytes=700) for n in range(6)]
    small = [File(700 + 100 * n, 799 + 100 * n, layout=0, group=n, bytes=360 - 10 * n) for n in (1, 2)]
    assert decide(spec, state(*large, *small), DELTA).plan.status == "unchanged"
    new = File(1000, 1099, bytes=10)
    assert decide(spec, state(*large, *small, new), DELTA).plan.status == "changes"


def test_parts_of_a_partition_are_predicted_to_overlap() -> None:
    files = state(*(File(0, 999, bytes=TARGET) for _ in range(12)))
    whole, parts = (decide(replace(SPEC, max_group_size=most), files, DELTA).plan for most in (None, 4 * TARGET))
    assert [len(plan.groups) for plan in (whole, parts)] == [1, 3]
    assert [(c.predicted, c.low, c.high) for c in whole.columns] == [(None, 1.0, 1.0)]
    assert [(c.predicted, c.low, c.high) for c in parts.columns] == [(None, 1.0, 3.0)]


def worth_of(proposal: Proposal, *saves: float, executions: float = 1.0) -> Proposal:
    """The proposal with what each of its candidates saves the queries of a workload, in bytes."""
    return replace(proposal, worth=Worth(np.array(saves), executions))


def test_what_saves_the_queries_most_for_each_byte_goes_before_what_lowers_touched_most() -> None:
    by_touched = proposed(5 * TARGET, state(*EAST, *WEST))
    by_worth = worth_of(by_touched, 400.0, 500.0)  # 100 and 167 for each file
    assert [partitions(*settle([p], 5 * TARGET)) for p in (by_touched, by_worth)] == [["region=east"], ["region=west"]]
    ranked = [settle([p], 5 * TARGET)[0].plan.that_wait(Wait.BUDGET) for p in (by_touched, by_worth)]
    assert [left.ranked_by for left in ranked if left] == [RankedBy.TOUCHED, RankedBy.WORKLOAD]


@pytest.mark.parametrize("most", ["a", "b", "c"])
def test_what_no_query_opens_is_ranked_by_touched_and_before_what_would_cost_queries_more(most: str) -> None:
    files = [File(0, 999, region) for region in "abcd" for _ in range(5 if region == most else 4)]
    proposal = worth_of(proposed(5 * TARGET, state(*files)), 0.0, 0.0, 0.0, -1.0)
    assert partitions(*settle([proposal], 5 * TARGET)) == [f"region={most}"]
    assert partitions(*settle([proposal], 16 * TARGET)) == ["region=a", "region=b", "region=c"]


def test_the_executions_of_all_tables_count_if_each_has_a_workload() -> None:
    rare, often = (
        worth_of(proposed(4 * TARGET, state(*EAST)), saves, executions=n) for saves, n in ((90, 1), (100, 9))
    )
    assert [partitions(d) for d in settle([rare, often], 4 * TARGET)] == [[], ["region=east"]]


def test_beside_a_table_without_a_workload_the_mean_query_counts_once_for_each_zorder_column() -> None:
    # touched of the other table decreases by 3 for 4 files, and its queries thus save 3 files
    for saves, first in ((3.1 * TARGET, ["region=east"]), (2.9 * TARGET, [])):
        ranked = worth_of(proposed(4 * TARGET, state(*EAST)), 10 * saves, executions=10)
        one, _ = settle([ranked, proposed(4 * TARGET, state(*EAST))], 4 * TARGET)
        assert partitions(one) == first
