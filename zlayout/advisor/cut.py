"""The length at which writers would truncate the string bounds of a rewrite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zlayout.planner.truncated_bounds import worth_longer
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import LONG_BOUND, TableState, is_text


def cuts(spec: LayoutSpec, state: TableState, columns: Sequence[str]) -> dict[str, int]:
    """Characters (bytes for binary) of a bound, for string columns whose bounds are truncated.

    spec: of the table, or a similar one. If a rewrite would first request bounds, which are long, or longer bounds, the
    new length counts.
    """
    everything = [np.arange(len(state.files), dtype=np.int64)] if len(state.files) else []
    longer = {cut.column for cut in worth_longer(spec, state, everything)}
    found = {}
    for name in columns:
        column = state.column(name)
        if column is None or not is_text(column.type):
            continue
        lengthened = name in longer or bool(column.enable_stats)
        length = max(LONG_BOUND, column.cut or 0) if lengthened else column.cut
        if length is not None:
            found[name] = length
    return found
