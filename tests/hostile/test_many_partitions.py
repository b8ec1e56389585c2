"""A table with 50,000 partitions, each to be rewritten: its plan is written, read, shown and applied."""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hostile.asking import Answer, ask
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable, StoredFile
from support.projects import LAYOUT, write_project

from zlayout.formats.base import Commit, GroupFailed, Notify, PlannedTable
from zlayout.planner import document
from zlayout.table.state import LayoutRecord, Partition, PartitionField

PARTITIONS = 50_000
ROWS = pa.table({"a": pa.array(range(10), pa.int64())})


class OneCommit(MemoryBackend):
    """Rewrites all groups in one commit: the memory format keeps a whole table for each of its versions."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(MemoryCatalog({"db.orders": table}))
        self.table = table

    def execute(self, work: PlannedTable, notify: Notify) -> Iterator[Commit | GroupFailed]:  # noqa: ARG002
        record = LayoutRecord(work.layout.layout_id, work.layout.settings())
        old, new = [], []
        for group in work.groups:
            files = [self.table.current.files[path] for path in group.files.path.to_pylist()]
            rows = pa.concat_tables(file.live for file in files)
            old += files
            new.append(StoredFile(f"{group.id}.new", rows, files[0].partition, layout=record, group=group.id))
        version = self.table.replace_files(old, new)
        yield Commit(
            "rewrite", version, tuple(group.id for group in work.groups), len(old), len(new), rows=len(old) * 10
        )


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MemoryTable:
    """Two files in each partition, as the one table of the project in the current folder."""
    write_project(tmp_path, monkeypatch, LAYOUT)
    fields = (PartitionField("region"), PartitionField("day"))
    schema = ROWS.schema.append(pa.field("region", pa.string())).append(pa.field("day", pa.string()))
    stored = MemoryTable(schema, [field.source for field in fields])
    keys = [Partition(0, fields, ("eu-central-1", f"2026-{n:05}")) for n in range(PARTITIONS)]
    files = [StoredFile(f"{n}.{m}", ROWS, key) for n, key in enumerate(keys) for m in range(2)]
    stored.log[0] = replace(stored.log[0], files={file.path: file for file in files})
    backend = OneCommit(stored)
    monkeypatch.setattr("zlayout.session.plan.backend_for", lambda *_: backend)
    return stored


def timed(*arguments: str) -> Answer:
    begun = time.monotonic()
    answer = ask(*arguments)
    sys.stdout.write(f"zlayout {' '.join(arguments)}: {time.monotonic() - begun:.1f} s\n")
    return answer


@pytest.mark.long
def test_a_plan_of_many_partitions_is_written_read_shown_and_applied(table: MemoryTable) -> None:
    planned = timed("plan", "--out", "plan.json")
    assert planned.code == 0
    size = Path("plan.json").stat().st_size
    sys.stdout.write(f"plan of {PARTITIONS:,} groups: {size:,} bytes\n")
    assert size < document.MAX_BYTES
    shown = timed("show", "plan.json", "--report", "json=again.json", "--show-values")
    assert shown.code == 0
    assert " and 49,994 more " in " ".join(shown.out.split())
    assert len(shown.out.splitlines()) < 30, shown.out
    assert "50,000 of 50,000 partitions" in shown.out
    assert Path("again.json").read_text() == Path("plan.json").read_text()
    applied = timed("apply", "plan.json", "--auto-approve")
    assert applied.code == 0, applied.err
    assert len(table.current.files) == PARTITIONS
    assert sum(len(file.rows) for file in table.current.files.values()) == 2 * PARTITIONS * len(ROWS)
