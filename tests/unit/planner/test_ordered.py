"""Tables with an external ordering: there is no drift if it is as declared, and decay is measured from the bounds."""

from dataclasses import replace

from unit.planner.plans import DELTA, SPEC, TARGET, File, state

from zlayout.planner.diff import decide, propose
from zlayout.planner.proposal import Proposal
from zlayout.planner.select import ordering_differences
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.spec.model import ZorderColumn
from zlayout.table.external import Ordering
from zlayout.table.state import TableState

LINEAR = replace(SPEC, layout=replace(SPEC.layout, curve="linear"))
BY_A = Ordering(("a",), "linear", "the table's sort order")
SORTED = [File(10 * n, 10 * n + 9) for n in range(8)]
MIXED = [File(0, 79) for _ in range(8)]


def by_others(*files: File, ordering: Ordering = BY_A) -> TableState:
    """Return a table without laid-out files that has the external ordering `ordering`."""
    plain = state(*files)
    return replace(plain, files=replace(plain.files, layouts=()), ordering=ordering)


def drift(decision: PlannedTable) -> list[tuple[str, object, object]]:
    return [(d.key, d.before, d.after) for d in decision.plan.drift]


def test_ordered_as_declared_and_by_measure_is_left_alone_with_a_note() -> None:
    decision = decide(LINEAR, by_others(*SORTED), DELTA)
    assert (decision.plan.status, decision.groups) == ("unchanged", ())
    assert [d.code for d in decision.plan.diagnostics] == ["ZL408"]
    assert [(c.touched, c.predicted) for c in decision.plan.columns] == [(1.0, None)]


def test_ordered_by_its_word_alone_is_decay_and_no_drift() -> None:
    decision = decide(LINEAR, by_others(*MIXED), DELTA)
    assert (decision.plan.status, drift(decision)) == ("changes", [])
    (measure,) = decision.plan.decay
    assert (measure.measure, measure.value, measure.partitions) == ("touched", 8.0, 1)


def test_one_partition_past_tolerance_is_rewritten_alone() -> None:
    # Layout records of one partition end the external ordering of the other, whose bounds are then enough.
    both = [*SORTED, *(replace(f, region="west") for f in MIXED)]
    decision = decide(LINEAR, by_others(*both), DELTA)
    assert [g.partition for g in decision.plan.groups] == ["region=west"]
    rewritten = [replace(f, region="west", layout=0, group=0) for f in SORTED]
    after = state(*SORTED, *rewritten)
    record = replace(after.files.layouts[0], layout_id=LINEAR.layout.layout_id)
    after = replace(after, files=replace(after.files, layouts=(record,)))
    assert decide(LINEAR, after, DELTA).plan.status == "unchanged"


def test_another_order_than_declared_is_drift_from_it() -> None:
    decision = decide(LINEAR, by_others(*SORTED, ordering=Ordering(("b", "a"), "linear", "")), DELTA)
    assert (decision.plan.status, drift(decision)) == ("changes", [("zorder.columns", ["b", "a"], ["a"])])


def test_another_curve_is_drift_unless_it_is_by_one_column() -> None:
    assert decide(SPEC, by_others(*SORTED, ordering=BY_A), DELTA).plan.status == "unchanged"
    both = replace(SPEC, layout=replace(SPEC.layout, columns=(ZorderColumn("a"), ZorderColumn("b"))))
    (found,) = ordering_differences(both, by_others(*SORTED, ordering=Ordering(("a", "b"), "linear", "")))
    assert (found.key, found.before, found.after) == ("zorder.curve", "linear", "kd")


def test_small_files_and_deleted_rows_count_as_in_tables_that_zlayout_laid_out() -> None:
    small = [replace(f, bytes=TARGET // 4) for f in SORTED]
    gone = [replace(f, deleted=30) for f in SORTED]
    for files, measure in ((small, "small_files"), (gone, "deleted_rows")):
        decision = decide(LINEAR, by_others(*files), DELTA)
        assert [d.measure for d in decision.plan.decay if d.exceeded] == [measure]
        assert decision.groups


def test_small_files_that_no_rewrite_would_mend_are_no_reason() -> None:
    (lone,) = [replace(f, bytes=TARGET // 4) for f in SORTED[:1]]
    plan = decide(LINEAR, by_others(lone), DELTA).plan
    assert (plan.status, plan.decay) == ("unchanged", ())


def test_a_budget_chooses_among_them_too() -> None:
    proposal = propose(LINEAR, by_others(*MIXED), DELTA, options=PlanOptions(max_rewrite_bytes=2 * TARGET))
    assert isinstance(proposal, Proposal)
    assert proposal.savings is not None
    assert max(group.bytes for group in proposal.selection.groups) <= 2 * TARGET
