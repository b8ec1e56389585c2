"""Parts of a file table: the same files whether gathered one part at a time or all at once."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.table.conftest import MakeFiles
from zlayout.table.state import FileTable

PATHS = ["d", "b", "é", "a", "cc", "c"]
KEYS = ["1", "", "2", "", "", "3"]


@pytest.fixture
def files(make_files: MakeFiles) -> FileTable:
    made = make_files({"a": ([5, 0, 3, None, 1, 2], [6, 1, 4, None, 2, 3])}, rows=[1, 2, 3, 4, 5, 6])
    return replace(made, path=pa.array(PATHS), version_key=pa.array(KEYS))


@pytest.mark.parametrize("parts", [[[3, 1], [0, 5, 4]], [[2]], [[0, 1, 2], [], [3, 4, 5]], [[0, 1, 2, 3, 4, 5]], []])
def test_a_split_table_has_the_files_of_each_part(files: FileTable, parts: list[list[int]]) -> None:
    split = files.split([np.array(part, np.int64) for part in parts])
    assert [part.path.to_pylist() for part in split] == [[PATHS[n] for n in part] for part in parts]
    assert [part.rows.tolist() for part in split] == [[n + 1 for n in part] for part in parts]
    lower = files.bounds["a"].lower.to_pylist()
    assert [part.bounds["a"].lower.to_pylist() for part in split] == [[lower[n] for n in part] for part in parts]
    assert [part.identity().to_pylist() for part in split] == [
        [f"{PATHS[n]}\0{KEYS[n]}" for n in part] for part in parts
    ]


def test_all_files_in_their_order_are_the_table_itself(files: FileTable) -> None:
    assert files.take(np.arange(6)) is files
    assert files.take(np.arange(6)[::-1]).path.to_pylist() == PATHS[::-1]
