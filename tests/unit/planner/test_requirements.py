"""Each requirement, met and violated, and the error that a violation ends in."""

from dataclasses import replace
from typing import Any

import pytest
from support.builders import make_work
from unit.planner.plans import DELTA, SPEC, File, state

from zlayout.errors import CommitConflict
from zlayout.formats.kernel.requirements import require_location
from zlayout.planner.diff import decide
from zlayout.planner.model import Requirements
from zlayout.planner.work import PlannedTable
from zlayout.session.plan_file import staleness
from zlayout.table.state import PartitionField, TableState

THEN = state(File(0, 9), File(0, 9))
NAMED = replace(THEN, from_catalog=True, clustering=())


def required(decision: PlannedTable) -> Requirements:
    assert decision.plan.requirements is not None
    return decision.plan.requirements


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"table_id": "id-2"}, "the table was dropped and created again"),
        ({"schema": "s2"}, "the table's schema changed"),
        ({"layout_id": "another"}, "the layout spec changed"),
        ({"partitioning": ("b",)}, "the table's partitioning changed"),
        ({"clustering": ("a",)}, "the table's clustering columns changed"),
        ({"location": "/other"}, "the catalog leads to another location"),
        ({"branch": "dev"}, "it is for branch dev, and this run is for main"),
        # a plan from before the table was named in a catalog, or was clustered
        ({"location": None}, "the layout spec selects other files now"),
        ({"clustering": None}, "the layout spec selects other files now"),
    ],
)
def test_a_saved_plan_with_another_requirement_is_refused(changed: dict[str, Any], reason: str) -> None:
    decision = decide(SPEC, NAMED, DELTA)
    saved = replace(decision.plan, requirements=replace(required(decision), **changed))
    assert staleness(decision.plan, decision, NAMED, "strict") == ()
    (refusal,) = staleness(saved, decision, NAMED, "compatible")
    assert (refusal.code, refusal.severity) == ("ZL203", "refused")
    assert refusal.message.endswith(f"stale: {reason}")


@pytest.mark.parametrize("changed", [{"digest": "0" * 64}, {"digest": ""}, {"id": "another"}])
def test_a_saved_plan_of_other_files_is_refused(changed: dict[str, str]) -> None:
    decision = decide(SPEC, THEN, DELTA)
    (group,) = decision.plan.groups
    for actions in ((), (replace(group, **changed),), (group, replace(group, id="another"))):
        (refusal,) = staleness(replace(decision.plan, actions=actions), decision, THEN, "compatible")
        assert refusal.message.endswith("stale: the layout spec selects other files now")


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (replace(NAMED, version=8), "expected table version 7, found 8"),
        (replace(NAMED, clustering=("a",)), "the table's clustering columns changed"),
        (replace(NAMED, location="/other"), "the catalog leads to another location"),
    ],
)
def test_another_table_is_refused(now: TableState, reason: str) -> None:
    decision = decide(SPEC, NAMED, DELTA)
    (refusal,) = staleness(decision.plan, decision, now, "strict")
    assert refusal.message.endswith(f"stale: {reason}")


def test_the_location_of_a_table_by_name_is_checked_before_it_is_changed() -> None:
    work = decide(SPEC, NAMED, DELTA)
    require_location(work, f"{NAMED.location}/")
    with pytest.raises(CommitConflict, match=f"ZL320 .* expected the table at {NAMED.location}, found /other"):
        require_location(work, "/other")
    require_location(decide(SPEC, THEN, DELTA), "/other")  # the layout spec states the location


def test_settings_that_another_writer_changed_are_a_conflict() -> None:
    """Only settings that the plan changes are compared, and they may already have the new values."""
    sets = make_work(SPEC.layout, partitioning=("a",), properties=(("p", "2"),))
    moves = make_work(SPEC.layout, partitioning=("a",), partition_by=(PartitionField("b"),))
    with pytest.raises(CommitConflict, match=r"ZL320 .* has p = 1 since the plan"):
        sets.require_planned({"p": "1"}, (PartitionField("c"),))
    with pytest.raises(CommitConflict, match=r"ZL320 .* is partitioned by c since the plan"):
        moves.require_planned({"p": "1"}, (PartitionField("c"),))
    sets.require_planned({"p": "2"}, (PartitionField("c"),))
    sets.require_planned({}, (PartitionField("c"),))
    moves.require_planned({"p": "1"}, (PartitionField("b"),))
    moves.require_planned({"p": "1"}, (PartitionField("a"),))


def test_the_parts_of_a_work_after_the_first_change_no_settings() -> None:
    files = THEN.files
    groups = decide(replace(SPEC, max_group_size=1000), THEN, DELTA).groups
    assert len(groups) == 2
    whole = make_work(SPEC.layout, properties=(("p", "2"),), groups=groups, covers_table=True)
    first, second = whole.in_parts(int(files.bytes.sum()) // 2)
    with pytest.raises(CommitConflict):
        first.require_planned({"p": "1"}, ())
    second.require_planned({"p": "1"}, ())
