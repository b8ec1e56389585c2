"""The length of the bounds that a rewrite would write."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from unit.advisor.tables import sample_of
from unit.planner.plans import SPEC, File, state

from zlayout.advisor.query_costs import rewrite_of_table
from zlayout.table.state import Column


@pytest.mark.parametrize(
    ("length", "enable", "expected"),
    [
        (40, (), 40),
        (None, (), None),
        (32, (("delta.dataSkippingNumIndexedCols", "3"), ("delta.dataSkippingStringPrefixLength", "256")), 256),
        (300, (("delta.dataSkippingNumIndexedCols", "3"),), 300),
        (None, (("write.metadata.metrics.column.s", "truncate(256)"),), 256),
    ],
)
def test_bounds_that_apply_turns_on_are_long_from_the_start(
    length: int | None, enable: tuple[tuple[str, str], ...], expected: int | None
) -> None:
    text = Column("s", pa.string(), True, not enable, enable, bound_length=length)
    table = replace(state(File(0, 9)), columns=(text,))
    (column,) = rewrite_of_table(SPEC, table, ("s",), sample_of({}, np.zeros(0, np.int64))).columns
    assert column.bound_length == expected
