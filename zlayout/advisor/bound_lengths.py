"""The length to which writers would truncate the string bounds of a rewrite."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zlayout.planner.truncated_bounds import worth_longer
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import LONG_BOUND, TableState, is_text


def bound_lengths(spec: LayoutSpec, state: TableState, columns: Sequence[str]) -> dict[str, int]:
    """The length in characters (bytes for binary) of the bounds that a rewrite would write.

    If a rewrite would first change the table properties so that writers keep bounds or longer bounds, this is the
    length afterwards.

    Args:
        spec: the spec of the table, or one with the layout to simulate.

    Returns:
        The length by column, for string and binary columns whose bounds would be truncated.
    """
    all_files = [np.arange(len(state.files), dtype=np.int64)] if len(state.files) else []
    longer = {bounds.column for bounds in worth_longer(spec, state, all_files)}
    found = {}
    for name in columns:
        column = state.column(name)
        if column is None or not is_text(column.type):
            continue
        lengthened = name in longer or bool(column.enable_stats)
        length = max(LONG_BOUND, column.bound_length or 0) if lengthened else column.bound_length
        if length is not None:
            found[name] = length
    return found
