"""Which layouts Iceberg's own rewrite can carry out."""

from typing import Any, cast

import pyarrow as pa
import pytest
from support.builders import make_file_table, make_layout, make_state, make_work

from zlayout.errors import Refused
from zlayout.formats.iceberg.backend import IcebergBackend
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
            BACKEND.refuse_native(work, STATE, declared=True)
    else:
        BACKEND.refuse_native(work, STATE, declared=True)


def test_compaction_alone_is_refused() -> None:
    layout = make_layout(curve="linear", engine="native", target_size=1000)
    assert [found.code for found in BACKEND.native_diagnostics(layout, STATE)] == ["ZL223"]  # no note about settings
    with pytest.raises(Refused, match="ZL223"):
        BACKEND.refuse_native(make_work(layout, covers_table=True), STATE, declared=True)
