"""Liquid-clustered Delta tables: planned as OPTIMIZE selects, clustered by OPTIMIZE, altered by ALTER TABLE."""

from dataclasses import replace
from typing import Any

import pytest
from spark.subjects import DeltaSubject
from support.builders import make_layout, make_spec
from support.runs import apply_planned

from zlayout.errors import CommitConflict, EngineError, Refused
from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.delta.write import optimize
from zlayout.formats.delta.write.transaction import Log
from zlayout.planner.model import ChangeClustering, PropertyChange, PropertyReason, Reason, SetProperties
from zlayout.planner.work import PlanOptions
from zlayout.session.import_ import layout_from
from zlayout.session.plan import PlannedTable, plan_table
from zlayout.session.results import result_of
from zlayout.session.sampling import SAMPLE_BYTES, sampled
from zlayout.spec.model import CLUSTERED_BY, Layout, LayoutSpec, Tolerance
from zlayout.table.metrics import layout_metrics
from zlayout.table.state import PartitionField

LAYOUT = make_layout("a", "b", curve="hilbert", target_size=8_000, engine="native")
LARGE = 30_000


@pytest.fixture
def table(delta: DeltaSubject) -> DeltaSubject:
    return replace(delta, layout=LAYOUT)


@pytest.fixture
def clustered(table: DeltaSubject) -> DeltaSubject:
    """A table that is clustered by a and b, with six files that nothing has clustered."""
    table.sql(f"create table {table} (id bigint, a int, b int) using delta cluster by (a, b)")
    grow(table, 6)
    return table


def grow(table: DeltaSubject, files: int, rows: int = 500) -> None:
    """Append files, each with rows of all keys."""
    keys = ["cast(id * 7919 % 1009 as int) a", "cast(id * 104729 % 997 as int) b"]
    table.append(table.spark.range(0, files * rows, 1, files).selectExpr("id", *keys))


def spec_of(table: DeltaSubject, layout: Layout = LAYOUT, **changes: Any) -> LayoutSpec:
    return make_spec(layout, table.name, **changes)


def planned(table: DeltaSubject, spec: LayoutSpec | None = None) -> PlannedTable:
    return plan_table(spec or spec_of(table), table.backend, PlanOptions())


def codes(plan: PlannedTable) -> list[str]:
    return [diagnostic.code for diagnostic in plan.plan.diagnostics]


def carried_out(table: DeltaSubject, plan: PlannedTable) -> list[Commit]:
    """Apply a plan, and check that exactly the planned files were replaced, by files with the same rows."""
    before, rows = set(table.observe().files.path.to_pylist()), table.rows()
    outcomes = list(table.execute(replace(plan, run_id=f"run-{table.name.name}-{len(table.history())}")))
    replaced = before - set(table.observe().files.path.to_pylist())
    pinned = [path for group in plan.groups for path in group.files.path.to_pylist()]
    assert replaced == set(pinned)
    assert table.rows() == rows
    return [outcome for outcome in outcomes if isinstance(outcome, Commit)]


def test_a_clustered_table_is_laid_out_by_its_own_optimize(clustered: DeltaSubject) -> None:
    plan = planned(clustered)
    assert [group.reason for group in plan.plan.groups] == [Reason.NOT_LAID_OUT]
    assert codes(plan) == []
    (commit,) = carried_out(clustered, plan)
    assert (commit.files_removed, commit.groups) == (6, tuple(g.id for g in plan.groups))
    state = clustered.observe()
    assert (state.clustering, state.files.layout.tolist()) == (("a", "b"), [0] * len(state.files))
    assert state.files.layouts[0].settings == {CLUSTERED_BY: ["a", "b"]}
    assert planned(clustered).plan.status == "unchanged"
    grow(clustered, 2)
    applied = apply_planned(planned(clustered), clustered.backend)
    assert (applied.exit_code, result_of(applied).rollback) == (0, "")
    other_order = replace(LAYOUT, columns=LAYOUT.columns[::-1])
    assert planned(clustered, spec_of(clustered, other_order)).plan.status == "unchanged"
    text = layout_from(replace(clustered.project, layouts=()), clustered.name, clustered.backend, ()).text
    assert "engine: native" in text
    assert "columns: [a, b]" in text


@pytest.mark.parametrize("columns", [pytest.param(("a", "b"), marks=pytest.mark.long), ("b",)])
def test_a_sample_predicts_what_optimize_leaves(table: DeltaSubject, columns: tuple[str, ...]) -> None:
    table.sql(f"create table {table} (id bigint, a int, b int) using delta cluster by ({', '.join(columns)})")
    grow(table, 8, 1000)
    spec = spec_of(table, make_layout(*columns, curve="hilbert", target_size=8_000, engine="native"))
    for _ in range(2):  # the second time, the ZCube is clustered again with the new files
        plan = planned(table, spec)
        decision = sampled(plan, table.backend, SAMPLE_BYTES)
        predicted = [column.predicted for column in decision.plan.columns]
        carried_out(table, plan)
        files = table.observe(*columns).files
        assert len(files) > 8
        assert predicted == pytest.approx([m.touched for m in layout_metrics(files, columns)], rel=0.25)
        grow(table, 4, 1000)


@pytest.mark.long
def test_the_planned_files_are_those_that_optimize_takes(
    clustered: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large ZCubes are left alone, small ones are clustered again with new files."""
    for module in ("zlayout.planner.clustering", "zlayout.formats.delta.write.optimize"):
        monkeypatch.setattr(f"{module}.LARGE_CUBE", LARGE)
        monkeypatch.setattr(f"{module}.NEW_CUBE", LARGE * 3 // 2)
    carried_out(clustered, planned(clustered))
    spec = spec_of(clustered, tolerance=Tolerance(unclustered=0.05))
    sizes = []
    for files in (1, 5, 2, 9):
        grow(clustered, files)
        plan = planned(clustered, spec)
        assert plan.plan.groups, "the new files are more than the tolerance"
        carried_out(clustered, plan)
        sizes.append(plan.plan.groups[0].files)
        again = planned(clustered, spec).plan
        assert (again.status, again.groups) == ("unchanged", ())
    cubes = set(clustered.observe().files.group.tolist())
    assert len(cubes) > 2
    assert sizes[-1] < len(clustered.observe().files), "ZCubes that were large enough stayed"


def test_declared_columns_are_altered_and_all_files_clustered_again(clustered: DeltaSubject) -> None:
    carried_out(clustered, planned(clustered))
    grow(clustered, 1)
    spec = spec_of(clustered, make_layout("b", curve="hilbert", target_size=8_000, engine="native"))
    plan = planned(clustered, spec)
    change, *groups = plan.plan.actions
    assert isinstance(change, ChangeClustering)
    assert (change.before, change.after) == (("a", "b"), ("b",))
    assert [group.reason for group in groups] == [Reason.LAYOUT_CHANGED]
    settings, _ = carried_out(clustered, plan)
    assert settings.kind == "settings"
    assert clustered.sql(f"describe detail {clustered}").first()["clusteringColumns"] == ["b"]
    assert planned(clustered, spec).plan.status == "unchanged"
    assert {row.operation for row in clustered.history().values()} >= {"CLUSTER BY", "OPTIMIZE"}


@pytest.mark.parametrize("before", ["cluster by (a, b)", ""])
def test_a_table_that_is_clustered_otherwise_since_the_plan_is_left_alone(table: DeltaSubject, before: str) -> None:
    table.sql(f"create table {table} (id bigint, a int, b int) using delta {before}")
    grow(table, 4)
    plan = planned(table)
    table.sql(f"alter table {table} cluster by (b)")
    version = table.observe().version
    with pytest.raises(CommitConflict, match=r"ZL320 .* is clustered by b since the plan"):
        carried_out(table, plan)
    assert table.observe().version == version


def test_columns_that_change_between_alter_table_and_optimize_are_a_conflict(
    clustered: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(clustered, make_layout("b", curve="hilbert", target_size=8_000, engine="native"))
    plan, alter = planned(clustered, spec), optimize.set_clustering

    def and_again(*arguments: Any) -> Commit:
        commit = alter(*arguments)
        clustered.sql(f"alter table {clustered} cluster by (id)")
        return commit

    monkeypatch.setattr(optimize, "set_clustering", and_again)
    with pytest.raises(CommitConflict, match=r"ZL320 .* is clustered by id since the plan"):
        carried_out(clustered, plan)
    assert "OPTIMIZE" not in {row.operation for row in clustered.history().values()}


def test_columns_that_change_while_optimize_runs_are_reported(
    clustered: DeltaSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, run = planned(clustered), Log.run

    def and_alter(self: Log, *arguments: Any) -> Any:
        done = run(self, *arguments)
        clustered.sql(f"alter table {clustered} cluster by (id)")
        return done

    monkeypatch.setattr(Log, "run", and_alter)
    rows = clustered.rows()
    *_, failure = clustered.execute(replace(plan, run_id="run"))
    assert isinstance(failure, GroupFailed)
    assert "were changed while OPTIMIZE ran" in str(failure.error)
    assert clustered.rows() == rows


def test_what_clustering_excludes_is_refused_by_name(clustered: DeltaSubject) -> None:
    native = spec_of(clustered)
    refused = {
        "engine zlayout": spec_of(clustered, replace(LAYOUT, engine="zlayout")),
        "no z-order columns": spec_of(clustered, make_layout(curve="linear", target_size=100_000, engine="native")),
        "which allows 4 columns": spec_of(clustered, make_layout("id", "a", "b", "c", "d", engine="native")),
    }
    clustered.sql(f"alter table {clustered} add columns (c int, d int)")
    for text, spec in refused.items():
        found = planned(clustered, spec).plan
        assert found.status == "refused"
        assert [text in d.message for d in found.diagnostics if d.code == "ZL211"] == [True]
    partitioned = replace(native, partition_by=(PartitionField("c"),))
    found = plan_table(partitioned, clustered.backend, PlanOptions(allow_full_rewrite=True)).plan
    assert "partition_by cannot change" in str(found.diagnostics)
    with pytest.raises(Refused, match=r"ZL211 .*rollback"):
        clustered.backend.undo(clustered.name, None)


def test_deleted_rows_that_optimize_keeps_are_no_endless_plan(clustered: DeltaSubject) -> None:
    carried_out(clustered, planned(clustered))
    clustered.sql(f"alter table {clustered} set tblproperties ('delta.enableDeletionVectors' = 'true')")
    clustered.sql(f"delete from {clustered} where id % 3 = 0")
    plan = planned(clustered)
    assert plan.plan.groups == ()
    assert "ZL409" in codes(plan)


@pytest.mark.long
@pytest.mark.parametrize("checkpoint", ["classic", "v2"])
def test_names_and_clustering_are_found_after_renames_and_in_checkpoints(table: DeltaSubject, checkpoint: str) -> None:
    mapping = f"'delta.columnMapping.mode' = 'name', 'delta.checkpointPolicy' = '{checkpoint}'"
    table.sql(
        f"create table {table} (id bigint, s struct<`x.y`: int, z: int>, b int) using delta cluster by (s.`x.y`, b) "
        f"tblproperties ({mapping}, 'delta.checkpointInterval' = '2')"
    )
    rows = table.spark.range(0, 2000, 1, 4)
    keys = ["named_struct('x.y', cast(id * 7919 % 1009 as int), 'z', 1) s", "cast(id % 97 as int) b"]
    table.append(rows.selectExpr("id", *keys))
    layout = make_layout("s.`x.y`", "b", curve="hilbert", target_size=8_000, engine="native")
    carried_out(table, planned(table, spec_of(table, layout)))
    table.sql(f"alter table {table} rename column b to c")
    table.append(rows.selectExpr("id", keys[0], "cast(id % 97 as int) c"))
    assert any("checkpoint" in file.name for file in (table.path / "_delta_log").iterdir())
    assert table.observe().clustering == ("s.`x.y`", "c")
    renamed = spec_of(table, replace(layout, columns=make_layout("s.`x.y`", "c").columns))
    carried_out(table, planned(table, renamed))
    assert planned(table, renamed).plan.status == "unchanged"


@pytest.mark.long
def test_a_table_after_cluster_by_none_is_laid_out_by_engine_zlayout(clustered: DeltaSubject) -> None:
    carried_out(clustered, planned(clustered))
    clustered.sql(f"alter table {clustered} cluster by none")
    grow(clustered, 6)
    assert clustered.observe().clustering == ()
    assert "excludes OPTIMIZE ZORDER BY" in str(planned(clustered).plan.diagnostics)
    spec = spec_of(clustered, make_layout("a", "b", target_size=8_000))
    carried_out(clustered, planned(clustered, spec))
    assert planned(clustered, spec).plan.status == "unchanged"
    rows = clustered.rows()
    clustered.sql(f"alter table {clustered} cluster by (a)")
    clustered.sql(f"optimize {clustered}")
    assert clustered.rows() == rows
    by_a = spec_of(clustered, make_layout("a", target_size=8_000, engine="native"))
    assert planned(clustered, by_a).plan.status == "unchanged"


def test_a_column_that_cannot_cluster_is_an_error_of_delta_and_changes_nothing(clustered: DeltaSubject) -> None:
    clustered.sql(f"alter table {clustered} add columns (flag boolean)")
    plan = planned(clustered, spec_of(clustered, make_layout("flag", curve="hilbert", engine="native")))
    version = clustered.observe().version
    with pytest.raises(EngineError, match=r"ZL314 .*changing the clustering columns"):
        carried_out(clustered, plan)
    assert clustered.observe().version == version
    work = replace(plan, run_id="run")
    note = PropertyChange("note", None, "x", PropertyReason.NO_STATISTICS, "flag")
    with pytest.raises(EngineError, match=r"ZL314 .*changing the clustering columns"):
        list(clustered.execute(work.with_actions(SetProperties((note,)), *work.plan.actions)))
    assert clustered.history()[version + 1].operation == "SET TBLPROPERTIES"
    assert clustered.observe().version == version + 1
