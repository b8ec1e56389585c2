"""The work of the rewriters of the model: all files in `where` that are not laid out, in two groups."""

from collections.abc import Sequence

import numpy as np
from support.builders import make_file_table, make_group, make_layout, make_state, make_work

from zlayout.formats.base import PlannedTable
from zlayout.spec.model import TableName
from zlayout.table.state import LayoutRecord, TableState

NAME = TableName("model", ("db",), "t")
COLUMNS = ("key",)
OUTSIDE = "outside"  # a file that the layout's `where` leaves alone


LAYOUT = make_layout("key")


def state_of(
    version: int,
    paths: Sequence[str],
    keys: Sequence[str],
    rows: Sequence[int],
    deleted: Sequence[int],
    laid_out: Sequence[bool],
) -> TableState:
    """An observation of the model's table. keys: distinguish a file from the same file with other deletes."""
    layout = np.where(np.array(laid_out, bool), 0, -1)
    files = make_file_table(
        rows,
        path=paths,
        version_key=keys,
        deleted=deleted,
        bytes=rows,
        layout=layout,
        layouts=(LayoutRecord(LAYOUT.layout_id),),
        group=layout,
    )
    return make_state(files, table=str(NAME), format="model", table_id="model", version=version)


def work_of(state: TableState) -> PlannedTable:
    """Two groups, each of half of the files; one where there is one file only."""
    files = state.files
    wanted = [
        at for at, path in enumerate(files.path.to_pylist()) if files.layout[at] < 0 and not path.startswith(OUTSIDE)
    ]
    half = len(wanted) // 2
    groups = tuple(
        make_group(f"group-{number}", files.take(np.array(part, np.int64)), 1)
        for number, part in enumerate((wanted[:half], wanted[half:]))
        if part
    )
    return make_work(LAYOUT, NAME, groups=groups, version=state.version, table_id=state.table_id, rebases=True)
