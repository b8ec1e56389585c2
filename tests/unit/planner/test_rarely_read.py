"""Decayed partitions that a workload rarely reads wait: which ones, for which reasons, and what the plan states."""

from dataclasses import replace

import numpy as np
import pytest
from unit.planner.plans import DELTA, SPEC, TARGET, File, state

from zlayout.planner.diff import decide
from zlayout.planner.model import Measure, Reason, Wait
from zlayout.planner.passes.rarely_read import again, least_read, unread_notes
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.spec.model import LayoutSpec, Tolerance
from zlayout.table.state import TableState

WAITING = replace(SPEC, tolerance=Tolerance(rarely_read=0.01))
RARELY: frozenset[str | int] = frozenset({"region=west"})


def decayed(region: str, appended: int = 4) -> list[File]:
    """Four files that one rewrite laid out, and larger ones that span the keys."""
    laid_out = [File(250 * n, 250 * n + 249, region, layout=0, group=0) for n in range(4)]
    return [*laid_out, *[File(0, 999, region) for _ in range(appended)]]


def planned(
    observed: TableState,
    rarely: frozenset[str | int] = RARELY,
    spec: LayoutSpec = WAITING,
    budget: int | None = None,
    hot_after: int | None = None,
) -> PlannedTable:
    options = PlanOptions(max_rewrite_bytes=budget, hot_after=hot_after, rarely_read=rarely)
    return decide(spec, observed, DELTA, options=options)


def regions(decision: PlannedTable) -> list[str]:
    return [group.partition for group in decision.plan.groups]


def test_a_decayed_partition_waits_and_the_plan_says_so() -> None:
    decision = planned(state(*decayed("east"), *decayed("west")))
    assert regions(decision) == ["region=east"]
    waiting = decision.plan.that_wait(Wait.RARELY_READ)
    assert (waiting.groups, waiting.partition_numbers) == (1, (2,))
    assert (waiting.files, waiting.bytes) == (8, 8 * TARGET)
    assert again(PlanOptions(), waiting, decision.state).rarely_read == RARELY
    assert [d.code for d in decision.plan.diagnostics] == ["ZL416"]
    assert decision.plan.diagnostics[0].message == (
        "decay of 1 partition is tolerated: 8 files of 8,000 bytes wait, because the queries of the workload "
        "rarely read them"
    )


def test_a_number_of_the_plan_document_names_the_same_partition() -> None:
    observed = state(*decayed("east"), *decayed("west"))
    assert planned(observed, frozenset({2})).plan == planned(observed).plan


def test_a_table_of_which_everything_waits_is_unchanged_and_within_its_tolerances() -> None:
    plan = planned(state(*decayed("west"))).plan
    assert (plan.status, plan.actions, plan.as_declared) == ("unchanged", (), True)
    assert plan.that_wait(Wait.RARELY_READ) is not None
    assert not [measure for measure in plan.decay if measure.exceeded]


def test_decay_is_that_of_the_partitions_that_do_not_wait() -> None:
    both = planned(state(*decayed("east"), *decayed("west", appended=40))).plan
    alone = planned(state(*decayed("east"))).plan
    assert both.decay == alone.decay
    assert [m.partitions for m in both.decay if m.measure is Measure.TOUCHED] == [1]


def test_what_a_run_left_is_not_accepted_while_partitions_wait() -> None:
    """They would count as settled, and would not be found when queries read them."""
    decision = planned(state(*decayed("east"), *decayed("west")))
    assert decision.plan.waiting
    assert decision.accepts == ""
    assert planned(state(*decayed("east"))).plan.waiting == ()


def test_a_new_partition_waits_only_in_a_table_with_a_layout() -> None:
    new = [File(0, 999, "west")] * 3
    assert regions(planned(state(*decayed("east"), *new))) == ["region=east"]
    first = planned(state(*[File(0, 999, "east")] * 3, *new))
    assert regions(first) == ["region=east", "region=west"]
    assert first.plan.that_wait(Wait.RARELY_READ) is None


def test_drift_does_not_wait() -> None:
    outdated = [replace(file, layout=1) for file in decayed("west")[:4]]
    assert regions(planned(state(*decayed("east"), *outdated))) == ["region=east", "region=west"]


@pytest.mark.parametrize("laid_out", [True, False])
@pytest.mark.parametrize(("deleted", "waits"), [(5, True), (60, False)])
def test_deleted_rows_above_the_tolerance_do_not_wait(deleted: int, waits: bool, laid_out: bool) -> None:
    west = decayed("west") if laid_out else [File(0, 999, "west")] * 3
    found = planned(state(*decayed("east"), *[replace(file, deleted=deleted) for file in west]))
    assert regions(found) == ["region=east", "region=west"][: 1 if waits else 2]


def test_small_files_wait_in_a_layout_without_order() -> None:
    compaction = replace(WAITING, layout=replace(SPEC.layout, columns=(), curve="linear"))
    small = [File(0, 999, region, bytes=TARGET // 10) for region in ("east", "west") for _ in range(9)]
    decision = planned(state(*small), spec=compaction)
    assert regions(decision) == ["region=east"]
    assert decision.plan.that_wait(Wait.RARELY_READ).files == 9


def test_no_budget_is_spent_on_what_waits() -> None:
    observed = state(*decayed("east"), *decayed("west"))
    plan = planned(observed, budget=8 * TARGET).plan
    assert [g.partition for g in plan.groups] == ["region=east"]
    assert plan.that_wait(Wait.BUDGET) is None
    assert planned(state(*decayed("west")), budget=1).plan.status == "unchanged"


def test_what_is_rarely_read_is_not_hot() -> None:
    observed = replace(state(*decayed("east"), *decayed("west")), last_written=np.array([101, 101], np.int64))
    plan = planned(observed, hot_after=100).plan
    assert (
        len(plan.that_wait(Wait.HOT).partition_numbers),
        len(plan.that_wait(Wait.RARELY_READ).partition_numbers),
    ) == (1, 1)
    assert plan.that_wait(Wait.RARELY_READ).partition_numbers == (2,)


@pytest.mark.parametrize(
    ("executions", "more", "noted"),
    [
        ({"region=east": 0, "region=west": 0}, 0, True),
        ({"region=east": 3, "region=west": 0}, 1, True),
        ({"region=east": 3, "region=west": 0}, 0, False),  # half of the bytes
        ({"region=east": 3, "region=west": 1}, 1, False),
        ({"region=east": 3}, 1, False),  # it is unknown how often west is read
    ],
)
def test_a_plan_notes_that_most_of_its_bytes_are_never_read(
    executions: dict[str, float], more: int, noted: bool
) -> None:
    plan = planned(state(*decayed("east"), *decayed("west", appended=4 + more)), frozenset(), SPEC).plan
    assert [d.code for d in unread_notes(SPEC, plan.groups, executions)] == ["ZL417"] * noted
    assert list(unread_notes(WAITING, plan.groups, executions)) == []
    drift = tuple(replace(group, reason=Reason.LAYOUT_CHANGED) for group in plan.groups)
    assert list(unread_notes(SPEC, drift, executions)) == []


@pytest.mark.parametrize(
    ("allowed", "chosen"),
    [(0.0, {"c", "d"}), (0.9, {"c", "d"}), (1.0, {"b", "c", "d"}), (2.0, {"b", "c", "d"}), (4.0, {"a", "b", "c", "d"})],
)
def test_those_that_are_read_least_are_chosen_while_their_sum_is_allowed(allowed: float, chosen: set[str]) -> None:
    assert least_read({"a": 3.0, "b": 1.0, "c": 0.0, "d": 0.0}, allowed) == chosen


def test_partitions_that_are_read_equally_often_are_chosen_by_name() -> None:
    """So that the next plan chooses the same, whatever the order of the files."""
    assert least_read({"b": 1.0, "a": 1.0, "c": 1.0}, 2.0) == {"a", "b"}


def test_what_was_chosen_is_chosen_again_when_everything_else_was_rewritten() -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        reads = {f"p{n}": float(random.integers(0, 5)) for n in range(12)}
        chosen = least_read(reads, 6.0)
        assert least_read({name: reads[name] for name in chosen}, 6.0) == chosen
