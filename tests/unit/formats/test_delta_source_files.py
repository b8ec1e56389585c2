"""Groups whose files are all as they were planned, and the others."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_group, make_layout, make_work
from unit.planner.plans import File, state

from zlayout.formats.base import Group, PlannedTable
from zlayout.formats.delta.write.transaction import still_live

FILES = state(*(File(0, 9) for _ in range(7))).files
GROUPS = [
    make_group(name, FILES.take(np.array(index, np.int64)), 1)
    for name, index in (("a", [0, 1]), ("b", [2]), ("c", [3, 4, 5]))
]


def work(groups: Sequence[Group], *, rebases: bool = False) -> PlannedTable:
    return make_work(make_layout("a", target_size=1000), groups=groups, rebases=rebases)


@pytest.mark.parametrize("rebases", [False, True])
@pytest.mark.parametrize(
    ("gone", "changed"), [([], []), ([1], ["a"]), ([2], ["b"]), ([3, 5], ["c"]), ([0, 4], ["a", "c"]), ([6], [])]
)
def test_a_group_with_a_file_that_is_gone_has_changed(gone: list[int], changed: list[str], *, rebases: bool) -> None:
    live = FILES.take(np.setdiff1d(np.arange(7), gone))
    kept, lost = still_live(work(GROUPS, rebases=rebases), live)
    assert [g.id for g, _ in lost] == changed
    assert [g.id for g in kept] == [g.id for g in GROUPS if g.id not in changed]


def test_a_group_with_another_deletion_vector_has_changed() -> None:
    keys = FILES.version_key.to_pylist()
    keys[2] = "another"
    kept, lost = still_live(work(GROUPS), replace(FILES, version_key=pa.array(keys)))
    assert ([(g.id, count) for g, count in lost], len(kept)) == ([("b", 1)], 2)
    assert still_live(work([]), FILES) == ([], [])


def test_if_a_rewrite_can_be_rebased_the_group_has_its_present_deletion_vectors() -> None:
    order = np.array([6, 5, 4, 3, 2, 1, 0])
    keys, deleted = FILES.version_key.to_pylist(), FILES.deleted.copy()
    keys[2], deleted[2] = "another", 3
    live = replace(FILES, version_key=pa.array(keys), deleted=deleted).take(order)
    kept, lost = still_live(work(GROUPS, rebases=True), live)
    assert ([group.id for group in kept], lost) == ([group.id for group in GROUPS], [])
    assert [group.files.path.to_pylist() for group in kept] == [group.files.path.to_pylist() for group in GROUPS]
    (b,) = (group.files for group in kept if group.id == "b")
    assert (b.version_key.to_pylist(), b.deleted.tolist()) == (["another"], [3])
    assert still_live(work([], rebases=True), FILES) == ([], [])
