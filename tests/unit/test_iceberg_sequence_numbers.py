"""Files whose rows would get other sequence numbers are refused, also those whose commit is unknown."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from zlayout.errors import Refused
from zlayout.formats.iceberg.write.staging import require_sequence_numbers
from zlayout.spec.model import TableName

NAME = TableName("ice", ("db",), "t")


def check(iceberg: str, added: list[int], of_rows: list[int]) -> None:
    """Check files of a table that has row ids since snapshot 5. added, of_rows: their sequence numbers."""
    known = {"file sequence number": added, "data sequence number": of_rows}
    content = SimpleNamespace(files=lambda tasks: tasks, numbers=lambda _, field: np.array(known[field], np.int64))
    build = SimpleNamespace(version=lambda: iceberg)
    jvm: Any = SimpleNamespace(iceberg=SimpleNamespace(IcebergBuild=build), content=content)
    snapshots = [
        SimpleNamespace(sequenceNumber=lambda number=number: number, firstRowId=lambda row=row: row)
        for number, row in ((4, None), (5, 0), (6, 10))
    ]
    require_sequence_numbers(jvm, NAME, SimpleNamespace(snapshots=lambda: snapshots), object)


@pytest.mark.parametrize(("added", "of_rows"), [([2, 4], [2, 3]), ([-1, 2], [1, 2]), ([-1], [0])])
def test_files_are_refused_before_iceberg_1_12(added: list[int], of_rows: list[int]) -> None:
    with pytest.raises(Refused, match="ZL228"):
        check("1.11.0", added, of_rows)
    check("1.12.0", added, of_rows)


def test_files_with_the_numbers_of_their_rows_are_rewritten() -> None:
    check("1.11.0", [2, 3, 6], [2, 3, 4])
