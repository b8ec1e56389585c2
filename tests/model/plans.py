"""What the rewriters of the model are told to do: all files in `where` that are not laid out, in two groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from zlayout.formats.base import Group, Work
from zlayout.spec.model import Layout, TableName, ZorderColumn
from zlayout.table.state import FileTable, LayoutRecord, Partition, TableState

NAME = TableName("model", ("db",), "t")
COLUMNS = ("key",)
OUTSIDE = "outside"  # a file that the layout's `where` leaves alone


LAYOUT = Layout((ZorderColumn("key"),), "kd", 1000, False, 1 << 20, True, "zlayout")


def state_of(
    version: int,
    paths: Sequence[str],
    keys: Sequence[str],
    rows: Sequence[int],
    deleted: Sequence[int],
    laid_out: Sequence[bool],
) -> TableState:
    """An observation of the model's table. keys: what tells a file from the same with other deletes."""
    numbers = np.array(rows, np.int64)
    layout = np.where(np.array(laid_out, bool), 0, -1).astype(np.int32)
    files = FileTable(
        path=pa.array(paths, pa.string()),
        version_key=pa.array(keys, pa.string()),
        rows=numbers,
        deleted=np.array(deleted, np.int64),
        shared_deletes=np.zeros(len(paths), np.bool_),
        bytes=numbers,
        partition=np.zeros(len(paths), np.int32),
        partitions=(Partition(0, (), ()),),
        layout=layout,
        layouts=(LayoutRecord(LAYOUT.layout_id),),
        group=layout,
        bounds={},
    )
    return TableState(
        table=str(NAME),
        format="model",
        location="model",
        table_id="model",
        version=version,
        schema_digest="",
        columns=(),
        partition_fields=(),
        spec_id=0,
        properties={},
        features=frozenset(),
        refusals=(),
        files=files,
    )


def work_of(state: TableState) -> Work:
    """Two groups, each of half of the files; one where there is one file only."""
    files = state.files
    wanted = [
        at for at, path in enumerate(files.path.to_pylist()) if files.layout[at] < 0 and not path.startswith(OUTSIDE)
    ]
    half = len(wanted) // 2
    groups = tuple(
        Group(f"group-{number}", files.take(np.array(part, np.int64)), 1)
        for number, part in enumerate((wanted[:half], wanted[half:]))
        if part
    )
    return Work(NAME, LAYOUT, "", state.version, (), None, groups, covers_table=False)
