"""Compaction alone on real tables: layouts without z-order columns, with both engines."""

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from contract import Contract, make_rows
from spark.arenas import DeltaArena, IcebergArena, SparkArena, delete_before_first_commit
from support.builders import make_layout, make_spec

from zlayout.planner.model import Reason
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import PlannedTable
from zlayout.session.results import Applied
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import PartitionField

KINDS = {"delta": DeltaArena, "iceberg": IcebergArena}
CASES = [("delta", "zlayout"), ("delta", "native"), ("iceberg", "zlayout")]
ROWS, FILES = 4000, 12


def spec_of(arena: SparkArena, share: float = 0.4, **changes: object) -> LayoutSpec:
    """A layout whose target size is this share of the table."""
    size = int(arena.backend.observe(arena.table, ()).files.bytes.sum() * share)
    return make_spec(make_layout(target_size=size, curve="linear", engine=arena.engine), arena.table, **changes)


def plan(arena: SparkArena, spec: LayoutSpec) -> PlannedTable:
    return Contract().plan(arena, spec)


def apply(arena: SparkArena, spec: LayoutSpec) -> Applied:
    return Contract().apply(arena, plan(arena, spec))


def by_id(arena: SparkArena) -> pa.Table:
    return arena.rows().sort_by("id")


def paths(arena: SparkArena) -> set[str]:
    return set(arena.backend.observe(arena.table, ()).files.path.to_pylist())


both_engines = pytest.mark.parametrize(
    "arena", [(KINDS[name], engine, "linear") for name, engine in CASES], ids=map("-".join, CASES), indirect=True
)
both_formats = pytest.mark.parametrize("arena", [(kind, "zlayout", "linear") for kind in KINDS.values()], indirect=True)


@both_engines
def test_small_files_and_deletes_are_packed_once(arena: SparkArena) -> None:
    arena.create(make_rows(ROWS), FILES)
    spec = spec_of(arena)
    decision = plan(arena, spec)
    assert [g.reason for g in decision.plan.groups] == [Reason.SMALL_FILES]
    assert decision.plan.columns == ()
    done = apply(arena, spec)
    assert by_id(arena) == make_rows(ROWS)
    packed = arena.backend.observe(arena.table, ()).files
    assert len(packed) <= 4
    assert sum(c.files_removed for c in done.commits) == FILES
    assert apply(arena, spec).commits == []

    large = paths(arena)
    arena.append(make_rows(20, start=ROWS))
    assert plan(arena, spec).plan.status == "unchanged", "one straggler rewrites nothing"
    arena.append(make_rows(20, start=ROWS + 20))
    arena.append(make_rows(20, start=ROWS + 40))
    apply(arena, spec)
    assert large < paths(arena), "the large files stay"
    assert by_id(arena) == pa.concat_tables([make_rows(ROWS), *(make_rows(20, start=ROWS + n) for n in (0, 20, 40))])


@both_formats
def test_files_with_many_deleted_rows_are_rewritten_alone(arena: SparkArena) -> None:
    arena.create(make_rows(ROWS), 4)
    spec = spec_of(arena, 0.25)
    kept = paths(arena)
    assert plan(arena, spec).plan.status == "unchanged"
    arena.delete_below(ROWS // 5)
    decision = plan(arena, spec)
    assert {g.reason for g in decision.plan.groups} == {Reason.DELETED_ROWS}
    apply(arena, spec)
    assert arena.backend.observe(arena.table, ()).files.deleted.sum() == 0
    assert len(kept & paths(arena)) == 3
    assert by_id(arena) == make_rows(ROWS).slice(ROWS // 5)
    assert apply(arena, spec).commits == []


@both_engines
def test_partitions_are_packed_apart(arena: SparkArena) -> None:
    arena.create(make_rows(ROWS), FILES, partition_by=("region",))
    spec = spec_of(arena, 0.5)
    apply(arena, spec)
    found = arena.backend.observe(arena.table, ()).files
    assert len(found) == len(found.partitions) == 3
    assert by_id(arena) == make_rows(ROWS)
    assert apply(arena, spec).commits == []


@both_formats
def test_rows_keep_the_order_of_their_files(arena: SparkArena) -> None:
    """Rows that were written in the order of their ids are in files of disjoint ids, and in order there."""
    arena.create(make_rows(ROWS), FILES)
    apply(arena, spec_of(arena, 0.3))
    bounds = arena.backend.observe(arena.table, ("id",)).files.bounds["id"]
    ends = sorted(zip(bounds.lower.to_pylist(), bounds.upper.to_pylist(), strict=True))
    assert len(ends) > 1
    assert all(high < low for (_, high), (low, _) in pairwise(ends))


@both_formats
def test_a_layout_that_ordered_the_table_is_left_as_it_is(arena: SparkArena) -> None:
    arena.create(make_rows(ROWS), FILES)
    ordered = Contract().spec(arena)
    Contract().apply(arena, Contract().plan(arena, replace(ordered, layout=replace(ordered.layout, curve="kd"))))
    spec = replace(ordered, layout=make_layout(target_size=ordered.layout.target_size, curve="linear"))
    assert plan(arena, spec).plan.status == "unchanged"


@both_formats
def test_a_changed_partitioning_moves_the_rows(arena: SparkArena) -> None:
    arena.create(make_rows(ROWS), FILES)
    spec = spec_of(arena, 0.5, partition_by=(PartitionField("region"),))
    planned = _allowing(arena, spec)
    Contract().apply(arena, planned)
    found = arena.backend.observe(arena.table, ()).files
    assert sorted(p.values for p in found.partitions) == [("east",), ("north",), ("west",)]
    assert by_id(arena).select(["id", "a", "b", "region"]) == make_rows(ROWS)
    assert plan(arena, spec).plan.status == "unchanged"


def _allowing(arena: SparkArena, spec: LayoutSpec) -> PlannedTable:
    from zlayout.session.plan import plan_table

    return plan_table(spec, arena.backend, PlanOptions(allow_full_rewrite=True))


@both_formats
def test_rows_deleted_before_the_commit_stay_deleted(arena: SparkArena, monkeypatch: pytest.MonkeyPatch) -> None:
    arena.create(make_rows(ROWS), FILES)
    spec = spec_of(arena)
    planned = plan(arena, spec)
    delete_before_first_commit(arena, monkeypatch)
    apply_all = Contract().apply
    done = apply_all(arena, planned)
    assert sum(commit.rebased for commit in done.commits) == 5
    left = by_id(arena)
    assert len(left) < ROWS
    expected = make_rows(ROWS)
    assert left == expected.filter(pc.is_in(expected["id"], left["id"]))
    assert plan(arena, spec).plan.status == "unchanged"


@both_formats
def test_a_budget_packs_a_part_and_the_next_run_the_rest(arena: SparkArena) -> None:
    from support.runs import apply_planned

    from zlayout.session.plan import plan_table

    arena.create(make_rows(ROWS), FILES)
    spec = spec_of(arena)
    size = arena.backend.observe(arena.table, ()).files.bytes
    budget = int(size.sum() // 2)
    part = plan_table(spec, arena.backend, PlanOptions(max_rewrite_bytes=budget))
    assert 0 < part.plan.rewrite_bytes <= budget
    done = apply_planned(part, arena.backend)
    assert done.error is None
    assert by_id(arena) == make_rows(ROWS)
    apply(arena, spec)
    assert by_id(arena) == make_rows(ROWS)
    assert apply(arena, spec).commits == []
