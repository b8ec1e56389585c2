"""Files of an older partitioning: moved alone, in limited groups, and never so that the next plan finds decay."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.builders import layout_record, make_bounds, make_file_table, make_layout, make_spec, make_state
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.runs import plan_and_apply
from unit.planner.plans import DELTA, KIND, TARGET

from zlayout.planner.diff import decide
from zlayout.planner.model import Reason, Wait
from zlayout.planner.selection import PROPERTY, acceptance, in_effect, is_accepted, stored
from zlayout.planner.work import PlannedTable, PlanOptions
from zlayout.spec.model import Tolerance
from zlayout.table.state import Column, Partition, PartitionField, TableState

ICEBERG = replace(DELTA, format="iceberg", partition_evolution=True)
DAY = PartitionField("d")
SPEC = make_spec(make_layout("a", target_size=TARGET), partition_by=(DAY,))
OLD = Partition(0, (), ())


def table(days: int, files: int, stragglers: Sequence[tuple[int, int, int, int]], bounds: bool = True) -> TableState:
    """Laid-out files in the order of `a` in each day, and files of the old spec: low, high, first and last day."""
    low = [10 * n for _ in range(days) for n in range(files)]
    high = [10 * n + 9 for _ in range(days) for n in range(files)]
    of = [day for day in range(days) for _ in range(files)]
    more = len(stragglers)
    sides = {
        "a": make_bounds([*low, *(s[0] for s in stragglers)], [*high, *(s[1] for s in stragglers)], KIND),
        "d": make_bounds([*of, *(s[2] for s in stragglers)], [*of, *(s[3] for s in stragglers)], KIND),
    }
    made = make_file_table(
        [100] * (len(of) + more),
        bytes=TARGET,
        partition=[*of, *[days] * more],
        partitions=[*(Partition(1, (DAY,), (day,)) for day in range(days)), OLD],
        layout=[*[0] * len(of), *[-1] * more],
        layouts=[layout_record(SPEC.layout)],
        group=[*of, *[-1] * more],
        bounds=sides if bounds else {"a": sides["a"]},
    )
    columns = tuple(Column(name, KIND, True) for name in ("a", "b", "d"))
    return make_state(made, format="iceberg", columns=columns, partition_fields=(DAY,), spec_id=1)


def groups(decision: PlannedTable) -> list[list[str]]:
    return [group.files.path.to_pylist() for group in decision.groups]


@pytest.mark.parametrize("bounds", [True, False])
def test_one_straggler_is_moved_alone(bounds: bool) -> None:
    decision = decide(SPEC, table(5, 20, [(30, 49, 2, 2)], bounds), ICEBERG)
    assert groups(decision) == [["f100"]]
    (group,) = decision.plan.groups
    assert (group.reason, group.target_files) == (Reason.PARTITIONING_CHANGED, 1)
    assert decision.plan.decay == ()


@pytest.mark.parametrize("columns", [("a",), ("a", "b")])
def test_files_that_are_rewritten_with_stragglers_do_not_count_as_adopted(columns: tuple[str, ...]) -> None:
    observed = table(2, 4, [(0, 39, 0, 0)] * 4)
    bounds = {**observed.files.bounds, "b": make_bounds([7] * 12, [7] * 12, KIND)}
    observed = replace(observed, files=replace(observed.files, layout=np.full(12, -1, np.int32), bounds=bounds))
    spec = make_spec(make_layout(*columns, target_size=TARGET), partition_by=(DAY,))
    decision = decide(spec, observed, ICEBERG)
    assert groups(decision) == [[f"f{n}" for n in (*range(4), *range(8, 12))]]
    (note,) = (d for d in decision.plan.diagnostics if d.code == "ZL420")
    assert note.message.startswith("4 files have no layout record")
    assert ("opens 1.0 by a, 4.0 by b of 4 files" in note.message) == (len(columns) == 2)
    no_days = replace(observed, files=observed.files.take(np.array([0, 1, 2, 3, 8, 9, 10, 11])))
    assert all(d.code != "ZL420" for d in decide(spec, no_days, ICEBERG).plan.diagnostics)


def test_stragglers_are_moved_in_groups_of_limited_size() -> None:
    stragglers = [(10 * n, 10 * n + 9, 0, 4) for n in range(10)]
    limited = replace(SPEC, max_group_size=4 * TARGET)
    decision = decide(limited, table(5, 20, stragglers), ICEBERG)
    assert groups(decision) == [[f"f{100 + n}" for n in part] for part in (range(4), range(4, 8), range(8, 10))]
    assert [len(work.groups) for work in decision.in_parts(limited.max_group_size)] == [1, 1, 1]


def test_a_budget_moves_what_it_allows() -> None:
    stragglers = [(10 * n, 10 * n + 9, 0, 4) for n in range(10)]
    options = PlanOptions(max_rewrite_bytes=5 * TARGET)
    decision = decide(SPEC, table(5, 20, stragglers), ICEBERG, options=options)
    assert [len(paths) for paths in groups(decision)] == [5]
    assert (decision.plan.that_wait(Wait.BUDGET).files, decision.plan.that_wait(Wait.BUDGET).bytes) == (5, 5 * TARGET)


def test_rows_that_would_make_their_partition_decay_take_the_files_that_restore_it_along() -> None:
    """60 files of the whole range go to day 2; the other days stay as they are."""
    decision = decide(SPEC, table(5, 20, [(0, 199, 2, 2)] * 60), ICEBERG)
    (paths,) = groups(decision)
    assert {f"f{100 + n}" for n in range(60)} <= set(paths)
    assert set(paths) - {f"f{100 + n}" for n in range(60)} == {f"f{40 + n}" for n in range(20)}


def straggling(
    fields: tuple[PartitionField, ...], values: Sequence[object], old: Partition, low: object, high: object, nulls: int
) -> TableState:
    """Twenty laid-out files in each of five partitions, and 60 of the whole range in an old one, with bounds of `d`."""
    kind = pa.date32() if isinstance(low, date) else KIND
    side = make_bounds([None] * 100 + [low] * 60, [None] * 100 + [high] * 60, kind)
    made = make_file_table(
        [100] * 160,
        bytes=TARGET,
        partition=[*np.repeat(np.arange(5), 20).tolist(), *[5] * 60],
        partitions=[*(Partition(1, fields, (value, *[0] * len(fields[1:]))) for value in values), old],
        layout=[0] * 100 + [-1] * 60,
        layouts=[layout_record(SPEC.layout)],
        group=[*np.repeat(np.arange(5), 20).tolist(), *[-1] * 60],
        bounds={
            "a": make_bounds([*range(0, 200, 10)] * 5 + [0] * 60, [*range(9, 200, 10)] * 5 + [199] * 60, KIND),
            "d": replace(side, null_count=np.array([0] * 100 + [nulls] * 60, np.int64)),
        },
    )
    columns = (Column("a", KIND, True), Column("b", KIND, True), Column("d", kind, True))
    return make_state(made, format="iceberg", columns=columns, partition_fields=fields, spec_id=1)


@pytest.mark.parametrize(
    ("fields", "values", "old", "bounds"),
    [
        ((DAY,), (0, 1, 2, 3, None), OLD, (2, 2, 0)),
        ((DAY,), (0, 1, None, 3, 4), OLD, (None, None, 100)),
        ((DAY, PartitionField("b")), range(5), Partition(0, (DAY,), (2,)), (None, None, -1)),
        ((PartitionField("d", "month"),), range(5), OLD, (date(1970, 3, 1), date(1970, 3, 31), 0)),
    ],
    ids=["value", "null", "old partition", "month"],
)
def test_rows_are_merged_only_in_the_partitions_to_which_they_may_go(
    fields: tuple[PartitionField, ...], values: Sequence[object], old: Partition, bounds: tuple[Any, Any, int]
) -> None:
    """These are known from the bounds of the source column, or from the partition that the rows were in."""
    spec = replace(SPEC, partition_by=fields)
    (paths,) = groups(decide(spec, straggling(fields, values, old, *bounds), ICEBERG))
    assert set(paths) == {*(f"f{n}" for n in range(40, 60)), *(f"f{n}" for n in range(100, 160))}


def test_decay_of_other_partitions_is_planned_beside_the_move() -> None:
    observed = table(5, 20, [(30, 49, 2, 2)])
    layout = observed.files.layout.copy()
    layout[:20] = -1
    wide = make_bounds(
        [0] * 20 + [10 * n for _ in range(4) for n in range(20)] + [30],
        [199] * 20 + [10 * n + 9 for _ in range(4) for n in range(20)] + [49],
        KIND,
    )
    files = replace(
        observed.files,
        layout=layout,
        bounds={**observed.files.bounds, "a": wide},
        group=np.where(layout < 0, np.int32(-1), observed.files.group),
    )
    decision = decide(SPEC, replace(observed, files=files), ICEBERG)
    assert sorted(groups(decision), key=len) == [["f100"], [f"f{n}" for n in range(20)]]


def test_a_writer_that_goes_on_is_one_move_each_time() -> None:
    random = np.random.default_rng(3)

    def rows(count: int) -> pa.Table:
        sides = {name: random.integers(0, 10**6, count) for name in "ab"}
        return pa.table({**sides, "d": random.integers(0, 3, count)})

    first = rows(12_000)
    stored = MemoryTable(first.schema, [])
    stored.append(first, 60)
    backend = MemoryBackend(MemoryCatalog({"db.t": stored}))
    layout = make_layout("a", "b", target_size=24 * 200)
    spec = make_spec(layout, "mem.db.t", partition_by=(DAY,))
    _, applied = plan_and_apply(spec, backend)
    assert applied.after.status == "unchanged"
    for _ in range(3):
        stored.append(rows(200), 1, spec_id=0)
        planned, applied = plan_and_apply(spec, backend)
        assert [(g.files, g.reason) for g in planned.plan.groups] == [(1, Reason.PARTITIONING_CHANGED)]
        assert applied.after.status == "unchanged"
    # The fourth would be one layer too many: it is merged with those before it, and the laid-out files are left alone.
    stored.append(rows(200), 1, spec_id=0)
    planned, applied = plan_and_apply(spec, backend)
    assert [g.files for g in planned.plan.groups] == [1 + 3 * 3]
    assert applied.after.status == "unchanged"
    assert len(stored.rows()) == 12_800


@pytest.mark.parametrize("moved", [6000, 12_000])
def test_stragglers_that_become_several_files_leave_no_decay(moved: int) -> None:
    """A move of many rows: a query for one value opens more than one of the files that they become."""
    random = np.random.default_rng(0)

    def rows(count: int) -> pa.Table:
        sides = {name: random.integers(0, 10**6, count) for name in "ab"}
        return pa.table({**sides, "d": np.arange(count) % 2})

    layout = make_layout("a", "b", target_size=24 * 200)
    spec = make_spec(layout, "mem.db.t", partition_by=(DAY,), tolerance=Tolerance(touched=1.2))
    first = rows(6000)
    stored = MemoryTable(first.schema, [])
    stored.append(first, 2)
    backend = MemoryBackend(MemoryCatalog({"db.t": stored}))
    _, applied = plan_and_apply(spec, backend)
    assert applied.after.status == "unchanged"
    stored.append(rows(moved), 2, spec_id=0)
    _, applied = plan_and_apply(spec, backend)
    assert applied.after.status == "unchanged", applied.after.decay
    assert len(stored.rows()) == 6000 + moved


def test_what_a_complete_run_left_is_accepted_until_the_settings_change() -> None:
    """Four groups of the whole range in one day: decay, unless the last run accepted it under the same tolerance."""
    days = [0] * 24
    sides = {
        "a": make_bounds([30 * (n % 6) for n in range(24)], [30 * (n % 6) + 29 for n in range(24)], KIND),
        "d": make_bounds(days, days, KIND),
    }
    files = make_file_table(
        [100] * 24,
        bytes=TARGET,
        partition=days,
        partitions=[Partition(1, (DAY,), (0,))],
        layout=[0] * 24,
        layouts=[layout_record(SPEC.layout)],
        group=[n // 6 for n in range(24)],
        bounds=sides,
    )
    columns = tuple(Column(name, KIND, True) for name in ("a", "b", "d"))
    state = make_state(files, format="iceberg", columns=columns, partition_fields=(DAY,), spec_id=1)
    assert len(groups(decide(SPEC, state, ICEBERG))) == 1
    accepted = replace(state, properties={PROPERTY: acceptance(SPEC)})
    audit = replace(SPEC, table=SPEC.table.on("audit"))  # each branch has its own
    assert is_accepted(SPEC, accepted.properties)
    assert not is_accepted(audit, accepted.properties)
    assert is_accepted(audit, {f"{PROPERTY}.audit": acceptance(audit)})
    assert groups(decide(SPEC, accepted, ICEBERG)) == []
    stricter = replace(SPEC, tolerance=Tolerance(touched=1.2))
    assert len(groups(decide(stricter, accepted, ICEBERG))) == 1


def test_only_a_complete_run_accepts_and_only_in_its_last_part() -> None:
    stragglers = [(10 * n, 10 * n + 9, 0, 4) for n in range(10)]
    limited = replace(SPEC, max_group_size=4 * TARGET)
    whole = decide(limited, table(5, 20, stragglers), ICEBERG)
    assert [work.accepts for work in whole.in_parts(limited.max_group_size)] == ["", "", acceptance(limited)]
    options = PlanOptions(max_rewrite_bytes=5 * TARGET)
    assert decide(SPEC, table(5, 20, stragglers), ICEBERG, options=options).accepts == ""


def test_an_acceptance_ends_with_the_files_of_its_last_commit() -> None:
    """The branch was returned to an older snapshot. A value of an older zlayout names no commit."""
    value = stored("digest", 12)
    assert (in_effect(value, {11, 12}), in_effect(value, {11})) == ("digest", "")
    assert in_effect("digest", set()) == "digest"
    assert stored("", 12) == ""
    assert in_effect("digest@x", {12}) == ""
