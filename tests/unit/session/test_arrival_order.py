"""A real Delta table with a partition for each day, whose files are in order of arrival: one column is useless."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

import zlayout

ROWS, DAYS = 2000, 4


def project(root: Path, files: int) -> zlayout.Project:
    random = np.random.default_rng(3)
    for day in range(DAYS):
        for hour in range(files):
            first = (day * files + hour) * ROWS
            columns = {"time": np.arange(first, first + ROWS), "customer": random.integers(0, 10**6, ROWS)}
            rows = pa.table({**columns, "day": pa.array([day] * ROWS, pa.int32())})
            write_deltalake(root / "t", rows, mode="append", partition_by=["day"])
    size = sum(file.stat().st_size for file in (root / "t").rglob("*.parquet")) // (DAYS * files)
    (root / "zlayout.yaml").write_text("version: 1\ncatalogs:\n  lake: {format: delta, warehouse: .}\n")
    (root / "layouts").mkdir()
    layout = f"version: 1\ntable: lake.t\nzorder: {{columns: [time, customer]}}\nfiles: {{target_size: {size}B}}\n"
    (root / "layouts" / "t.yaml").write_text(layout)
    return zlayout.load_project(root)


def test_six_files_a_day_in_order_of_arrival_are_not_as_declared(tmp_path: Path) -> None:
    found = project(tmp_path, 6)
    (plan,) = zlayout.plan(found).tables
    assert [(group.files, group.reason.value) for group in plan.groups] == [(6, "not_laid_out")] * DAYS
    assert zlayout.drift(found).drifted


def test_two_files_a_day_are_adopted_and_the_note_says_what_each_column_opens(tmp_path: Path) -> None:
    (plan,) = zlayout.plan(project(tmp_path, 2)).tables
    assert plan.status == "unchanged"
    (note,) = (d for d in plan.diagnostics if d.code == "ZL420")
    assert "opens 4.0 by time, 8.0 by customer of 8 files" in note.message
    assert "tolerance.touched" in note.hint
    assert "weight" in note.hint
