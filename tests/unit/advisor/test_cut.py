"""Where bounds of a rewrite would be cut."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from unit.planner.plans import SPEC, File, state

from zlayout.advisor.cut import cuts
from zlayout.table.state import Column


@pytest.mark.parametrize(
    ("cut", "enable", "expected"),
    [
        (40, (), 40),
        (None, (), None),
        (32, (("delta.dataSkippingNumIndexedCols", "3"), ("delta.dataSkippingStringPrefixLength", "256")), 256),
        (300, (("delta.dataSkippingNumIndexedCols", "3"),), 300),
        (None, (("write.metadata.metrics.column.s", "truncate(256)"),), 256),
    ],
)
def test_bounds_that_apply_turns_on_are_long_from_the_start(
    cut: int | None, enable: tuple[tuple[str, str], ...], expected: int | None
) -> None:
    text = Column("s", pa.string(), True, not enable, enable, cut=cut)
    table = replace(state(File(0, 9)), columns=(text,))
    assert cuts(SPEC, table, ("s", "a")) == ({} if expected is None else {"s": expected})
