"""The number of new files follows from live bytes, and everything that states it agrees.

An old wide file of which 95 % is deleted lies beside a narrow one. The share of live rows in both together says nothing
about bytes: nearly all rows are in the narrow file, and nearly all bytes in the wide one.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout, make_spec
from unit.planner.plans import DELTA, File, state

from zlayout.planner.decayed import gains, measured_groups
from zlayout.planner.diff import decide
from zlayout.planner.drawing import draw
from zlayout.planner.forecast import measure
from zlayout.planner.model import Reason
from zlayout.planner.select import arriving_files
from zlayout.planner.selection import Group
from zlayout.planner.simulation import Rewrite, simulate, targets_of
from zlayout.planner.work import PlanOptions
from zlayout.table.metrics import size_histogram
from zlayout.table.samples import KeySample, RowGroups
from zlayout.table.state import Column

MIB = 1 << 20
TARGET = 64 * MIB
SPEC = make_spec(make_layout("a", target_size=TARGET))
WIDE = File(0, 999, rows=1_000_000, deleted=950_000, bytes=1064 * MIB)
NARROW = File(0, 999, rows=20_000_000, bytes=10 * MIB)
LIVE = round(1064 * MIB * 0.05) + 10 * MIB
STATE = state(WIDE, NARROW, partitioned=False)
WHOLE = Group(np.arange(2), Reason.NOT_LAID_OUT)


def test_a_plan_has_one_group_for_one_file_and_forecasts_its_bytes() -> None:
    plan = decide(SPEC, STATE, DELTA).plan
    assert [(group.files, group.target_files) for group in plan.groups] == [(2, 1)]
    assert plan.files_after is not None
    assert (plan.files_after.low, plan.files_after.high) == (1, 1)
    (column,) = plan.columns
    assert (column.low, column.high) == (1.0, 1.0)
    assert (column.bytes_read.low, column.bytes_read.high) == (LIVE, LIVE)


STATED: dict[str, Callable[[], int]] = {
    "metrics": lambda: int(measure(STATE.files, SPEC).targets[0]),
    "decay": lambda: int(measured_groups(SPEC, STATE.files, measure(STATE.files, SPEC), [WHOLE]).written[0]),
    "moves": lambda: len(
        arriving_files(SPEC, STATE.files, [WHOLE], np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1))[0]
    ),
    "advice": lambda: int(targets_of(STATE.files, TARGET)[0]),
    "budget": lambda: decide(SPEC, STATE, DELTA, (), PlanOptions(max_rewrite_bytes=1)).plan.waiting[0].columns[0].high,
}


@pytest.mark.parametrize("place", STATED)
def test_everything_that_states_the_number_of_new_files_agrees(place: str) -> None:
    assert STATED[place]() == 1


def test_a_simulation_writes_one_file_of_the_live_bytes() -> None:
    nothing, values = np.zeros(0, np.int64), pa.array(np.arange(1000))
    sample = KeySample(
        keys={"a": values},
        file=np.repeat(np.arange(2), 500),
        row_group=np.repeat(np.arange(2), 500),
        row_groups=2,
        files=2,
        bytes_read=0,
        seed=3,
        complete=False,
        footers=RowGroups(nothing, nothing, nothing, {}),
    )
    targets = np.array([group.target_files for group in decide(SPEC, STATE, DELTA).groups])
    column = Column("a", pa.int64(), orderable=True)
    rewrite = Rewrite(SPEC.layout, STATE.files, np.zeros(2, np.int64), targets, (column,), (), sample)
    found = simulate(rewrite, rewrite.weights)
    assert found.files == 1
    assert found.bytes_read.tolist() == pytest.approx([LIVE])


def test_packing_counts_the_files_that_it_saves() -> None:
    deleted = (1064 * MIB - round(1064 * MIB * 0.05)) / TARGET
    spec = make_spec(make_layout(target_size=TARGET))
    assert gains(spec, STATE.files, [WHOLE])[0, 0] == pytest.approx(2 - 1 + deleted)


def test_a_picture_shows_one_file_of_the_live_bytes() -> None:
    picture = draw(SPEC, STATE, decide(SPEC, STATE, DELTA).groups, predictable=True)
    assert picture.after is not None
    assert (picture.after.files, picture.after.count) == (1, 1)
    expected = tuple((b.label, b.files) for b in size_histogram(np.array([LIVE]), TARGET))
    assert picture.sizes_after == expected


@pytest.mark.parametrize("live_mib", [1, 40, 95, 97, 640])
def test_files_without_deletions_are_as_before(live_mib: int) -> None:
    given = state(File(0, 9, bytes=live_mib * MIB // 2), File(0, 9, bytes=live_mib * MIB // 2), partitioned=False)
    assert measure(given.files, SPEC).targets.tolist() == [max(1, round(live_mib / 64))]
