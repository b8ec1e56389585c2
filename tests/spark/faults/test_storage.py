"""A disk that fills up and a folder that becomes read-only: the table stays as it was, and the next run finishes."""

from collections.abc import Callable

import pytest
from reliability import count
from spark.faults.audit import audit, converge, promised
from spark.faults.mounts import SmallDisk, small_disk
from spark.faults.points import run_with
from spark.faults.tables import Table, first_rows

FAULTS: dict[str, tuple[str, Callable[[SmallDisk], None], Callable[[SmallDisk], None]]] = {
    "full from the start": ("before write", SmallDisk.fill, SmallDisk.make_room),
    "full in the middle": ("before write", lambda disk: disk.fill(free_pages=3), SmallDisk.make_room),
    "full at the commit": ("before send", SmallDisk.fill, SmallDisk.make_room),
    "read-only from the start": ("before write", SmallDisk.forbid_writing, SmallDisk.allow_writing),
    "read-only after the write": ("before gate", SmallDisk.forbid_writing, SmallDisk.allow_writing),
    "read-only at the commit": ("before send", SmallDisk.forbid_writing, SmallDisk.allow_writing),
}
# `make test` has these, `make test-long` all.
DAILY = ("full in the middle", "full at the commit", "read-only at the commit")


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=() if fault in DAILY else pytest.mark.long) for fault in FAULTS]
)
def test_a_run_that_cannot_write_leaves_the_table_as_it_was(
    unmade: Table, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    table = unmade
    point, strike, repair = FAULTS[fault]
    with small_disk(table.folder) as disk, promised():
        table.create()
        row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version
        count("faults")
        applied = run_with(table, point, lambda: strike(disk), monkeypatch)
        assert applied.commits == []
        assert applied.error is not None
        # what failed while it was being sent is unknown, whatever the error was
        assert applied.error.diagnostics[0].code in ("ZL314", "ZL331") if point == "before send" else ("ZL314",)
        assert table.backend.observe(table.name, ()).version == version
        audit(table, first_rows(), row_ids)
        repair(disk)
        converge(table)
        audit(table, first_rows(), row_ids)
