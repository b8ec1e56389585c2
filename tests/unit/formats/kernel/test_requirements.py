"""Which files a command of a format may replace."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from support.builders import make_file_table, make_group, make_layout, make_work

from zlayout.errors import EngineError
from zlayout.formats.kernel.requirements import Replaced, require_only_planned
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.state import FileTable

PARTITIONS = [Partition(0, (PartitionField("p"),), (value,)) for value in ("x", "y")]


def files(paths: str, partition: Sequence[int]) -> FileTable:
    return make_file_table([1] * len(paths), path=[*paths], partition=partition, partitions=PARTITIONS)


# Files a and b are planned. The table also had c in another partition, then got d and e in both.
PLANNED, LATER = files("abc", [0, 0, 1]), files("abcde", [0, 0, 1, 0, 1])
GROUP = make_group("g", files("ab", [0, 0]), 1)


def replaced(*commits: Sequence[str], covers_table: bool = False) -> str:
    """The error for commits 8, 9 and so on, each with the paths that it removed; empty if there is none."""

    def files_at(version: int | None) -> FileTable:
        assert version == 7
        return LATER

    found = [Replaced(8 + at, 7, pa.array(paths, pa.string())) for at, paths in enumerate(commits)]
    work = make_work(make_layout("a"), groups=(GROUP,), covers_table=covers_table)
    try:
        require_only_planned(work, found, lambda: PLANNED, files_at, lambda _: [0])
    except EngineError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("paths", ["", "a", "ab", "abd"])
def test_planned_files_and_new_ones_of_their_partitions_may_be_replaced(paths: str) -> None:
    assert replaced([*paths]) == ""


@pytest.mark.parametrize(("paths", "number"), [("abc", 1), ("e", 1), ("abcde", 2), ("ax", 1)])
def test_any_other_file_is_an_error(paths: str, number: int) -> None:
    expected = f"ZL340 lake.db.t: version 8, committed by engine native, also replaced {number} files that are not part"
    assert replaced([*paths]).startswith(expected)


def test_every_commit_is_checked() -> None:
    assert "version 8, 10, committed by engine native, also replaced 3 files" in replaced(["c"], ["a"], ["b", "c", "e"])


def test_a_work_order_for_the_whole_table_allows_all_new_files() -> None:
    assert replaced([*"abde"], covers_table=True) == ""
    assert "replaced 1 files" in replaced([*"abcde"], covers_table=True)
