"""When other writers last wrote to the partitions of a Delta table whose files have times in the future."""

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import zlayout
from zlayout.planner.model import Wait

FAR = 4_102_444_800_000  # the year 2100
DAY = 24 * 3600
LAYOUT = "version: 1\ntable: lake.t\nzorder: {columns: [a]}\nfiles: {target_size: 1MiB}\n"


def commit(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two files in each of two partitions; the files of `p=wrong` have times in the future. Committed ten days ago."""
    (tmp_path / "zlayout.yaml").write_text("version: 1\ncatalogs:\n  lake: {format: delta, warehouse: .}\n")
    (tmp_path / "layouts").mkdir()
    (tmp_path / "layouts" / "t.yaml").write_text(LAYOUT)
    folder = tmp_path / "t"
    for version in range(2):
        rows = pa.table({"a": list(range(100)), "p": ["wrong"] * 50 + ["right"] * 50})
        write_deltalake(folder, rows, mode="append", partition_by=["p"])
        lines = [json.loads(line) for line in commit(folder, version).read_text().splitlines()]
        for line in lines:
            if "add" in line:
                past = int((time.time() - 10 * DAY) * 1000)
                line["add"]["modificationTime"] = FAR if "wrong" in line["add"]["path"] else past
        commit(folder, version).write_text("\n".join(map(json.dumps, lines)))
        os.utime(commit(folder, version), (time.time() - (10 - version) * DAY,) * 2)
    return folder


def planned(table: Path) -> tuple[list[str], int, list[str]]:
    """The partitions to rewrite, the number of those that wait, and the codes, with `--avoid-hot 1d`."""
    (plan,) = zlayout.plan(zlayout.load_project(table.parent), avoid_hot="1d").tables
    waiting = len(plan.that_wait(Wait.HOT).partition_numbers) if plan.that_wait(Wait.HOT) else 0
    return [group.partition for group in plan.groups], waiting, [d.code for d in plan.diagnostics]


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_file_of_the_future_counts_as_written_when_it_was_committed(table: Path, checkpoint: bool) -> None:
    if checkpoint:
        DeltaTable(table).create_checkpoint()
        for file in (table / "_delta_log").glob("*.checkpoint.parquet"):
            os.utime(file, (time.time() - 5 * DAY,) * 2)
    # The table is written again today, in another partition.
    write_deltalake(table, pa.table({"a": [1], "p": ["today"]}), mode="append")
    found, waiting, codes = planned(table)
    assert found == ["p=right", "p=wrong"]
    assert waiting == 0
    assert "ZL449" in codes
    (plan,) = zlayout.plan(zlayout.load_project(table.parent)).tables
    assert "ZL449" not in [d.code for d in plan.diagnostics]


def test_a_file_of_the_future_that_was_committed_today_waits(table: Path) -> None:
    os.utime(commit(table, 1))
    found, waiting, codes = planned(table)
    assert (found, waiting) == (["p=right"], 1)
    assert "ZL449" in codes
