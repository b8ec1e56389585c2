import pyarrow.compute as pc
import pytest
from contract import make_rows
from support.memory_format.store import MemoryTable, StoredFile, new_path

from zlayout.errors import CommitConflict


def test_replacing_files_that_changed_meanwhile_conflicts_and_appends_do_not() -> None:
    rows = make_rows(20)
    table = MemoryTable(rows.schema)
    table.append(rows, files=2)
    read = list(table.current.files.values())
    new = [StoredFile(new_path(), table.rows(), read[0].partition)]
    table.append(make_rows(5, start=20))
    table.delete(pc.field("id") == 3)
    with pytest.raises(CommitConflict, match="1 of 2 files changed"):
        table.replace_files(read, new)
    assert len(table.rows()) == 24
    read = [f for f in table.current.files.values() if f.path in {r.path for r in read}]
    table.replace_files(read, [StoredFile(new_path(), f.live, f.partition) for f in read])
    assert sorted(table.rows()["id"].to_pylist()) == [n for n in range(25) if n != 3]
