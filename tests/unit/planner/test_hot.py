"""Partitions that another writer wrote to a short time ago wait: what is set aside, and what the plan states of it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from unit.planner.plans import DELTA, OLD, SPEC, TARGET, File, state

from zlayout.planner.diff import decide
from zlayout.planner.model import Reason, Wait
from zlayout.planner.passes.hot import park
from zlayout.planner.selection import FileSelection, Group
from zlayout.planner.work import Capabilities, PlannedTable, PlanOptions
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import PartitionField, TableState, maxima

EAST, WEST = [File(0, 999, "east")] * 4, [File(0, 999, "west")] * 3
ICEBERG = Capabilities("iceberg", partition_evolution=True, native_by_rank=False)


def written(observed: TableState, *times: int) -> TableState:
    """The observation with the time of the last write to each partition."""
    return replace(observed, last_written=np.array(times, np.int64))


def planned(
    observed: TableState,
    after: int | None = 100,
    spec: LayoutSpec = SPEC,
    budget: int | None = None,
    capabilities: Capabilities = DELTA,
) -> PlannedTable:
    options = PlanOptions(allow_full_rewrite=True, max_rewrite_bytes=budget, hot_after=after)
    return decide(spec, observed, capabilities, options=options)


def regions(decision: PlannedTable) -> list[str]:
    return [group.partition for group in decision.plan.groups]


def test_a_partition_that_was_written_later_waits_and_the_plan_says_so() -> None:
    decision = planned(written(state(*EAST, *WEST), 100, 101))
    assert regions(decision) == ["region=east"]
    hot = decision.plan.that_wait(Wait.HOT)
    assert (hot.after, hot.partition_numbers, hot.groups, hot.files, hot.bytes) == (100, (2,), 1, 3, 3 * TARGET)
    assert decision.plan.waiting == (hot,)
    assert decision.accepts == ""


def test_without_the_option_or_without_known_times_nothing_waits() -> None:
    for observed, after in ((written(state(*EAST, *WEST), 100, 101), None), (state(*EAST, *WEST), 100)):
        decision = planned(observed, after)
        assert regions(decision) == ["region=east", "region=west"]
        assert decision.plan.that_wait(Wait.HOT) is None
        assert decision.plan.waiting == ()


def test_a_table_whose_partitions_all_wait_has_changes_and_no_action() -> None:
    plan = planned(written(state(*EAST, *WEST), 101, 101)).plan
    assert (plan.status, plan.actions) == ("changes", ())
    assert plan.that_wait(Wait.HOT).groups == 2


def test_drift_is_stated_although_its_files_wait() -> None:
    files = [replace(file, layout=1, group=0) for file in EAST]
    drift = planned(written(state(*files), 101)).plan.drift
    declared = SPEC.layout.settings()
    assert {d.key for d in drift} == {key for key, value in OLD.settings.items() if declared[key] != value}


def test_the_budget_is_spent_on_what_does_not_wait() -> None:
    """East would be first: it gains more for each byte."""
    decision = planned(written(state(*EAST, *WEST), 101, 100), budget=5 * TARGET)
    assert regions(decision) == ["region=west"]
    assert decision.plan.that_wait(Wait.BUDGET) is None
    assert decision.plan.that_wait(Wait.HOT) is not None


def test_a_budget_is_not_refused_as_too_small_for_what_waits() -> None:
    plan = planned(written(state(*EAST, *WEST), 101, 101), budget=1).plan
    assert (plan.status, plan.diagnostics) == ("changes", ())


def test_a_hot_unpartitioned_table_waits_as_a_whole_with_a_note() -> None:
    plan = planned(written(state(*EAST, partitioned=False), 101)).plan
    assert plan.actions == ()
    assert [d.code for d in plan.diagnostics] == ["ZL415"]


def test_a_full_rewrite_waits_with_its_partitioning_while_one_partition_is_hot() -> None:
    spec = replace(SPEC, partition_by=(PartitionField("b"),))
    assert planned(written(state(*EAST, *WEST), 100, 101), spec=spec).plan.actions == ()
    assert planned(written(state(*EAST, *WEST), 100, 100), spec=spec).plan.partitioning is not None


def test_a_partitioning_that_rewrites_nothing_waits_only_with_the_whole_table() -> None:
    spec = replace(SPEC, partition_by=(PartitionField("b"),))
    some = planned(written(state(*EAST, *WEST), 100, 101), spec=spec, capabilities=ICEBERG).plan
    assert some.partitioning is not None
    assert {g.files for g in some.groups} == {4}
    assert planned(written(state(*EAST, *WEST), 101, 101), spec=spec, capabilities=ICEBERG).plan.actions == ()


def indices(groups: Sequence[Group]) -> list[list[int]]:
    return [group.index.tolist() for group in groups]


def test_groups_that_need_longer_bounds_wait_together() -> None:
    """A later run would not find those that wait: docs/adr/0004-cut-bounds.md."""
    observed = written(state(*EAST, *WEST, File(0, 9, "north")), 100, 101, 100)
    reasons = (Reason.BOUNDS_TRUNCATED, Reason.BOUNDS_TRUNCATED, Reason.NOT_LAID_OUT)
    by_region = (np.arange(4), np.arange(4, 7), np.array([7]))
    groups = tuple(Group(files, reason) for files, reason in zip(by_region, reasons, strict=True))
    regions = observed.files.partition
    assert [int(regions[group.index[0]]) for group in groups] == [0, 2, 1]  # east, west, north
    selection = FileSelection(groups, (), 0, 0)
    found = park(
        selection, replace(observed, last_written=np.array([100, 100, 101])), PlanOptions(hot_after=100), whole=False
    )
    assert found.groups == groups[2:]
    assert indices(found.that_wait(Wait.HOT)) == indices(groups[:2])
    only = park(
        selection, replace(observed, last_written=np.array([100, 101, 100])), PlanOptions(hot_after=100), whole=False
    )
    assert indices(only.that_wait(Wait.HOT)) == indices(groups[2:])


def test_the_last_write_to_a_partition_is_its_latest() -> None:
    found = maxima(np.array([0, 2, 2, 0]), 4, np.array([5, 9, 7, 3]))
    assert found.tolist() == [5, 0, 9, 0]
