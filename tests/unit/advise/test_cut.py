"""Where bounds of a rewrite would be cut."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from unit.plan.plans import SPEC, File, state

from zlayout.advise.cut import cuts
from zlayout.table.state import Column

PREFIX = ("delta.dataSkippingStringPrefixLength", "256")
TRUNCATE = ("write.metadata.metrics.column.s", "truncate(256)")


@pytest.mark.parametrize(
    ("format", "properties", "enable", "expected"),
    [
        ("delta", {}, None, 32),
        ("delta", {PREFIX[0]: "40"}, None, 40),
        ("delta", {}, (("delta.dataSkippingNumIndexedCols", "256"),), 32),
        ("delta", {}, (("delta.dataSkippingNumIndexedCols", "3"), PREFIX), 256),
        ("iceberg", {}, None, 16),
        ("iceberg", {"write.metadata.metrics.default": "none"}, (TRUNCATE,), 256),
        ("iceberg", {TRUNCATE[0]: "full"}, None, None),
    ],
)
def test_bounds_that_apply_turns_on_are_as_long_as_it_asks_for(
    format: str, properties: dict[str, str], enable: tuple[tuple[str, str], ...] | None, expected: int | None
) -> None:
    text = Column("s", pa.string(), True, enable is None, enable or ())
    table = replace(state(File(0, 9)), format=format, properties=properties, columns=(text,))
    assert cuts(SPEC, table, ("s", "a")) == ({} if expected is None else {"s": expected})
