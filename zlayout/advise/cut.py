"""Where a table's writers would cut the text bounds of a rewrite, from the table's properties."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow.types as pt

from zlayout.plan.cut_bounds import worth_longer
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import LONG_BOUND, TableState

DELTA_DEFAULT = 32
ICEBERG_DEFAULT = 16
_DELTA = "delta.dataSkippingStringPrefixLength"
_ICEBERG = "write.metadata.metrics."
_TRUNCATE = re.compile(r"truncate\((\d+)\)")


def cuts(spec: LayoutSpec, state: TableState, columns: Sequence[str]) -> dict[str, int]:
    """Characters (bytes for binary) kept in a bound, for the text columns that are cut at all.

    spec: of the table or like it. Where a rewrite would first ask writers for bounds, or for longer ones, those count.
    """
    everything = [np.arange(len(state.files), dtype=np.int64)] if len(state.files) else []
    longer = {cut.column for cut in worth_longer(spec, state, everything)}
    found = {}
    for name in columns:
        column = state.column(name)
        if column is None or not (pt.is_string(column.type) or pt.is_binary(column.type)):
            continue
        long = {(_DELTA, str(LONG_BOUND)), (f"{_ICEBERG}column.{name}", f"truncate({LONG_BOUND})")}
        turned_on = not column.stats and bool(long & set(column.enable_stats))
        length = LONG_BOUND if name in longer or turned_on else _length(state, name)
        if length is not None:
            found[name] = length
    return found


def _length(state: TableState, name: str) -> int | None:
    if state.format == "delta":
        text = state.properties.get(_DELTA, "")
        return int(text) if text.isdecimal() else DELTA_DEFAULT
    default = state.properties.get(f"{_ICEBERG}default", f"truncate({ICEBERG_DEFAULT})")
    mode = state.properties.get(f"{_ICEBERG}column.{name}", default).strip().lower()
    match = _TRUNCATE.fullmatch(mode)
    return int(match[1]) if match else None if mode == "full" else ICEBERG_DEFAULT
