"""Which layouts Iceberg's own rewrite can carry out."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_file_table, make_layout, make_state, make_work

from zlayout.errors import Refused
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.write.native import refuse_native
from zlayout.planner.work import Group
from zlayout.table.state import Column

COLUMNS = (Column("m", pa.decimal128(10, 2), True), Column("s.n", pa.int64(), True))
STATE = make_state(make_file_table([1]), format="iceberg", columns=COLUMNS)
BACKEND = IcebergBackend(cast(Any, None), cast(Any, None))


@pytest.mark.parametrize(("curve", "codes"), [("linear", []), ("zorder", ["ZL223"]), ("hilbert", ["ZL223"])])
@pytest.mark.parametrize("column", ["m", "s.n"])
def test_decimals_and_nested_columns_are_ordered_by_a_linear_curve_only(
    curve: str, codes: list[str], column: str
) -> None:
    """The plan says what the check before the first write says."""
    layout = make_layout(column, curve=curve, engine="native")
    notes = BACKEND.native_diagnostics(layout, STATE)
    assert [note.code for note in notes if note.severity == "refused"] == codes
    work = make_work(layout, covers_table=True)
    if codes:
        with pytest.raises(Refused, match="ZL223"):
            refuse_native(work, STATE)
    else:
        refuse_native(work, STATE)


@pytest.mark.parametrize(("outside", "refused"), [(499, True), (500, False)])
def test_compaction_alone_leaves_large_files_and_refuses_small_ones_that_are_not_planned(
    outside: int, refused: bool
) -> None:
    """The action selects the small files of the partitions itself."""
    state = make_state(make_file_table([1, 1, 1], bytes=[10, 10, outside]), format="iceberg")
    planned = Group("g", state.files.take(np.array([0, 1])), 1)
    work = make_work(make_layout(curve="linear", engine="native", target_size=1000), groups=[planned])
    if refused:
        with pytest.raises(Refused, match="ZL224"):
            refuse_native(work, state)
    else:
        refuse_native(work, state)
