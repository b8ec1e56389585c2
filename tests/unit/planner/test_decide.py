"""The planner on hand-made states: which files, and why."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.builders import layout_record
from unit.planner.plans import DELTA, LAYOUT, SPEC, TARGET, File, state

from zlayout.errors import Diagnostic
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.planner.diff import PlannedTable, PlanOptions, decide
from zlayout.planner.model import (
    ChangePartitioning,
    Plan,
    PropertyChange,
    PropertyReason,
    Reason,
    Requirements,
    RewriteGroup,
    SetProperties,
    TablePlan,
    Wait,
)
from zlayout.planner.proposal import digests_of
from zlayout.planner.work import Capabilities
from zlayout.predicate.model import Compare
from zlayout.report.findings import findings
from zlayout.report.text import TextOptions, render
from zlayout.report.words import rewrite_text
from zlayout.spec.model import ZorderColumn
from zlayout.table.state import Column, ColumnBounds, Partition, PartitionField, TableState

ICEBERG = replace(DELTA, format="iceberg", partition_evolution=True)


def reasons(decision: PlannedTable) -> dict[str, Reason]:
    return {g.partition: g.reason for g in decision.plan.groups}


def done(low: int, high: int, region: str = "east", group: int = 0, **more: int) -> File:
    return File(low, high, region, layout=0, group=group, **more)


def test_a_plan_is_its_actions_in_order_and_what_they_require() -> None:
    """Statistics are missing, the partitioning changes, and files of two partitions move to it as one group."""
    files = state(File(0, 9, "east"), File(5, 20, "west"), done(30, 40, "west"))
    column = replace(files.columns[0], stats=False, enable_stats=(("stats.a", "full"),))
    observed = replace(files, columns=(column, *files.columns[1:]), properties={"stats.a": "none"})
    spec = replace(SPEC, partition_by=(PartitionField("b"),))
    decision = decide(spec, observed, ICEBERG)
    set_properties, change, group = decision.plan.actions
    assert set_properties == SetProperties(
        (PropertyChange("stats.a", "none", "full", PropertyReason.NO_STATISTICS, "a"),)
    )
    assert change == ChangePartitioning(
        ("region",), ("b",), full_rewrite=False, location=spec.location_of("partition_by")
    )
    assert isinstance(group, RewriteGroup)
    assert (group.files, group.partitions, group.rows, group.bytes) == (3, 2, 300, 3 * TARGET)
    assert (group.target_files, group.reason) == (3, Reason.PARTITIONING_CHANGED)
    (digest,) = digests_of([observed.files])
    assert decision.plan.requirements == Requirements(
        "id-1", 7, "s1", spec.layout.layout_id, ("region",), None, None, ""
    )
    assert group.digest == digest
    assert decision.partition_by == (PartitionField("b"),)
    assert [len(g.files) for g in decision.groups] == [3]


def test_an_unchanged_table_has_no_actions() -> None:
    plan = decide(SPEC, state(done(0, 9), done(0, 9)), DELTA).plan
    assert (plan.status, plan.actions, plan.that_wait(Wait.BUDGET)) == ("unchanged", (), None)
    assert plan.requirements == Requirements("id-1", 7, "s1", SPEC.layout.layout_id, ("region",), None, None, "")


def test_a_spec_that_does_not_fit_the_table_is_an_error_without_actions() -> None:
    spec = replace(SPEC, layout=replace(LAYOUT, columns=(ZorderColumn("gone"),)))
    plan = decide(spec, state(File(0, 9)), DELTA).plan
    assert (plan.status, plan.actions, plan.requirements) == ("error", (), None)


def test_all_laid_out_by_one_rewrite_is_done_however_it_overlaps() -> None:
    decision = decide(SPEC, state(done(0, 9), done(0, 9), done(0, 9)), DELTA)
    assert decision.plan.status == "unchanged"
    assert decision.groups == ()


def test_partitions_are_chosen_apart() -> None:
    decision = decide(SPEC, state(done(0, 4), done(5, 9), File(0, 9, "west"), File(0, 9, "west")), DELTA)
    assert reasons(decision) == {"region=west": Reason.PARTITION_NOT_LAID_OUT}
    assert decision.groups[0].files.path.to_pylist() == ["f2", "f3"]
    assert decision.plan.groups[0].bytes == 2 * TARGET


def test_a_new_partition_of_a_table_with_a_layout_is_decay_and_no_first_layout() -> None:
    observed = state(done(0, 4), done(5, 9), File(0, 9, "west"), File(0, 9, "west"))
    plan = decide(SPEC, observed, DELTA).plan
    assert not plan.is_first
    assert next((d.measure, d.value, d.exceeded) for d in plan.decay) == ("unclustered", 1.0, True)
    shown = render(Plan("0", (plan,)))
    assert "first layout" not in shown
    assert "because         partition not laid out yet" in shown
    assert [f.rule for f in findings(Plan("0", (plan,)))] == ["layout-decay"]
    east = state(*(File(0, 9, "east", layout=1, group=0) for _ in range(2)), File(0, 9, "west"), File(0, 9, "west"))
    assert reasons(decide(SPEC, east, DELTA))["region=west"] is Reason.PARTITION_NOT_LAID_OUT


def test_another_layout_takes_every_file_that_has_it() -> None:
    decision = decide(SPEC, state(File(0, 9, layout=1, group=0), done(20, 24, group=1), File(0, 9)), DELTA)
    assert reasons(decision) == {"region=east": Reason.LAYOUT_CHANGED}
    assert decision.groups[0].files.path.to_pylist() == ["f0", "f2"]
    assert [(d.key, d.before, d.after) for d in decision.plan.drift] == [("zorder.columns", ["b"], ["a"])]


def test_the_first_layout_is_a_change_and_no_drift() -> None:
    observed = state(File(0, 9), File(0, 9))
    plan = decide(SPEC, replace(observed, files=replace(observed.files, layouts=())), DELTA).plan
    assert (plan.status, plan.drift, plan.is_first) == ("changes", (), True)


@pytest.mark.parametrize(("share", "status"), [(11, "unchanged"), (12, "changes")])
def test_unclustered_rows_count_past_their_tolerance(share: int, status: str) -> None:
    # 11 of 111 rows are 9.9 %, 12 of 112 are 10.7 %. Far apart, so that nothing else can exceed its tolerance.
    base = [done(n, n, rows=50) for n in range(2)]
    decision = decide(SPEC, state(*base, File(1000, 1000, rows=share)), DELTA)
    assert decision.plan.status == status
    assert [d.measure for d in decision.plan.decay if d.exceeded] == (["unclustered"] if share > 11 else [])


def test_small_files_count_past_their_tolerance() -> None:
    base = [done(10 * n, 10 * n + 9, rows=1000) for n in range(6)]
    small = [File(1000 + n, 1000 + n, rows=1, bytes=TARGET // 4) for n in range(2)]
    assert decide(SPEC, state(*base, *small), DELTA).plan.status == "changes"
    assert decide(SPEC, state(*base, small[0]), DELTA).plan.status == "unchanged"


def test_overlap_of_two_rewrites_counts_past_its_tolerance() -> None:
    apart = [done(10 * n, 10 * n + 9, group=n % 2) for n in range(8)]
    assert decide(SPEC, state(*apart), DELTA).plan.status == "unchanged"
    over = [done(20 * (n // 2), 20 * (n // 2) + 19, group=n % 2) for n in range(8)]
    decision = decide(SPEC, state(*over), DELTA)
    assert reasons(decision) == {"region=east": Reason.DECAYED}
    assert [d.measure for d in decision.plan.decay if d.exceeded] == ["touched"]


def test_deleted_rows_count_past_their_tolerance_even_in_one_file() -> None:
    assert decide(SPEC, state(done(0, 9, deleted=10)), DELTA).plan.status == "unchanged"
    assert reasons(decide(SPEC, state(done(0, 9, deleted=11)), DELTA)) == {"region=east": Reason.DELETED_ROWS}


def test_a_single_file_is_left_alone_unless_it_is_far_too_large() -> None:
    assert decide(SPEC, state(File(0, 9)), DELTA).plan.status == "unchanged"
    decision = decide(SPEC, state(File(0, 9, bytes=4 * TARGET)), DELTA)
    assert decision.plan.groups[0].target_files == 4
    # The record says that it was tried: one key, or the target cannot be met.
    assert decide(SPEC, state(done(0, 9, bytes=4 * TARGET)), DELTA).plan.status == "unchanged"


def test_target_files_follow_the_live_rows() -> None:
    files = [File(0, 9, rows=100, deleted=50) for _ in range(8)]
    assert decide(SPEC, state(*files), DELTA).plan.groups[0].target_files == 4


@pytest.mark.parametrize(("engine", "can_rebase"), [("zlayout", True), ("zlayout", False), ("native", True)])
def test_the_plan_of_a_rewrite_says_whether_it_can_be_rebased(engine: str, can_rebase: bool) -> None:
    spec = replace(SPEC, layout=replace(LAYOUT, engine=engine, curve="zorder"))
    plan = decide(spec, replace(state(File(0, 4), File(2, 9)), can_rebase=can_rebase), DELTA).plan
    assert plan.rebases is (engine == "zlayout" and can_rebase)
    text = "are deleted from the new files too" if plan.rebases else "is a conflict"
    assert text not in render(Plan("0.1.0", (plan,)))
    assert text in " ".join(render(Plan("0.1.0", (plan,)), TextOptions(verbose=True)).split())
    done = decide(SPEC, replace(state(File(0, 9)), can_rebase=True), DELTA).plan
    assert (done.status, done.rebases) == ("unchanged", None)


def test_where_limits_what_is_touched() -> None:
    spec = replace(SPEC, where=Compare("region", "=", "west"))
    files = [File(0, 9, r) for r in ("east", "east", "west", "west")]
    assert reasons(decide(spec, state(*files), DELTA)) == {"region=west": Reason.NOT_LAID_OUT}


def test_a_where_that_selects_nothing_is_a_warning_unless_it_is_intended() -> None:
    for region, intended, codes in (
        ("west", False, []),
        ("WEST", False, [("ZL443", "warning")]),
        ("WEST", True, [("ZL403", "note")]),
    ):
        spec = replace(SPEC, where=Compare("region", "=", region), where_may_be_empty=intended)
        plan = decide(spec, state(File(0, 9), File(0, 9, "west")), DELTA).plan
        assert (plan.status, [(d.code, d.severity) for d in plan.diagnostics]) == ("unchanged", codes)
        assert plan.as_declared == (region == "west" or intended)
    nothing = decide(replace(SPEC, where=Compare("region", "=", "x")), state(), DELTA).plan
    assert (nothing.diagnostics, nothing.as_declared) == ((), True)


def test_a_where_that_matches_partitions_only_in_part_selects_nothing_either() -> None:
    spec = replace(SPEC, partition_by=(PartitionField("b", "bucket[2]"),), where=Compare("b", "=", 7))
    files = replace(state(File(0, 9), File(0, 9)), partition_fields=(PartitionField("b", "bucket[2]"),))
    part = Partition(0, (PartitionField("b", "bucket[2]"),), (1,))
    files = replace(files, files=replace(files.files, partitions=(part,)))
    plan = decide(spec, files, ICEBERG).plan
    assert [d.code for d in plan.diagnostics] == ["ZL403", "ZL443"]
    assert plan.diagnostics[0].message == "1 partition matches `where` only in part, and is not changed"
    assert plan.selects_nothing


def test_new_partitioning_is_refused_on_delta_unless_allowed() -> None:
    spec = replace(SPEC, partition_by=())
    files = state(File(0, 4), done(5, 9, "west"))
    refused = decide(spec, files, DELTA)
    assert (refused.plan.status, refused.groups) == ("refused", ())
    assert [d.code for d in refused.plan.diagnostics] == ["ZL201"]
    allowed = decide(spec, files, DELTA, options=PlanOptions(allow_full_rewrite=True))
    assert allowed.plan.status == "changes"
    assert allowed.plan.partitioning.full_rewrite
    assert len(allowed.groups[0].files) == 2


def test_files_of_an_older_partitioning_are_one_group_on_iceberg() -> None:
    spec = replace(SPEC, partition_by=(PartitionField("b"),))
    decision = decide(spec, state(File(0, 4), done(5, 9, "west")), ICEBERG)
    assert decision.plan.status == "changes"
    assert [len(g.files) for g in decision.groups] == [2]
    assert decision.partition_by == (PartitionField("b"),)
    assert decision.covers_table


def test_files_of_an_older_partitioning_that_nobody_laid_out_are_a_first_layout() -> None:
    observed = state(File(0, 9), File(0, 9), File(0, 9, "west"))
    evolved = replace(observed, partition_fields=(PartitionField("b"),))
    plan = decide(SPEC, evolved, ICEBERG).plan
    assert (plan.status, plan.is_first, plan.partitioning) == ("changes", True, None)
    assert [c.predicted for c in plan.columns] == [None], "of partitions that there will not be"
    assert [(g.partition, g.partitions) for g in plan.groups] == [("region=east and 1 more", 2)]
    assert rewrite_text(plan).startswith("2 of 2 partitions, ")
    unpartitioned = replace(observed.files, partitions=(Partition(1, (), ()), *observed.files.partitions[1:]))
    plan = decide(SPEC, replace(evolved, files=unpartitioned), ICEBERG).plan
    assert [g.partition for g in plan.groups] == ["unpartitioned and 1 more"]
    laid = replace(state(done(0, 9), done(0, 9)), partition_fields=(PartitionField("b"),))
    assert set(reasons(decide(SPEC, laid, ICEBERG)).values()) == {Reason.PARTITIONING_CHANGED}


@pytest.mark.parametrize("capabilities", [DELTA, ICEBERG])
def test_partition_fields_in_another_order_are_the_same(capabilities: Capabilities) -> None:
    fields = (PartitionField("region"), PartitionField("b"))
    observed = state(done(0, 4), done(5, 9))
    partitions = tuple(replace(p, fields=fields, values=(*p.values, 1)) for p in observed.files.partitions)
    observed = replace(observed, partition_fields=fields, files=replace(observed.files, partitions=partitions))
    for declared in (fields, fields[::-1]):
        plan = decide(replace(SPEC, partition_by=declared), observed, capabilities).plan
        assert (plan.status, plan.partitioning) == ("unchanged", None)
    assert decide(replace(SPEC, partition_by=fields[:1]), observed, capabilities).plan.partitioning is not None


def test_a_layout_that_the_backend_refuses_is_refused_only_when_there_is_something_to_do() -> None:
    refusal = Diagnostic("ZL223", "no order for dates", "refused")
    decision = decide(SPEC, state(File(0, 9), File(0, 9)), DELTA, (refusal,))
    assert (decision.plan.status, decision.groups) == ("refused", ())
    assert decision.plan.diagnostics == (refusal,)
    satisfied = decide(SPEC, state(done(0, 4), done(5, 9)), DELTA, (refusal,)).plan
    assert (satisfied.status, satisfied.diagnostics) == ("unchanged", ())


def test_a_table_that_must_not_be_rewritten_is_refused_only_when_there_is_something_to_do() -> None:
    refusal = Diagnostic("ZL213", "an unknown feature", "refused")
    todo = replace(state(File(0, 9), File(0, 9)), refusals=(refusal,))
    decision = decide(SPEC, todo, DELTA)
    assert (decision.plan.status, decision.groups) == ("refused", ())
    assert refusal in decision.plan.diagnostics
    satisfied = replace(state(done(0, 4), done(5, 9)), refusals=(refusal,))
    assert decide(SPEC, satisfied, DELTA).plan.status == "unchanged"


def test_missing_statistics_become_a_settings_change() -> None:
    column = Column("a", state(File(0, 9)).columns[0].type, True, stats=False, enable_stats=(("stats.a", "full"),))
    observed: TableState = replace(state(done(0, 4), done(5, 9)), columns=(column,))
    decision = decide(SPEC, observed, DELTA)
    assert [(p.name, p.before, p.after) for p in decision.plan.properties] == [("stats.a", None, "full")]
    assert decision.plan.status == "changes"


TWO = replace(SPEC, layout=replace(LAYOUT, columns=(ZorderColumn("a"), ZorderColumn("b"))))


def beside(nulls: int, **column: Any) -> TablePlan:
    """The plan of eight files by `a` and `b`, where `b` has no bounds; nulls: in each file, -1 unknown."""
    observed = state(*(File(0, 999) for _ in range(8)))
    none = ColumnBounds(pa.nulls(8, pa.int64()), pa.nulls(8, pa.int64()), np.full(8, nulls), np.zeros(8, bool))
    files = replace(observed.files, bounds={**observed.files.bounds, "b": none})
    columns = (observed.columns[0], Column("b", pa.int64(), True, **column))
    return decide(TWO, replace(observed, files=files, columns=columns), DELTA).plan


def test_a_column_of_nulls_touches_no_file_before_or_after() -> None:
    one, nulls = beside(nulls=100).columns
    assert (nulls.touched, nulls.low, nulls.high) == (0, 0, 0)
    assert (one.predicted, one.low, one.high) == (None, 1, 8)


def test_a_column_that_never_has_bounds_touches_every_file_before_and_after() -> None:
    never = beside(nulls=-1, stats=False).columns[1]
    assert (never.touched, never.low, never.high) == (8, 1, 8)
    soon = beside(nulls=-1, stats=False, enable_stats=(("stats.b", "full"),)).columns[1]
    assert (soon.predicted, soon.low, soon.high) == (None, 0, 8), "it may be null in every row"


def test_a_work_order_says_whether_it_covers_the_table() -> None:
    decision = decide(SPEC, state(File(0, 9), File(0, 9), done(0, 4, "west")), DELTA)
    assert not decision.covers_table
    assert decision.layout is LAYOUT


def test_a_work_order_with_where_never_covers_the_table() -> None:
    spec = replace(SPEC, where=Compare("region", "=", "east"))
    decision = decide(spec, state(File(0, 9), File(0, 9)), DELTA)
    assert len(decision.groups[0].files) == decision.plan.files
    assert not decision.covers_table


def test_group_ids_do_not_depend_on_the_order_of_files() -> None:
    one = decide(SPEC, state(File(0, 9), File(1, 9)), DELTA)
    files = state(File(0, 9), File(1, 9))
    turned = replace(files, files=files.files.take(np.array([1, 0])))
    assert decide(SPEC, turned, DELTA).groups[0].id == one.groups[0].id


@pytest.mark.parametrize(
    ("curve", "weight", "notes"),
    [
        ("kd", 1.0, ["zorder.range_ids has no effect: kd uses no range ids"]),
        ("zorder", 1.0, ["zorder.range_ids has no effect: zorder with one column uses no range ids"]),
        (
            "kd",
            3.0,
            [
                "zorder.range_ids has no effect: kd uses no range ids",
                "zorder.columns has no effect: one column ignores weights",
            ],
        ),
    ],
)
def test_settings_without_effect_are_told(curve: str, weight: float, notes: list[str]) -> None:
    layout = replace(LAYOUT, curve=curve, columns=(ZorderColumn("a", weight),))
    spec = replace(SPEC, layout=layout, locations={"zorder.range_ids": SPEC.location})
    told = [d.message for d in decide(spec, state(File(0, 9)), DELTA).plan.diagnostics if d.code == "ZL404"]
    assert told == notes


@pytest.mark.parametrize(
    ("engine", "curve", "columns", "predicted"),
    [
        ("zlayout", "zorder", "ab", True),
        ("native", "zorder", "ab", False),
        ("native", "hilbert", "ab", False),
        ("native", "linear", "ab", True),
        ("native", "zorder", "a", False),
    ],
)
def test_what_interleaved_bytes_leave_is_not_predicted(engine: str, curve: str, columns: str, predicted: bool) -> None:
    layout = replace(LAYOUT, engine=engine, curve=curve, columns=tuple(map(ZorderColumn, columns)))
    table = state(File(0, 9))
    assert IcebergBackend.capabilities.can_predict(layout, table) == predicted
    assert DeltaBackend.capabilities.can_predict(layout, table)
    clustered = DeltaBackend.capabilities.can_predict(layout, replace(table, clustering=("a",)))
    assert clustered == (curve == "hilbert" or len(columns) == 1)


@pytest.mark.parametrize(
    ("curve", "backend", "noted"),
    [
        ("zorder", IcebergBackend, True),
        ("linear", IcebergBackend, False),
        ("zorder", DeltaBackend, False),
    ],
)
def test_a_plan_that_has_no_forecast_states_why(curve: str, backend: Any, noted: bool) -> None:
    spec = replace(SPEC, layout=replace(LAYOUT, engine="native", curve=curve))
    plan = decide(spec, state(File(0, 9), File(0, 9)), backend.capabilities).plan
    assert plan.status == "changes"
    assert ("ZL413" in [d.code for d in plan.diagnostics]) == noted


@pytest.mark.parametrize(
    ("size", "status"), [(750, "unchanged"), (1250, "unchanged"), (740, "changes"), (1260, "changes")]
)
def test_a_target_size_within_a_quarter_of_the_recorded_one_is_no_drift(size: int, status: str) -> None:
    spec = replace(SPEC, layout=replace(LAYOUT, target_size=size))
    assert spec.layout.layout_id != LAYOUT.layout_id
    plan = decide(spec, state(done(0, 4), done(5, 9)), DELTA).plan
    assert (plan.status, [(d.key, d.before, d.after) for d in plan.drift]) == (
        status,
        [("files.target_size", TARGET, size)] if status == "changes" else [],
    )


def test_files_of_both_target_sizes_are_one_layout_and_other_settings_still_count() -> None:
    spec = replace(SPEC, layout=replace(LAYOUT, target_size=1200))
    mixed = state(done(0, 4), done(5, 9), File(10, 14, layout=1, group=1), File(15, 19, layout=1, group=1))
    mixed = replace(mixed, files=replace(mixed.files, layouts=(mixed.files.layouts[0], layout_record(spec.layout))))
    assert decide(spec, mixed, DELTA).plan.status == "unchanged"
    other = replace(spec, layout=replace(spec.layout, sort_within=not LAYOUT.sort_within))
    assert {d.key for d in decide(other, mixed, DELTA).plan.drift} == {"files.sort_within", "files.target_size"}


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_a_move_is_a_first_layout_only_if_the_table_has_no_layout_record(engine: str) -> None:
    where, fields = Compare("region", "=", "east"), (PartitionField("region"), PartitionField("b"))
    spec = replace(SPEC, layout=replace(LAYOUT, engine=engine), where=where, partition_by=fields)
    for marks, reason in (({}, Reason.NOT_LAID_OUT), ({"layout": 0, "group": 0}, Reason.PARTITIONING_CHANGED)):
        found = decide(spec, state(File(0, 9), File(0, 9, "west", **marks)), ICEBERG)
        assert reasons(found) == {"region=east": reason}
