"""Each kind of requirement, met and violated, and the error that a violation ends in."""

from dataclasses import replace

import pytest
from support.builders import make_work
from unit.planner.plans import DELTA, SPEC, File, state

from zlayout.errors import CommitConflict
from zlayout.planner.actions import (
    BranchIs,
    FilesAre,
    LayoutIs,
    Observed,
    PartitioningIs,
    PropertyIs,
    Requirement,
    SchemaIs,
    TableIs,
    VersionIs,
    violated,
)
from zlayout.planner.diff import decide
from zlayout.planner.stale import staleness
from zlayout.table.state import PartitionField

FACTS = Observed("t", 7, "s", "l", ("a", "b"), {"p": "1"}, {"g": "d"}, branch="audit")
MET: list[Requirement] = [
    TableIs("t"),
    BranchIs("audit"),
    VersionIs(7),
    SchemaIs("s"),
    LayoutIs("l"),
    PartitioningIs(("a", "b")),
    PropertyIs("p", "1"),
    PropertyIs("q", None),
    FilesAre("g", "d"),
]
VIOLATED: list[Requirement] = [
    TableIs("u"),
    BranchIs("dev"),
    VersionIs(8),
    SchemaIs("t"),
    LayoutIs("m"),
    PartitioningIs(("b", "a")),
    PropertyIs("p", "2"),
    PropertyIs("p", None),
    PropertyIs("q", "1"),
    FilesAre("g", "e"),
    FilesAre("h", "d"),
]
THEN = state(File(0, 9), File(0, 9))


def test_what_holds_is_not_violated() -> None:
    assert violated(MET, FACTS) == ()


@pytest.mark.parametrize("requirement", VIOLATED, ids=repr)
def test_what_does_not_hold_is_violated(requirement: Requirement) -> None:
    assert violated([*MET, requirement], FACTS) == (requirement,)


@pytest.mark.parametrize("requirement", VIOLATED, ids=repr)
def test_unknown_facts_are_not_checked(requirement: Requirement) -> None:
    assert violated([requirement], Observed()) == ()


@pytest.mark.parametrize(
    ("requirement", "reached", "met"),
    [
        (PropertyIs("p", "0"), PropertyIs("p", "1"), True),
        (PropertyIs("p", "0"), PropertyIs("p", "2"), False),
        (PropertyIs("p", "0"), PropertyIs("q", None), False),
        (PartitioningIs(()), PartitioningIs(("a", "b")), True),
        (PartitioningIs(()), PartitioningIs(("a",)), False),
    ],
)
def test_a_change_that_is_already_made_meets_its_requirement(
    requirement: Requirement, reached: Requirement, met: bool
) -> None:
    assert (violated([requirement], FACTS, [reached]) == ()) is met


@pytest.mark.parametrize("kind", [TableIs, SchemaIs, LayoutIs, PartitioningIs, FilesAre])
def test_a_saved_plan_without_a_requirement_is_refused(kind: type[Requirement]) -> None:
    decision = decide(SPEC, THEN, DELTA)
    kept = tuple(r for r in decision.plan.requirements if not isinstance(r, kind))
    assert len(kept) < len(decision.plan.requirements)
    (refusal,) = staleness(replace(decision.plan, requirements=kept), decision, THEN, "compatible")
    assert (refusal.code, refusal.severity) == ("ZL203", "refused")


@pytest.mark.parametrize(
    "changed",
    [
        TableIs("id-2"),
        SchemaIs("s2"),
        LayoutIs("another"),
        PartitioningIs(("b",)),
        FilesAre("another", "0" * 64),
        PropertyIs("p", "1"),
    ],
    ids=repr,
)
def test_a_saved_plan_with_a_violated_requirement_is_refused(changed: Requirement) -> None:
    decision = decide(SPEC, THEN, DELTA)
    others = tuple(r for r in decision.plan.requirements if r.kind != changed.kind)
    saved = replace(decision.plan, requirements=(*others, changed))
    (refusal,) = staleness(saved, decision, THEN, "compatible")
    assert (refusal.code, refusal.severity) == ("ZL203", "refused")


def test_settings_that_another_writer_changed_are_a_conflict() -> None:
    """Only settings that the plan changes are compared, and they may already have the new values."""
    required = (PropertyIs("p", None), PartitioningIs(("a",)))
    sets = make_work(SPEC.layout, requirements=required, properties=(("p", "2"),))
    moves = make_work(SPEC.layout, requirements=required, partition_by=(PartitionField("b"),))
    with pytest.raises(CommitConflict, match=r"ZL320 .* has p = 1 since the plan"):
        sets.require_planned({"p": "1"}, (PartitionField("c"),))
    with pytest.raises(CommitConflict, match=r"ZL320 .* is partitioned by c since the plan"):
        moves.require_planned({"p": "1"}, (PartitionField("c"),))
    sets.require_planned({"p": "2"}, (PartitionField("c"),))
    moves.require_planned({"p": "1"}, (PartitionField("b"),))
    moves.require_planned({"p": "1"}, (PartitionField("a"),))


def test_the_parts_of_a_work_after_the_first_change_no_settings() -> None:
    files = THEN.files
    groups = decide(replace(SPEC, max_group_size=1000), THEN, DELTA).groups
    assert len(groups) == 2
    requirements, properties = (PropertyIs("p", None),), (("p", "2"),)
    whole = make_work(SPEC.layout, requirements=requirements, properties=properties, groups=groups, covers_table=True)
    first, second = whole.in_parts(int(files.bytes.sum()) // 2)
    with pytest.raises(CommitConflict):
        first.require_planned({"p": "1"}, ())
    second.require_planned({"p": "1"}, ())
