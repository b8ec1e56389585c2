"""What a simulation takes from the layout spec: the declared layout, the base of a search, and lengths of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zlayout.errors import SpecError
from zlayout.planner.settings import partitioning
from zlayout.planner.truncated_bounds import worth_longer
from zlayout.planner.work import Capabilities
from zlayout.spec.defaults import DEFAULT_CURVE
from zlayout.spec.layout import CLUSTERING_CURVE, CURVES, Layout
from zlayout.spec.model import LayoutSpec
from zlayout.spec.semantics import check
from zlayout.table.state import LONG_BOUND, TableState, is_text


def fitting(spec: LayoutSpec, state: TableState) -> LayoutSpec:
    """Return the spec if it fits the table.

    Raises:
        SpecError: ZL012 and ZL033 to ZL036, with their locations, as `plan` reports them.
    """
    errors = [d for d in check(spec, state) if d.severity == "error"]
    if errors:
        raise SpecError(*errors)
    return spec


CLUSTERED = (
    "The table is liquid-clustered, and what its OPTIMIZE writes cannot be predicted. "
    "All simulated layouts use Hilbert curves and engine zlayout."
)


def declared_layout(
    spec: LayoutSpec, state: TableState, capabilities: Capabilities
) -> tuple[Layout | None, tuple[str, ...]]:
    """The declared layout, None if it cannot be simulated, and notes about it."""
    layout = spec.layout
    if not layout.columns:
        return None, ()
    if state.clustering:
        return None, (CLUSTERED,)
    notes: tuple[str, ...] = ()
    if layout.engine == "native":
        notes = ("The declared layout uses engine native. All simulated layouts use engine zlayout.",)
    if partitioning(spec, state) != state.partition_fields:
        why = "it changes the partitioning, and simulations keep the partitioning"
    elif not capabilities.can_predict(layout, state):
        why = f"the result of engine native of {capabilities.format} with curve {layout.curve} cannot be predicted"
    else:
        return layout, notes
    return None, (*notes, f"The declared layout is not simulated: {why}.")


def searched(spec: LayoutSpec, state: TableState) -> Layout:
    """The declared layout without columns, as a base for the layouts of the search.

    Engine and curve are zlayout and the declared curve. In a clustered table, they are those of its own OPTIMIZE.
    """
    if state.clustering:
        return replace(spec.layout, columns=(), curve=CLUSTERING_CURVE, engine="native")
    plain = spec.layout.orders and spec.layout.curve in CURVES
    curve = spec.layout.curve if plain else DEFAULT_CURVE["zlayout"]
    return replace(spec.layout, columns=(), curve=curve, cuts=(), engine="zlayout")


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
