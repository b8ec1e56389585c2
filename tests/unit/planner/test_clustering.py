"""The plan of a clustered table: the files that OPTIMIZE rewrites, and changes of its clustering columns."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import make_bounds, make_file_table, make_layout, make_spec, make_state
from unit.planner.plans import DELTA

from zlayout.errors import CommitConflict
from zlayout.planner import clustering
from zlayout.planner.clustering import rewritten_by_optimize, unclustered_hilbert, undo_refusals
from zlayout.planner.diff import decide, propose, settle
from zlayout.planner.document import from_json, to_json
from zlayout.planner.model import ChangeClustering, Plan, Reason, Wait
from zlayout.planner.work import PlanOptions
from zlayout.session.plan_file import staleness
from zlayout.spec.model import CLUSTERED_BY, LayoutSpec
from zlayout.table.state import Column, LayoutRecord, Partition, TableState, null_values

LAYOUT = make_layout("a", "b", curve="hilbert", engine="native", target_size=1000)
SPEC = make_spec(LAYOUT)
KIND = pa.int64()
COLUMNS = {0: ["a", "b"], 1: ["b", "a"], 2: ["c"], 3: []}  # 3: of another provider


@dataclass(frozen=True)
class File:
    by: int | None = None  # a key of COLUMNS
    cube: int = -1
    size: int = 100
    deleted: int = 0


def state(*files: File, columns: tuple[str, ...] | None = ("a", "b")) -> TableState:
    table = make_file_table(
        [100] * len(files),
        deleted=[f.deleted for f in files],
        bytes=[f.size for f in files],
        partitions=(Partition(0, (), ()),) if files else (),
        layout=[-1 if f.by is None else f.by for f in files],
        layouts=tuple(LayoutRecord("liquid", {CLUSTERED_BY: names}) for names in COLUMNS.values()),
        group=[f.cube for f in files],
        bounds=bounds_of(files),
    )
    return make_state(table, columns=tuple(Column(name, KIND, True) for name in "abcdef"), clustering=columns)


def bounds_of(files: Sequence[File]) -> dict[str, Any]:
    return {name: make_bounds([0] * len(files), [9] * len(files), KIND) for name in "abcdef"}


def selected(files: Sequence[File], columns: list[str], full: bool, large: int) -> set[int]:
    """Return the files that OPTIMIZE rewrites, as `ClusteringStrategy.applyMinZCube` of Delta selects them."""
    ordered = sorted(range(len(files)), key=lambda n: files[n].cube)  # unclustered files first
    same = [n for n in ordered if files[n].by is None or COLUMNS[files[n].by] == columns]
    others = [n for n in ordered if n not in same]
    cubes: dict[int, list[int]] = {}
    for n in same:
        if files[n].by is not None:
            cubes.setdefault(files[n].cube, []).append(n)
    small = [cube for cube in cubes.values() if sum(files[n].size for n in cube) < large]
    unclustered = [n for n in same if files[n].by is None]
    if full and others:
        return {*unclustered, *(n for cube in small for n in cube), *others}
    if not unclustered and len(small) <= 1:
        return set()
    return {*unclustered, *(n for cube in small for n in cube)}


@st.composite
def tables(draw: st.DrawFn) -> list[File]:
    """Files of a few ZCubes, each of which was clustered by one list of columns."""
    by = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3]), min_size=1, max_size=4))
    chosen = draw(st.lists(st.integers(-1, len(by) - 1), max_size=12))
    sizes = draw(st.lists(st.integers(1, 300), min_size=len(chosen), max_size=len(chosen)))
    return [File(None if n < 0 else by[n], n, size) for n, size in zip(chosen, sizes, strict=True)]


@given(tables())
def test_the_files_are_those_that_delta_selects(files: list[File]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clustering, "LARGE_CUBE", 400)
        full = any(file.by in (2, 3) for file in files)
        assert set(np.flatnonzero(rewritten_by_optimize(LAYOUT, state(*files))).tolist()) == selected(
            files, ["a", "b"], full, 400
        )


def plan_of(spec: LayoutSpec, table: TableState) -> Any:
    return decide(spec, table, DELTA).plan


def test_new_files_below_the_tolerance_are_left_alone() -> None:
    old = [File(0, 1) for _ in range(20)]
    assert plan_of(SPEC, state(*old, File())).status == "unchanged"
    (group,) = plan_of(SPEC, state(*old, File(), File(), File())).groups
    assert (group.files, group.reason) == (23, Reason.DECAYED)


def test_large_zcubes_are_no_part_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "LARGE_CUBE", 1000)
    (group,) = plan_of(SPEC, state(*[File(0, 1)] * 10, *[File(0, 2)] * 3, File(), File())).groups
    assert group.files == 5


def test_touched_alone_rewrites_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "LARGE_CUBE", 1000)
    plan = plan_of(SPEC, state(*[File(0, at // 10) for at in range(50)]))
    assert (plan.status, [measure.measure for measure in plan.decay]) == ("unchanged", [])


@pytest.mark.parametrize(("columns", "changes"), [(("a", "b"), False), (("b", "a"), False), (("a",), True)])
def test_other_clustering_columns_are_altered(columns: tuple[str, ...], changes: bool) -> None:
    table = state(*[File(0, 1)] * 3, columns=columns)
    plan = plan_of(SPEC, table)
    found = [action for action in plan.actions if isinstance(action, ChangeClustering)]
    assert [(one.before, one.after) for one in found] == ([(columns, ("a", "b"))] if changes else [])
    assert plan.drift == ()
    read = from_json(to_json(Plan("0", (plan,))), "plan.json").plan.tables[0]
    assert (read.actions, read.requirements) == (plan.actions, plan.requirements)


def test_files_of_other_columns_are_drift() -> None:
    plan = plan_of(SPEC, state(File(2, 1), File(2, 1), File(0, 2)))
    assert [(d.key, d.before, d.after) for d in plan.drift] == [("zorder.columns", ["c"], ["a", "b"])]
    assert [(group.reason, group.files) for group in plan.groups] == [(Reason.LAYOUT_CHANGED, 3)]


@pytest.mark.parametrize(
    ("then", "now", "stale"),
    [
        (("a", "b"), ("a", "b"), False),
        (("a", "b"), ("c",), True),
        (("a", "b"), None, True),
        (None, None, False),
        (None, (), False),
        (None, ("a", "b"), True),
    ],
)
def test_a_plan_is_stale_once_the_clustering_columns_have_changed(
    then: tuple[str, ...] | None, now: tuple[str, ...] | None, stale: bool
) -> None:
    table = state(File(), File(), columns=then)
    again = decide(SPEC, table, DELTA)
    found = staleness(again.plan, again, replace(table, clustering=now), "compatible")
    assert ["clustering columns changed" in reason.message for reason in found] == [True] * stale
    work = again
    with pytest.raises(CommitConflict, match=r"ZL320 .* is clustered by") if stale else nullcontext():
        work.require_planned(table.properties, table.partition_fields, now)


@pytest.mark.parametrize(
    ("has", "altered", "accepted"),
    [
        (("a",), False, True),  # as planned
        (("a", "b"), False, True),  # as declared: another run was faster
        (("c",), False, False),
        (None, False, False),
        (("a", "b"), True, True),
        (("a",), True, False),  # another writer changed them back
        (("c",), True, False),
    ],
)
def test_optimize_runs_only_with_the_planned_clustering_columns(
    has: tuple[str, ...] | None, altered: bool, accepted: bool
) -> None:
    """The plan changes the columns from (a) to (a, b)."""
    work = decide(SPEC, state(*[File(0, 1)] * 3, columns=("a",)), DELTA)
    with nullcontext() if accepted else pytest.raises(CommitConflict, match=r"ZL320 .* is clustered by"):
        work.require_clustering(has, altered=altered)


def test_other_columns_are_not_altered_without_budget_for_the_rewrite() -> None:
    """The first table uses up the budget."""
    first, second = state(*[File()] * 4), state(*[File(2, 1)] * 4, columns=("c",))
    options = PlanOptions(max_rewrite_bytes=500)
    plans = [d.plan for d in settle([propose(SPEC, t, DELTA, (), options) for t in (first, second)], 500)]
    assert [(len(plan.actions), plan.that_wait(Wait.BUDGET) is not None) for plan in plans] == [(1, False), (0, True)]


def test_other_columns_are_not_altered_while_the_files_must_not_be_rewritten() -> None:
    table = state(*[File(2, 1)] * 4, columns=("c",))
    table = replace(table, partition_refusals=(replace(null_values("c"), files=np.ones(4, bool)),))
    plan = decide(SPEC, table, DELTA, (), PlanOptions()).plan
    assert (plan.status, plan.actions) == ("refused", ())


@pytest.mark.parametrize(
    ("spec", "table", "text"),
    [
        (make_spec(make_layout("a", "b")), state(File(), File()), "excludes engine zlayout"),
        (make_spec(make_layout(engine="native", curve="linear")), state(File(size=1), File(size=1)), "no z-order"),
        (make_spec(make_layout(*"abcde", engine="native")), state(File(), File()), "which allows 4 columns"),
        (SPEC, state(File(), File(), columns=()), "excludes OPTIMIZE ZORDER BY"),
    ],
)
def test_what_clustering_excludes_is_refused(spec: LayoutSpec, table: TableState, text: str) -> None:
    plan = decide(spec, table, DELTA, (), PlanOptions()).plan
    assert plan.status == "refused"
    assert [(text in d.message, d.severity) for d in plan.diagnostics if d.code == "ZL211"] == [(True, "refused")]


@pytest.mark.parametrize(("columns", "refused"), [(("a", "b"), True), ((), False), (None, False)])
def test_no_run_of_a_clustered_table_is_rolled_back(columns: tuple[str, ...] | None, refused: bool) -> None:
    found = [(d.code, d.severity, "a rollback" in d.message) for d in undo_refusals(state(File(), columns=columns))]
    assert found == [("ZL211", "refused", True)] * refused


@pytest.mark.parametrize(("columns", "codes"), [(("a", "b"), []), ((), ["ZL223"]), (None, ["ZL223"])])
def test_engine_native_orders_by_hilbert_in_clustered_tables_only(
    columns: tuple[str, ...] | None, codes: list[str]
) -> None:
    table = state(File(), File(), columns=columns)
    assert [(d.code, d.severity) for d in unclustered_hilbert(LAYOUT, table)] == [(code, "refused") for code in codes]
    assert unclustered_hilbert(replace(LAYOUT, curve="zorder"), table) == ()


def test_a_table_after_cluster_by_none_is_planned_as_any_other() -> None:
    assert plan_of(make_spec(make_layout("a", "b")), state(File(), File(), columns=())).status == "changes"


def test_what_optimize_leaves_is_noted() -> None:
    plan = plan_of(SPEC, state(*[File(0, 1, deleted=50)] * 4))
    assert (plan.status, [d.code for d in plan.diagnostics]) == ("unchanged", ["ZL409"])
