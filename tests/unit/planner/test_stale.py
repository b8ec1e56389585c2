"""When a saved plan may no longer be applied: each reason by itself."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from unit.planner.plans import DELTA, SPEC, File, state

from zlayout.errors import Location
from zlayout.planner.diff import decide
from zlayout.planner.model import ChangePartitioning, PropertyChange, PropertyReason, RewriteGroup
from zlayout.planner.work import PlanOptions
from zlayout.session.plan_file import Staleness, staleness
from zlayout.spec.model import LayoutSpec, ZorderColumn
from zlayout.table.state import Column, FileTable, PartitionField, TableState

THEN = state(File(0, 9), File(0, 9))
APPENDED = state(File(0, 9), File(0, 9), File(5, 6), version=8)


def reasons(now: TableState, mode: Staleness = "compatible", spec: LayoutSpec = SPEC) -> list[str]:
    saved = decide(SPEC, THEN, DELTA).plan
    return [d.message.partition("stale: ")[2] for d in staleness(saved, decide(spec, THEN, DELTA), now, mode)]


def test_appends_are_fine_unless_strict() -> None:
    assert reasons(APPENDED) == []
    assert reasons(THEN, "strict") == []
    assert reasons(APPENDED, "strict") == ["expected table version 7, found 8"]


def test_a_plan_is_for_one_branch() -> None:
    audit, dev = (replace(SPEC, table=SPEC.table.on(name)) for name in ("audit", "dev"))
    assert reasons(THEN, spec=audit) == ["it is for branch main, and this run is for audit"]
    saved = decide(audit, THEN, DELTA).plan
    assert saved.requirements is not None
    assert (saved.table, saved.requirements.branch) == (f"{SPEC.table}@audit", "audit")
    assert staleness(saved, decide(audit, THEN, DELTA), THEN, "strict") == ()
    for other, name in ((SPEC, "main"), (dev, "dev")):
        (found,) = staleness(saved, decide(other, THEN, DELTA), THEN, "compatible")
        assert found.message.endswith(f"it is for branch audit, and this run is for {name}")


def without_first(files: FileTable) -> FileTable:
    return files.take(np.arange(1, len(files)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: replace(t, table_id="id-2"), "the table was dropped and created again"),
        (lambda t: replace(t, schema_digest="s2"), "the table's schema changed"),
        (lambda t: replace(t, partition_fields=(PartitionField("b"),)), "the table's partitioning changed"),
        (lambda t: replace(t, files=without_first(t.files)), "1 pinned file was changed or removed"),
        (
            lambda _: state(File(0, 9, deleted=1), File(0, 9), version=8),
            "1 pinned file was changed or removed",
        ),
    ],
)
def test_what_changed_is_said(change: Callable[[TableState], TableState], reason: str) -> None:
    assert reasons(change(APPENDED)) == [reason]


def test_deletes_do_not_make_a_plan_stale_that_can_be_rebased() -> None:
    again = decide(SPEC, THEN, DELTA)
    again = replace(again, plan=replace(again.plan, rebases=True))
    saved = again.plan
    deleted = state(File(0, 9, deleted=1), File(0, 9), version=8)
    assert staleness(saved, again, deleted, "compatible") == ()
    for now, reason in (
        (replace(deleted, files=without_first(deleted.files)), "1 pinned file was changed or removed"),
        (replace(deleted, schema_digest="s2"), "the table's schema changed"),
    ):
        (refusal,) = staleness(saved, again, now, "compatible")
        assert refusal.message.endswith(reason)
    (refusal,) = staleness(saved, again, deleted, "strict")
    assert refusal.message.endswith("expected table version 7, found 8")


def test_another_spec_is_said() -> None:
    layout = replace(SPEC.layout, columns=(ZorderColumn("a"),), target_size=SPEC.layout.target_size * 2)
    assert reasons(THEN, spec=replace(SPEC, layout=layout)) == ["the layout spec changed"]


def test_other_files_than_the_spec_selects_are_refused() -> None:
    saved = decide(SPEC, THEN, DELTA).plan
    forged = replace(saved, actions=tuple(replace(group, digest="0" * 64) for group in saved.groups))
    (refusal,) = staleness(forged, decide(SPEC, THEN, DELTA), THEN, "compatible")
    assert (refusal.code, refusal.severity) == ("ZL203", "refused")
    assert "selects other files now" in refusal.message


def test_properties_must_be_as_they_were() -> None:
    column = Column("a", THEN.columns[0].type, True, stats=False, enable_stats=(("stats.a", "full"),))
    then = replace(THEN, columns=(column, *THEN.columns[1:]))
    again = decide(SPEC, then, DELTA)
    assert again.plan.properties == (PropertyChange("stats.a", None, "full", PropertyReason.NO_STATISTICS, "a"),)
    now = replace(then, properties={"stats.a": "counts"})
    (refusal,) = staleness(again.plan, again, now, "compatible")
    assert "properties changed: stats.a" in refusal.message


def test_a_plan_without_requirements_is_refused() -> None:
    saved = replace(decide(SPEC, THEN, DELTA).plan, requirements=None)
    (refusal,) = staleness(saved, decide(SPEC, THEN, DELTA), THEN, "compatible")
    assert "expected requirements, found none" in refusal.message


def test_a_partitioning_is_the_same_on_another_line_or_from_another_folder() -> None:
    spec = replace(SPEC, partition_by=(PartitionField("b"),))
    allowed = PlanOptions(allow_full_rewrite=True)
    saved, again = decide(spec, THEN, DELTA, options=allowed).plan, decide(spec, THEN, DELTA, options=allowed)
    change, *groups = saved.actions
    assert isinstance(change, ChangePartitioning)
    assert all(isinstance(group, RewriteGroup) for group in groups)
    elsewhere = replace(saved, actions=(replace(change, location=Location("../layouts/t.yaml", 9)), *groups))
    assert staleness(elsewhere, again, THEN, "compatible") == ()
    other = replace(saved, actions=(replace(change, after=("a",)), *groups))
    (refusal,) = staleness(other, again, THEN, "compatible")
    assert "the plan would change other settings now" in refusal.message
