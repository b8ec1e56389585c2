"""Groups of a plan are committed in parts: which groups a part has, and what the reports state about parts."""

from dataclasses import replace
from typing import Literal

import pytest
from support.builders import make_bounds, make_file_table, make_layout, make_spec, make_state
from unit.planner.plans import DELTA, KIND

from zlayout.planner.diff import decide
from zlayout.planner.selection import acceptance
from zlayout.report.words import rewrite_text
from zlayout.table.state import Column, Partition, PartitionField, TableState

GIB = 2**30
DAYS = 5


def big_table() -> TableState:
    """Four overlapping files of 25 GiB in each of five days."""
    day = [d for d in range(DAYS) for _ in range(4)]
    files = make_file_table(
        [100] * len(day),
        bytes=25 * GIB,
        partition=day,
        partitions=[Partition(0, (PartitionField("d"),), (d,)) for d in range(DAYS)],
        bounds={"a": make_bounds([0] * len(day), [9] * len(day), KIND)},
    )
    columns = (Column("a", KIND, True), Column("d", KIND, True))
    return make_state(files, columns=columns, partition_fields=(PartitionField("d"),))


@pytest.mark.parametrize(
    ("engine", "max_group_size", "parts", "commits"),
    [
        ("zlayout", None, [2, 2, 1], ", 3 commits"),
        ("zlayout", 1000 * GIB, [5], ""),
        ("zlayout", 100 * GIB, [1] * 5, ", 5 commits"),
        ("native", None, [5], ""),
    ],
)
def test_partitions_are_committed_after_each_256_gib(
    engine: Literal["zlayout", "native"], max_group_size: int | None, parts: list[int], commits: str
) -> None:
    layout = make_layout("a", target_size=25 * GIB, engine=engine, curve="kd" if engine == "zlayout" else "zorder")
    spec = replace(make_spec(layout), max_group_size=max_group_size)
    decision = decide(spec, big_table(), DELTA)
    works = decision.in_parts(spec.commit_bytes)
    assert [len(work.groups) for work in works] == parts
    assert [work.accepts for work in works] == ["" for _ in parts[1:]] + [acceptance(spec)]
    assert [group for work in works for group in work.plan.groups] == list(decision.plan.groups)
    assert rewrite_text(decision.plan).endswith(f"files{commits}")
