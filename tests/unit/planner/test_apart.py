"""What is rewritten in a partition does not depend on which other partitions the table has."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from unit.planner.plans import DELTA, SPEC, TARGET, File, state

from zlayout.planner.diff import PlannedTable, decide
from zlayout.table.state import FileTable

REGIONS = ("a", "b", "c", "d")
NEW, OTHER = -1, 1


def files_of(region: str) -> st.SearchStrategy[list[File]]:
    def made(low: int, width: int, layout: int, group: int, rows: int, deleted: int, size: int) -> File:
        number = 10 * REGIONS.index(region) + group
        return File(low, low + width, region, layout, -1 if layout == NEW else number, rows, min(deleted, rows), size)

    file = st.builds(
        made,
        st.integers(0, 60),
        st.sampled_from((0, 5, 60)),
        st.sampled_from((0, 0, 0, 0, NEW, NEW, OTHER)),
        st.integers(0, 2),
        st.integers(1, 100),
        st.sampled_from((0, 0, 0, 5, 100)),
        st.sampled_from((TARGET, TARGET, TARGET // 4)),
    )
    stuck = st.integers(2, 10).map(lambda count: stuck_in(region, count))
    return st.tuples(stuck | st.just([]), st.lists(file, min_size=1, max_size=8)).map(lambda both: [*both[0], *both[1]])


def stuck_in(region: str, count: int) -> list[File]:
    """Return the files of a rewrite that could not separate them, so that new files beside them need no other one."""
    return [File(0, 9, region, 0, 10 * REGIONS.index(region), 100, 0, TARGET)] * count


# Live bytes of the first region that are no whole number, and in the last one a rewrite of 1.5 files.
FRACTION = (
    [
        *stuck_in("a", 2),
        *[File(0, 0, "a", 0, 0, rows, dead, 1000) for rows, dead in ((1, 0),) * 4 + ((34, 5), (33, 33))],
    ],
    [File(0, 0, "b", 0, 10, 1, 0, 1000)],
    [*stuck_in("c", 2), File(0, 0, "c", 0, 20, 1, 0, 1000)],
    [
        *stuck_in("d", 2),
        *[File(0, 0, "d", NEW, -1, 1, 0, size) for size in (1000, 250)],
        File(0, 0, "d", 1, 30, 1, 0, 250),
    ],
)


TABLES = (st.tuples(*map(files_of, REGIONS)), st.sampled_from((1.2, 1.5, 2.0, 3.0)), st.randoms(use_true_random=False))


@example(FRACTION, 1.2, Random(0))
@given(*TABLES)
@settings(max_examples=60)
def test_partitions_are_decided_apart(regions: tuple[list[File], ...], touched: float, random: Random) -> None:
    check(regions, touched, random)


@pytest.mark.long
@given(*TABLES)
@settings(max_examples=1000)
def test_many_partitions_are_decided_apart(regions: tuple[list[File], ...], touched: float, random: Random) -> None:
    check(regions, touched, random)


def check(regions: tuple[list[File], ...], touched: float, random: Random) -> None:
    """Compare the decision on all partitions together with the decisions on each of them alone."""
    spec = replace(SPEC, tolerance=replace(SPEC.tolerance, touched=touched, unclustered=0.9, small_files=0.5))
    together = [file for files in regions for file in files]
    random.shuffle(together)
    both = decide(spec, state(*together), DELTA)
    apart = [decide(spec, state(*[f for f in together if f.region == r]), DELTA) for r in REGIONS]
    assert bounds_of(both) == sorted(bounds for alone in apart for bounds in bounds_of(alone))
    if both.groups:
        for end in ("low", "high"):
            columns = [column for alone in apart for column in alone.plan.columns]
            total = sum(c.touched if getattr(c, end) is None else getattr(c, end) for c in columns)
            assert getattr(both.plan.columns[0], end) == pytest.approx(total)


def bounds_of(decision: PlannedTable) -> list[list[object]]:
    """Return the partition, bounds, rows and laid-out group of the files of each group."""
    return sorted(
        [group.files.partitions[group.files.partition[0]].values, sorted(zip(*values_of(group.files), strict=True))]
        for group in decision.groups
    )


def values_of(files: FileTable) -> list[list[object]]:
    bounds = files.bounds["a"]
    return [bounds.lower.to_pylist(), bounds.upper.to_pylist(), files.rows.tolist(), files.group.tolist()]
