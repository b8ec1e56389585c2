"""What every backend must do, whatever the format: one suite, run over memory, Delta and Iceberg.

A subclass names the arena: how to make a table, append to it and read it with the format's own tools.
"""

import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.builders import make_layout, make_spec
from support.runs import apply_planned

from zlayout.errors import Refused
from zlayout.formats.base import Backend
from zlayout.planner import document
from zlayout.planner.diff import PlanOptions
from zlayout.planner.model import TablePlan, Wait
from zlayout.predicate.model import Compare
from zlayout.session.plan import PlannedTable, as_plan, plan_table
from zlayout.session.plan_file import check_saved
from zlayout.session.results import Applied
from zlayout.session.sampling import SAMPLE_BYTES, sampled
from zlayout.spec.model import LayoutSpec, TableName
from zlayout.table.state import PartitionField

OPTIONS = PlanOptions()


class Arena(Protocol):
    """One fresh table of one format."""

    backend: Backend
    table: TableName
    engine: str
    curve: str
    bytes_per_row: float

    def create(self, rows: pa.Table, files: int, partition_by: tuple[str, ...] = ()) -> None: ...
    def append(self, rows: pa.Table, files: int = 1) -> None: ...
    def delete_below(self, id: int) -> None: ...
    def rows(self) -> pa.Table: ...


def make_rows(count: int, *, start: int = 0, seed: int = 1) -> pa.Table:
    """`count` rows with two uncorrelated keys, a text key and a region; ids from `start`."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": pa.array(np.arange(start, start + count), pa.int64()),
            "a": pa.array(random.integers(0, 100_000, count), pa.int64()),
            "b": pa.array([f"key-{n:06}" for n in random.integers(0, 100_000, count)], pa.string()),
            "region": pa.array(np.array(["east", "north", "west"])[np.arange(count) % 3], pa.string()),
        }
    )


class Contract:
    """Tests take the fixture `arena` of the subclass's module."""

    rows = 4000
    files = 8

    def spec(self, arena: Arena, columns: tuple[str, ...] = ("a", "b"), **changes: object) -> LayoutSpec:
        size = int(arena.bytes_per_row * self.rows / self.files)
        layout = make_layout(*columns, curve=arena.curve, target_size=size, engine=arena.engine)
        return make_spec(layout, arena.table, **changes)

    def plan(self, arena: Arena, spec: LayoutSpec) -> PlannedTable:
        return plan_table(spec, arena.backend, OPTIONS)

    def apply(self, arena: Arena, planned: PlannedTable) -> Applied:
        """A table that cannot be read has a plan without work: it must not pass for one that needs none."""
        assert planned.plan.status != "error", planned.plan.diagnostics
        applied = apply_planned(planned, arena.backend)
        if applied.error is not None:
            raise applied.error
        assert applied.after.status != "error", applied.after.diagnostics
        return applied

    def test_observation_counts_what_is_there(self, arena: Arena) -> None:
        arena.create(make_rows(self.rows), self.files)
        state = arena.backend.observe(arena.table, ("a", "b"))
        assert len(state.files) == self.files
        assert state.files.rows.sum() == self.rows
        bounds = state.files.bounds["a"]
        lows, highs = (np.array(x.to_pylist()) for x in (bounds.lower, bounds.upper))
        values = make_rows(self.rows)["a"].to_numpy()
        assert (lows.min(), highs.max()) == (values.min(), values.max())
        assert bounds.null_count.sum() == 0

    def test_apply_reaches_the_layout_and_the_next_plan_is_empty(self, arena: Arena) -> None:
        arena.create(make_rows(self.rows), self.files)
        spec = self.spec(arena)
        before = self.plan(arena, spec)
        assert before.plan.status == "changes"
        applied = self.apply(arena, before)
        assert [c.kind for c in applied.commits if c.kind == "rewrite"]
        after = self.plan(arena, spec)
        assert after.plan.status == "unchanged"
        assert _sorted(arena.rows()) == _sorted(make_rows(self.rows))
        pairs = list(zip(before.plan.columns, after.plan.columns, strict=True))
        for old, new in pairs[:1] if arena.curve == "linear" else pairs:  # which orders by its first column alone
            assert new.touched < 0.8 * old.touched, new.column

    def test_cuts_are_bounds_of_files_and_the_next_plan_is_empty(self, arena: Arena) -> None:
        if (arena.engine, arena.curve) != ("zlayout", "kd"):
            pytest.skip("cuts belong to a curve of engine zlayout")
        rows = make_rows(self.rows)
        arena.create(rows, self.files)
        value = int(np.quantile(rows["a"].to_numpy(), 0.4))
        spec = self.spec(arena)
        spec = replace(spec, layout=replace(spec.layout, curve="workload", cuts=(Compare("a", "<=", value),)))
        self.apply(arena, self.plan(arena, spec))
        assert self.plan(arena, spec).plan.status == "unchanged"
        assert _sorted(arena.rows()) == _sorted(rows)
        bounds = arena.backend.observe(arena.table, ("a",)).files.bounds["a"]
        pairs = zip(bounds.lower.to_pylist(), bounds.upper.to_pylist(), strict=True)
        assert {(low <= value, high <= value) for low, high in pairs} == {(True, True), (False, False)}

    def test_second_apply_makes_no_commit(self, arena: Arena) -> None:
        arena.create(make_rows(self.rows), self.files)
        spec = self.spec(arena)
        self.apply(arena, self.plan(arena, spec))
        version = arena.backend.observe(arena.table, ()).version
        again = self.apply(arena, self.plan(arena, spec))
        assert again.commits == []
        assert arena.backend.observe(arena.table, ()).version == version

    def test_a_sample_forecasts_what_apply_measures(self, arena: Arena) -> None:
        """Engine zlayout cuts at the values that the forecast uses, so that both agree within 10 % or 0.3 files.

        Engine native cuts at values of a sample of its own, of about 100 rows for each file (Spark's range
        partitioning). The number of rows of a file then varies by 10 %, and so do its bounds in each column.
        """
        arena.create(make_rows(self.rows), self.files)
        spec = self.spec(arena)
        before = self.plan(arena, spec)
        decision = sampled(before, arena.backend, SAMPLE_BYTES)
        self.apply(arena, before)
        after = self.plan(arena, spec)
        if not arena.backend.capabilities.can_predict(spec.layout, after.state):
            assert decision is before
            return
        assert decision.plan.diagnostics == before.plan.diagnostics
        assert (decision.plan.sample.rows, decision.plan.sample.files) == (self.rows, self.files)
        assert decision.plan.sample.bytes_read > 0
        assert decision.pinned == before.pinned
        within = 0.3 if spec.layout.engine == "native" else 0.1
        for then, now in zip(decision.plan.columns, after.plan.columns, strict=True):
            close = pytest.approx(now.touched, rel=within, abs=0.3)
            assert then.predicted == close, (then.column, then.predicted, now.touched)
            assert then.floor is not None
            assert then.floor <= now.touched + 1e-9

    def test_a_rollback_returns_the_files_and_the_plan_and_keeps_an_append(self, arena: Arena) -> None:
        rows, more = make_rows(self.rows), make_rows(20, start=self.rows)
        arena.create(rows, self.files)
        spec, old = self.spec(arena), _identities(arena)
        before = self.plan(arena, spec)
        applied = self.apply(arena, before)
        shown = arena.backend.undo(arena.table, None)
        assert (shown.run_id, shown.rows) == (applied.run_id, self.rows)
        arena.backend.roll_back(shown, "undo-1", {}, lambda _: None)
        assert _identities(arena) == old
        again = self.plan(arena, spec)
        assert again.plan.actions == before.plan.actions
        with pytest.raises(Refused) as refused:
            arena.backend.undo(arena.table, None)
        assert [d.code for d in refused.value.diagnostics] == ["ZL231"]
        self.apply(arena, again)
        arena.append(more)
        arena.backend.roll_back(arena.backend.undo(arena.table, None), "undo-2", {}, lambda _: None)
        assert _identities(arena) > old
        assert _sorted(arena.rows()) == _sorted(pa.concat_tables([rows, more]))

    def test_another_layout_is_drift(self, arena: Arena) -> None:
        arena.create(make_rows(self.rows), self.files)
        self.apply(arena, self.plan(arena, self.spec(arena, ("a",))))
        wanted = self.spec(arena, ("a", "b"))
        planned = self.plan(arena, wanted)
        assert [(d.key, d.before, d.after) for d in planned.plan.drift] == [("zorder.columns", ["a"], ["a", "b"])]
        self.apply(arena, planned)
        assert self.plan(arena, wanted).plan.status == "unchanged"

    def test_few_new_rows_are_tolerated_and_many_are_not(self, arena: Arena) -> None:
        arena.create(make_rows(self.rows), self.files)
        spec = self.spec(arena)
        spec = replace(spec, tolerance=replace(spec.tolerance, small_files=0.5, touched=3.0))
        self.apply(arena, self.plan(arena, spec))
        arena.append(make_rows(self.rows // 20, start=self.rows, seed=2))
        assert self.plan(arena, spec).plan.status == "unchanged"
        arena.append(make_rows(self.rows, start=2 * self.rows, seed=3), files=4)
        planned = self.plan(arena, spec)
        assert planned.plan.status == "changes"
        assert [d.measure for d in planned.plan.decay if d.exceeded][:1] == ["unclustered"]
        self.apply(arena, planned)
        assert self.plan(arena, spec).plan.status == "unchanged"
        assert len(arena.rows()) == 2 * self.rows + self.rows // 20

    def test_only_partitions_in_scope_are_rewritten(self, arena: Arena) -> None:
        arena.create(make_rows(self.rows), self.files, partition_by=("region",))
        spec = self.spec(arena, where=Compare("region", "=", "west"))
        before = _paths_by_region(arena)
        planned = self.plan(arena, spec)
        assert {g.partition for g in planned.plan.groups} == {"region=west"}
        self.apply(arena, planned)
        after = _paths_by_region(arena)
        assert after["east"] == before["east"]
        assert after["north"] == before["north"]
        assert not after["west"] & before["west"]
        assert self.plan(arena, spec).plan.status == "unchanged"
        assert _sorted(arena.rows()) == _sorted(make_rows(self.rows))

    def test_deleted_rows_stay_deleted(self, arena: Arena) -> None:
        arena.create(make_rows(self.rows), self.files)
        arena.delete_below(self.rows // 2)
        spec = self.spec(arena)
        self.apply(arena, self.plan(arena, spec))
        assert self.plan(arena, spec).plan.status == "unchanged"
        assert _sorted(arena.rows()) == _sorted(make_rows(self.rows).slice(self.rows // 2))

    def test_unknown_column_is_an_error_with_its_place(self, arena: Arena) -> None:
        arena.create(make_rows(100), 2)
        version = arena.backend.observe(arena.table, ()).version
        planned = self.plan(arena, self.spec(arena, ("aa",)))
        plan = planned.plan
        assert plan.status == "error"
        assert any("'aa'" in d.message for d in plan.diagnostics if d.severity == "error")
        assert arena.backend.observe(arena.table, ()).version == version

    def test_saved_plan_is_refused_after_a_delete_and_fine_after_an_append(self, arena: Arena) -> None:
        arena.create(make_rows(self.rows), self.files)
        spec = self.spec(arena)
        saved = _saved(self.plan(arena, spec))
        arena.append(make_rows(10, start=self.rows))
        check_saved(saved, self.plan(arena, spec), arena.backend, OPTIONS, "compatible")
        with pytest.raises(Refused, match="stale"):
            check_saved(saved, self.plan(arena, spec), arena.backend, OPTIONS, "strict")
        arena.delete_below(5)
        with nullcontext() if saved.rebases else pytest.raises(Refused, match="changed or removed"):
            check_saved(saved, self.plan(arena, spec), arena.backend, OPTIONS, "compatible")

    def test_saved_plan_is_refused_for_another_layout(self, arena: Arena) -> None:
        arena.create(make_rows(200), 4)
        saved = _saved(self.plan(arena, self.spec(arena, ("a",))))
        changed = self.plan(arena, self.spec(arena, ("b",)))
        with pytest.raises(Refused, match="layout spec changed"):
            check_saved(saved, changed, arena.backend, OPTIONS, "compatible")

    def test_empty_table_and_single_file_have_nothing_to_do(self, arena: Arena) -> None:
        arena.create(make_rows(0), 1)
        assert self.plan(arena, self.spec(arena)).plan.status == "unchanged"
        arena.append(make_rows(10))
        assert self.plan(arena, self.spec(arena)).plan.status == "unchanged"

    def test_partitions_that_others_wrote_to_wait_and_the_own_files_count_for_none(self, arena: Arena) -> None:
        arena.create(make_rows(300), 2, ("region",))
        spec = self.spec(arena, ("a",))
        now = int(time.time() * 1000)
        assert (abs(arena.backend.observe(arena.table, ()).last_written - now) < 600_000).all()
        waits = plan_table(spec, arena.backend, PlanOptions(hot_after=now - 600_000)).plan
        assert (waits.status, waits.actions) == ("changes", ())
        assert len(waits.that_wait(Wait.HOT).partition_numbers) == waits.that_wait(Wait.HOT).groups == 3
        self.apply(arena, plan_table(spec, arena.backend, PlanOptions(hot_after=now + 600_000)))
        assert not arena.backend.observe(arena.table, ()).last_written.any()
        arena.append(make_rows(300, start=1000).filter(pc.field("region") == "east"), 2)
        observed = arena.backend.observe(arena.table, ())
        hot = [p.values for p, at in zip(observed.files.partitions, observed.last_written, strict=True) if at]
        assert hot == [("east",)]

    def test_new_partitioning(self, arena: Arena) -> None:
        arena.create(make_rows(self.rows), self.files)
        spec = self.spec(arena, partition_by=(PartitionField("region"),))
        options = PlanOptions(allow_full_rewrite=True)
        if not arena.backend.capabilities.partition_evolution:
            assert self.plan(arena, spec).plan.status == "refused"
        planned = plan_table(spec, arena.backend, options)
        assert planned.plan.status == "changes"
        self.apply(arena, planned)
        assert self.plan(arena, spec).plan.status == "unchanged"
        assert set(_paths_by_region(arena)) == {"east", "north", "west"}
        assert _sorted(arena.rows()) == _sorted(make_rows(self.rows))


def _saved(planned: PlannedTable) -> TablePlan:
    """The plan of one table after a trip through the plan file."""
    return document.from_json(document.to_json(as_plan([planned])), "plan.json").plan.tables[0]


def _identities(arena: Arena) -> set[str]:
    return set(arena.backend.observe(arena.table, ()).files.identity().to_pylist())


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.select(["id", "a", "b", "region"]).sort_by("id").combine_chunks()


def _paths_by_region(arena: Arena) -> dict[str, set[str]]:
    files = arena.backend.observe(arena.table, ()).files
    paths: dict[str, set[str]] = {}
    for path, partition in zip(files.path.to_pylist(), files.partition, strict=True):
        paths.setdefault(files.partitions[partition].values[0], set()).add(path)
    return paths
